"""TableSnapshot: the immutable content of one table, or of a database's names, at one version.

    rows ── leaf ── row, row, …          a block covers every name from its key to the next
         └─ leaf ── row, …

A change makes another snapshot, and a reader keeps the snapshot with which it began. To replace a
row of n, the change copies one leaf and the root, about 2 × sqrt(n) pointers; the new snapshot
shares all other leaves with the old one. Nothing in a snapshot is changed but what is remembered of
its decoding, and two marks: whether it was used, and as of when a pull has confirmed it.

A row is an exact tuple, and becomes an ``Entry`` only when somebody looks at it: CPython's garbage
collector does not track exact tuples of bytes and numbers. It would walk through any other objects,
which takes 46 ms for 150 MB, at any time.

A snapshot that was pulled may be a *part*: the table without blocks, or the blocks that some
selectors need. A part follows the changes of its own entries. Any other change of the table might
match a selector, so it ends every selection that is older.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Final

from ...topics.errors import NotReady
from ...topics.objects.encoding.templates import Templates
from ...topics.objects.encoding.values import (
    ABSENT,
    COMPLETE,
    decode_block,
    decode_table_value,
    document_bytes,
    names_in_block,
)
from ...topics.objects.names import block_lead, group_of, table_key
from ...topics.objects.selector import ALL, KeyRange, Selector
from ...topics.objects.tables import Partition, PartitionReader, Table, read_table
from ...topics.topic import (
    PREFIX,
    STUB,
    TOMBSTONE,
    VALUE,
    Entry,
    Version,
    accounted_bytes,
    tombstone,
    value_of,
)

LEAF_MAX: Final = 256  # about the square root of the 31,250 blocks of a million partitions
LEAF_FILL: Final = 160  # rows of a new leaf, when one is cut: it may grow, and there are few leaves

Row = tuple[bytes, int, int, int, int, bytes | None, int]
Leaf = tuple[Row, ...]
Rows = tuple[Leaf, ...]
EMPTY: Final[Rows] = ()

_key = itemgetter(0)
_entry = Entry._make

Selections = Mapping[Selector, int]  # by selector: the topic version since which it is held

HEAD_BYTES: Final = 2000  # of a decoded table; with 50 columns 11.8 KB were measured
COLUMN_BYTES: Final = 200  # of each of its columns
HEAD_KEPT_BYTES_MAX: Final = 256 << 10  # of a struct that stays decoded, outside the budget
NO_SELECTIONS: Final[Selections] = MappingProxyType({})  # only the table's own entry is held


@dataclass(frozen=True, slots=True)
class Head:
    """A table's own entry, decoded; ``complete``: the table's blocks have all its partitions."""

    table: Table
    incarnation: int
    complete: bool
    templates: tuple[bytes, ...]


def read_head(entry: Entry, *, epoch: int = 0) -> Head:
    """Read a table's entry, whose version counts in ``epoch``."""
    value = decode_table_value(value_of(entry))
    table = read_table(value.thrift, Version(entry.version, epoch))
    plain = value.partitions == ABSENT and not table.partition_columns
    return Head(
        table=table,
        incarnation=value.incarnation,
        complete=plain or value.partitions == COMPLETE,
        templates=value.templates,
    )


