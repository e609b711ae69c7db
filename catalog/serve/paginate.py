"""The answer to a pull, as parts that fit a frame, and pages that end with a cursor.

selection ──▶ parts, each of a few blocks ──byte limit of the page──▶ last part: cursor
                                          └─ nothing is left ──▶ last part
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ...topics.bulk import Part, pulled_cost
from ...topics.objects.values import encode_listing
from ...topics.wire.codec import row_bytes
from ...topics.wire.header import CHUNK_BYTES_MAX
from ...topics.wire.messages import Claimed, Pull, Pulled
from ..model.namespace import Namespace
from ..model.tables import Tables
from . import validation
from .select import Selection, select

LOOKED_MAX: Final = 32  # blocks read for one part: 30 µs each, of a turn's 2 ms
ANSWER_BYTES_MAX: Final = 64 << 20  # of one page; the client continues where it ends


def answer(
    namespace: Namespace, tables: Tables, pull: Pull, *, position: tuple[int, int]
) -> Iterator[Part]:
    """Return the parts of the answer to ``pull`` as of now; all are of one topic version.

    ``position`` is (epoch, start).

    Raises:
        UsageError: the selection is malformed, or not for this table.
    """
    table = (pull.db, pull.table)
    number, topic = tables.topic_of(table)
    record = namespace.find(table)
    epoch, start = position

    def stale(claims: tuple[Claimed, ...]) -> tuple[int, ...]:
        found = validation.stale_claims(
            namespace, tables, claims, claimed_in=pull.epoch, epoch=epoch
        )
        return tuple([index for index, _ in found])

    like = Pulled(
        request=pull.request,
        sequence=0,
        last=True,
        found=record is not None,
        epoch=epoch,
        start=start,
        topic=number,
        topic_version=topic.version,
        namespace_version=namespace.version,
        incarnation=record.incarnation if record else 0,
        gone=(),
        entries=(),
        stale=stale(pull.claims),
    )
    if record is None:
        return iter([(pulled_cost(like), like)])
    unchanged = Claimed(db=pull.db, table=pull.table, version=pull.version, whole=True)
    if pull.version and stale((unchanged,)):
        return iter([(pulled_cost(like), replace(like, moved=True))])
    cut = _name_parts if pull.names_only else _block_parts
    return cut(select(tables, pull), like, bytes_max=pull.bytes_max)


def _block_parts(selection: Selection, like: Pulled, *, bytes_max: int) -> Iterator[Part]:
    """Yield the entries of ``selection`` in parts like ``like``, up to ``bytes_max`` of them."""
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


def _name_parts(selection: Selection, like: Pulled, *, bytes_max: int) -> Iterator[Part]:
    """Yield the names in ``selection`` in parts like ``like``, up to ``bytes_max`` of them."""
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
