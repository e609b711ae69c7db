"""Conversation: requests to one server, and its answers, for callers that wait for each.

A subscriber works otherwise: it has many requests open, and its thread waits for none of them.
"""

import secrets
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from ...topics import wire
from ...topics.errors import (
    AuthRefused,
    LinkError,
    NotReady,
    TopicastError,
    WireError,
)
from ...topics.keys.credential import Credential
from ...topics.link import Handshake, Link
from ...topics.settings import Address
from ...topics.wire.messages.catalog import Grant, Lease, Pull, Scan
from ...topics.wire.messages.connection import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    OPERATOR,
    READER,
    Bye,
    Hello,
    Refused,
    Welcome,
)
from ...topics.wire.messages.fields import Message
from ...topics.wire.messages.questions import A, Order, Question, ReaderQuestion, answer_to
from ...topics.wire.messages.reports import Sweep
from ...topics.wire.refusal import error_of

READERS_MAX: Final = 128  # requests at once: a hub keeps 256 of all operators
HUB: Final = "hub"
CATALOG: Final = "catalog"
ADD: Final = "get a key file where catalogd's keys are: topicast keys add NAME --role ROLE"

M = TypeVar("M")
Request = Question[Any] | Order | Scan | Pull | Sweep | Grant | Lease


class Conversation:
    """One connected socket of ``link``; requests have numbers from 1."""

    def __init__(
        self, link: Link, name: str, *, where: str, client: str, refused_s: float = 0.0
    ) -> None:
        """``name``: of the socket. Errors call the server ``where`` and this process ``client``.

        ``refused_s``: how long the server may refuse our key before that is an error.
        """
        self.where = where
        self._link = link
        self._name = name
        self._client = client
        self._refused_s = refused_s
        self._refused_at: float | None = None  # since when the server does, in monotonic time
        self._request = 0
        self._received: deque[bytes] = deque()  # frames that no caller has waited for yet

    def send(self, message: Message) -> None:
        """Send ``message``."""
        self._link.send(self._name, wire.encode(message))

    def leave(self) -> None:
        """End a registration: the hub lists this client no longer."""
        with suppress(LinkError):
            self.send(Bye(reason="closed"))

    def next_request(self) -> int:
        """Return the number of the next request."""
        self._request += 1
        return self._request

    def request(self, message: Request, kind: type[M], *, timeout_s: float) -> M:
        """Send ``message`` under the number of a request; return its answer.

        Raises:
            NotReady: no answer in time.
            AuthRefused: the server does not admit our key, or has another key than is known here.
            TopicastError: it refused; see ``error_of``.
        """
        self.send(replace(message, request=self.next_request()))
        return self.receive(kind, timeout_s=timeout_s)

    def inspect(self, question: Question[A], *, timeout_s: float) -> A:
        """Return what answers ``question``; raises as ``request``."""
        return self.request(question, answer_to(type(question)), timeout_s=timeout_s)

    def inspect_readers(
        self, kind: type[ReaderQuestion[A]], registrations: Sequence[str], *, timeout_s: float
    ) -> dict[str, A | TopicastError]:
        """Return what each reader of this hub answers to a question of ``kind``, or its refusal.

        Readers that have not answered within ``timeout_s`` are left out.
        """
        found: dict[str, A | TopicastError] = {}
        for begin in range(0, len(registrations), READERS_MAX):
            some = registrations[begin : begin + READERS_MAX]
            found |= self._inspect_readers(kind, some, timeout_s=timeout_s)
        return found

    def _inspect_readers(
        self, kind: type[ReaderQuestion[A]], registrations: Sequence[str], *, timeout_s: float
    ) -> dict[str, A | TopicastError]:
        open_: dict[int, str] = {}
        for registration in registrations:
            request = self.next_request()
            open_[request] = registration
            self.send(kind(request=request, member=bytes.fromhex(registration)))
        found: dict[str, A | TopicastError] = {}
        answers = answer_to(kind)
        deadline = time.monotonic() + timeout_s
        while open_ and (left_s := deadline - time.monotonic()) > 0:
            for received in self._link.poll(left_s):
                answer = self.read(received.frame) if received.name == self._name else None
                if isinstance(answer, (answers, Refused)) and answer.request in open_:
                    reader = open_.pop(answer.request)
                    found[reader] = (
                        error_of(answer, reader) if isinstance(answer, Refused) else answer
                    )
        return found

    def receive(self, kind: type[M], *, timeout_s: float) -> M:
        """Return the next message of ``kind``; skip other messages. Raises as ``request``."""
        deadline = time.monotonic() + timeout_s
        while True:
            while self._received:
                message = self.read(self._received.popleft())
                if self._is_late(message):
                    continue
                if isinstance(message, Refused):
                    raise error_of(message, self.where)
                if isinstance(message, kind):
                    return message
            if (left_s := deadline - time.monotonic()) <= 0:
                break
            frames = self._link.poll(left_s)
            self._received.extend(one.frame for one in frames if one.name == self._name)
            if self._received:
                continue
            self._check_admitted()
        if self._link.handshake(self._name) is Handshake.FAILED:
            text = f"{self.where} has another key than {self._client} knows: {ADD}"
            raise AuthRefused(text)
        raise NotReady(f"{self.where} did not answer within {timeout_s:g} s")

    def _check_admitted(self) -> None:
        """Raise AuthRefused if the server has refused our key for longer than it may."""
        if self._link.handshake(self._name) is not Handshake.REFUSED:
            self._refused_at = None
            return
        now = time.monotonic()
        if self._refused_at is None:
            self._refused_at = now
        if now - self._refused_at >= self._refused_s:
            raise AuthRefused(f"{self.where} does not admit {self._client}: {ADD}")

    def read(self, frame: bytes) -> Message:
        """Return the message in ``frame``; raises LinkError if there is none."""
        try:
            return wire.decode(frame)
        except WireError as error:
            raise LinkError(f"{self.where} does not speak our protocol: {error}") from error

    def _is_late(self, message: Message | None) -> bool:
        """Return whether it answers a request that has timed out; a refusal may name no request."""
        return getattr(message, "request", 0) not in (0, self._request)