class TableSnapshot:
    """The entries of one group of a topic."""

    __slots__ = (
        "__weakref__",
        "_head",
        "as_of",
        "epoch",
        "held_bytes",
        "names_block",
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
        as_of: int = 0,
    ) -> None:
        self.rows = rows
        self.version = version  # the highest version of the group's entries so far
        self.epoch = epoch  # of all versions here
        self.held_bytes = held_bytes  # that the entries count in a budget
        self.stubs = stubs  # how many entries are here without their value
        self.selections = selections  # those whose blocks are all here; None: every block is here
        self.as_of = as_of  # the topic version at which a pull has brought or confirmed it
        self.used = False  # whether it has answered a reader; the eviction order clears this
        self.names_block: Entry | None = None  # of the namespace, once it named this incarnation
        self._head: tuple[Entry, Head] | None = None  # the table's own entry, and its decoded form

    def __len__(self) -> int:
        return sum(map(len, self.rows))

    def changed(self, changes: Sequence[Entry], *, epoch: int) -> "TableSnapshot":
        """Return the snapshot after ``changes`` of this group, which are sorted by version.

        ``epoch``: of their versions. Cost: O(changes + sqrt(entries)); O(changes) for a PREFIX
        above all that is held.
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
            return _counted(rows, version, epoch=epoch, selections=selections, as_of=self.as_of)
        after = TableSnapshot(
            rows,
            version=version,
            epoch=epoch,
            held_bytes=base.held_bytes,
            stubs=base.stubs,
            selections=selections,
            as_of=self.as_of,
        )
        for key in {change.key for change in changes}:
            old, new = base.entry(key), after.entry(key)
            after.held_bytes += _weight(new) - _weight(old)
            after.stubs += _is_stub(new) - _is_stub(old)
        after._head = base._head
        after.used = self.used
        return after

    def _of_part(self, changes: Sequence[Entry]) -> list[Entry]:
        """Return the ``changes`` that a part follows: those of its own entries.

        A stub removes its block, because a part has all values.
        """
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
        """About how many bytes the decoded table takes; 0: it is not kept decoded."""
        if self._head is None:
            return 0
        own, head = self._head
        table = head.table
        columns = len(table.columns)
        if table.metastore_columns is not table.columns:  # Spark has columns of its own
            columns += len(table.metastore_columns)
        columns_bytes = HEAD_BYTES + COLUMN_BYTES * columns
        return max(columns_bytes, 2 * document_bytes(value_of(own)))  # its bytes, and its texts

    def entries(self) -> Iterator[Entry]:
        """Yield every entry in the order of the keys."""
        return map(_entry, chain.from_iterable(self.rows))

    def values(self) -> Iterator[Entry]:
        """Yield the entries that are here with their value."""
        return (entry for entry in self.entries() if entry.kind == VALUE)

    def entry(self, key: bytes) -> Entry | None:
        """Return the entry of ``key``; None: there is none."""
        entry = self.covering(key)
        return entry if entry is not None and entry.key == key else None

    def covering(self, key: bytes) -> Entry | None:
        """Return the last entry whose key is at or below ``key``: the block that covers it."""
        at = bisect_right(self.rows, key, key=_first_key) - 1
        if at < 0:
            return None
        leaf = self.rows[at]
        return _entry(leaf[bisect_right(leaf, key, key=_key) - 1])

    def blocks(self, group: bytes, ranges: Sequence[KeyRange] | None = None) -> Iterator[Entry]:
        """Yield the blocks that may have names in ``ranges``, sorted; None: yield all blocks."""
        if ranges is None:
            yield from (entry for entry in self.entries() if entry.key != group)
            return
        lead, last = block_lead(group), b""
        for low, high in ranges:
            for entry in self._between(lead + low.encode(), lead + high.encode()):
                if entry.key > last and entry.key != group:
                    last = entry.key
                    yield entry

    def head(self, group: bytes) -> Head | None:
        """Return the table's own entry, decoded; None: it is not here.

        The entry is decoded once, unless it is large; then each call decodes it, in 10 ms a MB.
        """
        entry = self.entry(group)
        if entry is None or entry.value is None:
            return None
        known = self._head
        if known is None or known[0] != entry:
            known = (entry, read_head(entry, epoch=self.epoch))
            if document_bytes(entry.value) <= HEAD_KEPT_BYTES_MAX:
                self._head = known
        return known[1]

    def head_of(self, db: str, table: str) -> Head:
        """Return the table's own entry, decoded.

        Raises:
            NotReady: the entry is not here.
        """
        head = self.head(table_key(db, table))
        if head is None:
            raise NotReady(f"catalogd sent {db}.{table} without its own entry: try again")
        return head

    def partitions(self, db: str, table: str, selector: Selector = ALL) -> tuple[Partition, ...]:
        """Return the partitions that ``selector`` selects, sorted by name.

        Raises:
            UsageError: the selector does not fit this table.
            NotReady: the table's own entry is not here.

        Cost: O(blocks) to match their names, and O(matching partitions) to decode these.
        """
        head, blocks = self._selected(db, table, selector)
        matches = selector.matches(head.table.partition_columns)
        reader = PartitionReader(head.templates)
        found: list[Partition] = []
        for entry in blocks:
            block = decode_block(value_of(entry), entry.version)
            if matches is None:
                found += map(reader.read, block.records())
                continue
            wanted = {name for name in block.names if matches(name)}
            if wanted:
                found += [reader.read(one) for one in block.records() if one.name in wanted]
        return tuple(found)

    def partition_names(self, db: str, table: str, selector: Selector = ALL) -> tuple[str, ...]:
        """Return the names of the selected partitions, sorted; errors as ``partitions``."""
        head, blocks = self._selected(db, table, selector)
        names = [name for one in blocks for name in names_in_block(value_of(one))]
        return tuple(filter(selector.matches(head.table.partition_columns), names))

    def structs(
        self, db: str, table: str, selector: Selector = ALL, *, first: int | None = None
    ) -> tuple[int, Iterator[bytes]]:
        """Return how many partitions are selected, and the bytes of their Thrift structs.

        The structs are sorted by name. The iterator makes those of one block at a time. ``first``:
        at most so many partitions. Errors as ``partitions``.

        Cost: O(blocks) before the call returns, to match their names.
        """
        head, blocks = self._selected(db, table, selector)
        matches = selector.matches(head.table.partition_columns)
        wanted: list[tuple[Entry, list[bool] | None]] = []
        count = 0
        for entry in blocks:
            names = names_in_block(value_of(entry))
            chosen = None if matches is None else list(map(matches, names))
            found = len(names) if chosen is None else sum(chosen)
            if first is not None and count + found > first:
                chosen = _first(first - count, chosen or [True] * len(names))
                found = first - count
            if found:
                wanted.append((entry, chosen))
            count += found
            if count == first:
                break
        templates = Templates(head.templates, "")
        return count, (
            decode_block(value_of(entry), entry.version).structs(templates, chosen)
            for entry, chosen in wanted
        )

    def _selected(self, db: str, table: str, selector: Selector) -> tuple[Head, Iterator[Entry]]:
        head = self.head_of(db, table)
        ranges = selector.ranges(head.table.partition_columns)
        return head, self.blocks(table_key(db, table), ranges)

    def _between(self, low: bytes, high: bytes) -> Iterator[Entry]:
        """Yield the entries below ``high``, from the entry on that covers ``low``.

        Cost: O(log(entries) + entries yielded).
        """
        first = max(bisect_right(self.rows, low, key=_first_key) - 1, 0)
        for leaf in self.rows[first:]:
            for row in leaf[max(bisect_right(leaf, low, key=_key) - 1, 0) :]:
                if row[0] >= high:
                    return
                yield _entry(row)

    def discard_head(self) -> None:
        """Release the memory of what was decoded."""
        self.names_block = None
        self._head = None


def _first(count: int, chosen: Sequence[bool]) -> list[bool]:
    """Return ``chosen`` with only the first ``count`` that are True."""
    kept = []
    for one in chosen:
        kept.append(one and count > 0)
        count -= one
    return kept


@dataclass(frozen=True, slots=True)
class Swap:
    """One group before and after a change; None: it has no content."""

    group: bytes
    before: TableSnapshot | None
    after: TableSnapshot | None


NOTHING: Final = TableSnapshot()


def snapshot_of(
    entries: Iterable[Entry],
    *,
    version: int = 0,
    epoch: int = 0,
    selections: Selections | None = None,
    as_of: int = 0,
) -> TableSnapshot:
    """Return the snapshot of ``entries`` of one group, in any order.

    ``version``: its version, unless an entry has a higher one.
    """
    rows = put(EMPTY, sorted(entries, key=_version))
    version = max(version, max((row[1] for row in chain.from_iterable(rows)), default=0))
    return _counted(rows, version, epoch=epoch, selections=selections, as_of=as_of)


def with_own_entry(
    base: TableSnapshot | None, own: Entry, *, as_of: int, epoch: int
) -> TableSnapshot:
    """Return ``base`` with the table's ``own`` entry, which a pull has brought as of ``as_of``."""
    if base is None:
        return snapshot_of([own], epoch=epoch, selections=NO_SELECTIONS, as_of=as_of)
    if base.entry(own.key) == own:
        return base
    others = [entry for entry in base.entries() if entry.key != own.key]
    return snapshot_of(
        [own, *others],
        version=base.version,
        epoch=epoch,
        selections=base.selections,
        as_of=base.as_of,
    )


