"""Pulls from a warm catalogd, as an application sees them, beside the metastore's own answers.

one_by_filter, ten_thousand_by_filter   partitions of a table of 100,000
one_by_name, all_names                  of the same
all                                     every partition: what a pull without a selection costs

Real processes and sockets; the subscriber follows nothing of the table, so every read is a pull,
and what comes is read into objects. The metastore is a real one (Derby), asked by hmsclient.
"""

import random
from collections.abc import Callable

from hmsclient import HMSClient

from topicast.catalog.metastore.port import PARTITIONS_PER_CALL_MAX
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import Bench
from topicast.tests.bench.bench_latency import PARTITIONS, TOPICS, stack
from topicast.tests.bench.report import at_most, beside, percentiles, say, timed_s

SEED = 5
NAME = "bench.p"
SOME = 10_000
ONE_MS_MAX, SOME_MS_MAX = 5.0, 100.0
RATIO_MAX = 0.5  # of what the metastore takes


def times_ms(work: Callable[[], object], calls: int) -> list[float]:
    return [timed_s(work) * 1000 for _ in range(calls)]


def report(
    name: str,
    ours: Callable[[], object],
    its: Callable[[], object],
    *,
    what: str,
    calls: tuple[int, int],
    ms_max: float | None = None,
) -> None:
    ours()
    its()
    mine, theirs = percentiles(times_ms(ours, calls[0])), percentiles(times_ms(its, calls[1]))
    against = beside(f"{what} p50_ms", mine["p50_ms"], theirs["p50_ms"], most=RATIO_MAX)
    reached = at_most(mine["p50_ms"], ms_max) if ms_max else {}
    say(name, mine, against, reached, partitions=PARTITIONS)


def by_names(client: HMSClient) -> None:
    """Read every partition as clients do, of whom none asks for so many at once."""
    names = client.get_partition_names("bench", "p", -1)
    for begin in range(0, len(names), PARTITIONS_PER_CALL_MAX):
        client.get_partitions_by_names("bench", "p", names[begin : begin + PARTITIONS_PER_CALL_MAX])


def measure(catalog: Subscriber, client: HMSClient) -> None:
    rng = random.Random(SEED)

    def day() -> str:
        return f"{rng.randrange(PARTITIONS):08d}"

    def by_filter(text: str, count: int) -> None:
        assert len(catalog.partitions(NAME, text)) == count

    def some() -> str:
        first = rng.randrange(PARTITIONS - SOME)
        return f"ds >= '{first:08d}' and ds < '{first + SOME:08d}'"

    report(
        "one_by_filter",
        lambda: by_filter(f"ds = '{day()}'", 1),
        lambda: client.get_partitions_by_filter("bench", "p", f"ds = '{day()}'", -1),
        what="get_partitions_by_filter",
        calls=(300, 50),
        ms_max=ONE_MS_MAX,
    )
    report(
        "ten_thousand_by_filter",
        lambda: by_filter(some(), SOME),
        lambda: client.get_partitions_by_filter("bench", "p", some(), -1),
        what="get_partitions_by_filter",
        calls=(20, 3),
        ms_max=SOME_MS_MAX,
    )
    report(
        "one_by_name",
        lambda: catalog.partitions(NAME, names=[f"ds={day()}"]),
        lambda: client.get_partitions_by_names("bench", "p", [f"ds={day()}"]),
        what="get_partitions_by_names",
        calls=(300, 50),
    )
    report(
        "all_names",
        lambda: catalog.partition_names(NAME),
        lambda: client.get_partition_names("bench", "p", -1),
        what="get_partition_names",
        calls=(20, 3),
    )
    report(
        "all",
        lambda: catalog.partitions(NAME),
        lambda: by_names(client),
        what="get_partition_names, get_partitions_by_names",
        calls=(5, 1),
    )


def main(bench: Bench) -> None:
    _, client, hub = stack(bench)
    catalog = bench.subscriber(hub, "256MB")
    catalog.drop(TOPICS[1])
    measure(catalog, client)
