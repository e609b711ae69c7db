"""Reports: a write has one effect however often it is told; a path names what lies there."""

from dataclasses import replace
from pathlib import Path

import pytest

from topicast.catalog.ingest import reports as module
from topicast.catalog.ingest.locations import Locations, normal
from topicast.catalog.ingest.reports import LEASE_S, Reports
from topicast.catalog.model.versions import ChangeKind, Transaction, WriteRow
from topicast.tests.catalog.holding import NOW_US, Holding, T, parts, struct
from topicast.tests.catalog.stores import opened
from topicast.tests.cluster.fake_metastore import make_table, thrift_bytes
from topicast.topics.objects.names import table_key
from topicast.topics.topic import STUB, VALUE, table_topic
from topicast.topics.wire.messages import (
    ABANDONED,
    FAILED,
    INTENT,
    OVERWRITTEN,
    SOURCE_EVENTS,
    SOURCE_OVERWRITES,
    SOURCE_REPORTS,
    WRITTEN,
    Report,
    Verdict,
    Write,
)

DRIVER, OTHER = b"d" * 16, b"o" * 16


class Stand:
    """A catalogd that holds ``d.t`` and knows ``d.u`` by name, and the reports that come to it."""

    def __init__(self) -> None:
        self.holding = Holding()
        tables = {T: "EXTERNAL_TABLE", ("d", "u"): "EXTERNAL_TABLE"}
        self.holding.namespace.write({"d": b""}, tables, source=SOURCE_REPORTS, at_us=NOW_US)
        self.holding.whole(struct(T, "ds"), parts("1", "2"))
        self.holding.written()
        self.now = 100.0
        self.reports = self.made()

    def made(self, *known: WriteRow) -> Reports:
        holding = self.holding
        return Reports(holding.namespace, holding.tables, holding.topics, known=known)

    def tell(self, *writes: Write, driver: bytes = DRIVER, settled: int = 0) -> tuple[Verdict, ...]:
        report = Report(
            request=1, driver=driver, metastore="", settled=settled, writes=tuple(writes)
        )
        while not self.reports.locations.catch_up():
            pass
        verdicts = self.reports.apply(report, now=self.now, at_us=NOW_US)
        self.reports.check()
        return verdicts

    def lapse(self, after_s: float) -> None:
        self.now += after_s
        self.reports.lapse(now=self.now, at_us=NOW_US)
        self.reports.check()

    def written(self) -> tuple[Transaction, ...]:
        return self.holding.written()


@pytest.fixture
def stand() -> Stand:
    return Stand()


def write(number: int, state: int = WRITTEN, of: str = "d.t", *partitions: str) -> Write:
    return Write(number=number, state=state, object=of, partitions=partitions)


def test_written_table_rises_in_version_and_data_version_alone(stand: Stand) -> None:
    """P-REPORT-1."""
    before = stand.holding.entry()
    (verdict,) = stand.tell(write(1))
    (transaction,) = stand.written()
    after = stand.holding.entry()
    assert transaction.source == SOURCE_REPORTS
    assert transaction.entries == (after,)
    assert (after.version, after.data_version) == (before.version + 1, before.version + 1)
    assert (after.schema_version, after.value, after.kind) == (
        before.schema_version,
        before.value,
        VALUE,
    )
    assert verdict == Verdict(number=1, topic=table_topic(*T, 4), version=after.version)
    assert [(row.object, row.kind, row.before) for row in transaction.changes] == [
        ("d.t", ChangeKind.DATA, before.version)
    ]


def test_of_what_was_overwritten_is_told_that_files_are_gone(stand: Stand) -> None:
    """P-REPORT-7."""
    for number, state in enumerate((WRITTEN, OVERWRITTEN, FAILED), start=1):
        stand.tell(write(number, state))
    sources = [transaction.source for transaction in stand.written()]
    assert sources == [SOURCE_REPORTS, SOURCE_OVERWRITES, SOURCE_REPORTS]


