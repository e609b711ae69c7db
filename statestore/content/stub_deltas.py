"""Stub deltas: the deltas at level minimal that a hub makes from those that it received."""

from collections.abc import Iterable
from dataclasses import replace

from ...topics.streams.sender import STUBS_BYTES_MAX
from ...topics.topic import FULL, MINIMAL, Entry, Topic, stub
from ...topics.wire.codec import row_bytes
from ...topics.wire.messages.data import SOURCE_CATCH_UP, Chunk, Delta


def minimal(delta: Delta) -> Delta:
    """Return ``delta``, which is of FULL, as a subscriber at MINIMAL receives it."""
    entries = tuple(map(stub, delta.entries))
    return replace(delta, level=MINIMAL, entries=entries, stubbed=False)


def stub_bytes(entries: Iterable[Entry]) -> int:
    """Return the bytes that ``entries`` take in a body as stubs."""
    return sum(row_bytes(stub(entry)) for entry in entries)


def catch_up_stubs(topic: Topic, chunk: Chunk, *, from_version: int, stub_bytes: int) -> Delta:
    """Return a delta of stubs of what a catch-up brought, once ``chunk`` has ended it.

    The stubs are of the changes after ``from_version``. An invalidate-all marker takes their place
    if they have too many bytes, or if tombstones may be missing: after a snapshot
    (``from_version`` is 0), and below the floor.
    """
    invalidate_all = from_version < max(topic.floor, 1) or stub_bytes > STUBS_BYTES_MAX
    entries = () if invalidate_all else tuple(map(stub, topic.since(from_version)))
    return Delta(
        topic=chunk.topic,
        level=FULL,
        epoch=chunk.epoch,
        start=chunk.start,
        from_version=from_version,
        to_version=topic.version,
        floor=max(topic.floor, chunk.floor),
        sent_us=chunk.sent_us,
        source=SOURCE_CATCH_UP,
        entries=entries,
        stubbed=True,
        invalidate_all=invalidate_all,
    )
