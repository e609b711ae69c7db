"""Link: the sockets of one process, owned by one thread; frames in, frames out, none understood.

    bind_router ─┐                    ┌─ send: now or not at all (False)
    bind_publisher ─┤ poll ─▶ Received ─┤
    connect_… ───┘   ▲                └─ counts: what was carried, refused, dropped
                     └─ wake, from any thread: an Inbox does, for what it hands to the link's thread

Invariant: no call blocks but ``poll``, and ``poll`` takes at most ``BATCH_MAX`` messages of each
socket, of ``BATCH_BYTES_MAX``, so a flood on one delays what waits on another by one batch. A
message of another shape than its socket's is dropped and counted: ROUTER peer and frame, others one
frame, a PUBLISHER only subscriptions. Every socket has keys: no frame is delivered of a key that is
not admitted. A server that refuses our key is asked again each ``RETRY_S``, on a new socket: ZeroMQ
gives up.
"""

import math
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from queue import Empty, Full, Queue
from typing import Final, Generic, NamedTuple, TypeVar

import zmq

from ..errors import NotReady, UsageError
from ..keys.credential import KeyPair
from .curve import KEY_OF, Admission, Connections, Gate, check_pair, join, serve
from .endpoints import checked, for_bind, is_ipv6, refusal
from .sockets import OPTIONS, READ_BYTES_MAX, SENT_BYTES_MAX, Role, read_max

BATCH_MAX: Final = 200  # messages of one socket a turn: under 2 ms of reading at 1 KB
BATCH_BYTES_MAX: Final = 1 << 20  # and their bytes, but for the last one
POLL_S_MAX: Final = 3600.0  # the longest sleep: infinite deadlines end here, and poll counts in int
WAKES_MAX: Final = 4096  # wakes read at once; more than one means the same as one

ITEMS_MAX: Final = 1000  # calls of an application's threads that wait at once
TAKEN_MAX: Final = 200  # one turn's share, as of each socket

SOCKETS_MAX: Final = 4095  # of ZeroMQ; one of ours counts as three, with both ends of its monitor
RETRY_S: Final = 0.5  # until a server that refused our key is asked again: it may be added

STRANGERS: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
HANDSHAKES: Final = STRANGERS | zmq.EVENT_HANDSHAKE_SUCCEEDED

NO_PEER: Final = b""

T = TypeVar("T")


class Received(NamedTuple):
    """One frame: from which socket, from whom (empty but on a ROUTER), and its bytes.

    From a PUBLISHER it is a subscription: ``b"\\x01"`` and the prefix when a reader subscribes
    (once for each reader), ``b"\\x00"`` and the prefix when its last reader is gone. ``public``:
    the key that the connection of a bound socket has proved to have; empty of a connected one.
    """

    name: str
    peer: bytes
    frame: bytes
    public: str = ""


class Handshake(Enum):
    """How the last handshake of a connected socket ended."""

    NONE = "none yet"
    DONE = "done"
    REFUSED = "refused: the other end does not admit our key"
    FAILED = "failed: the other end has another key than we were told, or no keys"


@dataclass(slots=True)
class LinkCounts:
    """What a link has done since it was made."""

    received: int = 0
    sent: int = 0
    refused: int = 0  # not sent: the peer is unknown, gone or full
    dropped: int = 0  # not delivered: another shape than the socket's
    strangers: int = 0  # handshakes at a bound socket that failed: no key, or one not admitted
    revoked: int = 0  # not delivered, or shut down: the connection's key is not admitted any more


@dataclass(slots=True)
class _Port:
    name: str
    role: Role
    socket: zmq.Socket[bytes]
    prefixes: set[bytes]
    bytes_max: int  # of a frame that is sent
    addressed: bool  # whether its messages name a peer
    endpoint: str
    server: str  # the public key of the other end; empty if bound
    handshake: Handshake = Handshake.NONE  # if connected
    frames_max: int = 0  # that have arrived; 0: as its role has it


