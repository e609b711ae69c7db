"""Faults in the rules of the protocol: epochs, positions, read floors, catch-ups and pulls.

Those of levels, budget, fence, modes and claims: faults_levels.py; of which metastore it is:
faults_identity.py. Which rule of the model has which faults: model.py.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any

from topicast.catalog.core import Catalog
from topicast.catalog.effects import Effect as CatalogEffect
from topicast.catalog.effects import MintEpoch
from topicast.catalog.ingest.loads.loader import InFlightRead, Loader
from topicast.catalog.ingest.loads.needs import NEVER as ALL_PUBLISHED
from topicast.catalog.model.modes import Remainder
from topicast.catalog.model.namespace import Namespace
from topicast.catalog.model.tables import Tables
from topicast.catalog.serve.pull_server import Selection, select
from topicast.statestore.content.ingest import Ingest
from topicast.subscriber.engine.catalog_session import CatalogSession, PulledTables
from topicast.subscriber.fetch.fetcher import Fetcher, InvalidationFence
from topicast.subscriber.replication.lineage import Lineage, Start
from topicast.subscriber.replication.replicas import TopicReplicas
from topicast.subscriber.replication.topic_replica import TopicReplica
from topicast.subscriber.store.resident_set import ResidentSet
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.subscriber.store.view import NO_POSITION, Position, ReadFloor, TopicView, View
from topicast.tests.sim.fault import BY_SEED, Fault
from topicast.topics.objects.names import EVERYTHING, Scope, TableId, table_key
from topicast.topics.objects.selector import ALL, Selector
from topicast.topics.streams.follower import LIVE, Apply, Fact, File, Follower, PeerAt
from topicast.topics.streams.follower import Effect as FollowerEffect
from topicast.topics.streams.sender import Part, chunks
from topicast.topics.topic import NAMESPACE, Topic, table_topic
from topicast.topics.wire import encode
from topicast.topics.wire.messages.catalog import Claimed, Pull, Pulled
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.data import Chunk, Delta
from topicast.topics.wire.messages.readers import Wanted


class NothingWasWithheld(Remainder):
    def includes(self, table: TableId) -> bool:
        return False


class NeverOvertaken(InFlightRead):
    def overtake(self, table: TableId, names: tuple[str, ...] | None) -> None:
        """Do nothing."""


class AnswersPartialLoads(View):
    def partitions(self, db: str, table: str, selector: Selector = ALL) -> TableSnapshot | None:
        found = self.table(db, table)
        return found if found and found.whole else super().partitions(db, table, selector)


class TakesLoadingForLoaded(Tables):
    def loaded(self, table: TableId) -> bool:
        return self.value(table) is not None


class LoadsNothingThatIsHeld(Loader):
    def __init__(self, *, loaded: Callable[[TableId], bool], **settings: Any) -> None:
        super().__init__(loaded=loaded, **settings)
        self.is_held = loaded

    def load(self, table: TableId, *, urgent: bool = False) -> None:
        if not self.is_held(table):
            super().load(table, urgent=urgent)


class KeepsIncarnations(Namespace):
    def write(self, *objects: Any, renewed: object = (), **origin: Any) -> None:
        super().write(*objects, renewed=(), **origin)


class AnswersUnderAnyIncarnation(View):
    def find(self, db: str, table: str) -> tuple[TopicView, TableSnapshot] | None:
        found = super().find(db, table)
        held = self.topics.get(table_topic(db, table, self.num_topics))
        if found or held is None or None in (held.opening, self.topics[NAMESPACE].opening):
            return found
        content = held.content(table_key(db, table))
        return (held, content) if content is not None else None


class MintsAtOnce(Catalog):
    def __init__(self, *topics: Any, **rest: Any) -> None:
        super().__init__(*topics, **rest)
        self.above = 0

    def flush(self, *, now: float, now_us: int) -> tuple[CatalogEffect, ...]:
        effects, before = super().flush(now=now, now_us=now_us), self.above
        self.above = above = self.epochs.minted_above
        return (*effects, MintEpoch(at_least=above)) if above > before else effects


class AcceptsEveryStart(Lineage):
    def accepts(self, start: Start, *, holds: bool, now: float) -> bool:
        if 0 not in start:
            self.accepted = start
        return super().accepts(start, holds=holds, now=now)


class NeverRises(ReadFloor):
    def raise_to(self, topic: int, position: Position) -> None:
        """Do nothing."""


class PartOfAFloor(ReadFloor):
    """A floor that is seen, or raised by answers, for the namespace only, or for tables only."""

    def __init__(self, floor: ReadFloor, *, seen: Iterable[bool], raised: Iterable[bool]) -> None:
        super().__init__()
        self._floor, self._seen_of, self._raised_of = floor, tuple(seen), tuple(raised)

    def of(self, topic: int) -> Position:
        return self._floor.of(topic) if (topic == NAMESPACE) in self._seen_of else NO_POSITION

    def answered(self, topic: int, position: Position) -> None:
        if (topic == NAMESPACE) in self._raised_of:
            self._floor.answered(topic, position)

    def raise_to(self, topic: int, position: Position) -> None:
        self._floor.raise_to(topic, position)


def _session(
    *, seen: Iterable[bool] = (True, False), raised: Iterable[bool] = (True, False)
) -> type:
    """Return sessions with a part of the read floor; True stands for the namespace."""

    class Session(CatalogSession):
        def __init__(self, *subscriptions: Any, read_floor: ReadFloor, **rest: Any) -> None:
            floor = PartOfAFloor(read_floor, seen=seen, raised=raised)
            super().__init__(*subscriptions, read_floor=floor, **rest)

    return Session


class ForgetfulFloor(ReadFloor):
    def __init__(self) -> None:
        super().__init__()
        self.dropped: set[int] = set()

    def of(self, topic: int) -> Position:
        return NO_POSITION if topic in self.dropped else super().of(topic)

    def raise_to(self, topic: int, position: Position) -> None:
        super().raise_to(topic, position)
        self.dropped.discard(topic)


class ForgetsWhatWasShown(TopicReplicas):
    def __init__(self, *content: Any, read_floor: ForgetfulFloor, **rest: Any) -> None:
        super().__init__(*content, read_floor=read_floor, **rest)
        self.floor = read_floor

    def drop(self, topic: int) -> None:
        super().drop(topic)
        self.floor.dropped.add(topic)


class FenceWithoutStubs(InvalidationFence):
    def minimum(self, group: bytes) -> int:
        return 0


class FenceWithoutInvalidateAll(InvalidationFence):
    def invalidate_all(self, topic: int, version: int) -> None:
        """Do nothing."""


class KeepsWhatInvalidateAllEnds(ResidentSet):
    def invalidate_all(self, topic: int, epoch: int, version: int) -> None:
        """Do nothing."""


class CombinesVersions(Fetcher):
    def __init__(self, *ids: Any, **rest: Any) -> None:
        super().__init__(*ids, **rest)
        self.first: dict[int, Pulled] = {}

    def on_pulled(self, part: Pulled) -> None:
        first = self.first.setdefault(part.request, part) if part.sequence else part
        self.first[part.request] = first
        at = first.topic_version, first.namespace_version
        super().on_pulled(replace(part, topic_version=at[0], namespace_version=at[1]))


def _named_without_its_version(tables: Tables, pull: Pull) -> Selection:
    found, held = select(tables, pull), dict(pull.held)
    return replace(found, entries=[one for one in found.entries if one.key not in held])


class AnyEpoch(int):
    """Equal to every other epoch."""

    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


class HoldsInAnyEpoch(PulledTables):
    def base(self, db: str, table: str) -> tuple[int, TableSnapshot | None, tuple[Claimed, ...]]:
        epoch, held, claims = super().base(db, table)
        return AnyEpoch(epoch), held, claims


class Unchecked(TopicReplicas):
    """Without its assertions, so that a read has to notice the fault."""

    def check(self) -> None:
        """Do nothing."""


class ReadableAtNone(TopicReplicas):
    def drop(self, topic: int) -> None:
        held = self.view.topics[topic]
        super().drop(topic)
        if topic != NAMESPACE:
            self.view.topics[topic] = held
            held.opening = object()

    def check(self) -> None:
        """Do nothing."""


class NeverCloses(View):
    def close(self, topic: int, *, floor: tuple[int, int] | None = None) -> None:
        """Do nothing."""


class OnePositionForBothLevels(TopicReplicas):
    def admit(self, topic: int, reserve_bytes: int) -> None:
        super().admit(topic, reserve_bytes)
        replica = self.get(topic)
        if replica is not None and replica.coming is not None:
            replica.coming.epoch, replica.coming.version = replica.position


class TakesOverBehind(TopicReplica):
    def may_take_over(self) -> bool:
        old, new = self.current, self.coming
        if new is not None and new.state is LIVE and new.epoch == old.epoch:
            old.version = min(old.version, new.version)
        return super().may_take_over()


class SyncsNothingOfATable(Loader):
    """A sync of one table does not wait for what is being read of it."""

    def oldest_unpublished(self, scope: Scope = EVERYTHING) -> int:
        return ALL_PUBLISHED if scope.table else super().oldest_unpublished(scope)


class IgnoresGaps(Follower):
    def handle(self, fact: Fact, *, now: float) -> tuple[FollowerEffect, ...]:
        later = isinstance(fact, Delta) and fact.from_version > self.version
        if self.state is LIVE and (later or isinstance(fact, PeerAt)):
            return ()
        return super().handle(fact, now=now)


class TakesStubsForValues(Follower):
    def handle(self, fact: Fact, *, now: float) -> tuple[FollowerEffect, ...]:
        if isinstance(fact, Delta):
            fact = replace(fact, stubbed=False, invalidate_all=False)
        return super().handle(fact, now=now)


class AppliesLateDeltas(Follower):
    def handle(self, fact: Fact, *, now: float) -> tuple[FollowerEffect, ...]:
        of_ours = isinstance(fact, Delta) and self.state is LIVE and fact.epoch == self.epoch
        if isinstance(fact, Delta) and of_ours and fact.to_version <= self.version:
            self.version = fact.to_version
            return (Apply(fact),)
        return super().handle(fact, now=now)


class MovesWithEachChunk(Follower):
    def handle(self, fact: Fact, *, now: float) -> tuple[FollowerEffect, ...]:
        effects = super().handle(fact, now=now)
        if isinstance(fact, Chunk) and any(isinstance(one, File) for one in effects):
            self.version = max(self.version, fact.resume_version)
        return effects


def _resumed_by_version_alone(stream: int, wanted: Iterable[Wanted], **rest: Any) -> Iterator[Part]:
    return chunks(stream, [replace(one, resume_key=b"\xff" * 99) for one in wanted], **rest)


def _without_floor(*, resumed: bool) -> Callable[..., Iterator[Part]]:
    """Return ``chunks`` without a floor, for those who resume a snapshot or for all others."""

    def answer(
        stream: int,
        wanted: Iterable[Wanted],
        *,
        find: Callable[[Wanted], Topic | Refused],
        **rest: Any,
    ) -> Iterator[Part]:
        def found(one: Wanted) -> Topic | Refused:
            topic = find(one)
            resumes = one.resume_version > 0 and not one.version
            if isinstance(topic, Topic) and resumes is resumed:
                topic = copy(topic)
                topic.floor = 0
            return topic

        return chunks(stream, wanted, find=found, **rest)

    return answer


class ForwardsItsCatchUp(Ingest):
    def chunk(self, chunk: Chunk) -> tuple[bytes, ...]:
        followed = self.followed.get(chunk.topic)
        before = followed.topic.version if followed is not None else 0
        frames = super().chunk(chunk)
        if not chunk.entries:
            return frames
        delta = Delta(
            topic=chunk.topic,
            level=chunk.level,
            epoch=chunk.epoch,
            start=chunk.start,
            from_version=before,
            to_version=chunk.to_version,
            floor=0,
            sent_us=0,
            source=0,
            entries=chunk.entries,
        )
        return (*frames, encode(delta))


class AnswersWhileBehind(Ingest):
    def find(self, wanted: Wanted) -> Topic | Refused:
        followed, found = self.followed.get(wanted.topic), super().find(wanted)
        behind = followed is not None and followed.follower.state is not LIVE
        return followed.topic if followed is not None and behind else found


# Not here, for nothing can be seen without it: a pull that contradicts an equal namespace is pulled
# again (CatalogSession._stale). catalogd cuts a reply from both at once, so none of its own does.
FAULTS = (
    Fault("what was withheld is sent when it is withheld no more", BY_SEED, (NothingWasWithheld,)),
    Fault("a load that an event overtook is read again", BY_SEED, (NeverOvertaken,)),
    Fault("a partial load is not answered as whole", BY_SEED, (AnswersPartialLoads,)),
    # Where somebody pulls the table, catalogd loads it all the same.
    Fault(
        "what is LOADING at a start is loaded again", "loading_at_a_start", (TakesLoadingForLoaded,)
    ),
    Fault(
        "what is LOADING at a start is loaded again where it is pulled",
        "loading_at_a_start_and_pulled",
        (TakesLoadingForLoaded, LoadsNothingThatIsHeld),
    ),
    # A view shows one table or the other even so, as the content is replaced whole.
    Fault("a drop ends an incarnation", BY_SEED, (KeepsIncarnations,)),
    Fault(
        "content answers only under its own incarnation",
        "incarnation",
        (AnswersUnderAnyIncarnation,),
    ),
    Fault("a new epoch waits until catalogd has caught up", "restored_while_away", (MintsAtOnce,)),
    Fault(
        "a start is compared before anything of it is accepted",
        "restored_store",
        (AcceptsEveryStart,),
    ),
    Fault("memory answers only at or above what was shown", "late_pull", (NeverRises,)),
    Fault(
        "memory answers only at or above the version of a pull",
        "memory_behind_a_pull",
        (_session(raised=[True]),),
    ),
    Fault(
        "names answer only at or above the namespace version of a pull",
        "names_at_a_lagging_hub",
        (_session(raised=[False]),),
    ),
    Fault("a pull below what was shown is stale", "late_pull", (_session(seen=[True]),)),
    Fault(
        "a pull below what the names have shown is stale",
        "late_pull_below_the_names",
        (_session(seen=[False]),),
    ),
    Fault(
        "what was shown of a topic stays a lower bound after its drop",
        "late_pull_after_drop",
        (ForgetfulFloor, ForgetsWhatWasShown),
    ),
    Fault("a pull from before a stub is stale", "late_pull_behind_a_stub", (FenceWithoutStubs,)),
    Fault(
        "an invalidate-all marker is a stub for pulls on their way",
        "late_pull_behind_an_invalidate_all",
        (FenceWithoutInvalidateAll,),
    ),
    Fault(
        "an invalidate-all marker is a stub for what was pulled",
        "pulled_and_below_the_floor",
        (KeepsWhatInvalidateAllEnds,),
    ),
    Fault("parts of two versions are not combined", "reply_of_two_versions", (CombinesVersions,)),
    Fault(
        "what is held is named with its version",
        "held_and_changed",
        ((select, _named_without_its_version),),
    ),
    Fault("what is held counts in its own epoch", "held_in_another_epoch", (HoldsInAnyEpoch,)),
    Fault("a topic at none is not answered from memory", BY_SEED, (ReadableAtNone,)),
    Fault("memory does not answer while it catches up", BY_SEED, (NeverCloses, Unchecked)),
    Fault(
        "each level has a position of its own",
        "raised_with_nothing_held",
        (OnePositionForBothLevels,),
    ),
    Fault(
        "a raise ends at or above the position of the old level",
        "raise_at_a_lagging_hub",
        (TakesOverBehind,),
    ),
    Fault("a sync of a table waits for it", "synced_by_itself", (SyncsNothingOfATable,)),
    Fault("a gap orders a catch-up", BY_SEED, (IgnoresGaps,)),
    Fault("a stubbed delta is no news at full", BY_SEED, (TakesStubsForValues,)),
    Fault("a late delta is not applied again", BY_SEED, (AppliesLateDeltas,)),
    Fault(
        "what a chunk has reached is no position", "version_in_two_chunks", (MovesWithEachChunk,)
    ),
    Fault(
        "a version larger than a chunk is resumed by its key",
        "version_in_two_chunks",
        ((chunks, _resumed_by_version_alone),),
    ),
    Fault(
        "who is below the floor takes a snapshot",
        "below_the_floor",
        ((chunks, _without_floor(resumed=False)),),
    ),
    Fault(
        "who resumes a snapshot from below the floor takes another",
        "resumed_below_the_floor",
        ((chunks, _without_floor(resumed=True)),),
    ),
    Fault("a hub does not forward its own catch-up", BY_SEED, (ForwardsItsCatchUp,)),
    Fault("a hub that catches up answers no catch-up", BY_SEED, (AnswersWhileBehind,)),
)
