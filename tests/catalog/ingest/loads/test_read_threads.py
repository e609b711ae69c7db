"""Reading: the calls that an order needs are made, no more; answers and failures are facts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Barrier

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.ingest.events.identity import Identified, Identify
from topicast.catalog.ingest.events.poller import POLL_EVENTS_MAX, Poll, Polled, PollFailed
from topicast.catalog.ingest.loads import read_threads as reading
from topicast.catalog.ingest.loads.read_threads import Answer, ReadThreads, perform
from topicast.catalog.metastore.port import (
    COMPARING,
    ListingFailed,
    ListNames,
    NamesListed,
    NamesRead,
    RawEvent,
    Read,
    ReadDone,
    ReadFailed,
    ReadNames,
    TableRead,
    TableRequest,
)
from topicast.catalog.model.namespace import names_sum
from topicast.tests.cluster.fake_metastore import (
    TIME_S,
    FakeMetastore,
    make_partition,
    make_table,
)
from topicast.tests.waiting import until
from topicast.topics.errors import ObjectGone, SourceError, SourceRefused


@pytest.fixture
def metastore() -> FakeMetastore:
    """A metastore with ``d.flat`` and ``d.t``, which has partitions ds=1 and ds=2."""
    fake = FakeMetastore()
    fake.create_database(Database("d", "", "file:/d", {}))
    fake.create_table(make_table("d", "flat", location="file:/d/flat"))
    table = make_table("d", "t", location="file:/d/t", keys=("ds",))
    fake.create_table(table)
    fake.add_partitions([make_partition(table, [value]) for value in ("1", "2")])
    return fake


def poll(*, after: int = 0, quiet_at: int | None = None, events_max: int = 9) -> Poll:
    return Poll(poll=3, after=after, quiet_at=quiet_at, events_max=events_max)


def want(
    table: str, *names: str, db: str = "d", obj: bool = True, whole: bool = False
) -> TableRequest:
    return TableRequest(db=db, table=table, obj=obj, whole=whole, names=names)


def read(metastore: FakeMetastore, one: TableRequest) -> TableRead:
    done = perform(metastore, Read(read=5, requests=(one,)))
    assert isinstance(done, ReadDone)
    assert done.read == 5
    assert list(done.tables) == [(one.db, one.table)]
    return done.tables[one.db, one.table]


# -- polls


def test_poll_reads_the_newest_id_before_the_events(metastore: FakeMetastore) -> None:
    found = perform(metastore, poll(after=1, events_max=2))
    assert isinstance(found, Polled)
    assert (found.poll, found.current_id) == (3, 4)
    assert [event.id for event in found.events] == [2, 3]
    assert metastore.calls == ["current_event_id", "events_after"]


def test_poll_reads_only_the_newest_id_where_no_event_can_be_new(metastore: FakeMetastore) -> None:
    found = perform(metastore, poll(quiet_at=4))
    assert found == Polled(poll=3, connection=1, current_id=4, events=())
    assert metastore.calls == ["current_event_id"]


# -- what is behind a connection


def test_check_reads_what_identifies_a_metastore(metastore: FakeMetastore) -> None:
    metastore.known_as = "one"
    tables = (("d", "t"), ("gone", "t"), ("d", "gone"))
    found = perform(metastore, Identify(poll=3, after=1, events_max=2, tables=tables))
    assert isinstance(found, Identified)
    assert (found.poll, found.connection, found.uuid, found.current_id) == (3, 1, "one", 4)
    assert [event.id for event in found.events] == [2, 3]
    assert found.tables == {("d", "t"): TIME_S}


def test_check_reads_as_many_events_as_a_poll_if_many_wait(metastore: FakeMetastore) -> None:
    for _ in range(POLL_EVENTS_MAX + 1):
        metastore.alter_table("d", "t", metastore.get_table("d", "t"))
    for behind, count in ((True, POLL_EVENTS_MAX + 3), (False, 2)):
        found = perform(metastore, Identify(poll=3, after=2, events_max=2, behind=behind))
        assert isinstance(found, Identified)
        assert len(found.events) == count


def test_check_counts_a_table_that_cannot_be_read_as_there(metastore: FakeMetastore) -> None:
    metastore.unreadable["t"] = "corrupt"
    found = perform(metastore, Identify(poll=3, after=0, tables=(("d", "t"), ("d", "gone"))))
    assert isinstance(found, Identified)
    assert found.tables == {("d", "t"): None}


@pytest.mark.parametrize("order", [poll(), Identify(poll=3, after=0)], ids=["poll", "check"])
def test_answers_of_two_connections_are_never_one(order: Poll | Identify) -> None:
    class Replaced(FakeMetastore):
        def events_after(self, event_id: int, *, events_max: int) -> tuple[RawEvent, ...]:
            self.become(FakeMetastore())
            return super().events_after(event_id, events_max=events_max)

    found = perform(Replaced(), order)
    assert isinstance(found, PollFailed)
    assert found.error == "the connection to the metastore was lost between two calls"


# -- reads


def test_databases_are_read_and_those_that_are_gone_are_none(metastore: FakeMetastore) -> None:
    done = perform(metastore, Read(read=5, databases=("d", "gone")))
    assert isinstance(done, ReadDone)
    assert done.databases == {"d": metastore.database("d"), "gone": None}


def test_tables_of_one_database_are_read_together(metastore: FakeMetastore) -> None:
    wants = (want("flat"), want("t"), want("gone"), want("x", db="gone"))
    done = perform(metastore, Read(read=5, requests=wants))
    assert isinstance(done, ReadDone)
    assert metastore.calls == ["tables", "tables"]
    structs = metastore.tables("d", ["flat", "t"])
    assert done.tables == {
        ("d", "flat"): TableRead(thrift=structs["flat"]),
        ("d", "t"): TableRead(thrift=structs["t"]),
        ("d", "gone"): TableRead(),
        ("gone", "x"): TableRead(),
    }


ALL = ("ds=1", "ds=2")


@pytest.mark.parametrize(
    ("one", "calls", "struct", "names", "partitions"),
    [
        (want("t", "ds=2", "ds=9", obj=False), "partitions", False, None, ["ds=2"]),
        (want("t", whole=True), "tables all_partitions", True, ALL, ALL),
        (want("t", obj=False, whole=True), "all_partitions", False, ALL, ALL),
        (want("empty", whole=True), "tables all_partitions", True, (), ()),
        (want("flat", whole=True), "tables", True, (), ()),
        (want("gone", "ds=1", obj=False), "partitions", False, None, ()),
        (want("gone", obj=False, whole=True), "all_partitions", False, None, ()),
        (want("gone"), "tables", False, None, ()),
    ],
    ids=[
        "named partitions without the table",
        "a whole table with every partition",
        "all partitions of a loading table",
        "no partitions to read",
        "no partition keys: no names to read",
        "partitions of a table that is gone",
        "all partitions of a table that is gone",
        "a table that is gone",
    ],
)
def test_read_makes_the_calls_that_its_request_needs(
    metastore: FakeMetastore,
    *,
    one: TableRequest,
    calls: str,
    struct: bool,
    names: tuple[str, ...] | None,
    partitions: Sequence[str],
) -> None:
    metastore.create_table(make_table("d", "empty", location="file:/d/e", keys=("ds",)))
    found = read(metastore, one)
    assert metastore.calls == calls.split()
    assert (found.thrift is not None, found.names) == (struct, names)
    assert found.whole is (names is not None)
    assert found.partitions == (metastore.partitions("d", "t", partitions) if partitions else {})


def test_table_of_very_many_partitions_comes_with_their_names(
    metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WHOLE_PARTITIONS_MAX", 1)
    found = read(metastore, want("t", whole=True))
    assert (found.names, found.partitions, found.whole) == (("ds=1", "ds=2"), {}, False)
    assert found.thrift is not None


def test_table_that_goes_between_its_struct_and_its_partitions_is_gone(
    metastore: FakeMetastore,
) -> None:
    class Going(FakeMetastore):
        def all_partitions(
            self, db: str, table: str, *_: object, **__: object
        ) -> tuple[tuple[str, ...], None]:
            raise ObjectGone(f"{db}.{table}")

    going = Going()
    going.create_table(metastore.get_table("d", "t"))
    assert read(going, want("t", whole=True)) == TableRead()


@pytest.mark.parametrize(
    ("failure", "away"), [(SourceError("down"), True), (SourceRefused("no"), False)]
)
def test_failed_read_says_whether_the_metastore_was_reached(
    metastore: FakeMetastore, failure: SourceError, away: bool
) -> None:
    metastore.failures.append(failure)
    fact = perform(metastore, Read(read=5, requests=(want("t"),)))
    assert fact == ReadFailed(read=5, error=str(failure), away=away)


@pytest.mark.parametrize("whole", [True, False])
def test_table_whose_text_cannot_be_read_counts_as_refused(
    metastore: FakeMetastore, whole: bool
) -> None:
    """Given bytes that are no UTF-8, then a reader's thread lives on, and so does the core."""

    class Broken(FakeMetastore):
        def tables(self, db: str, names: object) -> dict[str, bytes]:
            return {"t": metastore.tables(db, ["t"])["t"].replace(b"tester", b"test\xff\xff")}

    fact = perform(Broken(), Read(read=5, requests=(want("t", whole=whole),)))
    assert isinstance(fact, ReadFailed)
    assert not fact.away


