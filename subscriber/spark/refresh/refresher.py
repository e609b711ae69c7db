"""Refresher: decides which relations of which sessions a change makes stale, as a pure core.

    change ──▶ recent ──look: the session has the relation──▶ Invalidation ──▶ handled
                  └────── it has not ──▶ kept for LATE_S: a relation that is being loaded is stale

Invariant: a session gets at most one order of a change for each relation, and one for DataFrames.

- Spark puts a relation into its cache after it has listed the files, so that a relation that
  appears soon after a change may be older than the change: the first look that finds it renews it.
- As a rule Spark requests partitions of the metastore in every query, so that partitions that come
  or go need no refresh. In a session that lists them itself
  (spark.sql.hive.manageFilesourcePartitions=false) the relation is renewed, and in every session if
  cached data is to be computed again.
- A table whose relation only DataFrames still hold is renewed for them, and again for later ones.
- With spark.sql.caseSensitive=true a session has a relation for each spelling of a table's name,
  and each is renewed by itself. Changes have names in lower case, as the metastore does.
- Of a table whose topic is not followed no change arrives. The worker lets it count as changed now
  and then, for which cached data is not computed again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ....topics.errors import UsageError
from ....topics.newest import Newest
from ....topics.objects.changes import ChangeKind
from ....topics.objects.rules import DRY_RUN, OFF, ON, STATES
from ...protocol.effects import Change
from ...store.change_feed import CATCH_UP

LATE_S: Final = 60.0  # that a change is recent: listing tens of thousands of files takes a minute
SOON_S: Final = 2.0  # the same, if only relations that exist are to be renewed: a look finds these
RECENT_MAX: Final = 100_000  # objects with recent changes, 20 MB; of more the oldest are discarded
UNCACHED_S: Final = 0.1  # until a look for a changed table that no session had at the last look
LOOK_S: Final = 0.5  # between two looks while there are recent changes
REREAD_S: Final = 1.0  # between two looks that only count which relations were read again

# Names of recent changes, besides those of tables and databases:
_EVERYTHING: Final = "*"  # any table may have changed
_TOPIC: Final = "topic "  # and the number of a topic: any table in it may have changed
_UNSEEN: Final = "unseen "  # likewise, as no change in the topic arrives
_PARTITIONS: Final = "/"  # behind a table's name: partitions came or went, and nothing else changed


class Existing(Enum):
    """When relations that DataFrames still hold are to list their files anew."""

    NEVER = "never"  # the table has other columns, or is another table: they cannot read its files
    IF_GONE = "if gone"  # if files are gone that they have listed, so that queries would fail
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalidation:
    """Order: invalidate the relation of ``table`` in ``session``.

    ``existing``: what becomes of relations that DataFrames hold. ``recache``: compute cached data
    again. ``known``: the table has changed; False: it may have, as no change of it arrives.
    """

    session: str
    table: str
    existing: Existing
    recache: bool = False
    known: bool = True


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of a look into a session.

    ``tables``: those of which it has relations, in the spelling of the queries.
    ``lists_partitions``: its relations list partitions themselves, instead of requesting them of
    the metastore each time. ``held``: tables of which DataFrames may hold relations that were
    invalidated.
    """

    tables: frozenset[str]
    lists_partitions: bool = False
    held: frozenset[str] = frozenset()


@dataclass(slots=True)
class RefreshCounts:
    """Counts since the start.

    ``changes``: received changes; ``ignored``: those that need no refresh. ``renewed``: relations
    renewed; ``reread``: those that a query has read again, each a stale read avoided.
    ``would_renew``: relations that a dry run would have renewed. ``full``: how often all relations
    were to be renewed.
    """

    changes: int = 0
    ignored: int = 0
    renewed: int = 0
    reread: int = 0
    would_renew: int = 0
    full: int = 0


@dataclass(frozen=True, slots=True)
class _Recent:
    """The recent changes of one object. Changes are numbered from 1 in their order."""

    number: int  # of the newest change
    reshaped: int  # the number of the newest change of more than data; 0: there is none
    overwritten: int  # the number of the newest change after which files are gone; 0: none
    until: float  # the time at which the newest change is no longer recent


