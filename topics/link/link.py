"""Link: the sockets of one process, owned by one thread; carries frames without decoding them.

    bind_router ─┐                    ┌─ send: now or not at all (False)
    bind_xpub ───┤ poll ─▶ Received ──┤
    connect_… ───┘   ▲                └─ counts: what was carried, refused, dropped
                     └─ wake, from any thread: an Inbox does, for what it hands to the link's thread

Invariants: no call waits but ``poll``, ``rest``, ``use`` (until a bound address is free again) and
``close``. ``poll`` takes at most ``BATCH_MAX`` parts of each socket, of ``BATCH_BYTES_MAX``, so a
flood on one socket delays frames on another by one batch. A message of another shape than its
socket's is dropped and counted: a ROUTER receives peer and frame, other sockets one frame, and an
XPUB only subscriptions. Every socket has keys, and drops frames of keys that are not admitted.

ZeroMQ does not retry a server that refuses our key: the link does each ``RETRY_S``, on a new
socket. A server that rotates its keys has one of several: the link tries each in turn.
"""

import math
import os
import select
import selectors
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from queue import Empty, Full, Queue
from typing import Final, Generic, NamedTuple, TypeVar

import zmq

from ..errors import NotReady, UsageError
from ..keys.credential import KeyPair
from ..verdict import RefusedHandshake
from .curve import KEY_OF, AcceptedConnections, AdmittedKeys, Gate, check_pair, join, serve
from .endpoints import checked, for_bind, is_ipv6, refusal
from .sockets import GOODBYE_S, OPTIONS, READ_BYTES_MAX, SENT_BYTES_MAX, SocketType, read_max

BATCH_MAX: Final = 64  # parts of messages, from one socket in one turn; a ROUTER's have two: 0.5 ms
BATCH_BYTES_MAX: Final = 1 << 20  # and their bytes, but for the last frame
POLL_S_MAX: Final = 3600.0  # the longest sleep: infinite deadlines end here, and poll counts in int
WAKES_MAX: Final = 4096  # wakes read at once; many mean the same as a single wake

ITEMS_MAX: Final = 1000  # calls of an application's threads that wait at once
TAKEN_MAX: Final = 200  # one turn's share, as of each socket

SOCKETS_MAX: Final = 4095  # of ZeroMQ; one of ours counts as three, with both ends of its monitor
RETRY_S: Final = 0.5  # until a server that refused our key is tried again: the key may be added
FAILURES_MIN: Final = 3  # handshakes that break off in a row: after fewer the server may have died
EARLY_MAX: Final = 64  # frames that are sent again with another key: a Hello, some requests
REBIND_S: Final = 5.0  # until an address must be free again whose socket was closed: it takes 2 ms
REBIND_PAUSE_S: Final = 0.001

FAILED_HANDSHAKES: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
HANDSHAKES: Final = FAILED_HANDSHAKES | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_CONNECT_RETRIED

NO_PEER: Final = b""

T = TypeVar("T")

PrefixesFor = Callable[[str, bytes], Collection[bytes]]
"""Returns the prefixes that are sent to the owner of a public key for one subscription.

Empty: the owner is sent nothing."""


class ReceivedFrame(NamedTuple):
    """One frame: from which socket, from whom (empty but on a ROUTER), and its bytes.

    From an XPUB it is a subscription: ``b"\\x01"`` and the prefix when a reader subscribes
    (once for each reader), ``b"\\x00"`` and the prefix when its last reader is gone; where readers
    are limited, when any reader of it is gone. ``public``: the key that the connection of a bound
    socket has proved to have; empty of a connected socket, and at the end of a subscription.
    """

    name: str
    peer: bytes
    frame: bytes
    public: str = ""


class Handshake(Enum):
    """The outcome of the last handshake of a connected socket, or why there is none."""

    NONE = "none yet"
    UNREACHED = "not reached: no connection could be made, or the last one was lost"
    DONE = "done"
    REFUSED = "refused: the other end does not admit our key"
    FAILED = "failed: the other end has another key than the one known here, or no keys"


