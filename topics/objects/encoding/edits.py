"""Edits: a batch of changes to a sorted set of blocks, at the cost of the blocks it changes.

    blocks      ""──────▶ "ds=03"──────▶ "ds=07"──────▶        each holds [its bound, the next)
    changes           ds=02 ✎      ds=05 ✗        ds=09 +

Invariant: bounds are distinct and sorted, the first is empty; names are distinct, sorted over
all blocks, and each lies between its block's bound and the next. A bound is no longer than
it takes to separate two names. The same for blocks of partitions and blocks of tables' names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from posixpath import commonprefix
from typing import Final, Generic, Protocol, TypeVar

BLOCK_BYTES_MAX: Final = 48 << 10
"""Of a block, unless it has one record only: a transaction has to stay below 64 KB."""


class Named(Protocol):
    """A record of a block: has a name by which it sorts."""

    @property
    def name(self) -> str:
        """The name by which records are sorted."""


RecordT = TypeVar("RecordT", bound=Named)
ChangeT_contra = TypeVar("ChangeT_contra", contravariant=True)


class Leaves(Protocol):
    """The blocks of one table, or of one database's names, as they are before an edit."""

    def floor(self, name: str) -> str | None:
        """Return the largest bound at or below ``name``; None if there are no blocks."""

    def after(self, lower: str) -> str | None:
        """Return the smallest bound above ``lower``; None if there is none."""

    def read(self, lower: str) -> tuple[int, bytes]:
        """Return version and value of the block at the bound ``lower``."""


class BlockKind(Protocol[RecordT, ChangeT_contra]):
    """One kind of block, as an edit uses it."""

    records_max: int

    def decode(self, value: bytes, version: int, /) -> list[RecordT]:
        """Return the records of a block, sorted by name."""

    def encode(self, records: Sequence[RecordT]) -> bytes:
        """Return the value of a block of ``records``."""

    def merge(self, name: str, old: RecordT | None, change: ChangeT_contra) -> RecordT:
        """Return the record ``name`` after ``change``; ``old`` itself if it changes nothing."""


@dataclass(frozen=True, slots=True)
class Edited:
    """The result of an edit: blocks by bound, None: removed; and the names it changed."""

    blocks: tuple[tuple[str, bytes | None], ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Touched(Generic[RecordT]):
    """A block that an edit changes."""

    lower: str  # its bound
    after: str | None  # the next block's bound; None: it is the last
    records: list[RecordT]  # after the edit
    names: tuple[str, ...]  # of the records that the edit has changed, added or removed


def edit(
    leaves: Leaves,
    changes: Mapping[str, ChangeT_contra | None],
    kind: BlockKind[RecordT, ChangeT_contra],
) -> Edited:
    """Apply ``changes`` (None deletes) to ``leaves``.

    A full block splits into halves, or more parts; at the right edge it stays full, and what is
    new goes into blocks of its own. An emptied block is removed, the first only if none is left.

    Cost: O(touched blocks + changes); blocks that no name falls into are not read.
    """
    touched = list(_touched(leaves, changes, kind))
    emptied = {part.lower for part in touched if not part.records and part.lower}
    blocks: list[tuple[str, bytes | None]] = []
    for part in touched:
        if part.records:
            blocks += _blocks(part, kind)
        elif part.lower or _is_last(leaves, emptied):
            blocks.append((part.lower, None))
        else:
            blocks.append(("", kind.encode(())))
    return Edited(tuple(blocks), tuple([name for part in touched for name in part.names]))


def check(leaves: Leaves, kind: BlockKind[RecordT, ChangeT_contra]) -> None:
    """Assert the invariant of this module. Cost: O(all blocks)."""
    lower = leaves.floor("")
    assert lower == "" or leaves.after("") is None, "the first bound is not empty"
    before = ""
    while lower is not None:
        version, value = leaves.read(lower)
        names = [record.name for record in kind.decode(value, version)]
        after = leaves.after(lower)
        assert len(names) <= kind.records_max, f"{lower!r} holds {len(names)} records"
        assert names or not lower, f"{lower!r} is empty"
        assert all(a < b for a, b in pairwise([before, *names])), f"{lower!r} is out of order"
        assert all(lower <= name for name in names), f"a name lies below {lower!r}"
        assert after is None or all(name < after for name in names), f"a name is at {after!r}"
        before = names[-1] if names else before
        lower = after


def _touched(
    leaves: Leaves,
    changes: Mapping[str, ChangeT_contra | None],
    kind: BlockKind[RecordT, ChangeT_contra],
) -> Iterator[_Touched[RecordT]]:
    """Yield each block that is changed, with its records after the change."""
    names = sorted(changes)
    start = 0
    while start < len(names):
        lower = leaves.floor(names[start])
        after = None if lower is None else leaves.after(lower)
        end = start + 1
        while end < len(names) and (after is None or names[end] < after):
            end += 1
        here = names[start:end]
        start = end
        old: list[RecordT] = []
        if lower is not None:
            version, value = leaves.read(lower)
            old = kind.decode(value, version)
        records, changed = _merged(old, here, changes, kind=kind)
        if changed:
            yield _Touched(lower or "", after, records, changed)


def _merged(
    old: list[RecordT],
    names: Sequence[str],
    changes: Mapping[str, ChangeT_contra | None],
    *,
    kind: BlockKind[RecordT, ChangeT_contra],
) -> tuple[list[RecordT], tuple[str, ...]]:
    """Return the records after the ``changes`` of ``names``, sorted, and the names that differ.

    One change is read after the other, as ``changes`` may make each as it is read.
    """
    records = {record.name: record for record in old}
    changed = []
    for name in names:
        change = changes[name]
        before = records.get(name)
        after = None if change is None else kind.merge(name, before, change)
        if after is before:
            continue
        changed.append(name)
        if after is None:
            del records[name]
        else:
            records[name] = after
    return [records[name] for name in sorted(records)], tuple(changed)


def _blocks(
    part: _Touched[RecordT],
    kind: BlockKind[RecordT, ChangeT_contra],
) -> Iterator[tuple[str, bytes | None]]:
    """Yield the block, or the blocks that it splits into."""
    count = len(part.records)
    each = kind.records_max
    if part.after is not None:
        each = -(-count // -(-count // each))  # halves: both keep room for what comes between
    for start in range(0, count, each):
        lower = _bound(part.records, start) if start else part.lower
        yield from _sized(lower, part.records[start : start + each], kind)


def _sized(
    lower: str,
    records: Sequence[RecordT],
    kind: BlockKind[RecordT, ChangeT_contra],
) -> Iterator[tuple[str, bytes | None]]:
    """Yield the block of ``records``, in halves while it is larger than a block may be."""
    value = kind.encode(records)
    if len(value) <= BLOCK_BYTES_MAX or len(records) == 1:
        yield lower, value
        return
    middle = len(records) // 2
    yield from _sized(lower, records[:middle], kind)
    yield from _sized(_bound(records, middle), records[middle:], kind)


def _bound(records: Sequence[RecordT], at: int) -> str:
    """Return the shortest text that separates the record ``at`` from those before it."""
    before, name = records[at - 1].name, records[at].name
    return name[: len(commonprefix((before, name))) + 1]


def _is_last(leaves: Leaves, emptied: set[str]) -> bool:
    """Return whether no block is left but the first."""
    after = leaves.after("")
    while after in emptied:
        after = leaves.after(after)
    return after is None
