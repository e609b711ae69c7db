"""Catalogd: the shell around the core: sockets, threads, the store, the clock, the log.

A turn: receive from hubs (they see only what is committed), from read threads and from clients,
let the core decide, commit, then send to hubs and clients.

While the disk of the store is full, or a file of the store is not where it was, catalogd tries the
commit again once a second. Meanwhile it answers questions about itself, refuses orders with the
reason, and keeps all else that arrives: hubs and drivers serve what they have, and say how long
catalogd has been silent.
"""

import gc
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..topics.backports import assert_never
from ..topics.errors import ConfigError, StoreError, WireError
from ..topics.histogram import HistogramFacts
from ..topics.keys.clients import Client, Clients, clients_text
from ..topics.keys.credential import PublicKeys
from ..topics.keys.folder import DaemonKeys
from ..topics.link import Handshake, Inbox, Link, LinkCounts, ReceivedFrame
from ..topics.memory.memory_limit import LOOK_S, give_back
from ..topics.memory.system_memory import resident_bytes
from ..topics.streams.sender import SendTo
from ..topics.topic import Topic
from ..topics.turn import Tick
from ..topics.verdict import Verdict, news
from ..topics.wire import decode, encode
from ..topics.wire.messages.answers import HubFacts
from ..topics.wire.messages.connection import Bye, Channel
from ..topics.wire.messages.fields import Message
from ..topics.wire.messages.questions import ReadWriter
from ..topics.wire.refusal import refuse_frame
from .core import Catalog
from .effects import (
    BeginEpoch,
    Connections,
    Effect,
    Fact,
    FloorRaised,
    Minted,
    MintEpoch,
    Publish,
    Requested,
)
from .follow.notes import Noted
from .history.history_thread import HistoryRead, HistoryThread, ReadStore
from .ingest.events.identity import Identify
from .ingest.events.poller import Poll
from .ingest.loads.read_threads import Answer, ReadThreads
from .metastore.calls import Calls
from .metastore.port import ListNames, Read, ReadEvent, ReadFacts, ReadNames
from .model.modes import overrides_text
from .model.versions import Commit, Transaction
from .publish import publisher
from .publish.hub_questions import HubQuestions, Known
from .publish.publisher import PublishedState, Publisher, delta_of_transaction
from .serve.grants import AdmitGranted
from .serve.storeless import answer_without_store
from .status import CatalogStatus, answer, verdict, without_store
from .storage.loading import load_topics
from .storage.store import Store

SERVICE: Final = "service"
TIMEOUT_S_MAX: Final = 0.25  # the longest wait for a message
STATUS_S: Final = 0.5  # between two statuses
CLIENTS_S: Final = 0.5  # between two looks at the list of clients
CHUNKS_S: Final = 0.0005  # of a turn, for chunks, and one chunk more: then deltas have their turn
STORE_S: Final = 1.0  # between two looks for the store's files, and two tries of a failed commit
KEPT_BYTES_MAX: Final = 16 << 20  # of frames that wait for the store: 50 hubs' for an hour
KEPT_COST: Final = 200  # of a frame, besides its bytes
FLOORS_S: Final = 10.0  # between two rounds in which tombstones are deleted

log = logging.getLogger(__name__)


@dataclass(slots=True)
class HubConnection:
    """One hub: its address, the public keys it may have, and the publisher that serves it."""

    address: str
    servers: PublicKeys
    publisher: Publisher

    def socket(self, channel: Channel) -> str:
        """Return the name of the socket of ``channel``."""
        return f"{channel.name.lower()} {self.address}"


