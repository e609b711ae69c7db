"""Turn: the clock, the outbox and the trace that the parts of one core share as it handles facts.

    handle(facts, now) ──▶ parts read ``now``, and ``add`` effects ──end──▶ effects

The core makes its Turn and gives it to its parts at construction, so that no part passes the time
on, or hands back what others have decided. Effects are in the order in which they were added.

The trace has the last messages that came into the core and went out of it, so that an operator or a
log can say how the core got where it is. A step of it has the time, the type, the topics and the
version of a message, and nothing of its content, so that its size has a bound.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from .clock import Clock
from .wire.messages.catalog import Pulled
from .wire.messages.connection import KeepAlive, Refused
from .wire.messages.data import Chunk, Delta, Heartbeat
from .wire.messages.publishers import Filed
from .wire.messages.readers import CatchUp, Drop, Join, Joined, ReaderStatus

STEPS_MAX: Final = 256  # some minutes of a core that is not busy, in 50 KB
TOPICS_MAX: Final = 16  # of a step; a step of more topics counts as a step of all
SHOWN_MAX: Final = 64  # steps in one record of a log: 3 KB
QUIET: Final = (Heartbeat, KeepAlive)  # not in a trace: most of them change nothing

EffectT = TypeVar("EffectT")
EffectT_contra = TypeVar("EffectT_contra", contravariant=True)

Step = tuple[float, str, str, tuple[int, ...], int]
"""The time in seconds; ``in`` or ``out``; the type; the topics, empty: all of them, or none; the
version that the topic has afterwards, 0: no version. A plain tuple: each delta makes a step."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The fact that time has passed: a core does what is due."""


class PartTurn(Clock, Protocol[EffectT_contra]):
    """The Turn of a core, as one part has it: the clock, and ``add`` for the effects it decides."""

    def add(self, effect: EffectT_contra, /) -> None:
        """Have the shell perform ``effect``, after those that were added before."""


class Turn(Generic[EffectT]):
    """The time of this turn, what was decided in it, and a trace of the turns before."""

    def __init__(self, *, quiet: tuple[type, ...] = ()) -> None:
        """``quiet``: the types of facts and effects that the trace leaves out."""
        self.now = 0.0  # seconds, monotonic: the core sets it as a turn begins
        self.now_us = 0  # microseconds since 1970: likewise, in a core whose facts have them
        self.trace = Trace(quiet)
        self._effects: list[EffectT] = []  # decided in this turn, in their order
        self.add = self._effects.append  # see ``PartTurn.add``

    def came(self, fact: object) -> None:
        """Add ``fact``, or the message in it, to the trace."""
        self.trace.note(self.now, "in", getattr(fact, "message", fact))

    def end(self) -> tuple[EffectT, ...]:
        """Return the effects that were decided in this turn, and add them to the trace."""
        if not self._effects:
            return ()
        effects = tuple(self._effects)
        self._effects.clear()
        for effect in effects:
            self.trace.note(self.now, "out", getattr(effect, "message", effect))
        return effects

    def discard(self) -> None:
        """Drop the effects that were decided in a turn that has failed."""
        self._effects.clear()


class Trace:
    """The last STEPS_MAX steps of one core."""

    def __init__(self, quiet: tuple[type, ...] = ()) -> None:
        self._quiet = frozenset((*QUIET, *quiet))
        self._steps: deque[Step] = deque(maxlen=STEPS_MAX)

    def note(self, at: float, way: str, what: object) -> None:
        """Add a step for ``what``, which came ``in`` or goes ``out``; not for a quiet type."""
        kind = type(what)
        if kind not in self._quiet:
            version = getattr(what, "to_version", 0)
            self._steps.append((at, way, kind.__name__, _topics(what), version))

    def note_delta(self, at: float, topic: int, version: int) -> None:
        """Add a step for a delta that came in, as ``note`` does; for the hot path."""
        self._steps.append((at, "in", "Delta", (topic,), version))

    def steps(self, topic: int | None = None) -> tuple[Step, ...]:
        """Return the steps, the oldest first: all, or those that may be about ``topic``."""
        return tuple(one for one in self._steps if topic is None or topic in (one[3] or (topic,)))

    def story(self, topic: int | None = None) -> tuple[str, ...]:
        """Return a line for each of the ``steps``."""
        return tuple(
            f"{at:.3f} {way} {kind}{_of(topics, version)}"
            for at, way, kind, topics, version in self.steps(topic)
        )

    def text(self) -> str:
        """Return the last SHOWN_MAX steps in one line."""
        return "; ".join(self.story()[-SHOWN_MAX:])


def _of(topics: tuple[int, ...], version: int) -> str:
    of = f" topic={','.join(map(str, topics))}" if topics else ""
    return f"{of} version={version}" if version else of


def _topics(what: object) -> tuple[int, ...]:
    match what:
        case Delta(topic=topic) | Chunk(topic=topic) | Pulled(topic=topic):
            return (topic,)
        case Refused(topic=topic):
            return (topic,) if topic >= 0 else ()
        case Drop(topics=topics):
            return topics if len(topics) <= TOPICS_MAX else ()
        case Filed(versions=versions):
            return tuple(one for one, _ in versions) if len(versions) <= TOPICS_MAX else ()
        case Join(positions=some) | ReaderStatus(positions=some):
            return tuple(one.topic for one in some) if len(some) <= TOPICS_MAX else ()
        case CatchUp(wanted=some) | Joined(topics=some):
            return tuple(one.topic for one in some) if len(some) <= TOPICS_MAX else ()
        case _:
            touched: tuple[int, ...] = getattr(what, "touched", ())  # of an effect that has topics
            return touched if len(touched) <= TOPICS_MAX else ()
