"""Settings as people write them: sizes, durations, addresses.

Text in, value or ``ConfigError`` out; the caller knows where the text came from.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final

from .errors import ConfigError

SIZE_BYTES_MAX: Final = 1 << 60  # beyond it is a typing error, not a machine
DURATION_S_MAX: Final = 366 * 86_400  # timers beyond a year overflow what select and poll take
SCHEME: Final = "tcp"  # of the daemons' sockets
PORT_MAX: Final = 65_535
PAGES_CHARS_MAX: Final = 300  # of an address of pages: the longest host name has 253
METASTORE_PORT: Final = "9083"
STATESTORES_DEFAULT: Final = "tcp://127.0.0.1:24000"
BLACKLISTED_DBS_DEFAULT: Final = "sys,information_schema"

_NUMBER: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([a-z%]*)", re.ASCII | re.IGNORECASE)
_SIZE_UNITS: Final = {"": 1, "b": 1} | {
    letter + tail: 1024**power
    for power, letter in enumerate("kmgt", start=1)
    for tail in ("", "b", "ib")
}
_DURATION_UNITS_S: Final = {
    "": Fraction(1),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86_400),
}
_SIZE_FORM: Final = "bytes, or a number with KB, MB, GB or TB (of 1024)"
_DURATION_FORM: Final = "seconds, or a number with ms, s, m, h or d"
_LOOPBACK: Final = ("127.0.0.1", "[::1]", "::1")
_PAGES: Final = re.compile(r"https?://[\w.:\[\]-]+", re.ASCII)
_HOST_NAME: Final = re.compile(
    r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a socket, bound or connected; an IPv6 host is held without brackets."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; a name other than localhost may be anything."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    @property
    def is_every_interface(self) -> bool:
        """Whether it is 0.0.0.0 or ::, which can be listened on, but not connected to."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def with_port(self, port: int) -> "Address":
        """Return the address with this port."""
        return replace(self, port=port)


def parse_size(text: str, *, setting: str = "size", total_bytes: int | None = None) -> int:
    """Return the bytes that ``text`` means: ``256MB``, ``1g``, ``512 KiB``, ``4096``, ``5%``.

    Args:
        text: Units are binary in every spelling, in either case; parts of a byte are cut off.
        setting: What the error names.
        total_bytes: What a percentage is taken of; ``None`` where percentages mean nothing.

    Raises:
        ConfigError: not a size, a percentage of nothing or above 100, or beyond 2**60.
    """
    form = _SIZE_FORM if total_bytes is None else f"{_SIZE_FORM}, or a percentage of memory"
    number, unit = _number_and_unit(text, setting, form)
    if unit == "%" and total_bytes is not None and number <= 100:
        return int(number * total_bytes / 100)
    if unit not in _SIZE_UNITS:
        raise ConfigError(setting, text, form)
    size = int(number * _SIZE_UNITS[unit])
    if size > SIZE_BYTES_MAX:
        raise ConfigError(setting, text, f"at most {SIZE_BYTES_MAX} bytes")
    return size


