"""Sasl: the login of a connection to the metastore, and the frames that follow it.

    START, mechanism ─▶ ┐
    OK, a token ──────▶ │ until the metastore says COMPLETE; then requests and replies are frames:
    ◀─ OK, a challenge  ┘ 4 bytes of length, and the bytes, which Kerberos may have encrypted

The messages are those of Hive's own client, over Thrift's TSaslTransport. This module reads and
writes no socket.
"""

import struct
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from ...topics.errors import ConfigError

MESSAGE_BYTES_MAX: Final = 1 << 20  # of a negotiation; a ticket with a user's groups has 64 KB
MESSAGE: Final = struct.Struct("!BI")  # status, and length of what follows
LENGTH: Final = struct.Struct("!I")
START: Final = 1
OK: Final = 2
COMPLETE: Final = 5
REFUSALS: Final = {3: "refused", 4: "failed"}
HOST: Final = "_HOST"  # in a principal: the name by which the server is reached

# What RFC 4752 calls security layers, and the bytes of a frame that we take with a layer.
PLAIN_LAYER: Final = 1
SIGNED_LAYER: Final = 2
ENCRYPTED_LAYER: Final = 4
LAYER: Final = struct.Struct("!I")  # layers in the first byte, the bytes of a frame in three
FRAME_BYTES_TAKEN: Final = 0xFFFFFF


class Exchange(Protocol):
    """One connection's side of a mechanism."""

    wraps: bool  # whether frames are signed or encrypted

    def is_complete(self) -> bool:
        """Return whether this side has nothing more to say."""
        ...

    def step(self, challenge: bytes, /) -> bytes:
        """Return what is sent next, after ``challenge``; at first it is empty.

        Raises:
            OSError: this side cannot go on; says why.
        """
        ...

    def wrap(self, request: bytes) -> list[bytes]:
        """Return the contents of the frames that carry ``request``."""
        ...

    def unwrap(self, content: bytes) -> bytes:
        """Return what a frame carries; raises OSError if it was changed on its way."""
        ...


class Login(Protocol):
    """Who this client is; each connection begins an exchange."""

    @property
    def mechanism(self) -> str:
        """The name that SASL has for it."""
        ...

    def begin(self, host: str, /) -> Exchange:
        """Return the exchange of a connection to ``host``."""
        ...


def negotiation(login: Login, host: str) -> Generator[bytes | int, bytes, Exchange]:
    """Authenticate the client to the server, and return how both then exchange messages.

    The generator does no I/O: it yields bytes to send, or the number of bytes to read; the caller
    sends the bytes that were read into it.

    Raises:
        ConnectionRefusedError: either side does not accept the other; says why.
    """
    exchange = login.begin(host)
    token = exchange.step(b"")
    yield _message(START, login.mechanism.encode("ascii"))
    yield _message(COMPLETE if exchange.is_complete() else OK, token)
    while True:
        status, size = MESSAGE.unpack((yield MESSAGE.size))
        if status not in (OK, COMPLETE, *REFUSALS) or size > MESSAGE_BYTES_MAX:
            raise ConnectionRefusedError(f"it does not speak SASL, which {login.mechanism} needs")
        content = (yield size) if size else b""
        if status in REFUSALS:
            text = content.decode("utf-8", "replace") or "no reason given"
            raise ConnectionRefusedError(f"{login.mechanism} {REFUSALS[status]}: {text}")
        if not exchange.is_complete():
            token = exchange.step(content)
            if status == OK:
                yield _message(COMPLETE if exchange.is_complete() else OK, token)
        if status == COMPLETE:
            break
    if not exchange.is_complete():
        raise ConnectionRefusedError(f"{login.mechanism}: the metastore ended it halfway")
    return exchange


def _message(status: int, content: bytes) -> bytes:
    return MESSAGE.pack(status, len(content)) + content


class Frames:
    """Requests and replies as frames, after a negotiation."""

    def __init__(self, exchange: Exchange, *, frame_bytes_max: int) -> None:
        """Take frames of at most ``frame_bytes_max`` if they are signed or encrypted."""
        self._exchange = exchange
        self._frame_bytes_max = frame_bytes_max
        self._arrived = bytearray()
        self._left = 0  # bytes of the frame under way that are still to come

    def sent(self, request: bytes) -> bytes:
        """Return the frames that carry ``request``."""
        contents = self._exchange.wrap(request)
        return b"".join(part for one in contents for part in (LENGTH.pack(len(one)), one))

    def received(self, chunk: bytes) -> bytes:
        """Return what can be read after ``chunk``; empty until a signed frame is whole.

        Raises:
            OSError: a frame is too long, or was changed on its way.
        """
        self._arrived += chunk
        found = []
        while True:
            if not self._left:
                if len(self._arrived) < LENGTH.size:
                    break
                (self._left,) = LENGTH.unpack_from(self._arrived)
                del self._arrived[: LENGTH.size]
                if self._exchange.wraps and self._left > self._frame_bytes_max:
                    raise ConnectionAbortedError(f"a frame of {self._left} bytes")
            elif self._arrived and (not self._exchange.wraps or len(self._arrived) >= self._left):
                content = bytes(self._arrived[: self._left])
                del self._arrived[: self._left]
                self._left -= len(content)
                found.append(self._exchange.unwrap(content))
            else:
                break
        return b"".join(found)


@dataclass(frozen=True, slots=True)
class Plain:
    """A user and a password, which the metastore can read: PLAIN. Use it with TLS."""

    user: str
    password: str = field(repr=False)
    mechanism: str = field(default="PLAIN", init=False)

    def begin(self, _host: str, /) -> Exchange:
        """Return the exchange of a connection."""
        return _PlainExchange(f"\0{self.user}\0{self.password}".encode())


