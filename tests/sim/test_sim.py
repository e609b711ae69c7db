"""All cores together, seed after seed; a failure says how to see it again."""

import os
import subprocess
import sys
import time
from collections import Counter
from multiprocessing import get_context

import pytest

from topicast.tests.sim.run import Run

PROCESSES = 2
SECONDS = 55.0
SEEDS_AT_LEAST = 200
SCALE = int(os.environ.get("SIM_SCALE", "1"))
FAULTS = ("cut", "kill_catalogd", "kill_hub", "lose_store", "restore_old", "slow", "away")
PRESSURE = (
    *("reservations", "credits", "tables given up", "topics outgrown", "oversize"),
    *("planned raises", "planned full", "lowered", "pulled ahead"),
)
AMBUSHES = (
    *("hub dies in a join", "hub dies in a pull", "old store in a join"),
    *("catalogd dies in a join", "catalogd dies in a pull"),
    *("mode turns in a join", "mode turns in a pull"),
)
ORDERS = ("mode obeyed", "drivers obeyed", "invalidate obeyed", "refresh obeyed", "orders refused")
SESSIONS = ("reading", "confirmed", "moved since", "validate", "stale claims", "names", "parts")
KINDS = (
    *(*FAULTS, *AMBUSHES, *PRESSURE, *ORDERS, *SESSIONS),
    *("changes heard", "from memory", "thought better of", "doubled messages"),
    *("filters checked", "floors raised", "modes turned"),
)


def _seeds(first: int, seconds: float) -> tuple[int, Counter[str]]:
    """Run every second seed from ``first`` for so long."""
    counts: Counter[str] = Counter()
    until, seed = time.monotonic() + seconds, first
    while time.monotonic() < until:
        counts += Run(seed).go().counts
        seed += PROCESSES
    return (seed - first) // PROCESSES, counts


@pytest.fixture(scope="module")
def found() -> tuple[int, Counter[str]]:
    """As many seeds as the time holds."""
    work = [(first, SECONDS * SCALE) for first in range(PROCESSES)]
    with get_context("spawn").Pool(PROCESSES) as pool:
        results = pool.starmap(_seeds, work)
    return sum(seeds for seeds, _ in results), sum((c for _, c in results), Counter[str]())


@pytest.mark.alone
@pytest.mark.timeout(120 * SCALE)
@pytest.mark.skipif(bool(os.environ.get("SIM_SEED")), reason="one seed is replayed")
def test_no_seed_finds_a_violation(found: tuple[int, Counter[str]]) -> None:
    seeds, counts = found
    print(f"{seeds} seeds: {dict(sorted(counts.items()))}")
    assert seeds >= SEEDS_AT_LEAST * SCALE
    assert min(counts[kind] for kind in KINDS) >= 10
    assert counts["reads checked"] > 60 * seeds
    assert counts["reads that failed"] < counts["reads checked"] / 20


@pytest.mark.skipif(not os.environ.get("SIM_SEED"), reason="no SEED was given")
def test_one_seed() -> None:
    run = Run(int(os.environ["SIM_SEED"] or 0))
    try:
        run.go()
    finally:
        print("\n".join(run.world.trace[-80:]))


def test_one_seed_is_one_trace_under_any_hash_seed() -> None:
    code = "from topicast.tests.sim.run import Run; print(Run(7).go().world.digest())"
    traces = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": number, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for number in ("1", "2")
    ]
    assert traces[0] == traces[1]
    assert len(traces[0]) > 30
