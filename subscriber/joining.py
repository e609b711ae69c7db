"""Joining: what the hub is told about levels, and the proof that subscriptions are active.

    wanted ──Join──▶ ASKED ──Joined──▶ subscribed, FENCING ──Barrier──▶ FENCED: catch up

One Join and one barrier serve many topics. With another hub, or the same after a restart,
everything that is followed goes this way again; what is LIVE answers meanwhile.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from ..topics.entries import FULL
from ..topics.requests import Requests
from ..topics.wire.header import barrier_prefix, prefix
from ..topics.wire.messages import Drop, Join, Position
from .facts import CONTROL, Effect, Send, Subscribe, Unsubscribe

BARRIER_AGAIN_S: Final = 1.0  # it takes under a millisecond; a lost one was cut off with all else


class Joining:
    """The dialogue with one hub about levels; begins anew with each registration."""

    def __init__(self, next_id: Callable[[], int], new_nonce: Callable[[], bytes]) -> None:
        self._next_id = next_id
        self._requests: Requests[Join] = Requests(next_id)
        self._new_nonce = new_nonce
        self._subscribed: set[int] = set()
        self._fenced: set[int] = set()
        self._nonce = b""
        self._fencing: set[int] = set()
        self._again_at = 0.0

    @property
    def deadline(self) -> float | None:
        """The time at which ``due`` has something."""
        barrier = self._again_at if self._nonce else None
        times = [at for at in (barrier, self._requests.deadline) if at is not None]
        return min(times, default=None)

    def fenced(self, topic: int) -> bool:
        """Whether deltas of ``topic`` are sure to come on this connection."""
        return topic in self._fenced

    def restart(self, *, keeps_data: bool) -> None:
        """Begin anew: the hub knows nothing of us; ``keeps_data``: its data connection stays."""
        self._requests.clear()
        if not keeps_data:
            self._subscribed.clear()
            self._fenced.clear()
            self._fencing.clear()
            self._nonce = b""

    def join(self, positions: Iterable[Position], *, now: float) -> tuple[Effect, ...]:
        """Ask to follow topics from ``positions``."""
        self._requests.open(Join(request=0, positions=tuple(positions)), now=now)
        return self.due(now)

    def joined(self, request: int) -> bool:
        """Take the answer to a Join; False if it is not one that waits."""
        return self._requests.close(request) is not None

    def subscribe(self, topics: Iterable[int], *, now: float) -> tuple[Effect, ...]:
        """Subscribe to ``topics`` and fence them with one barrier, if they are not yet."""
        news = [topic for topic in topics if topic not in self._subscribed]
        if not news:
            return ()
        self._subscribed.update(news)
        self._fencing.update(news)
        effects: list[Effect] = [Subscribe(prefix(topic, FULL)) for topic in news]
        return *effects, *self._barrier(now)

    def on_barrier(self, nonce: bytes) -> tuple[tuple[int, ...], tuple[Effect, ...]]:
        """Return the topics that are fenced now."""
        if not self._nonce or nonce != self._nonce:
            return (), ()
        fenced = tuple(sorted(self._fencing))
        self._fenced.update(fenced)
        self._fencing.clear()
        self._nonce = b""
        return fenced, (Unsubscribe(barrier_prefix(nonce)),)

    def drop(self, topics: Iterable[int]) -> tuple[Effect, ...]:
        """Unsubscribe, and tell the hub once: should it not hear, it counts us wrongly, no more."""
        topics = tuple(topics)
        gone = [topic for topic in topics if topic in self._subscribed]
        for held in (self._subscribed, self._fenced, self._fencing):
            held.difference_update(topics)
        told = Send(CONTROL, Drop(request=self._next_id(), topics=topics))
        return *(Unsubscribe(prefix(topic, FULL)) for topic in gone), told

    def due(self, now: float) -> tuple[Effect, ...]:
        """Ask again what was not answered in time."""
        effects: list[Effect] = []
        for request, subject in self._requests.due(now):
            effects.append(Send(CONTROL, replace(subject, request=request)))
        if self._nonce and now >= self._again_at:
            effects += self._barrier(now)
        return tuple(effects)

    def _barrier(self, now: float) -> tuple[Effect, ...]:
        old = (Unsubscribe(barrier_prefix(self._nonce)),) if self._nonce else ()
        self._nonce = self._new_nonce()
        self._again_at = now + BARRIER_AGAIN_S
        return *old, Subscribe(barrier_prefix(self._nonce))