class _PlainExchange:
    """One message says it all, and frames are as they are."""

    def __init__(self, token: bytes) -> None:
        self.wraps = False
        self._token = token

    def is_complete(self) -> bool:
        return not self._token

    def step(self, _challenge: bytes, /) -> bytes:
        token, self._token = self._token, b""
        return token

    def wrap(self, request: bytes) -> list[bytes]:
        return [request]

    def unwrap(self, content: bytes) -> bytes:
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class Kerberos:
    """A principal with a keytab, or with the tickets that are in the user's cache.

    ``server``: the metastore's principal, such as ``hive/_HOST@EXAMPLE.COM``. With a keytab new
    tickets are requested when the old have expired; a cache is read anew for each connection.
    """

    server: str
    principal: str = ""  # empty: the first of the keytab, or the cache's
    keytab: Path | None = None
    mechanism: str = field(default="GSSAPI", init=False)

    def begin(self, host: str, /) -> Exchange:
        """Return the exchange of a connection to ``host``."""
        gssapi = load_gssapi()
        server = self.server.replace(HOST, host.lower())
        try:
            return _KerberosExchange(gssapi, self._context(gssapi, server), server=server)
        except gssapi.exceptions.GSSError as exc:
            mine = self.principal or "anybody"
            source = f"keytab {self.keytab}" if self.keytab else "ticket cache of this user"
            raise _refused(exc, f"{mine} by the {source}") from exc

    def _context(self, gssapi: Any, server: str) -> Any:
        principal = gssapi.NameType.kerberos_principal
        store = None
        if self.keytab is not None:
            cache = f"MEMORY:{self.keytab}:{self.principal}"
            store = {"client_keytab": f"FILE:{self.keytab}", "ccache": cache}
        mine = gssapi.Name(self.principal, principal) if self.principal else None
        flags = gssapi.RequirementFlag
        return gssapi.SecurityContext(
            name=gssapi.Name(server, principal),
            creds=gssapi.Credentials(name=mine, usage="initiate", store=store),
            mech=gssapi.MechType.kerberos,
            flags=flags.mutual_authentication | flags.integrity | flags.confidentiality,
            usage="initiate",
        )


class _KerberosExchange:
    """GSSAPI as RFC 4752 has it: first the context, then the layer."""

    def __init__(self, gssapi: Any, context: Any, *, server: str) -> None:
        self.wraps = False
        self._error = gssapi.exceptions.GSSError
        self._context = context
        self._server = server
        self._has_chosen = False
        self._encrypts = False
        self._request_bytes_max = 0  # of a frame

    def is_complete(self) -> bool:
        return self._has_chosen

    def step(self, challenge: bytes, /) -> bytes:
        try:
            if not self._context.complete:
                return self._context.step(challenge or None) or b""
            return self._choose(self._context.unwrap(challenge).message)
        except self._error as exc:
            raise _refused(exc, f"a ticket for {self._server}") from exc

    def _choose(self, offer: bytes) -> bytes:
        """Answer which layers the server has with the best of them."""
        if len(offer) != LAYER.size:
            raise ConnectionRefusedError("GSSAPI: the metastore offers no layers")
        (word,) = LAYER.unpack(offer)
        layers, frame_bytes = word >> 24, word & FRAME_BYTES_TAKEN
        known = (ENCRYPTED_LAYER, SIGNED_LAYER, PLAIN_LAYER)
        layer = next((one for one in known if one & layers), 0)
        if not layer:
            raise ConnectionRefusedError(f"GSSAPI: the metastore offers the layers {layers}")
        self.wraps = layer != PLAIN_LAYER
        self._encrypts = layer == ENCRYPTED_LAYER
        taken = 0
        if self.wraps:
            taken = FRAME_BYTES_TAKEN
            self._request_bytes_max = self._context.get_wrap_size_limit(frame_bytes, self._encrypts)
        self._has_chosen = True
        answer = LAYER.pack(layer << 24 | taken)
        return bytes(self._context.wrap(answer, False).message)  # noqa: FBT003  not encrypted

    def wrap(self, request: bytes) -> list[bytes]:
        if not self.wraps:
            return [request]
        size = max(self._request_bytes_max, 1)
        parts = (request[at : at + size] for at in range(0, len(request), size))
        return [self._context.wrap(part, self._encrypts).message for part in parts]

    def unwrap(self, content: bytes) -> bytes:
        if not self.wraps:
            return content
        try:
            found = self._context.unwrap(content)
        except self._error as exc:
            raise ConnectionAbortedError(f"a frame is not the metastore's: {exc}") from exc
        if self._encrypts and not found.encrypted:
            raise ConnectionAbortedError("a frame is not encrypted, as was agreed")
        return bytes(found.message)


def load_gssapi() -> Any:
    """Return the library that speaks Kerberos; raises ConfigError if it is not installed."""
    try:
        import gssapi
    except ImportError as exc:  # or it lacks the system's library
        remedy = f"pip install 'topicast[kerberos]' ({exc}); it needs libkrb5 and its headers"
        raise ConfigError("hive_metastore_auth", "kerberos", remedy) from exc
    return gssapi


def _refused(error: Any, wanted: str) -> ConnectionRefusedError:
    """Return what Kerberos says about what was wanted of it."""
    text = error.gen_message()
    return ConnectionRefusedError(f"no Kerberos, {wanted}: {text.partition('): ')[2] or text}")
