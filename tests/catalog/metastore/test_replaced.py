"""A real metastore that is restarted is known again; another at its address is noticed."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.follow.notes import Noted
from topicast.catalog.metastore.hms import Hms
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.processes import steady_port
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import make_table
from topicast.tests.hive.releases import home, real_metastore
from topicast.tests.integration.tables import connect
from topicast.topics.objects.encoding.values import decode_table_value
from topicast.topics.objects.names import table_key
from topicast.topics.wire.messages.catalog import Sync, Synced

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


def test_restarted_metastore_is_the_same_and_a_metastore_with_more_events_is_another(
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


@pytest.mark.nightly  # the first test has a metastore with more events
@pytest.mark.parametrize("restarts", [False, True], ids=["running", "with its store of before"])
@pytest.mark.parametrize("which", ["as many events", "an older copy"])
def test_metastore_that_has_no_more_events_is_noticed_too(
    which: str, restarts: bool, tmp_path: Path
) -> None:
    """Given objects of the same names, catalogd serves those of the present metastore alone."""
    one, two = tmp_path / "one", tmp_path / "two"
    with metastore(one, "t") as (uri, port):
        pass
    shutil.copytree(one, two)
    with metastore(one, "u", port=port):
        core = Alone(source=Hms(uri, timeout_s=30))
        core.turn(20)
        assert core.tables() == ["t", "u"]
        epoch = core.catalog.position[0]
    if restarts:
        core.catalogd.crash()
    else:
        core.turn(5)
    others = ["v"] if which == "as many events" else []
    with metastore(two, *others, port=port):
        if restarts:
            core.catalogd.revive()
        core.turn(100)
        assert core.catalog.status().metastore_found.startswith("another metastore: its ")
        assert core.tables() == ["t", *others]
        assert core.catalog.position[0] > epoch
    core.metastore.close()


@pytest.mark.nightly  # catalogd's core has a gap in a unit
@pytest.mark.skipif(home() is not None, reason="the SQL is that of the embedded one")
def test_events_that_were_cleaned_meanwhile_are_said_and_what_they_changed_is_reported(
    tmp_path: Path,
) -> None:
    """Given a log of which nothing is left that was known, the tables tell that it is the same."""
    with EmbeddedMetastore(tmp_path / "hive", durable=False) as hive, connect(hive.uri) as client:
        client.create_database(Database("d", "", f"{hive.warehouse}/d", {}))

        def create(name: str) -> None:
            where = f"{hive.warehouse}/d/{name}"
            client.create_table(make_table("d", name, location=where))

        for name in ("kept", "gone"):
            create(name)
        view = make_table("d", "seen", location="")
        view.sd.location = None
        view.tableType, view.viewOriginalText, view.viewExpandedText = "VIRTUAL_VIEW", "q", "q"
        client.create_table(view)
        core = Alone(source=Hms(hive.uri, timeout_s=30))
        core.turn(20)
        epoch = core.catalog.position[0]
        core.effects.clear()
        core.catalogd.crash()
        last = core.metastore.current_event_id()
        client.drop_table("d", "gone", False)
        create("new")
        hive.sql(f"DELETE FROM NOTIFICATION_LOG WHERE EVENT_ID <= {last + 2}")
        core.catalogd.revive()
        core.turn(100)
        found = core.catalog.status().metastore_found
        assert found.startswith("the same metastore: no known event is left, and ")
        assert (core.tables(), core.catalog.position[0]) == (["kept", "new", "seen"], epoch)
        said = [one.text for one in core.effects if isinstance(one, Noted) and one.trouble]
        missing = f"events {last + 1} to {last + 2} are missing"
        assert said == [f"{missing}: 3 tables are read again, and what is new"]
        changes = [change for one in core.committed for change in one.changes]
        assert sorted((change.object, str(change.kind)) for change in changes) == [
            ("d.gone", "dropped"),
            ("d.kept", "data"),  # an INSERT may have been among them
            ("d.new", "created"),
            ("d.new", "loaded"),
        ]
        core.answer_to(Sync(request=9), Synced, turns=20)
        core.metastore.close()
