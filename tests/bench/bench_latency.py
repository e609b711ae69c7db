"""From a commit in a real metastore to the eyes of ten subscribers, beside a client that polls.

first_visible       the first change of a table after a rest of 3 s, in which polls become rare
visible             hmsclient's call returned -> the change is read in a subscriber's process
visible_partition   the same for one partition of a table of 100,000
partition_bytes     what of such a change arrives at a reader that holds the table
table_again         table() the second time, beside get_table

Both alternatives ask again every 0.2 s: get_table, and get_partition for the one that changes
next, which a real client would not know. Times are ms, on one clock.
"""

import random
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import BUDGET, TIMEOUT_S, Bench
from topicast.tests.bench.frames import Frames, count_frames
from topicast.tests.bench.metastores import create_large
from topicast.tests.bench.processes import Process
from topicast.tests.bench.report import at_most, beside, best_us, both_at_most, percentiles, say
from topicast.tests.cluster.fake_metastore import make_table
from topicast.tests.integration.tables import connect
from topicast.tests.waiting import until
from topicast.topics.topic import NUM_TOPICS_DEFAULT, table_topic

SEED = 3
SUBSCRIBERS = 10
CHANGES = 60
PARTITION_CHANGES = 60
PARTITIONS = 100_000
POLL_S = 0.2
RESTS = 20
REST_S = 3.0  # by then catalogd looks for events as seldom as it ever does
FIRST_MS_MAX = 300.0
P50_MS_MAX, P99_MS_MAX, BYTES_MAX, AGAIN_US_MAX = 250.0, 500.0, 1_500, 10.0
TOPICS = [table_topic("bench", table, NUM_TOPICS_DEFAULT) for table in ("t", "p")]


def changing(number: int) -> str:
    """Return the value of the partition that is changed by revision ``number``."""
    return f"{random.Random(number).randrange(PARTITIONS):08d}"


def subscribe(hub: str, out: Connection) -> None:
    """Report when each revision of ``bench.t`` and of partitions of ``bench.p`` is read."""
    frames = count_frames()
    with Subscriber(hub, budget="64MB", timeout_s=TIMEOUT_S) as catalog:
        for topic in TOPICS:
            catalog.join(topic)
        changes = catalog.watch("bench.*")
        out.send(("ready", 0, 0))
        partitions = 0
        for change in changes:
            if change.object == "bench.t":
                found = catalog.table("bench.t").parameters.get("rev")
                out.send((found, time.time_ns(), 0))
                continue
            while _is_revised(catalog, partitions):
                sent = _bytes_of_last(frames, TOPICS[1])
                out.send((f"p{partitions:03d}", time.time_ns(), sent))
                partitions += 1


def _is_revised(catalog: Subscriber, number: int) -> bool:
    (held,) = catalog.partitions("bench.p", f'ds = "{changing(number)}"')
    return held.parameters.get("rev") == f"p{number:03d}"


def _bytes_of_last(frames: Frames, topic: int) -> int:
    return next((size for t, size in reversed(frames.deltas) if t == topic), 0)


def poll_table(uri: str, out: Connection) -> None:
    """Report when each revision of the table is read by asking again and again."""
    with connect(uri) as client:
        _poll(lambda: client.get_table("bench", "t").parameters.get("rev"), out)


def poll_partition(uri: str, out: Connection) -> None:
    """Report likewise of partitions."""
    revisions = iter(range(PARTITION_CHANGES + 1))
    wanted = next(revisions)

    def ask() -> str | None:
        nonlocal wanted
        held = client.get_partition("bench", "p", [changing(wanted)]).parameters.get("rev")
        if held == f"p{wanted:03d}":
            wanted = next(revisions)
            return str(held)
        return None

    with connect(uri) as client:
        _poll(ask, out)


def _poll(ask: Callable[[], str | None], out: Connection) -> None:
    last = None
    out.send(("ready", 0, 0))
    while True:
        requested = time.monotonic()
        found = ask()
        if found not in (None, last):
            last = found
            out.send((found, time.time_ns(), 0))
        threading.Event().wait(max(0.0, requested + POLL_S - time.monotonic()))


class Watchers:
    """Processes that report; ``collect`` gathers their reports."""

    def __init__(
        self, target: Callable[[str, Connection], None], argument: str, *, count: int = 1
    ) -> None:
        self._processes = [Process(target, argument) for _ in range(count)]
        self.seen: list[dict[str, int]] = [{} for _ in self._processes]
        self.sizes: list[int] = []
        for process in self._processes:
            assert process.answer()[0] == "ready"

    def end(self) -> None:
        """Let the processes go."""
        for process in self._processes:
            process.end()

    def collect(self) -> None:
        """Take in everything that was reported by now."""
        for process, seen in zip(self._processes, self.seen, strict=True):
            while process.answered:
                name, at_ns, size = process.answer()
                seen.setdefault(name, at_ns)
                self.sizes += [size] if size else []

    def delays_ms(self, committed: dict[str, int]) -> list[float]:
        """Return the time from each commit to each process that saw it."""
        return [
            (seen[name] - at_ns) / 1e6
            for seen in self.seen
            for name, at_ns in committed.items()
            if name in seen
        ]


