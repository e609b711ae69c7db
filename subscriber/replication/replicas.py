"""The replicas of all followed topics: their catch-ups, their bytes, and which may be read.

    full     entries are put in place; a stub discards the pulled content of its table, because
             catalogd withholds the table's values; watches are notified of differences
    minimal  a stub discards the pulled content of its table, and watches are notified of it; an
             invalidate-all marker counts as a stub for every table

A topic is open to readers while its follower is LIVE, of one epoch with the namespace, and has
reached its read floor. While a LIVE follower is below the floor, readers get only tables that were
pulled at or above the floor. topic_replica.py shows how a topic changes its level.
Invariant: the bytes held never exceed the budget. Before they grow, the replicas make room: they
evict pulled tables, then lower the largest topics, but never the namespace for another topic.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from ...topics.errors import OverBudget
from ...topics.objects.names import group_of, name_of
from ...topics.streams.follower import (
    LIVE,
    Adopt,
    Adopted,
    Apply,
    CaughtUp,
    Due,
    Fact,
    File,
    Follower,
    PeerAt,
    Reset,
    StreamLost,
    Want,
)
from ...topics.streams.followers import Abandoned, Followers, Step, TopicLevel
from ...topics.streams.sender import CREDIT_DEFAULT, REFUSAL_COST, STUBS_BYTES_MAX, chunk_cost
from ...topics.topic import FULL, MINIMAL, NAMESPACE, NONE, Entry, topic_ids
from ...topics.turn import Turn
from ...topics.wire.messages.connection import Refused
from ...topics.wire.messages.data import Chunk, Delta, Heartbeat
from ...topics.wire.messages.readers import Cancel, Position
from ..fetch.fetcher import InvalidationFence
from ..protocol.commands import Wake
from ..protocol.effects import Change, Connection, Effect, Send
from ..store.change_feed import ChangeFeed
from ..store.resident_set import NoRoom, ResidentSet
from ..store.table_snapshot import Swap, TableSnapshot
from ..store.view import ReadFloor, TopicView, full_topic_view
from .agreement import Agreement
from .hub_session import HubSession
from .topic_replica import TopicReplica

CREDIT_STEP: Final = CREDIT_DEFAULT // 8  # a Credit for less is not worth its frame


class TopicReplicas:
    """The followed topics by number, and what they share."""

    def __init__(
        self,
        resident_set: ResidentSet,
        *,
        turn: Turn[Effect],
        session: HubSession,
        read_floor: ReadFloor,
        next_id: Callable[[], int],
        wake: Wake,
    ) -> None:
        self._turn = turn
        self._wake = wake  # polls the commands that wait for a topic
        self.view = resident_set.view
        self.budget = resident_set.budget
        self.resident_set = resident_set
        self._retention = resident_set.retention
        self.change_feed = ChangeFeed()
        self.fence = InvalidationFence(self.view.topic_of)
        self.catch_ups = 0  # requests for a catch-up since the start
        self.over: OverBudget | None = None  # why the namespace could not be held
        self._evicted: list[tuple[int, int]] = []  # (topic, bytes needed): lowered to make room
        self._set_changed = False  # topic levels came or went since ``take_set_changed``
        self.has_work = False  # ``take_evicted``, ``take_set_changed`` or ``request`` has something
        self._changes: list[Change] = []  # for watches, since ``take_changes``
        self._read_floor = read_floor
        self._next_id = next_id
        self._topics: dict[int, TopicReplica] = {}  # in the order in which they got their levels
        self.agreement = Agreement(self._topics.keys(), turn)
        self._followers = Followers(
            turn,
            next_id=next_id,
            credit_step=CREDIT_STEP,
            confirmed=session.confirmed,
            expected_bytes=self.expected_bytes,
            answer_s=lambda: session.answer_s,
        )

    # What is followed, and how far

    @property
    def deadline(self) -> float | None:
        """The time at which ``tick`` has work to do."""
        return self._followers.deadline

    @property
    def topics(self) -> tuple[int, ...]:
        """The followed topics."""
        return tuple(self._topics)

    def granted(self, stream: int) -> tuple[int, tuple[TopicLevel, ...]]:
        """Return the unused credit of a catch-up, and the topic levels that it still serves."""
        return self._followers.credit(stream), self._followers.served_by(stream)

    def __contains__(self, topic: int) -> bool:
        """Return whether ``topic`` is followed."""
        return topic in self._topics

    def __iter__(self) -> Iterator[TopicReplica]:
        """Yield the replica of each followed topic."""
        return iter(self._topics.values())

    def get(self, topic: int) -> TopicReplica | None:
        """Return the replica of ``topic``; None if it is not followed."""
        return self._topics.get(topic)

    def topic_levels(self) -> tuple[TopicLevel, ...]:
        """Return each topic with each level at which it is followed right now."""
        return self._followers.topic_levels()

    def level(self, topic: int) -> int:
        """Return the level at which ``topic`` is held."""
        if topic not in self._topics:
            return NONE
        return MINIMAL if self.view.topics[topic].pulled_only else FULL

    def target_level(self, topic: int) -> int:
        """Return the level at which ``topic`` will be held once its change is done."""
        replica = self._topics.get(topic)
        coming = None if replica is None else replica.coming
        return self.level(topic) if coming is None else coming.level

    def joined(self, topic: int, level: int) -> bool:
        """Return whether ``topic`` is LIVE at ``level``, with nothing coming."""
        return self.level(topic) == self.target_level(topic) == level and self.is_usable(topic)

    def is_usable(self, topic: int) -> bool:
        """Return whether ``topic`` is LIVE, of the namespace's epoch, and at its read floor.

        Incarnations mean something within one epoch only.
        """
        at, namespace = self.live_at(topic), self._topics.get(NAMESPACE)
        if at is None or namespace is None:
            return False
        return at >= self._read_floor.of(topic) and at[0] == namespace.current.epoch

    def live_at(self, topic: int) -> tuple[int, int] | None:
        """Return epoch and version at which ``topic`` is LIVE; None if it is not."""
        replica = self._topics.get(topic)
        return replica.position if replica is not None and replica.is_live else None

    def version(self, topic: int) -> int:
        """Return the version at which ``topic`` is held, or was last read."""
        replica = self._topics.get(topic)
        return self._read_floor.of(topic)[1] if replica is None else replica.current.version

    def versions(self, epoch: int) -> tuple[tuple[int, int], ...]:
        """Return (topic, version) of everything read, held or queued in ``epoch``, sorted."""
        versions = dict(self._read_floor.versions(epoch))
        for topic, replica in self._topics.items():
            newest = replica.newest_version(epoch)
            if newest:
                versions[topic] = max(versions.get(topic, 0), newest)
        return tuple(sorted(versions.items()))

    def holds(self, epoch: int) -> bool:
        """Return whether anything was read, or is held or queued, in ``epoch``."""
        known = self._read_floor.knows(epoch)  # called for each heartbeat of another start
        return known or any(one.newest_version(epoch) for one in self._topics.values())

    def positions(self) -> tuple[Position, ...]:
        """Return the position of each topic at the level that it is to have."""
        return tuple(replica.target() for replica in self._topics.values())

    def moved(self, since: Mapping[int, Position]) -> tuple[Position, ...]:
        """Return the positions that are not those in ``since``, which are by topic."""
        moved: list[Position] = []
        for topic, replica in self._topics.items():  # every second: a Position each would cost more
            one, old = replica.coming or replica.current, since.get(topic)
            if old is None or (one.version, one.epoch, one.level) != (
                old.version,
                old.epoch,
                old.level,
            ):
                moved.append(replica.target())
        return tuple(moved)

    def committed_bytes(self, topic: int) -> int:
        """Return what ``topic`` counts in the budget, or has reserved there."""
        return self.budget.committed((topic, MINIMAL)) + self.budget.committed((topic, FULL))

    def held_bytes(self, topic: int) -> int:
        """Return what ``topic`` counts in the budget."""
        return self.budget.held((topic, MINIMAL)) + self.budget.held((topic, FULL))

    # Changes of levels

    def admit(self, topic: int, reserve_bytes: int) -> None:
        """Follow ``topic`` at full, with ``reserve_bytes`` of the budget set aside for it."""
        self.agreement.end()
        if self.level(topic) == MINIMAL:
            replica = self._topics[topic]
            if replica.current.level == FULL:  # it is being lowered: end that at once
                self._succeed(replica)
            replica.coming = self._followers.follow(topic, FULL)
            replica.staged = full_topic_view()
        else:
            replica = self._topics[topic] = TopicReplica(self._followers.follow(topic, FULL))
            self.view.replace(topic, full_topic_view())
        replica.loading = True
        self.budget.reserve((topic, FULL), reserve_bytes)
        self.update_access(topic)
        self._set_changed = self.has_work = True

    def lower(self, topic: int) -> None:
        """Follow ``topic`` at minimal, whatever its level is, and free its content at once."""
        if self.target_level(topic) == MINIMAL:
            return
        self.agreement.end()
        replica = self._topics.get(topic)
        if replica is not None:
            self._stop_coming(replica)
            if replica.current.level == MINIMAL:
                return
        if replica is not None and replica.is_live:
            replica.coming = follower = self._followers.follow(topic, MINIMAL)
        else:
            if replica is not None:
                self._stop(self._topics.pop(topic).current)
            follower = self._followers.follow(topic, MINIMAL)
            self._topics[topic] = TopicReplica(follower)
        # If the hub sends no position in time, the follower requests a catch-up.
        follower.opened(self._next_id(), now=self._turn.now)
        self.change_feed.discard(topic)
        self.resident_set.begin_minimal(topic)
        self.update_access(topic)
        self._set_changed = self.has_work = True

    def drop(self, topic: int) -> None:
        """Stop following ``topic``; its read floor stays. The namespace leaves with all others."""
        replica = self._topics[topic]
        if replica.is_live:
            self._read_floor.answered(topic, replica.position)
        self._stop_coming(replica)
        del self._topics[topic]
        self.agreement.discard(topic)
        self._stop(replica.current)
        self.resident_set.discard(topic)
        self.change_feed.discard(topic)
        self._wake(topic)

    def without_position(self) -> tuple[int, ...]:
        """Return the topics at minimal that have no position yet."""
        followers = map(self._followers.get, self._followers.behind)
        at_minimal = (one for one in followers if one is not None and one.level == MINIMAL)
        return tuple(one.topic for one in at_minimal if not one.epoch)

    def set_position(self, topic: int, at: tuple[int, int]) -> None:
        """Let ``topic`` follow at minimal from the hub's position ``at``, if it has none yet."""
        topic_level = (topic, MINIMAL)
        follower = self._followers.get(topic_level)
        if follower is not None and follower.state is not LIVE and not follower.epoch:
            self._feed(topic_level, Adopt(*at))

    # Facts

    def on_delta(self, delta: Delta) -> None:
        """Apply a delta of an accepted start."""
        topic = delta.topic
        replica = self._topics.get(topic)
        if replica is None or not replica.step(delta):
            self._feed((topic, delta.level), delta)
            return
        held = self.view.topics[topic]
        if delta.level == MINIMAL:
            self._apply_stubs(delta, held, live=True)
        else:
            self._apply_delta(delta, held, live=True)
            held = self.view.topics.get(topic, held)
        if held.advance((delta.epoch, delta.to_version)):
            self._wake(topic)
        else:
            self.update_access(topic)

    def on_chunk(self, chunk: Chunk) -> None:
        """Take a part of a catch-up of an accepted start."""
        topic_level = chunk.topic, chunk.level
        if not self._followers.note_active(chunk.stream, topic_level):
            if self._followers.must_cancel(chunk.stream):
                self._cancel(chunk.stream)
            return
        self._feed(topic_level, chunk)
        self._processed(chunk.stream, chunk_cost(chunk))

    def on_foreign_chunk(self, chunk: Chunk) -> None:
        """Drop a part of a start that is not accepted; only give its stream the credit back."""
        self._processed(chunk.stream, chunk_cost(chunk))

    def on_catch_up_refused(self, refused: Refused) -> None:
        """Let the topics of a stream wait, or one topic, because the hub does not serve it now."""
        for topic_level in self._followers.served_by(refused.request):
            if refused.topic in (-1, topic_level[0]):
                self._feed(topic_level, refused)
        self._processed(refused.request, REFUSAL_COST)

    def on_heartbeat(self, heartbeat: Heartbeat, order: Iterable[int]) -> None:
        """Compare positions with the heartbeat of an accepted start, its topics in ``order``."""
        if self.agreement.holds(heartbeat):  # as a rule: an idle subscriber does little else
            self.agreement.renew()
            return
        self.agreement.end()
        if self._followers.is_all_behind:
            return  # catch-ups bring what the hub has
        all_current, now = True, self._turn.now
        current_at = self.agreement.current_at
        epoch, find = heartbeat.epoch, self._topics.get  # 256 topics, 4 times a second
        for topic, version in zip(order, heartbeat.versions, strict=False):
            replica = find(topic)
            if replica is None:
                continue
            current = replica.current
            if replica.coming is None:
                if current.state is not LIVE:
                    all_current = False
                    continue  # its catch-up brings what the hub has
                if current.epoch == epoch and current.version >= version:
                    current_at[topic] = now
                    continue
            all_current = False
            self._compare(replica, PeerAt(epoch, version))
        if all_current:
            self.agreement.begin(heartbeat)

    def tick(self) -> None:
        """Let followers that are behind request a catch-up, first or again."""
        for topic_level in self._followers.overdue():
            self._feed(topic_level, Due())

    def lose_streams(self) -> None:
        """Request all catch-ups under way again: the hub, or the accepted start, has changed.

        Caller: the subscriptions at a registration, the session with catalogd for another start.
        Affects: followers that are behind, whose next catch-up begins at their position.
        """
        for topic_level in self._followers.lose_streams():
            self._feed(topic_level, StreamLost())

    def request(self) -> None:
        """Send one request for all that is wanted, the namespace and small topics first."""
        self.has_work = False
        order = sorted(
            self._followers.wanted, key=lambda a: (a[0] != NAMESPACE, self.expected_bytes(a), a)
        )
        for topic_level in order:
            if not self.expected_bytes(topic_level):  # nobody knows its growth: room to begin with
                self.resident_set.reserve(topic_level, CREDIT_DEFAULT)
        request = self._followers.request(order)
        if request is not None:
            self.catch_ups += 1
            self._turn.add(Send(Connection.BULK, request))

    def take_evicted(self) -> list[tuple[int, int]]:
        """Return (topic, bytes needed) of the topics lowered to make room since the last call."""
        evicted, self._evicted = self._evicted, []
        return evicted

    def take_set_changed(self) -> bool:
        """Return whether topic levels came or went among the followed ones since the last call."""
        changed, self._set_changed = self._set_changed, False
        return changed

    def take_changes(self) -> tuple[Change, ...]:
        """Return the changes for watches since the last call."""
        if not self._changes:
            return ()
        changes, self._changes = tuple(self._changes), []
        return changes

    def keep(self, topic: int, group: bytes, content: TableSnapshot, *, epoch: int) -> None:
        """Keep a pulled table if it fits, and if stubs will arrive when it becomes stale."""
        held = self.view.pulled(topic)
        if held is None:
            return
        if held is not self.view.topics[topic]:  # at full: keep only a table with withheld values
            pushed = self.view.groups(topic).get(group)
            if pushed is None or not pushed.stubs or not self._topics[topic].is_live:
                return
        if not held.epoch:
            held.begin(epoch)  # the pull was faster than the position of the topic's follower
        if held.epoch == epoch and content.as_of >= held.invalidated_to:
            self.resident_set.keep(topic, group, content)
            self.update_access(topic)

    def distrust(self, topic: int, group: bytes) -> None:
        """Discard the content of a table.

        Caller: the self-audit, for a table that is not as catalogd has it.
        Affects: readers, whose next read pulls the table; watches, which see a change of it.
        """
        self.resident_set.distrust(topic, group)
        version = self._topics[topic].current.version
        self._changes += self.change_feed.doubted(name_of(group), version)

    def on_pulled(self, db: str, table: str) -> None:
        """Note that catalogd's reply has a table; the delta that creates it may arrive later."""
        if self.change_feed.enabled:
            self.change_feed.on_pulled(db, table, self.view)

    def update_access(self, topic: int) -> None:
        """Open ``topic`` to readers, or close it, by its position and its read floor.

        Caller: the replicas after each step, the session with catalogd after it raised the floor.
        Affects: what memory answers of the topic; the commands that wait for it.
        """
        self._wake(topic)
        if self.is_usable(topic):
            self.view.open(topic, self._topics[topic].position)
        else:
            self.view.close(topic, floor=self._pull_floor(topic))

    def expected_bytes(self, topic_level: TopicLevel) -> int:
        """Return the bytes that a catch-up of ``topic_level`` is expected to bring.

        At full these are the reserved bytes that are not held yet. At minimal only stubs come.
        """
        return STUBS_BYTES_MAX if topic_level[1] == MINIMAL else self.budget.unfilled(topic_level)

    def check(self) -> None:
        """Assert every invariant."""
        self.resident_set.check()
        self._followers.check()
        followers = {(f.topic, f.level) for one in self for f in one.followers()}
        assert followers == set(self._followers.topic_levels())
        for topic, replica in self._topics.items():
            replica.check()
            assert topic == replica.topic
            held = self.view.topics[topic]
            assert (held.opening is not None) is self.is_usable(topic), topic
            assert held.opening is None or held.reached == replica.position, topic
            assert held.pulled_floor in (None, self._pull_floor(topic)), topic
            of_minimal, of_full = (self.budget.held((topic, at)) for at in (MINIMAL, FULL))
            staged = replica.staged
            if held.pulled_only:
                assert held.held_bytes < of_minimal, topic
                assert of_full == (staged.held_bytes if staged else 0), topic
            else:
                aside = held.pulled.held_bytes if held.pulled else 0
                assert (of_minimal, of_full) == (aside, held.held_bytes), topic
        assert set(self.view.topics) == {*self._topics, NAMESPACE}
        self._check_agreement()

    def _pull_floor(self, topic: int) -> tuple[int, int] | None:
        """Return the position above which pulled tables answer while ``topic`` is not current.

        A reply of catalogd is often newer than the hub, and raises the read floor. Tables that were
        pulled at or above the floor are new enough, and a LIVE follower brings their changes.
        """
        replica, namespace = self._topics.get(topic), self._topics.get(NAMESPACE)
        held = self.view.topics.get(topic)
        if replica is None or not replica.is_live or held is None or namespace is None:
            return None
        floor = self._read_floor.of(topic)
        epochs = (replica.current.epoch, namespace.current.epoch, held.epoch)
        return floor if all(epoch == floor[0] for epoch in epochs) else None

    def _compare(self, replica: TopicReplica, newer: PeerAt) -> None:
        """Let the LIVE followers of ``replica`` that are below the hub's position catch up."""
        for follower in list(replica.followers()):
            if follower.state is not LIVE:
                continue
            if (follower.epoch, follower.version) < (newer.epoch, newer.version):
                self._feed((replica.topic, follower.level), newer)
            else:
                self.agreement.current_at[replica.topic] = self._turn.now

    def _feed(self, topic_level: TopicLevel, fact: Fact) -> None:
        follower, replica = self._followers.get(topic_level), self._topics.get(topic_level[0])
        if follower is None or replica is None:
            return
        self.agreement.end()
        topic, epoch = topic_level[0], follower.epoch
        for step in self._followers.feed(topic_level, fact):
            self._apply(replica, topic_level, step)
        if self._followers.get(topic_level) is not follower:
            return  # the topic was lowered or dropped to make room
        if follower.state is LIVE and topic_level[1] == FULL:
            replica.loading = False
        self._take_over(replica)
        moved = topic == NAMESPACE and follower.epoch != epoch
        for other in list(self._topics) if moved else (topic,):
            self.update_access(other)

    def _apply(self, replica: TopicReplica, topic_level: TopicLevel, step: Step) -> None:
        topic, level = topic_level
        live = replica.current.level == level  # whether readers see the changed content
        if isinstance(step, Abandoned):
            self._cancel(step.stream)
            return
        if isinstance(step, Want):
            self.has_work = True
            if live:
                self.view.close(topic)
            return
        held = self.view.topics[topic] if live or level == MINIMAL else _staged(replica)
        if level == FULL:
            self._apply_at_full(step, held, replica, live=live)
        elif isinstance(step, File):
            self._apply_stubs(step.chunk, held, live=live)
            self._read_floor.mark_seen(topic)
        elif isinstance(step, Apply):
            self._apply_stubs(step.delta, held, live=live)
        elif isinstance(step, Adopted):
            self._on_adopted(step, live=live)

    def _on_adopted(self, step: Adopted, *, live: bool) -> None:
        """Begin at a position, and discard the pulled tables: they may be older and stale."""
        topic, version = step.topic, step.version
        self._invalidate_all(topic, step.epoch, version)
        if live and self._read_floor.was_seen(topic):
            self._changes += self.change_feed.gap(topic, version, self.view)
        self._read_floor.mark_seen(topic)

    def _apply_stubs(self, message: Delta | Chunk, held: TopicView, *, live: bool) -> None:
        """Apply the stubs of a delta or chunk at minimal to what was pulled."""
        topic, entries, version = message.topic, message.entries, message.to_version
        if self._retention.counts_changes:
            self.resident_set.on_changed(topic, entries)
        if message.invalidate_all:
            self._invalidate_all(topic, message.epoch, version)
        if self.fence.pulls:
            for entry in entries:
                self.fence.invalidate(group_of(entry.key), entry.version)
        if held.groups:
            self.resident_set.apply_to_pulled(topic, held, entries)
        if live and self.change_feed.enabled:
            self._changes += self.change_feed.on_stubs(message, self.view, self._read_floor)

    def _apply_at_full(
        self, step: Step, held: TopicView, replica: TopicReplica, *, live: bool
    ) -> None:
        """Apply a step of a follower at full; while it loads, watches are notified of nothing."""
        match step:
            case Reset(topic=topic, epoch=epoch):
                self._reset(topic, held, live=live)
                held.begin(epoch)
            case File(chunk=chunk):
                swaps = self._put(chunk.topic, held, chunk.entries)
                if live:
                    self._read_floor.answered(chunk.topic, (chunk.epoch, chunk.to_version))
                    if not replica.loading:
                        self.change_feed.on_chunk(chunk.topic, swaps)
            case CaughtUp(chunk=chunk, from_version=before):
                self.resident_set.end_reservation((chunk.topic, FULL))
                if live:
                    self._on_caught_up(chunk, held, before=before)
            case Apply(delta=delta):
                self._apply_delta(delta, held, live=live)
            case _:
                raise AssertionError(step)  # it has nothing to apply

    def _on_caught_up(self, chunk: Chunk, held: TopicView, *, before: int) -> None:
        topic, version = chunk.topic, chunk.to_version
        self._read_floor.answered(topic, (chunk.epoch, max(version, before)))
        self._changes += self.change_feed.on_caught_up(topic, version, held.groups)
        if topic == NAMESPACE:
            self._changes += self.change_feed.on_names_caught_up(version, self.view)

    def _apply_delta(self, delta: Delta, held: TopicView, *, live: bool) -> None:
        """Apply a delta with values; for a topic that is being lowered, these count as stubs."""
        topic = delta.topic
        if self._retention.counts_changes:
            self.resident_set.on_changed(topic, delta.entries)
        if held.pulled_only:
            self.resident_set.apply_to_pulled(topic, held, delta.entries)
            changes = self.change_feed.stubbed(delta)
        else:
            swaps = self._put(topic, held, delta.entries)
            changes = self.change_feed.applied(delta, swaps)
        if live:
            self._read_floor.answered(topic, (delta.epoch, delta.to_version))
            self._changes += changes

    def _put(self, topic: int, held: TopicView, entries: Sequence[Entry]) -> Sequence[Swap]:
        """Put entries in place; to make room, lower other topics, or this topic."""
        while isinstance(swaps := self.resident_set.apply((topic, FULL), held, entries), NoRoom):
            self._lower_for_room(topic, swaps.growth)
            replica, wanted = self._topics.get(topic), self.view.topics.get(topic)
            if replica is not None and replica.staged is not None:
                wanted = replica.staged
            if wanted is not held:
                return ()
        return swaps

    def _reset(self, topic: int, held: TopicView, *, live: bool) -> None:
        if live:
            known = self._read_floor.was_seen(topic)
            self.change_feed.on_snapshot(topic, held.groups, known=known)
        self.resident_set.begin_snapshot((topic, FULL), held)

    def _invalidate_all(self, topic: int, epoch: int, version: int) -> None:
        if self.view.topics[topic].epoch != epoch:
            self.fence.new_epoch(topic)
        self.fence.invalidate_all(topic, version)
        self.resident_set.invalidate_all(topic, epoch, version)

    def _check_agreement(self) -> None:
        self.agreement.check()
        if self.agreement.positions is None:
            return
        epoch, versions = self.agreement.positions
        for topic, version in zip(topic_ids(len(versions) - 1), versions, strict=True):
            replica = self._topics.get(topic)
            assert replica is None or (replica.is_live and replica.coming is None), topic
            assert replica is None or replica.position >= (epoch, version), topic

    def _take_over(self, replica: TopicReplica) -> None:
        """Let the coming follower replace the current one, once it may."""
        new = replica.coming
        if new is None or not replica.may_take_over():
            return
        if new.level == FULL:
            self._read_floor.answered(replica.topic, (new.epoch, new.version))
            self.resident_set.begin_full(replica.topic, _staged(replica))
            replica.staged = None
        if new.state is LIVE:
            old_at, new_at = replica.position, (new.epoch, new.version)
            feed = self.change_feed
            self._changes += feed.on_level_changed(new.topic, self.view, old=old_at, new=new_at)
        self._succeed(replica)

    def _succeed(self, replica: TopicReplica) -> None:
        """Let the coming follower of a topic be its only follower."""
        old, new = replica.current, replica.coming
        assert new is not None
        self._read_floor.answered(replica.topic, replica.position)
        self._stop(old)
        replica.loading = replica.loading and old.level != FULL
        replica.current, replica.coming = new, None
        self._topics[replica.topic] = self._topics.pop(replica.topic)

    def _stop_coming(self, replica: TopicReplica) -> None:
        """End a change of level, and discard what the coming follower has brought."""
        coming = replica.coming
        if coming is None:
            return
        replica.coming = None
        if replica.staged is not None:
            replica.staged = None
            self.resident_set.release((coming.topic, coming.level))
        replica.loading = replica.loading and coming.level != FULL
        self._stop(coming)

    def _stop(self, follower: Follower) -> None:
        """Stop ``follower``; its content stays."""
        self._set_changed = self.has_work = True
        for stream in self._followers.stop((follower.topic, follower.level)):
            self._cancel(stream)

    def _cancel(self, stream: int) -> None:
        self._turn.add(Send(Connection.BULK, Cancel(stream=stream)))

    def _lower_for_room(self, topic: int, growth: int) -> None:
        """Lower the largest topic, or this topic while it is joined; evict a pin for names."""
        needed = self.budget.held((topic, FULL)) + growth
        victim = self.budget.largest(FULL, but=NAMESPACE)
        if victim is None and topic == NAMESPACE and self.resident_set.evict_largest_pin():
            return
        if victim is None or (self._topics[topic].loading and topic != NAMESPACE):
            victim = topic
        if victim == NAMESPACE:
            free_bytes = self.budget.limit_bytes
            self.over = OverBudget("the namespace", needed_bytes=needed, free_bytes=free_bytes)
        elif victim != topic:
            needed = self.budget.held((victim, FULL))
        self._evicted.append((victim, needed))
        self.has_work = True
        replica = self._topics[victim]
        if replica.coming is None:
            self.drop(victim)
        else:
            self._stop_coming(replica)

    def _processed(self, stream: int, cost: int) -> None:
        credit = self._followers.processed(stream, cost)
        if credit is not None:
            self._turn.add(Send(Connection.BULK, credit))


def _staged(replica: TopicReplica) -> TopicView:
    assert replica.staged is not None
    return replica.staged
