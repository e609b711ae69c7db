"""Reads by Zipf's law over 20,000 tables with a million partitions, on a tenth of their bytes.

share     reads that a driver answers without a round trip, beside those of the best choice of
          tables of as many bytes, made with all reads known in advance, and held fresh for
          nothing; cold: the same ratio for the first ten minutes, warm: for the second half
pulls     round trips for a read: of tables never read before, changed since the last read, and
          given up for others
older     answers that are older than what the driver had applied; ``stale``: than the metastore
ttl       our answers beside a cache of 60 s with as many bytes; ``stale``: older than the metastore
full      the most that we held, beside a driver that holds everything and never pulls
hms       ms for a read, beside a real metastore that gets the same requests at the same moments;
          ``calls``: of the metastore for a read, by catalogd; ``its_calls``: by the client

A read is of a table with all its partitions. One change for 20 reads, by the same law. All but the
last: one driver of production cores in virtual time: a pull is answered at once, a delta comes
after 50 ms. The last: real processes, 200 tables with 4,000 partitions, read without a pause, so
that the cache is all that there is: no topic is raised within that time.
HOURS=2 in the environment: for another time than four virtual hours.
"""

import os
import random
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from time import perf_counter
from typing import Final

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema

from topicast.cli.client.operator import Operator
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import TIMEOUT_S, Bench
from topicast.tests.bench.lake import Driver, Lake, partition_counts
from topicast.tests.bench.report import at_most, beside, percentiles, reference, say
from topicast.tests.bench.stores import COLUMNS
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.integration.tables import revise
from topicast.topics.topic import FULL
from topicast.topics.wire.messages.questions import ReadStatus

SEED: Final = 5
TABLES: Final = 20_000
PARTITIONS: Final = 1_000_000
SKEWS: Final = (1.2, 1.5)
HOURS: Final = int(os.environ.get("HOURS", "4"))
READS_PER_S: Final = 10.0
CHANGES_PER_S: Final = 0.5
COLD_S: Final = 600.0
TTL_S: Final = 60.0
BUDGET_SHARE: Final = 0.1
SHARE_MIN: Final = 0.9
REAL_TABLES: Final = 200
REAL_PARTITIONS: Final = 4_000
REAL_READS: Final = 1_500
CHANGE_EVERY: Final = 20
OF_HMS_MAX: Final = 0.5

Fact = tuple[float, int, bool]  # when, table, whether it changes (else it is read)


@dataclass
class Tally:
    """Of the reads of some time: how many, without a round trip, and answered with what."""

    reads: int = 0
    hits: int = 0
    stale: int = 0  # answers older than the metastore
    older: int = 0  # than what was applied
    first: int = 0  # pulls of what was never read before,
    changed: int = 0  # or has changed since

    @property
    def share(self) -> float:
        return self.hits / max(self.reads, 1)


def trace(skew: float) -> list[Fact]:
    """Return reads and writes, in an order of tables that has nothing to do with size."""
    rng = random.Random(SEED)
    tables = list(range(TABLES))
    rng.shuffle(tables)
    weights = list(accumulate(1 / rank**skew for rank in range(1, TABLES + 1)))
    facts: list[Fact] = []
    for per_s, changes in ((READS_PER_S, False), (CHANGES_PER_S, True)):
        count = int(per_s * HOURS * 3600)
        drawn = rng.choices(tables, cum_weights=weights, k=count)
        facts += [(rng.uniform(0, HOURS * 3600), table, changes) for table in drawn]
    return sorted(facts)


def windows(now: float, end: float) -> Iterator[str]:
    """Yield the names of the times that ``now`` is in; at ``end`` all is over."""
    yield "all"
    if now < COLD_S:
        yield "cold"
    if now >= end / 2:
        yield "warm"


def tallies() -> dict[str, Tally]:
    return {name: Tally() for name in ("all", "cold", "warm")}