def stack(
    bench: Bench, *, partitions: int = PARTITIONS
) -> tuple[EmbeddedMetastore, HMSClient, str]:
    """Run a metastore with ``bench.t`` and the large ``bench.p``, and all of ours, at rest."""
    hive = bench.metastore()
    client = bench.client(hive)
    client.create_table(make_table("bench", "t", location=f"file:{bench.folder}"))
    create_large(hive, client, ("bench", "p"), partitions=partitions)
    address, _ = bench.served(hive)
    with Subscriber(address, budget=BUDGET, timeout_s=TIMEOUT_S) as catalog:
        assert len(catalog.partitions("bench.p")) == partitions
    return hive, client, address


def measure(
    readers: Watchers, poller: Watchers, commit: Callable[[int], str], *, changes: int
) -> dict[str, int]:
    """Let ``commit`` make so many changes; return when each was committed, by revision."""
    rng = random.Random(SEED)
    committed: dict[str, int] = {}
    for number in range(changes):
        revision = commit(number)
        committed[revision] = time.time_ns()
        threading.Event().wait(rng.uniform(0.25, 0.45))
        readers.collect()
        poller.collect()
    return committed


def report(
    name: str, readers: Watchers, poller: Watchers, committed: dict[str, int], **facts: object
) -> None:
    ours = percentiles(readers.delays_ms(committed))
    its = percentiles(poller.delays_ms(committed))
    against = beside("p50_ms of one that polls", ours["p50_ms"], its["p50_ms"])
    reached = both_at_most((ours["p50_ms"], P50_MS_MAX), (ours["p99_ms"], P99_MS_MAX))
    facts |= {"subscribers": SUBSCRIBERS, "sent": len(committed), "its_p99": its["p99_ms"]}
    say(name, facts, ours, against, reached)


def bench_tables(hive: EmbeddedMetastore, client: HMSClient, readers: Watchers) -> None:
    poller = Watchers(poll_table, hive.uri)
    table = client.get_table("bench", "t")

    def commit(number: int) -> str:
        table.parameters["rev"] = f"r{number:03d}"
        client.alter_table("bench", "t", table)
        return f"r{number:03d}"

    report("visible", readers, poller, measure(readers, poller, commit, changes=CHANGES))
    poller.end()


def bench_first(client: HMSClient, readers: Watchers) -> None:
    """A change at any moment between two polls."""
    rng, table, committed = random.Random(SEED), client.get_table("bench", "t"), dict[str, int]()
    for number in range(RESTS):
        threading.Event().wait(REST_S + rng.uniform(0.0, 0.3))
        table.parameters["rev"] = f"f{number:03d}"
        client.alter_table("bench", "t", table)
        committed[f"f{number:03d}"] = time.time_ns()
    threading.Event().wait(REST_S)
    readers.collect()
    found = percentiles(readers.delays_ms(committed))
    assert found["n"] == RESTS * SUBSCRIBERS
    reached = at_most(found["p99_ms"], FIRST_MS_MAX)
    say("first_visible", found, reached, subscribers=SUBSCRIBERS, rest_s=REST_S)


def bench_partitions(hive: EmbeddedMetastore, client: HMSClient, readers: Watchers) -> None:
    poller = Watchers(poll_partition, hive.uri)

    def commit(number: int) -> str:
        one = client.get_partition("bench", "p", [changing(number)])
        one.parameters["rev"] = f"p{number:03d}"
        client.alter_partitions("bench", "p", [one])
        return f"p{number:03d}"

    committed = measure(readers, poller, commit, changes=PARTITION_CHANGES)
    report("visible_partition", readers, poller, committed, partitions=PARTITIONS)
    poller.end()
    most = max(readers.sizes)
    say("partition_bytes", at_most(most, BYTES_MAX), partitions=PARTITIONS, bytes=most)


def bench_reads(catalog: Subscriber, client: HMSClient) -> None:
    catalog.join(TOPICS[0])
    until(lambda: catalog.table("bench.t").parameters.get("rev"), what="the table")
    ours = best_us(lambda: catalog.table("bench.t"), calls=10_000)
    theirs = best_us(lambda: client.get_table("bench", "t"), calls=100)
    say("table_again", beside("get_table", ours, theirs), at_most(ours, AGAIN_US_MAX), us=ours)


def main(bench: Bench) -> None:
    hive, client, hub = stack(bench)
    readers = Watchers(subscribe, hub, count=SUBSCRIBERS)
    bench_tables(hive, client, readers)
    bench_first(client, readers)
    bench_partitions(hive, client, readers)
    readers.end()
    bench_reads(bench.subscriber(hub), client)