def greet(
    link: Link,
    hubs: Sequence[Address],
    credential: Credential,
    *,
    timeout_s: float,
    reads_bulk: bool = False,
) -> tuple[Address, Conversation, Welcome]:
    """Register as an operator with the first of ``hubs`` that answers; its socket stays ``HUB``.

    ``reads_bulk``: as a reader that requests catch-ups only.

    Raises:
        LinkError: none of them answered.
        AuthRefused: a server does not admit the key.
    """
    for address in hubs:
        link.connect_dealer(HUB, str(address), credential.hub_keys(str(address)))
        hub = Conversation(link, HUB, where=f"statestored at {address}", client=credential.name)
        hub.send(_hello(reads_bulk=reads_bulk))
        try:
            return address, hub, hub.receive(Welcome, timeout_s=timeout_s)
        except NotReady:
            link.disconnect(HUB)
        except BaseException:
            link.disconnect(HUB)
            raise
    tried = ", ".join(map(str, hubs))
    raise LinkError(
        f"no statestored answers at {tried}: start one, or name others with --statestores"
    )


def catalogd_behind(
    link: Link, welcome: Welcome, credential: Credential, *, hub: Address
) -> AbstractContextManager[Conversation]:
    """Connect ``link`` to the catalogd that ``hub`` names in its ``welcome``, until the end.

    Raises:
        LinkError: it names no catalogd.
    """
    address = welcome.catalog_address
    if not address:
        text = f"the statestored at {hub} has no catalogd: start one with"
        raise LinkError(f"{text} catalogd --statestores={hub}")
    return _catalogd_on(link, address, credential, client=credential.name)


@contextmanager
def catalogd_named_by(
    hubs: Sequence[Address], credential: Credential, *, timeout_s: float
) -> Iterator[Conversation]:
    """Connect to the catalogd of the first of ``hubs`` that answers; this process leaves the hub.

    Raises:
        LinkError: none of them answered, or it names no catalogd.
        AuthRefused: a server does not admit the key.
    """
    with closing(Link(credential.pair)) as link:
        address, hub, welcome = greet(link, hubs, credential, timeout_s=timeout_s)
        hub.leave()
        with catalogd_behind(link, welcome, credential, hub=address) as catalogd:
            yield catalogd


@contextmanager
def catalogd_at(
    address: str, credential: Credential, *, client: str, refused_s: float = 0.0
) -> Iterator[Conversation]:
    """Connect to the catalogd at ``address``; ``client``, ``refused_s``: as of ``Conversation``."""
    with (
        closing(Link(credential.pair)) as link,
        _catalogd_on(link, address, credential, client=client, refused_s=refused_s) as catalogd,
    ):
        yield catalogd


@contextmanager
def _catalogd_on(
    link: Link, address: str, credential: Credential, *, client: str, refused_s: float = 0.0
) -> Iterator[Conversation]:
    link.connect_dealer(CATALOG, address, credential.catalogd_keys)
    where = f"catalogd at {address}"
    try:
        yield Conversation(link, CATALOG, where=where, client=client, refused_s=refused_s)
    finally:
        link.disconnect(CATALOG)


def _hello(*, reads_bulk: bool) -> Hello:
    return Hello(
        role=READER if reads_bulk else OPERATOR,
        channel=BULK_CHANNEL if reads_bulk else CONTROL_CHANNEL,
        name=f"topicast@{socket.gethostname()}",
        registration=secrets.token_bytes(16),
        is_command=True,
    )
