"""Credential: what one client needs to join, as one small text: its key pair, and the servers'.

    name etl
    role driver
    public Vn)=TfA.gW8>2zQ*Jb!c#LkE3s5uYxPdH:r1m?o(
    secret …
    catalogd 8P#mwr]7L1Bq+^ZDxjY!r.J(wmYe-h@c0vXgR*yU
    statestored tcp://hub-1:24000 3xT…

A line is a word and what it stands for; ``#`` begins a comment. A hub without an address is
every hub that no other line names. The secret is in no ``repr`` and in no error.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ..errors import ConfigError
from ..settings import parse_addresses
from .clients import ClientRole, checked_key, checked_name, checked_role

TEXT_BYTES_MAX: Final = 64 * 1024  # 500 hubs
_HEADER: Final = "# A key of Topicast: who reads this file is this client. Only its owner may.\n"
_ONCE: Final = ("name", "role", "public", "secret", "catalogd")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A CURVE key pair, both in Z85."""

    public: str
    secret: str = field(repr=False)


NewPair = Callable[[], KeyPair]
"""Draws a key pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One client's own; ``hubs`` are pairs of address (empty: any other) and public key."""

    name: str
    role: ClientRole
    pair: KeyPair
    catalogd: str
    hubs: tuple[tuple[str, str], ...] = ()

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


def read_credential(text: str, *, source: str) -> Credential:
    """Return the credential that ``text`` holds; ``source`` says in errors where it is from.

    Raises:
        ConfigError: it is none; the error does not show its content.
    """
    once: dict[str, str] = {}
    hubs: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        word, _, rest = line.strip().partition(" ")
        setting = f"{source}:{number}"
        if not word or word.startswith("#"):
            continue
        if word == "statestored":
            hubs.append(_hub(rest, setting=setting))
        elif word in _ONCE and word not in once:
            once[word] = rest.strip()
        else:
            raise ConfigError(setting, "a line", f"one each of {', '.join(_ONCE)}; statestored")
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
    )


def credential_text(credential: Credential) -> str:
    """Return the text that ``read_credential`` reads; it holds the secret."""
    pair = credential.pair
    lines = [
        f"name {credential.name}",
        f"role {credential.role}",
        f"public {pair.public}",
        f"secret {pair.secret}",
        f"catalogd {credential.catalogd}",
        *(" ".join(filter(None, ("statestored", *hub))) for hub in credential.hubs),
    ]
    return _HEADER + "".join(f"{line}\n" for line in lines)


def _hub(text: str, *, setting: str) -> tuple[str, str]:
    words = text.split()
    if not 1 <= len(words) <= 2:
        raise ConfigError(setting, f"{len(words)} words", "an address, if it has one, and a key")
    address = words[0] if len(words) == 2 else ""
    if address:
        address = ",".join(map(str, parse_addresses(address, setting=setting)))
    return address, checked_key(words[-1], setting=setting)
