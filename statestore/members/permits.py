"""Permits: what a client may be to a hub, and which messages a peer may send on which channel."""

from typing import Final

from ...topics.keys.clients import Client, ClientRole
from ...topics.wire.header import PROTOCOL, PROTOCOL_MIN
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
from ...topics.wire.messages.readers import (
    Cancel,
    CatchUp,
    Credit,
    DriverFacts,
    Drop,
    Join,
    ReaderStatus,
)
from ...topics.wire.refusal import Refusal, refuse

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
        *(KeepAlive, Join, Drop, ReaderStatus),
        *(DriverFacts, NamedFacts, LevelList, TableUses, MessageTrace),
        *HUB_ANSWERS,
    ),
    (Role.READER, Channel.BULK): (CatchUp, Credit, Cancel),
    (Role.PUBLISHER, Channel.CONTROL): (
        *(Announce, ClientList, Heartbeat, Introduction),
        *(ReaderStatus, ReadWriter),
    ),
    (Role.PUBLISHER, Channel.BULK): (Chunk, Delta),
    (Role.OPERATOR, Channel.CONTROL): (ReaderStatus, *HUB_ANSWERS),
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