def test_table_of_which_nothing_is_held_becomes_a_stub(stand: Stand) -> None:
    """Whoever follows its topic hears of the change all the same."""
    (verdict,) = stand.tell(write(1, WRITTEN, "D.U"))
    (transaction,) = stand.written()
    (entry,) = transaction.entries
    assert (entry.key, entry.kind, entry.data_version) == (
        table_key("d", "u"),
        STUB,
        verdict.version,
    )


@pytest.mark.parametrize(
    ("named", "partitions", "objects"),
    [
        ("d.t", ("ds=1", "ds=2"), ["d.t/ds=1", "d.t/ds=2"]),
        ("file:///w/d/t/ds=1", (), ["d.t/ds=1/"]),
    ],
)
def test_history_names_the_partitions_also_of_a_path(
    stand: Stand, named: str, partitions: tuple[str, ...], objects: list[str]
) -> None:
    (verdict,) = stand.tell(write(1, WRITTEN, named, *partitions))
    (transaction,) = stand.written()
    assert transaction.to_version == verdict.version
    assert [row.object for row in transaction.changes] == objects


@pytest.mark.parametrize("of", ["d.none", "/w/elsewhere"])
def test_what_is_not_there_is_not_made(stand: Stand, of: str) -> None:
    """P-REPORT-3."""
    for _ in range(2):
        (verdict,) = stand.tell(write(1, WRITTEN, of))
        assert verdict.problem.startswith(module.NO_OBJECT)
        assert of in verdict.problem
    assert stand.written() == ()
    assert stand.reports.take() == ((), ())


@pytest.mark.parametrize(
    "wrong",
    [write(1, WRITTEN, "nodot"), write(1, 9), write(1, INTENT, "a.b.c"), write(1, FAILED, "")],
)
def test_malformed_write_is_told_so_and_the_others_are_done(stand: Stand, wrong: Write) -> None:
    first, second = stand.tell(wrong, write(2))
    assert first.problem.startswith(module.MALFORMED)
    assert second.problem == ""
    assert len(stand.written()) == 1


def test_repeated_write_has_one_effect_also_after_a_restart(stand: Stand) -> None:
    """P-REPORT-2."""
    first = stand.tell(write(1))
    assert stand.tell(write(1)) == first
    assert len(stand.written()) == 1
    assert stand.reports.tally.repeated == 1
    fresh, _ = stand.reports.take()
    stand.reports = stand.made(*fresh)
    assert stand.tell(write(1)) == first
    assert stand.written() == ()
    stand.tell(write(1), driver=OTHER)
    assert len(stand.written()) == 1, "another driver's number is another write"


def test_settled_writes_are_forgotten_here_and_in_the_store(stand: Stand) -> None:
    stand.tell(write(1), write(2))
    stand.reports.take()
    stand.tell(write(3), settled=3)
    fresh, gone = stand.reports.take()
    assert [row.number for row in fresh] == [3]
    assert gone == ((DRIVER, 1), (DRIVER, 2))


def test_write_that_comes_late_has_no_second_effect_once_it_is_settled(stand: Stand) -> None:
    """P-REPORT-2: asked again while the first answer was on its way."""
    stand.tell(write(1), write(2))
    stand.tell(write(3, WRITTEN, "d.gone"), settled=3)
    stand.written()
    late = stand.tell(write(1), write(2, INTENT))
    assert late == tuple(Verdict(number=n, topic=0, version=0) for n in (1, 2))
    assert stand.written() == ()
    assert stand.reports.intents == 0


def test_intent_changes_nothing_until_it_is_written(stand: Stand) -> None:
    assert stand.tell(write(1, INTENT)) == (Verdict(number=1, topic=0, version=0),)
    assert stand.written() == ()
    assert stand.reports.intents == 1
    assert stand.reports.counts()["drivers"] == 1
    stand.tell(write(1))
    assert len(stand.written()) == 1
    assert stand.reports.intents == 0
    (noted, done), _ = stand.reports.take()
    assert (noted.open, done.open, done.number) == (True, False, 1)


@pytest.mark.parametrize(
    ("states", "written"),
    [
        ((WRITTEN, INTENT), 1),  # an intent that came late opens nothing
        ((INTENT, ABANDONED), 0),
        ((INTENT, FAILED), 1),  # some of it may be there
    ],
)
def test_intent_that_has_ended_is_over(stand: Stand, states: tuple[int, ...], written: int) -> None:
    for state in states:
        stand.tell(write(1, state))
    assert stand.reports.intents == 0
    stand.lapse(LEASE_S)
    assert len(stand.written()) == written


