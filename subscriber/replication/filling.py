"""Filling: what the steps of a follower mean for what is held, shown and told to those who watch.

full     entries are put in place             readers are shown what they bring
         stubs among them hit what was pulled because its values are withheld
minimal  stubs hit what was pulled, no more   a horizon counts as a stub for every table
"""

from collections.abc import Callable, Sequence

from ...topics.entries import FULL, Entry, group_of, stub
from ...topics.follower import LIVE, Apply, CaughtUp, File, Follower, Reset
from ...topics.sharding import NAMESPACE
from ...topics.wire.messages import Chunk, Delta
from ..fetch.fence import Fence
from ..protocol.facts import Change, Changed, Effect
from ..store.change_feed import Journal
from ..store.memory_budget import Account
from ..store.pin_rules import PinRules
from ..store.read_floor import Shown
from ..store.resident_set import Holdings
from ..store.view import Swap, TopicView

Step = Apply | Reset | File | CaughtUp


class Filling:
    """Takes steps, one topic at a time; ``live``: readers look at the place that is filled."""

    def __init__(self, holdings: Holdings, *, shown: Shown, journal: Journal) -> None:
        self.fence = Fence()
        self.rules = PinRules()
        self.changed: Callable[[int, Entry], object] = lambda _topic, _entry: None  # before it is
        self.named: Callable[[Sequence[Swap]], object] = lambda _swaps: None  # of the namespace
        self.forgot_names: Callable[[], object] = lambda: None
        self._holdings = holdings
        self._shown = shown
        self._journal = journal
        self._changes: list[Change] = []

    def full(
        self,
        step: Step,
        place: TopicView,
        *,
        live: bool,
        fresh: bool,
        make_room: Callable[[int], bool],
    ) -> None:
        """Take a step of a follower at full; ``fresh``: it never was LIVE, so nothing changes."""
        holdings, journal = self._holdings, self._journal
        match step:
            case Reset(topic=topic, epoch=epoch):
                self._reset(topic, place, live=live)
                place.epoch = epoch
            case File(chunk=chunk):
                account = (chunk.topic, FULL)
                swaps = self._put(account, place, chunk.entries, make_room=make_room)
                if live:
                    self._shown.rise(chunk.topic, (chunk.epoch, chunk.to_version))
                    if not fresh:
                        journal.filed(chunk.topic, swaps)
            case CaughtUp(chunk=chunk, from_version=before):
                holdings.settle((chunk.topic, FULL))
                if not live:
                    return
                self._shown.rise(chunk.topic, (chunk.epoch, max(chunk.to_version, before)))
                self._changes += journal.caught_up(chunk.topic, chunk.to_version, place.groups)
                if chunk.topic == NAMESPACE:
                    self._changes += journal.vanished(chunk.to_version, holdings.view)
            case Apply(delta=delta):
                self._tell(delta.topic, delta.entries)
                changes = self._apply(delta, place, make_room)
                if live:
                    self._shown.rise(delta.topic, (delta.epoch, delta.to_version))
                    self._changes += changes

    def minimal(self, step: Step, place: TopicView, *, live: bool) -> None:
        """Take a step of a follower at minimal."""
        match step:
            case File(chunk=chunk):
                self._tell(chunk.topic, chunk.entries)
                if chunk.horizon:
                    self._horizon(chunk.topic, chunk.epoch, chunk.to_version)
                self._hit(chunk.topic, place, chunk.entries)
                self._changes += self._missed(chunk) if live else ()
                self._shown.know(chunk.topic)
            case Apply(delta=delta):
                self._tell(delta.topic, delta.entries)
                if delta.horizon:
                    self._horizon(delta.topic, delta.epoch, delta.to_version)
                self._hit(delta.topic, place, delta.entries)
                if live:
                    self._changes += self._stubbed(delta)
            case _:
                pass

    def _reset(self, topic: int, place: TopicView, *, live: bool) -> None:
        if live:
            self._journal.reset(topic, place.groups, known=self._shown.known(topic))
        self._holdings.empty((topic, FULL), place)
        if topic == NAMESPACE:
            self.forgot_names()

    def between(self, old: Follower, new: Follower) -> None:
        """Tell what nobody told: what changed above the position of a level that is replaced."""
        if new.state == LIVE and (new.epoch, new.version) > (old.epoch, old.version):
            self._changes += self._journal.gap(new.topic, new.version, self._holdings.view)

    def told(self) -> tuple[Effect, ...]:
        """Return what is to be told to those who watch: all that has changed since the last."""
        if not self._changes:
            return ()
        changes, self._changes = tuple(self._changes), []
        return (Changed(changes),)

    def _stubbed(self, delta: Delta) -> tuple[Change, ...]:
        """Tell what a delta at minimal says has changed."""
        if delta.horizon:
            return self._journal.gap(delta.topic, delta.to_version, self._holdings.view)
        return self._journal.stubbed(delta)

    def _missed(self, chunk: Chunk) -> tuple[Change, ...]:
        """Tell what a catch-up at minimal says has changed, since something of it was known."""
        if not chunk.horizon:
            return self._journal.missed(chunk)
        if not chunk.from_version and not self._shown.known(chunk.topic):
            return ()
        return self._journal.gap(chunk.topic, chunk.to_version, self._holdings.view)

    def _apply(
        self, delta: Delta, place: TopicView, make_room: Callable[[int], bool]
    ) -> tuple[Change, ...]:
        """Take a delta with values; of a topic that is being lowered nothing is held any more."""
        if place.partial:
            self._holdings.hit(delta.topic, place, delta.entries)
            return self._journal.stubbed(delta)
        swaps = self._put((delta.topic, FULL), place, delta.entries, make_room=make_room)
        return self._journal.applied(delta, swaps)

    def _put(
        self,
        account: Account,
        place: TopicView,
        entries: Sequence[Entry],
        *,
        make_room: Callable[[int], bool],
    ) -> Sequence[Swap]:
        """Put entries in place; what is never to be kept is filed without its value."""
        if account[0] == NAMESPACE:
            swaps = self._holdings.put(account, place, entries, make_room=make_room)
            self.named(swaps)
            return swaps
        if self.rules.bans:
            banned = self.rules.banned
            entries = [stub(one) if banned(group_of(one.key)) else one for one in entries]
        return self._holdings.put(account, place, entries, make_room=make_room)

    def _tell(self, topic: int, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.changed(topic, entry)

    def _horizon(self, topic: int, epoch: int, version: int) -> None:
        if self._holdings.view.topics[topic].epoch != epoch:
            self.fence.renew(topic)
        self.fence.horizon(topic, version)
        self._holdings.horizon(topic, epoch, version)

    def _hit(self, topic: int, place: TopicView, entries: Sequence[Entry]) -> None:
        if len(self.fence):
            for entry in entries:
                self.fence.hit(group_of(entry.key), entry.version)
        self._holdings.hit(topic, place, entries)
