"""Reports: the writes of drivers for which the metastore has no event.

    written ──table known──▶ its data version rises ──commit──▶ outcome
       └─unknown──a poll that began later──▶ known by now, or NO_OBJECT
    altered, named ──table or database known──▶ its version rises; unknown: nothing to raise
    intent ──stored──▶ its number written, failed, abandoned ──▶ done
       └─no report of its driver for INTENT_LAPSES_S──▶ taken for written

The key of a write is its driver and number, so a repeated report has one effect. Reports never
create an object: only the metastore does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from ....topics.clock import Clock
from ....topics.errors import UsageError
from ....topics.objects.names import TableId, parse_table_name
from ....topics.policy import Policy
from ....topics.wire.messages.data import SOURCE_OVERWRITES, SOURCE_REPORTS
from ....topics.wire.messages.reports import (
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
    WriteProblem,
)
from ...model.namespace import Namespace
from ...model.tables import Tables
from ...model.versions import WriteId, WriteRow, WriterRow
from .locations import Locations

INTENT_LAPSES_S: Final = 30.0  # without a report of a driver, its intents are taken for written
DRIVERS_MAX: Final = 1000  # with more, catalogd forgets the driver that reported longest ago
OPEN_MAX: Final = 1000  # intents of one driver
DONE_MAX: Final = 256  # writes of one driver that are kept, to recognise repeated reports
STATES: Final = (INTENT, WRITTEN, FAILED, ABANDONED, OVERWRITTEN, ALTERED, NAMED)


@dataclass(slots=True)
class Tally:
    """Counts since the start."""

    writes: int = 0
    reported_statements: int = 0  # that changed no data
    reported_writes_repeated: int = 0
    reported_writes_unknown: int = 0
    # Writes of tables that the driver's key may not see: no version was raised.
    reported_writes_not_visible: int = 0
    reported_writes_lapsed: int = 0


@dataclass(slots=True)
class _Driver:
    """The writes of one driver, by number; a report below ``finished`` is a late repetition."""

    finished: int = 0
    open: dict[int, WriteRow] = field(default_factory=dict)
    done: dict[int, WriteRow] = field(default_factory=dict)
    policy: Policy | None = None  # what its key may see; after a restart, once it reports again


class Reports:
    """The writes that were reported, and the intents that are open."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        locations: Locations,
        *,
        clock: Clock,
        known: Iterable[WriteRow] = (),
    ) -> None:
        """``known``: the writes that the store has; their leases start again."""
        self._namespace = namespace
        self._tables = tables
        self._clock = clock
        self._locations = locations
        self._drivers: dict[bytes, _Driver] = {}  # in the order of their last reports
        for row in known:
            driver = self._drivers.setdefault(row.driver, _Driver())
            (driver.open if row.open else driver.done)[row.number] = row
        self._reported_at: dict[bytes, float | None] = {
            name: None for name, driver in self._drivers.items() if driver.open
        }
        """When each driver with intents reported last; None: before this start."""
        self._unstored: list[WriteRow] = []  # rows that the store lacks
        self._discarded: list[WriteId] = []  # rows that the store is to delete
        self._writers: list[WriterRow] = []  # of versions that the store lacks
        self.tally = Tally()

    @property
    def intents(self) -> int:
        """How many intents are open."""
        return sum(len(driver.open) for driver in self._drivers.values())

    def counts(self) -> dict[str, int]:
        """Return what happened since the start, the open intents, and the drivers that reported."""
        return asdict(self.tally) | {"intents": self.intents, "drivers": len(self._drivers)}

    @property
    def deadline(self) -> float | None:
        """When ``lapse`` may have something to do; None: not before a driver reports an intent."""
        times = [0.0 if at is None else at + INTENT_LAPSES_S for at in self._reported_at.values()]
        return min(times, default=None)

    def knows(self, report: Report, policy: Policy | None = None) -> bool:
        """Return whether ``report`` can be applied now; if not, a poll may bring its objects."""
        driver = self._drivers.get(report.driver, _Driver())
        return all(
            one.state in (INTENT, ABANDONED, ALTERED, NAMED)
            or one.number in driver.done
            or one.number < driver.finished
            or bool(_fault(one, policy) or self._targets(one.object, policy))
            for one in report.writes
        )

    def apply(self, report: Report, *, policy: Policy | None = None) -> tuple[WriteOutcome, ...]:
        """Apply ``report``: raise data versions; return an outcome for each of its writes.

        ``policy``: only the versions of tables that it sees are raised. A path of another table is
        refused as a path that leads to no table.
        """
        if not report.writes:
            return ()  # it checks only whether its metastore is followed
        driver = self._drivers.pop(report.driver, None) or _Driver()
        self._drivers[report.driver] = driver
        driver.policy = policy
        driver.finished = max(driver.finished, report.finished)
        for number in [one for one in driver.done if one < driver.finished]:
            self._discard(report.driver, number)
        outcomes = tuple(self._apply(report.driver, one) for one in report.writes)
        if driver.open:
            self._reported_at[report.driver] = self._clock.now
        else:
            self._reported_at.pop(report.driver, None)
        self._bound()
        return outcomes

    def lapse(self) -> None:
        """Take the intents of drivers that have stopped reporting for written.

        The intent is discarded, not done, so that a later report of it still counts.
        """
        now = self._clock.now
        for name, at in tuple(self._reported_at.items()):
            if at is None:
                self._reported_at[name] = now
            elif now >= at + INTENT_LAPSES_S:
                del self._reported_at[name]
                self._lapse(name)

    def take(self) -> tuple[tuple[WriteRow, ...], tuple[WriteId, ...], tuple[WriterRow, ...]]:
        """Remove and return the rows that the store lacks, and the ids of those to delete.

        Third are the drivers whose reports have raised versions that the store lacks.
        """
        fresh, self._unstored = tuple(self._unstored), []
        gone, self._discarded = tuple(self._discarded), []
        writers, self._writers = tuple(self._writers), []
        return fresh, gone, writers

    def check(self) -> None:
        """Assert every invariant."""
        for name, driver in self._drivers.items():
            assert not driver.open.keys() & driver.done.keys()
            assert all(row.open for row in driver.open.values())
            assert not any(row.open for row in driver.done.values())
            assert len(driver.done) <= DONE_MAX
            assert not driver.open or name in self._reported_at

    def _apply(self, name: bytes, one: Write) -> WriteOutcome:
        driver = self._drivers[name]
        if one.number < driver.finished:
            self.tally.reported_writes_repeated += 1
            return _outcome(one)
        done = driver.done.get(one.number)
        if done is not None:
            self.tally.reported_writes_repeated += 1
            return _outcome(one, done.topic, done.version)
        fault = _fault(one, driver.policy)
        if fault is not None:
            self.tally.reported_writes_not_visible += fault.code == WriteProblem.NOT_VISIBLE
            return fault
        if one.state == INTENT:
            return self._note(name, one)
        if one.state == ABANDONED:
            self._close(_row(name, one, self._clock.now_us))
            return _outcome(one)
        if one.state in (ALTERED, NAMED):
            return self._alter(name, one)
        return self._finish(name, one)

    def _note(self, name: bytes, one: Write) -> WriteOutcome:
        open_ = self._drivers[name].open
        if one.number in open_:
            self.tally.reported_writes_repeated += 1
        elif len(open_) >= OPEN_MAX:
            return _refused(
                one, WriteProblem.TOO_MANY, f"{OPEN_MAX} writes of this driver are open"
            )
        else:
            row = replace(_row(name, one, self._clock.now_us), partitions=one.partitions, open=True)
            open_[one.number] = row
            self._unstored.append(row)
        return _outcome(one)

    def _finish(self, name: bytes, one: Write) -> WriteOutcome:
        source = SOURCE_OVERWRITES if one.state == OVERWRITTEN else SOURCE_REPORTS
        policy = self._drivers[name].policy
        targets = self._targets(one.object, policy)
        topic, version = self._raise(name, targets, one.partitions, source=source)
        if version:
            self.tally.writes += 1
            self._close(replace(_row(name, one, self._clock.now_us), topic=topic, version=version))
            return _outcome(one, topic, version)
        self.tally.reported_writes_unknown += 1
        if self._drivers[name].open.pop(one.number, None) is not None:
            self._discarded.append((name, one.number))
        why = f"{one.object}: neither a known table nor a path in one"
        return _refused(one, WriteProblem.NO_OBJECT, why)

    def _alter(self, name: bytes, one: Write) -> WriteOutcome:
        """Raise the version of a table, and that of its database if the table came or went.

        No reader knows a table that catalogd does not know yet. The version of its database tells
        readers that the names are about to change.
        """
        topic = version = 0
        table = parse_table_name(one.object)
        if self._namespace.find(table):
            topic, version = self._tables.raise_version(table, source=SOURCE_REPORTS)
            self._writers.append(WriterRow(topic, version, name))
        if one.state == NAMED:
            self._namespace.raise_version(table[0], source=SOURCE_REPORTS)
        self.tally.reported_statements += 1
        self._close(replace(_row(name, one, self._clock.now_us), topic=topic, version=version))
        return _outcome(one, topic, version)

    def _lapse(self, name: bytes) -> None:
        driver = self._drivers[name]
        for row in driver.open.values():
            self.tally.reported_writes_lapsed += 1
            self._raise(name, self._targets(row.object, driver.policy), row.partitions)
            self._discarded.append((name, row.number))
        driver.open.clear()

    def _raise(
        self,
        name: bytes,
        targets: Mapping[TableId, tuple[str, ...]],
        partitions: tuple[str, ...],
        *,
        source: int = SOURCE_REPORTS,
    ) -> tuple[int, int]:
        """Raise the data versions of the tables that a write of the driver ``name`` touched.

        Returns:
            The last topic and version.
        """
        topic = version = 0
        for table, named in targets.items():
            topic, version = self._tables.raise_data(
                table,
                partitions=named or partitions,
                source=source,
            )
            self._writers.append(WriterRow(topic, version, name))
        return topic, version

    def _close(self, row: WriteRow) -> None:
        driver = self._drivers[row.driver]
        driver.open.pop(row.number, None)
        driver.done[row.number] = row
        self._unstored.append(row)
        while len(driver.done) > DONE_MAX:
            self._discard(row.driver, next(iter(driver.done)))

    def _bound(self) -> None:
        while len(self._drivers) > DRIVERS_MAX:
            silent = (name for name, driver in self._drivers.items() if not driver.open)
            name = next(silent, None)
            if name is None:
                return  # every driver has intents, at most OPEN_MAX each
            for number in tuple(self._drivers[name].done):
                self._discard(name, number)
            del self._drivers[name]

    def _discard(self, name: bytes, number: int) -> None:
        del self._drivers[name].done[number]
        self._discarded.append((name, number))

    def _targets(self, wanted: str, policy: Policy | None) -> dict[TableId, tuple[str, ...]]:
        """Return the tables that ``wanted`` means, a name or a path, with a path's partitions.

        Tables that ``policy`` does not see are left out.
        """
        if is_path(wanted):
            self._locations.catch_up()
            found = self._locations.find(wanted)
        else:
            found = {parse_table_name(wanted): ()}
        return {
            table: named
            for table, named in found.items()
            if self._namespace.find(table) and (policy is None or policy.sees(table[0]))
        }