def test_intent_of_a_silent_driver_is_taken_for_written_once(stand: Stand) -> None:
    """P-REPORT-4."""
    stand.tell(write(1, INTENT))
    stand.reports.take()
    stand.lapse(LEASE_S - 0.1)
    assert stand.written() == ()
    stand.lapse(0.1)
    assert len(stand.written()) == 1
    assert stand.reports.take() == ((), ((DRIVER, 1),))
    stand.lapse(LEASE_S)
    assert stand.written() == ()
    assert stand.reports.tally.lapsed == 1
    assert stand.reports.deadline is None


def test_driver_that_is_heard_of_keeps_its_intents(stand: Stand) -> None:
    """P-REPORT-4."""
    stand.tell(write(1, INTENT))
    for _ in range(3):
        stand.lapse(LEASE_S - 0.1)
        stand.tell(write(1, INTENT))
    assert stand.written() == ()


def test_driver_that_comes_back_after_its_lease_is_believed(stand: Stand) -> None:
    """P-REPORT-4: what it wrote after its intent lapsed, nobody has been told of."""
    stand.tell(write(1, INTENT))
    stand.lapse(LEASE_S)
    stand.written()
    stand.tell(write(1))
    assert len(stand.written()) == 1


def test_leases_begin_anew_after_a_restart(stand: Stand) -> None:
    """P-REPORT-4."""
    stand.tell(write(1, INTENT))
    fresh, _ = stand.reports.take()
    stand.reports = stand.made(*fresh)
    stand.lapse(1000.0)
    assert stand.written() == ()
    stand.lapse(LEASE_S)
    assert len(stand.written()) == 1


def test_intents_of_a_driver_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_MAX", 2)
    stand = Stand()
    *_, last = stand.tell(*(write(number, INTENT) for number in range(3)))
    assert last.problem.startswith(module.TOO_MANY)
    assert stand.reports.intents == 2
    assert stand.tell(write(0, INTENT))[0].problem == ""


def test_memory_of_writes_and_drivers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DONE_MAX", 2)
    monkeypatch.setattr(module, "DRIVERS_MAX", 2)
    stand = Stand()
    stand.tell(*(write(number) for number in range(4)))
    _, gone = stand.reports.take()
    assert gone == ((DRIVER, 0), (DRIVER, 1))
    stand.tell(write(1, INTENT), driver=OTHER)
    stand.tell(write(1), driver=b"x" * 16)
    _, gone = stand.reports.take()
    assert gone == ((DRIVER, 2), (DRIVER, 3)), "the intents of the silent stay"


def test_report_is_known_when_each_of_its_objects_is(stand: Stand) -> None:
    stand.tell(write(9))

    def knows(*writes: Write) -> bool:
        report = Report(request=1, driver=DRIVER, metastore="", settled=0, writes=writes)
        return stand.reports.knows(report)

    assert knows(write(1), write(2, INTENT, "d.none"), write(3, WRITTEN, "nodot"))
    assert not knows(write(1), write(2, WRITTEN, "d.none"))
    assert knows(replace(write(9), object="d.none")), "it is done already"
    assert knows(write(1, WRITTEN, "/w/d/t"))
    assert not knows(write(1, WRITTEN, "/w/x"))