@dataclass(slots=True)
class _Session:
    """A session, as of its last look; tables in the spelling of its queries."""

    handled: dict[str, int] = field(default_factory=dict)  # by table: its newest handled change
    handled_held: dict[str, int] = field(default_factory=dict)  # the same, of DataFrames alone
    unread: set[str] = field(default_factory=set)  # tables renewed, and not read again since
    recached: set[str] = field(default_factory=set)  # tables whose data may be cached, ever since
    cached: frozenset[str] = frozenset()  # tables of which it has relations
    capitals: set[str] = field(default_factory=set)  # the lower case of names with capital letters
    held: frozenset[str] = frozenset()  # tables of which DataFrames may hold invalidated relations
    lists_partitions: bool = False  # its relations list partitions themselves
    looked: int = 0  # the number of the newest change at that look


class Refresher:
    """Decides what is refreshed; for one thread, but for the properties.

    A session is named by its id, a table ``db.table``: in a change in lower case, in a session in
    the spelling of its queries.
    """

    def __init__(
        self,
        *,
        control: str = ON,
        refresh_existing: bool = False,
        refresh_cached: bool = False,
        lists_partitions: bool = False,
        uncached_s: float = UNCACHED_S,
    ) -> None:
        """Begin without a session.

        Args:
            control: on, off or dry-run.
            refresh_existing: DataFrames that exist see files that others append.
            refresh_cached: Cached data of changed tables is computed again.
            lists_partitions: Sessions that come list partitions themselves.
            uncached_s: How long a changed table that no session has waits for a look.
        """
        self.control = control  # on, off or dry-run
        self.counts = RefreshCounts()
        in_place = refresh_existing or refresh_cached  # cached data, too, is computed of relations
        self._existing = Existing.ALWAYS if in_place else Existing.IF_GONE
        self._refresh_cached = refresh_cached
        self._lists_partitions = lists_partitions
        self._uncached_s = uncached_s
        self._recent = Newest[str, _Recent](RECENT_MAX)  # by object, the oldest change first
        self._sessions: dict[str, _Session] = {}  # by id, as of the last turn
        self._topic_of: Callable[[str], int] | None = None  # None: each topic was followed so far
        self._number = 0  # of the newest change
        self._news = False  # whether a change has come since the last turn
        self._urgent = False  # whether such a change is of a table that a session has cached

    @property
    def sessions(self) -> int:
        """How many sessions there were at the last turn."""
        return len(self._sessions)

    @property
    def relations(self) -> int:
        """How many relations the sessions had at their last look."""
        return sum(len(session.cached) for session in self._sessions.values())

    @property
    def tables(self) -> frozenset[str]:
        """The tables that any session had cached, or held, at its last look."""
        sessions = self._sessions.values()
        return frozenset().union(*(one.cached | one.recached | one.held for one in sessions))

    def pause_s(self) -> float | None:
        """Return how many seconds after the last turn the next is due; None: with a change."""
        if self.control == OFF:
            return None
        if self._urgent:
            return 0.0
        if self._news:
            return self._uncached_s
        if self._recent:
            return LOOK_S
        return REREAD_S if any(one.unread for one in self._sessions.values()) else None

    @property
    def can_wait(self) -> bool:
        """Whether a turn is due soon, so that changes of tables that are not cached may wait."""
        return self._news and not self._urgent and self.control != OFF

    def is_cached(self, name: str) -> bool:
        """Return whether a session had a relation of the table ``name`` at its last look.

        Of a database, and of everything, it is always so.
        """
        if "." not in name:
            return True
        return any(
            name in one.cached or name in one.recached or name in one.held or name in one.capitals
            for one in self._sessions.values()
        )

    def changed(self, change: Change, *, now: float) -> None:
        """Take a change of the catalog, at the time ``now``."""
        self.counts.changes += 1
        if self.control == OFF:
            return
        if change.kind == ChangeKind.DATA and not change.files:
            if self._are_partitions_kept():
                self._note(change.object + _PARTITIONS, reshaped=False, until=now + LATE_S)
            else:
                self.counts.ignored += 1
            return
        if "." not in change.object and change.kind in {ChangeKind.SCHEMA, ChangeKind.DATA}:
            self.counts.ignored += 1  # properties of a database, which no relation depends on
            return
        # A catch-up does not say what has changed in a table: it may be its columns.
        reshaped = change.kind != ChangeKind.DATA or change.origin == CATCH_UP
        self._note(
            change.object,
            reshaped=reshaped,
            overwritten=change.overwritten,
            until=now + LATE_S,
        )

    def renew_all(self, *, now: float, late: bool) -> None:
        """Have all relations renewed: changes may have been missed.

        ``late``: also relations that Spark is loading now, so that a later look finds them.
        """
        self.counts.full += 1
        if self.control != OFF:
            self._note(_EVERYTHING, reshaped=True, until=now + (LATE_S if late else SOON_S))

    def changed_unseen(
        self, topics: Iterable[int], *, topic_of: Callable[[str], int], now: float
    ) -> None:
        """Note that any table in ``topics``, of which no change arrives, may have changed."""
        self._topic_of = topic_of
        for topic in topics if self.control != OFF else ():
            self._note(f"{_UNSEEN}{topic}", reshaped=True, until=now + SOON_S)

    def followed(self, topics: Iterable[int], *, now: float) -> None:
        """Have tables in ``topics`` renewed: changes arrive from now on, and did not before."""
        for topic in topics if self.control != OFF else ():
            self._note(f"{_TOPIC}{topic}", reshaped=True, until=now + LATE_S)

    def switch(self, control: str, *, now: float) -> None:
        """Switch to ``control``; after off, and from a dry run to on, all relations are renewed.

        Raises:
            UsageError: ``control`` is none of on, off and dry-run.
        """
        if control not in STATES:
            raise UsageError(f"control {control!r}: {', '.join(STATES)}")
        before, self.control = self.control, control
        if control == OFF:
            self._recent.clear()
        elif before == OFF or control == ON != before:
            self.renew_all(now=now, late=True)

    def begin_turn(self, sessions: Iterable[str], *, now: float) -> None:
        """Begin to look at each of ``sessions``; discard other sessions, and old changes."""
        self._news = self._urgent = False
        left = set(sessions)
        for gone in [one for one in self._sessions if one not in left]:
            del self._sessions[gone]
        oldest = next(iter(self._recent), "")
        while oldest and self._recent[oldest].until < now:
            del self._recent[oldest]
            oldest = next(iter(self._recent), "")
        soon = [_EVERYTHING]
        if self._topic_of is not None:
            soon += [one for one in self._recent if one.startswith(_UNSEEN)]
        for name in soon:
            if name in self._recent and self._recent[name].until < now:
                del self._recent[name]

    def look(self, session: str, looked: Looked) -> tuple[Invalidation, ...]:
        """Take what a look has found in ``session``; return the orders for it."""
        if self.control == OFF:
            return ()
        cached = looked.tables
        seen = self._sessions.setdefault(session, _Session())
        if cached is not seen.cached:
            seen.capitals |= {low for one in cached if (low := one.lower()) != one}
        loaded = cached - seen.cached
        seen.cached, seen.held = cached, looked.held
        seen.lists_partitions = looked.lists_partitions
        if self._refresh_cached:
            seen.recached |= cached
        again = seen.unread & cached
        seen.unread -= again
        self.counts.reread += len(again)
        orders = self._orders(session, seen, loaded) if self._recent else []
        seen.looked = self._number
        for handled in (seen.handled, seen.handled_held):
            for table in [one for one in handled if self._newest(one, seen) is None]:
                del handled[table]
        if self.control == DRY_RUN:
            self.counts.would_renew += sum(order.known for order in orders)
            return ()
        return tuple(orders)

    def has_recent_change(self, session: str) -> bool:
        """Return whether a table has changed lately of which ``session`` has, or had, a relation.

        A plan that Spark has made meanwhile may hold a relation that was invalidated.
        """
        seen = self._sessions.get(session)
        if seen is None or not self._recent or self.control != ON:
            return False
        tables = seen.cached | seen.unread
        return any(self._newest(table, seen) is not None for table in tables)

    def done(self, order: Invalidation) -> None:
        """Note that ``order`` was carried out."""
        self.counts.renewed += 1
        seen = self._sessions.get(order.session)
        if seen is not None and order.known:
            seen.unread.add(order.table)

    def failed(self, order: Invalidation) -> None:
        """Note that ``order`` could not be carried out: the next look returns it again."""
        seen = self._sessions.get(order.session)
        if seen is not None:
            seen.handled.pop(order.table, None)
            seen.handled_held.pop(order.table, None)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._recent) <= RECENT_MAX
        numbers = [recent.number for recent in self._recent.values()]
        assert numbers == sorted(numbers)
        assert not numbers or numbers[-1] <= self._number
        for seen in self._sessions.values():
            numbers = [*seen.handled.values(), *seen.handled_held.values()]
            assert all(number <= self._number for number in numbers)

    def _are_partitions_kept(self) -> bool:
        """Return whether a session keeps partitions: in its relations, or in cached data."""
        kept = self._lists_partitions or self._refresh_cached
        return kept or any(one.lists_partitions for one in self._sessions.values())

    def _note(self, name: str, *, reshaped: bool, until: float, overwritten: bool = False) -> None:
        """Note a change of ``name``, which is the newest of all."""
        old = self._recent.get(name, _Recent(0, 0, 0, 0.0))
        self._number += 1
        noted = _Recent(
            self._number,
            self._number if reshaped else old.reshaped,
            self._number if overwritten else old.overwritten,
            until,
        )
        self._recent.put(name, noted)
        self._news = True
        self._urgent = self._urgent or self.is_cached(name.removesuffix(_PARTITIONS))

    def _orders(self, session: str, seen: _Session, loaded: frozenset[str]) -> list[Invalidation]:
        """Return the orders for ``session``; ``loaded``: relations that are new at this look."""
        orders: list[Invalidation] = []
        cached = seen.cached | seen.recached
        for table in sorted(cached | seen.held):
            recent, handled = self._newest(table, seen), seen.handled.get(table, 0)
            if table not in cached:
                handled = max(handled, seen.handled_held.get(table, 0))
            if recent is None or recent.number <= handled:
                continue
            (seen.handled if table in cached else seen.handled_held)[table] = recent.number
            existing = Existing.ALWAYS if recent.overwritten > handled else self._existing
            # A relation that was loaded since the last look has each shape that was known by then.
            has_shape = table in loaded and recent.reshaped <= seen.looked
            if recent.reshaped > handled and not has_shape:
                existing = Existing.NEVER
            seen_changes = self._found(table, seen, unseen=False)
            known = any(one.number > handled for one in seen_changes)
            orders.append(
                Invalidation(
                    session=session,
                    table=table,
                    existing=existing,
                    recache=self._refresh_cached and known,
                    known=known,
                )
            )
        return orders

    def _found(self, table: str, seen: _Session, *, unseen: bool = True) -> list[_Recent]:
        """Return the recent changes that concern ``table``.

        ``unseen``: also that of its topic, if no change in the topic arrives.
        """
        name = table.lower()
        names = [name, name.partition(".")[0], _EVERYTHING]
        if seen.lists_partitions or self._refresh_cached:
            names.append(name + _PARTITIONS)
        if self._topic_of is not None:
            topic = self._topic_of(table)
            names += [f"{_TOPIC}{topic}", f"{_UNSEEN}{topic}"][: 1 + unseen]
        return [recent for one in names if (recent := self._recent.get(one)) is not None]

    def _newest(self, table: str, seen: _Session) -> _Recent | None:
        """Return the recent changes that concern ``table`` as one; None: there are none."""
        found = self._found(table, seen)
        if not found:
            return None
        newest = max(found, key=lambda recent: recent.number)
        return _Recent(
            newest.number,
            max(recent.reshaped for recent in found),
            max(recent.overwritten for recent in found),
            newest.until,
        )
