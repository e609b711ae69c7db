"""NameListing: whether the names of databases and tables are known, and when they are read again.

STARTING ──names read──▶ SERVING ──events are missing──▶ RELISTING ──names read──▶ SERVING
                            └──────────another metastore answers──────────▶ ABANDONED
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from ...topics.objects.names import TableId
from ...topics.turn import PartTurn
from ...topics.wire.messages.data import SOURCE_LOAD
from ..ingest.events.event_window import Gap
from ..ingest.events.poller import Poller
from ..ingest.loads.follow_rules import FollowRules
from ..ingest.loads.loader import Loader
from ..metastore.port import DirtyDatabase, NamesFailed, NamesRead, ReadNames
from ..model.namespace import Namespace
from ..reconcile.reconciliation import Reconciliation
from .notes import CatalogCounts, Noted

LISTING_RETRY_S: Final = 1.0
NAMES_AGAIN_S: Final = 10.0  # between two listings because of events that name no object


class Lifecycle(Enum):
    """Whether the names of databases and tables have been read."""

    STARTING = "STARTING"  # no names were ever read: catalogd refuses most requests
    SERVING = "SERVING"
    RELISTING = "RELISTING"  # events are missing: catalogd serves requests, but syncs wait
    ABANDONED = "ABANDONED"  # another metastore answers: this core takes and sends nothing


NEXT: Final[Mapping[Lifecycle, tuple[Lifecycle, ...]]] = {
    Lifecycle.STARTING: (Lifecycle.SERVING, Lifecycle.ABANDONED),
    Lifecycle.SERVING: (Lifecycle.RELISTING, Lifecycle.ABANDONED),
    Lifecycle.RELISTING: (Lifecycle.SERVING, Lifecycle.ABANDONED),
    Lifecycle.ABANDONED: (),
}
"""The states that may follow each state; catalogd makes a new core after ABANDONED."""


class NameListing:
    """The state of the names; after lost events it has everything read again."""

    def __init__(
        self,
        namespace: Namespace,
        *,
        loader: Loader,
        poller: Poller,
        reconciliation: Reconciliation,
        follow_rules: FollowRules,
        follows: Callable[[str], bool],
        counts: CatalogCounts,
        turn: PartTurn[ReadNames | Noted],
    ) -> None:
        """Begin in SERVING if ``poller`` has a window; without one, no names were ever read.

        ``follows``: whether the operator does not leave a database out.
        """
        self._namespace = namespace
        self._loader = loader
        self._poller = poller
        self._reconciliation = reconciliation
        self._follow_rules = follow_rules
        self._follows = follows
        self._counts = counts
        self._turn = turn
        known = poller.window is not None
        self.lifecycle = Lifecycle.SERVING if known else Lifecycle.STARTING
        self.error = ""  # of the last read or listing that failed; "" after a listing
        self._names_at = None if known else 0.0  # when a listing begins; None: not needed
        self._listed: NamesRead | None = None  # what the running listing has read, up to ``upto``
        self._listing = False  # whether a listing has begun and has portions left to read
        self._is_outdated = False  # the listing ends with its next portion, and another follows
        self._reading = False  # a portion of the listing is being read
        self._portion_at = 0.0  # after a failure: when the next portion may be read
        self._names_again_at = 0.0  # when events that name no object may begin the next listing
        # Databases that the store holds, and that the operator leaves out now.
        self._left_out = tuple(db for db in namespace.databases() if not follows(db))
        self._gap_seq = 0  # arrival number of the oldest gap that is being resynced
        self._gap: Gap | None = None  # ids of the missing events, until the names are read
        self._read_since_id = -1  # the newest event when the last resync of everything began

    @property
    def names_known(self) -> bool:
        """Whether the names were ever read; until then most requests are refused."""
        return self.lifecycle is not Lifecycle.STARTING

    @property
    def serving(self) -> bool:
        """Whether the names are known, and no event is missing."""
        return self.lifecycle is Lifecycle.SERVING

    @property
    def missing(self) -> str:
        """The missing events, as text; empty: no event is missing."""
        return missing(self._gap)

    @property
    def progress(self) -> tuple[int, int]:
        """How many databases the running listing has read, of how many; (0, 0): none runs."""
        read = self._listed
        return (0, 0) if read is None else (len(read.databases), read.total)

    @property
    def deadline(self) -> float | None:
        """When to read names; None: they need not, or must not, be read."""
        has_base = self._poller.window is not None or not self._poller.enabled
        may_read = self._poller.reads or not self.names_known
        if self._reading or not (has_base and may_read):
            return None
        return self._portion_at if self._listing else self._names_at

    def take_left_out(self) -> tuple[str, ...]:
        """Return, once, the databases that the store holds and the operator leaves out now."""
        left_out, self._left_out = self._left_out, ()
        for db in left_out:
            text = f"database {db} is dropped here: it is left out now (--blacklisted_dbs)"
            self._turn.add(Noted(text=text, trouble=False))
        return left_out

    def order(self) -> None:
        """Order a portion of the names, if they are to be read and may be."""
        due_at = self.deadline
        if due_at is None or self._turn.now < due_at:
            return
        if not self._listing:
            self._names_at, self._listing = None, True
        self._reading = True
        after = "" if self._listed is None else self._listed.upto
        self._turn.add(ReadNames(after=after, typed=not self.names_known))

    def on_failed(self, fact: NamesFailed) -> None:
        """Read the same portion again in a while."""
        self.error, self._reading = fact.error, False
        self._end_outdated()
        self._portion_at = self._turn.now + LISTING_RETRY_S

    def abandon(self) -> None:
        """End this listing for good: another metastore answers."""
        self._become(Lifecycle.ABANDONED)

    def read_unseen(self) -> int:
        """Read everything again, as changes may have had no event; return the arrival number."""
        self._gap_seq = self._poller.next_seq()
        self._list_anew()
        self._become(Lifecycle.RELISTING)
        self._resync(self._namespace.databases(), self._namespace.every_table())
        return self._gap_seq

    def follow_again(self, db: str) -> None:
        """Read the tables of ``db``, which is followed again, and list names to find new tables."""
        seq = self._poller.next_seq()
        tables = ((db, row.name) for row in self._namespace.tables(db))
        self._loader.resync(sorted(t for t in tables if not self._follow_rules.is_off(t)), seq=seq)
        self._list_anew()
        if self.lifecycle is Lifecycle.SERVING:
            self._gap_seq = seq
            self._become(Lifecycle.RELISTING)

    def read_names_again(self) -> None:
        """List the names soon: an event may have made an object that it does not name."""
        if self._names_at is None:
            self._names_at = max(self._turn.now, self._names_again_at)
            self._names_again_at = self._names_at + NAMES_AGAIN_S

    def _list_anew(self) -> None:
        """Begin a listing now; a running listing has names from before the missing events."""
        self._names_at = self._turn.now
        self._is_outdated = self._listing

    def _end_outdated(self) -> bool:
        """End the running listing if it is outdated; return whether it was."""
        ended, self._is_outdated = self._is_outdated, False
        if ended:
            self._listed, self._listing = None, False
        return ended

    def _become(self, state: Lifecycle) -> None:
        assert state in (self.lifecycle, *NEXT[self.lifecycle]), f"{self.lifecycle} to {state}"
        self.lifecycle = state

    def on_gap(self, gap: Gap, seq: int) -> None:
        """Note the missing events, and read everything again, unless a resync is newer than they.

        A resync is newer if the metastore was identified by its tables: it began then, and only
        the next poll finds the gap.
        """
        self._counts.event_gaps += 1
        self._gap = (self._gap[0] if self._gap else gap[0]), gap[1]
        if gap[1] > self._read_since_id:
            self.read_again(seq)
        elif self.serving:
            self._note_gap()

    def read_again(self, seq: int) -> None:
        """Read every known object again, and list the names to find the others."""
        self._list_anew()
        self._read_since_id = self._poller.newest
        self._reconciliation.clear()
        if self.lifecycle is Lifecycle.SERVING:
            self._gap_seq = seq
            self._become(Lifecycle.RELISTING)
        self._resync(self._namespace.databases(), self._namespace.every_table())

    def on_names(self, fact: NamesRead) -> tuple[TableId, ...]:
        """Take in a portion of the names; return all tables at the end of the first listing.

        Portions may be of different times: events tell what has changed in between.
        """
        self.error, self._reading = "", False
        if self._end_outdated():
            return ()
        if self._listed is not None:
            fact = replace(fact, databases={**self._listed.databases, **fact.databases})
        self._listed = fact if fact.upto else None
        self._listing = self._listed is not None
        return () if self._listing else self._take(fact)

    def _take(self, fact: NamesRead) -> tuple[TableId, ...]:
        databases = {db: found for db, found in fact.databases.items() if self._follows(db)}
        tables = {(db, name): kind for db, (_, rows) in databases.items() for name, kind in rows}
        new: tuple[TableId, ...] = ()
        if self.names_known:
            again = self.lifecycle is Lifecycle.RELISTING  # known databases are already dirty
            dbs = [db for db in databases if not (again and self._namespace.has_database(db))]
            self._resync(dbs, (t for t in tables if self._namespace.find(t) is None))
            self._note_gap()
        else:
            structs = {db: thrift for db, (thrift, _) in databases.items()}
            self._namespace.write(structs, tables, source=SOURCE_LOAD)
            new = tuple(tables)
        self._become(Lifecycle.SERVING)
        return new

    def _note_gap(self) -> None:
        """Log which events are missing, once the names are known."""
        if self._gap is None:
            return
        known = sum(1 for _ in self._namespace.every_table())
        text = f"{self.missing}: {known} tables are read again, and what is new"
        self._turn.add(Noted(text=text, trouble=True))
        self._gap = None

    def _resync(self, databases: Iterable[str], tables: Iterable[TableId]) -> None:
        """Read these again, the tables that readers requested last before the others."""
        dirty = [DirtyDatabase(db=db) for db in sorted(databases)]
        self._loader.mark_dirty(dirty, seq=self._gap_seq)
        every = dict.fromkeys(sorted(tables))
        used = dict.fromkeys(table for table in self._reconciliation.used() if table in every)
        self._loader.resync([*used, *(one for one in every if one not in used)], seq=self._gap_seq)


def missing(gap: Gap | None) -> str:
    """Return which events are missing, as text; empty: no event is missing."""
    return f"events {gap[0]} to {gap[1]} are missing" if gap else ""