def test_reported_writes_are_kept_by_driver_and_number_until_they_are_settled(
    tmp_path: Path,
) -> None:
    """P-REPORT-2."""
    driver = b"\0\xff" * 8
    intent = WriteRow(
        driver=driver, number=7, object="a.b", partitions=("ds=1", "ds=2"), open=True, at_us=NOW_US
    )
    done = replace(intent, number=8, open=False, partitions=(), topic=3, version=42)
    with opened(tmp_path) as store:
        place = {"last_event_id": 7, "window": b"window"}
        store.commit((), **place, writes=(intent, done))
        store.commit((), **place, writes=(replace(done, number=9),))
    with opened(tmp_path, new_id=2) as store:
        assert list(store.load_writes()) == [intent, done, replace(done, number=9)]
        store.commit((), **place, writes=(replace(intent, open=False),), settled=((driver, 8),))
        store.commit((), **place, settled=((driver, 9), (b"nobody", 1)))
        assert list(store.load_writes()) == [replace(intent, open=False)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/w/d/t", "file:/w/d/t"),
        ("file:///w/d/t/", "file:/w//d/t"),
        ("file://host/w/d/t", "file:/w/./d/t"),
        ("s3a://lake/t", "s3n://lake/t/"),
        ("S3://lake/t", "s3a://lake//t"),
        ("hdfs://NN:8020/w/t", "hdfs://nn/w/t"),
        ("abfss://c@a/t", "abfs://c@a/t"),
        ("/w/a:b", "file:/w/a:b"),
    ],
)
def test_ways_to_write_one_path_are_alike(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/w/T", "/w/t"),
        ("s3a://lake/t", "s3a://pond/t"),
        ("hdfs://nn:9000/t", "hdfs://nn/t"),
        ("hdfs://nn/t", "/t"),
        ("/w/a%20b", "/w/a b"),
    ],
)
def test_different_paths_stay_different(one: str, other: str) -> None:
    assert normal(one) != normal(other)


def located(holding: Holding, name: str, location: str) -> None:
    table = make_table("d", name, location=location)
    holding.whole(thrift_bytes(table), {}, table=("d", name))


def current(holding: Holding, locations: Locations | None = None) -> Locations:
    locations = locations or Locations(holding.topics)
    while not locations.catch_up():
        pass
    return locations


def test_path_at_a_table_and_below_finds_it_and_its_partitions() -> None:
    holding = Holding()
    located(holding, "t", "file:/w/d/t")
    found = current(holding).find
    assert found("/w/d/t") == {("d", "t"): ""}
    assert found("/w/d/t/ds=1/hour=2/part-0.parquet") == {("d", "t"): "ds=1/hour=2"}
    assert found("/w/d/t/_temporary/0") == {("d", "t"): ""}
    assert found("/w/d/t2") == {}
    assert found("/w/d") == {("d", "t"): ""}, "a folder that holds it"
    assert found("/w/d/s") == {}


def test_deepest_table_has_the_path_and_tables_of_one_place_share_it() -> None:
    holding = Holding()
    located(holding, "outer", "/w/o")
    located(holding, "inner", "/w/o/inner")
    located(holding, "twin", "/w/o/inner/")
    found = current(holding).find
    assert found("/w/o/inner/ds=1") == {("d", "inner"): "ds=1", ("d", "twin"): "ds=1"}
    assert found("/w/o/x") == {("d", "outer"): ""}
    assert found("/w/o").keys() == {("d", "outer"), ("d", "inner"), ("d", "twin")}


def test_moved_and_dropped_tables_are_found_no_more_where_they_were() -> None:
    holding = Holding()
    located(holding, "t", "/w/a")
    located(holding, "u", "/w/u")
    locations = current(holding)
    located(holding, "t", "/w/b")
    holding.tables.drop(("d", "u"), source=SOURCE_EVENTS, at_us=0)
    current(holding, locations)
    assert locations.find("/w/a") == {}
    assert locations.find("/w/b") == {("d", "t"): ""}
    assert locations.find("/w/u") == {}


def test_what_is_withdrawn_keeps_its_place() -> None:
    """A table that cannot be read now has not moved."""
    holding = Holding()
    holding.whole(struct(), {})
    locations = current(holding)
    holding.tables.withdraw(("d", "t"), source=SOURCE_EVENTS, at_us=0)
    current(holding, locations)
    assert locations.find("/w/d/t") == {("d", "t"): ""}


def test_new_epoch_is_looked_at_from_its_beginning() -> None:
    holding = Holding()
    located(holding, "t", "/w/a")
    locations = current(holding)
    for topic in holding.topics.values():
        topic.epoch += 1
    assert not locations.catch_up(), "a topic a call"
    current(holding, locations)
    assert locations.find("/w/a") == {("d", "t"): ""}
