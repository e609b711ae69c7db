"""Reaching: what listens at the address of a statestored that does not answer, and what to do.

    name ──unknown──▶ ✗   connect ──refused | nothing──▶ ✗   greeting ──none | another──▶ ✗
    handshake ──our key refused | another key | the port for data | catalogd's──▶ ✗   else: it hangs

Each look takes LOOK_S at most, and only follows when a statestored has not answered.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from ipaddress import ip_address
from typing import Final

from ...topics.keys.credential import Credential, PublicKeys
from ...topics.link import Handshake, Link
from ...topics.link.endpoints import dialled
from ...topics.settings import Address

LOOK_S: Final = 0.8  # a connection is made, and greeted, within milliseconds
SETTLE_S: Final = 0.5  # a handshake takes 3 round trips
POLL_S: Final = 0.05  # between two looks at a handshake
PROBE: Final = "probe"
ANSWER_BYTES: Final = 512  # the head of a page
GREETING: Final = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)
MECHANISM: Final = slice(12, 32)  # of a greeting: signature, version, mechanism, padding
TLS_ALERT: Final = b"\x15\x03"
HTTP: Final = b"HTTP/"
PAGE: Final = b"Server: topicast"  # of the pages of our daemons
ASK_PAGE: Final = b"GET /healthz HTTP/1.0\r\n\r\n"
OTHERS: Final = "or name others with --statestores"
BUSY: Final = (
    "it takes connections and does not answer; look at its log on that host, journalctl -u "
    "statestored, or restart it"
)
USUAL: Final = "24000 unless set"
ADD: Final = "get a key file where catalogd's keys are: topicast keys add NAME --role ROLE"
UNKNOWN: Final = (
    "this machine does not know the host {host}; correct --statestores, or add the name to DNS or "
    "/etc/hosts: getent hosts {host}"
)
NOT_OURS: Final = (
    "what listens there is not Topicast{what}; correct the port in --statestores, " + USUAL
)


def unknown_host(address: Address, *, limit_s: float = LOOK_S) -> str:
    """Return why the host of ``address`` is not known here, and what to do; empty if it is."""
    with suppress(ValueError):
        ip_address(address.host)
        return ""
    found = _within(lambda: socket.getaddrinfo(address.host, address.port), limit_s)
    return "" if isinstance(found, list) else UNKNOWN.format(host=address.host)


def problem(address: Address, credential: Credential, *, limit_s: float = LOOK_S) -> str:
    """Return what is wrong at ``address``, where no statestored answers, and what to do.

    The text is empty if a server there admits our key: then that server is busy, or hangs.
    """
    return (
        unknown_host(address, limit_s=limit_s)
        or listener_problem(address, limit_s=limit_s)
        or _wrong_key(address, credential)
    )


def no_statestored(problems: Mapping[Address, str]) -> str:
    """Return the error that no statestored answers, with the problem at each address."""
    each = [f"at {address}: {why or BUSY}" for address, why in problems.items()]
    return f"no statestored answers {'; and '.join(each)}"


def no_hub_at(addresses: Iterable[Address], credential: Credential | None = None) -> str:
    """Return the error that no address can have a statestored; empty: one of them may have it.

    Without a ``credential``, any of our daemons counts as a statestored that may admit us.
    """

    def look(address: Address) -> str:
        if credential is None:
            return unknown_host(address) or listener_problem(address)
        return problem(address, credential)

    problems = {one: look(one) for one in addresses}
    return no_statestored(problems) if all(problems.values()) else ""


def is_mute(address: Address, *, limit_s: float = LOOK_S) -> bool | None:
    """Return whether the process that takes connections at ``address`` sends nothing.

    A stopped process sends nothing. None: no process takes connections there.
    """
    try:
        return not _said(address, GREETING, limit_s=limit_s)
    except OSError:
        return None


def listener_problem(address: Address, *, limit_s: float = LOOK_S) -> str:
    """Return what is wrong with a listener, by its greeting; empty if it may be our daemon."""
    several = ""
    try:
        host, count = dialled(address.host)
        if count > 1:
            several = f" ({host}, the first of the {count} addresses of {address.host})"
        received = _said(address, GREETING, limit_s=limit_s / 2)
        web = b"" if received else _said(address, ASK_PAGE, limit_s=limit_s / 2)
    except TimeoutError:
        return (
            f"nothing comes back within {limit_s / 2:g} s{several}; open this port in the "
            f"firewalls between, {OTHERS}"
        )
    except ConnectionRefusedError:
        return f"nothing listens there{several}; start one, {OTHERS}"
    except OSError as error:
        return f"{error.strerror or error}; start one, {OTHERS}"
    if PAGE in web:
        return f"that is the page of a daemon; requests go to another port, {USUAL}"
    if not (received or web):
        return (
            "it takes connections and says nothing: its process is stopped or hangs, or it is "
            f"another program; look at it on that host, {OTHERS}"
        )
    if _is_greeting(received):
        return ""
    if received.startswith(TLS_ALERT):
        return NOT_OURS.format(what=", or a daemon's page with TLS")
    return NOT_OURS.format(what=", but a web server" if HTTP in received + web else "")


def _is_greeting(received: bytes) -> bool:
    is_zmtp = len(received) >= len(GREETING) and received[0] == 0xFF and received[9] == 0x7F
    return is_zmtp and received[MECHANISM].rstrip(b"\0") == b"CURVE"


def _said(address: Address, words: bytes, *, limit_s: float) -> bytes:
    """Return the beginning of the answer to ``words``; raises OSError if nothing listens."""
    deadline = time.monotonic() + limit_s
    host, _ = dialled(address.host)
    with socket.create_connection((host, address.port), limit_s) as peer:
        peer.sendall(words)
        received = b""
        while not _is_greeting(received) and len(received) < ANSWER_BYTES:
            peer.settimeout(max(deadline - time.monotonic(), POLL_S))
            if not (some := _some(peer)):
                break
            received += some
        return received


def _some(peer: socket.socket) -> bytes:
    """Return the next bytes that arrive; empty: none arrive in time."""
    with suppress(TimeoutError, ConnectionResetError):
        return peer.recv(ANSWER_BYTES)
    return b""


def _wrong_key(address: Address, credential: Credential) -> str:
    """Return why the handshake fails; empty if it does not."""
    at, hub = str(address), credential.hub_keys(str(address))
    with _link(credential) as link:
        link.connect_dealer(PROBE, at, hub)
        state = _handshake(link, keys=hub)
    if state is Handshake.DONE:
        return ""
    if state is Handshake.REFUSED:
        return f"it does not admit the key {credential.name}; {ADD}"
    with _link(credential) as link:
        link.connect_xsub(PROBE, at, hub)
        if _handshake(link, keys=hub) is Handshake.DONE:
            return f"that is its port for data; requests go to the port before it, {USUAL}"
    with _link(credential) as link:
        link.connect_dealer(PROBE, at, credential.catalogd_keys)
        if _handshake(link, keys=credential.catalogd_keys) is Handshake.DONE:
            return f"that is catalogd; name a statestored, whose port is {USUAL}"
    return f"it has another key than {credential.name} knows; {ADD}"


@contextmanager
def _link(credential: Credential) -> Iterator[Link]:
    with closing(Link(credential.pair)) as link:
        yield link


def _handshake(link: Link, *, keys: PublicKeys) -> Handshake:
    """Return how the handshake ends; with one key its first failure is the end."""
    ends = {Handshake.DONE, Handshake.REFUSED, Handshake.FAILED}
    if len(keys) == 1:
        ends.add(Handshake.UNREACHED)
    deadline = time.monotonic() + SETTLE_S
    while (state := link.handshake(PROBE)) not in ends and time.monotonic() < deadline:
        link.poll(POLL_S)
    return state


def _within(look: Callable[[], object], limit_s: float) -> object:
    """Return what ``look`` returns; None: it has failed, or takes longer and goes on alone."""
    found: list[object] = []

    def work() -> None:
        with suppress(OSError):
            found.append(look())

    thread = threading.Thread(target=work, name="topicast-look", daemon=True)
    thread.start()
    thread.join(limit_s)
    return next(iter(found), None)
