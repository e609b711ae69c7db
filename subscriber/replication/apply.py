"""Applies the steps of followers to the resident set, and gathers what readers are notified of.

full     entries are put in place             readers are shown what they bring
         stubs among them end what was pulled because its values are withheld
minimal  stubs end what was pulled, no more   a horizon counts as a stub for every table
"""

from collections.abc import Callable, Sequence

from ...topics.follower import LIVE, Apply, CaughtUp, File, Follower, Reset
from ...topics.topic import FULL, NAMESPACE, Entry, group_of, stub
from ...topics.wire.messages import Chunk, Delta
from ..fetch.fetcher import InvalidationFence
from ..protocol.shell import Change, Effect, Notify
from ..store.change_feed import ChangeFeed
from ..store.resident_set import Account, PinPolicy, ResidentSet
from ..store.table_snapshot import Swap
from ..store.view import ReadFloor, TopicView

Step = Apply | Reset | File | CaughtUp


class StepApplier:
    """Applies steps, one topic at a time; ``live``: readers see the content that is changed."""

    def __init__(
        self,
        resident_set: ResidentSet,
        policy: PinPolicy,
        *,
        fence: InvalidationFence,
        read_floor: ReadFloor,
        change_feed: ChangeFeed,
    ) -> None:
        self._fence = fence
        self._resident_set = resident_set
        self._policy = policy
        self._read_floor = read_floor
        self._change_feed = change_feed
        self._changes: list[Change] = []  # since ``take_changes``

    def apply_full(
        self,
        step: Step,
        held: TopicView,
        *,
        live: bool,
        loading: bool,
        make_room: Callable[[int], bool],
    ) -> None:
        """Apply a step of a follower at full; what it brings is no change while ``loading``."""
        resident_set, change_feed = self._resident_set, self._change_feed
        match step:
            case Reset(topic=topic, epoch=epoch):
                self._reset(topic, held, live=live)
                held.epoch = epoch
            case File(chunk=chunk):
                account = (chunk.topic, FULL)
                swaps = self._put(account, held, chunk.entries, make_room=make_room)
                if live:
                    self._read_floor.answered(chunk.topic, (chunk.epoch, chunk.to_version))
                    if not loading:
                        change_feed.on_chunk(chunk.topic, swaps)
            case CaughtUp(chunk=chunk, from_version=before):
                resident_set.end_reservation((chunk.topic, FULL))
                if not live:
                    return
                self._read_floor.answered(chunk.topic, (chunk.epoch, max(chunk.to_version, before)))
                self._changes += change_feed.on_caught_up(
                    chunk.topic, chunk.to_version, held.groups
                )
                if chunk.topic == NAMESPACE:
                    self._changes += change_feed.on_names_caught_up(
                        chunk.to_version, resident_set.view
                    )
            case Apply(delta=delta):
                self._report_entries(delta.topic, delta.entries)
                changes = self._apply(delta, held, make_room)
                if live:
                    self._read_floor.answered(delta.topic, (delta.epoch, delta.to_version))
                    self._changes += changes

    def apply_minimal(self, step: Step, held: TopicView, *, live: bool) -> None:
        """Apply a step of a follower at minimal."""
        match step:
            case File(chunk=chunk):
                self._report_entries(chunk.topic, chunk.entries)
                if chunk.invalidate_all:
                    self._invalidate_all(chunk.topic, chunk.epoch, chunk.to_version)
                self._invalidate(chunk.topic, held, chunk.entries)
                self._changes += self._missed(chunk) if live else ()
                self._read_floor.mark_seen(chunk.topic)
            case Apply(delta=delta):
                self._report_entries(delta.topic, delta.entries)
                if delta.invalidate_all:
                    self._invalidate_all(delta.topic, delta.epoch, delta.to_version)
                self._invalidate(delta.topic, held, delta.entries)
                if live:
                    self._changes += self._stubbed(delta)
            case _:
                pass

    def _reset(self, topic: int, held: TopicView, *, live: bool) -> None:
        if live:
            self._change_feed.on_snapshot(
                topic, held.groups, known=self._read_floor.was_seen(topic)
            )
        self._resident_set.begin_snapshot((topic, FULL), held)
        if topic == NAMESPACE:
            for unpinned in self._policy.on_names_discarded():
                self._resident_set.repin(*unpinned)

    def level_changed(self, old: Follower, new: Follower) -> None:
        """Report what may have changed between the positions of a level and of its successor."""
        if new.state is LIVE and (new.epoch, new.version) > (old.epoch, old.version):
            self._changes += self._change_feed.gap(new.topic, new.version, self._resident_set.view)

    def take_changes(self) -> tuple[Effect, ...]:
        """Return what readers are to be notified of: all that has changed since the last call."""
        if not self._changes:
            return ()
        changes, self._changes = tuple(self._changes), []
        return (Notify(changes),)

    def _stubbed(self, delta: Delta) -> tuple[Change, ...]:
        """Return what a delta at minimal says has changed."""
        if delta.invalidate_all:
            return self._change_feed.gap(delta.topic, delta.to_version, self._resident_set.view)
        return self._change_feed.stubbed(delta)

    def _missed(self, chunk: Chunk) -> tuple[Change, ...]:
        """Return what a catch-up at minimal says has changed, if something of it was known."""
        if not chunk.invalidate_all:
            return self._change_feed.missed(chunk)
        if not chunk.from_version and not self._read_floor.was_seen(chunk.topic):
            return ()
        return self._change_feed.gap(chunk.topic, chunk.to_version, self._resident_set.view)

    def _apply(
        self, delta: Delta, held: TopicView, make_room: Callable[[int], bool]
    ) -> tuple[Change, ...]:
        """Apply a delta with values; of a topic that is being lowered nothing is held any more."""
        if held.pulled_only:
            self._resident_set.apply_to_pulled(delta.topic, held, delta.entries)
            return self._change_feed.stubbed(delta)
        swaps = self._put((delta.topic, FULL), held, delta.entries, make_room=make_room)
        return self._change_feed.applied(delta, swaps)

    def _put(
        self,
        account: Account,
        held: TopicView,
        entries: Sequence[Entry],
        *,
        make_room: Callable[[int], bool],
    ) -> Sequence[Swap]:
        """Put entries in place; of a banned table without their values."""
        if account[0] == NAMESPACE:
            swaps = self._resident_set.apply(account, held, entries, make_room=make_room)
            self._policy.on_names_changed(swaps)
            return swaps
        if self._policy.has_bans:
            banned = self._policy.banned
            entries = [stub(one) if banned(group_of(one.key)) else one for one in entries]
        return self._resident_set.apply(account, held, entries, make_room=make_room)

    def _report_entries(self, topic: int, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._policy.on_entry_changed(topic, entry)

    def _invalidate_all(self, topic: int, epoch: int, version: int) -> None:
        if self._resident_set.view.topics[topic].epoch != epoch:
            self._fence.new_epoch(topic)
        self._fence.invalidate_all(topic, version)
        self._resident_set.invalidate_all(topic, epoch, version)

    def _invalidate(self, topic: int, held: TopicView, entries: Sequence[Entry]) -> None:
        if len(self._fence):
            for entry in entries:
                self._fence.invalidate(group_of(entry.key), entry.version)
        self._resident_set.apply_to_pulled(topic, held, entries)
