"""Reachability: which servers this process does not reach, or is not admitted to; a pure machine.

    opened ──handshake──▶ reached ──lost──▶ not reached ──UNREACHED_S──▶ a problem, with its remedy

A hub says where its data is, catalogd where it is itself: both may be wrong, or lie behind a
firewall. With several hubs the subscriber leaves one sooner than a connection into a black hole
fails, so an address counts as not reached from one attempt to the next.
"""

from collections.abc import Mapping
from typing import Final

from ...topics.link import Handshake
from ..protocol.shell import Channel

UNREACHED_S: Final = 3.0  # a daemon's restart takes less; a black hole is noticed after 2 s
ADDRESSES_MAX: Final = 64  # that are remembered: peers give them
SERVERS: Final = (Channel.CONTROL, Channel.DATA, Channel.SERVICE)  # the others lead to the same
KEY_PROBLEMS: Final = (Handshake.REFUSED, Handshake.FAILED)


class Reachability:
    """The servers of one subscriber, whose key is called ``name``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.problem = ""  # why a server is not used, and what to do; empty while all are
        self.refuses_key = False  # whether the problem is that our key, or the server's, is wrong
        self._open: dict[Channel, str] = {}  # the addresses of open connections
        self._unreached: dict[str, tuple[Channel, float]] = {}  # by address, since when
        self._hub = ""  # where the hub that is tried takes requests

    def opened(self, channel: Channel, address: str) -> None:
        """Note a new connection of ``channel``, which may be the first attempt or another one."""
        if channel in SERVERS:
            self._open[channel] = address
        if channel is Channel.CONTROL:
            self._hub = address

    def closed(self, channel: Channel) -> None:
        """Note that a connection was closed here."""
        address = self._open.pop(channel, "")
        if channel is Channel.SERVICE:
            self._unreached.pop(address, None)  # catalogd may be elsewhere by now

    def look(self, handshakes: Mapping[Channel, Handshake], *, now: float) -> bool:
        """Take the states of all open connections; return whether the problem is another one."""
        for channel, address in self._open.items():
            if handshakes[channel] in (Handshake.NONE, Handshake.UNREACHED):
                self._unreached.setdefault(address, (channel, now))
            else:
                self._unreached.pop(address, None)
        if all(handshakes.get(one) is Handshake.DONE for one in (Channel.CONTROL, Channel.DATA)):
            current = set(self._open.values())  # what other hubs there are does not matter
            self._unreached = {at: of for at, of in self._unreached.items() if at in current}
        while len(self._unreached) > ADDRESSES_MAX:
            del self._unreached[next(iter(self._unreached))]
        found = self._key_problem(handshakes)
        self.refuses_key = bool(found)
        found = found or self._unreached_problem(now)
        before, self.problem = self.problem, found
        return found != before

    def _key_problem(self, handshakes: Mapping[Channel, Handshake]) -> str:
        for channel, whom in (
            (Channel.CONTROL, f"the statestored at {self._hub}"),
            (Channel.SERVICE, "catalogd"),
        ):
            state = handshakes.get(channel)
            if state in KEY_PROBLEMS:
                revoke = f"topicast keys revoke {self._name}"
                add = f"topicast keys add {self._name} --role ROLE --out FILE"
                remedy = f"where catalogd's keys are, make another key file: {revoke}, then {add}"
                if state is Handshake.FAILED and channel is Channel.CONTROL:
                    remedy = f"is this the port for requests, 24000 unless set? If so, {remedy}"
                return f"{whom}: key {self._name} {state.value}; {remedy}"
        return ""

    def _unreached_problem(self, now: float) -> str:
        for wanted in SERVERS:
            for address, (channel, since) in self._unreached.items():
                if channel is wanted and now >= since + UNREACHED_S:
                    return unreached(channel, address, hub=self._hub)
        return ""


def unreached(channel: Channel, address: str, *, hub: str) -> str:
    """Return the problem that ``address`` is not reached from here, and what to do."""
    match channel:
        case Channel.CONTROL:
            return (
                f"the statestored at {address} is not reached from here: is it running, and is "
                "its port open to this host?"
            )
        case Channel.DATA:
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
