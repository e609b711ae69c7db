"""Traces: who reads which table when, and a driver that follows its planner through them.

A trace is a list of (time, table, changed), sorted; the driver holds what the planner chooses, in
a budget, and asserts that it never holds more.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from random import Random

from topicast.subscriber.placement.planner import Plan, Planner, Situation
from topicast.subscriber.placement.usage import HOT_PER_S, UsageTracker
from topicast.topics.topic import FULL, MINIMAL, NONE

MINIMAL_BYTES = 64
TABLES = 2000
TOPICS = 64
ALL = (NONE, MINIMAL, FULL)

Fact = tuple[float, int, bool]  # when, table, whether it changed (else it is read)


@dataclass
class Place:
    """A topic as the driver holds it."""

    level: int = NONE
    since: float = -inf
    full_bytes: int = 0
    lowered_at: float = -inf
    rising: bool = False


@dataclass
class Driver:
    """Performs plans at once, and counts what was answered from memory."""

    sizes: Sequence[int]
    budget_bytes: int
    offered: Sequence[int] = ALL
    topics: int = TOPICS
    planner: Planner = field(default_factory=lambda: Planner(MINIMAL_BYTES))
    usage: UsageTracker = field(default_factory=UsageTracker)
    reads: int = 0
    pulls: int = 0
    joins: int = 0  # none to minimal and back
    moves: int = 0  # to and from full
    returns: int = 0  # to full, less than an hour after it was left
    changes: int = 0
    cache: OrderedDict[int, int] = field(default_factory=OrderedDict)
    next_at: dict[int, float] = field(default_factory=dict)  # when a hot table may be pulled again

    def __post_init__(self) -> None:
        self.places = [Place() for _ in range(self.topics)]
        for table, size in enumerate(self.sizes):
            self.places[self.topic(table)].full_bytes += size
        self.cached = [0] * self.topics

    @property
    def hit_share(self) -> float:
        """The share of reads that were answered without a pull."""
        return 1 - self.pulls / self.reads

    def topic(self, table: int) -> int:
        """Return where ``table`` is, by a hash."""
        return table * 2654435761 % (1 << 32) * self.topics >> 32

    def fixed_bytes(self) -> int:
        """Return what is held but for the cache; a rising topic counts twice."""
        full = sum(p.full_bytes for p in self.places if p.level == FULL)
        few = sum(p.level == MINIMAL or p.rising for p in self.places)
        return full + MINIMAL_BYTES * few

    def make_room(self) -> None:
        """Give up what was pulled, least used first, until all fits."""
        fixed = self.fixed_bytes()
        assert fixed <= self.budget_bytes
        held = sum(self.cached)
        while fixed + held > self.budget_bytes:
            held -= self.evict(next(iter(self.cache)))

    def evict(self, table: int) -> int:
        """Evict a pulled table; return its bytes."""
        size = self.cache.pop(table, 0)
        self.cached[self.topic(table)] -= size
        return size

    def read(self, table: int, now: float) -> None:
        """Answer a read, from memory or by a pull."""
        topic, size = self.topic(table), self.sizes[table]
        self.usage.read(topic, b"%d" % table, size=size, now=now)
        self.reads += 1
        place = self.places[topic]
        if place.level == FULL:
            return
        if table in self.cache:
            self.cache.move_to_end(table)
            return
        self.pulls += 1
        if place.level == NONE and MINIMAL in self.offered:
            place.level, place.since = MINIMAL, now  # a first use does not wait for a plan
            self.joins += 1
        if place.level == MINIMAL and size <= self.budget_bytes - self.fixed_bytes():
            self.cache[table] = size
            self.cached[topic] += size
            self.make_room()

    def change(self, table: int, now: float) -> None:
        """Apply a stub, or a delta; what is hot is pulled again at once, if it may be."""
        group = b"%d" % table
        rate = self.usage.rate(group, now=now)
        self.changes += 1
        self.usage.on_changed(group, size=self.sizes[table] // 8, version=self.changes)
        if table in self.cache and rate >= HOT_PER_S and now >= self.next_at.get(table, 0.0):
            self.next_at[table] = now + 1 / rate
        else:
            self.evict(table)

    def situations(self, now: float) -> list[Situation]:
        """Return the situations of all topics."""
        return [
            Situation(
                topic=topic,
                level=place.level,
                since=place.since,
                full_bytes=place.full_bytes,
                held_bytes=(0, MINIMAL_BYTES + self.cached[topic], place.full_bytes)[place.level],
                usage=self.usage.of(topic, now=now),
            )
            for topic, place in enumerate(self.places)
        ]

    def plan(self, now: float) -> Plan:
        """Perform what the planner plans."""
        plan = self.planner.plan(
            self.situations(now), budget_bytes=self.budget_bytes, offered=self.offered, now=now
        )
        for step in plan.steps:
            place = self.places[step.topic]
            if FULL in (step.level, place.level):
                self.moves += 1
            else:
                self.joins += 1
            if place.level == FULL:
                place.lowered_at = now
            self.returns += step.level == FULL and now < place.lowered_at + 3600
            place.rising = step.level == FULL and place.level == MINIMAL
            place.level, place.since = step.level, now
            if step.level == NONE:
                for table in [t for t in self.cache if self.topic(t) == step.topic]:
                    self.evict(table)
            self.make_room()
        for step in plan.steps:
            self.places[step.topic].rising = False
            if step.level == FULL:  # what was pulled is in it
                for table in [t for t in self.cache if self.topic(t) == step.topic]:
                    self.evict(table)
        return plan

    def follow(self, facts: Iterable[Fact], *, every_s: float) -> None:
        """Live through a trace."""
        plan_at = 0.0
        for now, table, changed in facts:
            while plan_at <= now:
                self.plan(plan_at)
                plan_at += every_s
            if changed:
                self.change(table, now)
            else:
                self.read(table, now)


def sizes(seed: int, count: int = TABLES) -> list[int]:
    """Return the bytes of each table: most are small, some large."""
    rng = Random(seed)
    return [int(min(800 * rng.paretovariate(1.1), 2_000_000)) for _ in range(count)]


def zipf(rng: Random, skew: float, tables: Sequence[int]) -> Iterator[int]:
    """Draw tables, the first most often."""
    weights = list(accumulate(1 / rank**skew for rank in range(1, len(tables) + 1)))
    while True:
        yield from rng.choices(tables, cum_weights=weights, k=1000)


def steady(
    seed: int,
    *,
    hours: float,
    per_s: float,
    changes_per_s: float,
    skew: float = 1.2,
    start: float = 0.0,
) -> list[Fact]:
    """Read and change by Zipf's law, in an order of tables that the seed draws."""
    rng = Random(seed)
    tables = list(range(TABLES))
    rng.shuffle(tables)
    facts: list[Fact] = []
    for rate, changed in ((per_s, False), (changes_per_s, True)):
        draws, now = zipf(rng, skew, tables), start
        while rate and (now := now + rng.expovariate(rate)) < start + hours * 3600:
            facts.append((now, next(draws), changed))
    return sorted(facts)


