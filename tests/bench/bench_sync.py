"""How long ``sync`` takes: with nothing outstanding, right after a commit, and of one table.

idle      nothing has been committed since the last sync
changed   a parameter of a table was committed just before: its event has the object
created   a table was: it is read, and confirmed by another poll
scope     as ``changed``, of its table alone, while a table of many partitions is read again; beside
          ``changed``, where nothing else is read; ``everything_ms``: of a sync that waits for both

The metastore is idle before each: a commit comes at any time between two polls of catalogd.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial
from threading import Event
from time import perf_counter
from typing import Final

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema

from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import DB, TIMEOUT_S, Bench
from topicast.tests.bench.bench_events import facts_of
from topicast.tests.bench.report import beside, both_at_most, percentiles, say
from topicast.tests.cli.processes import Running
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.waiting import until

TIMES: Final = 60
PAUSE_S: Final = 0.5  # at most, between two
QUIET_S: Final = 8.0  # after which no id is read again
LARGE: Final = 10_000  # partitions
AT_ONCE: Final = 1_000
IDLE_MS_MAX: Final = 5.0
POLL_MS: Final = 200.0  # catalogd's default interval; no wait for it means less than half of it
SCOPE_TIMES: Final = 15
SCOPE_MAX: Final = 2.0  # of a sync while nothing else is read: the other table shares the machine


def _ms(work: Callable[[], object]) -> float:
    begin = perf_counter()
    work()
    return (perf_counter() - begin) * 1000


def _pauses() -> Iterator[None]:
    rng = random.Random(7)
    for _ in range(TIMES):
        Event().wait(rng.uniform(0, PAUSE_S))
        yield


def bench_idle(catalog: Subscriber, client: HMSClient) -> None:
    Event().wait(QUIET_S)
    took = percentiles(_ms(catalog.sync) for _ in _pauses())
    its = percentiles(_ms(client.get_current_notificationEventId) for _ in _pauses())
    against = beside("the metastore's newest id", took["p50_ms"], its["p50_ms"])
    say("idle", against, both_at_most((took["p50_ms"], IDLE_MS_MAX)), **took)


def bench_committed(name: str, catalog: Subscriber, commit: Callable[[int], None]) -> float:
    """State how long a sync takes right after each of several commits; return the median."""
    took: list[float] = []
    for number, _ in enumerate(_pauses()):
        commit(number)
        took.append(_ms(catalog.sync))
    found = percentiles(took)
    against = beside("a poll's interval", found["p50_ms"], POLL_MS, most=0.5)
    say(name, against, **found)
    return found["p50_ms"]


def bench_scope(
    catalog: Subscriber, client: HMSClient, daemon: Running, *, changed_ms: float
) -> None:
    def change() -> None:
        table = client.get_table(DB, "large")
        table.sd.cols = [*table.sd.cols, FieldSchema(f"c{len(table.sd.cols)}", "int", "")]
        client.alter_table(DB, "large", table)
        _remark(client, "small", len(table.sd.cols))

    took: list[float] = []
    everything: list[float] = []
    for _ in range(SCOPE_TIMES):
        change()
        took.append(_ms(partial(catalog.sync, scope=f"{DB}.small")))
        everything.append(took[-1] + _ms(catalog.sync))
        until(lambda: not facts_of(daemon)["tables_to_load"], timeout_s=TIMEOUT_S)
    found = percentiles(took)
    facts = {"partitions": LARGE, "everything_ms": percentiles(everything)["p50_ms"]}
    against = beside("changed", found["p50_ms"], changed_ms, most=SCOPE_MAX)
    say("scope", facts, against, **found)


def _remark(client: HMSClient, name: str, number: int) -> None:
    table = client.get_table(DB, name)
    table.parameters["rev"] = str(number)
    client.alter_table(DB, name, table)


def _create(bench: Bench, client: HMSClient, name: str, *keys: str) -> None:
    location = f"file:{bench.folder}/{name}"
    client.create_table(make_table(DB, name, location=location, keys=keys))


def main(bench: Bench) -> None:
    hive = bench.metastore()
    client = bench.client(hive)
    _create(bench, client, "small")
    _create(bench, client, "large", "ds")
    large = client.get_table(DB, "large")
    for begin in range(0, LARGE, AT_ONCE):
        some = range(begin, begin + AT_ONCE)
        client.add_partitions([make_partition(large, [f"{one:06d}"]) for one in some])
    hub, daemon = bench.served(hive)
    catalog = bench.subscriber(hub, "256MB")
    _remark(client, "small", 0)
    catalog.sync()
    bench_idle(catalog, client)
    changed_ms = bench_committed("changed", catalog, partial(_remark, client, "small"))
    bench_committed("created", catalog, lambda number: _create(bench, client, f"t{number}"))
    bench_scope(catalog, client, daemon, changed_ms=changed_ms)
