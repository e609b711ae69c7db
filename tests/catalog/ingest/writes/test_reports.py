"""Reports: a write has one effect however often it is reported; a path names its tables."""

from dataclasses import replace
from pathlib import Path

import pytest

from topicast.catalog.ingest.writes import reports as module
from topicast.catalog.ingest.writes.locations import Locations
from topicast.catalog.ingest.writes.reports import INTENT_LAPSES_S, Reports
from topicast.catalog.model.tables import PARTITIONS_NAMED_MAX
from topicast.catalog.model.versions import Commit, Transaction, WriteRow
from topicast.tests.catalog.holding import NOW_US, Holding, T, parts, struct
from topicast.tests.catalog.stores import opened
from topicast.tests.cluster.store import SimFolders
from topicast.topics.objects.changes import ChangeKind
from topicast.topics.objects.names import database_key, table_key
from topicast.topics.topic import NAMESPACE, STUB, table_topic
from topicast.topics.wire.messages.data import SOURCE_OVERWRITES, SOURCE_REPORTS
from topicast.topics.wire.messages.reports import (
    ABANDONED,
    ALTERED,
    FAILED,
    INTENT,
    NAMED,
    OVERWRITTEN,
    WRITTEN,
    Report,
    Write,
    WriteOutcome,
)

DRIVER, OTHER = b"d" * 16, b"o" * 16


class World:
    """A catalogd that holds ``d.t`` and knows ``d.u`` by name, and the reports that come to it."""

    def __init__(self) -> None:
        self.holding = Holding()
        tables = {T: "EXTERNAL_TABLE", ("d", "u"): "EXTERNAL_TABLE"}
        self.holding.namespace.write({"d": b""}, tables, source=SOURCE_REPORTS)
        self.holding.whole(struct(T, "ds"), parts("1", "2"))
        self.folders = SimFolders()
        self.locations = Locations(self.holding.version_log, self.folders)
        self.written()
        self.holding.turn.now = 100.0
        self.reports = self.made()

    def made(self, *known: WriteRow) -> Reports:
        holding = self.holding
        return Reports(
            holding.namespace, holding.tables, self.locations, clock=holding.turn, known=known
        )

    def report(
        self, *writes: Write, driver: bytes = DRIVER, finished: int = 0
    ) -> tuple[WriteOutcome, ...]:
        report = Report(
            request=1, driver=driver, metastore="", finished=finished, writes=tuple(writes)
        )
        verdicts = self.reports.apply(report)
        self.reports.check()
        return verdicts

    def lapse(self, after_s: float) -> None:
        self.holding.turn.now += after_s
        self.reports.lapse()
        self.reports.check()

    def written(self) -> tuple[Transaction, ...]:
        changes = self.locations.take()
        if changes is not None:
            self.folders.commit(changes)
        return self.holding.written()


@pytest.fixture
def world() -> World:
    return World()


def write(number: int, state: int = WRITTEN, of: str = "d.t", *partitions: str) -> Write:
    return Write(number=number, state=state, object=of, partitions=partitions)


def test_written_table_rises_in_version_and_data_version_alone(world: World) -> None:
    """P-REPORT-1."""
    before = world.holding.entry()
    (verdict,) = world.report(write(1))
    (transaction,) = world.written()
    after = world.holding.entry()
    raised = before.version + 1
    assert after == before._replace(version=raised, data_version=raised)
    assert (transaction.source, transaction.entries) == (SOURCE_REPORTS, (after,))
    assert world.reports.counts()["writes"] == 1
    assert verdict == WriteOutcome(number=1, topic=table_topic(*T, 4), version=raised)
    (row,) = transaction.changes
    assert (row.object, row.kind, row.before) == ("d.t", ChangeKind.DATA, before.version)


def test_source_of_an_overwrite_says_that_files_are_gone(world: World) -> None:
    """P-REPORT-7."""
    for number, state in enumerate((WRITTEN, OVERWRITTEN, FAILED), start=1):
        world.report(write(number, state))
    sources = [transaction.source for transaction in world.written()]
    assert sources == [SOURCE_REPORTS, SOURCE_OVERWRITES, SOURCE_REPORTS]


