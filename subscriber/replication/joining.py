"""Joining: what the hub is told about levels, and the proof that subscriptions are active.

    full     ──Join──▶ ASKED ──Joined──▶ subscribed, FENCING ──Barrier──▶ FENCED: catch up
    minimal  subscribed, FENCING ──Barrier──▶ FENCED ──Join──▶ Joined: where it stands

At full the bytes are known before anything is subscribed to. At minimal a Joined that was asked
for behind the barrier is a position: every later delta comes. One Join and one barrier serve many
topics; one barrier is under way at a time, and what is new meanwhile waits for the next. With
another hub, or the same after a restart, everything that is followed is joined and subscribed to
again; what is LIVE answers meanwhile.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from ...topics.requests import Requests
from ...topics.wire.header import barrier_prefix, prefix
from ...topics.wire.messages import Drop, Join, Position
from ..protocol.facts import CONTROL, Effect, Send, Subscribe, Unsubscribe
from ..store.memory_budget import Account

BARRIER_AGAIN_S: Final = 1.0  # it takes under a millisecond; a lost one was cut off with all else


@dataclass(frozen=True, slots=True)
class _Asked:
    join: Join
    fenced: bool


class Joining:
    """The dialogue with one hub about levels; begins anew with each registration."""

    def __init__(self, next_id: Callable[[], int], new_nonce: Callable[[], bytes]) -> None:
        self._next_id = next_id
        self._requests: Requests[_Asked] = Requests(next_id)
        self._new_nonce = new_nonce
        self._subscribed: set[Account] = set()
        self._fenced: set[Account] = set()
        self._nonce = b""
        self._fencing: set[Account] = set()  # by the barrier under way,
        self._unfenced: set[Account] = set()  # and by the next
        self._again_at = 0.0

    @property
    def deadline(self) -> float | None:
        """The time at which ``due`` has something."""
        barrier = self._again_at if self._nonce else None
        times = [at for at in (barrier, self._requests.deadline) if at is not None]
        return min(times, default=None)

    def fenced(self, account: Account) -> bool:
        """Whether deltas of a topic at a level are sure to come on this connection."""
        return account in self._fenced

    def restart(self, *, keeps_data: bool) -> None:
        """Begin anew: the hub knows nothing of us; ``keeps_data``: its data connection stays."""
        self._requests.clear()
        if not keeps_data:
            self._subscribed.clear()
            self._fenced.clear()
            self._fencing.clear()
            self._unfenced.clear()
            self._nonce = b""

    def join(
        self, positions: Iterable[Position], *, now: float, fenced: bool = False
    ) -> tuple[Effect, ...]:
        """Ask to follow topics from ``positions``; ``fenced``: deltas of all of them come."""
        self._requests.open(_Asked(Join(request=0, positions=tuple(positions)), fenced), now=now)
        return self.due(now)

    def joined(self, request: int) -> bool | None:
        """Take the answer to a Join: whether it was fenced; None if it is not one that waits."""
        asked = self._requests.close(request)
        return None if asked is None else asked.fenced

    def settle(self, wanted: Iterable[Account], *, now: float) -> tuple[Effect, ...]:
        """Subscribe to what is ``wanted`` and to nothing else; tell the hub what is dropped.

        What is new is fenced together. Should the hub not hear, it counts us wrongly.
        """
        wanted = set(wanted)
        gone = sorted(self._subscribed - wanted)
        news = sorted(wanted - self._subscribed)
        effects: list[Effect] = [Unsubscribe(prefix(*account)) for account in gone]
        for held in (self._subscribed, self._fenced, self._fencing, self._unfenced):
            held.difference_update(gone)
        topics = {topic for topic, _ in wanted}
        dropped = sorted({topic for topic, _ in gone if topic not in topics})
        if dropped:
            effects += self.drop(dropped)
        if news:
            self._subscribed.update(news)
            self._unfenced.update(news)
            effects += [Subscribe(prefix(*account)) for account in news]
            effects += () if self._nonce else self._barrier(now)
        return tuple(effects)

    def on_barrier(
        self, nonce: bytes, *, now: float
    ) -> tuple[tuple[Account, ...], tuple[Effect, ...]]:
        """Return what is fenced now; what is new since the barrier began gets the next."""
        if not self._nonce or nonce != self._nonce:
            return (), ()
        fenced = tuple(sorted(self._fencing))
        self._fenced.update(fenced)
        self._fencing.clear()
        self._nonce = b""
        effects: tuple[Effect, ...] = (Unsubscribe(barrier_prefix(nonce)),)
        return fenced, effects + (self._barrier(now) if self._unfenced else ())

    def drop(self, topics: Iterable[int]) -> tuple[Effect, ...]:
        """Tell the hub that ``topics`` are not followed."""
        return (Send(CONTROL, Drop(request=self._next_id(), topics=tuple(topics))),)

    def due(self, now: float) -> tuple[Effect, ...]:
        """Ask again what was not answered in time."""
        effects: list[Effect] = []
        for request, asked in self._requests.due(now):
            effects.append(Send(CONTROL, replace(asked.join, request=request)))
        if self._nonce and now >= self._again_at:
            effects += self._barrier(now)
        return tuple(effects)

    def _barrier(self, now: float) -> tuple[Effect, ...]:
        old = (Unsubscribe(barrier_prefix(self._nonce)),) if self._nonce else ()
        self._fencing |= self._unfenced
        self._unfenced.clear()
        self._nonce = self._new_nonce()
        self._again_at = now + BARRIER_AGAIN_S
        return *old, Subscribe(barrier_prefix(self._nonce))