def scan(seed: int) -> list[Fact]:
    """Work for four hours; in the third, somebody reads every table once."""
    tables = list(range(TABLES))
    Random(seed).shuffle(tables)
    facts = [(7200 + 0.3 * place, table, False) for place, table in enumerate(tables)]
    return sorted(facts + steady(seed, hours=4, per_s=1, changes_per_s=0.05))


def nightly(seed: int) -> list[Fact]:
    """Work from eight to six; at two at night a batch reads 300 tables four times, and writes."""
    hours = 30
    facts = steady(seed, hours=hours, per_s=0.3, changes_per_s=0.03)
    facts = [fact for fact in facts if 8 <= fact[0] / 3600 % 24 < 18]
    batch = Random(seed).sample(range(TABLES), 300)
    for day in range(2):
        at = (24 * day + 2) * 3600.0
        for place, table in enumerate(batch):
            facts += [(at + 600 * turn + 2 * place, table, False) for turn in range(4)]
            facts.append((at + 300 + 6 * place, table, True))
    return sorted(facts)


def teams(seed: int) -> list[Fact]:
    """Let two teams with tables of their own take turns of an hour."""
    facts: list[Fact] = []
    for hour in range(5):
        turn = seed + hour % 2
        facts += steady(turn, hours=1, per_s=1, changes_per_s=0.05, start=3600.0 * hour)
    return facts


TRACES: dict[str, tuple[Callable[[int], list[Fact]], int, float]] = {  # facts, hours, plan every
    "Zipf 1.2": (lambda seed: steady(seed, hours=3, per_s=2, changes_per_s=0.1), 3, 120.0),
    "Zipf 1.2, busy writers": (
        lambda seed: steady(seed, hours=3, per_s=2, changes_per_s=1),
        3,
        120.0,
    ),
    "full scan": (scan, 4, 120.0),
    "nightly batch": (nightly, 30, 240.0),
    "two teams in turns": (teams, 5, 120.0),
}
