"""Reachability: which servers this process does not reach, or is not admitted to; a pure machine.

    opened ──handshake──▶ reached ──lost──▶ not reached ──UNREACHED_S──▶ a problem, with its remedy

A hub names the address of its data, and catalogd its own address: an address may be wrong, or
behind a firewall. With several hubs the subscriber leaves a hub before a connection to it can fail,
so an address stays unreached between two attempts. The subscriber also tries a server again that
refuses our key: the refusal is the problem until the server admits us.
"""

from collections.abc import Mapping
from typing import Final

from ...topics.link import Handshake
from ...topics.newest import Newest
from ..protocol.effects import Connection

UNREACHED_S: Final = 3.0  # a daemon's restart takes less; a black hole is noticed after 2 s
ADDRESSES_MAX: Final = 64  # remembered addresses: peers send them
SERVERS: Final = (Connection.CONTROL, Connection.DATA, Connection.SERVICE)
"""One connection to each server; the other connections lead to the same servers."""
KEY_PROBLEMS: Final = (Handshake.REFUSED, Handshake.FAILED)


class Reachability:
    """The servers of one subscriber, whose key is called ``name``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.problem = ""  # why a server is not used, and what to do; empty while all are
        self.refuses_key = False  # whether the problem is that our key, or the server's, is wrong
        self._open: dict[Connection, str] = {}  # the addresses of open connections
        self._unreached = Newest[str, tuple[Connection, float]](ADDRESSES_MAX)
        """By address, the oldest first: its connection, and since when (seconds)."""
        self._refusals: dict[Connection, dict[str, Handshake]] = {}  # by address, the oldest first
        self._hub = ""  # the address for requests of the hub that is tried

    def opened(self, connection: Connection, address: str) -> None:
        """Note that ``connection`` was opened to ``address``, for the first time or again."""
        if connection in SERVERS:
            self._open[connection] = address
        if connection is Connection.CONTROL:
            self._hub = address
        elif connection is Connection.SERVICE:  # one catalogd: its former address does not matter
            refusals = self._refusals.get(connection, {})
            self._refusals[connection] = {at: of for at, of in refusals.items() if at == address}

    def closed(self, connection: Connection) -> None:
        """Note that a connection was closed here."""
        address = self._open.pop(connection, "")
        if connection is Connection.SERVICE:
            self._unreached.pop(address, None)  # catalogd may be elsewhere by now

    @property
    def is_well(self) -> bool:
        """Whether all is reached, so that another look at the same states finds nothing else."""
        return not (self.problem or self._unreached)

    def look(self, handshakes: Mapping[str, Handshake], *, now: float) -> bool:
        """Take the states of all open connections; return whether the problem has changed."""
        for connection, address in self._open.items():
            if handshakes[connection] not in (Handshake.NONE, Handshake.UNREACHED):
                self._unreached.pop(address, None)
            elif address not in self._unreached:
                self._unreached.put(address, (connection, now))
        if all(
            handshakes.get(one) is Handshake.DONE for one in (Connection.CONTROL, Connection.DATA)
        ):
            current = set(self._open.values())  # while this hub serves us, others do not matter
            for other in [address for address in self._unreached if address not in current]:
                del self._unreached[other]
        found = self._key_problem(handshakes)
        self.refuses_key = bool(found)
        found = found or self._unreached_problem(now)
        before, self.problem = self.problem, found
        return found != before

    def _key_problem(self, handshakes: Mapping[str, Handshake]) -> str:
        for connection in (Connection.CONTROL, Connection.SERVICE):
            refusals = self._refusals.setdefault(connection, {})
            state = handshakes.get(connection)
            if state is Handshake.DONE:
                refusals.clear()
            elif state in KEY_PROBLEMS and len(refusals) < ADDRESSES_MAX:
                refusals[self._open.get(connection, "")] = state
            for address, state in refusals.items():
                is_hub = connection is Connection.CONTROL
                whom = f"the statestored at {address}" if is_hub else "catalogd"
                revoke = f"topicast keys revoke {self._name}"
                add = f"topicast keys add {self._name} --role ROLE --out FILE"
                remedy = f"where catalogd's keys are, make another key file: {revoke}, then {add}"
                if state is Handshake.FAILED and connection is Connection.CONTROL:
                    remedy = f"is this the port for requests, 24000 unless set? If so, {remedy}"
                return f"{whom}: key {self._name} {state.value}; {remedy}"
        return ""

    def _unreached_problem(self, now: float) -> str:
        for wanted in SERVERS:
            for address, (connection, since) in self._unreached.items():
                if connection is wanted and now >= since + UNREACHED_S:
                    return unreached(connection, address, hub=self._hub)
        return ""


def unreached(connection: Connection, address: str, *, hub: str) -> str:
    """Return as text that ``address`` is not reached from here, and what to do."""
    match connection:
        case Connection.CONTROL:
            return (
                f"the statestored at {address} is not reached from here: is it running, and is "
                "its port open to this host?"
            )
        case Connection.DATA:
            return (
                f"the statestored at {hub} says that its data is at {address}, which is not "
                "reached from here: open this port to this host, too, or set its "
                "--advertise_address to where it is reached"
            )
        case _:
            return (
                f"catalogd says that it is at {address}, which is not reached from here: is it "
                "running, is its port open to this host, or should its --advertise_address be "
                "another?"
            )
