"""Small changes while a table of 50,000 partitions is loaded, published and joined.

loading_other, loading_same   catalogd loads it, a reader that holds everything takes it in
joining_other, joining_same   a second reader drops and joins it, again and again

Of each: a table of another topic, and one of the same; committed in the metastore -> read in the
process of the first reader, beside the same while nothing is loaded. Everything is real. The
metastore is polled without a pause, so no wait for a poll hides what a change waits for the table.
``call_p99_ms`` is how long the metastore takes for the commit itself, ``idle_call_p99_ms``
while nothing is loaded: what the metastore is slower is in the delays, too.
"""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

from hmsclient import HMSClient

from topicast.cli.client.operator import Operator
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import DB, TIMEOUT_S, Bench
from topicast.tests.bench.metastores import add_partitions, create_large
from topicast.tests.bench.processes import Reporter
from topicast.tests.bench.report import at_most, beside, percentiles, quantile, say
from topicast.tests.cluster.fake_metastore import make_table
from topicast.topics.errors import SourceError
from topicast.topics.settings import parse_addresses
from topicast.topics.topic import table_topic
from topicast.topics.wire.messages.answers import NamedFacts

SEED: Final = 9
PARTITIONS: Final = 50_000
IDLE_CHANGES: Final = 400
JOINS: Final = 20
EVERY_S: Final = 0.03  # on average
POLL_S: Final = 0.001
SLOWER_MAX: Final = 2.0
BUDGET: Final = "1GB"
LARGE: Final = "large"
NUM_TOPICS: Final = 16
NUMBERS: Final = range(1000)


def topic(table: str) -> int:
    return table_topic(DB, table, NUM_TOPICS)


OTHER: Final = next(f"other{n}" for n in NUMBERS if topic(f"other{n}") != topic(LARGE))
NEAR: Final = next(f"near{n}" for n in NUMBERS if topic(f"near{n}") == topic(LARGE))
"""The small tables: in another topic than the large table, and in the same."""


@dataclass
class Committed:
    """Changes of the small tables: when each was, by table and revision; ms of each call."""

    at: dict[tuple[str, int], float] = field(default_factory=dict)
    calls_ms: list[float] = field(default_factory=list)

    def add(self, other: "Committed") -> None:
        self.at |= other.at
        self.calls_ms += other.calls_ms


class Reader(Reporter):
    """A process that follows everything, and reports when it reads which revision.

    It answers each order, once that is done, with the seconds that it took.
    """

    def __init__(self, hub: str, *, quiet: bool = False) -> None:
        super().__init__(_read, hub, quiet)
        self.seen: list[tuple[str, int, float]] = []
        self.answer()  # it is ready

    def delays_ms(self, table: str, committed: Committed) -> list[float]:
        """Return how long each change of ``table`` took; of several at once, to the last."""
        self.seen += self.reports()
        seen = [(revision, at) for name, revision, at in self.seen if name == table]
        delays = []
        for (name, revision), begin in committed.at.items():
            if name == table:
                delays.append(min(at for found, at in seen if found >= revision) - begin)
        return [max(delay, 0.0) * 1000 for delay in delays]


def _read(hub: str, quiet: bool, reported: Connection, orders: Connection) -> None:
    with Subscriber(hub, budget=BUDGET, timeout_s=TIMEOUT_S, levels="full") as catalog:
        for number in range(NUM_TOPICS):
            catalog.join(number)
        changes = catalog.watch(f"{DB}.[no]*") if not quiet else ()
        threading.Thread(target=_obey, args=(catalog, orders), daemon=True).start()
        for change in changes:
            name = change.object.removeprefix(f"{DB}.")
            revision = catalog.table(change.object).parameters.get("rev", "-1")
            reported.send((name, int(revision), time.monotonic()))
        threading.Event().wait()


def _obey(catalog: Subscriber, orders: Connection) -> None:
    orders.send(0.0)
    while True:
        (what,) = orders.recv()
        begin = time.monotonic()
        if what == "drop":
            catalog.drop(topic(LARGE))
        elif what == "join":
            catalog.join(topic(LARGE))
        else:
            while len(catalog.partition_names(f"{DB}.{LARGE}")) != PARTITIONS:
                threading.Event().wait(0.1)
        orders.send(time.monotonic() - begin)


