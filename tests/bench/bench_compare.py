"""What it costs to compare 100,000 tables, none of which has changed, with the metastore.

loaded     seconds until a new catalogd has read them all
unchanged  its part of a core while it compares at 3 calls a second, less what it takes without;
           calls and tables a second, and seconds of a round over all

TABLES=10000 for fewer.
Run: make bench ARGS=tests/bench/bench_compare.py
"""

import os
import time
from threading import Event
from typing import Final

from topicast.tests.bench.bench import Bench
from topicast.tests.bench.bench_events import facts_of, is_complete
from topicast.tests.bench.metastores import create_many
from topicast.tests.bench.processes import used_s
from topicast.tests.bench.report import at_most, reference, say
from topicast.tests.cli.processes import Running
from topicast.tests.waiting import until

TABLES: Final = int(os.environ.get("TABLES", "100000"))
LOAD_S: Final = 600.0
MEASURED_S: Final = 120.0  # with four lists of all names
PERCENT_MAX: Final = 1.0


def percent_of(daemon: Running) -> float:
    """Return which part of a core it takes for a while."""
    cpu, began = used_s(daemon.process.pid), time.perf_counter()
    Event().wait(MEASURED_S)
    return (used_s(daemon.process.pid) - cpu) / (time.perf_counter() - began) * 100


def main(bench: Bench) -> None:
    hive = bench.metastore()
    client = bench.client(hive)
    create_many(hive, client, "bench", tables=TABLES)
    began = time.perf_counter()
    address, idle = bench.served(hive, "--reconcile_calls_per_s=0")
    until(lambda: is_complete(idle, client), timeout_s=LOAD_S, what="all tables", interval_s=0.5)
    why = "a new catalogd reads 100 tables a call"
    say("loaded", reference(why), tables=TABLES, seconds=time.perf_counter() - began)
    without = percent_of(idle)
    idle.end()
    daemon = bench.catalogd(hive.uri, address)
    begun = facts_of(daemon)["reconcile_calls_total"]
    until(lambda: facts_of(daemon)["reconcile_calls_total"] > begun, what="a comparison")
    before = facts_of(daemon)
    percent = percent_of(daemon)
    after = facts_of(daemon)
    facts = {
        f"{what}_per_s": (after[name] - before[name]) / MEASURED_S
        for what in ("calls", "objects")
        for name in (f"reconcile_{what}_total",)
    }
    facts |= {"round_s": TABLES / facts["objects_per_s"], "percent_without": without}
    facts |= {"differing": after["reconcile_differing_total"], "percent": percent - without}
    say("unchanged", facts, at_most(percent - without, PERCENT_MAX), tables=TABLES)
