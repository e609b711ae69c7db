"""Rows: the entries of one group in the order of their keys, as an immutable two-level tuple.

    rows ── leaf ── entry, entry, …          a block covers every name from its key to the next
         └─ leaf ── entry, …

Replacing one of n entries copies one leaf and the root, about 2 × sqrt(n) pointers, and
shares all else with what readers hold. A leaf holds exact tuples (``entry[:]``), which are an
``Entry`` only while they are looked at: CPython's garbage collector leaves an exact tuple of bytes
and numbers alone, and would walk through all else that is held, 46 ms for 150 MB, at any time.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Final

from ...topics.entries import PREFIX, TOMBSTONE, Entry

LEAF_MAX: Final = 256  # about the square root of the 31,250 blocks of a million partitions
LEAF_FILL: Final = 160  # where a leaf is cut: room to grow on both sides, few leaves

Row = tuple[bytes, int, int, int, int, bytes | None, int]
Leaf = tuple[Row, ...]
Rows = tuple[Leaf, ...]
EMPTY: Final[Rows] = ()

_key = itemgetter(0)
_shown = Entry._make


def find(rows: Rows, key: bytes) -> Entry | None:
    """Return the entry of ``key``."""
    entry = covering(rows, key)
    return entry if entry is not None and entry.key == key else None


def covering(rows: Rows, key: bytes) -> Entry | None:
    """Return the last entry whose key is at or below ``key``: the block that would hold it."""
    at = bisect_right(rows, key, key=_first_key) - 1
    if at < 0:
        return None
    leaf = rows[at]
    return _shown(leaf[bisect_right(leaf, key, key=_key) - 1])


def entries(rows: Rows) -> Iterator[Entry]:
    """Yield every entry in the order of the keys."""
    return map(_shown, chain.from_iterable(rows))


def between(rows: Rows, low: bytes, high: bytes) -> Iterator[Entry]:
    """Yield the entries below ``high`` from the one in which ``low`` belongs on.

    Cost: O(log of all + what is yielded).
    """
    first = max(bisect_right(rows, low, key=_first_key) - 1, 0)
    for leaf in rows[first:]:
        for row in leaf[max(bisect_right(leaf, low, key=_key) - 1, 0) :]:
            if row[0] >= high:
                return
            yield _shown(row)


def put(rows: Rows, changes: Iterable[Entry]) -> Rows:
    """Return ``rows`` with ``changes``, of one group and in the order of their versions.

    An entry counts if its version is above that of the entry in its place; a TOMBSTONE
    removes; a PREFIX removes everything of a lower version.
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
    places: dict[int, list[Entry]] = {}
    for key, change in latest.items():
        place = max(bisect_right(rows, key, key=_first_key) - 1, 0)
        places.setdefault(place, []).append(change)
    root = list(rows)
    for place in sorted(places, reverse=True):  # from the right: places to the left stay
        root[place : place + 1] = _merged(root[place : place + 1], places[place])
    return tuple(root)


def _merged(leaf: list[Leaf], news: list[Entry]) -> list[Leaf]:
    """Return the leaves that stand for ``leaf`` (one, or none yet) once ``news`` are in."""
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
