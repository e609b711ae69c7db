"""What only Hive 3 and 4 do: they refuse events, have other catalogs, and record what they like."""

import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database
from thrift.Thrift import TMessageType, TType

from topicast.catalog.ingest.events.event_window import WINDOW_S
from topicast.catalog.ingest.events.poller import LISTENER_SETTING, REFUSED_S
from topicast.catalog.metastore.addresses import Addresses
from topicast.catalog.metastore.hms import Hms
from topicast.catalog.metastore.sasl import Plain
from topicast.catalog.reconcile.reconciliation import NAMES_S
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import Place, make_table, thrift_bytes
from topicast.tests.hive.releases import RealMetastore, ReleasedMetastore, home
from topicast.topics.errors import SourceError
from topicast.topics.objects.source_problem import ProblemKind
from topicast.topics.wire.messages.catalog import Sync, Synced
from topicast.topics.wire.messages.connection import Refused

OTHER = "other"
DATABASE_CATALOG, TABLE_CATALOG = 8, 17  # fields of the Thrift structs, which hmsclient lacks


@contextmanager
def following(uri: str) -> Iterator[Alone]:
    """Yield a catalogd that has read what the metastore at ``uri`` holds."""
    reads = Hms(uri, timeout_s=60)
    core = Alone(source=reads)
    core.turn(20)
    yield core
    reads.close()


def text(number: int, value: str) -> bytes:
    return struct.pack(">bhi", TType.STRING, number, len(value)) + value.encode()


def within(number: int, fields: bytes) -> bytes:
    return struct.pack(">bh", TType.STRUCT, number) + fields + b"\0"


def call(client: Any, method: str, argument: bytes) -> None:
    """Call a method that hmsclient does not know, or with a struct that has more fields."""
    out, into = client._oprot, client._iprot
    out.writeMessageBegin(method, TMessageType.CALL, 0)
    out.trans.write(within(1, argument) + b"\0")
    out.writeMessageEnd()
    out.trans.flush()
    into.readMessageBegin()
    into.readStructBegin()
    _, kind, _ = into.readFieldBegin()
    assert kind == TType.STOP, f"{method} was refused"
    into.readMessageEnd()


def in_other(value: object, number: int) -> bytes:
    """Return the fields of a struct, with its catalog."""
    return thrift_bytes(value)[:-1] + text(number, OTHER)


def test_refused_events_are_reported_with_the_setting_that_refuses_them(tmp_path: Path) -> None:
    """P-SYNC-3."""
    release = home()
    assert release is not None
    with (
        ReleasedMetastore(release, tmp_path / "hive", guarded=True) as metastore,
        following(metastore.uri) as core,
    ):
        core.wait(REFUSED_S + 10)
        problem = core.catalog.poller.source_problem
        assert problem is not None
        assert problem.kind is ProblemKind.REFUSED
        assert "hive.metastore.event.db.notification.api.auth=false" in problem.text
        answer = core.answer_to(Sync(request=9), Refused, turns=4)
        assert (answer.code, answer.message) == ("NO_EVENTS", problem.text)
        assert "api.auth=false" in core.reasons["metastore_names"], "none was ever read"


def test_table_of_another_catalog_that_is_dropped_changes_nothing(
    real_place: Place, hive: RealMetastore
) -> None:
    place, name = real_place, real_place.db
    place.table("u")
    where = f"{hive.warehouse}/{OTHER}"
    call(place.writes, "create_catalog", within(1, text(1, OTHER) + text(3, where)))
    database = Database(name, "", f"{where}/{name}", {})
    call(place.writes, "create_database", in_other(database, DATABASE_CATALOG))
    table = make_table(name, "u", location=f"{where}/{name}/u")
    call(place.writes, "create_table", in_other(table, TABLE_CATALOG))
    with following(hive.uri) as core:
        assert core.tables(name) == ["u"]
        events, committed = core.catalog.counts.events, len(core.committed)
        place.writes.drop_table(f"@{OTHER}#{name}", "u", False)
        core.wait(3)
        assert core.catalog.counts.events == events + 1
        assert (core.tables(name), len(core.committed)) == (["u"], committed)
        core.answer_to(Sync(request=9), Synced, turns=4)


@pytest.mark.skipif(
    not str(home()).endswith("4.0.1"), reason="Hive's own listener records everything"
)
def test_table_that_is_not_recorded_is_found_and_said(
    real_place: Place, hive: RealMetastore
) -> None:
    with following(hive.uri) as core:
        real_place.table("unrecorded")
        core.wait(3)
        assert core.tables(real_place.db) == []
        core.wait(NAMES_S + 1)
        assert core.tables(real_place.db) == ["unrecorded"]
        core.wait(2 * WINDOW_S)
        problem = core.reasons["metastore_events"]
        assert problem.startswith(f"table {real_place.db}.unrecorded is there, and no event")
        assert LISTENER_SETTING in problem


@pytest.mark.skipif("3.1.3" in str(home()), reason="only 4 can demand a password")
def test_metastore_that_demands_a_password_is_read_with_it(tmp_path: Path) -> None:
    release = home()
    assert release is not None
    with ReleasedMetastore(release, tmp_path, password=("etl", "right")) as metastore:
        for login, said in (
            (None, "hive_metastore_auth"),
            (Plain("etl", "wrong"), "PLAIN refused: Error validating the login"),
            (Plain("else", "right"), "PLAIN refused: Error validating the login"),
        ):
            refused = pytest.raises(SourceError, match=said)
            with logged_in(metastore.uri, login) as hms, refused:
                hms.databases()
        with logged_in(metastore.uri, Plain("etl", "right")) as hms:
            assert hms.databases() == ("default",)
            assert hms.current_event_id() >= 0


def logged_in(uri: str, login: Plain | None) -> "closing[Hms]":
    return closing(Hms(Addresses(uri, login=login), timeout_s=60))
