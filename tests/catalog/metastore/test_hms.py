"""Whatever a metastore does, or does not know, leaves Hms as an answer or as one of our errors."""

import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hmsclient.genthrift.fb303.FacebookService import getVersion_result as Version
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import (
    ConfigValSecurityException,
    CurrentNotificationEventId,
    Database,
    GetTableResult,
    GetTablesResult,
    MetaException,
    NoSuchObjectException,
    NotificationEvent,
    UnknownDBException,
)
from thrift.Thrift import TApplicationException

from topicast.catalog.metastore import hms as hms_module
from topicast.catalog.metastore.addresses import Addresses, parse_uris
from topicast.catalog.metastore.hms import Hms
from topicast.catalog.metastore.port import untried
from topicast.tests.catalog.metastore.thrift_server import ThriftServer, refusal, reply
from topicast.tests.cluster.fake_metastore import (
    make_partition,
    make_table,
    thrift_bytes,
)
from topicast.topics.errors import ConfigError, ObjectGone, SourceError, SourceRefused
from topicast.topics.objects.names import NULL_PARTITION

calls = ThriftHiveMetastore
TABLE = make_table("db", "t", location="file:/t", keys=("ds",))
Answer = Callable[[], bytes | None]


def returns(result: object) -> Answer:
    name = type(result).__name__.removesuffix("_result")
    return lambda: reply(name, thrift_bytes(result))


def answering(*results: object) -> dict[str, Answer]:
    return {type(r).__name__.removesuffix("_result"): returns(r) for r in results}


@contextmanager
def serving(answers: dict[str, Answer]) -> Iterator[tuple[ThriftServer, Hms]]:
    """Yield a server that gives these answers, and an Hms that calls it."""
    with ThriftServer(answers) as server:
        hms = Hms(server.uri, timeout_s=5)
        yield server, hms
        hms.close()


DATABASES = calls.get_all_databases_result(success=["db"])
UGI = calls.set_ugi_result(success=["me"])


def uuid_reply(field: bytes) -> Answer:
    return lambda: reply("get_metastore_db_uuid", field + b"\0")


UUID = "8bb4e8a6-1c0a-4f6f-9d53-0f5a1c2b3d4e"
UUID_ANSWERS = {
    "of Hive 3": (uuid_reply(b"\x0b\0\0" + len(UUID).to_bytes(4, "big") + UUID.encode()), UUID),
    "that is refused": (uuid_reply(b"\x0c\0\1" + thrift_bytes(MetaException("no"))), ""),
    "of Hive 2.3": (lambda: refusal("get_metastore_db_uuid"), ""),
}


def event_bytes(number: int, catalog: str = "") -> bytes:
    """The struct of an event, as servers of Hive 3 send it where ``catalog`` is given."""
    event = NotificationEvent(
        eventId=number, eventTime=5, eventType="DROP_TABLE", dbName="d", tableName="t", message="{}"
    )
    named = b"\x0b\0\x08" + len(catalog).to_bytes(4, "big") + catalog.encode()
    return thrift_bytes(event)[:-1] + (named if catalog else b"") + b"\0"


def events_reply(*events: bytes) -> Answer:
    listed = b"\x0f\0\x01\x0c" + len(events).to_bytes(4, "big") + b"".join(events)
    return lambda: reply("get_next_notification", b"\x0c\0\0" + listed + b"\0\0")


@pytest.mark.parametrize(
    ("database", "followed"),
    [
        (b"\x0b\0\x08\0\0\0\x05spark\0", "spark"),
        (b"\0", "hive"),
        (None, "hive"),
    ],
    ids=["named", "not named", "without a default database"],
)
def test_events_of_other_catalogs_are_marked(database: bytes | None, followed: str) -> None:
    """Given events in one log, then those of the default database's catalog are followed."""
    gone = calls.get_database_result(o1=NoSuchObjectException("default"))
    answers = {
        **answering(UGI, gone),
        "get_next_notification": events_reply(
            event_bytes(1), event_bytes(2, "hive"), event_bytes(3, "spark"), event_bytes(4, "third")
        ),
    }
    if database is not None:
        found = b"\x0c\0\0" + thrift_bytes(Database("default", "", "file:/d", {}))[:-1] + database
        answers["get_database"] = lambda: reply("get_database", found + b"\0")
    with serving(answers) as (_, hms):
        for _ in range(2):
            events = hms.events_after(0, events_max=9)
            assert [(one.id, one.catalog) for one in events] == [
                (1, ""),
                (2, "" if followed == "hive" else "hive"),
                (3, "" if followed == "spark" else "spark"),
                (4, "third"),
            ]
            assert {(one.type, one.db, one.table, one.message) for one in events} == {
                ("DROP_TABLE", "d", "t", "{}")
            }
            assert len({one.digest for one in events}) == 1, "as it was before catalogs were read"


