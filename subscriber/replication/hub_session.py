"""Hubs: which statestored is followed, and whether it knows us.

    GREETING ──Welcome──▶ WELCOMED ──silent, seeding or stale, and another one is there──▶ GREETING
        ▲─────────────────────┘ it restarted, or has forgotten us

Versions are the same at every hub, so another one costs a registration and nothing else.
"""

from typing import Final

from ...topics.wire.header import FEATURES, HEARTBEAT_PREFIX, PROTOCOL, PROTOCOL_MIN
from ...topics.wire.messages import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    READER,
    Heartbeat,
    Hello,
    Welcome,
)
from ..protocol.facts import BULK, CONTROL, ConnectData, ConnectHub, Effect, Send, Subscribe

HEARTBEATS_MISSED: Final = 4
HEARTBEAT_S: Final = 0.25  # until the welcome says it
HELLO_AGAIN_S: Final = 0.5  # an unanswered Hello: the hub was not there yet
HELLO_AGAIN_S_MAX: Final = 2.0  # the last one waits in the queue and goes when the hub is back
UNFIT_S: Final = 1.0  # seeding, or of a start that catalogd does not confirm, for so long

GREETING: Final = "GREETING"
WELCOMED: Final = "WELCOMED"


class Hubs:
    """One connection to one of the hubs at ``addresses`` at a time."""

    def __init__(self, addresses: tuple[str, ...], *, name: str, registration: bytes) -> None:
        assert addresses
        self._addresses = addresses
        self._name = name
        self._registration = registration
        self._data_address = ""
        self._heard_at = 0.0
        self._fit_at = 0.0
        self._hello_at = 0.0
        self._hello_pause_s = HELLO_AGAIN_S
        self._heartbeat_s = HEARTBEAT_S
        self._hub = 0
        self.index = -1
        self.state = GREETING

    @property
    def deadline(self) -> float:
        """The time at which ``tick`` may have work to do."""
        silent_at = self._heard_at + self._silence_s
        return min(silent_at, self._hello_at) if self.state == GREETING else silent_at

    @property
    def address(self) -> str:
        """The hub that is followed, or tried."""
        return self._addresses[max(self.index, 0)]

    @property
    def silent(self) -> bool:
        """Whether no hub has welcomed us, or this one has gone silent."""
        return self.state == GREETING

    @property
    def _silence_s(self) -> float:
        return HEARTBEATS_MISSED * self._heartbeat_s

    def knows(self, welcome: Welcome) -> bool:
        """Tell whether ``welcome`` answers a Hello that was said twice."""
        return self.state == WELCOMED and welcome.hub == self._hub

    def tick(self, *, now: float) -> tuple[Effect, ...]:
        """Move on when the hub is silent or unfit; say Hello until it is answered."""
        if self.index < 0:
            return self._move(now)
        silent = now - self._heard_at >= self._silence_s
        if len(self._addresses) > 1 and (silent or now - self._fit_at >= UNFIT_S + self._silence_s):
            return self._move(now)
        if silent:
            self._heard_at = now  # there is no other: greet it until it answers
            return self._greet(now)
        if self.state == GREETING and now >= self._hello_at:
            return self._greet(now)
        return ()

    def on_welcome(self, welcome: Welcome, *, now: float) -> tuple[Effect, ...]:
        """The hub knows us; open its data, unless it is open already."""
        self.state = WELCOMED
        self._hello_pause_s = HELLO_AGAIN_S
        self._hub = welcome.hub
        self._heartbeat_s = max(welcome.heartbeat_ms / 1000, 0.01)
        self._heard_at = self._fit_at = now
        if welcome.data_address == self._data_address:
            return ()
        self._data_address = welcome.data_address
        return ConnectData(welcome.data_address), Subscribe(HEARTBEAT_PREFIX)

    def on_heartbeat(self, heartbeat: Heartbeat, *, fit: bool, now: float) -> tuple[Effect, ...]:
        """The hub lives; ``fit``: it has something, and of the accepted start."""
        self._heard_at = now
        if fit:
            self._fit_at = now
        if self.state == WELCOMED and heartbeat.hub != self._hub:
            return self._greet(now)  # it restarted
        return ()

    def forgotten(self, *, now: float) -> tuple[Effect, ...]:
        """The hub refused us as a stranger: greet it again, once per pause."""
        if self.state == GREETING:
            return ()
        return self._greet(now)

    def _move(self, now: float) -> tuple[Effect, ...]:
        self.index = (self.index + 1) % len(self._addresses)
        self._heard_at = self._fit_at = now
        self._data_address = ""
        return ConnectHub(self.index), *self._greet(now)

    def _greet(self, now: float) -> tuple[Effect, ...]:
        self.state = GREETING
        self._hello_at = now + self._hello_pause_s
        self._hello_pause_s = min(2 * self._hello_pause_s, HELLO_AGAIN_S_MAX)
        return self._hello(CONTROL, CONTROL_CHANNEL), self._hello(BULK, BULK_CHANNEL)

    def _hello(self, channel: str, number: int) -> Send:
        return Send(
            channel,
            Hello(
                role=READER,
                channel=number,
                name=self._name,
                registration=self._registration,
                protocol_min=PROTOCOL_MIN,
                protocol_max=PROTOCOL,
                features=FEATURES,
            ),
        )
