"""Credential: what one client needs to join, as one small text: its key pair, and the servers'.

    name etl
    role driver
    public Vn)=TfA.gW8>2zQ*Jb!c#LkE3s5uYxPdH:r1m?o(
    secret …
    catalogd 8P#mwr]7L1Bq+^ZDxjY!r.J(wmYe-h@c0vXgR*yU next=…
    statestored tcp://hub-1:24000 3xT… next=…

A line is a word and what it stands for; ``next=`` is the server's key after its next rotation. A
server's own file has its next pair, too, as ``next_public`` and ``next_secret``, and when it was
``rotated``. ``#`` begins a comment. A hub without an address is every hub that no other line names.
A key for some databases has a line ``databases``, too, which names them in errors: the servers obey
their list. The secret is in no ``repr`` and in no error.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..errors import ConfigError
from ..policy import Policy, parse_policy
from ..settings import parse_addresses
from .clients import ClientRole, checked_key, checked_name, checked_role

TEXT_BYTES_MAX: Final = 64 * 1024  # 500 hubs
_HEADER: Final = "# The key of a Topicast client: only its owner may read this file.\n"
_ONCE: Final = ("name", "role", "public", "secret", "catalogd")
_NEXT_PAIR: Final = ("next_public", "next_secret")
_ROTATED: Final = "rotated"
_NEXT: Final = "next="
_DATABASES: Final = "databases"
_NOT_SHOWN: Final = "(not shown)"  # of an error: a line may hold the secret


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A CURVE key pair, both in Z85."""

    public: str
    secret: str = field(repr=False)


PublicKeys: TypeAlias = tuple[str, ...]
"""The public keys that a server may have: the current key, then the next key if it is known."""

NewPair = Callable[[], KeyPair]
"""Draws a key pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One client's own; ``hubs`` are pairs of address (empty: any other) and public key.

    ``next_keys``: the public keys of servers after their next rotation, as pairs of the current
    and the next. ``next_pair``: of a server, its own. ``rotated_at``: when it was last rotated, in
    seconds since 1970; 0: never.
    """

    name: str
    role: ClientRole
    pair: KeyPair
    catalogd: str
    hubs: tuple[tuple[str, str], ...] = ()
    policy: Policy | None = None
    next_keys: tuple[tuple[str, str], ...] = ()
    next_pair: KeyPair | None = None
    rotated_at: int = 0

    @property
    def catalogd_keys(self) -> PublicKeys:
        """catalogd's public key, and its next key if it is known."""
        return self._with_next(self.catalogd)

    @property
    def own_keys(self) -> PublicKeys:
        """Its own public key, and the next key if it has a next pair."""
        following = self.next_pair
        return (self.pair.public,) if following is None else (self.pair.public, following.public)

    def hub_keys(self, address: str) -> PublicKeys:
        """Return the public keys of the hub at ``address``; raises as ``hub_key`` does."""
        return self._with_next(self.hub_key(address))

    def hub_key(self, address: str) -> str:
        """Return the public key of the hub at ``address``, as written in the settings.

        Raises:
            ConfigError: none is known.
        """
        by_address = dict(self.hubs)
        found = by_address.get(address) or by_address.get("")
        if found is None:
            allowed = f"the key {self.name} knows the statestoreds at {', '.join(by_address)}"
            raise ConfigError("statestores", address, f"{allowed or 'none'}; get a newer key file")
        return found

    def _with_next(self, public: str) -> PublicKeys:
        following = dict(self.next_keys).get(public, "")
        return (public, following) if following else (public,)


