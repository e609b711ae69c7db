"""What a reader that stopped (SIGSTOP) costs the others and the hub, while 300 MB are broadcast.

idle        small deltas, nothing else                      p99 of the others, published -> seen
busy        the same, while large deltas go to four readers
stopped     the same, while one of the four stands still
hub_memory  the most that the hub held in each phase; goes_on  the reader holds what the others do

"""

import os
import random
import signal
import time

from topicast.tests.bench.bench import DB, Bench
from topicast.tests.bench.catalogd import (
    PIECE_BLOCKS,
    BenchCatalogd,
    Reader,
    delays_ms,
    filled,
    rewrite,
    small_tables,
    stand,
)
from topicast.tests.bench.processes import resident_mb
from topicast.tests.bench.report import at_most, beside, percentiles, reference, say

SEED = 11
OTHERS = 3
MEGABYTES = 300
BUSY_MEGABYTES = 100
EVERY_S = 0.003  # one piece of 60 KB and, every other time, one small delta: 20 MB/s
IDLE_CHANGES = 600
TABLE = "large"
BLOCKS = 1000  # rewritten again and again, so that nobody has to hold more
IDLE_RATIO_MAX = 2.0
BUSY_RATIO_MAX = 1.5
CAUGHT_UP_S_MAX = 2.0
GROWTH_MB_MAX = 64.0


class Broadcast:
    """Small deltas of one topic, and large deltas of another."""

    def __init__(self, catalogd: BenchCatalogd, others: list[Reader], *, hub_pid: int) -> None:
        self.catalogd = catalogd
        self.others = others
        self.other, _ = small_tables(catalogd.catalog)
        self.topic = catalogd.catalog.topic(DB, self.other)
        self._rng = random.Random(SEED)
        self._hub_pid = hub_pid

    def run(self, turns: int, *, large: bool) -> tuple[dict[tuple[int, int], float], float]:
        """Return when small deltas were published, and the most that the hub held in memory."""
        catalogd, most = self.catalogd, 0.0
        catalogd.at.clear()
        for turn in range(turns):
            begin = time.monotonic()
            if turn % 2 == 0:
                columns = (f"c{turn}",)
                catalogd.commit(catalogd.catalog.put_table(DB, self.other, columns=columns))
            if large:
                first = turn * PIECE_BLOCKS
                blocks = [number % BLOCKS for number in range(first, first + PIECE_BLOCKS)]
                catalogd.commit(rewrite(catalogd.catalog, TABLE, blocks, self._rng))
            catalogd.turn(max(begin + EVERY_S - time.monotonic(), 0.0))
            if turn % 20 == 0:
                most = max(most, resident_mb(self._hub_pid))
                self._collect()
        catalogd.turn(0.5)
        self._collect()
        return dict(catalogd.at), max(most, resident_mb(self._hub_pid))

    def _collect(self) -> None:
        for reader in self.others:
            reader.collect()


def measure(broadcast: Broadcast, stopped: Reader) -> None:
    per_megabyte = 1000 / PIECE_BLOCKS
    phases = {"idle": broadcast.run(2 * IDLE_CHANGES, large=False)}
    phases["busy"] = broadcast.run(int(BUSY_MEGABYTES * per_megabyte), large=True)
    os.kill(stopped.pid, signal.SIGSTOP)
    phases["stopped"] = broadcast.run(int(MEGABYTES * per_megabyte), large=True)
    caught_up_s = _caught_up_s(broadcast.catalogd, stopped)
    reported = {
        name: percentiles(
            delay
            for reader in broadcast.others
            for delay in delays_ms(reader, broadcast.other, broadcast.topic, at)
        )
        for name, (at, _) in phases.items()
    }
    p99 = {name: facts["p99_ms"] for name, facts in reported.items()}
    say("idle", reported["idle"], reference("what the others are beside"))
    against, why = beside("idle p99_ms", p99["busy"], p99["idle"]), "with no reader stopped"
    say("busy", reported["busy"], against, reference(why), megabytes=BUSY_MEGABYTES)
    against = beside("busy p99_ms", p99["stopped"], p99["busy"], most=BUSY_RATIO_MAX)
    say("stopped", reported["stopped"], against, megabytes=MEGABYTES)
    against = beside("idle p99_ms", p99["stopped"], p99["idle"], most=IDLE_RATIO_MAX)
    say("stopped_to_idle", against)
    held = {f"{name}_mb": most for name, (_, most) in phases.items()}
    grown = phases["stopped"][1] - phases["idle"][1]
    say("hub_memory", held, at_most(grown, GROWTH_MB_MAX), grown_mb=grown)
    say("goes_on", at_most(caught_up_s, CAUGHT_UP_S_MAX), caught_up_s=caught_up_s)


def _caught_up_s(catalogd: BenchCatalogd, reader: Reader) -> float:
    """Let ``reader`` go on; return how long it takes to see the newest of both topics."""
    begin = time.monotonic()
    os.kill(reader.pid, signal.SIGCONT)
    other, _ = small_tables(catalogd.catalog)
    newest = catalogd.catalog.topics[catalogd.catalog.topic(DB, other)].version
    seen = 0
    while seen < newest:
        reader.order("version", f"{DB}.{other}")
        seen = int(str(catalogd.wait_for(reader)))
    return time.monotonic() - begin


def main(bench: Bench) -> None:
    catalog = filled(TABLE, BLOCKS // 1000, seed=SEED)
    hub_pid, catalogd, (stopped, *others) = stand(bench, catalog, readers=OTHERS + 1)
    measure(Broadcast(catalogd, others, hub_pid=hub_pid), stopped)