def parse_duration_s(text: str, *, setting: str = "duration") -> float:
    """Return the seconds that ``text`` means: ``250ms``, ``5s``, ``2m``, ``1.5h``, ``0.2``.

    Raises:
        ConfigError: not a duration, or more than 366 days.
    """
    number, unit = _number_and_unit(text, setting, _DURATION_FORM)
    if unit not in _DURATION_UNITS_S:
        raise ConfigError(setting, text, _DURATION_FORM)
    duration = number * _DURATION_UNITS_S[unit]
    if duration > DURATION_S_MAX:
        raise ConfigError(setting, text, "at most 366 days")
    return float(duration)


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names in a comma list, in lower case: ``sys, information_schema``."""
    return tuple(name for item in text.split(",") if (name := item.strip().lower()))


def parse_addresses(text: str, *, setting: str = "addresses") -> tuple[Address, ...]:
    """Return the addresses of a comma list, in its order: ``tcp://a:24000,tcp://[::1]:24000``.

    Raises:
        ConfigError: the list is empty, or an address has another scheme, no host, no port or
            more. The error names the address that is wrong.
    """
    if not text.strip():
        raise ConfigError(setting, text, f"at least one address, as {SCHEME}://127.0.0.1:24000")
    addresses = tuple(_addresses(text, setting))
    for position, address in enumerate(addresses):
        if address in addresses[:position]:
            raise ConfigError(setting, str(address), "each address once")
    return addresses


def listen_address(host: str, port: int, *, setting: str) -> Address:
    """Return where to listen; port 0 is any free port.

    Raises:
        ConfigError: ``host`` is neither a name nor a number; IPv6 may stand between [ and ].
    """
    return Address(SCHEME, _host(f"[{host}]" if _is_ipv6(host) else host, host, setting), port)


def checked_pages(text: str) -> str:
    """Return the address of a daemon's pages: by HTTP or HTTPS, without a path.

    Raises:
        ConfigError: it is no such address.
    """
    if len(text) > PAGES_CHARS_MAX or not _PAGES.fullmatch(text):
        raise ConfigError("pages", text[:PAGES_CHARS_MAX], "http://host:port or https://host:port")
    return text


def pages_for_peers(pages: Address, daemon: Address) -> str:
    """Return the address at which a peer's pages link to those of ``daemon``; empty: to none.

    ``pages`` on every interface are reached at the daemon's host. Pages on loopback are reached
    from this machine alone, which is enough only if ``daemon`` is on loopback, too.
    """
    if pages.is_every_interface:
        return str(Address(pages.scheme, daemon.host, pages.port))
    return "" if pages.is_loopback and not daemon.is_loopback else str(pages)


def advertised_address(listens: Address, text: str | None) -> Address:
    """Return where peers connect to a daemon: ``text``, a ``host[:port]``, or where it ``listens``.

    Port 0 stands for the port that the daemon takes when it listens.

    Raises:
        ConfigError: ``text`` is not valid; or it is None, and a daemon that listens on
            every interface cannot know the address by which its peers reach it.
    """
    setting = "advertise_address"
    if text is None:
        if listens.is_every_interface:
            allowed = f"the host[:port] at which peers reach what listens on {listens.host}"
            raise ConfigError(setting, "", allowed)
        return listens
    has_port = ":" in text.rpartition("]")[2]
    host, _, port = text.rpartition(":") if has_port else (text, "", "")
    number = _port(port, text, setting) if has_port else 0
    found = Address(listens.scheme, _host(host, text, setting), number)
    if found.is_every_interface:
        raise ConfigError(setting, text, "an address that peers can connect to")
    return found


def port_of(address: str) -> int:
    """Return the port of an address, which is known to have a port."""
    return int(address.rpartition(":")[2])


def state_folder(name: str, environ: Mapping[str, str]) -> Path:
    """Return the platform's folder for what ``name`` keeps over its restarts."""
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "topicast" / name


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the platform's folder for what can be fetched or made again.

    Raises:
        RuntimeError: there is no home.
    """
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "topicast"


def metastore_hosts(uris: str) -> frozenset[str]:
    """Return host and port of each of the metastore ``uris``; loopback has one name."""
    found = set()
    for uri in uris.split(","):
        address = uri.strip().lower().rpartition("://")[2].rstrip("/")
        if not address:
            continue
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            host, port = address, METASTORE_PORT
        found.add(f"{'localhost' if host in _LOOPBACK else host}:{port}")
    return frozenset(found)


def _number_and_unit(text: str, setting: str, form: str) -> tuple[Fraction, str]:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise ConfigError(setting, text, form)
    return Fraction(match[1]), match[2].lower()


def _addresses(text: str, setting: str) -> Iterator[Address]:
    for item in text.split(","):
        address = item.strip()
        found, separator, rest = address.partition("://")
        if not separator:
            raise ConfigError(setting, address, f"an address starts with {SCHEME}://")
        if found.lower() != SCHEME:
            raise ConfigError(setting, address, f"the scheme is {SCHEME}, not {found}")
        host, colon, port = rest.rpartition(":")
        if not colon or host.count("[") != host.count("]"):
            raise ConfigError(setting, address, f"a port is named: {SCHEME}://host:port")
        yield Address(SCHEME, _host(host, address, setting), _port(port, address, setting))


def _host(host: str, address: str, setting: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        try:
            return str(IPv6Address(host[1:-1]))
        except ValueError as exc:
            raise ConfigError(setting, address, "between [ and ] stands an IPv6 address") from exc
    if ":" in host:
        raise ConfigError(setting, address, "an IPv6 host stands between [ and ]")
    if not _HOST_NAME.fullmatch(host):
        raise ConfigError(setting, address, "the host is a name or an address")
    return host


def _is_ipv6(host: str) -> bool:
    return ":" in host and not host.startswith("[")


def _port(port: str, address: str, setting: str) -> int:
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= PORT_MAX):
        raise ConfigError(setting, address, f"the port is a number from 1 to {PORT_MAX}")
    return int(port)