def is_path(text: str) -> bool:
    """Return whether ``text`` is a path, not the name of a table."""
    return "/" in text


def _row(driver: bytes, one: Write, at_us: int) -> WriteRow:
    """Return the row of a write that is done and changed nothing."""
    return WriteRow(
        driver=driver, number=one.number, object=one.object, partitions=(), open=False, at_us=at_us
    )


def _outcome(one: Write, topic: int = 0, version: int = 0) -> WriteOutcome:
    return WriteOutcome(number=one.number, topic=topic, version=version)


def _refused(one: Write, code: WriteProblem, message: str) -> WriteOutcome:
    return WriteOutcome(number=one.number, topic=0, version=0, code=code, message=message)


def _fault(one: Write, policy: Policy | None) -> WriteOutcome | None:
    """Return why ``one`` is refused whatever is known; None: it is well formed, and visible."""
    if one.state not in STATES:
        expected = f"state {one.state}, one of {STATES[0]} to {STATES[-1]} expected"
        return _refused(one, WriteProblem.MALFORMED, expected)
    if is_path(one.object) and one.state not in (ALTERED, NAMED):
        return None
    try:
        db, _ = parse_table_name(one.object)
    except UsageError as error:
        return _refused(one, WriteProblem.MALFORMED, str(error))
    if policy is None or policy.sees(db):
        return None
    return _refused(
        one,
        WriteProblem.NOT_VISIBLE,
        f"{one.object} is not visible to this driver's key, which sees {policy}: "
        "its write is not reported to others; use a key that sees it",
    )