def test_table_that_was_altered_rises_in_version_alone(world: World) -> None:
    """P-REPORT-10."""
    before = world.holding.entry()
    (verdict,) = world.report(write(1, ALTERED))
    (transaction,) = world.written()
    after = before._replace(version=before.version + 1)
    assert (transaction.source, transaction.entries) == (SOURCE_REPORTS, (after,))
    assert transaction.changes == ()  # its event is in the history
    assert verdict == WriteOutcome(number=1, topic=table_topic(*T, 4), version=after.version)
    assert world.reports.counts()["reported_statements"] == 1
    assert world.reports.counts()["writes"] == 0
    assert world.report(write(1, ALTERED)) == (verdict,)
    assert world.written() == ()


def test_name_that_came_or_went_raises_its_database_too(world: World) -> None:
    """P-REPORT-11."""
    before = world.holding.topics[NAMESPACE].get(database_key("d"))
    assert before is not None
    world.report(write(1, NAMED))
    of_table, of_database = world.written()
    raised = before._replace(version=of_database.to_version)
    assert [entry.key for entry in of_table.entries] == [table_key(*T)]
    assert (of_database.topic, of_database.source) == (NAMESPACE, SOURCE_REPORTS)
    assert [(one.key, one.value) for one in of_database.entries] == [(raised.key, raised.value)]


@pytest.mark.parametrize(
    ("of", "state", "raised"),
    [
        ("d.new", NAMED, [NAMESPACE]),
        ("d.new", ALTERED, []),
        ("d.u", ALTERED, []),  # nothing is held of it, so nobody has it
        ("new.t", NAMED, []),
    ],
)
def test_statement_about_what_is_not_known_waits_for_no_poll(
    world: World, of: str, state: int, raised: list[int]
) -> None:
    """P-REPORT-10."""
    one = write(1, state, of)
    report = Report(request=1, driver=DRIVER, metastore="", finished=0, writes=(one,))
    assert world.reports.knows(report)
    assert world.report(one) == (WriteOutcome(number=1, topic=0, version=0),)
    assert [transaction.topic for transaction in world.written()] == raised


def test_table_of_which_nothing_is_held_becomes_a_stub(world: World) -> None:
    """P-REPORT-1. Given a follower of its topic, it is notified of the change all the same."""
    (verdict,) = world.report(write(1, WRITTEN, "D.U"))
    (transaction,) = world.written()
    (entry,) = transaction.entries
    assert (entry.key, entry.kind, entry.size) == (table_key("d", "u"), STUB, 0)
    assert entry.data_version == verdict.version
    assert [row.before for row in transaction.changes] == [0]


@pytest.mark.parametrize(
    ("named", "partitions", "objects"),
    [
        ("d.t", ("ds=1", "ds=2"), ["d.t/ds=1", "d.t/ds=2"]),
        ("file:///w/d/t/ds=1", (), ["d.t/ds=1/"]),
    ],
)
def test_history_names_the_partitions_also_of_a_path(
    world: World, named: str, partitions: tuple[str, ...], objects: list[str]
) -> None:
    (verdict,) = world.report(write(1, WRITTEN, named, *partitions))
    (transaction,) = world.written()
    assert transaction.to_version == verdict.version
    assert [row.object for row in transaction.changes] == objects


@pytest.mark.parametrize(("more", "last"), [(0, "d.t/p099"), (1, "d.t")], ids=str)
def test_history_names_a_hundred_partitions_of_a_write(world: World, more: int, last: str) -> None:
    """P-REPORT-1: and that there are others."""
    names = [f"p{number:03d}" for number in range(PARTITIONS_NAMED_MAX + more)]
    world.report(write(1, WRITTEN, "d.t", *names))
    (transaction,) = world.written()
    found = [row.object for row in transaction.changes]
    assert (len(found), found[-1]) == (PARTITIONS_NAMED_MAX + more, last)