def best_static(
    facts: Sequence[Fact], sizes: Sequence[int], *, budget_bytes: int
) -> dict[str, Tally]:
    """Choose tables by their reads per byte, until the next does not fit."""
    reads = [0] * len(sizes)
    for _, table, changes in facts:
        reads[table] += not changes
    chosen, left = set(), budget_bytes
    for table in sorted(range(len(sizes)), key=lambda t: -reads[t] / sizes[t]):
        if reads[table] and sizes[table] <= left:
            chosen.add(table)
            left -= sizes[table]
    found = tallies()
    for now, table, changes in facts:
        for name in () if changes else windows(now, facts[-1][0]):
            found[name].reads += 1
            found[name].hits += table in chosen
    return found


def ttl(facts: Sequence[Fact], sizes: Sequence[int], *, budget_bytes: int) -> dict[str, Tally]:
    """Keep what was read for a minute, least recently read out first."""
    held: OrderedDict[int, tuple[float, int]] = OrderedDict()  # when, and of which change
    changed = [0] * len(sizes)
    left = budget_bytes
    found = tallies()
    for now, table, changes in facts:
        if changes:
            changed[table] += 1
            continue
        since, version = held.get(table, (-TTL_S, -1))
        hit = now < since + TTL_S
        for name in windows(now, facts[-1][0]):
            found[name].reads += 1
            found[name].hits += hit
            found[name].stale += hit and version < changed[table]
        if hit:
            held.move_to_end(table)
            continue
        if held.pop(table, None) is not None:
            left += sizes[table]
        if sizes[table] > budget_bytes:
            continue
        held[table] = now, changed[table]
        left -= sizes[table]
        while left < 0:
            left += sizes[held.popitem(last=False)[0]]
    return found


def ours(facts: Sequence[Fact], driver: Driver) -> dict[str, Tally]:
    """Let ``driver`` live through the trace."""
    begin = driver.cluster.now
    seen: set[int] = set()
    changed: set[int] = set()
    found = tallies()
    for now, table, changes in facts:
        driver.cluster.run(begin + now)
        if changes:
            driver.change(table)
            changed.add(table)
            continue
        content, hit = driver.read(table)
        for name in windows(now, facts[-1][0]):
            one = found[name]
            one.reads += 1
            one.hits += hit
            one.stale += content.version < driver.lake.version(table)
            one.older += content.version < driver.applied.get(table, 0)
            one.first += not hit and table not in seen
            one.changed += not hit and table in seen and table in changed
        seen.add(table)
        changed.discard(table)
    return found


@dataclass
class Measured:
    """What became of one trace."""

    name: str
    ours: dict[str, Tally]
    best: dict[str, Tally]
    cached: Tally
    full: dict[str, object]  # the facts of the line "full"


def measure(skew: float) -> Measured:
    """Live through the trace of a skew."""
    lake = Lake(TABLES, partitions=PARTITIONS, seed=SEED)
    everything = Driver(lake, budget_bytes=1 << 40, automatic=False)
    everything.start()
    full_bytes = everything.held_bytes
    budget_bytes = int(BUDGET_SHARE * full_bytes)
    facts = trace(skew)
    best = best_static(facts, lake.sizes, budget_bytes=budget_bytes)
    cached = ttl(facts, lake.sizes, budget_bytes=budget_bytes)["all"]
    driver = Driver(lake, budget_bytes=budget_bytes, automatic=True)
    driver.start()
    found = ours(facts, driver)
    most = driver.held_most
    full: dict[str, object] = {"bytes": most, **beside("everything", most, full_bytes)}
    full |= {"partitions": sum(lake.counts), "full_topics": driver.levels()[FULL]}
    full |= at_most(most, budget_bytes)
    return Measured(f"skew_{skew}", found, best, cached, full)


def report(of: Measured) -> None:
    name, one, reads = of.name, of.ours["all"], of.ours["all"].reads
    ratios = {window: tally.share / of.best[window].share for window, tally in of.ours.items()}
    against = beside("best_static", one.share, of.best["all"].share, least=SHARE_MIN)
    parts = {"cold": ratios["cold"], "warm": ratios["warm"]}
    say(f"{name}_share", parts, against, reads=reads, share=one.share)
    pulls = {"first": one.first / reads, "changed": one.changed / reads}
    pulls["given_up"] = 1 - one.share - sum(pulls.values())
    say(f"{name}_pulls", pulls, reference("what the rest is"), pulls=1 - one.share)
    say(f"{name}_older", at_most(one.older, 0), answers=one.older)
    against = beside("ttl", one.share, of.cached.share, least=1.0)
    stale = {"stale": one.stale / reads, "its_stale": of.cached.stale / reads}
    say(f"{name}_ttl", stale, against, share=one.share)
    say(f"{name}_full", of.full)


