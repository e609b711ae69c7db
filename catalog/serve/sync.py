"""Syncs: who waits for everything that the metastore had committed when they asked.

    asked ──a poll that began later──▶ knows its events ──all published──▶ answered

Callers share the next poll, never one that already runs: its read may precede their commit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

WAITING_MAX: Final = 10_000  # ten calls of each of 1,000 drivers
WAIT_S_MAX: Final = 60.0


@dataclass(slots=True)
class _Waiting:
    poll: int
    give_up_at: float
    seq: int | None = None


class Syncs:
    """The callers of ``sync`` that have no answer yet."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[bytes, int], _Waiting] = {}  # by peer and request

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, peer: bytes, request: int, *, polls_begun: int, now: float) -> bool:
        """Let a caller wait, once however often it asks; False if too many do."""
        if (peer, request) in self._waiting:
            return True
        if len(self._waiting) >= WAITING_MAX:
            return False
        waiting = _Waiting(polls_begun + 1, now + WAIT_S_MAX)
        self._waiting[peer, request] = waiting
        return True

    def forget(self, peer: bytes) -> None:
        """Let nothing of ``peer`` wait any longer."""
        self._waiting = {who: one for who, one in self._waiting.items() if who[0] != peer}

    def wants_poll(self, polls_begun: int) -> bool:
        """Whether somebody waits for a poll that has not begun."""
        return any(one.seq is None and one.poll > polls_begun for one in self._waiting.values())

    def polled(self, poll: int, seq: int) -> None:
        """Learn that poll number ``poll`` brought everything up to arrival number ``seq``."""
        for one in self._waiting.values():
            if one.seq is None and one.poll <= poll:
                one.seq = seq

    def answer(self, unresolved: int) -> tuple[tuple[bytes, int], ...]:
        """Return (peer, request) of those whose events are all published, and forget them."""
        return self._remove(lambda one: one.seq is not None and one.seq < unresolved)

    def expire(self, now: float) -> tuple[tuple[bytes, int], ...]:
        """Return (peer, request) of those who waited too long, and forget them."""
        return self._remove(lambda one: one.give_up_at <= now)

    def _remove(self, test: Callable[[_Waiting], bool]) -> tuple[tuple[bytes, int], ...]:
        removed = tuple(who for who, one in self._waiting.items() if test(one))
        for who in removed:
            del self._waiting[who]
        return removed
