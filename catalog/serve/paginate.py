"""Cutting: what a pull selects, as parts that fit a frame, and pages that end with a cursor.

selection ──▶ parts, each of a few blocks ──its cap──▶ last part: cursor
                                          └─ nothing is left ──▶ last part
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ...topics.bulk import Part, pulled_cost
from ...topics.objects.listing import encode_listing
from ...topics.wire.codec import row_bytes
from ...topics.wire.header import CHUNK_BYTES_MAX
from ...topics.wire.messages import Pulled
from .select import Selection

LOOKED_MAX: Final = 32  # blocks read for one part: 30 µs each, of a turn's 2 ms
ANSWER_BYTES_MAX: Final = 64 << 20  # of one answer; the asker continues where it ends


def blocks(selection: Selection, like: Pulled, *, bytes_max: int) -> Iterator[Part]:
    """Yield the entries of ``selection`` in parts like ``like``; at ``bytes_max`` a cursor."""
    entries, begin, sequence, spent = selection.entries, 0, 0, 0
    cap = _cap(bytes_max)
    last = False
    while not last:
        end, size, full, picked = begin, 0, False, []
        while end < len(entries) and (not selection.unsure or end - begin < LOOKED_MAX):
            takes = row_bytes(entries[end])
            full = spent > 0 and spent + takes > cap
            if full or (size and size + takes >= CHUNK_BYTES_MAX):
                break
            if selection.needs(entries[end]):
                picked.append(entries[end])
                size += takes
                spent += takes
            end += 1
        last = full or end == len(entries)
        part = replace(
            like,
            sequence=sequence,
            last=last,
            gone=() if sequence else selection.gone,
            entries=tuple(picked),
            cursor=_cursor(selection, end) if last else b"",
        )
        yield pulled_cost(part), part
        begin, sequence = end, sequence + 1


def listed(selection: Selection, like: Pulled, *, bytes_max: int) -> Iterator[Part]:
    """Yield the names of ``selection`` in parts like ``like``; at ``bytes_max`` a cursor."""
    entries, begin, sequence, spent = selection.entries, 0, 0, 0
    cap = _cap(bytes_max)
    last = False
    while not last:
        end = min(begin + LOOKED_MAX, len(entries))
        names = [name for entry in entries[begin:end] for name in selection.names_in(entry)]
        listing = encode_listing(names)
        spent += len(listing)
        last = spent >= cap or end == len(entries)
        part = replace(
            like,
            sequence=sequence,
            last=last,
            names=listing,
            cursor=_cursor(selection, end) if last else b"",
        )
        yield pulled_cost(part), part
        begin, sequence = end, sequence + 1


def _cap(bytes_max: int) -> int:
    return min(bytes_max or ANSWER_BYTES_MAX, ANSWER_BYTES_MAX)


def _cursor(selection: Selection, end: int) -> bytes:
    return selection.entries[end].key if end < len(selection.entries) else b""
