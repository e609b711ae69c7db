"""What is held against reported writes: none is lost or counted twice, all reach readers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topicast.catalog.model.versions import Transaction, WriteRow
from topicast.tests.cluster.metastore import TableId
from topicast.tests.cluster.store import NUM_TOPICS
from topicast.tests.cluster.violation import Violation
from topicast.tests.sim.checkers import Place
from topicast.tests.sim.drivers import table_of
from topicast.topics.topic import table_topic
from topicast.topics.wire.messages.data import SOURCE_OVERWRITES, SOURCE_REPORTS
from topicast.topics.wire.messages.reports import (
    ABANDONED,
    INTENT,
    Reported,
    Write,
    WriteOutcome,
    WriteProblem,
)

if TYPE_CHECKING:
    from topicast.tests.sim.world import World

Number = tuple[bytes, int]  # of a write: its driver and number


@dataclass(slots=True)
class KnownWrite:
    """A write as its driver knows it; ``since``: the moment at which it reported it last.

    ``due``: what others have to see, from the store number ``stores``.
    """

    table: TableId
    path: bool
    since: int = 0
    state: int = INTENT
    answered: bool = False
    due: Place | None = None
    stores: int = 0


class Written:
    """Every write of every driver, and what became of it.

    A store that is restored may have lost what was answered before: nothing is asked of that.
    """

    def __init__(self, world: "World", counts: Counter[str]) -> None:
        self._world = world
        self._counts = counts
        self._known: dict[Number, KnownWrite] = {}
        self._dead: dict[bytes, None] = {}
        self._effects: dict[Number, Place] = {}
        self._stores = 0

    # -- what happens

    def restored(self) -> None:
        """The store was replaced."""
        self._stores += 1
        self._effects.clear()

    def noted(self, driver: bytes, write: Write) -> None:
        """A driver begins a write, or ends it."""
        key = (driver, write.number)
        if key not in self._known:
            self._known[key] = KnownWrite(table_of(write.object), "/" in write.object)
        known = self._known[key]
        known.state, known.since = write.state, self._world.metastore.moment
        self._counts["writes reported"] += write.state != INTENT

    def died(self, driver: bytes) -> None:
        """A driver is no more: catalogd has to take for written what it has as open."""
        self._dead[driver] = None
        store = self._world.catalogd.store
        for key, row in store.writes.items():
            known = self._known[key]
            if key[0] == driver and row.open and known.state != ABANDONED and not known.path:
                self._counts["intents of the dead"] += 1
                version = store.versions[table_topic(*known.table, NUM_TOPICS)]
                known.due, known.stores = (store.epoch, version + 1), self._stores

    def committed(self, rows: Iterable[WriteRow]) -> None:
        """Take what became durable: of one write, one effect."""
        epoch = self._world.catalogd.store.epoch
        for row in rows:
            key, place = (row.driver, row.number), (epoch, row.version)
            if row.open or not row.version:
                continue
            if self._effects.setdefault(key, place) != place:
                raise Violation(f"write {key} has two effects: {self._effects[key]}, {place}")

    def answered(self, driver: bytes, reported: Reported) -> None:
        """catalogd says that it has writes: so has its store, whatever happens now."""
        store = self._world.catalogd.store
        for verdict in reported.outcomes:
            key = (driver, verdict.number)
            if verdict.code:
                self._missed(key, verdict)
            elif self._known[key].answered:
                continue  # it is reported late, and may be finished
            elif key not in store.writes and self._may_be_over(key, verdict):
                continue
            elif key not in store.writes or verdict.version > store.versions[verdict.topic]:
                raise Violation(f"write {key} is acknowledged, and not in the store")
            elif not (row := store.writes[key]).open and verdict.version == row.version:
                self._ended(key, verdict.version)  # else it was about the intent

    def _may_be_over(self, key: Number, verdict: WriteOutcome) -> bool:
        """Tell whether an intent that is acknowledged was ended by what came behind it."""
        return not verdict.version and self._known[key].state != INTENT

    def _ended(self, key: Number, version: int) -> None:
        known = self._known[key]
        if not version and known.state != ABANDONED:
            raise Violation(f"write {key} is acknowledged, and has no effect")
        known.answered, known.stores = True, self._stores
        known.due = (self._world.catalogd.store.epoch, version) if version else None
        self._counts["writes acknowledged"] += 1

    def _missed(self, key: Number, outcome: WriteOutcome) -> None:
        """That there is no such table has to have been so, at some moment since it was reported."""
        known = self._known[key]
        if outcome.code == WriteProblem.NOT_VISIBLE:
            self._not_visible(key, known)
            return
        history = self._world.metastore.history[known.table]
        ends = [moment for moment, _ in history[1:]] + [self._world.metastore.moment + 1]
        gone = any(
            state is None and end > known.since
            for (_, state), end in zip(history, ends, strict=True)
        )
        if not gone and not known.path:  # which may lead to where the table was before
            raise Violation(f"write {key}: {outcome.problem}: {known.table} was there all the time")
        known.answered, known.due = True, None
        self._counts["writes to nothing"] += 1

    def _not_visible(self, key: Number, known: KnownWrite) -> None:
        """Only a driver that may not see a table is refused its write."""
        if not any(one.driver == key[0] and one.policy for one in self._world.readers):
            raise Violation(f"write {key} to {known.table} is refused, and its driver sees it")
        known.answered, known.due = True, None
        self._counts["writes not visible"] += 1

    # -- what has to be so in the end

    def missing(self, seen: Sequence[dict[TableId, Place]]) -> str:
        """Say which write is not answered, or not ``seen`` by a reader: its data versions."""
        readers = self._world.readers
        for key, known in self._known.items():
            if not known.answered and known.state != INTENT and key[0] not in self._dead:
                return f"write {key} is not answered"
            due, table = known.due, known.table
            there = table in self._world.metastore.held
            if due is None or known.stores != self._stores or not there:
                continue
            blind = [
                number
                for number, has in enumerate(seen)
                if has.get(table, (0, 0)) < due and readers[number].sees(table[0])
            ]
            if blind:
                return f"readers {blind} have not seen write {key} to {table}: {due}"
        return ""


def reported(transactions: Iterable[Transaction]) -> Iterator[tuple[str, int]]:
    """Return the tables that were written, as reports say, and their data versions."""
    for one in transactions:
        if one.source in (SOURCE_REPORTS, SOURCE_OVERWRITES):
            for entry in one.entries:
                db, name, _ = entry.key.decode().split("\0")
                yield f"{db}.{name}", entry.version
