"""Curve: the keys of sockets, and the keys that are admitted to bound sockets.

    a connection ──its public key──▶ Gate (a thread) ──▶ AdmittedKeys: yes or no
    later, each frame of it carries the same key, as its User-Id

ZeroMQ requests an answer at the handshake only. So connections of keys that are no longer admitted
are also shut down: a connection is known by the descriptor of its first frame, and by the inode
behind it, because the system may have given the descriptor to another socket since.
"""

import hashlib
import os
import socket
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import zmq
from zmq.utils import z85

from ..errors import ConfigError
from ..keys.credential import KeyPair

KEY_BYTES: Final = 32
KEY_OF: Final = "User-Id"  # what frames have of the verdict: the connection's public key
ZAP_ADDRESS: Final = "inproc://zeromq.zap.01"


def new_pair() -> KeyPair:
    """Draw a key pair; raises ConfigError if ZeroMQ was built without CURVE."""
    _check_available()
    public, secret = zmq.curve_keypair()
    return KeyPair(public=public.decode("ascii"), secret=secret.decode("ascii"))


def derived_pair(pair: KeyPair, purpose: bytes) -> KeyPair:
    """Return the pair for ``purpose``, always the same; ``pair`` cannot be computed from it."""
    _check_available()
    own = hashlib.blake2b(purpose, key=pair.secret.encode("ascii"), digest_size=KEY_BYTES)
    secret = z85.encode(own.digest())
    return KeyPair(
        public=zmq.curve_public(secret).decode("ascii"), secret=bytes(secret).decode("ascii")
    )


def check_pair(pair: KeyPair) -> None:
    """Raise ConfigError unless the public key belongs to the secret key."""
    _check_available()
    try:
        public = zmq.curve_public(pair.secret.encode("ascii"))
    except zmq.ZMQError:
        public = b""
    if public.decode("ascii") != pair.public:
        raise ConfigError("public", pair.public, "the public key that belongs to the secret one")


def serve(made: "zmq.Socket[bytes]", name: str, pair: KeyPair) -> None:
    """Make ``made``, to be bound, accept only keys that AdmittedKeys has for ``name``."""
    made.curve_server = True
    made.curve_secretkey = pair.secret.encode("ascii")
    made.zap_domain = name.encode("utf-8")


def join(made: "zmq.Socket[bytes]", pair: KeyPair, server: str) -> None:
    """Let ``made``, which will be connected, speak to the owner of the public key ``server``."""
    made.curve_publickey = pair.public.encode("ascii")
    made.curve_secretkey = pair.secret.encode("ascii")
    made.curve_serverkey = server.encode("ascii")


class AdmittedKeys:
    """The public keys that are admitted to each bound socket; at first none.

    One thread changes it; any thread may call ``admits``.
    """

    def __init__(self) -> None:
        self._admitted: dict[str, frozenset[str]] = {}  # by socket; sets are swapped as a whole

    def admit(self, name: str, publics: Collection[str]) -> None:
        """Admit these keys to the socket ``name``, and no others."""
        self._admitted[name] = frozenset(publics)

    def admits(self, name: str, public: str) -> bool:
        """Return whether ``public`` is admitted to the socket ``name``."""
        return public in self._admitted.get(name, ())


