"""Clients: the public keys that are admitted, and the role of each; the list that catalogd keeps.

    # name    role      public key                                address of a hub; databases
    catalogd  catalogd  8P#mwr]7L1Bq+^ZDxjY!r.J(wmYe-h@c0vXgR*yU
    etl       driver    Vn)=TfA.gW8>2zQ*Jb!c#LkE3s5uYxPdH:r1m?o(
    reports   driver    >K5fGJ0m}xV8a*w?Lr4!T.uZ^q1oE)dYb@c&7hNs  databases=sales,finance_*

A server may have a second key, as ``next=…`` behind its address: that of its next rotation,
which is admitted, too. A name and a key belong to one client each. A key that is not in the list
ends the handshake.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ..backports import StrEnum
from ..errors import ConfigError
from ..policy import Policy, parse_policy
from ..settings import parse_addresses

CLIENTS_MAX: Final = 4096  # as many as a hub has members; one message carries the list
LIST_BYTES_MAX: Final = 768 << 10  # of the text: the largest value that a message carries
NAME_MAX: Final = 64
KEY_CHARS: Final = 40  # of a key of 32 bytes in Z85, as ZeroMQ writes it

_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._@-]{{0,{NAME_MAX - 1}}}", re.ASCII)
_KEY: Final = re.compile(rf"[0-9A-Za-z.:+=^!/*?&<>()[\]{{}}@%$#-]{{{KEY_CHARS}}}", re.ASCII)
_HEADER: Final = (
    "# Clients of Topicast: name, role, public key, address of a hub; databases.\n"
    "# topicast keys changes the lines of clients, and leaves comments as they are.\n"
)
_NEXT: Final = "next="
_DATABASES: Final = "databases="


class ClientRole(StrEnum):
    """The rights of a client; docs/design/0011-keys.md has the table."""

    HUB = "hub"  # nothing as a client: others connect to it
    CATALOGD = "catalogd"  # publishes
    DRIVER = "driver"  # reads, and reports what it writes
    OPERATOR = "operator"  # reads, and gives orders
    OBSERVER = "observer"  # reads

    @property
    def reads(self) -> bool:
        """Whether it may read the catalog, and facts about the processes."""
        return self in (ClientRole.DRIVER, ClientRole.OPERATOR, ClientRole.OBSERVER)

    @property
    def restrictable(self) -> bool:
        """Whether its clients may have a policy; an operator's orders are about everything."""
        return self in (ClientRole.DRIVER, ClientRole.OBSERVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client. ``address``: of a hub, where it is reached; empty: wherever it is.

    ``policy``: the databases that it may see; None: all. ``next_public``: of a server, its public
    key after its next rotation; empty: none is drawn yet.
    """

    name: str
    role: ClientRole
    public: str
    address: str = ""
    policy: Policy | None = None
    next_public: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The public key, and the next public key if it is known."""
        return tuple(filter(None, (self.public, self.next_public)))


class Clients:
    """An immutable list of clients, in the order in which they were added."""

    def __init__(self, clients: Iterable[Client] = ()) -> None:
        """Take ``clients``.

        Raises:
            ConfigError: two have the same name or key, or there are too many.
        """
        self._clients = tuple(clients)
        self._by_key = {key: client for client in self._clients for key in client.keys}
        self._by_name = {client.name: client for client in self._clients}
        if len(self._clients) > CLIENTS_MAX:
            raise ConfigError("clients", len(self._clients), f"at most {CLIENTS_MAX}")
        keys = sum(len(client.keys) for client in self._clients)
        if (len(self._by_key), len(self._by_name)) != (keys, len(self._clients)):
            raise ConfigError("clients", len(self._clients), "each name and each key once")
        if (size := len(clients_text(self))) > LIST_BYTES_MAX:
            raise ConfigError("clients", f"{size} bytes", f"at most {LIST_BYTES_MAX}")

    def __iter__(self) -> Iterator[Client]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clients) and self._clients == other._clients

    def __hash__(self) -> int:
        return hash(self._clients)

    def with_key(self, public: str) -> Client | None:
        """Return the client whose public key, or next public key, is ``public``."""
        return self._by_key.get(public)

    def named(self, name: str) -> Client | None:
        """Return the client ``name``."""
        return self._by_name.get(name)

    def keys(self, *, readers: bool = False) -> frozenset[str]:
        """Return the public keys of all, or of those that may read; the next keys, too."""
        return frozenset(key for one in self if one.role.reads or not readers for key in one.keys)

    def are_kept_by(self, publics: Collection[str]) -> bool:
        """Return whether the only client with role catalogd has such a key."""
        found = [one for one in self if one.role is ClientRole.CATALOGD]
        return len(found) == 1 and not set(publics).isdisjoint(found[0].keys)

    def changed_since(self, before: "Clients") -> frozenset[str]:
        """Return the keys that both lists have, of a client that is another, or has changed."""
        known = ((key, one, before.with_key(key)) for one in self for key in one.keys)
        return frozenset(key for key, one, old in known if old is not None and old != one)

    def adding(self, client: Client) -> "Clients":
        """Return the list with ``client`` at its end; raises ConfigError as the constructor."""
        return Clients((*self._clients, client))

    def replacing(self, client: Client) -> "Clients":
        """Return the list with ``client`` in the place of the client of its name."""
        return Clients(client if one.name == client.name else one for one in self._clients)

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


