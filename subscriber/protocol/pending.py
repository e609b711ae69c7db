"""Waits: asks that are answered when something has come about, or fail when their time is over."""

from collections.abc import Callable
from dataclasses import dataclass

from ...topics.errors import NotReady, TopicastError
from .facts import Answer, Effect, Fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One ask: when it is done, why it never will be, and what is missing until then.

    ``result`` is the answer. ``finish`` is called once, after it was answered or failed.
    """

    id: int
    give_up_at: float
    done: Callable[[], bool]
    failure: Callable[[], TopicastError | None]
    missing: Callable[[], str]
    result: Callable[[], object] = lambda: None
    finish: Callable[[], None] = lambda: None


class Waits:
    """What waits, oldest first."""

    def __init__(self) -> None:
        self._waits: list[Wait] = []

    @property
    def deadline(self) -> float | None:
        """The time at which somebody gives up."""
        return min((wait.give_up_at for wait in self._waits), default=None)

    def add(self, wait: Wait) -> None:
        """Let ``wait`` be settled with all others."""
        self._waits.append(wait)

    def settle(self, *, now: float) -> tuple[Effect, ...]:
        """Answer what has come about, fail what cannot any more."""
        if not self._waits:
            return ()
        effects: list[Effect] = []
        left: list[Wait] = []
        for wait in self._waits:
            outcome = _outcome(wait, now)
            if outcome is None:
                left.append(wait)
                continue
            effects.append(outcome)
            wait.finish()
        self._waits = left
        return tuple(effects)


def _outcome(wait: Wait, now: float) -> Effect | None:
    failure = wait.failure()
    if failure is not None:
        return Fail(wait.id, failure)
    if wait.done():
        return Answer(wait.id, wait.result())
    if now >= wait.give_up_at:
        return Fail(wait.id, NotReady(wait.missing()))
    return None