@pytest.mark.parametrize("of", ["d.none", "/w/elsewhere"])
def test_what_is_not_there_is_not_made(world: World, of: str) -> None:
    """P-REPORT-3."""
    for _ in range(2):
        (verdict,) = world.report(write(1, WRITTEN, of))
        assert verdict.code == "NO_OBJECT"
        assert of in verdict.message
    assert world.written() == ()
    assert world.reports.take() == ((), (), ())
    assert world.reports.counts()["reported_writes_unknown"] == 2


@pytest.mark.parametrize(
    "wrong",
    [
        write(1, WRITTEN, "nodot"),
        write(1, ALTERED, "/w/d/t"),
        write(1, 9),
        write(1, INTENT, "a.b.c"),
        write(1, FAILED, ""),
    ],
)
def test_malformed_write_is_refused_and_the_others_are_done(world: World, wrong: Write) -> None:
    first, second = world.report(wrong, write(2))
    assert first.code == "MALFORMED"
    assert second.problem == ""
    assert len(world.written()) == 1


def test_repeated_write_has_one_effect_also_after_a_restart(world: World) -> None:
    """P-REPORT-2."""
    first = world.report(write(1))
    assert world.report(write(1)) == first
    assert len(world.written()) == 1
    assert world.reports.tally.reported_writes_repeated == 1
    fresh, *_ = world.reports.take()
    world.reports = world.made(*fresh)
    assert world.report(write(1)) == first
    assert world.written() == ()
    world.report(write(1), driver=OTHER)
    assert len(world.written()) == 1, "another driver's number is another write"


def test_settled_writes_are_discarded_here_and_in_the_store(world: World) -> None:
    world.report(write(1), write(2))
    world.reports.take()
    world.report(write(3), finished=3)
    fresh, gone, _ = world.reports.take()
    assert [row.number for row in fresh] == [3]
    assert gone == ((DRIVER, 1), (DRIVER, 2))


def test_write_that_comes_late_has_no_second_effect_once_it_is_finished(world: World) -> None:
    """P-REPORT-2: repeated while the first answer was on its way."""
    world.report(write(1), write(2))
    world.report(write(3, WRITTEN, "d.gone"), finished=3)
    world.written()
    late = world.report(write(1), write(2, INTENT))
    assert late == tuple(WriteOutcome(number=n, topic=0, version=0) for n in (1, 2))
    assert world.reports.counts()["reported_writes_repeated"] == 2
    assert world.written() == ()
    assert world.reports.intents == 0


def test_intent_changes_nothing_until_it_is_written(world: World) -> None:
    assert world.report(write(1, INTENT)) == (WriteOutcome(number=1, topic=0, version=0),)
    assert world.written() == ()
    assert world.reports.intents == 1
    assert world.reports.counts()["drivers"] == 1
    world.report(write(1))
    assert len(world.written()) == 1
    assert world.reports.intents == 0
    (noted, done), *_ = world.reports.take()
    assert (noted.open, done.open, done.number) == (True, False, 1)


@pytest.mark.parametrize(
    ("states", "written"),
    [
        ((WRITTEN, INTENT), 1),  # an intent that came late opens nothing
        ((INTENT, ABANDONED), 0),
        ((INTENT, FAILED), 1),  # some of it may be there
    ],
)
def test_intent_that_has_ended_is_over(world: World, states: tuple[int, ...], written: int) -> None:
    for state in states:
        world.report(write(1, state))
    assert world.reports.intents == 0
    world.lapse(INTENT_LAPSES_S)
    assert len(world.written()) == written


def test_intent_of_a_silent_driver_is_taken_for_written_once(world: World) -> None:
    """P-REPORT-4."""
    world.report(write(1, INTENT))
    world.reports.take()
    world.lapse(INTENT_LAPSES_S - 0.1)
    assert world.written() == ()
    world.lapse(0.1)
    assert len(world.written()) == 1
    assert world.reports.take()[:2] == ((), ((DRIVER, 1),))
    world.lapse(INTENT_LAPSES_S)
    assert world.written() == ()
    assert world.reports.tally.reported_writes_lapsed == 1
    assert world.reports.deadline is None


