"""Host: checks of this machine: its Python, packages and keys, and the hosts that it reaches."""

import errno
import os
import platform
import socket
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from ... import __version__
from ...topics.errors import ConfigError
from ...topics.keys.clients import ClientRole
from ...topics.keys.credential import Credential
from ...topics.link import new_pair
from ...topics.link.endpoints import dialled
from ...topics.settings import Address
from ..terminal.extras import EXTRA_OF
from .checks import Answer, ok, warning, wrong

CONNECT_S: Final = 3.0
BASE: Final = ("click", "msgpack", "pyzmq", "sortedcontainers", "zstandard")


def python() -> Answer:
    """Return the version of this Python; a Python that is too old cannot run this."""
    return ok(f"{platform.python_version()}, {sys.executable}")


def packages(needed: Sequence[str]) -> Answer:
    """Check that the libraries ``needed``, besides those of every installation, are there."""
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        extras = ",".join(dict.fromkeys(EXTRA_OF[name] for name in missing))
        return wrong(f"missing: {', '.join(missing)}", f"pip install 'topicast[{extras}]'")
    new_pair()  # a ZeroMQ without CURVE fails
    found = [f"{name} {_version(name)}" for name in BASE]
    return ok(f"topicast {__version__}, {', '.join(found)}")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "without metadata"


def key(credential: Credential, source: str, *, role: ClientRole) -> Answer:
    """Return the check that names the client of a key, and warns if its role is not ``role``."""
    if credential.role is not role:
        return warning(
            f"{source}: {credential.name}, of role {credential.role}",
            f"a {role} needs a key of its own role, or some of what it does is refused: "
            f"topicast keys add NAME --role {role} --out FILE, where catalogd's keys are",
        )
    return ok(f"{source}: {credential.name}, of role {credential.role}")


def names(addresses: Sequence[Address]) -> Answer:
    """Look up the hosts of ``addresses``."""
    found = {}
    for address in addresses:
        try:
            numbers = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except OSError as exc:
            return wrong(
                f"this machine does not know the host {address.host} ({exc.strerror})",
                f"correct the name, or add it to DNS or to /etc/hosts: getent hosts {address.host}",
            )
        found[address.host] = str(numbers[0][4][0])
    return ok(", ".join(one if one == at else f"{one} is {at}" for one, at in found.items()))


def ports(addresses: Sequence[Address], *, daemon: str, setting: str) -> Answer:
    """Connect to each of ``addresses``, where ``daemon`` listens; ``setting`` names others."""
    for address in addresses:
        try:
            host, _ = dialled(address.host)  # clients use no other address of the name
            socket.create_connection((host, address.port), CONNECT_S).close()
        except TimeoutError:
            return wrong(
                f"{address} does not answer within {CONNECT_S:g} s",
                "open this port in the firewalls between, from here to there",
            )
        except OSError as exc:
            return wrong(
                f"{address}: {exc.strerror}",
                f"start a {daemon} there, systemctl start {daemon}, or name another by {setting}",
            )
    return ok(f"{', '.join(map(str, addresses))} {'is' if len(addresses) == 1 else 'are'} open")


def can_listen(addresses: Sequence[Address]) -> Answer:
    """Bind a socket to each of ``addresses`` for a moment."""
    for address in addresses:
        kind = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with socket.socket(kind, socket.SOCK_STREAM) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((address.host, address.port))
            except OSError as exc:
                return _refused(address, exc)
    return ok(f"{', '.join(f'{one.host}:{one.port}' for one in addresses)} can be listened on")


def _refused(address: Address, exc: OSError) -> Answer:
    """Return why no socket can be bound to ``address``; the daemon itself may have the port."""
    where = f"{address.host}:{address.port}: {exc.strerror}"
    if exc.errno == errno.EADDRINUSE:
        return warning(
            where,
            "unless the daemon runs already, end what listens there, which "
            f"ss -ltnp 'sport = :{address.port}' names",
        )
    return wrong(where, "listen on an address of this machine, or on 0.0.0.0; ports from 1024 on")


def folder(path: str, *, setting: str) -> Answer:
    """Check that files can be made in ``path``, or in the folder where it will be made.

    Raises:
        ConfigError: no file can be made there.
    """
    found = os.path.abspath(path)  # noqa: PTH100 - the parent of a link is not wanted
    while not os.path.lexists(found):
        found = os.path.dirname(found)  # noqa: PTH120 - as above
    if not os.path.isdir(found):  # noqa: PTH112 - as above
        raise ConfigError(setting, path, f"a folder, which {found} is not")
    if not os.access(found, os.W_OK | os.X_OK):
        raise ConfigError(setting, path, f"a folder that user {os.geteuid()} can write in: {found}")
    return ok(path if found == os.path.abspath(path) else f"{path}, which is made at the start")  # noqa: PTH100 - as above
