"""Pinning: what somebody pins by name, and who hears of what, so that pins and hot tables are held.

filling ──entries, names──▶ pins, usage ──▶ prefetcher ──▶ pulls
resident_set ◀──pinned? may it be given up?── pins, prefetcher
"""

from collections.abc import Callable

from ...topics.entries import NONE, Entry
from ...topics.errors import NoSuchObject, OverBudget, UsageError
from ...topics.objects.names import table_key, table_name
from ...topics.sharding import table_topic
from ..protocol.facts import AskPin, AskTable, Effect, Fail
from ..protocol.pending import Wait
from ..replication.subscriptions import Following
from .controller import PlacementController
from .pins import Pins
from .prefetch import Prefetcher


class Pinning:
    """The pinned tables of one subscriber; ``prefetches`` pulls them."""

    def __init__(
        self,
        following: Following,
        placement: PlacementController,
        pins: Pins,
        *,
        pull: Callable[[AskTable, float], tuple[Effect, ...]],
    ) -> None:
        self.pins = pins
        self._following = following
        self._placement = placement
        levels = following.levels
        self.prefetcher = Prefetcher(
            levels, pins, placement.usage, pull=pull, follow=placement.follow_pinned
        )
        levels.resident_set.pinned = pins.known.__contains__
        levels.resident_set.yields = self.prefetcher.yields
        levels.resident_set.rate = self.prefetcher.rate
        levels.filling.rules = pins.rules
        levels.filling.changed = self._on_change
        levels.filling.named = pins.named
        levels.filling.forgot_names = pins.forgot_names

    def pin(self, ask: AskPin) -> Wait | Fail:
        """Pin a table: return what to wait for, or why that cannot be."""
        name, view = table_name(ask.db, ask.table), self._following.levels.view
        if view.record(ask.db, ask.table) is None:
            return Fail(ask.id, NoSuchObject(name))
        topic = table_topic(ask.db, ask.table, self._following.num_topics)
        if self._placement.is_by_hand(topic) and self._following.levels.level(topic) == NONE:
            text = f"{name} is in topic {topic}, which was dropped by hand: join it first"
            return Fail(ask.id, UsageError(text))
        self.pins.rules.pin(ask.db, ask.table)
        self.pins.add(ask.db, ask.table)
        return Wait(
            id=ask.id,
            give_up_at=ask.give_up_at,
            done=lambda: self.prefetcher.kept(table_key(ask.db, ask.table)),
            failure=lambda: self._over(ask),
            missing=lambda: f"{name} is pinned and not held yet: {self._missing()}",
        )

    def check(self) -> None:
        """Assert every invariant."""
        self.pins.check()
        self.prefetcher.check()

    def _over(self, ask: AskPin) -> OverBudget | None:
        """Return why a table does not fit; it is left to its use then."""
        needed_bytes = self.pins.over.get(table_key(ask.db, ask.table))
        if needed_bytes is None:
            return None
        self.pins.unpin(ask.db, ask.table)
        name, free_bytes = table_name(ask.db, ask.table), self.prefetcher.room_bytes
        return OverBudget(name, needed_bytes=needed_bytes, free_bytes=free_bytes)

    def _missing(self) -> str:
        if self._following.ready():
            return "catalogd has not sent it"
        return self._following.missing()

    def _on_change(self, topic: int, entry: Entry) -> None:
        if self.pins.known or len(self._placement.usage):  # else nothing of it is noted anywhere
            self._placement.changed(entry)
            self.prefetcher.changed(topic, entry)
