"""Readers and their hub: which topics at which level, catch-ups, and what a reader reports."""

from dataclasses import dataclass
from typing import Annotated

from ...backports import IntEnum
from ...objects.drivers import HUBS_MAX, PID_MAX
from .fields import BY_TOPIC, U8, U16, U64, Bounds, Count, FactText, Key, LevelNumber, Message


class JoinAnswer(IntEnum):
    """The answer of a hub for one position of a Join."""

    CURRENT = 0  # nothing newer is here
    BEHIND = 1  # a catch-up brings what changed
    SNAPSHOT = 2  # a catch-up brings everything: below the floor, or of another epoch
    DENIED = 3  # no such topic, or the level is not offered


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position of a reader in one topic at one level."""

    topic: U16
    level: LevelNumber
    epoch: U64
    version: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Message):
    """Raise topics to levels; always answered in full, also for what is joined already."""

    request: U64
    positions: Annotated[tuple[Position, ...], BY_TOPIC]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """One topic in Joined; ``full_bytes`` as accounted at FULL."""

    topic: U16
    level: LevelNumber
    answer: U8
    version: U64
    full_bytes: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(Message):
    """The answer to Join, one state for each position, all of one epoch and start."""

    request: U64
    epoch: U64
    start: U64
    topics: Annotated[tuple[TopicState, ...], BY_TOPIC]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Message):
    """Stop following these topics; some may not have been joined."""

    request: U64
    topics: tuple[U16, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(Message):
    """The answer to Drop."""

    request: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStatus(Message):
    """The report of a reader about itself; topics that it does not name are where they were.

    ``audits``: tables of which it has compared its answers with catalogd, since its start, and
    ``audit_differences``: those that differed.
    """

    positions: Annotated[tuple[Position, ...], BY_TOPIC]
    lag_us: U64
    held_bytes: U64
    budget_bytes: U64
    audits: Count = 0
    audit_differences: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFacts(Message):
    """An attached driver to its hub, after Welcome and when they change: what it is and does.

    ``driver``: its id, of application, host and process. ``state``: one of ANNOUNCED_STATES;
    ``reason``: why. ``hubs``: how many it may go to; 0: not said. ``writer``: the id under which
    it reports writes. The counts are since its attach: of reads, by who has answered, of calls of
    the metastore that these have saved, and of writes.
    """

    driver: FactText
    application: FactText
    application_id: FactText
    user: FactText
    host: FactText
    pid: Annotated[int, Bounds(0, PID_MAX)]
    spark: FactText
    release: FactText
    state: FactText
    reason: FactText
    control: FactText
    hubs: Annotated[int, Bounds(0, HUBS_MAX)]
    writer: FactText
    memory_reads: Count = 0
    endpoint_reads: Count = 0
    direct_reads: Count = 0
    metastore_calls_saved: Count = 0
    writes_refused: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One topic of a CatchUp: from ``version``, or resumed after (resume_version, resume_key).

    ``cut``: of a resumed catch-up, the lowest ``to_version`` of its chunks so far, else 0: what
    was deleted up to there was in none of them.
    """

    topic: U16
    level: LevelNumber
    epoch: U64
    version: U64
    resume_version: U64 = 0
    resume_key: Key = b""
    cut: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp(Message):
    """Request chunks of these topics, at most ``credit`` bytes before more credit is given."""

    stream: U64
    credit: U64
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit(Message):
    """Let ``stream`` send ``amount`` bytes more."""

    stream: U64
    amount: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Message):
    """End ``stream``."""

    stream: U64
