"""What a reader that stopped (SIGSTOP) costs the others and the hub, while 300 MB are broadcast.

idle        small deltas, nothing else                      p99 of the others, published -> seen
busy        the same, while large deltas go to four readers
stopped     the same, while one of the four stands still
hub_memory  the most that the hub held in each phase; goes_on  the reader holds what the others do

Run: make bench ARGS=tests/bench/bench_stopped.py
"""

import os
import random
import signal
import time
from pathlib import Path

from topicast.tests.bench.catalogd import (
    DB,
    PIECE_BLOCKS,
    BenchCatalogd,
    Reader,
    delays_ms,
    filled,
    rewrite,
    small_tables,
    stand,
)
from topicast.tests.bench.report import beside, percentiles, reference, say, target

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


def resident_mb(pid: int) -> float:
    """Return what a process holds in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Broadcast:
    """Small deltas of one topic, and large ones of another."""

    def __init__(
        self, catalogd: BenchCatalogd, others: tuple[Reader, ...], *, hub_pid: int
    ) -> None:
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
    p99 = {name: float(str(facts["p99_ms"])) for name, facts in reported.items()}
    say("stopped", "idle", **reported["idle"], **reference("what the others are beside"))
    busy = beside("idle p99_ms", ours=p99["busy"], its=p99["idle"])
    say(
        "stopped",
        "busy",
        megabytes=BUSY_MEGABYTES,
        **reported["busy"],
        **busy,
        **reference("with no reader stopped"),
    )
    facts = beside("busy p99_ms", ours=p99["stopped"], its=p99["busy"])
    say(
        "stopped",
        "stopped",
        megabytes=MEGABYTES,
        **reported["stopped"],
        **facts,
        **target(p99["stopped"] / p99["busy"], at_most=BUSY_RATIO_MAX),
    )
    to_idle = beside("idle p99_ms", ours=p99["stopped"], its=p99["idle"])
    reached = target(p99["stopped"] / p99["idle"], at_most=IDLE_RATIO_MAX)
    say("stopped", "stopped_to_idle", **to_idle, **reached)
    held = {f"{name}_mb": most for name, (_, most) in phases.items()}
    grown = phases["stopped"][1] - phases["idle"][1]
    say("stopped", "hub_memory", **held, grown_mb=grown, **target(grown, at_most=GROWTH_MB_MAX))
    say(
        "stopped",
        "goes_on",
        caught_up_s=caught_up_s,
        **target(caught_up_s, at_most=CAUGHT_UP_S_MAX),
    )


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


def main() -> None:
    with stand(filled(TABLE, BLOCKS // 1000, seed=SEED), readers=OTHERS + 1) as found:
        measure(
            Broadcast(found.catalogd, found.readers[1:], hub_pid=found.hub_pid), found.readers[0]
        )


if __name__ == "__main__":
    main()
