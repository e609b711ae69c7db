"""A real metastore that is restarted is known again; another one at its address is noticed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.hms import Hms
from topicast.tests.cli.processes import steady_port
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import make_table
from topicast.tests.hive.releases import home, real_metastore
from topicast.topics.objects.names import table_key
from topicast.topics.objects.values import decode_table_value

OTHER = "another metastore: its event " if home() is None else "another metastore: its UUID is "


@contextmanager
def metastore(folder: Path, *tables: str, port: int = 0) -> Iterator[tuple[str, int]]:
    """Run a metastore in ``folder`` with these new tables in ``d``; yield its URI and port."""
    with real_metastore(folder, port=port or steady_port(), durable=False) as running:
        got = int(running.uri.rpartition(":")[2])
        with HMSClient(host="127.0.0.1", port=got) as client:
            location = f"{running.warehouse}/d"
            if "d" not in client.get_all_databases():
                client.create_database(Database("d", "", location, {}))
            for name in tables:
                client.create_table(make_table("d", name, location=f"{location}/{name}"))
        yield running.uri, got


def test_restarted_metastore_is_the_same_and_one_with_more_events_is_another(
    tmp_path: Path,
) -> None:
    with metastore(tmp_path / "one", "t") as (uri, port):
        core = Alone(source=Hms(uri, timeout_s=30))
        core.turn(20)
        assert core.tables() == ["t"]
        epoch = core.catalog.position[0]
    core.turn(5)
    assert core.catalog.counts.polls_failed
    with metastore(tmp_path / "one", "u", port=port) as (again, _):
        assert again == uri
        core.turn(100)
        assert core.catalog.status().metastore_found.startswith("the same metastore: its event ")
        assert core.tables() == ["t", "u"]
        assert core.catalog.position[0] == epoch
    core.turn(5)
    with metastore(tmp_path / "two", "u", "v", "w", port=port) as (again, _):
        assert again == uri
        core.turn(100)
        assert core.catalog.status().metastore_found.startswith(OTHER)
        assert core.tables() == ["u", "v", "w"]
        assert core.catalog.position[0] > epoch
    core.metastore.close()


@pytest.mark.nightly  # the test before has another metastore at the same address
def test_second_address_with_another_metastore_is_noticed_and_so_is_the_way_back(
    tmp_path: Path,
) -> None:
    with ExitStack() as first, ExitStack() as second:
        uri, port = first.enter_context(metastore(tmp_path / "one", "t", "both"))
        other, _ = second.enter_context(metastore(tmp_path / "two", "u", "v", "both"))
        core = Alone(source=Hms(f"{uri},{other}", timeout_s=30))
        epochs = []

        def served() -> tuple[list[str], bool, bool]:
            """Return the tables, and whether the one that both have is that of one and two."""
            core.turn(100)
            epochs.append(core.catalog.position[0])
            _, topic = core.catalog.tables.topic_of(("d", "both"))
            value = next(e.value or b"" for e in topic.rows(table_key("d", "both")))
            thrift = decode_table_value(value).thrift
            return core.tables(), b"/one/" in thrift, b"/two/" in thrift

        assert served() == (["both", "t"], True, False)
        first.close()
        assert served() == (["both", "u", "v"], False, True)
        assert core.catalog.status().metastore_found.startswith(OTHER)
        first.enter_context(metastore(tmp_path / "one", "new", port=port))
        assert served() == (["both", "u", "v"], False, True), "it stays while the second answers"
        second.close()
        assert served() == (["both", "new", "t"], True, False)
        assert core.catalog.status().metastore_found.startswith(OTHER)
        assert epochs[0] < epochs[1] == epochs[2] < epochs[3]
        core.metastore.close()