@pytest.mark.parametrize("answer", [lambda: refusal("x", 6), lambda: reply("x", b"\0")])
def test_events_that_are_refused_or_absent_are_an_error(answer: Answer) -> None:
    answers = {**answering(UGI), "get_next_notification": answer}
    with serving(answers) as (_, hms), pytest.raises(SourceRefused, match="events after 0"):
        hms.events_after(0, events_max=9)


@pytest.mark.parametrize("case", UUID_ANSWERS)
def test_uuid_is_read_where_the_server_has_it(case: str) -> None:
    answer, uuid = UUID_ANSWERS[case]
    with serving({"get_metastore_db_uuid": answer, **answering(UGI, DATABASES)}) as (_, hms):
        assert hms.uuid() == uuid
        assert hms.databases() == ("db",)
        assert hms.connections == 1
        hms.close()
        assert hms.databases() == ("db",)
        assert hms.connections == 2


@pytest.mark.parametrize(
    ("said", "release", "doubtful"),
    [
        ("4.3.0", "4.3.0", True),
        ("4.2.0", "4.2.0", False),
        ("4.0.1", "4.0.1", False),
        ("3.0", "", False),
        (None, "", False),
    ],
)
def test_release_is_what_the_server_says_unless_every_release_said_so(
    said: str | None, release: str, doubtful: bool
) -> None:
    answer = {"getVersion": lambda: reply("getVersion", thrift_bytes(Version(success=said)))}
    with serving((answer if said else {}) | answering(UGI, DATABASES)) as (_, hms):
        assert hms.release() == release
        assert hms.databases() == ("db",)
    assert bool(untried(release)) is doubtful


@pytest.mark.parametrize(
    ("uris", "addresses"),
    [
        ("thrift://hms:9083", (("hms", 9083),)),
        (" thrift://a:1, thrift://b:2/,", (("a", 1), ("b", 2))),
        ("thrift://hms", (("hms", 9083),)),
        ("thrift://[::1]:7", (("::1", 7),)),
    ],
)
def test_addresses_are_read_from_uris(uris: str, addresses: tuple[tuple[str, int], ...]) -> None:
    assert parse_uris(uris) == addresses


@pytest.mark.parametrize(
    "uris",
    [
        "",
        " , ",
        "hms:9083",
        "http://hms:9083",
        "thrift://:9083",
        "thrift://hms:port",
        "thrift://hms:99999",
        "thrift://hms:9083/db",
        "thrift://hms:9083?x=1",
        "thrift://hms:9083#x",
        "thrift://me@hms:9083",
        "thrift://two words:9083",
        "thrift://a:1,nonsense",
        "thrift://[::1",
    ],
)
def test_bad_uri_is_refused_with_what_is_allowed(uris: str) -> None:
    with pytest.raises(ConfigError, match=r"hive_metastore_uris=.*thrift://HOST:PORT"):
        Hms(uris, timeout_s=1)


def test_addresses_are_tried_in_turn() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"thrift://127.0.0.1:{closed.getsockname()[1]}"
    with ThriftServer(answering(DATABASES, UGI)) as server:
        hms = Hms(f"{dead},{server.uri}", timeout_s=5)
        assert hms.databases() == ("db",)
        hms.close()


