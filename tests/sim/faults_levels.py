"""Faults in what is chosen, held and confirmed: levels, budget, fence, modes and claims."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from topicast.catalog.core import Catalog
from topicast.catalog.model.modes import Mode
from topicast.catalog.model.namespace import Namespace
from topicast.catalog.model.tables import Tables
from topicast.catalog.publish.publisher import withhold
from topicast.catalog.serve.pull_server import stale_claims
from topicast.statestore.content.stub_deltas import catch_up_stubs
from topicast.subscriber.client.read_view import ReadView, VersionedTable, open_read_view
from topicast.subscriber.client.reader import Reader
from topicast.subscriber.fetch.fetcher import Fetcher, InvalidationFence, confirmed_claims
from topicast.subscriber.placement.planner import Plan, Planner
from topicast.subscriber.protocol.commands import PendingCommands
from topicast.subscriber.replication.replicas import TopicReplicas
from topicast.subscriber.replication.subscriptions import Subscriptions
from topicast.subscriber.store.change_feed import ChangeFeed
from topicast.subscriber.store.resident_set import Budget, ResidentSet
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.subscriber.store.view import TopicView, View
from topicast.tests.sim.fault import BY_SEED, Fault
from topicast.tests.sim.faults_protocol import Unchecked
from topicast.topics.clock import Clock
from topicast.topics.errors import NoSuchObject
from topicast.topics.streams.followers import Followers, TopicLevel
from topicast.topics.topic import FULL, MINIMAL, Entry, Version
from topicast.topics.wire.messages.catalog import Claimed, Pulled
from topicast.topics.wire.messages.data import Chunk, Delta

READ_S = 10.0  # that a read of a table may take


class PlansThreeBudgets(Planner):
    def plan(self, *topics: Any, budget_bytes: int, **rest: Any) -> Plan:
        return super().plan(*topics, budget_bytes=3 * budget_bytes, **rest)


class RaisesFirst(Planner):
    def plan(self, *topics: Any, **rest: Any) -> Plan:
        plan = super().plan(*topics, **rest)
        return replace(plan, steps=plan.steps[::-1])


class AdmitsAnything(Budget):
    def fits(self, topic_level: TopicLevel, growth: int) -> bool:
        return not self.held(topic_level) or super().fits(topic_level, growth)


class HasRoomForAnything(ResidentSet):
    @property
    def spare_bytes(self) -> int:
        return self.budget.limit_bytes


class HoldsAnything(Budget):
    def fits(self, topic_level: TopicLevel, growth: int) -> bool:
        return True


class GrantsCreditForAnything(Followers):
    def __init__(self, **given: Any) -> None:
        super().__init__(**{name: given[name] for name in given if name != "expected_bytes"})


class KeepsWhatARaiseReserved(ResidentSet):
    def release(self, topic_level: TopicLevel) -> None:
        held = self.view.topics.get(topic_level[0])
        if topic_level[1] != FULL or held is None or not held.pulled_only:
            super().release(topic_level)


class EmptiesWhatOutgrew(TopicReplicas):
    def drop(self, topic: int) -> None:
        self.resident_set.begin_snapshot((topic, FULL), self.view.topics[topic])
        self.resident_set.end_reservation((topic, FULL))


class NeverJoinsMinimal(Subscriptions):
    def join_minimal(self, topic: int) -> None:
        """Do nothing."""


class JoinsBeforeThePlan(Subscriptions):
    def join(self, topics: Sequence[int], level: int) -> None:
        planned, self.planned = self.planned, self.planned or frozenset()
        super().join(topics, level)
        self.planned = planned


class KeepsWhatStubsEnd(ResidentSet):
    def apply_to_pulled(self, topic: int, held: TopicView, entries: Iterable[Entry]) -> None:
        if held is not self.view.topics.get(topic):
            super().apply_to_pulled(topic, held, entries)


class KeepsWhatChangesEndAtFull(ResidentSet):
    def apply_to_pulled(self, topic: int, held: TopicView, entries: Iterable[Entry]) -> None:
        if held is self.view.topics.get(topic):
            super().apply_to_pulled(topic, held, entries)


class FenceForInvalidateAllOnly(InvalidationFence):
    def invalidate(self, group: bytes, version: int) -> None:
        """Do nothing."""


class FenceByTheTopicAtTheBegin(InvalidationFence):
    def __init__(self, topic_of: Callable[[bytes], int]) -> None:
        self.first: dict[bytes, int] = {}
        super().__init__(lambda group: self.first[group])
        self.topic_now = topic_of

    def begin(self, group: bytes) -> None:
        self.first.setdefault(group, self.topic_now(group))
        super().begin(group)


class KeepsItsSelections(TableSnapshot):
    def changed(self, changes: Sequence[Entry], *, epoch: int) -> TableSnapshot:
        after = super().changed(changes, epoch=epoch)
        after.selections = self.selections
        return after


class CombinesMovedPages(Fetcher):
    def on_pulled(self, part: Pulled) -> None:
        super().on_pulled(replace(part, moved=False))


class RemembersWhatIsMissing(View):
    def __init__(self, *content: Any, **rest: Any) -> None:
        super().__init__(*content, **rest)
        self.known_missing: set[tuple[str, str]] = set()

    def find(self, db: str, table: str) -> tuple[TopicView, TableSnapshot] | None:
        try:
            found = super().find(db, table)
        except NoSuchObject:
            self.known_missing.add((db, table))
        if (db, table) in self.known_missing:
            raise NoSuchObject(table)
        return found


class OpensMinimalAtOnce(TopicReplicas):
    def update_access(self, topic: int) -> None:
        super().update_access(topic)
        replica = self.get(topic)
        if replica is not None and self.level(topic) == MINIMAL:
            self.view.open(topic, replica.position)

    def check(self) -> None:
        """Do nothing."""


class SilentAboutCatchUps(ChangeFeed):
    def on_stubs(self, message: Delta | Chunk, *rest: Any) -> tuple[Any, ...]:
        if isinstance(message, Chunk) and not message.invalidate_all:
            return ()
        return super().on_stubs(message, *rest)


class SilentAboutGaps(ChangeFeed):
    def gap(self, topic: int, version: int, view: View) -> tuple[Any, ...]:
        return ()


def _stubs_of_a_load(*changes: Any, **rest: Any) -> Delta:
    return replace(catch_up_stubs(*changes, **rest), source=0)


def _withhold_nothing(_mode: Mode, _topic: int, entries: Sequence[Entry]) -> Sequence[Entry]:
    return entries


class StartsWithoutItsMode(Catalog):
    def __init__(self, *topics: Any, mode_state: object = None, **rest: Any) -> None:
        super().__init__(*topics, **rest)


Stale = tuple[tuple[int, int], ...]


def _stale_in_any_epoch(*held: Any, claimed_in: int, epoch: int) -> Stale:
    return stale_claims(*held, claimed_in=epoch, epoch=epoch)


def _tables_never_stale(*held: Any, **epochs: int) -> Stale:
    claims: tuple[Claimed, ...] = held[-1]
    return tuple(one for one in stale_claims(*held, **epochs) if claims[one[0]].whole or not one[1])


def _parts_never_stale(
    namespace: Namespace, tables: Tables, claims: Sequence[Claimed], **epochs: int
) -> Stale:
    def same(claim: Claimed) -> bool:
        entry = tables.entry((claim.db, claim.table))
        return claim.whole and entry is not None and entry.version <= claim.version

    found = stale_claims(namespace, tables, claims, **epochs)
    return tuple(one for one in found if not one[1] or not same(claims[one[0]]))


class ClaimsMoreThanItRead(Reader):
    def versioned(self, name: tuple[str, str], timeout_s: float) -> VersionedTable:
        found = super().versioned(name, timeout_s)
        version = found.version
        return replace(found, version=Version(version + 3, version.epoch))


def _without_comparing(names: Iterable[Any], read: Any, *, validate: Any, **_: Any) -> ReadView:
    return ReadView({name: read(name, READ_S) for name in names}, validate)


def _confirm_every_claim(claims: Sequence[Claimed], _last: Pulled) -> tuple[Claimed, ...]:
    return tuple(claims)


class AnswersBelowTheFloor(View):
    def close(self, topic: int, *, floor: tuple[int, int] | None = None) -> None:
        super().close(topic, floor=floor and (floor[0], 0))


class WakesNobodyForTopics(PendingCommands):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        wake = self.wake
        self.wake = lambda key: None if isinstance(key, int) else wake(key)


class WakesNobodyForReplies(PendingCommands):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        wake = self.wake
        self.wake = lambda key: wake(key) if isinstance(key, int) else None


class ConfirmsEverything(ReadView):
    def confirm(self) -> None:
        """Do nothing."""


FAULTS = (
    # what is planned, reserved and held
    Fault(
        "a start plans by the answer to its own Join",
        "first_answer_is_to_another_join",
        (JoinsBeforeThePlan,),
    ),
    Fault("a plan fits the budget", BY_SEED, (PlansThreeBudgets,)),
    Fault("room is made before it is taken", BY_SEED, (RaisesFirst,)),
    Fault("what does not fit is not admitted", BY_SEED, (AdmitsAnything, HasRoomForAnything)),
    Fault("nothing is put in place that does not fit", BY_SEED, (HoldsAnything,)),
    Fault("credit is only for what is reserved", BY_SEED, (GrantsCreditForAnything,)),
    Fault("what a raise has reserved ends with it", "raise_given_up", (KeepsWhatARaiseReserved,)),
    Fault(
        "what outgrew its room is at full no more",
        "outgrown_by_another",
        (EmptiesWhatOutgrew, NeverJoinsMinimal),
    ),
    Fault("what outgrew its room is followed at minimal", "outgrown", (NeverJoinsMinimal,)),
    # what is kept of what was pulled
    Fault("a stub ends what was pulled", BY_SEED, (KeepsWhatStubsEnd,)),
    Fault(
        "a stub is noted for pulls on their way",
        "late_pull_behind_a_stub",
        (FenceForInvalidateAllOnly,),
    ),
    Fault(
        "the topic of a pull is looked up when its fence is asked",
        "late_pull_from_before_the_topics",
        (FenceByTheTopicAtTheBegin,),
    ),
    Fault(
        "a change beside a part ends the filters that it may match",
        "change_beside_a_part",
        (KeepsItsSelections,),
    ),
    Fault(
        "a change ends what was pulled of a withheld table, at full",
        "withheld_and_changed",
        (KeepsWhatChangesEndAtFull,),
    ),
    Fault(
        "pages of a table that has moved are not combined",
        "moved_between_pages",
        (CombinesMovedPages,),
    ),
    Fault(
        "that there is no table is forgotten when it is created",
        "created_after_it_was_missed",
        (RemembersWhatIsMissing,),
    ),
    Fault(
        "memory does not answer while it catches up, at minimal",
        BY_SEED,
        (OpensMinimalAtOnce,),
    ),
    # what commands wait for
    Fault("a topic that changes wakes who waits for it", "late_pull", (WakesNobodyForTopics,)),
    Fault("a reply wakes who waits for it", "late_pull_behind_a_stub", (WakesNobodyForReplies,)),
    # what watchers are notified of
    Fault(
        "a lost stub is reported by the catch-up", "notified_after_a_gap", (SilentAboutCatchUps,)
    ),
    Fault(
        "a gap is reported as a change of every table", "notified_after_a_gap", (SilentAboutGaps,)
    ),
    Fault(
        "what a hub caught up is reported as news",
        "notified_by_a_hub_that_was_behind",
        ((catch_up_stubs, _stubs_of_a_load),),
    ),
    # modes
    Fault("what is withheld leaves as stubs", BY_SEED, ((withhold, _withhold_nothing),)),
    Fault(
        "mode and overrides outlast a restart",
        "overrides_outlast_a_restart",
        (StartsWithoutItsMode,),
    ),
    # claims
    Fault(
        "a claim of another epoch is stale",
        "plan_of_a_lost_store",
        ((stale_claims, _stale_in_any_epoch),),
    ),
    Fault("a table that has changed is stale", BY_SEED, ((stale_claims, _tables_never_stale),)),
    Fault(
        "a table of which something has changed is stale",
        BY_SEED,
        ((stale_claims, _parts_never_stale),),
    ),
    Fault(
        "what is claimed is no newer than what was read",
        "planned_and_changed",
        (ClaimsMoreThanItRead,),
    ),
    Fault("several tables are as of one moment", BY_SEED, ((open_read_view, _without_comparing),)),
    Fault(
        "what is stale beside a pull is not confirmed",
        "mates_of_a_withheld_table",
        ((confirmed_claims, _confirm_every_claim),),
    ),
    Fault(
        "what no pull knows waits for the hub",
        "mates_of_a_withheld_table",
        (AnswersBelowTheFloor, Unchecked),
    ),
    Fault("what has moved since is not confirmed", "planned_and_changed", (ConfirmsEverything,)),
)
