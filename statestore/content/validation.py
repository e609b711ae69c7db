"""Validation: which well-formed messages are refused, and how often a peer is sent a refusal."""

from typing import Final

from ...topics.keys.clients import Client, ClientRole
from ...topics.newest import Newest
from ...topics.topic import FULL
from ...topics.wire.header import INVALIDATE_ALL, PROTOCOL, PROTOCOL_MIN, Header
from ...topics.wire.messages.answers import LevelList, MessageTrace, NamedFacts, TableUses
from ...topics.wire.messages.connection import (
    Bye,
    Channel,
    Hello,
    Introduction,
    KeepAlive,
    Refused,
    Role,
)
from ...topics.wire.messages.data import Chunk, Delta, Heartbeat
from ...topics.wire.messages.fields import Message
from ...topics.wire.messages.publishers import Announce, ClientList
from ...topics.wire.messages.questions import HUB_ANSWERS, ReadWriter
from ...topics.wire.messages.readers import Cancel, CatchUp, Credit, DriverFacts, Drop, Join, Status
from ...topics.wire.refusal import Refusal, refuse

AGAIN_MS: Final = 1000  # until what was refused is requested of the publisher again
REFUSAL_EVERY_S: Final = 1.0  # to a peer, of frames that name no request: garbage may flood in
LIMITED_PEERS_MAX: Final = 1024  # peers that the limiter remembers

_EVERYWHERE: Final = (Bye, Refused)
_MAY_BE: Final[dict[ClientRole, tuple[Role, ...]]] = {
    ClientRole.CATALOGD: (Role.PUBLISHER,),
    ClientRole.DRIVER: (Role.READER, Role.OPERATOR),
    ClientRole.OPERATOR: (Role.READER, Role.OPERATOR),
    ClientRole.OBSERVER: (Role.READER, Role.OPERATOR),
}
"""By the role of a client, the roles of a peer that it may have; that of a hub allows none."""
_ALLOWED: Final[dict[tuple[Role, Channel], tuple[type[Message], ...]]] = {
    (Role.READER, Channel.CONTROL): (
        *(KeepAlive, Join, Drop, Status),
        *(DriverFacts, NamedFacts, LevelList, TableUses, MessageTrace),
        *HUB_ANSWERS,
    ),
    (Role.READER, Channel.BULK): (CatchUp, Credit, Cancel),
    (Role.PUBLISHER, Channel.CONTROL): (
        *(Announce, ClientList, Heartbeat, Introduction),
        *(Status, ReadWriter),
    ),
    (Role.PUBLISHER, Channel.BULK): (Chunk, Delta),
    (Role.OPERATOR, Channel.CONTROL): (Status, *HUB_ANSWERS),
}


def role_fault(kind: type[Message], *, role: Role, channel: Channel) -> Refused | None:
    """Return why a peer in ``role`` may not send a ``kind`` on ``channel``; None if it may."""
    if kind in _EVERYWHERE or kind in _ALLOWED.get((role, channel), ()):
        return None
    sender = f"a {role.name.lower()} on {channel.name.lower()}"
    return refuse(Refusal.ROLE, f"{kind.__name__} is not understood from {sender}")


def client_fault(client: Client, hello: Hello) -> Refused | None:
    """Return why ``client`` may not be what ``hello`` says; None if it may."""
    if hello.role in _MAY_BE.get(client.role, ()):
        return None
    wanted = Role(hello.role).name.lower()
    text = f"the key {client.name} has role {client.role}, which may not be a {wanted} here"
    return refuse(Refusal.ROLE, f"{text}: topicast keys add makes another")


def hello_fault(hello: Hello) -> Refused | None:
    """Return why ``hello`` cannot be accepted; None if it can."""
    if min(PROTOCOL, hello.protocol_max) < max(PROTOCOL_MIN, hello.protocol_min):
        offered = f"protocol {hello.protocol_min} to {hello.protocol_max} offered"
        text = f"{offered}, {PROTOCOL_MIN} to {PROTOCOL} spoken here: upgrade one side"
        return refuse(Refusal.VERSION, text)
    if hello.role not in set(Role) or hello.channel not in set(Channel):
        return refuse(Refusal.ROLE, f"there is no role {hello.role} on channel {hello.channel}")
    return None


def delta_fault(header: Header) -> Refused | None:
    """Return why a delta of the announced start cannot be filed; None if it can."""
    if header.level != FULL:
        problem = "a publisher sends at level full only, the hub strips values itself"
    elif header.flags == INVALIDATE_ALL:
        problem = "flag invalidate_all needs flag stubbed at level full"
    elif header.floor > header.to_version:
        problem = f"floor {header.floor} is above version {header.to_version}"
    else:
        return None
    return refuse(Refusal.DELTA, problem, topic=header.topic)


def chunk_fault(chunk: Chunk) -> Refused | None:
    """Return why a chunk of the announced start cannot be filed; None if it can."""
    if chunk.level != FULL or chunk.invalidate_all:
        problem = "a hub requests values: level full, no invalidate_all"
    elif chunk.floor > chunk.to_version:
        problem = f"floor {chunk.floor} is above version {chunk.to_version}"
    elif chunk.entries and chunk.resume_version != chunk.entries[-1].version:
        problem = "a chunk is resumed after its last entry"
    else:
        return None
    return refuse(Refusal.CHUNK, problem, retry_ms=AGAIN_MS, topic=chunk.topic)


class RefusalLimiter:
    """The peers that were lately sent a refusal of a message without a request."""

    def __init__(self) -> None:
        self._until = Newest[bytes, float](LIMITED_PEERS_MAX)
        """By peer, the oldest first: until when it is sent no other refusal."""

    def __len__(self) -> int:
        return len(self._until)

    def allows(self, peer: bytes, *, now: float) -> bool:
        """Return whether ``peer`` may be sent a refusal now, and count it as sent if so."""
        if now < self._until.get(peer, now):
            return False
        self._until.put(peer, now + REFUSAL_EVERY_S)
        return True
