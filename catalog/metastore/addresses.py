"""Addresses: the addresses of the metastore, and which is in use; all connections share them.

    alive ──silent for SILENT_S while a call waits──▶ probed ──any answer──▶ alive
                                                        └──none──▶ dead: its calls end, go elsewhere

A metastore that hangs accepts connections and requests, and never answers. A long read looks the
same from its own connection, so a short call on another connection distinguishes the two.
All connections lead to one address. Two addresses may lead to two metastores, or to a metastore and
a copy that lags. Only the connection of polls is checked, so no other connection may be elsewhere.
"""

import logging
import ssl
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from ...topics.errors import ConfigError
from .sasl import Login

PORT_DEFAULT: Final = 9083
SILENT_S: Final = 1.0  # without a byte from an address while a call waits; then it is probed

log: Final = logging.getLogger(__name__)


class AddressDied(Exception):
    """The address of this connection was found dead: no answer is to be waited for."""


class MetastoreAddress:
    """One address of the metastore; any thread may use it."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        login: Login | None = None,
    ) -> None:
        """``tls``, ``login``: as of MetastoreClient."""
        self.host = host
        self.port = port
        self.tls = tls
        self.login = login
        self.failed_at = 0.0  # the last failure, on the monotonic clock; 0: there was none
        self.deaths = 0  # how often it was found dead; connections of before are of no use
        self.answered_at = 0.0  # the last byte or answer on any connection, on the same clock
        self._probing = threading.Lock()  # one thread probes for all

    def __str__(self) -> str:
        """Return it as the operator writes it."""
        return f"thrift://{self.host}:{self.port}"

    def fail(self) -> None:
        """Note that it did not do what was requested: others are tried before it."""
        self.failed_at = time.monotonic()

    def die(self, *, since: float) -> None:
        """Note that nothing was answered since ``since``, unless another connection was."""
        self.fail()
        if self.answered_at < since:
            self.deaths += 1

    def check_alive(self, born: int, probe: Callable[[], None]) -> None:
        """Return if waiting for an answer makes sense.

        Args:
            born: ``deaths`` when the waiting connection was made.
            probe: Makes a short call; its OSError means that there was no answer.

        Raises:
            AddressDied: it does not.
        """
        began = time.monotonic()
        if began - self.answered_at >= SILENT_S and self._probing.acquire(blocking=False):
            try:
                probe()
            except OSError:
                self.die(since=began)
            else:
                self.answered_at = time.monotonic()
            finally:
                self._probing.release()
        if self.deaths != born:
            raise AddressDied(f"{self} does not answer")


class Addresses:
    """Every address of one metastore."""

    def __init__(
        self, uris: str, *, tls: ssl.SSLContext | None = None, login: Login | None = None
    ) -> None:
        """Read a comma list of ``thrift://host:port``; ``tls``, ``login``: as of MetastoreClient.

        Raises:
            ConfigError: an address is something else, or there is none.
        """
        self.all = tuple(
            MetastoreAddress(host, port, tls=tls, login=login) for host, port in parse_uris(uris)
        )
        self.used: MetastoreAddress | None = None  # by every connection; another is of no use

    def in_turn(self) -> tuple[MetastoreAddress, ...]:
        """Return them in the order given, but last those that failed, the latest at the end."""
        return tuple(sorted(self.all, key=lambda address: address.failed_at))

    def use(self, address: MetastoreAddress) -> None:
        """Note that ``address`` took a connection: the others move there at their next call."""
        before, self.used = self.used, address
        if before not in (None, address):
            log.info("metastore address changed: from=%s to=%s", before, address)


def parse_uris(uris: str) -> tuple[tuple[str, int], ...]:
    """Read a comma list of ``thrift://host:port`` as (host, port) in the order given.

    Raises:
        ConfigError: an address is something else, or there is none.
    """
    wrong = ConfigError("hive_metastore_uris", uris, "thrift://HOST:PORT, several with commas")
    found = []
    for uri in filter(None, (part.strip() for part in uris.split(","))):
        try:
            parts = urlsplit(uri)
            host, port = parts.hostname, parts.port or PORT_DEFAULT
        except ValueError:
            raise wrong from None
        extra = parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment
        if not host or any(map(str.isspace, host)) or parts.scheme != "thrift" or extra:
            raise wrong
        found.append((host, port))
    if not found:
        raise wrong
    return tuple(found)