@dataclass(slots=True)
class LinkCounts:
    """Counts of a link since it was made."""

    received: int = 0
    sent: int = 0
    refused: int = 0  # not sent: the peer is unknown, gone or full
    dropped: int = 0  # not delivered: another shape than the socket's
    # Handshakes at a bound socket that failed: no key, or a key that is not admitted.
    handshakes_failed: int = 0
    # When the last of them was refused, in monotonic seconds: a broken connection was not.
    handshake_failed_at: float | None = None
    handshake_failed_host: str = ""  # where that client is; empty: it sent no key
    revoked: int = 0  # not delivered, or shut down: the connection's key is not admitted any more

    def refused_handshake(self) -> RefusedHandshake | None:
        """Return when a handshake was refused last, and from where; None: none was."""
        at = self.handshake_failed_at
        if at is None:
            return None
        return RefusedHandshake(max(time.monotonic() - at, 0.0), self.handshake_failed_host)


@dataclass(slots=True)
class _Port:
    name: str
    type: SocketType
    socket: zmq.Socket[bytes]
    endpoint: str
    servers: tuple[str, ...] = ()  # public keys that the other end may have; the first is used
    prefixes: set[bytes] = field(default_factory=set)
    bytes_max: int = field(init=False)  # of a frame that is sent
    addressed: bool = field(init=False)  # whether its messages name a peer
    handshake: Handshake = Handshake.NONE  # if connected
    failures: int = 0  # handshakes that broke off since the last that did not
    frames_max: int = 0  # of those that have arrived; 0: the limit of its type
    early: list[bytes] = field(default_factory=list)  # sent while another key may be right
    prefixes_for: PrefixesFor | None = None  # of an XPUB; None: those that are requested
    subscribed: int = 0  # how many prefixes replaced the last subscription
    unaligned: bool = False  # a frame was no subscription: none is obeyed until all are read

    def __post_init__(self) -> None:
        self.bytes_max = SENT_BYTES_MAX.get(self.type, -1)
        self.addressed = self.type is SocketType.ROUTER


