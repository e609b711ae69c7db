"""Syncs: who waits for everything that the metastore had committed when they asked.

    asked ──a poll that began later──▶ knows its events ──all published──▶ answered

Callers share the next poll, never one that already runs: its read may precede their commit.
"""

from dataclasses import dataclass
from typing import Final

WAITING_MAX: Final = 10_000  # ten calls of each of 1,000 drivers
WAIT_S_MAX: Final = 60.0


@dataclass(slots=True)
class _Waiting:
    peer: bytes
    request: int
    poll: int
    give_up_at: float
    seq: int | None = None


class Syncs:
    """The callers of ``sync`` that have no answer yet."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, peer: bytes, request: int, *, polls_begun: int, now: float) -> bool:
        """Let a caller wait; False if too many do."""
        if len(self._waiting) >= WAITING_MAX:
            return False
        self._waiting.append(_Waiting(peer, request, polls_begun + 1, now + WAIT_S_MAX))
        return True

    def wants_poll(self, polls_begun: int) -> bool:
        """Whether somebody waits for a poll that has not begun."""
        return any(one.seq is None and one.poll > polls_begun for one in self._waiting)

    def polled(self, poll: int, seq: int) -> None:
        """Learn that poll number ``poll`` brought everything up to arrival number ``seq``."""
        for one in self._waiting:
            if one.seq is None and one.poll <= poll:
                one.seq = seq

    def answer(self, unresolved: int) -> tuple[tuple[bytes, int], ...]:
        """Return (peer, request) of those whose events are all published, and forget them."""
        done = [o for o in self._waiting if o.seq is not None and o.seq < unresolved]
        self._waiting = [o for o in self._waiting if o.seq is None or o.seq >= unresolved]
        return tuple((one.peer, one.request) for one in done)

    def expire(self, now: float) -> tuple[tuple[bytes, int], ...]:
        """Return (peer, request) of those who waited too long, and forget them."""
        late = [one for one in self._waiting if one.give_up_at <= now]
        self._waiting = [one for one in self._waiting if one.give_up_at > now]
        return tuple((one.peer, one.request) for one in late)
