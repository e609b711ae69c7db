"""The header of frames with entries or positions: its fields, their values, and all limits.

    0 protocol u8 │ 1 topic u16 │ 3 level u8 │ 4 kind u8 │ 5 flags u8 │ 6 source u8
    7 crc32 u32 │ 11 count u32 │ 15 epoch u64 │ 23 start u64 │ 31 from_version u64
    39 to_version u64 │ 47 floor u64 │ 55 sent_us u64 │ 63 body

Big endian. The first four bytes are the subscription prefix; a frame for readers with a policy
has three bytes before them, which readers remove. The CRC is over every other byte of the frame.
Authority: docs/protocol.md, section "Header".
"""

from collections.abc import Collection, Mapping
from enum import IntFlag
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from ..backports import IntEnum
from ..topic import BARRIER, CONTROL, FULL, HEARTBEAT, MINIMAL, NUM_TOPICS_MAX, TOPIC_SET, is_topic

PROTOCOL: Final = 1
PROTOCOL_MIN: Final = 1


class FrameKind(IntEnum):
    """The kind of message in a frame with a header."""

    DELTA = 1
    CHUNK = 2
    HEARTBEAT = 3
    CONTROL = 4


DELTA_KIND, CHUNK_KIND, HEARTBEAT_KIND, CONTROL_KIND = FrameKind


class FrameFlag(IntFlag):
    """Flags of the entries in a frame; docs/protocol.md has their meanings."""

    STUBBED = 1
    INVALIDATE_ALL = 2
    FIRST = 4
    LAST = 8
    SNAPSHOT = 16


# Plain integers: an operation with a member of an enum makes another member, in 0.5 µs.
STUBBED, INVALIDATE_ALL, FIRST, LAST, SNAPSHOT = map(int, FrameFlag)
FLAGS_OF_KIND: Final[Mapping[int, int]] = {
    DELTA_KIND: STUBBED | INVALIDATE_ALL,
    CHUNK_KIND: INVALIDATE_ALL | FIRST | LAST | SNAPSHOT,
    HEARTBEAT_KIND: 0,
}

DELTA_BYTES_MAX: Final = 64 * 1024  # a delta's body: 1,000 of them queue for a stopped reader
CHUNK_BYTES_MAX: Final = 256 * 1024  # on the plateau of throughput, 4 times less blocking than 1 MB
VALUE_BYTES_MAX: Final = 768 * 1024  # a chunk holds at least one value and ends below 1 MiB
PIECE_BYTES_MAX: Final = CHUNK_BYTES_MAX  # of a piece of a value over VALUE_BYTES_MAX
FRAME_BYTES_MAX: Final = 1024 * 1024  # the largest frame of any kind
NONCE_BYTES: Final = 16
SET_TOPICS_MAX: Final = 256  # of a set; of more topics, a set for each window

LAYOUT: Final = Struct(">BHBBBBIIQQQQQQ")
LEAD: Final = Struct(">BHB")  # the first fields, with which every frame begins
POLICY: Final = 0xFE  # the first byte of a frame for readers with a policy: never a protocol
POLICY_MARK: Final = bytes((POLICY,))
POLICY_LEAD: Final = Struct(">BH")  # POLICY, and the hub's number of a policy; 0: of every policy
CRC_AT: Final = 7
HEADER_BYTES: Final = LAYOUT.size


class Header(NamedTuple):
    """The fields of the header in the order of the wire; a field that a kind does not use is 0."""

    protocol: int = PROTOCOL
    topic: int = 0
    level: int = 0
    kind: int = 0  # of FrameKind
    flags: int = 0  # of FrameFlag
    source: int = 0
    crc: int = 0
    entry_count: int = 0
    epoch: int = 0
    start: int = 0
    from_version: int = 0
    to_version: int = 0
    floor: int = 0
    sent_us: int = 0


@lru_cache(maxsize=4096)  # a hub compares each of the hundreds that a reader subscribes to
def prefix(topic: int, level: int) -> bytes:
    """Return the four bytes that a subscriber of ``topic`` at ``level`` subscribes to."""
    return LEAD.pack(PROTOCOL, topic, level)


def set_prefix(topics: Collection[int], level: int) -> bytes:
    """Return one subscription to ``topics``, all of one ``window_of``, at ``level``."""
    bits = sum(1 << topic % SET_TOPICS_MAX for topic in topics)
    lead = LEAD.pack(PROTOCOL, TOPIC_SET, level)
    return lead + _SET.pack(window_of(min(topics)), bits.to_bytes(_SET_BITS_BYTES, "big"))


def window_of(topic: int) -> int:
    """Return the number of the window of ``topic``: the topics of a set are of one window."""
    return topic // SET_TOPICS_MAX


@lru_cache(maxsize=256)  # by far most readers subscribe to the same prefixes
def prefixes_in(subscribed: bytes) -> tuple[bytes, ...]:
    """Return the prefixes of the topics in a set; of anything else, ``subscribed`` itself."""
    if subscribed[:3] != _SET_LEAD or len(subscribed) != LEAD.size + _SET.size:
        return (subscribed,)
    level = subscribed[3]
    window, bitmap = _SET.unpack_from(subscribed, LEAD.size)
    bits, first = int.from_bytes(bitmap, "big"), window * SET_TOPICS_MAX
    if level not in (MINIMAL, FULL) or first >= NUM_TOPICS_MAX:
        return (subscribed,)
    return tuple(prefix(first + n, level) for n in range(SET_TOPICS_MAX) if bits >> n & 1)


@lru_cache(maxsize=2 * NUM_TOPICS_MAX + 2)  # every reader subscribes to the same hundreds
def topic_level_of(subscribed: bytes) -> tuple[int, int] | None:
    """Return the topic and the level that ``subscribed`` is the prefix of; None: of none."""
    topic, level = int.from_bytes(subscribed[1:3], "big"), int.from_bytes(subscribed[3:4], "big")
    if level not in (MINIMAL, FULL) or not is_topic(topic, NUM_TOPICS_MAX):
        return None
    return (topic, level) if subscribed == prefix(topic, level) else None


def policy_lead(number: int) -> bytes:
    """Return what a hub puts before the frames for readers of its policy ``number``."""
    return POLICY_LEAD.pack(POLICY, number)


def without_policy(frame: bytes) -> bytes:
    """Return ``frame``, as a reader received it, without the number of a policy before it."""
    return frame[POLICY_LEAD.size :] if frame[:1] == POLICY_MARK else frame


def policy_number(frame: bytes) -> int:
    """Return the number of its policy with which ``frame`` begins; 0 if there is none."""
    if frame[:1] != POLICY_MARK or len(frame) < POLICY_LEAD.size:
        return 0
    return int(POLICY_LEAD.unpack_from(frame)[1])


def barrier_prefix(nonce: bytes) -> bytes:
    """Return the prefix of a subscriber's barrier, which is also the barrier's whole frame."""
    return prefix(BARRIER, 0) + nonce


_SET_BITS_BYTES: Final = SET_TOPICS_MAX // 8
_SET: Final = Struct(f">B{_SET_BITS_BYTES}s")  # the window of a set, and a bit for each topic
_SET_LEAD: Final = prefix(TOPIC_SET, 0)[:3]
HEARTBEAT_PREFIX: Final = prefix(HEARTBEAT, 0)
BARRIER_PREFIX: Final = prefix(BARRIER, 0)
CONTROL_PREFIX: Final = prefix(CONTROL, 0) + bytes((CONTROL_KIND,))
