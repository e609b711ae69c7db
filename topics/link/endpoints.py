"""Endpoints: addresses as ZeroMQ takes them, and its refusals as errors that say what to do."""

import errno
import re
import socket
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

import zmq

from ..errors import LinkError
from ..settings import PORT_MAX

_ENDPOINT: Final = re.compile(
    r"tcp://(?P<host>\[[0-9a-f:.]+\]|[^][\s:/]+):(?P<port>\d{1,5})", re.ASCII | re.IGNORECASE
)

_WHAT_TO_DO: Final = {
    errno.EADDRINUSE: "the port is in use; stop its owner, or choose another (0 takes a free one)",
    errno.EADDRNOTAVAIL: "this machine has no such address; bind one of its own, or 127.0.0.1",
    errno.EACCES: "not allowed; ports below 1024 need privileges",
    errno.EINVAL: "not an address; write tcp://host:port",
    errno.ENODEV: "this machine has no such interface; bind one of its addresses, or 127.0.0.1",
    errno.EMFILE: "no file descriptor is free; raise the limit (ulimit -n)",
}


def checked(address: str) -> str:
    """Return ``address``; ZeroMQ itself takes port 70000 for 4464.

    Raises:
        LinkError: it is not ``tcp://host:port``.
    """
    match = _ENDPOINT.fullmatch(address)
    if match is None or int(match["port"]) > PORT_MAX:
        raise LinkError(f"{address}: {_WHAT_TO_DO[errno.EINVAL]}")
    return address


def for_bind(address: str) -> str:
    """Return a checked ``address`` with its host as a number: ZeroMQ binds no names.

    Raises:
        LinkError: it is not an address, or no address is known for its host name.
    """
    match = _ENDPOINT.fullmatch(checked(address))
    assert match is not None
    host, port = match["host"], match["port"]
    if host == "*" or host.startswith("["):
        return address
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        raise LinkError(f"{address}: the host name {host!r} has no address; bind a number") from exc
    return f"tcp://{found[0][4][0]}:{port}"


def dialled(host: str) -> tuple[str, int]:
    """Return the address to which ZeroMQ connects for ``host``, and how many its name has.

    Of a name ZeroMQ uses the first IPv4 address, and no other if nobody answers there.

    Raises:
        OSError: the name has no IPv4 address.
    """
    with suppress(ValueError):
        return str(ip_address(host)), 1
    found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    return str(found[0][4][0]), len({one[4][0] for one in found})


def is_ipv6(address: str) -> bool:
    """Return whether ``address`` is of IPv6; a name counts as not: it may be another interface."""
    return "://[" in address


def refusal(what: str, exc: zmq.ZMQError, setting: str = "") -> LinkError:
    """Map what ZeroMQ refused for ``what``, an address or a socket's name.

    ``setting``: the operator's setting of the port, if it has one.
    """
    if setting and exc.errno == errno.EADDRINUSE:
        return LinkError(f"{what}: the port is in use; stop its owner, or pass another {setting}")
    return LinkError(f"{what}: {_WHAT_TO_DO.get(exc.errno or 0, exc.strerror)}")