class Link:
    """The only door to ZeroMQ; use it from one thread, but for ``wake``.

    After a fork it belongs to the parent: in a child every call but ``close`` raises UsageError.
    """

    def __init__(self, pair: KeyPair, io_threads: int = 1) -> None:
        """Make a link whose sockets have the keys ``pair``; nobody is admitted to bound ones yet.

        Raises:
            ConfigError: ZeroMQ was built without CURVE, or the two keys are no pair.
        """
        check_pair(pair)
        self.counts = LinkCounts()
        self._pair = pair
        self._admission = Admission()
        self._connections = Connections()
        self._gate: Gate | None = None  # from the first bound socket on
        self._refused: dict[str, float] = {}  # names of sockets: when to ask the server again
        self._pid = os.getpid()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads)
        self._context.set(zmq.MAX_SOCKETS, SOCKETS_MAX)
        self._poller = zmq.Poller()
        self._ports: dict[str, _Port] = {}
        self._by_socket: dict[object, _Port] = {}
        self._monitors: dict[object, zmq.Socket[bytes]] = {}  # by the socket that they are of
        self._monitored: dict[object, str] = {}  # by monitor: the name of its socket
        self._waker, self._woken = socket.socketpair()
        self._waker.settimeout(0)
        self._woken.settimeout(0)
        self._poller.register(self._woken, zmq.POLLIN)
        self._rests = select.poll()
        self._rests.register(self._woken, select.POLLIN)

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._context.closed

    def bind_router(self, name: str, address: str) -> str:
        """Bind a ROUTER; port 0 takes any free one.

        Returns:
            The address that others connect to, with the port that was taken.

        Raises:
            LinkError: the address is taken, not of this machine, or no address; says what to do.
        """
        return self._bind(name, Role.ROUTER, address)

    def bind_publisher(self, name: str, address: str) -> str:
        """Bind a PUBLISHER; else as ``bind_router``. A full reader loses, the others do not."""
        return self._bind(name, Role.PUBLISHER, address)

    def admit(self, name: str, publics: Collection[str]) -> None:
        """Admit these public keys to the bound socket ``name``, and no others.

        It may be bound later. Live connections of other keys are shut down.
        """
        self._check_usable()
        self._admission.admit(name, publics)
        self.counts.revoked += self._connections.shut(self._admission)

    def connect_dealer(self, name: str, address: str, server: str) -> None:
        """Connect a DEALER, now or whenever the other end comes; it has the public key ``server``.

        After each reconnection the ROUTER knows this end by another name; frames that were sent
        meanwhile are kept, up to the high-water mark.

        Raises:
            LinkError: ``address`` is no address.
        """
        self._connect(name, Role.DEALER, address, server=server)

    def connect_subscriber(
        self, name: str, address: str, server: str, *, inbox_bytes: int = READ_BYTES_MAX
    ) -> None:
        """Connect a SUBSCRIBER; else as ``connect_dealer``.

        Subscriptions outlive reconnections: ``poll`` sends them again, so keep polling. While as
        many frames have arrived as fit ``inbox_bytes`` (``read_max``), the other end is held back.
        """
        frames_max = read_max(inbox_bytes)
        self._connect(name, Role.SUBSCRIBER, address, server=server, frames_max=frames_max)

    def handshake(self, name: str) -> Handshake:
        """Return how the last handshake of a connected socket ended, as far as ``poll`` saw."""
        return self._port(name).handshake

    def disconnect(self, name: str) -> None:
        """Close the socket ``name``, bound or connected; what it had queued is gone.

        A bound port is free a moment later, at the latest when ``close`` has returned.
        """
        port = self._port(name)
        del self._ports[name]
        self._refused.pop(name, None)
        self._release(port)

    def subscribe(self, name: str, prefix: bytes) -> None:
        """Receive on ``name`` what starts with ``prefix``; a second time changes nothing."""
        port = self._port(name, Role.SUBSCRIBER)
        if prefix not in port.prefixes:
            port.prefixes.add(prefix)
            port.socket.send(b"\1" + prefix, zmq.NOBLOCK)

    def unsubscribe(self, name: str, prefix: bytes) -> None:
        """Receive it no more; what has already arrived is still delivered."""
        port = self._port(name, Role.SUBSCRIBER)
        if prefix in port.prefixes:
            port.prefixes.remove(prefix)
            port.socket.send(b"\0" + prefix, zmq.NOBLOCK)

    def poll(self, timeout_s: float) -> list[Received]:
        """Wait until something arrives, ``wake`` is called or ``timeout_s`` is over.

        Returns:
            What arrived, in order for each peer; at most ``BATCH_MAX`` of each socket, of
            ``BATCH_BYTES_MAX``, the rest at the next call. Empty after a timeout or a wake.
        """
        self._check_usable()
        if self._refused:
            timeout_s = min(timeout_s, self._ask_again(time.monotonic()))
        timeout_ms = math.ceil(min(max(timeout_s, 0.0), POLL_S_MAX) * 1000)
        received: list[Received] = []
        for ready, _ in self._poller.poll(timeout_ms):
            port = self._by_socket.get(ready)
            if port is not None:
                self._drain(port, received)
            elif isinstance(ready, zmq.Socket):
                self._read_monitor(ready)
            else:
                self._discard_wakes()
        self.counts.received += len(received)
        return received

    def rest(self, timeout_s: float) -> None:
        """Let frames gather for so long, or until ``wake`` is called; the next ``poll`` has them.

        Under a flood of small frames most of the time goes into waking up for each.
        """
        self._check_usable()
        self._rests.poll(math.ceil(timeout_s * 1000))

    def send(self, name: str, frame: bytes, peer: bytes = NO_PEER) -> bool:
        """Queue ``frame`` now or not at all.

        Args:
            name: The socket; a SUBSCRIBER sends nothing.
            frame: At most what the other end accepts (``sockets.SENT_BYTES_MAX``).
            peer: To whom, as received; on a ROUTER only.

        Returns:
            False when the queue is full or nobody of that name is there. True is no receipt: it
            may be lost with the connection, and a PUBLISHER drops for a full reader.
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
        """Make ``poll`` return, the one under way or the next; from any thread, at any time."""
        self._check_process()
        try:
            self._waker.send(b"\0")
        except OSError:
            return  # full: it is being woken already; closed: there is nobody to wake

    def close(self) -> None:
        """Close every socket at once, unsent frames with them; in a forked child do nothing."""
        if self._pid != os.getpid() or self.closed:
            return
        for name in tuple(self._ports):
            self.disconnect(name)
        if self._gate is not None:
            self._gate.close()
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

    def _port(self, name: str, role: Role | None = None) -> _Port:
        port = self._ports.get(name)  # a closed link has none
        if port is None or self._pid != os.getpid():
            self._check_usable()
            raise UsageError(f"no socket is named {name!r}")
        if role is not None and port.role is not role:
            raise UsageError(f"{name} is a {port.role.name}, not a {role.name}")
        return port

    def _bind(self, name: str, role: Role, address: str) -> str:
        endpoint = for_bind(address)
        made = self._open(name, role, endpoint)
        if self._gate is None:
            self._gate = Gate(self._context, self._admission)
        self._gate.open(name)
        serve(made, name, self._pair)
        try:
            made.bind(endpoint)
            bound = made.getsockopt_string(zmq.LAST_ENDPOINT)
        except zmq.ZMQError as exc:
            made.close(linger=0)
            raise refusal(address, exc) from exc
        self._adopt(_port_of(name, role, made, endpoint=endpoint, server=""), STRANGERS)
        return bound.rstrip("\0")

    def _connect(
        self, name: str, role: Role, address: str, *, server: str, frames_max: int = 0
    ) -> None:
        endpoint = checked(address)
        made = self._open(name, role, endpoint)
        if frames_max:
            made.setsockopt(zmq.RCVHWM, frames_max)
        join(made, self._pair, server)
        self._adopt(_port_of(name, role, made, endpoint=endpoint, server=server), HANDSHAKES)
        self._ports[name].frames_max = frames_max
        try:
            made.connect(endpoint)
        except zmq.ZMQError as exc:
            self.disconnect(name)
            raise refusal(address, exc) from exc

    def _open(self, name: str, role: Role, address: str) -> zmq.Socket[bytes]:
        self._check_usable()
        if name in self._ports:
            raise UsageError(f"a socket is named {name!r} already")
        made = self._context.socket(role.value)
        for option, value in OPTIONS[role].items():
            made.setsockopt(option, value)
        made.setsockopt(zmq.IPV6, int(is_ipv6(address)))
        return made

    def _adopt(self, port: _Port, events: int) -> None:
        self._ports[port.name] = port
        self._by_socket[port.socket] = port
        self._poller.register(port.socket, zmq.POLLIN)
        monitor = self._monitors[port.socket] = port.socket.get_monitor_socket(events)
        self._monitored[monitor] = port.name
        self._poller.register(monitor, zmq.POLLIN)

    def _release(self, port: _Port) -> None:
        """Close the socket of ``port`` and its monitor."""
        del self._by_socket[port.socket]
        self._poller.unregister(port.socket)
        monitor = self._monitors.pop(port.socket)
        del self._monitored[monitor]
        self._poller.unregister(monitor)
        port.socket.disable_monitor()
        monitor.close(linger=0)
        port.socket.close(linger=0)

    def _ask_again(self, now: float) -> float:
        """Connect anew to servers that refused our key; return the seconds to the next one."""
        for name in [name for name, at in self._refused.items() if now >= at]:
            old = self._ports[name]
            self.disconnect(name)
            self._connect(
                name, old.role, old.endpoint, server=old.server, frames_max=old.frames_max
            )
            self._ports[name].handshake = Handshake.REFUSED  # until it is done
            for prefix in old.prefixes:
                self.subscribe(name, prefix)
        return min(self._refused.values(), default=math.inf) - now

    def _put(self, port: _Port, frame: bytes, peer: bytes) -> bool:
        if len(frame) > port.bytes_max:
            text = f"a {port.role.name} does not send {len(frame)} bytes at once"
            raise UsageError(f"{port.name}: {text}")
        if port.addressed is not bool(peer):
            raise UsageError(f"{port.name}: a peer is named to a ROUTER, and to no other")
        try:
            if peer:
                port.socket.send(peer, zmq.NOBLOCK | zmq.SNDMORE)
            port.socket.send(frame, zmq.NOBLOCK)
        except zmq.ZMQError as exc:
            if exc.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise refusal(port.name, exc) from exc
            self.counts.refused += 1
            return False
        self.counts.sent += 1
        return True

    def _drain(self, port: _Port, into: list[Received]) -> None:
        size = 0
        for _ in range(BATCH_MAX):
            if size >= BATCH_BYTES_MAX:
                return
            try:
                message = self._take(port)
            except zmq.Again:
                return
            except zmq.ZMQError as exc:
                raise refusal(port.name, exc) from exc
            if message is not None:
                into.append(message)
                size += len(message.frame)

    def _take(self, port: _Port) -> Received | None:
        """Read one message; None if it has another shape than its role's, or is of no client."""
        peer = port.socket.recv(zmq.NOBLOCK) if port.addressed else NO_PEER
        frame = port.socket.recv(zmq.NOBLOCK, copy=False)  # a ROUTER's message has two parts
        if frame.more:
            while port.socket.recv(zmq.NOBLOCK, copy=False).more:
                pass
            self.counts.dropped += 1
            return None
        content = frame.bytes
        if port.server:
            return Received(port.name, peer, content)
        if not port.addressed and content[:1] not in (b"\0", b"\1"):
            self.counts.dropped += 1
            return None  # a peer may send user frames upstream: nothing of ours does
        if not port.addressed and content[:1] == b"\0":
            return Received(port.name, peer, content)  # of nobody: its connection may be gone
        public = str(frame.get(KEY_OF))
        is_its_own = self._connections.belongs(port.name, peer, public, frame=frame)
        if not self._admission.admits(port.name, public):
            self._connections.shut(self._admission)
            is_its_own = False
        if not is_its_own:
            self.counts.revoked += 1
            return None
        return Received(port.name, peer, content, public)

    def _read_monitor(self, monitor: zmq.Socket[bytes]) -> None:
        port = self._ports[self._monitored[monitor]]
        for _ in range(BATCH_MAX):
            try:
                what, _ = monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._on_handshake(port, int.from_bytes(what[:2], sys.byteorder))

    def _on_handshake(self, port: _Port, event: int) -> None:
        if not port.server:
            self.counts.strangers += 1
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            port.handshake = Handshake.DONE
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            port.handshake = Handshake.REFUSED
            self._refused.setdefault(port.name, time.monotonic() + RETRY_S)
        else:
            port.handshake = Handshake.FAILED

    def _discard_wakes(self) -> None:
        try:
            self._woken.recv(WAKES_MAX)
        except BlockingIOError:
            return


def _port_of(
    name: str, role: Role, made: zmq.Socket[bytes], *, endpoint: str, server: str
) -> _Port:
    return _Port(
        name=name,
        role=role,
        socket=made,
        prefixes=set(),
        bytes_max=SENT_BYTES_MAX.get(role, -1),
        addressed=role is Role.ROUTER,
        endpoint=endpoint,
        server=server,
    )


class Inbox(Generic[T]):
    """Items from any thread to the one that owns a link; none is lost from ``put`` to ``take``."""

    def __init__(self, wake: Callable[[], None], *, items_max: int = ITEMS_MAX) -> None:
        self._wake = wake
        self._items: Queue[T] = Queue(items_max)

    def put(self, item: T, *, timeout_s: float) -> None:
        """Hand ``item`` over and wake the owner; wait while the inbox is full.

        Raises:
            NotReady: it was still full after ``timeout_s``; the item was not taken.
            UsageError: the link belongs to another process.
        """
        self._wake()  # refuses in a forked child, before anything is handed over to nobody
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
