"""Publishing: what a publisher is told and what it orders, on one page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ...topics.entries import Entry
from ...topics.topic import Topic
from ...topics.wire.messages import Message
from ..model.lineage import StartRecord
from .modes import MODE_DEFAULT, Mode, shown

WAITING: Final = "WAITING"
CONNECTING: Final = "CONNECTING"
COMPARING: Final = "COMPARING"
ANNOUNCED: Final = "ANNOUNCED"
LEADING: Final = "LEADING"
State = Literal["WAITING", "CONNECTING", "COMPARING", "ANNOUNCED", "LEADING"]


@dataclass(slots=True, kw_only=True)
class PublishedState:
    """Where catalogd stands: one object for all its publishers, kept up to date by catalogd.

    ``topics`` by ``topic_ids``, as committed whenever a publisher is called. ``starts``: of the
    current epoch, the last is the running one. ``mode``: as it is stored.
    """

    topics: Mapping[int, Topic]
    starts: tuple[StartRecord, ...]
    catalog_address: str
    catalog_name: str
    watermark: int = 0
    mode: Mode = MODE_DEFAULT

    @property
    def position(self) -> tuple[int, int]:
        """The current epoch and start."""
        return self.starts[-1].epoch, self.starts[-1].start

    def shown(self, topic: int, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return what may leave of ``entries`` of ``topic``."""
        return shown(self.mode, topic, entries)


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Close both connections and make new ones; what was queued on the old ones is void."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``message`` on ``channel``; if it cannot be sent, drop it."""

    channel: int
    message: Message


@dataclass(frozen=True, slots=True)
class Put:
    """Send ``frame``, an encoded delta, on bulk; if it cannot be sent, drop it."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Ahead:
    """Mint an epoch above ``epoch``, unless ours is above it by now, and say Minted to all."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Moved:
    """Log that the publisher is in ``state`` now, because of ``reason``."""

    state: State
    reason: str


Effect = Reconnect | Send | Put | Ahead | Moved


@dataclass(frozen=True, slots=True)
class Heard:
    """The hub said ``message`` on ``channel``."""

    channel: int
    message: Message


@dataclass(frozen=True, slots=True)
class Garbled:
    """The hub sent what is no message."""

    reason: str


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction is durable; ``frame`` is its encoded delta."""

    topic: int
    version: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Minted:
    """A new epoch has begun: the published state and its topics say so already."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connections are gone."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed, or a turn ends."""


Fact = Heard | Garbled | Committed | Minted | Lost | Tick


@dataclass(slots=True)
class Counts:
    """What happened since this publisher was made."""

    deltas: int = 0
    delta_bytes: int = 0
    skipped: int = 0
    chunks: int = 0
    refused: int = 0
    strange: int = 0  # messages that are not for a publisher
    reconnects: int = 0