def read_credential(text: str, *, source: str) -> Credential:
    """Return the credential that ``text`` holds; ``source`` says in errors where it is from.

    Raises:
        ConfigError: ``text`` is not a valid key file; the error does not show its content.
    """
    once: dict[str, str] = {}
    hubs: list[tuple[str, str]] = []
    next_keys: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        word, _, rest = line.strip().partition(" ")
        setting = f"{source}:{number}"
        if not word or word.startswith("#"):
            continue
        rest, following = _split_next(rest, setting=setting)
        if word == "statestored":
            hubs.append(_hub(rest, setting=setting))
            rest = hubs[-1][1]
        elif word in (*_ONCE, *_NEXT_PAIR, _ROTATED, _DATABASES) and word not in once:
            once[word] = rest.strip()
        else:
            words = ", ".join(_ONCE)
            allowed = f"a key file as topicast keys add writes it: {words} once each, statestored"
            raise ConfigError(setting, _NOT_SHOWN, allowed)
        if following:
            next_keys[rest] = following
    missing = [word for word in _ONCE if word not in once]
    if missing:
        allowed = f"a key file as topicast keys add writes it: {', '.join(missing)} is missing"
        raise ConfigError("key", source, allowed)
    return Credential(
        name=checked_name(once["name"], setting=f"{source}: name"),
        role=checked_role(once["role"], setting=f"{source}: role"),
        pair=KeyPair(
            public=checked_key(once["public"], setting=f"{source}: public"),
            secret=checked_key(once["secret"], setting=f"{source}: secret"),
        ),
        catalogd=checked_key(once["catalogd"], setting=f"{source}: catalogd"),
        hubs=tuple(hubs),
        policy=_policy(once.get(_DATABASES), setting=f"{source}: {_DATABASES}"),
        next_keys=tuple(next_keys.items()),
        next_pair=_next_pair(once, source=source),
        rotated_at=_seconds(once.get(_ROTATED, "0"), setting=f"{source}: {_ROTATED}"),
    )


def credential_text(credential: Credential) -> str:
    """Return the text that ``read_credential`` reads; it holds the secret."""
    pair, next_pair = credential.pair, credential.next_pair
    following = {public: f"{_NEXT}{key}" for public, key in credential.next_keys}
    catalogd = ("catalogd", credential.catalogd, following.get(credential.catalogd, ""))
    lines = [
        f"name {credential.name}",
        f"role {credential.role}",
        f"public {pair.public}",
        f"secret {pair.secret}",
        *([f"next_public {next_pair.public}"] if next_pair else []),
        *([f"next_secret {next_pair.secret}"] if next_pair else []),
        *([f"{_ROTATED} {credential.rotated_at}"] if credential.rotated_at else []),
        " ".join(filter(None, catalogd)),
        *([f"{_DATABASES} {credential.policy}"] if credential.policy is not None else []),
        *(
            " ".join(filter(None, ("statestored", *hub, following.get(hub[1], ""))))
            for hub in credential.hubs
        ),
    ]
    return _HEADER + "".join(f"{line}\n" for line in lines)


def _policy(text: str | None, *, setting: str) -> Policy | None:
    try:
        return None if text is None else parse_policy(text, setting=setting)
    except ConfigError:
        raise ConfigError(setting, _NOT_SHOWN, "databases as sales,finance_*") from None


def _split_next(text: str, *, setting: str) -> tuple[str, str]:
    """Return a line without the next key at its end, and that key; empty if it has none."""
    before, _, last = text.strip().rpartition(" ")
    if not last.startswith(_NEXT) or not before:
        return text, ""
    return before.strip(), checked_key(last.removeprefix(_NEXT), setting=setting)


def _next_pair(once: dict[str, str], *, source: str) -> KeyPair | None:
    found = [word for word in _NEXT_PAIR if word in once]
    if not found:
        return None
    if len(found) < len(_NEXT_PAIR):
        raise ConfigError("key", source, f"both of {' and '.join(_NEXT_PAIR)}, or none")
    public, secret = (checked_key(once[word], setting=f"{source}: {word}") for word in _NEXT_PAIR)
    return KeyPair(public=public, secret=secret)


def _seconds(text: str, *, setting: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(setting, _NOT_SHOWN, "seconds since 1970")
    return int(text)


def _hub(text: str, *, setting: str) -> tuple[str, str]:
    words = text.split()
    if not 1 <= len(words) <= 2:
        raise ConfigError(setting, f"{len(words)} words", "an address, if it has one, and a key")
    address = words[0] if len(words) == 2 else ""
    if address:
        address = ",".join(map(str, parse_addresses(address, setting=setting)))
    return address, checked_key(words[-1], setting=setting)
