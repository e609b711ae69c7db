"""NameCheck: whether names appear or vanish in the metastore while no event reports it.

    due ──listing──▶ equal ──▶ NAMES_S later due again, for the next databases
                       └ differs: read ──▶ suspected ──an event names it──▶ cleared
                                               └──no event, and it is as it was listed──▶ missed

Some metastores record no events though they say that they do, or do not say whether they do: one of
several servers lacks the listener, or the listener is of another kind. ``missed`` keeps its text
until new events arrive. Each listing also has the names of the partitions of one table.
Invariant: a name is not counted as missed if its event was only late, or was not read yet.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ...topics.backports import assert_never
from ...topics.objects.names import TableId, table_name
from ..metastore.port import (
    LISTED_DATABASES_MAX,
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    ListNames,
    NamesListed,
)
from .poller import LISTENER_SETTING, WINDOW_S

NAMES_S: Final = 30.0  # between two listings: at most 3.4 calls/s; 1,000 databases in 5 minutes
RETRY_S: Final = 1.0  # after a listing that failed
OVER_S: Final = 600.0  # since names were missed: where one server of several records, events come
SUSPECTS_MAX: Final = 1_000  # all that differs is read, one is enough to know

Name = tuple[str, str, str]
"""Of a partition: database, table, its name; of a table or database with the rest empty."""
Differences = Mapping[Name, bool]
"""By name: whether the metastore lists it."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A name that differed."""

    listed: bool  # whether the metastore had it
    at: float  # when that was found
    seq: int  # arrival number of what was read because of it


class NameCheck:
    """What is listed when, and what follows from a difference; one listing at a time."""

    def __init__(self, interval_s: float = NAMES_S) -> None:
        """``interval_s``: between two listings that no request waits for."""
        self._interval_s = interval_s
        self.missed = ""  # why not all changes arrive; empty: as far as is known, they do
        self.suspects: dict[Name, _Suspect] = {}  # for ``judge``; SUSPECTS_MAX at most
        self.rounds_done = 0  # times that every database was compared
        self._rounds_begun = 0
        self._listing = False
        self._after = ""  # the databases up to this one are compared in the running round
        self._due_at: float | None = None  # of the next listing; None: before the first ``begin``
        self._awaited = 0  # the round that a request waits for
        self._over_at = 0.0  # an event that arrives then or later clears ``missed``;
        self._connection = 0  # an earlier one does if it arrives on another connection than this

    @property
    def deadline(self) -> float | None:
        """When the next listing is due; None while one runs."""
        return None if self._listing else self._due_at

    def demand(self, now: float) -> int:
        """Compare every name from now on; return the round at whose end that is done."""
        self._awaited = self._rounds_begun + 1
        self._due_at = now
        return self._awaited

    def begin(self, now: float, table: Callable[[], TableId | None]) -> ListNames | None:
        """Return the listing that is due; None if none is.

        ``table`` returns the table whose partitions this listing compares, or None.
        """
        if self._due_at is None:
            self._due_at = now + self._interval_s
        if self._listing or now < self._due_at:
            return None
        self._listing = True
        self._rounds_begun += not self._after
        return ListNames(after=self._after, table=table())

    def on_failed(self, now: float) -> None:
        """Note that the listing failed; it is repeated RETRY_S later."""
        self._listing = False
        self._rounds_begun -= not self._after
        self._due_at = now + RETRY_S

    def on_listed(self, fact: NamesListed, found: Differences, *, seq: int, now: float) -> None:
        """Suspect the names that differ; they are read under the arrival number ``seq``."""
        self._listing = False
        for name, listed in found.items():
            if len(self.suspects) < SUSPECTS_MAX:
                self.suspects[name] = _Suspect(listed, now, seq)
        whole = len(fact.tables) < LISTED_DATABASES_MAX
        self._after = "" if whole else max(fact.tables)
        self.rounds_done += whole
        self._due_at = now if self._awaited > self.rounds_done else now + self._interval_s

    def on_event(self, objects: tuple[Dirty, ...]) -> None:
        """Suspect no longer the names of ``objects``, which an event has reported."""
        for one in objects:
            match one:
                case DirtyPartitions(db=db, table=table, names=names):
                    for name in names:
                        self.suspects.pop((db, table, name), None)
                case DirtyTable(db=db, table=table):
                    for known in [known for known in self.suspects if known[:2] == (db, table)]:
                        del self.suspects[known]
                case DirtyDatabase(db=db):
                    self.suspects.pop((db, "", ""), None)
                case _:
                    assert_never(one)

    def on_events(self, *, connection: int, now: float) -> None:
        """Clear ``missed`` if that new events have arrived on ``connection`` disproves it."""
        if now >= self._over_at or connection != self._connection:
            self.missed = ""

    def clear(self) -> None:
        """Suspect nothing: events are missing for another reason."""
        self.suspects.clear()

    def judge(
        self,
        *,
        unpublished: int,
        exists: Callable[[Name], bool],
        polled_at: float,
        connection: int,
        now: float,
    ) -> str:
        """Return the text of ``missed`` if this call has set it, else nothing.

        Args:
            unpublished: The arrival number of the oldest change that is not published.
            exists: Returns whether catalogd holds an object of this name.
            polled_at: When the newest poll began that brought everything.
            connection: The connection that answered it.
            now: The time, in seconds.
        """
        judged = {
            name: one
            for name, one in self.suspects.items()
            if one.at + WINDOW_S <= polled_at and one.seq < unpublished
        }
        for name in judged:
            del self.suspects[name]
        confirmed = [name for name, one in judged.items() if exists(name) is one.listed]
        if not confirmed:
            return ""
        self._over_at = now + OVER_S
        if self.missed:
            return ""
        self._connection = connection
        db, table, part = first = confirmed[0]
        verb = "is there" if judged[first].listed else "is gone"
        what = f"table {table_name(db, table)}" if table else f"database {db}"
        what = f"partition {part} of {what}" if part else what
        self.missed = (
            f"{what} {verb}, and no event reported it: the metastore, or one of its servers, does "
            f"not record every change: {LISTENER_SETTING}; then everything is read again"
        )
        return self.missed
