"""Agreement: when each followed topic was last known to be as new as the hub's heartbeat.

    every topic is LIVE and as new as a heartbeat ──begin──▶ agreed ──end──▶ a time for each topic
                                                              │  ▲
                                                              └──┘ the same heartbeat again

An idle subscriber gets the same heartbeat again and again: while all topics agree with it, the
subscriber looks at no topic. TopicReplicas ends the agreement before it feeds a follower, or adds
one.
"""

from collections.abc import Collection
from math import inf

from ...topics.clock import Clock
from ...topics.wire.messages.data import Heartbeat

Positions = tuple[int, tuple[int, ...]]
"""Epoch and versions of a heartbeat, the namespace's first."""


class Agreement:
    """When each of the ``followed`` topics was last current; once for all while they agree."""

    def __init__(self, followed: Collection[int], clock: Clock) -> None:
        """``followed``: as it is at each call."""
        self.current_at: dict[int, float] = {}  # seconds, by topic; out of date while all agree
        self.positions: Positions | None = None  # of the heartbeat that all agree with; None: none
        self._agreed_at = 0.0  # seconds: while all agree, in place of each topic's ``current_at``
        self._followed = followed
        self._clock = clock

    def holds(self, heartbeat: Heartbeat) -> bool:
        """Return whether all topics are known to be as the heartbeat has them."""
        return (heartbeat.epoch, heartbeat.versions) == self.positions

    def renew(self) -> None:
        """Note that the heartbeat on which all agree came again."""
        self._agreed_at = self._clock.now

    def begin(self, heartbeat: Heartbeat) -> None:
        """Note that all topics are as ``heartbeat`` has them, or newer."""
        self.positions = heartbeat.epoch, heartbeat.versions
        self._agreed_at = self._clock.now

    def end(self) -> None:
        """Let each topic have its own time again, because their times may differ from now on."""
        if self.positions is not None:
            self.positions = None
            self.current_at = dict.fromkeys(self._followed, self._agreed_at)

    def discard(self, topic: int) -> None:
        """Forget when ``topic`` was current, because it is not followed any more."""
        self.current_at.pop(topic, None)

    def lag_s(self, topic: int) -> float:
        """Return the seconds since ``topic`` was known to be current; infinite if it never was."""
        if topic not in self._followed:
            return inf
        at = self.current_at.get(topic) if self.positions is None else self._agreed_at
        return inf if at is None else self._clock.now - at

    def lag_max_s(self) -> float:
        """Return the longest lag of a topic that was current once; 0 if none was."""
        times = self.current_at.values() if self.positions is None else (self._agreed_at,)
        return self._clock.now - min(times) if times else 0.0

    def age_s(self) -> float:
        """Return the seconds since all topics were known to be current; infinite: one never was."""
        if self.positions is not None:
            return self._clock.now - self._agreed_at
        return max(map(self.lag_s, self._followed), default=inf)

    def check(self) -> None:
        """Assert every invariant."""
        assert self.positions is not None or self.current_at.keys() <= set(self._followed)
