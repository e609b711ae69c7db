"""The messages of any connection: who is there, what was agreed, why not, and good-bye."""

from dataclasses import dataclass

from ...backports import IntEnum
from ..header import PROTOCOL, PROTOCOL_MIN
from .fields import U8, U16, U64, Message, Registration, TopicOrNone


class Role(IntEnum):
    """The role of a peer of a hub."""

    READER = 1
    PUBLISHER = 2
    OPERATOR = 3


READER, PUBLISHER, OPERATOR = Role


class Channel(IntEnum):
    """The two connections of a peer to a hub."""

    CONTROL = 1
    BULK = 2


CONTROL_CHANNEL, BULK_CHANNEL = Channel


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(Message):
    """First message on a connection, which offers the versions that this process speaks.

    ``registration`` ties control and bulk of one peer.
    ``features`` is for bits of later releases: receivers ignore those that they do not know.
    ``is_command``: the sender is a command, which ends soon, and no application.
    """

    role: U8
    channel: U8
    name: str
    registration: Registration
    protocol_min: U8 = PROTOCOL_MIN
    protocol_max: U8 = PROTOCOL
    features: U64 = 0
    is_command: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome(Message):
    """The hub's answer to Hello. ``features``: the bits that both sides have; there are none yet.

    ``policy``: the hub's number of the policy that the key has; 0: it has none, or no number is
    left. ``policy_digest``: of the policy; 0: the key has none.
    """

    protocol: U8
    features: U64 = 0
    hub: U64
    epoch: U64
    start: U64
    num_topics: U16
    data_address: str
    catalog_address: str
    catalog_name: str
    heartbeat_ms: U64
    lost_ms: U64
    policy: U16 = 0
    policy_digest: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKeys(Message):
    """A hub to its members: its public keys and catalogd's, the current and the next.

    After Welcome, and when a key has changed. A next key is empty until drawn; catalogd's keys
    are empty at a hub that knows no catalogd.
    """

    hub: str
    hub_next: str
    catalogd: str
    catalogd_next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Message):
    """Why a request was not obeyed. ``retry_ms`` 0: do not send it again unchanged.

    ``request``: the request's or stream's id, 0 if it could not be read. ``topic``: -1 if none.
    ``object``: the database or table that does not exist, or is not visible; else empty.
    """

    request: U64
    code: str
    message: str
    retry_ms: U64
    topic: TopicOrNone = -1
    object: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye(Message):
    """The peer leaves in good order."""

    reason: str


@dataclass(frozen=True, slots=True)
class KeepAlive(Message):
    """A reader's sign of life while it has nothing to report: each has the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction(Message):
    """A publisher to a hub, or a hub to a publisher, after Welcome: where others find it.

    ``catalog_address``: where a publisher takes requests, before it announces anything, too; empty
    from a hub. ``pages``: where its pages for people are; empty: nowhere that others reach.
    """

    catalog_address: str = ""
    pages: str = ""