class Changes:
    """Commits to the small tables, in turn, at random moments."""

    def __init__(self, client: HMSClient) -> None:
        self._client = client
        self._tables = {name: client.get_table(DB, name) for name in (OTHER, NEAR)}
        self._rng = random.Random(SEED)
        self._revision = 0

    def commit(self, until: Callable[[], bool]) -> Committed:
        """Commit until ``until``; return when each was committed."""
        committed = Committed()
        while not until():
            self._revision += 1
            name = (OTHER, NEAR)[self._revision % 2]
            table, begin = self._tables[name], time.monotonic()
            table.parameters["rev"] = str(self._revision)
            self._client.alter_table(DB, name, table)
            committed.at[name, self._revision] = end = time.monotonic()
            committed.calls_ms.append((end - begin) * 1000)
            threading.Event().wait(self._rng.uniform(0.2, 1.8) * EVERY_S)
        threading.Event().wait(1.0)  # the last ones arrive
        return committed


def counted(count: int) -> Callable[[], bool]:
    left = iter(range(count))
    return lambda: next(left, None) is None


def report(what: str, reader: Reader, idle: Committed, busy: Committed, **facts: object) -> None:
    facts |= {"partitions": PARTITIONS, "call_p99_ms": quantile(busy.calls_ms, 0.99)}
    facts["idle_call_p99_ms"] = quantile(idle.calls_ms, 0.99)
    for name, table in (("other", OTHER), ("same", NEAR)):
        calm, found = (percentiles(reader.delays_ms(table, of)) for of in (idle, busy))
        against = beside("idle p99_ms", found["p99_ms"], calm["p99_ms"])
        reached = at_most(found["p99_ms"], SLOWER_MAX * calm["p99_ms"])
        say(f"{what}_{name}", facts, found, against, reached, idle_p50_ms=calm["p50_ms"])


def measure(client: HMSClient, load: Callable[[], object], holder: Reader, joiner: Reader) -> None:
    changes = Changes(client)
    idle = changes.commit(counted(IDLE_CHANGES))
    begin, loader = time.monotonic(), threading.Thread(target=load)  # which waits for it
    loader.start()
    holder.order("count")
    loading = changes.commit(lambda: holder.answered)
    facts = {"load_s": time.monotonic() - begin - 1.0}
    holder.answer()
    loader.join()
    joiner.order("count")
    joiner.answer()
    report("loading", holder, idle, loading, **facts)
    took, joining = [], Committed()
    for _ in range(JOINS):
        joiner.order("drop")
        joiner.answer()
        joiner.order("join")
        joining.add(changes.commit(lambda: joiner.answered))
        took.append(joiner.answer())
    report("joining", holder, idle, joining, join_s=sum(took) / JOINS)


def load_large(hub: str) -> None:
    """Have catalogd read the large table; the reader says when it has it."""
    with Operator(parse_addresses(hub), timeout_s=TIMEOUT_S) as visit, suppress(SourceError):
        visit.order("refresh", (f"{DB}.{LARGE}",), NamedFacts, sender="bench")


def prepared(bench: Bench) -> tuple[HMSClient, str]:
    """Run a metastore with all tables, and hub and catalogd, which know one partition of LARGE."""
    hive = bench.metastore()
    client = bench.client(hive)
    for name in (OTHER, NEAR):
        client.create_table(make_table(DB, name, location=f"file:{bench.folder}/{name}"))
    create_large(hive, client, (DB, LARGE), partitions=1)
    flags = (f"--hms_event_polling_interval_s={POLL_S}", f"--num_topics={NUM_TOPICS}")
    # A comparison would find the partitions, and load them before the changes of an idle time end.
    address, _ = bench.served(hive, *flags, "--reconcile_calls_per_s=0")
    with Subscriber(address, budget=BUDGET, timeout_s=TIMEOUT_S) as catalog:
        assert len(catalog.partitions(f"{DB}.{LARGE}")) == 1
    add_partitions(hive, LARGE, held=1, partitions=PARTITIONS)  # by SQL: no event reports it
    return client, address


def main(bench: Bench) -> None:
    client, hub = prepared(bench)
    readers = [bench.enter_context(Reader(hub, quiet=quiet)) for quiet in (False, True)]
    measure(client, partial(load_large, hub), *readers)
