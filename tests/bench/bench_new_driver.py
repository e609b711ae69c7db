"""What a whole new driver with one filtered join takes: by topicast run, beside plain Spark.

query_N   the query, right after its session, the metastore N ms away
whole_N   the application, from its start to its end

They take turns; the ratio is that of the medians. TURNS=1 in the environment: 8 drivers, not 32.
"""

import os
from pathlib import Path
from typing import Final

from topicast.cli.quickstart.processes.counting import Counting
from topicast.tests.bench.bench import Bench
from topicast.tests.bench.report import beside, quantile, say
from topicast.tests.spark.applications import applications
from topicast.tests.spark.jvm.shells import of_run
from topicast.tests.spark.new_driver import Ran, create, run

TURNS: Final = int(os.environ.get("TURNS", "7"))
DELAYS_MS: Final = (0, 20)
RATIO_MAX: Final = 1.0


def report(name: str, ours: list[float], its: list[float]) -> None:
    mine, other = quantile(ours, 0.5), quantile(its, 0.5)
    facts = {"n": len(ours), "s": mine, "worst_s": max(ours)}
    say(name, facts, beside("plain Spark, s", mine, other, most=RATIO_MAX))


def drivers(folder: Path, uris: str, metastore: str, *, hub: str) -> dict[bool, list[Ran]]:
    """Run drivers that are attached (True), and others, in turns."""
    found: dict[bool, list[Ran]] = {True: [], False: []}
    for turn in range(TURNS + 1):
        for attached, of_it in found.items():
            of = folder / f"{turn}-{attached}"
            under = of_run(hub) if attached else ()
            ran = run(of, uris=uris, metastore=metastore, under=under)
            if turn:  # the first one finds what is made once
                of_it.append(ran)
    return found


def main(bench: Bench) -> None:
    hive = bench.metastore()
    hub = bench.daemons(hive).hub_address
    counting = bench.enter_context(Counting(hive.uri))
    with applications(bench.folder, hive.uri, maker={}) as both:
        create(both["maker"])
    for delay_ms in DELAYS_MS:
        counting.delay_s = delay_ms / 1000
        ran = drivers(bench.folder / str(delay_ms), counting.uri, hive.uri, hub=hub)
        for name in ("query", "whole"):
            ours, its = ([getattr(one, f"{name}_s") for one in ran[at]] for at in (True, False))
            report(f"{name}_{delay_ms}", ours, its)