def differing(before: TableSnapshot, after: TableSnapshot) -> tuple[list[Entry], list[Entry]]:
    """Return the entries that ``after`` lacks, and those that ``before`` lacks.

    Cost: O(entries in leaves that the two do not share).
    """
    old, new = ({id(leaf): leaf for leaf in one.rows} for one in (before, after))
    ours = {row[0]: row for at, leaf in old.items() if at not in new for row in leaf}
    theirs = {row[0]: row for at, leaf in new.items() if at not in old for row in leaf}
    gone = [_entry(row) for key, row in ours.items() if theirs.get(key) is not row]
    come = [_entry(row) for key, row in theirs.items() if ours.get(key) is not row]
    return gone, come


def put(rows: Rows, changes: Iterable[Entry]) -> Rows:
    """Return ``rows`` after ``changes`` of one group, which are in the order of their versions.

    A change counts if its version is above that of the entry of its key. A TOMBSTONE removes the
    entry; a PREFIX removes every entry of a lower version.
    """
    latest: dict[bytes, Entry] = {}
    for change in changes:
        if change.kind == PREFIX:
            rows = _above(rows, change.version)
            latest = {k: e for k, e in latest.items() if e.version >= change.version}
            continue
        have = latest.get(change.key)
        if have is None or change.version > have.version:
            latest[change.key] = change
    by_leaf: dict[int, list[Entry]] = {}
    for key, change in latest.items():
        at = max(bisect_right(rows, key, key=_first_key) - 1, 0)
        by_leaf.setdefault(at, []).append(change)
    root = list(rows)
    for at in sorted(by_leaf, reverse=True):  # from the right: positions to the left stay
        root[at : at + 1] = _merged(root[at : at + 1], by_leaf[at])
    return tuple(root)


