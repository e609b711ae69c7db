"""Applied: how long after a change was broadcast its readers report that they have applied it.

    delta ──▶ VersionTimes of the topic ◀──first version that a reader had not──  ReaderStatus

By the hub's own clock, so that no two hosts' clocks are compared. A reader reports after each
heartbeat at most, so that up to one period of the time is its pause before the report.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from ...topics.histogram import Histogram, HistogramFacts
from ...topics.wire.messages.readers import JoinAnswer, Joined, Position
from .membership import Member

STEP_S: Final = 0.05  # changes of a topic within it count as one
STEPS_MAX: Final = 256  # of a topic: 13 s of a topic that changes all the time, in some 30 KB


@dataclass(slots=True)
class _Step:
    """The changes of one topic within STEP_S: the last version, and when the first was sent."""

    last: int
    at: float  # seconds


class VersionTimes:
    """When the last changes of one topic were broadcast."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []  # by version, and by time

    def add(self, version: int, *, now: float) -> None:
        """Note that ``version``, the newest, is broadcast."""
        steps = self._steps
        if steps and now < steps[-1].at + STEP_S:
            steps[-1].last = version
            return
        steps.append(_Step(version, now))
        if len(steps) >= 2 * STEPS_MAX:
            del steps[:STEPS_MAX]

    def first_after(self, version: int) -> float | None:
        """Return when the first change behind ``version`` was broadcast; None: it was not here.

        A change too old to be remembered counts as broadcast at the oldest time that is.
        """
        at = bisect_right(self._steps, version, key=lambda step: step.last)
        return self._steps[at].at if at < len(self._steps) else None


class Timed(Protocol):
    """A topic with the times of its changes."""

    @property
    def times(self) -> VersionTimes:
        """When its last changes were broadcast."""


class AppliedTimes:
    """Measures what readers report: one value for each report of a topic in which they moved."""

    def __init__(self) -> None:
        self._histogram = Histogram()

    def facts(self) -> HistogramFacts:
        """Return what was measured so far."""
        return self._histogram.facts()

    def on_joined(self, member: Member, joined: Joined) -> None:
        """Measure nothing of what ``member`` lacks as it joins: that was broadcast before."""
        for one in joined.topics:
            # A reader that is denied one level of a topic may follow the topic at the other level.
            if one.answer != JoinAnswer.DENIED:
                member.version_at_join[one.topic] = one.version

    def on_status(
        self,
        member: Member,
        positions: Iterable[Position],
        topics: Mapping[int, Timed],
        *,
        now: float,
    ) -> None:
        """Count the time since the oldest change that ``member`` has applied meanwhile.

        It is called before the member's positions are those of the report.
        """
        if member.is_command:
            return
        for one in positions:
            before, topic = member.joined.get(one.topic), topics.get(one.topic)
            if before is None or topic is None or before.epoch != one.epoch:
                continue
            had = max(before.version, member.version_at_join.get(one.topic, 0))
            if one.version > had:
                sent_at = topic.times.first_after(had)
                if sent_at is not None:
                    self._histogram.add(now - sent_at)
