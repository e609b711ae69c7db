"""A client of a hub, and of the catalogd behind it: requests tables of facts, and gives orders.

Hello ──▶ Welcome (hub, epoch, catalogd's address)     Inspect(what) ──▶ Inspected(rows)
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ..topics import wire
from ..topics.errors import (
    AuthRefused,
    LinkError,
    NoSuchObject,
    NotReady,
    SourceError,
    TopicastError,
    UsageError,
    WireError,
)
from ..topics.keys.folder import OPERATOR as OPERATOR_KEY
from ..topics.keys.folder import find_credential
from ..topics.link import Handshake, Link
from ..topics.settings import Address
from ..topics.wire import header
from ..topics.wire.messages import (
    CONTROL_CHANNEL,
    OPERATOR,
    Hello,
    Inspect,
    Inspected,
    Message,
    Order,
    Refused,
    Welcome,
)

READERS_MAX: Final = 128  # requests at once: a hub keeps 256 of all operators
ANSWER_TIMEOUT_S: Final = 3.0  # a hub answers within milliseconds; a stopped one never does
ADD: Final = "get a key file where catalogd's keys are: topicast keys add NAME --role ROLE"
HUB: Final = "hub"
CATALOG: Final = "catalog"

M = TypeVar("M")
T = TypeVar("T")
Answer = Inspected | TopicastError


class Operator:
    """A short connection to a hub, from ``with`` to its end."""

    def __init__(self, statestores: tuple[Address, ...], *, timeout_s: float = ANSWER_TIMEOUT_S):
        self._statestores = statestores
        self.timeout_s = timeout_s  # how long each answer is waited for
        self._credential = find_credential(OPERATOR_KEY, environ=os.environ)
        self._link = Link(self._credential.pair)
        self._request = 0

    def __enter__(self) -> Self:
        """Connect to the first hub that answers.

        Raises:
            LinkError: none did.
            AuthRefused: one does not admit this process's key.
        """
        try:
            self.address, self.welcome = self._greet_one()
        except BaseException:
            self._link.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._link.close()

    def hub(self, what: str) -> Inspected:
        """Return the hub's table ``what``.

        Raises:
            NotReady: no answer in time.
            UsageError: the hub does not know ``what``.
        """
        return self._inspect(HUB, what, str(self.address))

    def readers(self, what: str, registrations: Sequence[str]) -> dict[str, Answer]:
        """Return the table ``what`` of each reader, or its refusal; nothing for silent readers."""
        found: dict[str, Answer] = {}
        for begin in range(0, len(registrations), READERS_MAX):
            found |= self._readers(what, registrations[begin : begin + READERS_MAX])
        return found

    def catalog(self, what: str) -> Inspected:
        """Return catalogd's table ``what``; raises as ``hub``, and LinkError if none is known."""
        with self._catalog() as where:
            try:
                return self._inspect(CATALOG, what, where)
            except NotReady as error:
                raise LinkError(f"catalogd at {where} does not answer: is it running?") from error

    def order(self, order: str, arguments: tuple[str, ...], *, sender: str) -> Inspected:
        """Give catalogd an order; return its answer once the order has been carried out.

        Raises:
            NotReady: no answer in time; the order may still be carried out.
            NoSuchObject: its object does not exist.
            UsageError: there is no such order, or not with such arguments.
            SourceError: the metastore does not answer.
            LinkError: no catalogd is known, or it is busy.
        """
        with self._catalog() as where:
            self._request += 1
            message = Order(request=self._request, sender=sender, order=order, arguments=arguments)
            self._send(CATALOG, message)
            return self._receive(CATALOG, Inspected, where)

    @contextmanager
    def _catalog(self) -> Iterator[str]:
        where = self.welcome.catalog_address
        if not where:
            raise LinkError(
                f"the statestored at {self.address} has no catalogd: start one with "
                f"catalogd --statestores={self.address}"
            )
        self._link.connect_dealer(CATALOG, where, self._credential.catalogd)
        try:
            yield where
        finally:
            self._link.disconnect(CATALOG)

    def _greet_one(self) -> tuple[Address, Welcome]:
        for address in self._statestores:
            server = self._credential.hub_key(str(address))
            self._link.connect_dealer(HUB, str(address), server)
            self._send(HUB, _hello())
            try:
                return address, self._receive(HUB, Welcome, f"statestored at {address}")
            except NotReady:
                self._link.disconnect(HUB)
        tried = ", ".join(map(str, self._statestores))
        raise LinkError(
            f"no statestored answers at {tried}: start one, or name others with --statestores"
        )

    def _inspect(self, name: str, what: str, where: str) -> Inspected:
        self._request += 1
        self._send(name, Inspect(request=self._request, what=what))
        return self._receive(name, Inspected, where)

    def _readers(self, what: str, registrations: Sequence[str]) -> dict[str, Answer]:
        open_: dict[int, str] = {}
        for registration in registrations:
            self._request += 1
            open_[self._request] = registration
            self._send(HUB, Inspect(request=self._request, what=f"{what}@{registration}"))
        found: dict[str, Answer] = {}
        deadline = time.monotonic() + self.timeout_s
        while open_ and (left_s := deadline - time.monotonic()) > 0:
            for received in self._link.poll(left_s):
                answer = _read(received.frame, str(self.address))
                if isinstance(answer, Inspected | Refused) and answer.request in open_:
                    reader = open_.pop(answer.request)
                    found[reader] = (
                        _error(answer, reader) if isinstance(answer, Refused) else answer
                    )
        return found

    def _send(self, name: str, message: Message) -> None:
        self._link.send(name, wire.encode(message))

    def _is_late(self, message: Inspected | Refused) -> bool:
        """Return whether it answers a request that has timed out; a refusal may name none."""
        return message.request not in (0, self._request)

    def _receive(self, name: str, kind: type[M], where: str) -> M:
        """Return the next message of ``kind``; skip its other messages."""
        deadline = time.monotonic() + self.timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            for received in self._link.poll(left_s):
                message = _read(received.frame, where) if received.name == name else None
                if isinstance(message, Inspected | Refused) and self._is_late(message):
                    continue
                if isinstance(message, Refused):
                    raise _error(message, where)
                if isinstance(message, kind):
                    return message
            if self._link.handshake(name) is Handshake.REFUSED:
                raise AuthRefused(f"{where} does not admit {self._credential.name}: {ADD}")
        if self._link.handshake(name) is Handshake.FAILED:
            raise AuthRefused(f"{where} has another key than {self._credential.name} knows: {ADD}")
        raise NotReady(f"{where} did not answer within {self.timeout_s:g} s")