def test_metastore_that_is_away_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"thrift://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(SourceError, match=rf"no metastore reached: {dead} \(.*refused") as caught:
        Hms(dead, timeout_s=1).databases()
    assert caught.value.retriable


def test_metastore_that_hangs_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        uri = f"thrift://127.0.0.1:{hanging.getsockname()[1]}"
        with pytest.raises(SourceError, match=r"\(timed out\)"):
            Hms(uri, timeout_s=0.2).databases()


def silent() -> bytes:
    return b""


def test_read_that_takes_long_is_waited_for_while_its_server_answers_others() -> None:
    probed = threading.Event()

    def slow() -> bytes:
        assert probed.wait(60)
        return reply("get_all_databases", thrift_bytes(DATABASES))

    def status() -> bytes:
        probed.set()
        return refusal("getStatus")

    with (
        ThriftServer(answering(UGI) | {"get_all_databases": slow, "getStatus": status}) as server,
        ThriftServer({}) as other,
    ):
        hms = Hms(f"{server.uri},{other.uri}", timeout_s=60)
        assert hms.databases() == ("db",)
        assert other.called == []
        hms.close()


def test_server_that_answers_nothing_any_more_is_left_by_every_connection() -> None:
    """Given a server that takes connections and requests, as a stopped server does."""
    hung = {"get_all_databases": silent, "getStatus": silent}
    with (
        ThriftServer(answering(UGI) | hung) as stopped,
        ThriftServer(answering(UGI, DATABASES)) as well,
    ):
        addresses = Addresses(f"{stopped.uri},{well.uri}")
        first, second = (Hms(addresses, timeout_s=60) for _ in range(2))
        assert first.databases() == ("db",)
        tried = len(stopped.called)
        assert second.databases() == ("db",)
        assert len(stopped.called) == tried, "one of them found it dead for both"
        first.close()
        second.close()


def test_all_connections_move_to_the_address_that_one_of_them_moved_to() -> None:
    """Given another metastore behind the second address: who stays would not notice."""
    garbage = {"get_database": lambda: b"\xff" * 100}
    with (
        ThriftServer(answering(UGI, DATABASES) | garbage) as one,
        ThriftServer(answering(UGI, DATABASES)) as other,
    ):
        addresses = Addresses(f"{one.uri},{other.uri}")
        poller, reader = (Hms(addresses, timeout_s=5) for _ in range(2))
        poller.databases()
        reader.databases()
        assert (poller.connections, reader.connections, other.called) == (1, 1, [])
        with pytest.raises(SourceError):
            reader.database("db")
        reader.databases()
        assert other.called.count("get_all_databases") == 1
        poller.databases()
        assert other.called.count("get_all_databases") == 2
        before = poller.connections, reader.connections
        for each in (poller, reader, poller):
            each.databases()
        assert (poller.connections, reader.connections) == before, "they stay where they are"
        poller.close()
        reader.close()


def test_newest_id_that_does_not_come_is_read_at_the_next_address() -> None:
    """Given a server that answers probes, and whose database hangs."""
    newest = calls.get_current_notificationEventId_result(success=CurrentNotificationEventId(7))
    hung = {"get_current_notificationEventId": silent}
    with (
        ThriftServer(answering(UGI) | hung) as stuck,
        ThriftServer(answering(UGI, newest)) as well,
    ):
        hms = Hms(f"{stuck.uri},{well.uri}", timeout_s=60)
        began = time.monotonic()
        with pytest.raises(SourceError, match=rf"{stuck.uri}: timed out"):
            hms.current_event_id()
        assert hms.current_event_id() == 7
        assert time.monotonic() - began < 40, "not the 60 s of an answer"
        hms.close()


def test_newest_id_that_is_late_is_waited_for_longer_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a server that works on for each connection that is given up, as Hive 4.0.1 does."""
    monkeypatch.setattr(hms_module, "EVENT_ID_S_MAX", 0.1)
    newest = calls.get_current_notificationEventId_result(success=CurrentNotificationEventId(7))
    well = reply("get_current_notificationEventId", thrift_bytes(newest))
    hangs = [True] * 3 + [False] + [True]
    answers = {"get_current_notificationEventId": lambda: b"" if hangs.pop(0) else well}
    with serving(answering(UGI) | answers) as (_, hms):
        waited = []
        while hangs:
            began = time.monotonic()
            try:
                assert hms.current_event_id() == 7
            except SourceError as error:
                assert "timed out" in str(error)
                waited.append(time.monotonic() - began)
    assert all(took >= least for took, least in zip(waited, (0.1, 0.2, 0.4, 0.1), strict=True))
    assert waited[3] < 0.4, "an answer ends that"


def test_connection_that_died_while_idle_is_made_anew() -> None:
    with serving(answering(DATABASES, UGI)) as (server, hms):
        assert hms.databases() == ("db",)
        server.hang_up()
        assert hms.databases() == ("db",)


def test_call_that_kills_the_server_is_sent_twice_at_most() -> None:
    with serving(answering(DATABASES, UGI) | {"get_database": lambda: None}) as (server, hms):
        assert hms.databases() == ("db",)
        with pytest.raises(SourceError, match=r"cannot read database db at .*closed"):
            hms.database("db")
        assert server.called.count("get_database") == 2
        assert hms.databases() == ("db",)


@pytest.mark.parametrize("answer", [lambda: None, lambda: refusal("set_ugi"), lambda: b"\xff" * 99])
def test_server_that_takes_no_ugi_is_called_without(answer: Answer) -> None:
    with serving(answering(DATABASES) | {"set_ugi": answer}) as (server, hms):
        assert hms.databases() == ("db",)
        hms.close()
        assert hms.databases() == ("db",)
        assert server.called.count("set_ugi") == 2  # sent anew: it may be another server now


def test_exception_of_the_server_is_passed_on_in_its_words() -> None:
    failing = calls.get_database_result(o2=MetaException("the disk is full"))
    with serving(answering(DATABASES, UGI, failing)) as (server, hms):
        with pytest.raises(SourceRefused, match=rf"database db at {server.uri}: the disk is"):
            hms.database("db")
        assert hms.databases() == ("db",)
        assert server.called.count("set_ugi") == 1  # an exception is an answer: same connection


def settings(*values: str) -> Answer:
    """Answer each setting in the order in which they are asked for; '-' refuses it."""
    left = list(values)

    def answer() -> bytes:
        value = left.pop(0)
        if value == "-":
            o1 = ConfigValSecurityException("not for you")
            return reply("get_config_value", thrift_bytes(calls.get_config_value_result(o1=o1)))
        return reply("get_config_value", thrift_bytes(calls.get_config_value_result(value)))

    return answer


DB_LISTENER = "org.apache.hive.hcatalog.listener.DbNotificationListener"


@pytest.mark.parametrize(
    ("values", "recorded"),
    [
        ((DB_LISTENER,), True),
        (("", f"a.B,{DB_LISTENER}"), True),
        (("", "", DB_LISTENER), True),
        (("", "", "-", "-"), False),
        (("", "", "", ""), False),
        (("", "", "my.own.Listener", ""), None),
        (("-", "-", "-", "-"), None),
    ],
)
def test_metastore_says_by_its_listeners_whether_it_records_events(
    values: tuple[str, ...], recorded: bool | None
) -> None:
    answer = settings(*values)
    with serving(answering(UGI) | {"get_config_value": answer}) as (server, hms):
        assert hms.records_events() is recorded
        assert server.called.count("get_config_value") == len(values)


def test_metastore_without_settings_does_not_say_whether_it_records_events() -> None:
    with serving(answering(UGI)) as (_, hms):
        assert hms.records_events() is None


def test_refusal_of_events_names_the_settings_that_allow_them() -> None:
    def closed() -> bytes:
        return refusal("get_current_notificationEventId", TApplicationException.INTERNAL_ERROR)

    answers = answering(UGI) | {"get_current_notificationEventId": closed}
    with serving(answers) as (_, hms), pytest.raises(SourceRefused) as caught:
        hms.current_event_id()
    assert "hive.metastore.event.db.notification.api.auth=false" in str(caught.value)
    assert "hadoop.proxyuser." in str(caught.value)


def test_absent_object_is_gone() -> None:
    absent = calls.get_database_result(o1=NoSuchObjectException("no db"))
    with serving(answering(absent, UGI)) as (_, hms), pytest.raises(ObjectGone, match="no db"):
        hms.database("db")


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff" * 200,
        reply("get_database", b"\x0c\x00\x00\x0b\x00\x01\x7f\xff\xff\xff"),
        reply("get_database", b"\x63\x00\x00"),
    ],
)
def test_garbage_is_an_error_and_ends_the_connection(garbage: bytes) -> None:
    with ThriftServer(answering(DATABASES, UGI) | {"get_database": lambda: garbage}) as server:
        hms = Hms(server.uri, timeout_s=2)
        with pytest.raises(SourceError, match="cannot read database db") as caught:
            hms.database("db")
        assert type(caught.value) is SourceError
        assert hms.databases() == ("db",)
        hms.close()


BY_REQUEST = calls.get_table_objects_by_name_req_result(success=GetTablesResult([TABLE]))
BY_NAME = calls.get_table_objects_by_name_result(success=[TABLE])
ONE_BY_ONE = calls.get_table_req_result(success=GetTableResult(TABLE))


@pytest.mark.parametrize("way", [BY_REQUEST, BY_NAME, ONE_BY_ONE], ids=lambda way: str(type(way)))
def test_tables_are_read_by_the_way_that_the_server_has(way: object) -> None:
    with serving(answering(way, UGI)) as (server, hms):
        assert hms.tables("db", ["t"]) == {"t": thrift_bytes(TABLE)}
        tried = len(server.called)
        assert hms.tables("db", ["t"]) == {"t": thrift_bytes(TABLE)}
        assert len(server.called) == tried + 1  # it is remembered


ABSENT_TABLE = calls.get_table_req_result(o2=NoSuchObjectException("no t"))
ABSENT_DB = calls.get_table_objects_by_name_req_result(o3=UnknownDBException("no db"))


@pytest.mark.parametrize("absent", [ABSENT_TABLE, ABSENT_DB], ids=["tables", "database"])
def test_absent_tables_are_left_out(absent: object) -> None:
    with serving(answering(absent, UGI)) as (_, hms):
        assert hms.tables("db", ["t", "u"]) == {}


def test_server_without_any_way_to_read_tables_is_an_error() -> None:
    with (
        serving(answering(UGI)) as (_, hms),
        pytest.raises(SourceRefused, match="Invalid method name: 'get_table_req'"),
    ):
        hms.tables("db", ["t"])


def test_refusal_for_another_reason_is_not_taken_for_a_missing_method() -> None:
    def broken() -> bytes:
        kind = TApplicationException.INTERNAL_ERROR
        return refusal("get_table_objects_by_name_req", kind)

    answers = answering(BY_NAME, UGI) | {"get_table_objects_by_name_req": broken}
    with serving(answers) as (_, hms), pytest.raises(SourceRefused):
        hms.tables("db", ["t"])


@pytest.mark.parametrize(
    ("tables", "error"), [([TABLE], SourceRefused), ([], ObjectGone)], ids=["is there", "is gone"]
)
def test_refusal_to_list_partitions_says_whether_the_table_is_gone(
    tables: list[object], error: type[SourceError]
) -> None:
    """Given a metastore 2.3, which answers with an internal error when a table is gone."""
    refused = calls.get_partition_names_result(o2=MetaException("internal error"))
    found = calls.get_table_objects_by_name_result(success=tables)
    with serving(answering(UGI, refused, found)) as (_, hms), pytest.raises(error) as caught:
        hms.partition_names("db", "t")
    assert type(caught.value) is error


def test_names_come_with_types_or_without_where_the_server_has_none() -> None:
    names = calls.get_all_tables_result(success=["t", "u"])
    with serving(answering(UGI, names)) as (server, hms):
        assert hms.table_names("db") == (("t", ""), ("u", ""))
        tried = len(server.called)
        hms.table_names("db")
        assert server.called[tried:] == ["get_all_tables"]  # what the server lacks is remembered
    typed = calls.get_tables_by_type_result(success=["t", "gone"])
    with serving(answering(UGI, names, typed)) as (_, hms):
        assert hms.table_names("db") == (("t", "MATERIALIZED_VIEW"), ("u", ""))
    refused = calls.get_tables_by_type_result(o1=MetaException("No enum constant"))
    with serving(answering(UGI, names, refused)) as (_, hms):
        assert hms.table_names("db") == (("t", ""), ("u", "")), "names are read all the same"
    none = calls.get_all_tables_result(success=[])
    with serving(answering(UGI, none)) as (server, hms):
        assert hms.table_names("db") == ()
        assert server.called[-1] == "get_all_tables", "a database without tables takes one call"


PLAIN, DASHED = make_partition(TABLE, ["1"]), make_partition(TABLE, ["a b"])
AT_ONCE = calls.get_partitions_result(success=[PLAIN])
LIMITED = calls.get_partitions_result(o2=MetaException("requested 4, the limit is 2"))
HAS = calls.get_table_objects_by_name_result(success=[TABLE])


def names_of(*names: str) -> object:
    return calls.get_partition_names_result(success=[*names])


def by_names_of(*partitions: object) -> object:
    return calls.get_partitions_by_names_result(success=[*partitions])


def all_of(hms: Hms) -> tuple[tuple[str, ...], dict[str, bytes] | None]:
    return hms.all_partitions("db", "t", ["ds"], partitions_max=3)


def test_all_partitions_of_a_table_are_read_by_one_call() -> None:
    with serving(answering(UGI, AT_ONCE)) as (server, hms):
        assert all_of(hms) == (("ds=1",), {"ds=1": thrift_bytes(PLAIN)})
        assert server.called[-1:] == ["get_partitions"]
        assert "get_partition_names" not in server.called


def test_server_that_refuses_a_call_for_all_partitions_is_asked_for_names_first() -> None:
    """Given hive.metastore.limit.partition.request, then it is so until another server answers."""
    answers = (UGI, LIMITED, HAS, names_of("ds=1"), by_names_of(PLAIN))
    with serving(answering(*answers)) as (server, hms):
        for _ in range(2):
            assert all_of(hms) == (("ds=1",), {"ds=1": thrift_bytes(PLAIN)})
        assert server.called.count("get_partitions") == 1
        hms.close()
        all_of(hms)
        assert server.called.count("get_partitions") == 2


def test_partition_that_cannot_be_read_is_no_reason_to_list_names_of_other_tables() -> None:
    refused = calls.get_partitions_by_names_result(o1=MetaException("no such serde"))
    with serving(answering(UGI, LIMITED, HAS, names_of("ds=1"), refused)) as (server, hms):
        for tried in (1, 2):
            with pytest.raises(SourceRefused):
                all_of(hms)
            assert server.called.count("get_partitions") == tried


def test_names_that_servers_escape_in_different_ways_are_listed() -> None:
    read = calls.get_partitions_result(success=[PLAIN, DASHED])
    made = {"ds=1": thrift_bytes(PLAIN), "ds=a b": thrift_bytes(DASHED)}
    with serving(answering(UGI, read, names_of("ds=1", "ds=a b"))) as (server, hms):
        assert all_of(hms) == (("ds=1", "ds=a b"), made)
        assert "get_partitions_by_names" not in server.called
    others = names_of("ds=1", "ds=a%20b"), by_names_of(DASHED)
    with serving(answering(UGI, read, *others)) as (server, hms):
        names, structs = all_of(hms)
        assert names == ("ds=1", "ds=a%20b")
        assert structs is not None
        assert structs["ds=a%20b"] == thrift_bytes(DASHED)


def test_connection_that_waits_for_its_next_request_keeps_no_reply() -> None:
    wide = make_partition(TABLE, ["1"])
    wide.parameters = {"wide": "x" * (4 << 20)}
    listed = calls.get_partitions_by_names_result(success=[wide])
    with serving(answering(UGI, listed)) as (_, hms):
        tracemalloc.start()
        try:
            read = [len(one) for one in hms.partitions("db", "t", ["ds=1"]).values()]
            kept = tracemalloc.take_snapshot()
        finally:
            tracemalloc.stop()
    assert read == [len(thrift_bytes(wide))]
    by_capture = kept.filter_traces([tracemalloc.Filter(True, "*/capture.py")])
    assert sum(one.size for one in by_capture.traces) < 1 << 20


def test_partitions_whose_names_the_server_escapes_in_another_way_are_read_one_by_one() -> None:
    partition = make_partition(TABLE, ["a b"])
    listed = calls.get_partitions_by_names_result(success=[partition])
    with serving(answering(UGI, listed)) as (server, hms):
        found = hms.partitions("db", "t", ["ds=a%20b"])
        assert found == {"ds=a%20b": thrift_bytes(partition)}
        assert server.called[-2:] == ["get_partitions_by_names"] * 2


def test_partition_that_is_renamed_while_it_is_read_changes_no_other() -> None:
    """Given a value that is empty: read by its partition's name, it would not come as it is."""
    empty, renamed = make_partition(TABLE, [""]), make_partition(TABLE, ["new"])
    answers = iter([[empty, renamed], []])

    def next_answer() -> bytes:
        result = calls.get_partitions_by_names_result(success=next(answers))
        return reply("get_partitions_by_names", thrift_bytes(result))

    with serving(answering(UGI) | {"get_partitions_by_names": next_answer}) as (_, hms):
        name = f"ds={NULL_PARTITION}"
        found = hms.partitions("db", "t", [name, "ds=old"])
        assert found == {name: thrift_bytes(empty)}


def test_database_is_passed_on_as_the_server_wrote_it() -> None:
    database = Database("db", "text", "file:/db", {"k": "v"})
    with serving(answering(UGI, calls.get_database_result(success=database))) as (_, hms):
        assert hms.database("db") == thrift_bytes(database)


def test_close_wakes_a_thread_that_waits_for_a_reply() -> None:
    asked, failed = threading.Event(), []

    def silent() -> bytes:
        asked.set()
        return b""

    with ThriftServer(answering(UGI) | {"get_database": silent}) as server:
        hms = Hms(server.uri, timeout_s=60)

        def wait() -> None:
            try:
                hms.database("db")
            except SourceError as error:
                failed.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert asked.wait(60)
        hms.close()
        waiting.join(10)
        assert len(failed) == 1
        hms.close()
