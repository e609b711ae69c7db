"""What is held against a reader's budget: every byte at every instant, plans, credit, drops."""

from collections import Counter
from collections.abc import Sequence

from topicast.subscriber.engine.core import Core
from topicast.subscriber.fetch.fetcher import LatencyEstimate
from topicast.subscriber.placement.planner import Plan, Planner, Situation
from topicast.subscriber.replication.replicas import TopicReplicas
from topicast.subscriber.store.resident_set import Budget
from topicast.tests.cluster.violation import Violation
from topicast.topics.streams.followers import TopicLevel
from topicast.topics.topic import FULL, MINIMAL, MINIMAL_BYTES


class CheckedBudget(Budget):
    """A budget that is checked whenever a byte of it moves; so between two changes as well."""

    def __init__(self, limit_bytes: int, *, counts: Counter[str]) -> None:
        super().__init__(limit_bytes)
        self.held_most = 0  # bytes: the most that was ever held
        self._counts = counts

    def hold(self, topic_level: TopicLevel, growth: int) -> None:
        super().hold(topic_level, growth)
        self.held_most = max(self.held_most, self.held_bytes)
        if self.held_bytes > self.limit_bytes:
            raise Violation(f"{self.held_bytes} bytes held, of {self.limit_bytes} that may be")

    def reserve(self, topic_level: TopicLevel, size: int) -> None:
        before = self.free_bytes
        super().reserve(topic_level, size)
        self._counts["reservations"] += bool(size)
        if self.free_bytes < min(before, 0):
            raise Violation(f"{size} bytes are reserved for {topic_level}, {before} were free")


class CheckedPlanner(Planner):
    """A planner whose plans are added up."""

    def __init__(
        self, minimal_bytes: int, latency: LatencyEstimate, *, counts: Counter[str]
    ) -> None:
        super().__init__(minimal_bytes, latency)
        self._counts = counts

    def plan(self, topics: Sequence[Situation], *, budget_bytes: int, **more: object) -> Plan:
        plan: Plan = super().plan(topics, budget_bytes=budget_bytes, **more)  # type: ignore[arg-type]  # as they come
        check_plan(topics, plan, budget_bytes)
        level = {it.topic: it.level for it in topics}
        for step in plan.steps:
            self._counts["planned raises" if step.level > level[step.topic] else "lowered"] += 1
            self._counts["planned full"] += step.level == FULL
        return plan


def check_plan(topics: Sequence[Situation], plan: Plan, budget_bytes: int) -> None:
    """Take the steps one by one: none that takes bytes may end above the budget."""
    full = {it.topic: max(it.full_bytes, it.held_bytes * (it.level == FULL)) for it in topics}
    bytes_of = {it.topic: _bytes(it.level, full[it.topic]) for it in topics}
    for step in plan.steps:
        before, after = bytes_of[step.topic], _bytes(step.level, full[step.topic])
        bytes_of[step.topic] = after
        planned = sum(bytes_of.values())
        if after > before and planned > budget_bytes:
            raise Violation(f"{step} comes to {planned} bytes, of {budget_bytes} that may be")


def check_credit(replicas: TopicReplicas, stream: int) -> None:
    """Check what a stream may bring, once it was granted more."""
    credit, waiting = replicas.granted(stream)
    reserved = sum(map(replicas.expected_bytes, waiting))
    if credit > max(reserved, 1):
        raise Violation(f"{credit} bytes may come, {reserved} are reserved for them")


def count_held(member: Core, counts: Counter[str], *, now: float) -> None:
    """Add up what became of a member's budget."""
    subscriptions = member.subscriptions
    counts["pulled ahead"] += member.stats().result.prefetches
    counts["topics outgrown"] += subscriptions.evictions
    counts["tables given up"] += subscriptions.replicas.resident_set.evicted
    counts["oversize"] += subscriptions.replicas.resident_set.not_kept
    counts["catch-ups"] += subscriptions.replicas.catch_ups


def _bytes(level: int, full_bytes: int) -> int:
    return full_bytes if level == FULL else MINIMAL_BYTES * (level == MINIMAL)