def test_writer_of_each_version_is_told_once_also_of_a_write_that_was_never_reported_to_its_end(
    world: World,
) -> None:
    world.report(write(1, INTENT), write(2))
    (reported,) = world.written()
    assert world.reports.take()[2] == ((reported.topic, reported.to_version, DRIVER),)
    world.lapse(INTENT_LAPSES_S)
    (lapsed,) = world.written()
    assert world.reports.take()[2] == ((lapsed.topic, lapsed.to_version, DRIVER),)
    assert world.reports.take()[2] == ()


def test_driver_that_reports_keeps_its_intents(world: World) -> None:
    """P-REPORT-4."""
    world.report(write(1, INTENT))
    for _ in range(3):
        world.lapse(INTENT_LAPSES_S - 0.1)
        world.report(write(1, INTENT))
    assert world.written() == ()


def test_driver_that_comes_back_after_its_lease_changes_the_data_again(world: World) -> None:
    """P-REPORT-4: what it wrote after its intent lapsed has not been published."""
    world.report(write(1, INTENT))
    world.lapse(INTENT_LAPSES_S)
    world.written()
    world.report(write(1))
    assert len(world.written()) == 1


def test_leases_begin_anew_after_a_restart(world: World) -> None:
    """P-REPORT-4."""
    world.report(write(1, INTENT))
    fresh, *_ = world.reports.take()
    world.reports = world.made(*fresh)
    world.lapse(1000.0)
    assert world.written() == ()
    world.lapse(INTENT_LAPSES_S)
    assert len(world.written()) == 1


def test_intents_of_a_driver_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_MAX", 2)
    world = World()
    *_, last = world.report(*(write(number, INTENT) for number in range(3)))
    assert last.code == "TOO_MANY"
    assert world.reports.intents == 2
    assert world.report(write(0, INTENT))[0].problem == ""


def test_memory_of_writes_and_drivers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DONE_MAX", 2)
    monkeypatch.setattr(module, "DRIVERS_MAX", 2)
    world = World()
    world.report(*(write(number) for number in range(4)))
    _, gone, _ = world.reports.take()
    assert gone == ((DRIVER, 0), (DRIVER, 1))
    world.report(write(1, INTENT), driver=OTHER)
    world.report(write(1), driver=b"x" * 16)
    _, gone, _ = world.reports.take()
    assert gone == ((DRIVER, 2), (DRIVER, 3)), "the intents of the silent stay"


def test_report_is_known_when_each_of_its_objects_is(world: World) -> None:
    world.report(write(9))

    def knows(*writes: Write) -> bool:
        report = Report(request=1, driver=DRIVER, metastore="", finished=0, writes=writes)
        return world.reports.knows(report)

    assert knows(write(1), write(2, INTENT, "d.none"), write(3, WRITTEN, "nodot"))
    assert not knows(write(1), write(2, WRITTEN, "d.none"))
    assert knows(replace(write(9), object="d.none")), "it is done already"
    assert knows(write(1, WRITTEN, "/w/d/t"))
    assert not knows(write(1, WRITTEN, "/w/x"))
    world.report(write(9), finished=3)
    assert knows(write(2, WRITTEN, "d.none")), "it is finished"
    assert not knows(write(3, WRITTEN, "d.none"))


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
        store.commit(Commit(window=None, writes=(intent, done)))
        store.commit(Commit(window=None, writes=(replace(done, number=9),)))
    with opened(tmp_path, new_id=2) as store:
        assert list(store.load_writes()) == [intent, done, replace(done, number=9)]
        row = replace(intent, open=False)
        store.commit(Commit(window=None, writes=(row,), finished=((driver, 8),)))
        store.commit(Commit(window=None, finished=((driver, 9), (b"nobody", 1))))
        assert list(store.load_writes()) == [replace(intent, open=False)]