class Catalogd:
    """One catalogd. ``status``, ``verdict`` and ``turned_at`` may be read from any thread."""

    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        link: Link,
        *,
        renew: Callable[[dict[int, Topic], str], Catalog],
        published: PublishedState,
        hubs: Iterable[HubConnection],
        make_read_threads: Callable[[Callable[[Answer], None]], ReadThreads],
        keys: DaemonKeys | None = None,
        calls: Calls | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        """Own ``store`` and ``link``, on which the service's ROUTER is bound as ``SERVICE``.

        ``renew`` is given the topics that the store holds, and why a core has ended; it returns the
        next core. ``keys``: those of ``link``, and their folder, in which catalogd looks for new
        keys and for the list of clients; None: neither changes. ``calls``: those of the metastore.
        """
        self._catalog = catalog
        self._store = store
        self._link = link
        self._published = published
        self._hubs = tuple(hubs)
        self._chunks_to = deque(self._hubs)  # the first hub gets the next chunk, if it catches up
        self._sockets = {
            hub.socket(channel): (hub, channel) for hub in self._hubs for channel in Channel
        }
        self._connected: set[str] = set()  # names of sockets
        self._questions = HubQuestions(link.wake)
        self._clock = clock
        self._wall_us = wall_us
        self._renew = renew
        self._calls = Calls() if calls is None else calls
        self._keys = keys
        self._pair = keys.credential.pair if keys is not None else None
        self._clients_at = 0.0  # when the list of clients and the own key are looked at next
        self._clients = Clients()
        self._grants = AdmitGranted(())
        self._granted: dict[str, Client] = {}  # by public key
        self._admitted: dict[str, Client] = {}  # listed and granted clients, by key
        self._make_read_threads = make_read_threads
        self._inbox, self._read_threads = self._new_read_threads()
        self._histories: Inbox[HistoryRead] = Inbox(link.wake)
        self._history_thread = HistoryThread(
            store.path, deliver=lambda answer: self._histories.put(answer, timeout_s=60.0)
        )
        self._stopping = False
        self._effects: deque[Effect] = deque()  # to be performed; what is left waits for the store
        self._store_failed_at: float | None = None  # since when nothing can be stored, if it is so
        self._store_at = 0.0  # when the next look for the store's files is due
        self._kept: list[ReceivedFrame] = []  # what arrived since the store failed, in order
        self._kept_bytes = 0  # of ``_kept``, with KEPT_COST for each
        self._kept_all = True  # False: there was no room for some, and hubs are greeted anew
        self._memory_at = 0.0  # when the next look at what is resident is due
        self._floors_at = 0.0  # when the next round begins
        self._floors_of: list[int] = []  # topics that are left of this round
        self._status_at = 0.0  # when the next status is begun
        self._slices: Iterator[CatalogStatus | None] | None = None  # of the status in the making
        self.turned_at = clock()  # when the last turn began
        self._now, self._now_us = self.turned_at, 0  # of the present turn; wall clock in µs
        published.watermark = catalog.watermark  # known after a restart before any commit
        self.status: CatalogStatus = catalog.status()
        self.verdict: Verdict = verdict(self.status)

    @property
    def store_path(self) -> Path:
        """The file of the store, which others may read."""
        return self._store.path

    def show_pages_at(self, address: str) -> None:
        """Announce the address of catalogd's pages to hubs that connect later; empty: none."""
        self._published.pages = address

    def ask(self, question: ReadWriter) -> "Future[Known | None]":
        """Return what a hub answers that knows the writer of ``question``; from any thread.

        None: no hub that is connected knows it. A hub that is stopped never answers.
        """
        return self._questions.ask(question)

    @property
    def metastore_calls(self) -> Mapping[str, HistogramFacts]:
        """The seconds that calls of the metastore took, by method; from any thread."""
        return self._calls.facts()

    @property
    def counts(self) -> LinkCounts:
        """Frames that its sockets have carried, refused and dropped; from any thread."""
        return self._link.counts

    def run(self, report: Callable[[Verdict], None] = lambda _: None) -> None:
        """Serve until ``stop``; ``report`` is called with each verdict that differs."""
        self._read_threads.start()
        self._history_thread.start()
        reported = None
        try:
            while not self._stopping:
                if self.verdict is not reported:
                    reported = self.verdict
                    report(reported)
                self.run_once()
        except Exception:
            log.error("ends by an error of ours: steps=%s", self._catalog.turn.trace.text())
            raise

    def stop(self) -> None:
        """Make ``run`` return; from any thread or a signal handler."""
        self._stopping = True
        self._link.wake()

    def run_once(self) -> None:
        """Take one turn."""
        if self._store_failed_at is not None:
            self._store_again(self._store_failed_at)
            return
        received = self._link.poll(0.0 if self._kept else self._timeout_s())
        self._begin_turn()
        if self._kept_bytes:
            received = [*self._take_kept(), *received]
        requests: list[Fact] = []
        for one in received:
            self._on_received(one, requests)
        for fact in (*requests, *self._inbox.take(), *self._histories.take()):
            self._handle(fact)
        effects = self._catalog.flush(now=self._now, now_us=self._now_us)
        self._effects.extend(effects)
        if not self._perform_all():
            return
        self._hold_memory()
        self._ask_hubs()
        self._published.names_known = self._catalog.names_known
        for hub in self._hubs:
            self._drive(hub, Tick())
        self._send_chunks()
        commits = any(isinstance(effect, Commit) for effect in effects)
        if not commits or self._now >= self._status_at + STATUS_S:  # a commit is enough for a turn
            self._maintain()

    def admit(self, clients: Clients) -> None:
        """Admit ``clients`` to the service and to the hubs, and nobody else."""
        changed = clients.changed_since(self._clients)
        self._clients = clients
        self._published.clients = clients_text(clients).encode("ascii")
        self._admit(changed)
        log.info("clients admitted: count=%d", len(clients))

    def close(self) -> None:
        """Send Bye to the hubs, end the threads, close the store."""
        for hub in self._hubs:
            if hub.socket(Channel.CONTROL) in self._connected:
                self._link.send(hub.socket(Channel.CONTROL), encode(Bye(reason="catalogd stops")))
        self._read_threads.close()
        self._history_thread.close()
        self._link.close()
        self._store.close()

    def _admit(self, changed: frozenset[str] = frozenset()) -> None:
        """Admit listed and granted clients; end the connections of keys that are ``changed``."""
        before, self._granted = self._granted, self._grants.of(self._clients)
        changed |= {key for key, one in self._granted.items() if before.get(key, one) != one}
        listed = {key: one for one in self._clients for key in one.keys}
        self._admitted = self._granted | listed
        self._link.admit(SERVICE, self._admitted.keys() - changed)
        self._link.admit(SERVICE, self._admitted.keys())

    def _new_read_threads(self) -> tuple[Inbox[Answer], ReadThreads]:
        """Return threads that have not begun, and the inbox that they alone deliver to."""
        inbox: Inbox[Answer] = Inbox(self._link.wake)
        return inbox, self._make_read_threads(lambda answer: inbox.put(answer, timeout_s=60.0))

    def _begin_turn(self) -> None:
        """Read the clocks, once for all of a turn."""
        self._now, self._now_us = self._clock(), self._wall_us()
        self.turned_at = self._now

    def _handle(self, fact: Fact) -> None:
        """Let the core decide; ``flush`` returns what."""
        self._catalog.handle(fact, now=self._now, now_us=self._now_us)

    def _hold_memory(self) -> None:
        """Keep the limit of memory, if any. The store has all content by now, so any may leave."""
        memory = self._catalog.memory
        if memory is None:
            return
        if self._now >= self._memory_at:
            self._memory_at = self._now + LOOK_S
            self._catalog.measured(resident_bytes() or 0)
        if memory.hold():
            give_back()

    def _timeout_s(self) -> float:
        memory = self._catalog.memory
        if self._slices is not None or (memory is not None and memory.cools):
            return 0.0
        now = self._clock()
        times = [self._catalog.deadline(now), *(hub.publisher.deadline for hub in self._hubs)]
        return min(max(min(times) - now, 0.0), TIMEOUT_S_MAX)

    def _on_received(self, one: ReceivedFrame, requests: list[Fact]) -> None:
        try:
            message: Message = decode(one.frame)
        except WireError as exc:
            self._on_undecodable(one, exc)
            return
        if one.name == SERVICE:
            client = self._admitted.get(one.public)
            if client is not None:  # else its key was revoked in this turn
                requests.append(Requested(peer=one.peer, message=message, client=client))
            return
        hub, channel = self._sockets[one.name]
        if self._questions.on_message(hub.address, message):
            return
        self._drive(hub, publisher.FromHub(channel, message))

    def _ask_hubs(self) -> None:
        there = [hub for hub in self._hubs if hub.publisher.connected]
        for message in self._questions.take([hub.address for hub in there]):
            for hub in there:
                if not self._link.send(hub.socket(Channel.CONTROL), encode(message)):
                    self._questions.lose(hub.address)

    def _on_undecodable(self, one: ReceivedFrame, exc: WireError) -> None:
        self._catalog.counts.frames_undecodable += 1
        if one.name == SERVICE:
            self._link.send(SERVICE, encode(refuse_frame(exc)), one.peer)
            return
        hub, _ = self._sockets[one.name]
        lost = publisher.Lost(f"no message of ours: {exc}", publisher.SLOW_S)
        self._drive(hub, lost)

    def _store_again(self, failed_at: float) -> None:
        """Try again, after a pause, what could not be stored; later effects wait for it."""
        until = time.monotonic() + STORE_S
        while not self._stopping and (left_s := until - time.monotonic()) > 0:
            for one in self._link.poll(left_s):
                if not self._answered(one):
                    self._keep(one)
        self._begin_turn()
        if self._perform_all():
            log.info("serving: the store is written again, after %.0f s", self._now - failed_at)
            self._status_at = self._now  # what it said of the store is over

    def _answered(self, one: ReceivedFrame) -> bool:
        """Answer what can be answered of the last status; return whether that was done."""
        problem, client = self.status.store_problem, self._admitted.get(one.public)
        if one.name != SERVICE or client is None or problem is None:
            return False
        try:
            message: Message = decode(one.frame)
        except WireError:
            return False
        found = answer_without_store(
            message, client, problem=problem, answer=lambda asked: answer(self.status, asked)
        )
        return found is not None and self._link.send(SERVICE, encode(found), one.peer)

    def _keep(self, one: ReceivedFrame) -> None:
        """Keep a frame until the store is written again; what finds no room is repeated then.

        Clients repeat their requests, and hubs that are greeted anew say again what they hold.
        """
        self._kept_bytes += len(one.frame) + KEPT_COST
        if self._kept_bytes > KEPT_BYTES_MAX:
            self._kept_all = False
        if self._kept_all:
            self._kept.append(one)

    def _take_kept(self) -> list[ReceivedFrame]:
        kept, self._kept = self._kept, []
        self._kept_bytes = 0
        if not self._kept_all:
            self._kept_all = True
            kept = [one for one in kept if one.name == SERVICE]
            for hub in self._hubs:
                self._drive(hub, publisher.Lost("more arrived than waits for the store"))
        return kept

    def _perform_all(self) -> bool:
        """Perform the effects in their order; return False, and keep the rest, if one fails.

        The store has no room then, or its files are not where they were.
        """
        try:
            if self._store_failed_at is not None or self._now >= self._store_at:
                self._store_at = self._now + STORE_S
                self._store.check_files()
            while self._effects:
                self._perform(self._effects[0])
                self._effects.popleft()
        except StoreError as problem:
            if not problem.retriable:
                raise
            if self._store_failed_at is None:
                self._store_failed_at = self._now
            if type(problem) is not type(self.status.store_problem):
                self._renew_status(without_store(self.status, problem))
            return False
        self._store_failed_at = None
        return True

    def _perform(self, effect: Effect) -> None:  # noqa: C901 - dispatch
        match effect:
            case (
                Poll() | Identify() | Read() | ReadNames() | ListNames() | ReadEvent() | ReadFacts()
            ):
                self._read_threads.order(effect)
            case ReadStore():
                refused = self._history_thread.order(effect)
                if refused is not None:
                    self._handle(refused)
                    self._link.wake()  # the refusal leaves in the next turn
            case Commit():
                self._commit(effect)
            case Publish(transactions=transactions):
                self._publish(transactions)
            case AdmitGranted():
                self._grants = effect
                self._admit()
                log.info("keys granted: count=%d", len(self._granted))
            case MintEpoch(at_least=at_least):
                self._mint(at_least)
            case Noted(text=text, trouble=trouble):
                log.log(logging.WARNING if trouble else logging.INFO, "metastore: %s", text)
            case BeginEpoch():
                self._begin_anew(effect)
            case SendTo(peer=peer, message=message):
                if not self._link.send(SERVICE, encode(message), peer):
                    self._catalog.counts.unreachable += 1
            case _:
                assert_never(effect)

    def _commit(self, commit: Commit) -> None:
        self._store.commit(commit)
        for one in commit.orders:
            what = one.object or "everything"
            log.info("order: order=%s object=%s key=%s by=%s", one.order, what, one.key, one.sender)
        self._published.watermark = self._catalog.watermark
        if commit.mode_state is not None and commit.mode_state.mode != self._published.mode:
            mode = self._published.mode = commit.mode_state.mode
            log.info("mode: name=%s overrides=%s", mode.name, overrides_text(mode))

    def _publish(self, transactions: tuple[Transaction, ...]) -> None:
        epoch, start = self._published.position
        for one in transactions:
            floor = self._published.topics[one.topic].floor
            mode = self._published.mode
            delta = delta_of_transaction(
                one, epoch=epoch, start=start, floor=floor, sent_us=self._now_us, mode=mode
            )
            fact = publisher.Committed(one.topic, one.to_version, encode(delta))
            for hub in self._hubs:
                self._drive(hub, fact)

    def _send_chunks(self) -> None:
        """Send chunks to hubs that catch up, a chunk to each hub in turn, for CHUNKS_S."""
        until = self._clock() + CHUNKS_S
        while any(hub.publisher.sending for hub in self._hubs):
            hub = self._chunks_to[0]
            self._chunks_to.rotate(-1)
            for one in hub.publisher.send_some(1):
                self._link.send(hub.socket(one.channel), encode(one.message))
            if self._clock() >= until:
                break

    def _drive(self, hub: HubConnection, fact: publisher.Fact) -> None:
        for effect in hub.publisher.handle(fact, now=self._now, now_us=self._now_us):
            match effect:
                case publisher.Put(frame=frame):
                    self._link.send(hub.socket(Channel.BULK), frame)
                case publisher.SendOn(channel=channel, message=message):
                    self._link.send(hub.socket(channel), encode(message))
                case publisher.Reconnect():
                    self._reconnect(hub)
                case publisher.MintAbove(epoch=epoch):
                    if epoch >= self._published.position[0]:
                        self._catalog.epochs.mint_above(epoch)
                case publisher.Learned(keys=keys):
                    self._learn(hub, keys)
                case publisher.Entered(state=state, reason=reason, again=again):
                    level = logging.DEBUG if again else logging.INFO
                    log.log(level, "hub: address=%s state=%s reason=%s", hub.address, state, reason)
                    if not again:
                        self._status_at = self._now  # the verdict says it at once
                case _:
                    assert_never(effect)

    def _reconnect(self, hub: HubConnection) -> None:
        for channel in Channel:
            socket = hub.socket(channel)
            if socket in self._connected:
                self._link.disconnect(socket)
            self._link.connect_dealer(socket, hub.address, hub.servers)
            self._connected.add(socket)

    def _mint(self, at_least: int) -> None:
        """Begin a new epoch; every hub takes a snapshot of it."""
        epoch = self._store.mint_epoch(self._now_us, at_least=at_least)
        log.warning("epoch minted: epoch=%d above=%d", epoch, at_least)
        self._handle(Minted(epoch=epoch, starts=self._store.starts))
        self._published.starts = self._store.starts
        for hub in self._hubs:
            self._drive(hub, publisher.EpochBegun())

    def _begin_anew(self, effect: BeginEpoch) -> None:
        """Mint an epoch for another metastore, with nothing of the former one in it.

        Hubs receive the epoch when the names are read. Waiting requests are dropped: their peers
        repeat them.
        """
        epoch = self._store.begin_anew(self._now_us, at_least=effect.at_least)
        log.warning("epoch minted: epoch=%d reason=%s", epoch, effect.finding)
        for hub in self._hubs:
            self._drive(hub, publisher.Lost(effect.finding))
        self._read_threads.close()
        if self._catalog.memory is not None:
            self._catalog.memory.warm.clear()
        topics = load_topics(self._store, self._published.topics, self._catalog.memory)
        self._published.topics, self._published.starts = topics, self._store.starts
        self._catalog = self._renew(topics, effect.finding)
        self._grants = AdmitGranted(())  # the new core knows of none
        self._admit()
        self._published.watermark = self._catalog.watermark
        self._floors_of.clear()
        self._slices = None
        self._inbox, self._read_threads = self._new_read_threads()
        self._read_threads.start()
        gc.collect()  # the former core is full of cycles, and daemons rarely collect old objects

    def _maintain(self) -> None:
        """Look at clients and keys; then do one of three things, as far as there is any to do.

        They are, in this order: a slice of the next status, a look for content that is missing, the
        deletion of old tombstones.
        """
        now = self._now
        if now >= self._clients_at:
            self._clients_at = now + CLIENTS_S
            self._admit_changed()
            self._rotate_changed()
        if self._slices is None and now >= self._status_at:
            self._status_at = now + STATUS_S
            self._handle(self._connections())
            self._slices = self._catalog.introspection.status_in_slices()
        if self._slices is not None:
            status = next(self._slices)
            if status is None:
                return
            self._slices = None
            self._renew_status(status)
        if self._catalog.check_some():
            return
        if now >= self._floors_at:
            self._floors_at = now + FLOORS_S
            self._floors_of = self._floors_of or list(self._published.topics)
        if self._floors_of:
            self._raise_floor(self._floors_of.pop())

    def _admit_changed(self) -> None:
        try:
            clients = self._keys.folder.changed() if self._keys is not None else None
        except ConfigError as error:
            log.error("clients not read, those before stay admitted: error=%s", error)
            return
        if clients is not None:
            self.admit(clients)

    def _rotate_changed(self) -> None:
        """Use the keys that are in the key file now; every connection is made again with them."""
        try:
            own = self._keys.changed() if self._keys is not None else None
            if own is None or self._keys is None:
                return
            self._keys.folder.spread()
        except ConfigError as error:
            log.error("keys not read, those before stay in use: error=%s", error)
            return
        for hub in self._hubs:
            with suppress(ConfigError):  # the hub is unknown now: the list ends its connection
                hub.servers = own.hub_keys(hub.address)
        if own.pair == self._pair:
            return
        self._pair = own.pair
        self._link.use(own.pair)
        for hub in self._hubs:
            self._drive(hub, publisher.Lost("the key was rotated"))
        log.info("key rotated: public=%s", own.pair.public)

    def _learn(self, hub: HubConnection, keys: PublicKeys) -> None:
        """Take the public keys that ``hub`` says are its own; keep them for clients to come."""
        if keys == hub.servers:
            return
        before, hub.servers = hub.servers, keys
        for channel in Channel:
            if hub.socket(channel) in self._connected:
                self._link.trust(hub.socket(channel), keys)
        try:
            if self._keys is not None:
                self._keys.folder.learn_hub(before, keys)
        except ConfigError as error:
            log.error("keys of a hub not kept: address=%s error=%s", hub.address, error)

    def _raise_floor(self, topic: int) -> None:
        """Delete some old tombstones of ``topic``; while it may have more, it comes again."""
        floor = self._store.floor_due(topic, self._now_us)
        if floor:
            try:
                self._store.delete_tombstones(topic, floor)
            except StoreError as problem:
                if not problem.retriable:
                    raise
                return  # the next round tries again; the next commit reports the problem
            self._handle(FloorRaised(topic=topic, floor=floor))
            self._floors_of.append(topic)

    def _connections(self) -> Connections:
        """Return what is to be known of hubs and clients."""
        return Connections(
            hubs=tuple(self._facts_of(hub) for hub in self._hubs),
            refused_handshake=self._link.counts.refused_handshake(),
        )

    def _facts_of(self, hub: HubConnection) -> HubFacts:
        """Return what is known of ``hub``; while it is away, how the handshake with it ended."""
        found = hub.publisher.facts(hub.address, now=self._now)
        socket = hub.socket(Channel.CONTROL)
        if found.connected or socket not in self._connected:
            return found
        handshake = self._link.handshake(socket)
        if handshake not in (Handshake.REFUSED, Handshake.FAILED):
            return found
        return found._replace(reason=f"{found.reason}, handshake {handshake.value}")

    def _renew_status(self, status: CatalogStatus) -> None:
        self.status = status
        before, self.verdict = self.verdict, verdict(status)
        for level, line in news(before, self.verdict):
            log.log(level, line)