class Link:
    """The only door to ZeroMQ; use it from one thread, but for ``wake``.

    After a fork it belongs to the parent: in a child every call but ``close`` raises UsageError.
    """

    def __init__(self, pair: KeyPair) -> None:
        """Make a link whose sockets have the keys ``pair``; no peer is admitted to bound sockets.

        Raises:
            ConfigError: ZeroMQ was built without CURVE, or the two keys are not a pair.
        """
        check_pair(pair)
        self.counts = LinkCounts()
        self._pair = pair
        self._admitted = AdmittedKeys()
        self._connections = AcceptedConnections()
        self._gate: Gate | None = None  # from the first bound socket on
        self._again: dict[str, float] = {}  # names of sockets: when to connect anew
        self._pid = os.getpid()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, SOCKETS_MAX)
        self._selector = selectors.DefaultSelector()
        self._unread: dict[zmq.Socket[bytes], None] = {}
        """Sockets and monitors that may have something though their descriptor is not readable.

        ZeroMQ takes its signal back in whatever is called on a socket. So each is read after any
        other call, until nothing is found."""
        self._ports: dict[str, _Port] = {}  # open sockets by name
        self._by_socket: dict[zmq.Socket[bytes], _Port] = {}  # the same
        self._monitors: dict[object, zmq.Socket[bytes]] = {}  # by the socket that they are of
        self._monitored: dict[object, str] = {}  # by monitor: the name of its socket
        self._waker, self._woken = socket.socketpair()
        self._waker.settimeout(0)
        self._woken.settimeout(0)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._rests = select.poll()
        self._rests.register(self._woken, select.POLLIN)

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._context.closed

    def bind_router(self, name: str, address: str, *, setting: str = "") -> str:
        """Bind a ROUTER; port 0 takes any free port.

        ``setting``: which setting of the operator the port is of, for the error.

        Returns:
            The address as a number, with the port that was taken.

        Raises:
            LinkError: the address is taken, not valid, or not of this machine; says what to do.
        """
        return self._bind(name, SocketType.ROUTER, address, setting=setting)

    def bind_xpub(self, name: str, address: str, *, setting: str = "") -> str:
        """Bind an XPUB; else as ``bind_router``. A full reader loses, the others do not."""
        return self._bind(name, SocketType.XPUB, address, setting=setting)

    def limit(self, name: str, prefixes_for: PrefixesFor) -> None:
        """Send readers of the XPUB ``name`` other prefixes than those that they subscribe to.

        To be called before the first ``poll``, which calls ``prefixes_for``. What it returned holds
        until it is unsubscribed, or the connection ends.
        """
        port = self._port(name, SocketType.XPUB)
        self._unread[port.socket] = None
        port.socket.setsockopt(zmq.XPUB_MANUAL, 1)
        port.prefixes_for = prefixes_for

    def admit(self, name: str, publics: Collection[str]) -> None:
        """Admit these public keys to the bound socket ``name``, and no others.

        It may be bound later. Live connections of other keys are shut down.
        """
        self._check_usable()
        self._admitted.admit(name, publics)
        self.counts.revoked += self._connections.shut(self._admitted)

    def use(self, pair: KeyPair) -> None:
        """Use the keys ``pair`` from now on: bound sockets at once, others when they are made.

        Every connection of a bound socket ends, and is made again by its other end.

        Raises:
            ConfigError: the two keys are not a pair.
            LinkError: an address could not be bound again.
        """
        self._check_usable()
        check_pair(pair)
        self._pair = pair
        for port in self._ports.values():
            if not port.servers:
                self._rebind(port)

    def connect_dealer(self, name: str, address: str, server: str | tuple[str, ...]) -> None:
        """Connect a DEALER, now or whenever the other end comes; its public key is ``server``.

        With several, it has one of them: the next key is tried when a handshake breaks off. After
        each reconnection the ROUTER knows this end by another name; frames that were sent meanwhile
        are kept, up to the high-water mark.

        Raises:
            LinkError: ``address`` is not an address.
        """
        self._connect(name, SocketType.DEALER, address, server=server)

    def connect_xsub(
        self,
        name: str,
        address: str,
        server: str | tuple[str, ...],
        *,
        inbox_bytes: int = READ_BYTES_MAX,
    ) -> None:
        """Connect an XSUB; else as ``connect_dealer``.

        Subscriptions outlive reconnections: ``poll`` sends them again, so keep polling. While as
        many frames have arrived as fit ``inbox_bytes`` (``read_max``), the other end is held back.
        """
        frames_max = read_max(inbox_bytes)
        self._connect(name, SocketType.XSUB, address, server=server, frames_max=frames_max)

    def trust(self, name: str, servers: tuple[str, ...]) -> None:
        """Take these for the public keys that the other end of the connected ``name`` may have.

        A live connection is left as it is; they are tried when a connection has to be made again.
        """
        port = self._port(name)
        used = port.servers[0]
        port.servers = (used, *(one for one in servers if one != used))

    def handshake(self, name: str) -> Handshake:
        """Return how the last handshake of a connected socket ended, as far as ``poll`` saw."""
        return self._port(name).handshake

    def handshakes(self) -> dict[str, Handshake]:
        """Return the handshake of each socket, by name; that of a bound socket is NONE."""
        return {name: port.handshake for name, port in self._ports.items()}

    def disconnect(self, name: str) -> None:
        """Close the socket ``name``, bound or connected; what it had queued is gone.

        A bound port is free a moment later, at the latest when ``close`` has returned.
        """
        port = self._port(name)
        del self._ports[name]
        self._again.pop(name, None)
        self._release(port)

    def subscribe(self, name: str, prefix: bytes) -> None:
        """Receive on ``name`` what starts with ``prefix``; a second time changes nothing."""
        port = self._port(name, SocketType.XSUB)
        if prefix not in port.prefixes:
            port.prefixes.add(prefix)
            self._unread[port.socket] = None
            port.socket.send(b"\1" + prefix, zmq.NOBLOCK)

    def unsubscribe(self, name: str, prefix: bytes) -> None:
        """Receive on ``name`` no more what starts with ``prefix``, but for what has arrived."""
        port = self._port(name, SocketType.XSUB)
        if prefix in port.prefixes:
            port.prefixes.remove(prefix)
            self._unread[port.socket] = None
            port.socket.send(b"\0" + prefix, zmq.NOBLOCK)

    def poll(self, timeout_s: float) -> list[ReceivedFrame]:
        """Wait until something arrives, ``wake`` is called or ``timeout_s`` is over.

        Returns:
            What arrived, in order for each peer; at most ``BATCH_MAX`` parts of each socket, of
            ``BATCH_BYTES_MAX``, the rest at the next call. Empty after a timeout or a wake.
        """
        self._check_usable()
        if self._again:
            timeout_s = min(timeout_s, self._connect_again(time.monotonic()))
        until = time.monotonic() + min(max(timeout_s, 0.0), POLL_S_MAX)
        received: list[ReceivedFrame] = []
        unread = tuple(self._unread)
        is_done = self._read(unread, received)
        once = frozenset(unread if is_done else ())  # they have had their turn
        while True:
            left_s = 0.0 if is_done else max(until - time.monotonic(), 0.0)
            is_done |= not left_s
            ready = [key.fileobj for key, _ in self._selector.select(left_s)]
            if self._woken in ready:
                self._discard_wakes()
                is_done = True
            found = self._read((one for one in ready if one not in once), received)
            if found or is_done:  # else it was a signal about what was sent
                self.counts.received += len(received)
                return received

    def rest(self, timeout_s: float) -> None:
        """Let frames gather for ``timeout_s``, or until ``wake`` is called, for the next ``poll``.

        Under a flood of small frames most of the time goes into waking up for each.
        """
        self._check_usable()
        self._rests.poll(math.ceil(timeout_s * 1000))

    def send(self, name: str, frame: bytes, peer: bytes = NO_PEER) -> bool:
        """Queue ``frame`` now or not at all.

        Args:
            name: The socket; an XSUB sends nothing.
            frame: At most what the other end accepts (``sockets.SENT_BYTES_MAX``).
            peer: To whom, as received; on a ROUTER only.

        Returns:
            False when the queue is full or no peer has that name. True is not a receipt: it
            may be lost with the connection, and an XPUB drops for a full reader.
        """
        return self._put(self._port(name), frame, peer)

    def send_all(self, name: str, frames: Iterable[bytes]) -> None:
        """Queue ``frames`` in their order, each as ``send`` does; not on a ROUTER.

        In one go, so that ZeroMQ's thread finds several to write at once.
        """
        port = self._port(name)
        for frame in frames:
            self._put(port, frame, NO_PEER)

    def wake(self) -> None:
        """Make the present ``poll`` return, or else the next; from any thread, at any time."""
        self._check_process()
        try:
            self._waker.send(b"\0")
        except OSError:
            return  # full: it is being woken already; closed: there is nobody to wake

    def close(self) -> None:
        """Close every socket; in a forked child do nothing.

        What a DEALER has sent has ``GOODBYE_S`` to leave; other frames are dropped at once.
        """
        if self._pid != os.getpid() or self.closed:
            return
        while self._ports:
            _, port = self._ports.popitem()
            self._release(port, goodbye_s=GOODBYE_S if port.type is SocketType.DEALER else 0.0)
        if self._gate is not None:
            self._gate.close()
        self._selector.close()
        self._waker.close()
        self._woken.close()
        self._context.term()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise UsageError("this link belongs to the process that made it: make one after fork")

    def _check_usable(self) -> None:
        self._check_process()
        if self.closed:
            raise UsageError("this link is closed")

    def _port(self, name: str, kind: SocketType | None = None) -> _Port:
        port = self._ports.get(name)  # a closed link has none
        if port is None or self._pid != os.getpid():
            self._check_usable()
            raise UsageError(f"no socket is named {name!r}")
        if kind is not None and port.type is not kind:
            raise UsageError(f"{name} is {port.type.name}, not {kind.name}")
        return port

    def _bind(self, name: str, kind: SocketType, address: str, *, setting: str) -> str:
        endpoint = for_bind(address)
        made = self._open(name, kind, endpoint)
        if self._gate is None:
            self._gate = Gate(self._context, self._admitted)
        serve(made, name, self._pair)
        try:
            made.bind(endpoint)
            bound = made.getsockopt_string(zmq.LAST_ENDPOINT)
        except zmq.ZMQError as exc:
            made.close(linger=0)
            raise refusal(address, exc, setting) from exc
        bound = bound.rstrip("\0")
        self._adopt(_Port(name, kind, made, bound), FAILED_HANDSHAKES)
        return bound

    def _rebind(self, port: _Port) -> None:
        """Give the socket of ``port`` the link's keys: ZeroMQ takes them as it is bound."""
        self._unread[port.socket] = None
        port.socket.unbind(port.endpoint)
        port.socket.curve_secretkey = self._pair.secret.encode("ascii")
        until = time.monotonic() + REBIND_S
        while True:
            try:
                port.socket.bind(port.endpoint)
            except zmq.ZMQError as exc:
                if exc.errno != zmq.EADDRINUSE or time.monotonic() > until:
                    raise refusal(port.endpoint, exc) from exc
                time.sleep(REBIND_PAUSE_S)  # ZeroMQ's thread closes the former socket
            else:
                return

    def _connect(
        self,
        name: str,
        kind: SocketType,
        address: str,
        *,
        server: str | tuple[str, ...],
        frames_max: int = 0,
    ) -> None:
        servers = (server,) if isinstance(server, str) else server
        endpoint = checked(address)
        made = self._open(name, kind, endpoint)
        if frames_max:
            made.setsockopt(zmq.RCVHWM, frames_max)
        join(made, self._pair, servers[0])
        self._adopt(_Port(name, kind, made, endpoint, servers, frames_max=frames_max), HANDSHAKES)
        try:
            made.connect(endpoint)
        except zmq.ZMQError as exc:
            self.disconnect(name)
            raise refusal(address, exc) from exc

    def _open(self, name: str, kind: SocketType, address: str) -> zmq.Socket[bytes]:
        self._check_usable()
        if name in self._ports:
            raise UsageError(f"a socket is named {name!r} already")
        made = self._context.socket(kind.value)
        for option, value in OPTIONS[kind].items():
            made.setsockopt(option, value)
        made.setsockopt(zmq.IPV6, int(is_ipv6(address)))
        return made

    def _adopt(self, port: _Port, events: int) -> None:
        self._ports[port.name] = port
        self._by_socket[port.socket] = port
        monitor = self._monitors[port.socket] = port.socket.get_monitor_socket(events)
        self._monitored[monitor] = port.name
        for source in (port.socket, monitor):
            self._selector.register(source, selectors.EVENT_READ)
            self._unread[source] = None

    def _release(self, port: _Port, *, goodbye_s: float = 0.0) -> None:
        """Close the socket of ``port`` and its monitor; what it sent has ``goodbye_s`` to leave."""
        del self._by_socket[port.socket]
        monitor = self._monitors.pop(port.socket)
        del self._monitored[monitor]
        for source in (port.socket, monitor):
            self._selector.unregister(source)
            self._unread.pop(source, None)
        port.socket.disable_monitor()
        monitor.close(linger=0)
        port.socket.close(linger=int(goodbye_s * 1000))

    def _connect_again(self, now: float) -> float:
        """Connect anew to servers that refused our key, or may have another key than was tried.

        Return the seconds to the next attempt.
        """
        for name in [name for name, at in self._again.items() if now >= at]:
            old = self._ports[name]
            is_refused = old.handshake is Handshake.REFUSED
            servers = old.servers if is_refused else (*old.servers[1:], old.servers[0])
            self.disconnect(name)
            self._connect(name, old.type, old.endpoint, server=servers, frames_max=old.frames_max)
            new = self._ports[name]
            new.handshake, new.failures = old.handshake, old.failures  # until it is done
            for prefix in old.prefixes:
                self.subscribe(name, prefix)
            for frame in old.early:
                self._put(new, frame, NO_PEER)
        return min(self._again.values(), default=math.inf) - now

    def _put(self, port: _Port, frame: bytes, peer: bytes) -> bool:
        if len(frame) > port.bytes_max:
            text = f"{port.type.name} does not send {len(frame)} bytes at once"
            raise UsageError(f"{port.name}: {text}")
        if port.addressed is not bool(peer):
            raise UsageError(f"{port.name}: a peer is named to a ROUTER, and to no other")
        self._unread[port.socket] = None
        try:
            if peer:
                port.socket.send(peer, zmq.NOBLOCK | zmq.SNDMORE)
            port.socket.send(frame, zmq.NOBLOCK)
        except zmq.ZMQError as exc:
            if exc.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise refusal(port.name, exc) from exc
            self.counts.refused += 1
            return False
        if len(port.servers) > 1 and port.handshake is not Handshake.DONE:
            port.early.append(frame)
            del port.early[:-EARLY_MAX]
        self.counts.sent += 1
        return True

    def _read(self, sources: Iterable[object], into: list[ReceivedFrame]) -> bool:
        """Read what ``sources`` have, some of it; return whether there was anything."""
        found = False
        for source in sources:
            if not isinstance(source, zmq.Socket):
                continue  # the waker
            port = self._by_socket.get(source)
            found |= self._drain(port, into) if port is not None else self._read_monitor(source)
        return found

    def _drain(self, port: _Port, into: list[ReceivedFrame]) -> bool:
        self._unread[port.socket] = None
        if not port.servers:
            self._connections.begin_batch()
        size, number, left = 0, 0, BATCH_MAX // 2 if port.addressed else BATCH_MAX
        while left > 0 and size < BATCH_BYTES_MAX:
            try:
                message = self._take(port)
            except zmq.Again:
                port.unaligned = False
                del self._unread[port.socket]
                return number > 0
            except zmq.ZMQError as exc:
                raise refusal(port.name, exc) from exc
            number += 1
            left -= max(port.subscribed, 1)
            if message is not None:
                into.append(message)
                size += len(message.frame)
        return True

    def _take(self, port: _Port) -> ReceivedFrame | None:
        """Read one message; None if it has another shape than its type has, or is of no client."""
        if port.prefixes_for is not None:
            return self._take_subscription(port, port.prefixes_for)
        peer = port.socket.recv(zmq.NOBLOCK) if port.addressed else NO_PEER
        frame = port.socket.recv(zmq.NOBLOCK, copy=False)  # a ROUTER's message has two parts
        if frame.more:
            while port.socket.recv(zmq.NOBLOCK, copy=False).more:
                pass
            self.counts.dropped += 1
            return None
        content = frame.bytes
        if port.servers:
            return ReceivedFrame(port.name, peer, content)
        if not port.addressed and content[:1] not in (b"\0", b"\1"):
            self.counts.dropped += 1
            return None  # a peer may send user frames upstream: nothing of ours does
        if not port.addressed and content[:1] == b"\0":
            return ReceivedFrame(port.name, peer, content)  # of nobody: its connection may be gone
        public = str(frame.get(KEY_OF))
        is_its_own = self._connections.belongs(port.name, peer, public, frame=frame)
        if not self._admitted.admits(port.name, public):
            self._connections.shut(self._admitted)
            is_its_own = False
        if not is_its_own:
            self.counts.revoked += 1
            return None
        return ReceivedFrame(port.name, peer, content, public)

    def _take_subscription(self, port: _Port, prefixes_for: PrefixesFor) -> ReceivedFrame | None:
        """Read one subscription, and subscribe its reader to what it may be sent.

        libzmq 4.3.5 subscribes the reader whose subscription it takes for that which was read
        last. It counts wrongly behind a frame that is no subscription, until all frames are read:
        another reader would be subscribed. So until then each connection that a frame came on is
        shut; an honest reader connects again.
        """
        port.subscribed = 0
        frame = port.socket.recv(zmq.NOBLOCK, copy=False)
        content = frame.bytes
        begins, prefix = content[:1] == b"\1", content[1:]
        port.unaligned |= content[:1] not in (b"\0", b"\1")
        try:
            public = str(frame.get(KEY_OF))
        except zmq.ZMQError:  # a connection has ended, and with it what it subscribed to
            return ReceivedFrame(port.name, NO_PEER, content)
        self._connections.belongs(port.name, NO_PEER, public, frame=frame)
        if port.unaligned:
            self.counts.dropped += 1
            self._connections.shut_one(frame)
            return None
        if not self._admitted.admits(port.name, public):
            self.counts.revoked += 1 + self._connections.shut(self._admitted)
            return None
        prefixes = prefixes_for(public, prefix)
        port.subscribed = len(prefixes)
        for one in prefixes:
            port.socket.setsockopt(zmq.SUBSCRIBE if begins else zmq.UNSUBSCRIBE, one)
        return ReceivedFrame(port.name, NO_PEER, content, public if begins else "")

    def _read_monitor(self, monitor: zmq.Socket[bytes]) -> bool:
        self._unread[monitor] = None
        port = self._ports[self._monitored[monitor]]
        for number in range(BATCH_MAX):
            try:
                what, _ = monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                del self._unread[monitor]
                return number > 0
            self._on_handshake(port, int.from_bytes(what[:2], sys.byteorder))
        return True

    def _on_handshake(self, port: _Port, event: int) -> None:
        if not port.servers:
            self.counts.handshakes_failed += 1
            if event != zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:  # else the connection was lost
                self.counts.handshake_failed_at = time.monotonic()
                gate = self._gate if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH else None
                self.counts.handshake_failed_host = "" if gate is None else gate.refused_host
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            port.handshake, port.failures = Handshake.DONE, 0
            port.early.clear()
            self._again.pop(port.name, None)
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            port.handshake, port.failures = Handshake.REFUSED, 0
            self._again.setdefault(port.name, time.monotonic() + RETRY_S)
        elif event == zmq.EVENT_CONNECT_RETRIED:
            if port.handshake is not Handshake.FAILED:  # after which ZeroMQ tries again, too
                port.handshake = Handshake.UNREACHED
        else:
            port.failures += 1
            is_wrong = port.failures >= FAILURES_MIN * len(port.servers)
            port.handshake = Handshake.FAILED if is_wrong else Handshake.UNREACHED
            if len(port.servers) > 1:
                self._again.setdefault(port.name, time.monotonic() + RETRY_S * is_wrong)

    def _discard_wakes(self) -> None:
        try:
            self._woken.recv(WAKES_MAX)
        except BlockingIOError:
            return


class Inbox(Generic[T]):
    """Items from any thread to that which owns a link; none is lost from ``put`` to ``take``."""

    def __init__(self, wake: Callable[[], None], *, items_max: int = ITEMS_MAX) -> None:
        self._wake = wake
        self._items: Queue[T] = Queue(items_max)

    def put(self, item: T, *, timeout_s: float) -> None:
        """Hand ``item`` over and wake the owner; wait while the inbox is full.

        Raises:
            NotReady: it was still full after ``timeout_s``; the item was not taken.
            UsageError: the link belongs to another process.
        """
        self._wake()  # refuses in a forked child, where nobody would take the item
        try:
            self._items.put(item, timeout=max(timeout_s, 0.0))
        except Full as exc:
            waiting = self._items.maxsize
            raise NotReady(f"{waiting} calls are waiting after {timeout_s} s; try again") from exc
        self._wake()

    def take(self) -> list[T]:
        """Return what was put, oldest first, at most ``TAKEN_MAX``; wake again for the rest."""
        taken: list[T] = []
        try:
            while len(taken) < TAKEN_MAX:
                taken.append(self._items.get_nowait())
        except Empty:
            return taken
        self._wake()
        return taken
