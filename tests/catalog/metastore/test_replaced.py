"""A real metastore that is restarted is known again; another one at its address is noticed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.hms import Hms
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import make_table
from topicast.tests.hive.releases import home, real_metastore

OTHER = "another metastore: its event " if home() is None else "another metastore: its UUID is "


@contextmanager
def metastore(folder: Path, *tables: str, port: int = 0) -> Iterator[tuple[str, int]]:
    """Run a metastore in ``folder`` with these new tables in ``d``; yield its URI and port."""
    with real_metastore(folder, port=port, durable=False) as running:
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
