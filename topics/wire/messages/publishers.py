"""catalogd, which publishes, and its hubs: what a hub holds, who leads, what is filed."""

from dataclasses import dataclass

from .fields import U16, U64, Content, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Have(Message):
    """A hub to a publisher, after its Welcome: what the hub holds, which catalogd compares."""

    epoch: U64
    start: U64
    versions: tuple[U64, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce(Message):
    """A publisher to a hub: this start was compared and leads; its deltas follow."""

    epoch: U64
    start: U64
    num_topics: U16
    catalog_address: str
    catalog_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed(Message):
    """A hub to a publisher: everything up to these versions is filed. (topic, version)"""

    epoch: U64
    start: U64
    versions: tuple[tuple[U16, U64], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientList(Message):
    """A publisher to a hub: the admitted clients, as text that ``topics/keys/clients.py`` reads."""

    text: Content
