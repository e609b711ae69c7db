"""Pinning by name: pins one table for an application, and says when it is held."""

from collections.abc import Callable

from ...topics.entries import NONE
from ...topics.errors import NoSuchObject, OverBudget, UsageError
from ...topics.objects.names import table_key, table_name
from ...topics.sharding import table_topic
from ..protocol.facts import AskPin, AskTable, Effect, Fail
from ..protocol.pending import Wait
from ..replication.subscriptions import Subscriptions
from .controller import PlacementController
from .prefetch import Prefetcher
from .priorities import Priorities


class Pinning:
    """The pinned tables of one subscriber; ``prefetches`` pulls them."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        placement: PlacementController,
        priorities: Priorities,
        *,
        pull: Callable[[AskTable, float], tuple[Effect, ...]],
    ) -> None:
        self.pins = priorities.pins
        self._subscriptions = subscriptions
        self._placement = placement
        replicas = subscriptions.replicas
        self.prefetcher = Prefetcher(
            replicas, priorities, pull=pull, follow=placement.follow_pinned
        )

    def pin(self, ask: AskPin) -> Wait | Fail:
        """Pin a table: return what to wait for, or why that cannot be."""
        name, view = table_name(ask.db, ask.table), self._subscriptions.replicas.view
        if view.record(ask.db, ask.table) is None:
            return Fail(ask.id, NoSuchObject(name))
        topic = table_topic(ask.db, ask.table, self._subscriptions.num_topics)
        if self._placement.is_by_hand(topic) and self._subscriptions.replicas.level(topic) == NONE:
            text = f"{name} is in topic {topic}, which was dropped by hand: join it first"
            return Fail(ask.id, UsageError(text))
        self.pins.rules.pin(ask.db, ask.table)
        self.pins.add(ask.db, ask.table)
        self._repin()
        return Wait(
            id=ask.id,
            give_up_at=ask.give_up_at,
            done=lambda: self.prefetcher.kept(table_key(ask.db, ask.table)),
            failure=lambda: self._over(ask),
            missing=lambda: f"{name} is pinned and not held yet: {self._missing()}",
        )

    def unpin(self, db: str, table: str) -> None:
        """Leave a table to its use."""
        self.pins.unpin(db, table)
        self._repin()

    def check(self) -> None:
        """Assert every invariant."""
        self.pins.check()
        self.prefetcher.check()

    def _over(self, ask: AskPin) -> OverBudget | None:
        """Return why a table does not fit; it is left to its use then."""
        needed_bytes = self.pins.over.get(table_key(ask.db, ask.table))
        if needed_bytes is None:
            return None
        self.unpin(ask.db, ask.table)
        name, free_bytes = table_name(ask.db, ask.table), self.prefetcher.room_bytes
        return OverBudget(name, needed_bytes=needed_bytes, free_bytes=free_bytes)

    def _repin(self) -> None:
        for moved in self.pins.take_moved():
            self._subscriptions.replicas.resident_set.repin(*moved)

    def _missing(self) -> str:
        if self._subscriptions.ready():
            return "catalogd has not sent it"
        return self._subscriptions.missing()