def checked_keys(current: str, following: str, *, setting: str) -> tuple[str, ...]:
    """Return a server's keys as a peer sends them: the next key may be empty.

    Raises:
        ConfigError: a text is not a key.
    """
    keys = (current, following) if following else (current,)
    return tuple(checked_key(one, setting=setting) for one in keys)


def checked_role(text: str, *, setting: str) -> ClientRole:
    """Return the role ``text``, else raise ConfigError."""
    try:
        return ClientRole(text)
    except ValueError:
        raise ConfigError(setting, text, ", ".join(ClientRole)) from None


def checked_policy(policy: Policy | None, role: ClientRole, *, setting: str) -> Policy | None:
    """Return ``policy`` if a client with ``role`` may have it, else raise ConfigError."""
    if policy is not None and not role.restrictable:
        allowed = f"databases of a driver or observer; a key of role {role} has none"
        raise ConfigError(setting, str(policy), allowed)
    return policy


def read_clients(text: str, *, source: str) -> Clients:
    """Return the list that ``text`` holds.

    Raises:
        ConfigError: a line is not valid; names ``source`` and the line.
    """
    clients = []
    for number, line in enumerate(text.splitlines(), start=1):
        setting, words = f"{source}:{number}", line.split()
        if _is_comment(words):
            continue
        policy, next_public = None, ""
        if words[-1].startswith(_DATABASES):
            policy = parse_policy(words.pop().removeprefix(_DATABASES), setting=setting)
        if words and words[-1].startswith(_NEXT):
            next_public = checked_key(words.pop().removeprefix(_NEXT), setting=setting)
        if not 3 <= len(words) <= 4:
            allowed = "name, role, public key, address, databases"
            raise ConfigError(setting, f"{len(words)} words", allowed)
        if len(words) == 4:
            parse_addresses(words[3], setting=setting)
        role = checked_role(words[1], setting=setting)
        clients.append(
            Client(
                name=checked_name(words[0], setting=setting),
                role=role,
                public=checked_key(words[2], setting=setting),
                address=words[3] if len(words) == 4 else "",
                policy=checked_policy(policy, role, setting=setting),
                next_public=next_public,
            )
        )
    return Clients(clients)


def clients_text(clients: Clients, *, before: str = _HEADER) -> str:
    """Return the text that ``read_clients`` reads.

    ``before``: the text that it replaces: its comments, empty lines and clients keep their places,
    lines of clients that are gone are left out, and new clients come last.
    """
    left = {one.name: _line(one) for one in clients}
    lines = []
    for line in before.splitlines():
        words = line.split()
        if _is_comment(words):
            lines.append(line)
        elif words[0] in left:
            lines.append(left.pop(words[0]))
    return "".join(f"{line}\n" for line in (*lines, *left.values()))


def _is_comment(words: list[str]) -> bool:
    return not words or words[0].startswith("#")


def _line(client: Client) -> str:
    databases = f"{_DATABASES}{client.policy}" if client.policy is not None else ""
    following = f"{_NEXT}{client.next_public}" if client.next_public else ""
    words = (client.name, client.role, client.public, client.address, following, databases)
    return " ".join(filter(None, words))
