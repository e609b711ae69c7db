"""Liveness: whether a member of a hub, or a hub of catalogd, lives, by its last message.

    LIVE ──suspect_s silent──▶ SUSPECT ──lost_s silent──▶ LOST      message: back to LIVE

A process that stalled past a deadline cannot tell the peer's silence from its own. So it moves the
deadline once, by the length of the stall, and reads first what the peer sent meanwhile.
Invariant: one call of ``state`` never takes a peer from LIVE to LOST. Without stalls the state
depends on the length of the silence alone.
"""

from math import inf
from typing import Final

from .backports import StrEnum


class LivenessState(StrEnum):
    """The state of a peer, by the length of its silence."""

    LIVE = "LIVE"
    SUSPECT = "SUSPECT"
    LOST = "LOST"


LIVE: Final = LivenessState.LIVE
SUSPECT: Final = LivenessState.SUSPECT
LOST: Final = LivenessState.LOST

HEARTBEAT_MS: Final = 250  # of catalogd, and of a hub unless an operator has set another period
SUSPECT_S: Final = 2.0  # eight missed heartbeats of 250 ms
LOST_S: Final = 8.0  # 32 missed heartbeats: longer than a full collection or a slow disk
STALL_S: Final = 0.1  # no turn takes 2 ms, so a call this late was held up here


class Liveness:
    """The silence of one peer; ``now`` is any clock that never goes back."""

    __slots__ = ("_excused", "_lost_s", "_state", "_suspect_s", "deadline")

    deadline: float
    """When ``state`` changes next by itself; infinite once it is LOST."""

    def __init__(self, now: float, suspect_s: float = SUSPECT_S, lost_s: float = LOST_S) -> None:
        assert 0 < suspect_s < lost_s
        self._suspect_s = suspect_s
        self._lost_s = lost_s
        self.on_message(now)

    def on_message(self, now: float) -> None:
        """Count any message of the peer as a sign of life."""
        self._state: LivenessState = LIVE
        self._excused = False
        self.deadline = now + self._suspect_s

    def state(self, now: float) -> LivenessState:
        """Return LIVE, SUSPECT or LOST as of ``now``."""
        if now < self.deadline:
            return self._state
        late_s = now - self.deadline
        extended_to = now + min(late_s, self._suspect_s)
        if late_s > STALL_S and not self._excused:
            self._excused = True
            self.deadline = extended_to
        elif self._state == LIVE:
            self._excused = False
            self._state = SUSPECT
            self.deadline = max(self.deadline + self._lost_s - self._suspect_s, extended_to)
        else:
            self._state = LOST
            self.deadline = inf
        return self._state

    def check(self) -> None:
        """Assert every invariant."""
        assert self._state in (LIVE, SUSPECT, LOST)
        assert (self.deadline == inf) is (self._state == LOST)