def test_table_that_is_only_compared_is_not_decoded(
    metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(_: bytes) -> object:
        raise AssertionError("it was decoded")

    monkeypatch.setattr(reading, "read_struct", decode)
    with pytest.raises(AssertionError, match="was decoded"):
        perform(metastore, Read(read=COMPARING + 1, requests=(want("t"),)))
    fact = perform(metastore, Read(read=COMPARING, requests=(want("t"),)))
    assert isinstance(fact, ReadDone)


# -- names


def test_names_of_every_database_are_listed(metastore: FakeMetastore) -> None:
    found = perform(metastore, ReadNames(typed=True))
    assert isinstance(found, NamesRead)
    assert list(found.databases) == ["d", "default"]
    struct, tables = found.databases["d"]
    assert struct == metastore.database("d")
    assert dict(tables) == {"flat": "EXTERNAL_TABLE", "t": "EXTERNAL_TABLE"}
    metastore.calls.clear()
    found = perform(metastore, ReadNames())
    assert isinstance(found, NamesRead)
    assert dict(found.databases["d"][1]) == {"flat": "", "t": ""}
    assert "table_names" not in metastore.calls, "types take four calls more"


def test_names_are_listed_in_portions_unless_an_order_wants_them(
    metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LISTED_DATABASES_MAX", 1)
    first, last, whole, one = (
        perform(metastore, order)
        for order in (ReadNames(), ReadNames(after="d"), ReadNames(job=1), ReadNames(job=1, db="d"))
    )
    assert isinstance(first, NamesRead)
    assert (list(first.databases), first.upto, first.total) == (["d"], "d", 2)
    assert isinstance(last, NamesRead)
    assert (list(last.databases), last.upto, last.total) == (["default"], "", 2)
    assert isinstance(whole, NamesRead)
    assert (list(whole.databases), whole.upto) == (["d", "default"], "")
    assert isinstance(one, NamesRead)
    assert (list(one.databases), one.upto) == (["d"], "")


def test_database_that_is_dropped_while_names_are_listed_is_left_out(
    metastore: FakeMetastore,
) -> None:
    class Dropping(FakeMetastore):
        def databases(self) -> tuple[str, ...]:
            return (*super().databases(), "gone")

    found = perform(Dropping(), ReadNames())
    assert isinstance(found, NamesRead)
    assert list(found.databases) == ["default"]


def test_names_of_some_databases_are_listed_after_one(metastore: FakeMetastore) -> None:
    found = perform(metastore, ListNames(after="d"))
    assert found == NamesListed(
        databases=("default", "d"), tables={"default": ()}, sums={"default": 0}
    )
    found = perform(metastore, ListNames())
    assert isinstance(found, NamesListed)
    assert sorted(found.tables["d"]) == ["flat", "t"]
    assert found.sums["d"] == names_sum(["t", "flat"])
    assert "table_names" not in metastore.calls, "types take four calls more"
    metastore.failures.append(SourceError("down"))
    assert perform(metastore, ListNames()) == ListingFailed(error="down")


WAIT_S = 20.0
POLL = Poll(poll=1, after=0, quiet_at=None, events_max=9)


class Stand:
    """ReadThreads, each with a metastore of its own, and the facts that they deliver."""

    def __init__(self, threads: int = 2) -> None:
        self.made: list[FakeMetastore] = []
        self.facts: SimpleQueue[Answer] = SimpleQueue()
        self.readers = ReadThreads(self._make, threads=threads, deliver=self.facts.put)

    def _make(self) -> FakeMetastore:
        self.made.append(FakeMetastore())
        return self.made[-1]

    def fact(self) -> Answer:
        return self.facts.get(timeout=WAIT_S)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Let the one thread for reads hang in its metastore until the block ends."""
        (metastore,) = self.made
        before = len(metastore.calls)
        with metastore.hanging():
            self.readers.order(ReadNames())
            until(lambda: len(metastore.calls) > before, timeout_s=WAIT_S, what="a call")
            yield


@pytest.fixture
def stand() -> Iterator[Stand]:
    found = Stand()
    yield found
    found.readers.close()


def test_thread_whose_metastore_failed_goes_on(stand: Stand) -> None:
    stand.readers.start()
    stand.readers.order(POLL)
    stand.fact()
    stand.made[0].failures.append(SourceError("down"))
    stand.readers.order(POLL)
    assert stand.fact() == PollFailed(poll=1, error="down")
    stand.readers.order(POLL)
    assert isinstance(stand.fact(), Polled)


def test_poll_is_answered_while_every_read_hangs() -> None:
    stand = Stand(threads=1)
    stand.readers.start()
    stand.readers.order(ReadNames())
    stand.fact()
    with stand.hanging():
        stand.readers.order(POLL)
        assert isinstance(stand.fact(), Polled)
    assert isinstance(stand.fact(), NamesRead)
    stand.readers.close()


def test_loads_run_at_the_same_time_each_on_a_metastore_of_its_own() -> None:
    together = Barrier(2, timeout=WAIT_S)
    made: list[FakeMetastore] = []

    class Meeting(FakeMetastore):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def databases(self) -> tuple[str, ...]:
            together.wait()
            return ()

    facts: SimpleQueue[Answer] = SimpleQueue()
    readers = ReadThreads(Meeting, threads=2, deliver=facts.put)
    readers.start()
    for _ in range(4):
        readers.order(ReadNames())
    assert [facts.get(timeout=WAIT_S) for _ in range(4)] == [NamesRead(databases={})] * 4
    readers.close()
    assert [metastore.calls[-1] for metastore in made] == ["close"] * 2


def test_orders_come_back_as_facts_until_the_connections_are_closed(stand: Stand) -> None:
    stand.readers.start()
    for order, fact in (
        (POLL, Polled),
        (Read(read=3, databases=("default",)), ReadDone),
        (ReadNames(), NamesRead),
        (ListNames(), NamesListed),
    ):
        stand.readers.order(order)
        assert isinstance(stand.fact(), fact)
    stand.readers.close()
    assert {made.calls[-1] for made in stand.made} == {"close"}


def test_readers_that_were_never_started_close(stand: Stand) -> None:
    stand.readers.close()
    assert stand.made == []


def test_read_that_hangs_does_not_keep_its_owner_from_closing() -> None:
    stand = Stand(threads=1)
    stand.readers.start()
    stand.readers.order(ReadNames())
    stand.fact()
    with stand.hanging():
        stand.readers.close()
        assert stand.made[0].calls[-1] == "close"
    assert isinstance(stand.fact(), NamesRead), "its answer still arrives"
    calls = stand.made[0].calls
    what = "the end of what it connected to again"
    until(lambda: calls.count("close") == 2, timeout_s=WAIT_S, what=what)
