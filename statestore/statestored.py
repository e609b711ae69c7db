"""Statestored: the shell around the hub: sockets, the clock, the turn.

A turn takes 2 ms of CPU at most. It takes some of the frames that arrived (catalogd's deltas on the
hot path, ``Hub.take_delta``) and lets the hub decide about the others. It sends some chunks of
catch-ups, then what the hub has collected in the turn, and the heartbeat if it is due. Now and then
it makes a slice of the hub's status.
"""

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from typing import Any, Final

from ..topics.backports import assert_never
from ..topics.errors import ConfigError, WireError
from ..topics.keys.clients import Client, ClientRole, Clients
from ..topics.keys.credential import Credential
from ..topics.keys.folder import DaemonKeys
from ..topics.link import Link, LinkCounts, ReceivedFrame
from ..topics.memory.memory_limit import LOOK_S, MemoryLimit, give_back
from ..topics.memory.system_memory import resident_bytes
from ..topics.streams.sender import SendTo
from ..topics.verdict import Verdict, news
from ..topics.wire import decode, encode
from ..topics.wire.header import DELTA_KIND
from ..topics.wire.messages.answers import Inspected
from ..topics.wire.messages.connection import Refused
from ..topics.wire.messages.questions import ReaderQuestion
from .config import StatestoredConfig
from .effects import (
    Admit,
    Answered,
    Ask,
    Broadcast,
    Effect,
    Fact,
    HaveKeys,
    MessageReceived,
    Subscription,
    TurnEnd,
    Undecodable,
)
from .hub import Hub
from .status import HubStatus, verdict

REQUESTS: Final = "requests"  # the ROUTER
DATA: Final = "data"  # the XPUB
PORT: Final = "--state_store_port (0 takes any free ones)"
NEXT_PORT: Final = "--state_store_port, whose next port is for data (0 takes any free ones)"
TAKE_S: Final = 0.0005  # of a turn, for what arrived
TURN_S: Final = 0.0005  # of a turn, for chunks: a small delta waits that long, and one chunk more
STATUS_S: Final = 0.5  # between two statuses
KEYS_S: Final = 0.5  # between two looks at the hub's own key file
TIMEOUT_S_MAX: Final = 0.25  # between two looks at the clock
_DELTA: Final = bytes((DELTA_KIND,))  # a delta's fifth byte

log = logging.getLogger(__name__)


