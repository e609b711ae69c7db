"""One group of a topic at one moment, as a reader holds it.

A table with its blocks, or a database's names. It never changes: a change makes another one,
and who reads keeps what it began with. Only what is worked out of it is remembered here.

What was pulled may be a part: the table without blocks, or the blocks that some filters need.
Of a part only what is in it is followed; a change beside it may match a filter, so it ends them.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from ...topics.entries import PREFIX, STUB, VALUE, Entry, accounted_bytes, group_of, tombstone
from ...topics.errors import NotReady
from ...topics.objects.key_ranges import KeyRange
from ...topics.objects.names import block_lead, table_key
from ...topics.objects.selector import ALL, Selector
from ...topics.objects.tables import Partition
from .decode import Head, read_head, read_partition_names, read_partitions
from .rows import EMPTY, Rows, between, covering, entries, find, put

Selections = Mapping[Selector, int]  # and since which topic version each is held

HEAD_BYTES: Final = 2000  # of a table that was decoded; with 50 columns 11.8 KB were measured
COLUMN_BYTES: Final = 200


class TableSnapshot:
    """Entries of one group; ``version`` is the highest of them ever seen.

    ``held_bytes`` is what they count in a budget, ``stubs`` how many have their value elsewhere.
    ``epoch`` is the one that its versions count in. ``selections``: those of which all blocks are
    here, and since which topic version; None: every block is here. ``at``: the topic version at
    which a pull brought it, or confirmed it. ``used``: a reader was answered from it; wiped by the
    cache.
    """

    __slots__ = (
        "__weakref__",
        "_head",
        "at",
        "confirmed",
        "epoch",
        "held_bytes",
        "rows",
        "selections",
        "stubs",
        "used",
        "version",
    )

    def __init__(
        self,
        rows: Rows = EMPTY,
        *,
        version: int = 0,
        epoch: int = 0,
        held_bytes: int = 0,
        stubs: int = 0,
        selections: Selections | None = None,
        at: int = 0,
    ) -> None:
        self.selections = selections
        self.at = at
        self.used = False
        self.rows = rows
        self.version = version
        self.epoch = epoch
        self.held_bytes = held_bytes
        self.stubs = stubs
        self.confirmed: Entry | None = None  # the block of names that knows this incarnation
        self._head: tuple[Entry, Head] | None = None

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def changed(self, changes: Sequence[Entry], *, epoch: int) -> "TableSnapshot":
        """Return the content after ``changes``, of this group and ``epoch`` and sorted by version.

        Cost: O(changes + sqrt(entries)); O(changes) for a PREFIX above all that is held.
        """
        version, selections = max(self.version, changes[-1].version), self.selections
        if selections is not None:
            newest = changes[-1].version
            selections = {one: at for one, at in selections.items() if at >= newest}
            changes = self._of_part(changes)
        base = self
        prefixes = [change.version for change in changes if change.kind == PREFIX]
        if prefixes and prefixes[-1] > self.version:
            base, prefixes = NOTHING, []
        rows = put(base.rows, changes)
        if prefixes:
            return snapshot_of(rows, version, epoch=epoch, selections=selections, at=self.at)
        held_bytes, stubs = base.held_bytes, base.stubs
        for key in {change.key for change in changes}:
            old, new = find(base.rows, key), find(rows, key)
            held_bytes += _weight(new) - _weight(old)
            stubs += _is_stub(new) - _is_stub(old)
        after = TableSnapshot(
            rows,
            version=version,
            epoch=epoch,
            held_bytes=held_bytes,
            stubs=stubs,
            selections=selections,
            at=self.at,
        )
        after._head = base._head
        after.used = self.used
        return after

    def _of_part(self, changes: Sequence[Entry]) -> list[Entry]:
        """Return what ``changes`` mean where only some blocks are held: a stub is no block."""
        news = []
        for change in changes:
            block = change.key != group_of(change.key)
            if change.kind == PREFIX or not block:
                news.append(change)
            elif self.entry(change.key) is not None:
                gone = change.kind == STUB
                news.append(tombstone(change.key, change.version) if gone else change)
        return news

    @property
    def whole(self) -> bool:
        """Whether every entry of the group is here, with its value."""
        return self.selections is None and not self.stubs

    @property
    def decoded_bytes(self) -> int:
        """About how many bytes the decoded table takes; 0: it was not decoded."""
        known = self._head
        return 0 if known is None else HEAD_BYTES + COLUMN_BYTES * len(known[1].table.columns)

    def values(self) -> Iterator[Entry]:
        """Yield the entries that have their value here."""
        return (entry for entry in entries(self.rows) if entry.kind == VALUE)

    def entry(self, key: bytes) -> Entry | None:
        """Return the entry of ``key``."""
        return find(self.rows, key)

    def covering(self, key: bytes) -> Entry | None:
        """Return the block in which ``key`` belongs."""
        return covering(self.rows, key)

    def blocks(self, group: bytes, ranges: Sequence[KeyRange] | None = None) -> Iterator[Entry]:
        """Yield the blocks that reach into ``ranges``, sorted; all of them if that is None."""
        if ranges is None:
            yield from (entry for entry in entries(self.rows) if entry.key != group)
            return
        lead, last = block_lead(group), b""
        for low, high in ranges:
            for entry in between(self.rows, lead + low.encode(), lead + high.encode()):
                if entry.key > last and entry.key != group:
                    last = entry.key
                    yield entry

    def head(self, group: bytes) -> Head | None:
        """Return what the table's own entry says; None if it is not here. Worked out once."""
        entry = self.entry(group)
        if entry is None or entry.value is None:
            return None
        known = self._head
        if known is None or known[0] != entry:
            self._head = known = (entry, read_head(entry, epoch=self.epoch))
        return known[1]

    def head_of(self, db: str, table: str) -> Head:
        """Return what the table's own entry says.

        Raises:
            NotReady: it is not here.
        """
        head = self.head(table_key(db, table))
        if head is None:
            raise NotReady(f"catalogd sent {db}.{table} without its own entry: ask again")
        return head

    def partitions(self, db: str, table: str, selector: Selector = ALL) -> tuple[Partition, ...]:
        """Return the partitions that ``selector`` selects, sorted by name.

        Raises:
            UsageError: the selector is not one for this table.
            NotReady: the table's own entry is not here.
        """
        head, blocks = self._selected(db, table, selector)
        return read_partitions(head, blocks, selector)

    def partition_names(self, db: str, table: str, selector: Selector = ALL) -> tuple[str, ...]:
        """Return the names of the selected partitions, sorted; errors as ``partitions``."""
        head, blocks = self._selected(db, table, selector)
        return read_partition_names(head, blocks, selector)

    def _selected(self, db: str, table: str, selector: Selector) -> tuple[Head, Iterator[Entry]]:
        head = self.head_of(db, table)
        ranges = selector.ranges(head.table.partition_columns)
        return head, self.blocks(table_key(db, table), ranges)

    def discard_head(self) -> None:
        """Give back the memory of what was worked out."""
        self.confirmed = None
        self._head = None


def snapshot_of(
    rows: Rows, version: int, *, epoch: int = 0, selections: Selections | None = None, at: int = 0
) -> TableSnapshot:
    """Return the content of ``rows``, counted from the start."""
    return TableSnapshot(
        rows,
        version=version,
        epoch=epoch,
        held_bytes=sum(map(accounted_bytes, entries(rows))),
        stubs=sum(map(_is_stub, entries(rows))),
        selections=selections,
        at=at,
    )


NO_SELECTIONS: Final[Selections] = MappingProxyType({})  # the table's own entry alone
NOTHING: Final = TableSnapshot()


def _weight(entry: Entry | None) -> int:
    return 0 if entry is None else accounted_bytes(entry)


def _is_stub(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == STUB