class Gate:
    """Answers ZeroMQ's requests at each handshake of a context's bound sockets, until ``close``.

    ZAP 1.0 (ZeroMQ's RFC 27): libzmq sends the socket's domain and the key, and waits. pyzmq's own
    authenticator took 0.4 ms for each answer, of the time of a hub to which all drivers come back.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", admitted: AdmittedKeys) -> None:
        self.refused_host = ""  # where the client is that was refused last; any thread reads it
        self._admitted = admitted
        self._requests = context.socket(zmq.REP)
        self._requests.linger = 0
        self._requests.bind(ZAP_ADDRESS)
        self._end = context.socket(zmq.REQ)
        self._end.linger = 0
        self._end.connect(ZAP_ADDRESS)
        self._thread = threading.Thread(target=self._answer, name="topicast-keys", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._end.send(b"")
        self._thread.join()
        self._end.close()

    def _answer(self) -> None:
        while len(parts := self._requests.recv_multipart()) > 1:
            version, request, domain, address, _, mechanism, *credentials = parts
            public = z85.encode(credentials[0]) if mechanism == b"CURVE" else b""
            admits = self._admitted.admits(domain.decode("utf-8"), public.decode("ascii"))
            verdict = (b"200", b"OK", public) if admits else (b"400", b"no client", b"")
            if not admits:
                self.refused_host = address.decode("ascii", "replace")
            self._requests.send_multipart((version, request, *verdict, b""))
        self._requests.close()


@dataclass(frozen=True, slots=True)
class AcceptedConnection:
    """A live connection to a bound socket; ``peer`` is empty unless that is a ROUTER."""

    name: str
    peer: bytes
    public: str
    inode: int  # of the descriptor, when its first frame was read


class AcceptedConnections:
    """The connections that frames have come from, by descriptor: at most as many as are open."""

    def __init__(self) -> None:
        self._by_descriptor: dict[int, AcceptedConnection] = {}  # perhaps closed by now
        self._keys: dict[tuple[str, bytes], str] = {}  # of a ROUTER's peers
        self._last: tuple[str, str, int] | None = None
        """Socket, key and descriptor of the frame before, if it was of the same batch."""

    def begin_batch(self) -> None:
        """Note connections again: since the frame before, another may have their descriptors."""
        self._last = None

    def belongs(self, name: str, peer: bytes, public: str, *, frame: zmq.Frame) -> bool:
        """Note who sent ``frame``; False if ``peer`` is the name of another key's connection."""
        known = self._keys.get((name, peer))
        if known is None:
            descriptor = int(frame.get(zmq.SRCFD))
            if peer or (name, public, descriptor) != self._last:  # a reader subscribes to hundreds
                self._note(name, peer, public, descriptor=descriptor)
                self._last = name, public, descriptor
        return known in (None, public)

    def shut_one(self, frame: zmq.Frame) -> None:
        """End the connection of ``frame``, which ``belongs`` has noted, unless it has ended."""
        descriptor = int(frame.get(zmq.SRCFD))
        one = self._by_descriptor.get(descriptor)
        self._discard(descriptor)
        if one is not None:
            _shut(descriptor, one.inode)

    def shut(self, admitted: AdmittedKeys) -> int:
        """End every connection whose key is not admitted any more; return how many."""
        gone = {
            descriptor: one
            for descriptor, one in self._by_descriptor.items()
            if not admitted.admits(one.name, one.public)
        }
        for descriptor in gone:
            self._discard(descriptor)
        return sum(_shut(descriptor, one.inode) for descriptor, one in gone.items())

    def _note(self, name: str, peer: bytes, public: str, *, descriptor: int) -> None:
        self._discard(descriptor)  # its former connection is gone
        try:
            inode = os.fstat(descriptor).st_ino
        except OSError:
            return  # gone already
        self._by_descriptor[descriptor] = AcceptedConnection(name, peer, public, inode)
        if peer:
            self._keys[name, peer] = public

    def _discard(self, descriptor: int) -> None:
        self._last = None
        one = self._by_descriptor.pop(descriptor, None)
        if one is not None and one.peer:
            self._keys.pop((one.name, one.peer), None)


def _shut(descriptor: int, inode: int) -> bool:
    """Shut a connection down, unless its descriptor is another's by now; ZeroMQ closes it."""
    try:
        copy = os.dup(descriptor)  # from here on it cannot become another's
    except OSError:
        return False
    try:
        with socket.socket(fileno=copy) as one:
            if os.fstat(copy).st_ino != inode:
                return False
            one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False  # closed by the other end, or no socket
    return True


def _check_available() -> None:
    if not zmq.has("curve"):
        allowed = "one built with CURVE, as the wheels of pyzmq are: pip install pyzmq"
        raise ConfigError("libzmq", zmq.zmq_version(), allowed)