class Statestored:
    """One statestored. ``status``, ``verdict`` and ``turned_at`` may be read from any thread."""

    def __init__(
        self,
        hub: Hub,
        link: Link,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        clients: Clients,
        keys: DaemonKeys,
    ) -> None:
        """Take what was built; ``link`` has REQUESTS and DATA bound, with ``keys``.

        ``clients`` are admitted until catalogd sends another list, which the folder of ``keys``
        keeps for the next start.
        """
        self._hub = hub
        self._link = link
        self._keys = keys
        self._credential = keys.credential  # as the key file last had it
        self._keys_at = 0.0  # when the key file is looked at next
        self._rereads_clients = False  # whether to read the folder's list: catalogd has other keys
        self._clients = clients
        self._clock = clock
        self._wall_us = wall_us
        self._received: deque[ReceivedFrame] = deque()  # by the last poll, and not taken yet
        self._asked: dict[int, Future[Inspected | Refused]] = {}
        """By their numbers: questions of pages to readers that nobody has answered yet."""
        self._asks: deque[Ask] = deque()  # questions for the next turn; any thread appends
        self._numbers = count(1)
        self._stopping = False  # whether ``stop`` was called
        self._memory_at = 0.0  # when the next look at what is resident is due
        self._status_at = 0.0  # when the next status is begun
        self._slices: Iterator[HubStatus | None] | None = None  # of that which is being made
        self.turned_at = clock()
        self.status: HubStatus = hub.status(now=clock())
        self.verdict: Verdict = verdict(self.status)
        hub.admit(clients)
        hub.handle(HaveKeys(keys.credential.own_keys), now=clock())  # there is nobody to notify
        link.limit(DATA, hub.prefixes_for)
        self._admit(clients)

    def show_pages_at(self, address: str) -> None:
        """Announce the address of the hub's pages to catalogds that connect later; empty: none."""
        self._hub.pages = address

    @property
    def counts(self) -> LinkCounts:
        """Counts of frames that its sockets have carried, refused and dropped; for any thread."""
        return self._link.counts

    def run(self, report: Callable[[Verdict], None] = lambda _: None) -> None:
        """Serve until ``stop``; ``report`` is called with each verdict that differs."""
        reported = None
        try:
            while not self._stopping:
                if self.verdict is not reported:
                    reported = self.verdict
                    report(reported)
                self.run_once()
        except Exception:
            log.error("ends by an error of ours: steps=%s", self._hub.trace.text())
            raise

    def stop(self) -> None:
        """Make ``run`` return; from any thread or a signal handler."""
        self._stopping = True
        self._link.wake()

    def ask(self, question: ReaderQuestion[Any]) -> "Future[Inspected | Refused]":
        """Return what a reader will answer to ``question``; from any thread.

        A caller that has waited long enough cancels the future: a stopped reader never answers.
        """
        number, found = next(self._numbers), Future[Inspected | Refused]()
        self._asked[number] = found
        found.add_done_callback(lambda _: self._asked.pop(number, None))
        self._asks.append(Ask(replace(question, request=number)))
        self._link.wake()
        return found

    def run_once(self) -> None:
        """One turn."""
        if not self._received:
            self._received.extend(self._link.poll(self._timeout_s()))
        self._take()
        while self._asks:
            self._handle(self._asks.popleft())
        self._send_chunks()
        self._handle(TurnEnd(self._wall_us()))
        now = self.turned_at = self._clock()
        self._hold_memory(now)
        self._renew_status(now)
        if now >= self._keys_at:
            self._keys_at = now + KEYS_S
            self._look_at_keys()

    def close(self) -> None:
        """Let the sockets go."""
        self._link.close()

    def _admit(self, clients: Clients) -> None:
        """Admit ``clients``, and nobody else, each to the sockets that its role may use."""
        before, self._clients = self._clients, clients
        for name, keys in ((REQUESTS, clients.keys()), (DATA, clients.keys(readers=True))):
            self._link.admit(name, keys - clients.changed_since(before))  # they connect again
            self._link.admit(name, keys)
        log.info("clients admitted: count=%d", len(clients))

    def _keep(self, clients: Clients) -> None:
        try:
            self._keys.folder.keep(clients, of=self._credential.catalogd)
        except ConfigError as error:
            log.error("clients not kept, a restart begins with those before: error=%s", error)

    def _look_at_keys(self) -> None:
        """Use the keys that are in the key file now, and the list that belongs to them."""
        try:
            credential = self._keys.changed()
        except ConfigError as error:
            log.error("keys not read, those before stay in use: error=%s", error)
            return
        if credential is not None:
            self._use(credential)
        if self._rereads_clients:
            try:
                clients = DaemonKeys(self._credential, self._keys.folder).last_clients()
            except ConfigError:
                return  # it is being written
            self._rereads_clients = False
            self._hub.admit(clients)
            self._admit(clients)

    def _use(self, credential: Credential) -> None:
        before, self._credential = self._credential, credential
        self._rereads_clients |= before.catalogd_keys != credential.catalogd_keys
        if before.pair != credential.pair:
            self._link.use(credential.pair)
            log.info("key rotated: public=%s", credential.pair.public)
        self._handle(HaveKeys(credential.own_keys))

    def _hold_memory(self, now: float) -> None:
        """Hold the limit of memory, if any."""
        memory = self._hub.memory
        if memory is None:
            return
        if now >= self._memory_at:
            self._memory_at = now + LOOK_S
            memory.measured(resident_bytes() or 0)
        if memory.hold():
            give_back()

    def _timeout_s(self) -> float:
        if self._hub.memory is not None and self._hub.memory.cools:
            return 0.0
        if self._hub.sending or self._hub.answering or self._slices is not None:
            return 0.0
        return min(max(self._hub.deadline - self._clock(), 0.0), TIMEOUT_S_MAX)

    def _take(self) -> None:
        """Take what arrived in its order; deltas that follow each other go out in one go.

        After TAKE_S the rest is left to the next turns. Else heartbeats would wait until a hub has
        answered hundreds of joins, and readers would take it for silent.
        """
        hub, clock = self._hub, self._clock
        until = clock() + TAKE_S
        ready: list[bytes] = []
        while self._received:
            name, peer, frame, public = self._received.popleft()
            client = self._clients.with_key(public)
            if name == DATA and client is not None and hub.ignores(frame, client.policy):
                continue  # by far the most where drivers come back; poll brings 64 at most
            leads = client is not None and client.role is ClientRole.CATALOGD
            if leads and frame[4:5] == _DELTA:
                ready += hub.take_delta(peer, frame, now=clock())
            else:
                if ready:
                    self._link.send_all(DATA, ready)
                    ready = []
                self._take_frame(name, peer, frame, client=client)
            if clock() >= until:
                break
        self._link.send_all(DATA, ready)

    def _take_frame(self, name: str, peer: bytes, frame: bytes, *, client: Client | None) -> None:
        """Let the hub decide about a frame; not of a client whose key was revoked in this turn."""
        if name == DATA:
            self._handle(Subscription(frame, client.policy if client is not None else None))
        elif client is not None:
            self._handle(_fact(peer, frame, client=client))

    def _handle(self, fact: Fact) -> None:
        """Let the hub decide, and do what it decides."""
        self._perform(self._hub.handle(fact, now=self._clock()))

    def _send_chunks(self) -> None:
        until = self._clock() + TURN_S
        while self._hub.sending and self._clock() < until:
            self._perform(self._hub.send_some(1))  # a chunk: it takes up to a millisecond

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Broadcast(frame=frame):
                    self._link.send(DATA, frame)
                case SendTo(peer=peer, message=message):
                    if not self._link.send(REQUESTS, encode(message), peer):
                        self._hub.end_streams(peer)
                case Answered(number=number, answer=answer):
                    asked = self._asked.get(number)
                    if asked is not None and asked.set_running_or_notify_cancel():
                        asked.set_result(answer)
                case Admit(clients=clients):
                    self._admit(clients)
                    self._keep(clients)
                case _:
                    assert_never(effect)

    def _renew_status(self, now: float) -> None:
        """Make a slice of the next status, if it is time."""
        if self._slices is None and now >= self._status_at:
            self._status_at = now + STATUS_S
            self._hub.refused_handshake = self._link.counts.refused_handshake()
            self._slices = self._hub.status_in_slices()
        status = next(self._slices) if self._slices is not None else None
        if status is None:
            return
        self._slices = None
        before, verdict_before = self.status, self.verdict
        self.status, self.verdict = status, verdict(status)
        if (before.epoch, before.start) != (status.epoch, status.start):
            log.info("publisher: epoch=%d start=%d", status.epoch, status.start)
        for level, line in news(verdict_before, self.verdict):
            log.log(level, line)


