"""The budget: what is held and reserved, and that a process takes no more than it accounts for."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.store.memory_budget import Account, Budget
from topicast.tests.subscriber.cycles import catalog
from topicast.tests.subscriber.stand import stand
from topicast.topics.topic import FULL, MINIMAL


def at(topic: int) -> Account:
    return topic, FULL


def test_reservation_counts_until_it_is_filled_and_never_twice() -> None:
    budget = Budget(1000)
    budget.reserve(at(1), 400)
    assert (budget.free_bytes, budget.unfilled(at(1)), budget.held_bytes) == (600, 400, 0)
    budget.hold(at(1), 300)
    assert (budget.free_bytes, budget.unfilled(at(1)), budget.held_bytes) == (600, 100, 300)
    budget.hold(at(1), 200)
    assert (budget.free_bytes, budget.unfilled(at(1)), budget.held_bytes) == (500, 0, 500)
    budget.reserve(at(1), 0)
    assert (budget.free_bytes, budget.committed(at(1))) == (500, 500)
    budget.release(at(1))
    assert (budget.free_bytes, budget.held(at(1))) == (1000, 0)


def test_growth_fits_into_its_own_reservation_and_what_is_free() -> None:
    budget = Budget(1000)
    budget.reserve(at(1), 400)
    budget.reserve(at(2), 500)
    assert budget.fits(at(1), 500)
    assert not budget.fits(at(1), 501)
    assert not budget.fits(at(3), 101)
    budget.hold(at(2), 500)
    assert budget.fits(at(2), -100)


def test_largest_topic_is_by_committed_bytes_and_never_the_excepted_one() -> None:
    budget = Budget(1000)
    assert budget.largest(FULL, but=9) is None
    budget.hold(at(1), 100)
    budget.hold((8, MINIMAL), 300)
    budget.reserve(at(2), 200)
    budget.hold(at(9), 500)
    assert budget.largest(FULL, but=9) == 2
    budget.release(at(2))
    budget.reserve(at(3), 0)
    assert budget.largest(FULL, but=1) == 9
    budget.release(at(9))
    assert budget.largest(FULL, but=1) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hold", "reserve", "release"]), st.integers(0, 3), st.integers(0, 400)
        )
    )
)
def test_sums_are_those_of_the_topics(steps: list[tuple[str, int, int]]) -> None:
    budget = Budget(1000)
    for what, topic, size in steps:
        if what == "release":
            budget.release(at(topic))
        elif what == "reserve":
            budget.reserve(at(topic), size)
        elif budget.fits(at(topic), size):
            budget.hold(at(topic), size)
        if budget.free_bytes >= 0:
            budget.check()


BUDGET = 12_800_000  # the topics at full take nine tenths of it
CYCLES = 100
RSS_PER_BUDGET = 1.25
PYTHON = (sys.executable, "-W", "error", "-m")
CREEP_BYTES = 2_000_000  # of noise: pages that are given back late


@pytest.mark.thorough
def test_process_takes_what_is_accounted_and_no_more_after_a_hundred_joins_and_drops(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with stand(catalog()) as (_, hubs):
        process = "topicast.tests.subscriber.cycles"
        done = subprocess.run(
            [*PYTHON, process, hubs[0].address, str(BUDGET), str(CYCLES)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    rss, held, objects = found["rss"], found["held"], found["objects"]
    with capsys.disabled():
        above, late = max(rss) - found["base"], max(rss[-10:]) - max(rss[10:20])
        print(
            f"\nRSS of {CYCLES} cycles: {above / BUDGET:.2f} x budget above the base, "
            f"creep {late / 1e6:+.1f} MB, objects {objects[-1] / objects[0]:.3f} x, "
            f"traced / accounted {found['traced'] / found['accounted']:.2f}"
        )
    assert len(rss) == CYCLES
    assert 0.9 * BUDGET <= max(held) <= BUDGET
    assert max(rss) <= RSS_PER_BUDGET * BUDGET + found["base"]
    assert max(rss[-10:]) <= max(rss[10:20]) + CREEP_BYTES
    assert objects[-1] <= 1.03 * objects[0]
    assert 0.8 <= found["traced"] / found["accounted"] <= 1.0
