"""Both daemons with 10 million partitions in 100,000 tables, and at a quarter of their memory.

restart   exec of catalogd to its first line, over a store that has everything
seed      from there until a hub that had nothing has everything
quarter   both, with ``--mem_limit`` at a quarter of what each took: the most that they take then
pulls     200 tables with their partitions, by a reader that holds none, beside those without limit
changes   1,000 tables are reported as written, by the paths of their files: the most memory then

The metastore is away: nothing else changes. ``*_cpu_s``: of the process alone, which other work on
the machine does not change. Run: make bench ARGS=tests/bench/bench_memory.py
"""

import os
import random
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from topicast.subscriber import Subscriber
from topicast.tests.bench.report import at_most, beside, both_at_most, quantile, reference, say
from topicast.tests.bench.stores import fill_store, table_of
from topicast.tests.cli.processes import Running, catalogd, statestored

NOBODY = "thrift://127.0.0.1:9"  # the discard port, on which no metastore listens
TABLES = 100_000
PARTITIONS = 10_000_000
PULLED = 200
WRITTEN = 1000
RESTART_S_MAX = 3.0
SEEDED_S_MAX = 6.0
SHARE = 0.25
TIMEOUT_S = 120.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """One start of both daemons. Memory in MB: as it is, and the most that it was."""

    restart_s: float
    restart_cpu_s: float
    seeded_s: float
    hub_cpu_s: float
    catalogd_mb: int
    catalogd_most_mb: int
    hub_mb: int
    hub_most_mb: int
    pulls_ms: tuple[float, ...]
    writes_s: float
    written_most_mb: int


def memory_mb(daemon: Running, name: str) -> int:
    """Return what Linux says under ``name`` of a daemon's memory."""
    text = Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) >> 10


def cpu_s(daemon: Running) -> float:
    """Return the seconds of a processor that a daemon has taken."""
    text = Path(f"/proc/{daemon.process.pid}/stat").read_text(encoding="ascii")
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS_PER_S


def pull_some(hub: Running) -> tuple[float, ...]:
    """Return the ms of each pull of some tables, with all of their partitions."""
    rng, times = random.Random(9), []
    with Subscriber(hub.ready["address"], budget="128MB", timeout_s=TIMEOUT_S) as catalog:
        for number in rng.sample(range(TABLES), PULLED):
            begin = perf_counter()
            held = catalog.partitions(".".join(table_of(number, TABLES)))
            times.append((perf_counter() - begin) * 1e3)
            assert len(held) == PARTITIONS // TABLES
    return tuple(times)


def write_some(hub: Running) -> float:
    """Report writes to the files of some tables; return the seconds until all are acknowledged."""
    rng = random.Random(11)
    with Subscriber(
        hub.ready["address"], budget="128MB", timeout_s=TIMEOUT_S, metastore=NOBODY
    ) as catalog:
        begin = perf_counter()
        for number in rng.sample(range(TABLES), WRITTEN):
            db, name = table_of(number, TABLES)
            catalog.report_write(f"file:/w/{db}/{name}/part-0")
        assert catalog.flush(TIMEOUT_S)
        assert catalog.stats().writes_acknowledged == WRITTEN
        return perf_counter() - begin


def measure(folder: Path, *, hub: Sequence[str] = (), catalog: Sequence[str] = ()) -> Measured:
    """Start both daemons, wait until the hub has everything, and read some of it."""
    with statestored(folder, *hub) as first:
        begin, before_s = perf_counter(), cpu_s(first)
        with catalogd(folder, *catalog, hive=NOBODY, statestores=first.ready["address"]) as second:
            restart_s, restart_cpu_s = perf_counter() - begin, cpu_s(second)
            first.becomes_ready()
            seeded_s, hub_cpu_s = perf_counter() - begin - restart_s, cpu_s(first) - before_s
            pulls_ms = pull_some(first)
            before = {
                "catalogd_mb": memory_mb(second, "VmRSS"),
                "catalogd_most_mb": memory_mb(second, "VmHWM"),
                "hub_mb": memory_mb(first, "VmRSS"),
                "hub_most_mb": memory_mb(first, "VmHWM"),
            }
            found = Measured(
                restart_s=restart_s,
                restart_cpu_s=restart_cpu_s,
                seeded_s=seeded_s,
                hub_cpu_s=hub_cpu_s,
                pulls_ms=pulls_ms,
                writes_s=write_some(first),
                written_most_mb=memory_mb(second, "VmHWM"),
                **before,
            )
            second.end(signal.SIGKILL)
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill_store(folder / "state", tables=TABLES, partitioned=TABLES, partitions=PARTITIONS)
        whole = measure(folder)
        facts = {"tables": TABLES, "partitions": PARTITIONS}
        restart = at_most(whole.restart_s, RESTART_S_MAX)
        say(
            "restart",
            restart,
            restart_s=whole.restart_s,
            restart_cpu_s=whole.restart_cpu_s,
            catalogd_mb=whole.catalogd_most_mb,
            **facts,
        )
        seeded = at_most(whole.seeded_s, SEEDED_S_MAX)
        say(
            "seed",
            seeded,
            seeded_s=whole.seeded_s,
            hub_cpu_s=whole.hub_cpu_s,
            hub_mb=whole.hub_most_mb,
        )
        catalogd_mb, hub_mb = (
            int(one * SHARE) for one in (whole.catalogd_most_mb, whole.hub_most_mb)
        )
        quarter = measure(
            folder, hub=(f"--mem_limit={hub_mb}MB",), catalog=(f"--mem_limit={catalogd_mb}MB",)
        )
        held = both_at_most((quarter.catalogd_most_mb, catalogd_mb), (quarter.hub_most_mb, hub_mb))
        say(
            "quarter",
            held,
            catalogd_mb=quarter.catalogd_most_mb,
            hub_mb=quarter.hub_most_mb,
            restart_s=quarter.restart_s,
            restart_cpu_s=quarter.restart_cpu_s,
            seeded_s=quarter.seeded_s,
            hub_cpu_s=quarter.hub_cpu_s,
        )
        ours, its = (quantile(one.pulls_ms, 0.5) for one in (quarter, whole))
        say(
            "pulls",
            beside("ms without a limit", ours, its),
            reference("what a limit costs"),
            p50_ms=ours,
            p99_ms=quantile(quarter.pulls_ms, 0.99),
            its_p99_ms=quantile(whole.pulls_ms, 0.99),
        )
        say(
            "changes",
            at_most(quarter.written_most_mb, catalogd_mb),
            catalogd_mb=quarter.written_most_mb,
            writes=WRITTEN,
            writes_s=quarter.writes_s,
            its_writes_s=whole.writes_s,
            its_mb=whole.written_most_mb,
        )


if __name__ == "__main__":
    main()
