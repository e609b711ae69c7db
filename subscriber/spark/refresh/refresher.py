"""Refresh: which change means which call on which session, as a pure core.

    change ──▶ owed ──look: the session has the relation──▶ Renew, or Recache ──▶ settled
                 └──────── it has not ──▶ owed for LATE_S: what is being loaded meanwhile is stale

A relation enters Spark's cache after its files were listed, so one that appears soon after a
change may be older than it: the first look that finds it has it renewed once more.
Partitions that come and go need nothing: Spark asks for them in every query.
A table that only DataFrames still hold is renewed for them; what is being loaded is owed still.
Invariant: of one change a session is told at most once for each relation, and once for DataFrames.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ....topics.errors import UsageError
from ....topics.objects.rules import DRY_RUN, OFF, ON, STATES
from ...protocol.facts import DATA_CHANGED, SCHEMA, Change
from ...store.change_feed import CATCH_UP

LATE_S: Final = 60.0  # listing a table's files takes seconds; of tens of thousands, a minute
SOON_S: Final = 2.0  # in which every session is looked at
OWED_MAX: Final = 100_000  # 20 MB; of more changes the oldest are taken as settled
UNKNOWN_S: Final = 0.1  # between two looks for tables that no session had at the last one
LOOK_S: Final = 0.5  # between two looks while something is owed
REREAD_S: Final = 1.0  # between two looks that only count what was read again

_EVERYTHING: Final = "*"


class Existing(Enum):
    """When relations that DataFrames hold are to list their files anew."""

    NEVER = "never"  # they have other columns than the files, or are of another table
    IF_GONE = "if gone"  # their files are: whoever reads them fails
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """Let ``session`` forget the relation of ``table``."""

    session: str
    table: str
    existing: Existing


@dataclass(frozen=True, slots=True, kw_only=True)
class Recache:
    """Let ``session`` forget the relation of ``table``, and make what it caches of it anew."""

    session: str
    table: str
    existing: Existing


Order = Renew | Recache


@dataclass(slots=True)
class Counts:
    """Since the start.

    ``changes``: heard of; ``spared``: those that need nothing. ``renewed``: tables renewed;
    ``reread``: those that were read again, a stale read each. ``would``: what a dry run would
    have renewed. ``losses``: how often everything was suspect.
    """

    changes: int = 0
    spared: int = 0
    renewed: int = 0
    reread: int = 0
    would: int = 0
    losses: int = 0


@dataclass(frozen=True, slots=True)
class _Owed:
    number: int
    reshaped: int  # number of the newest change of more than its data
    overwritten: int  # of the newest one of which is known that files are gone
    until: float


@dataclass(slots=True)
class _Session:
    settled: dict[str, int] = field(default_factory=dict)  # table -> number of the newest settled
    eased: dict[str, int] = field(default_factory=dict)  # likewise, but for DataFrames only
    waiting: set[str] = field(default_factory=set)  # renewed, not read again yet
    recached: set[str] = field(default_factory=set)  # their data may be cached without a relation
    cached: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()  # there may be DataFrames of what was cached
    looked: int = 0  # number of the newest change when it was looked at last


class Refresher:
    """Decides what is refreshed. Sessions are named by their id, tables ``db.table``."""

    def __init__(
        self, *, control: str = ON, refresh_existing: bool = False, refresh_cached: bool = False
    ) -> None:
        self.control = control
        self.counts = Counts()
        in_place = refresh_existing or refresh_cached  # cached data is made of relations, too
        self._existing = Existing.ALWAYS if in_place else Existing.IF_GONE
        self._refresh_cached = refresh_cached
        self._owed: dict[str, _Owed] = {}  # by table, database or all, in the order of numbers
        self._sessions: dict[str, _Session] = {}
        self._number = 0
        self._news = self._urgent = False  # urgent: of what was cached at the last look

    @property
    def sessions(self) -> int:
        """How many sessions there were at the last turn."""
        return len(self._sessions)

    @property
    def relations(self) -> int:
        """How many relations the sessions had at their last look."""
        return sum(len(session.cached) for session in self._sessions.values())

    def pause_s(self) -> float | None:
        """Tell how long after the last turn the next one is due; None: not before a change."""
        if self.control == OFF:
            return None
        if self._urgent:
            return 0.0
        if self._news:
            return UNKNOWN_S
        if self._owed:
            return LOOK_S
        return REREAD_S if any(one.waiting for one in self._sessions.values()) else None

    @property
    def patient(self) -> bool:
        """Whether a turn is due soon, so that changes of what is not cached may wait for it."""
        return self.pause_s() == UNKNOWN_S

    def is_cached(self, name: str) -> bool:
        """Tell whether a session had a relation of ``name``, a table, at the last look."""
        if "." not in name:
            return True  # a database, or everything
        return any(
            name in one.cached or name in one.recached or name in one.held
            for one in self._sessions.values()
        )

    def changed(self, change: Change, *, now: float) -> None:
        """Take that an object differs."""
        self.counts.changes += 1
        if self.control == OFF:
            return
        if change.kind == DATA_CHANGED and not change.files:
            self.counts.spared += 1
            return
        if "." not in change.object and change.kind in {SCHEMA, DATA_CHANGED}:
            self.counts.spared += 1  # properties of a database: no relation has them
            return
        # After a catch-up nobody knows what has changed of a table, its columns included.
        reshaped = change.kind != DATA_CHANGED or change.origin == CATCH_UP
        self._owe(
            change.object,
            reshaped=reshaped,
            overwritten=change.overwritten,
            until=now + LATE_S,
        )

    def lost(self, *, now: float, late: bool) -> None:
        """Take that changes may have been missed: all relations are suspect.

        ``late``: those, too, that are being loaded now and appear later.
        """
        self.counts.losses += 1
        if self.control != OFF:
            self._owe(_EVERYTHING, reshaped=True, until=now + (LATE_S if late else SOON_S))

    def turn(self, control: str, *, now: float) -> None:
        """Switch off, on, or to a dry run; what was not refreshed meanwhile is suspect.

        Raises:
            UsageError: it is none of them.
        """
        if control not in STATES:
            raise UsageError(f"control {control!r}: {', '.join(STATES)}")
        before, self.control = self.control, control
        if control == OFF:
            self._owed.clear()
        elif before == OFF or control == ON != before:
            self.lost(now=now, late=True)

    def begin(self, sessions: Iterable[str], *, now: float) -> None:
        """Begin a turn: every one of ``sessions`` is looked at, others are forgotten."""
        self._news = self._urgent = False
        left = set(sessions)
        for gone in [one for one in self._sessions if one not in left]:
            del self._sessions[gone]
        oldest = next(iter(self._owed), "")
        while oldest and self._owed[oldest].until < now:
            del self._owed[oldest]
            oldest = next(iter(self._owed), "")
        everything = self._owed.get(_EVERYTHING)
        if everything is not None and everything.until < now:
            del self._owed[_EVERYTHING]

    def look(
        self, session: str, cached: frozenset[str], held: frozenset[str] = frozenset()
    ) -> tuple[Order, ...]:
        """Take which tables ``session`` has relations of; return what is to be done there.

        ``held``: tables of which DataFrames may have relations that it has forgotten.
        """
        if self.control == OFF:
            return ()
        seen = self._sessions.setdefault(session, _Session())
        seen.cached, seen.held = cached, held
        if self._refresh_cached:
            seen.recached |= cached
        again = seen.waiting & cached
        seen.waiting -= again
        self.counts.reread += len(again)
        orders = self._orders(session, seen) if self._owed else []
        seen.looked = self._number
        seen.settled = {t: n for t, n in seen.settled.items() if self._newest(t) is not None}
        seen.eased = {t: n for t, n in seen.eased.items() if self._newest(t) is not None}
        if self.control == DRY_RUN:
            self.counts.would += len(orders)
            return ()
        return tuple(orders)

    def suspects(self, session: str) -> bool:
        """Tell whether a table that ``session`` has, or had, is owed: what else holds its relation?

        A plan that is being made meanwhile may keep one that the session has forgotten.
        """
        seen = self._sessions.get(session)
        if seen is None or not self._owed or self.control != ON:
            return False
        return any(self._newest(table) is not None for table in seen.cached | seen.waiting)

    def done(self, order: Order) -> None:
        """Take that ``order`` was carried out."""
        self.counts.renewed += 1
        seen = self._sessions.get(order.session)
        if seen is not None:
            seen.waiting.add(order.table)

    def failed(self, order: Order) -> None:
        """Take that ``order`` could not be carried out: it is given again at the next look."""
        seen = self._sessions.get(order.session)
        if seen is not None:
            seen.settled.pop(order.table, None)
            seen.eased.pop(order.table, None)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._owed) <= OWED_MAX
        numbers = [owed.number for owed in self._owed.values()]
        assert numbers == sorted(numbers)
        assert not numbers or numbers[-1] <= self._number
        for seen in self._sessions.values():
            numbers = [*seen.settled.values(), *seen.eased.values()]
            assert all(number <= self._number for number in numbers)

    def _owe(self, name: str, *, reshaped: bool, until: float, overwritten: bool = False) -> None:
        old = self._owed.pop(name, _Owed(0, 0, 0, 0.0))
        self._number += 1
        self._owed[name] = _Owed(
            self._number,
            self._number if reshaped else old.reshaped,
            self._number if overwritten else old.overwritten,
            until,
        )
        if len(self._owed) > OWED_MAX:
            del self._owed[next(iter(self._owed))]
        self._news = True
        self._urgent = self._urgent or self.is_cached(name)

    def _orders(self, session: str, seen: _Session) -> list[Order]:
        orders: list[Order] = []
        loaded = seen.cached | seen.recached
        for table in sorted(loaded | seen.held):
            owed, settled = self._newest(table), seen.settled.get(table, 0)
            if table not in loaded:
                settled = max(settled, seen.eased.get(table, 0))
            if owed is None or owed.number <= settled:
                continue
            (seen.settled if table in loaded else seen.eased)[table] = owed.number
            kind = Recache if self._refresh_cached else Renew
            existing = Existing.ALWAYS if owed.overwritten > settled else self._existing
            if owed.reshaped > settled and not self._is_late(owed, seen):
                existing = Existing.NEVER
            orders.append(kind(session=session, table=table, existing=existing))
        return orders

    def _is_late(self, owed: _Owed, seen: _Session) -> bool:
        """Tell whether it came after all was suspect: its columns were read since, if not files."""
        everything = self._owed.get(_EVERYTHING)
        return everything is not None and owed.reshaped == everything.reshaped <= seen.looked

    def _newest(self, table: str) -> _Owed | None:
        names = (table, table.partition(".")[0], _EVERYTHING)
        found = [owed for name in names if (owed := self._owed.get(name)) is not None]
        if not found:
            return None
        newest = max(found, key=lambda owed: owed.number)
        return _Owed(
            newest.number,
            max(owed.reshaped for owed in found),
            max(owed.overwritten for owed in found),
            newest.until,
        )
