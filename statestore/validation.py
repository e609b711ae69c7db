"""Faults: what is refused though it is well formed, and how often a peer is told so."""

from collections import OrderedDict
from typing import Final

from ..topics.entries import FULL
from ..topics.wire.header import HORIZON, PROTOCOL, PROTOCOL_MIN, Header
from ..topics.wire.messages import Chunk, Hello, Refused
from ..topics.wire.refusal import Refusal, refuse
from .facts import CHANNELS, ROLES

AGAIN_MS: Final = 1000  # before a publisher is asked again for what was refused
TOLD_EVERY_S: Final = 1.0  # one refusal a peer for what names no request: rubbish comes in floods
TOLD_MAX: Final = 1024  # peers of whom it is remembered


def hello_fault(hello: Hello) -> Refused | None:
    """Return why nobody can be greeted so; None if it can be."""
    if min(PROTOCOL, hello.protocol_max) < max(PROTOCOL_MIN, hello.protocol_min):
        offered = f"protocol {hello.protocol_min} to {hello.protocol_max} offered"
        text = f"{offered}, {PROTOCOL_MIN} to {PROTOCOL} spoken here: upgrade one side"
        return refuse(Refusal.VERSION, text)
    if hello.role not in ROLES or hello.channel not in CHANNELS:
        return refuse(Refusal.ROLE, f"role {hello.role} on channel {hello.channel} is none")
    return None


def delta_fault(header: Header) -> Refused | None:
    """Return why a delta of the announced start cannot be filed; None if it can."""
    if header.level != FULL:
        problem = "a publisher sends at level full only, the hub strips values itself"
    elif header.flags == HORIZON:
        problem = "flag horizon needs flag stubbed at level full"
    elif header.floor > header.to_version:
        problem = f"floor {header.floor} is above version {header.to_version}"
    else:
        return None
    return refuse(Refusal.DELTA, problem, topic=header.topic)


def chunk_fault(chunk: Chunk) -> Refused | None:
    """Return why a chunk of the announced start cannot be filed; None if it can."""
    if chunk.level != FULL or chunk.horizon:
        problem = "a hub asks for values: level full, no horizon"
    elif chunk.floor > chunk.to_version:
        problem = f"floor {chunk.floor} is above version {chunk.to_version}"
    elif chunk.entries and chunk.resume_version != chunk.entries[-1].version:
        problem = "a chunk is resumed after its last entry"
    else:
        return None
    return refuse(Refusal.CHUNK, problem, retry_ms=AGAIN_MS, topic=chunk.topic)


class Told:
    """Which peers were lately told of a fault that names no request."""

    def __init__(self) -> None:
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def again(self, peer: bytes, *, now: float) -> bool:
        """Tell whether ``peer`` is to be told now, and remember that it was."""
        if now < self._until.get(peer, now):
            return False
        self._until[peer] = now + TOLD_EVERY_S
        self._until.move_to_end(peer)
        if len(self._until) > TOLD_MAX:
            self._until.popitem(last=False)
        return True