def build(config: StatestoredConfig, *, keys: DaemonKeys) -> tuple[Statestored, str]:
    """Return a statestored that is ready to ``run``, and where peers reach its requests.

    Raises:
        LinkError: a port is taken.
        ConfigError: the keys cannot be used, or --mem_limit leaves no room for content.
    """
    clients = keys.last_clients()
    limit_bytes = config.limit_bytes()
    memory = None if limit_bytes is None else MemoryLimit(limit_bytes)
    if memory is not None:
        memory.measured(resident_bytes() or 0)
        memory.check_start(entries=0)
    link = Link(keys.credential.pair)
    try:
        requests = link.bind_router(REQUESTS, config.request_address, setting=PORT)
        address = config.advertised(requests)
        data = link.bind_xpub(DATA, config.data_address, setting=NEXT_PORT)
        data_address = config.advertised_data(data)
    except BaseException:
        link.close()
        raise
    hub = Hub(
        hub_id=secrets.randbits(63) | 1,
        data_address=data_address,
        heartbeat_ms=config.statestore_heartbeat_frequency_ms,
        missed_max=config.statestore_max_missed_heartbeats,
        memory=memory,
    )
    daemon = Statestored(hub, link, clients=clients, keys=keys)
    return daemon, address


def _fact(peer: bytes, frame: bytes, *, client: Client) -> Fact:
    try:
        return MessageReceived(peer, decode(frame), client)
    except WireError as error:
        return Undecodable(peer, error)
