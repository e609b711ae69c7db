"""Clients: who may connect, by public key, and the role of each; the list that catalogd keeps.

    # name    role      public key                                address of a hub, if it has one
    catalogd  catalogd  8P#mwr]7L1Bq+^ZDxjY!r.J(wmYe-h@c0vXgR*yU
    etl       driver    Vn)=TfA.gW8>2zQ*Jb!c#LkE3s5uYxPdH:r1m?o(

A name and a key belong to one client each. Who is not in the list gets past no handshake.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..errors import ConfigError
from ..settings import parse_addresses

CLIENTS_MAX: Final = 4096  # as many as a hub has members; one message carries the list
NAME_MAX: Final = 64
KEY_CHARS: Final = 40  # of a key of 32 bytes in Z85, as ZeroMQ writes it

_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._@-]{{0,{NAME_MAX - 1}}}", re.ASCII)
_KEY: Final = re.compile(rf"[0-9A-Za-z.:+=^!/*?&<>()[\]{{}}@%$#-]{{{KEY_CHARS}}}", re.ASCII)
_HEADER: Final = "# Clients of Topicast: name, role, public key, address of a hub.\n"


class ClientRole(StrEnum):
    """What a client may do; docs/design/0011-keys.md has the table."""

    HUB = "hub"  # nothing as a client: others connect to it
    CATALOGD = "catalogd"  # publishes
    DRIVER = "driver"  # reads, and reports what it writes
    OPERATOR = "operator"  # reads, and gives orders
    OBSERVER = "observer"  # reads

    @property
    def reads(self) -> bool:
        """Whether it may read the catalog, and facts about the processes."""
        return self in (ClientRole.DRIVER, ClientRole.OPERATOR, ClientRole.OBSERVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client. ``address``: of a hub, where it is reached; empty: wherever it is."""

    name: str
    role: ClientRole
    public: str
    address: str = ""


class Clients:
    """An immutable list of clients, in the order in which they were added."""

    def __init__(self, clients: Iterable[Client] = ()) -> None:
        """Take ``clients``.

        Raises:
            ConfigError: two have the same name or key, or there are too many.
        """
        self._clients = tuple(clients)
        self._by_key = {client.public: client for client in self._clients}
        self._by_name = {client.name: client for client in self._clients}
        if len(self._clients) > CLIENTS_MAX:
            raise ConfigError("clients", len(self._clients), f"at most {CLIENTS_MAX}")
        if not len(self._by_key) == len(self._by_name) == len(self._clients):
            raise ConfigError("clients", len(self._clients), "each name and each key once")

    def __iter__(self) -> Iterator[Client]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clients) and self._clients == other._clients

    def __hash__(self) -> int:
        return hash(self._clients)

    def with_key(self, public: str) -> Client | None:
        """Return the client whose public key is ``public``."""
        return self._by_key.get(public)

    def named(self, name: str) -> Client | None:
        """Return the client ``name``."""
        return self._by_name.get(name)

    def keys(self, *, readers: bool = False) -> frozenset[str]:
        """Return the public keys of all, or of those that may read."""
        return frozenset(one.public for one in self if one.role.reads or not readers)

    def adding(self, client: Client) -> "Clients":
        """Return the list with ``client`` at its end; raises ConfigError as the constructor."""
        return Clients((*self._clients, client))

    def without(self, name: str) -> "Clients":
        """Return the list without the client ``name``."""
        return Clients(one for one in self._clients if one.name != name)


def checked_name(text: str, *, setting: str) -> str:
    """Return ``text`` if it can name a client, else raise ConfigError."""
    if not _NAME.fullmatch(text):
        allowed = f"letters, digits and . _ @ -, at most {NAME_MAX}, a letter or digit first"
        raise ConfigError(setting, text[: NAME_MAX + 1], allowed)
    return text


def checked_key(text: str, *, setting: str) -> str:
    """Return ``text`` if it is a key, else raise ConfigError, which does not show it."""
    if not _KEY.fullmatch(text):
        allowed = f"a key of {KEY_CHARS} characters, as topicast keys writes it"
        raise ConfigError(setting, f"{len(text)} characters", allowed)
    return text


def checked_role(text: str, *, setting: str) -> ClientRole:
    """Return the role ``text``, else raise ConfigError."""
    try:
        return ClientRole(text)
    except ValueError:
        raise ConfigError(setting, text, ", ".join(ClientRole)) from None


def read_clients(text: str, *, source: str) -> Clients:
    """Return the list that ``text`` holds.

    Raises:
        ConfigError: a line is none; names ``source`` and the line.
    """
    clients = []
    for number, line in enumerate(text.splitlines(), start=1):
        setting, words = f"{source}:{number}", line.split()
        if not words or words[0] == "#":
            continue
        if not 3 <= len(words) <= 4:
            raise ConfigError(setting, f"{len(words)} words", "name, role, public key, address")
        if len(words) == 4:
            parse_addresses(words[3], setting=setting)
        clients.append(
            Client(
                name=checked_name(words[0], setting=setting),
                role=checked_role(words[1], setting=setting),
                public=checked_key(words[2], setting=setting),
                address=words[3] if len(words) == 4 else "",
            )
        )
    return Clients(clients)


def clients_text(clients: Clients) -> str:
    """Return the text that ``read_clients`` reads."""
    lines = (f"{one.name} {one.role} {one.public} {one.address}".rstrip() for one in clients)
    return _HEADER + "".join(f"{line}\n" for line in lines)