def real_tables(client: HMSClient, folder: Path) -> list[tuple[str, bool]]:
    """Create the tables of the real metastore; return their names, and whether partitioned."""
    counts = partition_counts(REAL_TABLES, REAL_PARTITIONS, random.Random(SEED))
    tables = {f"zipf.t{number:03}": count for number, count in enumerate(counts)}
    for name, count in tables.items():
        keys, table = ["ds"] if count else [], name.partition(".")[2]
        made = make_table("zipf", table, location=f"file:{folder}/{table}", keys=keys)
        made.sd.cols = [FieldSchema(column, "string", "a comment") for column in COLUMNS]
        client.create_table(made)
        if count:
            client.add_partitions([make_partition(made, [f"{day:03}"]) for day in range(count)])
    return [(name, count > 0) for name, count in tables.items()]


def read_ours(catalog: Subscriber, name: str, *, partitioned: bool) -> int:
    """Read a table with all its partitions; return how many there are."""
    catalog.table(name)
    return len(catalog.partitions(name)) if partitioned else 0


def read_straight(client: HMSClient, name: str, *, partitioned: bool) -> int:
    """Ask the metastore for the same; return how many there are."""
    table = name.partition(".")[2]
    client.get_table("zipf", table)
    return len(client.get_partitions("zipf", table, -1)) if partitioned else 0


def real_reads(visit: Operator) -> int:
    """Return how often catalogd has called the metastore for tables and partitions."""
    return int(str(dict(visit.catalog(ReadStatus()).rows)["reads"]))


def beside_hms(skew: float, bench: Bench) -> None:
    """Say what a read takes, beside a real metastore."""
    rng, mine, theirs, its_calls = random.Random(SEED), [], [], 0
    hive = bench.metastore()
    client = bench.client(hive, "zipf")
    tables = real_tables(client, bench.folder)
    address = bench.hub().address
    bench.catalogd(hive.uri, address)
    with Subscriber(address, budget="1GB", timeout_s=TIMEOUT_S, levels="full") as everything:
        everything.sync(TIMEOUT_S)
        for name, partitioned in tables:
            read_ours(everything, name, partitioned=partitioned)
        budget = int(BUDGET_SHARE * everything.stats().held_bytes)
    visit, catalog = bench.operator(address), bench.subscriber(address, budget)
    catalog.sync(TIMEOUT_S)
    before = real_reads(visit)
    rng.shuffle(tables)
    weights = list(accumulate(1 / rank**skew for rank in range(1, len(tables) + 1)))
    drawn = rng.choices(tables, cum_weights=weights, k=REAL_READS)
    for number, (name, partitioned) in enumerate(drawn):
        if number % CHANGE_EVERY == 0:
            revise(client, [rng.choices(tables, cum_weights=weights)[0][0]], number)
        begin = perf_counter()
        found = read_ours(catalog, name, partitioned=partitioned)
        between = perf_counter()
        its = read_straight(client, name, partitioned=partitioned)
        mine.append((between - begin) * 1000)
        theirs.append((perf_counter() - between) * 1000)
        assert found == its, name
        its_calls += 1 + partitioned
    stats, calls = catalog.stats(), real_reads(visit) - before
    assert stats.held_bytes <= budget
    ours_ms, its_ms = sum(mine) / REAL_READS, sum(theirs) / REAL_READS
    facts = {"budget_bytes": budget, "pulls": stats.pulls / REAL_READS}
    facts |= {"calls": calls / REAL_READS, "its_calls": its_calls / REAL_READS}
    against = beside("HMS, ms for a read", ours_ms, its_ms, most=OF_HMS_MAX)
    say(f"skew_{skew}_hms", facts, percentiles(mine), against, ms=ours_ms)


def main(bench: Bench) -> None:
    with ProcessPoolExecutor(max_workers=len(SKEWS)) as pool:  # time is virtual
        for measured in pool.map(measure, SKEWS):
            report(measured)
    beside_hms(SKEWS[0], bench)
