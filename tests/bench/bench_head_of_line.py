"""Small changes while a table of 500,000 partitions is loaded, published and joined.

loading_other, loading_same   catalogd loads it, a reader that holds everything takes it in
joining_other, joining_same   a second reader drops and joins it, again and again

Of each: a table of another topic, and one of the same; committed in the metastore -> read in the
process of the first reader, beside the same while nothing is loaded. The metastore is in
memory, in catalogd's process; all else is real. It is polled every 0.05 s.
Run: make bench ARGS=tests/bench/bench_head_of_line.py
"""

import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from topicast.subscriber import Subscriber
from topicast.tests.bench.report import beside, percentiles, say, target
from topicast.tests.bench.served import DB, LARGE, NEAR, NUM_TOPICS, OTHER, SPAWN, Served, served
from topicast.tests.bench.served import topic_of as topic
from topicast.tests.cli.processes import statestored

SEED: Final = 9
PARTITIONS: Final = 500_000
IDLE_CHANGES: Final = 400
JOINS: Final = 20
EVERY_S: Final = 0.03  # on average
SLOWER_MAX: Final = 2.0
BUDGET: Final = "1GB"
TIMEOUT_S: Final = 120.0

Committed = dict[tuple[str, int], float]


class Reader:
    """A process that follows everything, and reports when it reads which revision."""

    def __init__(self, hub: str, *, quiet: bool = False) -> None:
        self._orders, theirs = SPAWN.Pipe()
        self._told, sending = SPAWN.Pipe(duplex=False)
        arguments = (hub, quiet, theirs, sending)
        self._process = SPAWN.Process(target=_read, args=arguments, daemon=True)
        self._process.start()
        self.seen: list[tuple[str, int, float]] = []
        self.wait()

    def order(self, what: str) -> None:
        self._orders.send(what)

    @property
    def answered(self) -> bool:
        return self._orders.poll()

    def wait(self) -> float:
        """Wait until what was ordered is done; return the seconds that it took."""
        return float(self._orders.recv())

    def delays_ms(self, table: str, committed: Committed) -> list[float]:
        """Return how long each change of ``table`` took; of several at once, to the last."""
        while self._told.poll():
            self.seen.append(self._told.recv())
        seen = [(revision, at) for name, revision, at in self.seen if name == table]
        delays = []
        for (name, revision), begin in committed.items():
            if name == table:
                delays.append(min(at for found, at in seen if found >= revision) - begin)
        return [delay * 1000 for delay in delays]

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _read(hub: str, quiet: bool, orders: Connection, reported: Connection) -> None:
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
        what = orders.recv()
        begin = time.monotonic()
        if what == "drop":
            catalog.drop(topic(LARGE))
        elif what == "join":
            catalog.join(topic(LARGE))
        else:
            assert len(catalog.partition_names(f"{DB}.{LARGE}")) == PARTITIONS
        orders.send(time.monotonic() - begin)


class Changes:
    """Commits to the small tables, in turn, at random moments."""

    def __init__(self, catalogd: Served) -> None:
        self._catalogd = catalogd
        self._rng = random.Random(SEED)
        self._revision = 0

    def commit(self, until: Callable[[], bool]) -> Committed:
        """Commit until ``until``; return when each was committed."""
        committed: Committed = {}
        while not until():
            self._revision += 1
            table = (OTHER, NEAR)[self._revision % 2]
            committed[table, self._revision] = self._catalogd.change(table, self._revision)
            threading.Event().wait(self._rng.uniform(0.2, 1.8) * EVERY_S)
        threading.Event().wait(1.0)  # the last ones arrive
        return committed


def counted(count: int) -> Callable[[], bool]:
    left = iter(range(count))
    return lambda: next(left, None) is None


def report(what: str, reader: Reader, idle: Committed, busy: Committed, **facts: object) -> None:
    for name, table in (("other", OTHER), ("same", NEAR)):
        calm, found = (percentiles(reader.delays_ms(table, of)) for of in (idle, busy))
        p99, idle_p99 = float(str(found["p99_ms"])), float(str(calm["p99_ms"]))
        say(
            "head_of_line",
            f"{what}_{name}",
            partitions=PARTITIONS,
            **facts,
            **found,
            idle_p50_ms=calm["p50_ms"],
            **beside("idle p99_ms", ours=p99, its=idle_p99),
            **target(p99, at_most=SLOWER_MAX * idle_p99),
        )


def measure(catalogd: Served, holder: Reader, joiner: Reader) -> None:
    changes = Changes(catalogd)
    idle = changes.commit(counted(IDLE_CHANGES))
    begin = time.monotonic()
    catalogd.create_large()
    loading = changes.commit(catalogd.is_loaded)
    facts = {"load_s": time.monotonic() - begin - 1.0}
    for reader in (holder, joiner):
        reader.order("count")
        reader.wait()
    report("loading", holder, idle, loading, **facts)
    took, joining = [], Committed()
    for _ in range(JOINS):
        joiner.order("drop")
        joiner.wait()
        joiner.order("join")
        joining |= changes.commit(lambda: joiner.answered)
        took.append(joiner.wait())
    report("joining", holder, idle, joining, join_s=sum(took) / JOINS)


def end(readers: Iterable[Reader]) -> None:
    for reader in readers:
        reader.end()


def main() -> None:
    with TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        hub = stack.enter_context(statestored(folder))
        address = hub.ready["address"]
        state = folder / "state"
        state.mkdir()
        catalogd = stack.enter_context(served(address, state, partitions=PARTITIONS))
        readers = [Reader(address), Reader(address, quiet=True)]
        stack.callback(end, readers)
        measure(catalogd, *readers)


if __name__ == "__main__":
    main()
