"""What the planner saves a driver of waiting, beside the best use of the whole budget.

steady   reads by Zipf's law, of the same tables for two hours
shift    the same, but each hour other tables are read most
batch    the same, and every half hour a job reads 200 tables of its own, three times each

The best use is chosen for each hour anew, with all its reads known: what saves most for its
bytes, of topics at full and tables in the cache, the last table in part. A topic at full never
waits. A table in the cache waits for its first read alone: after changes it is prefetched. Bringing
a topic costs nothing.

Ours is a driver of production cores in virtual time: its planner runs as often as the product's,
beside the product's cache. A pull takes as long as the planner estimates at first: a round trip,
and time for its bytes. ``ratio``: of the waiting that the best use saves; ``warm``: in the last
hour.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import accumulate, groupby, pairwise
from typing import Final

from topicast.subscriber.store.latency import ROUND_TRIP_S, LatencyEstimate
from topicast.tests.bench.lake import Driver, Lake
from topicast.tests.bench.report import beside, say
from topicast.topics.topic import FULL, NAMESPACE

SEED: Final = 7
TABLES: Final = 4_000
PARTITIONS: Final = 200_000
HOURS: Final = 2
HOUR_S: Final = 3600.0
READS_PER_S: Final = 2.0
CHANGES_PER_S: Final = 0.1
SKEW: Final = 1.2
JOB_S: Final = 1800.0
JOB_TABLES: Final = 200
JOB_READS: Final = 3
BUDGET_SHARES: Final = (0.1, 0.3)
SHARE_MIN: Final = 0.9

Fact = tuple[float, int, bool]  # when, table, whether it changes (else it is read)
Part = tuple[int, float]  # bytes, and the seconds of waiting that they save


def zipf(rng: random.Random, *, moving: bool) -> list[Fact]:
    """Return reads and changes by Zipf's law; ``moving``: of other tables each hour."""
    weights = list(accumulate(1 / rank**SKEW for rank in range(1, TABLES + 1)))
    order = list(range(TABLES))
    rng.shuffle(order)
    facts: list[Fact] = []
    for hour in range(HOURS):
        if moving and hour:
            rng.shuffle(order)
        for per_s, changes in ((READS_PER_S, False), (CHANGES_PER_S, True)):
            drawn = rng.choices(order, cum_weights=weights, k=int(per_s * HOUR_S))
            facts += [(HOUR_S * (hour + rng.random()), table, changes) for table in drawn]
    return facts


def jobs(rng: random.Random) -> list[Fact]:
    """Return the reads of a job that comes again: its tables one after the other, some times."""
    tables = rng.sample(range(TABLES), JOB_TABLES)
    begins = [JOB_S * (number + 0.5) for number in range(int(HOURS * HOUR_S / JOB_S))]
    order = [table for table in tables for _ in range(JOB_READS)]
    return [(at + number, table, False) for at in begins for number, table in enumerate(order)]


def traces() -> Iterator[tuple[str, list[Fact]]]:
    """Yield each trace by name, in order of time."""
    yield "steady", sorted(zipf(random.Random(SEED), moving=False))
    yield "shift", sorted(zipf(random.Random(SEED), moving=True))
    rng = random.Random(SEED)
    yield "batch", sorted(zipf(rng, moving=False) + jobs(rng))


def by_hour(facts: Iterable[Fact]) -> Iterator[tuple[int, Iterator[Fact]]]:
    return groupby(facts, lambda fact: int(fact[0] // HOUR_S))


def waits_s(sizes: Sequence[int]) -> list[float]:
    """Return what a read of each table waits if it is pulled."""
    return [ROUND_TRIP_S * LatencyEstimate().saved(1, size) for size in sizes]


def bound(lake: Lake, facts: Sequence[Fact], *, budget_bytes: int) -> list[float]:
    """Return the seconds of waiting that the best use of the budget saves, hour by hour."""
    cost = waits_s(lake.sizes)
    topics = [lake.place(number)[0] for number in range(len(lake.tables))]
    whole = {number: topic.held_bytes for number, topic in lake.topics.items()}
    room = budget_bytes - whole[NAMESPACE]
    first = [True] * len(topics)  # by table: its next read is its first
    found = []
    for _, hour in by_hour(facts):
        cached: dict[int, float] = defaultdict(float)  # by table
        full: dict[int, float] = defaultdict(float)  # by topic
        for _, table, changes in hour:
            if changes:
                continue
            cached[table] += 0.0 if first[table] else cost[table]
            full[topics[table]] += cost[table]
            first[table] = False
        parts: dict[int, list[Part]] = defaultdict(list)
        for table, saved in cached.items():
            parts[topics[table]].append((lake.sizes[table], saved))
        slopes = [slope for one in full for slope in hull(parts[one], (whole[one], full[one]))]
        found.append(fill(slopes, room))
    return found


def hull(tables: Sequence[Part], topic: Part) -> list[Part]:
    """Return what more bytes of one topic save, at best: parts that save less per byte each.

    First come tables in the cache; the topic at full follows where it is worth its bytes.
    """
    points = [(0, 0.0)]
    for size, saved in sorted(tables, key=lambda one: -one[1] / one[0]):
        points.append((points[-1][0] + size, points[-1][1] + saved))
    points = [point for point in points if point[0] < topic[0]] + [topic]
    upper: list[Part] = []
    for at in points:
        while len(upper) > 1 and _slope(upper[-2], at) >= _slope(upper[-2], upper[-1]):
            upper.pop()
        upper.append(at)
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(upper)]


def _slope(a: Part, b: Part) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


def fill(parts: Iterable[Part], room: float) -> float:
    """Return what ``room`` bytes save at most; the last part is taken in part."""
    saves = 0.0
    for size, saved in sorted(parts, key=lambda one: -one[1] / one[0]):
        taken = min(size, room)
        saves += saved * taken / size
        room -= taken
    return saves


def ours(driver: Driver, facts: Sequence[Fact]) -> tuple[list[float], int]:
    """Let ``driver`` live through a trace; return the seconds saved by hour, and all pulls."""
    cost = waits_s(driver.lake.sizes)
    begin, pulls = driver.cluster.now, 0
    found = []
    for _, hour in by_hour(facts):
        saved = 0.0
        for at, table, changes in hour:
            driver.cluster.run(begin + at)
            if changes:
                driver.change(table)
                continue
            _, hit = driver.read(table)
            saved += cost[table] * hit
            pulls += not hit
        found.append(saved)
    return found, pulls


def measure(case: tuple[str, Sequence[Fact], float]) -> None:
    """Say what is saved on one trace, with this share of all bytes."""
    name, facts, share = case
    lake = Lake(TABLES, partitions=PARTITIONS, seed=SEED)
    budget_bytes = int(share * sum(topic.held_bytes for topic in lake.topics.values()))
    best = bound(lake, facts, budget_bytes=budget_bytes)
    driver = Driver(lake, budget_bytes=budget_bytes, automatic=True)
    driver.start()
    mine, pulls = ours(driver, facts)
    assert driver.held_most <= budget_bytes
    more = {"warm": mine[-1] / best[-1], "pulls": pulls, "reads": len(facts)}
    more |= {"full_topics": driver.levels()[FULL], "budget_share": share}
    against = beside("the best use of the budget", sum(mine), sum(best), least=SHARE_MIN)
    say(f"{name}_{share}", more, against, saved_s=sum(mine))


def main() -> None:
    cases = [(name, facts, share) for name, facts in traces() for share in BUDGET_SHARES]
    with ProcessPoolExecutor(max_workers=2) as pool:  # time is virtual
        for _ in pool.map(measure, cases):
            pass
