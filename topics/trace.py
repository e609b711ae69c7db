"""Trace: what came into a core lately, and what went out, for whoever looks for an error.

A step has the time, the type and the topics of a message, and its version; nothing of its content,
so that a trace of large values is as short as any other.
"""

from collections import deque
from typing import Final, NamedTuple

from .wire.messages import (
    CatchUp,
    Chunk,
    Delta,
    Drop,
    Heartbeat,
    Join,
    Joined,
    KeepAlive,
    Pulled,
    Refused,
    Status,
)

STEPS_MAX: Final = 256  # some minutes of a core that is not busy, in 50 KB
TOPICS_MAX: Final = 16  # of a step; one of more topics counts as one of all
SHOWN_MAX: Final = 64  # steps in one record of a log: 3 KB
QUIET: Final = (Heartbeat, KeepAlive)  # they come all the time, and as a rule change nothing


class Step(NamedTuple):
    """One message, or another fact or effect; ``topics`` empty: of all topics, or of none."""

    at: float  # seconds, monotonic
    way: str
    kind: str
    topics: tuple[int, ...]
    version: int  # of the topic, behind it; 0: it has none

    def __str__(self) -> str:
        of = f" topic={','.join(map(str, self.topics))}" if self.topics else ""
        version = f" version={self.version}" if self.version else ""
        return f"{self.at:.3f} {self.way} {self.kind}{of}{version}"


class Trace:
    """The last STEPS_MAX steps of one core."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque(maxlen=STEPS_MAX)

    def note(self, at: float, way: str, what: object) -> None:
        """Add ``what``, which came ``in`` or goes ``out``; nothing of it is kept."""
        if type(what) not in QUIET:
            version = getattr(what, "to_version", 0)
            self._steps.append(Step(at, way, type(what).__name__, _topics(what), version))

    def story(self, topic: int | None = None) -> tuple[str, ...]:
        """Return a line for each step, the oldest first; of those that may be about ``topic``."""
        return tuple(
            str(step)
            for step in self._steps
            if topic is None or not step.topics or topic in step.topics
        )

    def text(self) -> str:
        """Return the last SHOWN_MAX steps in one line."""
        return "; ".join(self.story()[-SHOWN_MAX:])


def _topics(what: object) -> tuple[int, ...]:
    match what:
        case Delta(topic=topic) | Chunk(topic=topic) | Pulled(topic=topic):
            return (topic,)
        case Refused(topic=topic):
            return (topic,) if topic >= 0 else ()
        case Drop(topics=topics):
            return topics if len(topics) <= TOPICS_MAX else ()
        case Join(positions=some) | Status(positions=some):
            return tuple(one.topic for one in some) if len(some) <= TOPICS_MAX else ()
        case CatchUp(wanted=some) | Joined(topics=some):
            return tuple(one.topic for one in some) if len(some) <= TOPICS_MAX else ()
        case _:
            return ()