def at_each(
    statestores: tuple[Address, ...], look: Callable[[Operator], T]
) -> tuple[list[T], list[LinkError]]:
    """Visit every hub, one after the other; return what ``look`` found, and the failures.

    Raises:
        LinkError: none did.
    """
    found: list[T] = []
    failures: list[LinkError] = []
    for address in statestores:
        try:
            with Operator((address,)) as visit:
                found.append(look(visit))
        except LinkError as error:
            failures.append(error)
    if not found:
        raise failures[0]
    return found, failures


def _read(frame: bytes, where: str) -> Message:
    try:
        return wire.decode(frame)
    except WireError as error:
        raise LinkError(f"{where} does not speak our protocol: {error}") from error


def facts_of(table: Inspected) -> dict[str, Any]:
    """Return the facts of a table of names and values."""
    return {str(name): value for name, value in table.rows}


def _error(refused: Refused, where: str) -> TopicastError:
    """Return the error that a refusal stands for."""
    match refused.code:
        case "NO_OBJECT":
            return NoSuchObject(refused.message.removeprefix("no such object: "))
        case "SOURCE":
            return SourceError(refused.message)
        case _ if refused.retry_ms:
            return LinkError(f"{where} is not ready: {refused.message}")
        case _:
            return UsageError(f"{where} refused: {refused.message}")


def _hello() -> Hello:
    return Hello(
        role=OPERATOR,
        channel=CONTROL_CHANNEL,
        name=f"topicast@{socket.gethostname()}",
        registration=secrets.token_bytes(16),
        protocol_min=header.PROTOCOL_MIN,
        protocol_max=header.PROTOCOL,
        features=header.FEATURES,
    )
