"""Requests that wait for the events of everything that was committed before they came.

    added ──a poll that began later──▶ its events are known ──all published──▶ taken

Requests share the next poll, never one that already runs: its read may precede their commit.
"""

from typing import Final, Generic, TypeVar

from .pending import Pending, PendingRequests

WAITING_MAX: Final = 10_000  # ten calls of each of 1,000 drivers
WAIT_S_MAX: Final = 60.0

ValueT = TypeVar("ValueT")


class EventWaits(Generic[ValueT]):
    """Requests, each with a value of the caller's, by the number of the poll that they wait for."""

    def __init__(self) -> None:
        self._pending: PendingRequests[int, ValueT] = PendingRequests(
            requests_max=WAITING_MAX, wait_s=WAIT_S_MAX
        )
        self._last_seq: dict[int, int] = {}
        """By the number of a poll that ended: the arrival number of the last event it brought."""

    def __len__(self) -> int:
        return len(self._pending)

    def waits(self, peer: bytes, request: int) -> bool:
        """Return whether this request waits."""
        return self._pending.get(peer, request) is not None

    def add(
        self, peer: bytes, request: int, value: ValueT, *, polls_begun: int, now: float
    ) -> bool:
        """Let a request wait, once however often it is sent; False if too many do."""
        if self.waits(peer, request):
            return True
        return self._pending.add(peer, request, key=polls_begun + 1, value=value, now=now)

    def remove_peer(self, peer: bytes) -> tuple[Pending[int, ValueT], ...]:
        """Remove and return the requests of ``peer``, which has left."""
        return self._pending.remove_peer(peer)

    def wants_poll(self, polls_begun: int) -> bool:
        """Return whether a request waits for a poll that has not begun."""
        unknown = (poll for poll in self._pending.awaited() if poll not in self._last_seq)
        return any(poll > polls_begun for poll in unknown)

    def on_polled(self, poll: int, seq: int) -> None:
        """Note that poll number ``poll`` brought everything up to arrival number ``seq``."""
        awaited = (number for number in self._pending.awaited() if number <= poll)
        self._last_seq = {number: self._last_seq.get(number, seq) for number in awaited}

    def take_published(self, unresolved: int) -> tuple[Pending[int, ValueT], ...]:
        """Remove and return the requests whose events are all below ``unresolved``."""
        ended = [poll for poll, seq in self._last_seq.items() if seq < unresolved]
        for poll in ended:
            del self._last_seq[poll]
        return tuple(one for poll in ended for one in self._pending.take(poll))

    def expire(self, now: float) -> tuple[Pending[int, ValueT], ...]:
        """Remove and return the requests that have waited too long."""
        return self._pending.expire(now)

    def check(self) -> None:
        """Assert every invariant."""
        self._pending.check()
