"""The messages that bring content to readers: deltas, chunks of catch-ups, positions, barriers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...backports import IntEnum
from ...topic import ALL_OFFERED, Entry
from .fields import Message


class Source(IntEnum):
    """The cause of a delta."""

    LOAD = 0
    EVENTS = 1
    REPORTS = 2
    RECONCILIATION = 3  # a difference from the metastore that no event had brought by then
    ORDERS = 4
    CATCH_UP = 5  # of several of these: what a hub's own catch-up brought, as stubs
    OVERWRITES = 6  # a report of a write after which files that were there are gone


ORIGINS: Final[Mapping[int, str]] = {
    Source.LOAD: "load",
    Source.EVENTS: "events",
    Source.REPORTS: "reports",
    Source.RECONCILIATION: "reconciliation",
    Source.ORDERS: "orders",
    Source.CATCH_UP: "catch-up",
    Source.OVERWRITES: "reports",
}
"""The origin of a change, in the words of commands, watches, histories and the data source."""

SOURCE_LOAD: Final = Source.LOAD
SOURCE_EVENTS: Final = Source.EVENTS
SOURCE_REPORTS: Final = Source.REPORTS
SOURCE_RECONCILIATION: Final = Source.RECONCILIATION
SOURCE_ORDERS: Final = Source.ORDERS
SOURCE_CATCH_UP: Final = Source.CATCH_UP
SOURCE_OVERWRITES: Final = Source.OVERWRITES


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(Message):
    """The changes of one topic in ``(from_version, to_version]``.

    ``stubbed``: values were left out, a FULL follower must catch up. ``invalidate_all``: the
    entries were left out too; it counts as a stub for every table of the topic.
    """

    topic: int
    level: int
    epoch: int
    start: int
    from_version: int
    to_version: int
    floor: int
    sent_us: int
    source: int
    entries: tuple[Entry, ...]
    stubbed: bool = False
    invalidate_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(Message):
    """A part of the catch-up of one topic, in the order of (version, key).

    ``to_version`` is the position once the ``last`` chunk has been applied. ``resume_version`` and
    ``resume_key`` are of the last entry in the chunk. With ``first`` and ``snapshot`` everything
    held of the topic is discarded before the chunk is applied.
    """

    topic: int
    level: int
    epoch: int
    start: int
    from_version: int
    to_version: int
    floor: int
    sent_us: int
    stream: int
    sequence: int
    resume_version: int
    resume_key: bytes
    entries: tuple[Entry, ...]
    first: bool = False
    last: bool = False
    snapshot: bool = False
    invalidate_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Message):
    """The positions of a sender. ``versions`` and ``floors`` follow ``topic_ids(num_topics)``.

    Empty ``versions``: the hub is being seeded. ``sizes`` (bytes at FULL) are sent now and then.
    ``watermark``: HMS event id up to which catalogd is complete. ``age_ms``: since catalogd's last
    message. ``offers``: the levels that may be joined, as ``topic.offered`` reads them.
    """

    hub: int
    epoch: int
    start: int
    sequence: int
    interval_ms: int
    sent_us: int
    watermark: int
    age_ms: int
    catalog_address: str
    versions: tuple[int, ...]
    floors: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    offers: int = ALL_OFFERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(Message):
    """Proof that every subscription made before that of ``nonce`` is active."""

    nonce: bytes
