"""What operators are shown of the events that came, and the bounds of what is remembered."""

from topicast.catalog.ingest.events.event_batches import (
    BATCHES_MAX,
    RUNNING_MAX,
    SHOWN_MAX,
    SLOT_S,
    SLOTS_MAX,
    TABLES_MAX,
    TIMES_MAX,
    EventBatches,
    EventFacts,
)
from topicast.catalog.metastore.port import (
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    RawEvent,
    Read,
    TableRequest,
)
from topicast.tests.cluster.alone import Alone
from topicast.topics.turn import Turn

AT_S = 1_790_000_000  # a time, in seconds since 1970
T = DirtyTable(db="d", table="t")


def event(number: int, at_s: int = AT_S) -> RawEvent:
    return RawEvent(
        id=number, type="X", db="d", table="t", message="", message_format="", at_s=at_s
    )


class Kept:
    """A history, its clock, and the numbers of batches."""

    def __init__(self) -> None:
        self.turn = Turn[object]()
        self.history = EventBatches(self.turn)
        self.now = 0.0
        self.seq = 0
        self.publish()

    @property
    def now(self) -> float:
        return self.turn.now

    @now.setter
    def now(self, now: float) -> None:
        self.turn.now, self.turn.now_us = now, int((AT_S + now) * 1e6)

    def come(self, *events: RawEvent, missing: str = "") -> None:
        self.seq += 1
        self.history.begin(events, [T], seq=self.seq, missing=missing)
        self.history.check()

    def publish(self, *, left_from: int | None = None) -> None:
        """Note what is published: everything, or what is before this arrival number."""
        before = self.seq + 1 if left_from is None else left_from
        self.history.publish(before=before)
        self.history.check()

    def facts(self) -> EventFacts:
        left = [1] * len(self.history.running_seqs)
        return self.history.facts(left)


def test_batch_is_running_until_everything_of_it_is_published() -> None:
    kept = Kept()
    dirty = (T, DirtyPartitions(db="d", table="t", names=("1",)), DirtyDatabase(db="d"))
    kept.history.begin([event(7), event(9)], dirty, seq=1, missing="")
    kept.seq, kept.now = 1, 2.0
    kept.publish(left_from=1)
    (running,) = kept.facts().running
    assert (running.events, running.last_id, running.tables, running.left) == (2, 9, 2, 1)
    assert (running.took_s, running.waited_s) == (2.0, 2.0)
    kept.now = 3.5
    kept.publish()
    found = kept.facts()
    (done,) = found.batches
    assert found.running == ()
    assert (done.left, done.took_s, done.waited_s) == (0, 3.5, 3.5)
    assert (found.batch_times.count, found.batch_times.total) == (1, 3.5)
    assert (found.delays.count, found.delays.total) == (2, 7.0)


def test_poll_without_events_is_no_batch_unless_events_are_missing() -> None:
    kept = Kept()
    kept.come()
    assert kept.facts().running == ()
    kept.come(missing="events 2 to 5 are missing")
    (running,) = kept.facts().running
    assert (running.events, running.missing) == (0, "events 2 to 5 are missing")
    assert running.waited_s is None


def test_event_without_a_time_has_no_delay_and_none_is_negative() -> None:
    kept = Kept()
    kept.come(event(1, at_s=0))
    kept.come(event(2, at_s=AT_S + 60))
    kept.publish()
    assert [one.waited_s for one in kept.facts().batches] == [None, 0.0]
    assert (kept.facts().delays.count, kept.facts().delays.total) == (1, 0.0)


def test_events_behind_a_table_that_is_slow_to_read_are_counted_with_those_before() -> None:
    kept = Kept()
    for number in range(RUNNING_MAX + 5):
        kept.come(event(number + 1))
    found = kept.facts()
    assert len(found.running) == RUNNING_MAX
    assert (found.running[-1].events, found.running[-1].last_id) == (6, RUNNING_MAX + 5)
    kept.publish(left_from=kept.seq)
    assert len(kept.facts().running) == 1
    kept.publish()
    assert kept.facts().running == ()


def test_times_of_a_batch_that_goes_on_and_on_are_bounded_and_every_event_is_counted() -> None:
    kept = Kept()
    for _ in range(RUNNING_MAX):
        kept.come(event(1))
    kept.come(*(event(number, at_s=AT_S + number) for number in range(TIMES_MAX + 10)))
    kept.now = 5000.0
    kept.publish()
    found = kept.facts()
    assert found.delays.count == RUNNING_MAX + TIMES_MAX + 10
    assert found.batches[-1].waited_s == 5000.0


def test_what_is_remembered_is_bounded() -> None:
    kept = Kept()
    for number in range(max(BATCHES_MAX, SLOTS_MAX) + 5):
        kept.now = number * SLOT_S
        kept.come(event(number + 1))
        kept.publish()
    found = kept.facts()
    assert (len(found.batches), len(found.slots)) == (BATCHES_MAX, SLOTS_MAX)
    assert found.slots[-1] == (found.slot, 1, 0.0)
    assert found.batch_times.count == max(BATCHES_MAX, SLOTS_MAX) + 5


def test_costliest_tables_are_those_whose_reads_took_longest() -> None:
    kept = Kept()
    history = kept.history
    for number in range(2 * TABLES_MAX + 5):
        names = (f"t{number}", "shared")
        wanted = tuple(
            TableRequest(db="d", table=name, obj=True, whole=True, names=()) for name in names
        )
        kept.now = 0.0
        history.read_began([Read(read=number, requests=wanted)])
        kept.now = 0.002 * number
        history.read_ended(number)
        history.check()
    kept.now = 1.0
    history.read_ended(99_999)  # it is not known: of before
    costs = history.facts([]).costs
    assert len(costs) == SHOWN_MAX
    assert (costs[0].table, costs[0].reads) == (("d", "shared"), 2 * TABLES_MAX + 5)
    last = 2 * TABLES_MAX + 4
    assert (costs[1].table, round(costs[1].seconds, 6)) == (("d", f"t{last}"), 0.001 * last)


def test_catalogd_remembers_what_became_of_its_events(core: Alone) -> None:
    """Given a read that is held up, then its batch is running, and published once it is done."""
    core.turn(6)
    before = len(core.catalog.status().events.batches)
    core.catalogd.hold(Read)
    core.create("d", "u")
    core.turn(6)
    (running,) = core.catalog.status().events.running
    assert (running.tables, running.left) == (1, 1)
    assert running.last_id == core.metastore.current_event_id()
    core.catalogd.resume()
    core.turn(6)
    found = core.catalog.status().events
    assert found.running == ()
    assert len(found.batches) == before + 1
    assert found.batches[-1].took_s >= running.took_s > 0
    assert ("d", "u") in [one.table for one in found.costs]
