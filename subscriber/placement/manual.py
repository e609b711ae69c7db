"""Manual: levels that an application sets by hand, of several topics in one request.

All of them or none: what cannot be is known before anything is changed. On the wire they are one
Join, behind one barrier.
"""

from ...topics.entries import NONE
from ...topics.errors import TopicastError
from ..protocol.facts import Answer, AskDrop, AskJoin, Effect, Fail
from ..protocol.pending import Wait
from ..replication.subscriptions import Subscriptions
from .controller import PlacementController


class Manual:
    """Sets levels, and lets nobody choose others."""

    def __init__(self, subscriptions: Subscriptions, placement: PlacementController) -> None:
        self._subscriptions = subscriptions
        self._placement = placement

    def join(self, ask: AskJoin, *, now: float) -> tuple[tuple[Effect, ...], Wait]:
        """Begin to follow topics; return what to wait for."""
        subscriptions, topics = self._subscriptions, ask.topics

        def failure() -> TopicastError | None:
            return next((f for f in map(subscriptions.failure, topics) if f is not None), None)

        effects = subscriptions.join(topics, ask.level, now=now)
        for topic in topics if failure() is None else ():
            self._placement.by_hand(topic)
        wait = Wait(
            id=ask.id,
            give_up_at=ask.give_up_at,
            done=lambda: all(subscriptions.replicas.joined(topic, ask.level) for topic in topics),
            failure=failure,
            missing=subscriptions.missing,
        )
        return effects, wait

    def drop(self, ask: AskDrop) -> tuple[Effect, ...]:
        """Follow topics no longer; one that is not followed stays so."""
        for topic in ask.topics:
            error = self._subscriptions.misnamed(topic, NONE)
            if error is not None:
                return (Fail(ask.id, error),)
        effects: tuple[Effect, ...] = ()
        for topic in ask.topics:
            self._placement.by_hand(topic)
            effects += self._subscriptions.drop(topic)
        return *effects, Answer(ask.id, None)