def _merged(leaf: list[Leaf], news: list[Entry]) -> list[Leaf]:
    """Return the leaves that replace ``leaf``, a list of one or none, after ``news``."""
    news.sort(key=_key)
    if not leaf:
        return _cut([entry[:] for entry in news if entry.kind != TOMBSTONE])
    run = list(leaf[0])
    for entry in news:
        at = bisect_left(run, entry.key, key=_key)
        end = at + 1 if at < len(run) and run[at][0] == entry.key else at
        if end > at and run[at][1] >= entry.version:
            continue
        run[at:end] = [] if entry.kind == TOMBSTONE else [entry[:]]
    return _cut(run)


def _above(rows: Rows, version: int) -> Rows:
    return tuple(_cut([row for row in chain.from_iterable(rows) if row[1] >= version]))


def _cut(run: list[Row]) -> list[Leaf]:
    if len(run) <= LEAF_MAX:
        return [tuple(run)] if run else []
    return [tuple(run[at : at + LEAF_FILL]) for at in range(0, len(run), LEAF_FILL)]


def _first_key(leaf: Leaf) -> bytes:
    return leaf[0][0]


def _counted(
    rows: Rows, version: int, *, epoch: int, selections: Selections | None, as_of: int
) -> TableSnapshot:
    made = TableSnapshot(rows, version=version, epoch=epoch, selections=selections, as_of=as_of)
    made.held_bytes = sum(map(accounted_bytes, made.entries()))
    made.stubs = sum(map(_is_stub, made.entries()))
    return made


def _version(entry: Entry) -> int:
    return entry.version


def _weight(entry: Entry | None) -> int:
    return 0 if entry is None else accounted_bytes(entry)


def _is_stub(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == STUB
