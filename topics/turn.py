"""Turn: the clock and the outbox that the parts of one core share while it handles facts.

    handle(facts, now) ──▶ parts read ``now``, and ``add`` effects ──end──▶ effects

The core makes its Turn and gives it to its parts at construction, so that no part passes the time
on, or hands back what others have decided. Effects are in the order in which they were added.
"""

from typing import Generic, Protocol, TypeVar

from .trace import Trace

EffectT = TypeVar("EffectT")
EffectT_contra = TypeVar("EffectT_contra", contravariant=True)


class Clock(Protocol):
    """The time of a turn, for a part that decides nothing else by it."""

    @property
    def now(self) -> float:
        """Seconds, monotonic."""

    @property
    def now_us(self) -> int:
        """Microseconds since 1970; 0 in a core that is not told them."""


class Outbox(Clock, Protocol[EffectT_contra]):
    """The turn as a part sees it that decides these effects, and no others."""

    def add(self, effect: EffectT_contra, /) -> None:
        """Have ``effect`` performed, behind those before it."""


class Turn(Generic[EffectT]):
    """The time of this turn, what was decided in it, and a trace of the turns before."""

    def __init__(self, *, quiet: tuple[type, ...] = ()) -> None:
        """``quiet``: the types of facts and effects that the trace leaves out."""
        self.now = 0.0  # seconds, monotonic: the core sets it as a turn begins
        self.now_us = 0  # microseconds since 1970: likewise, in a core that is told them
        self.trace = Trace(quiet)
        self._effects: list[EffectT] = []
        self.add = self._effects.append  # one effect, behind those before it

    def came(self, fact: object) -> None:
        """Note in the trace that ``fact``, or the message in it, came in."""
        self.trace.note(self.now, "in", getattr(fact, "message", fact))

    def end(self) -> tuple[EffectT, ...]:
        """Take what was decided, and note it in the trace."""
        if not self._effects:
            return ()
        effects = tuple(self._effects)
        self._effects.clear()
        for effect in effects:
            self.trace.note(self.now, "out", getattr(effect, "message", effect))
        return effects

    def discard(self) -> None:
        """Drop what was decided in a turn that has failed."""
        self._effects.clear()
