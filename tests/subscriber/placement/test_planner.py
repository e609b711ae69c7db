"""Planner: within the budget after every step, near the best, steady on what drivers do."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.placement import planner as module
from topicast.subscriber.placement.planner import (
    DWELL_S,
    FULL_SHARE,
    IDLE_S,
    PACE_S,
    PAUSE_S,
    PAUSE_S_MAX,
    RAISES_MAX,
    ROOMY_SHARE,
    Item,
    Knapsack,
    Plan,
    Planner,
    Situation,
)
from topicast.subscriber.placement.usage import TopicUsage
from topicast.subscriber.store.latency import LatencyEstimate
from topicast.tests.subscriber.placement.situations import (
    KB,
    perform,
    rigid_bytes,
    topic,
    use,
    worth,
)
from topicast.tests.subscriber.placement.traces import ALL, MINIMAL_BYTES, TRACES, Driver, sizes
from topicast.topics.topic import FULL, MINIMAL, NONE

NOW = 10_000.0
PINNED = "a table of it is pinned"
IDLE = TopicUsage(reads=1e-9, read_at=NOW - IDLE_S)


CHANGING = use(1.0, 0.5, working=10 * KB)  # worth being full


def plan_of(
    topics: Sequence[Situation], budget: int, planner: Planner | None = None, **more: object
) -> Plan:
    """Plan with ``planner``, or a fresh planner."""
    given_ = {"offered": ALL, "now": NOW, **more}
    return (planner or Planner(MINIMAL_BYTES)).plan(topics, budget_bytes=budget, **given_)  # type: ignore[arg-type]


def steps_of(plan: Plan) -> list[tuple[int, int]]:
    """Return topics and levels of the steps."""
    return [(step.topic, step.level) for step in plan.steps]


def test_new_driver_begins_with_nothing() -> None:
    plan = plan_of([topic(0), topic(1)], 150 * KB)
    assert plan == Plan(steps=(), reasons={0: "never read here", 1: "never read here"})


def test_topic_is_followed_from_its_first_use_on_and_until_long_after_the_last() -> None:
    first = topic(0, since=NOW, usage=TopicUsage(reads=1e-3, read_at=NOW))
    assert steps_of(plan_of([first, topic(1)], 150 * KB)) == [(0, MINIMAL)]
    late = topic(0, MINIMAL, usage=replace(IDLE, read_at=NOW - IDLE_S + 1))
    assert steps_of(plan_of([late, topic(1)], 150 * KB)) == []
    plan = plan_of([topic(0, MINIMAL, usage=IDLE), topic(1)], 150 * KB)
    assert steps_of(plan) == [(0, NONE)]
    assert plan.reasons[0] == "not read for 60 minutes"


def test_pinned_table_keeps_its_topic_followed() -> None:
    plan = plan_of([topic(0, required=PINNED), topic(1, MINIMAL, required=PINNED)], 150 * KB)
    assert steps_of(plan) == [(0, MINIMAL)]
    assert plan.reasons[0].startswith("a table of it is pinned; full would not")


def test_topic_whose_tables_change_between_reads_becomes_full_once_its_use_shows() -> None:
    topics = [topic(0, MINIMAL, usage=CHANGING, since=NOW), topic(1)]
    early = plan_of(topics, 150 * KB)
    assert early.steps == ()
    assert early.reasons[0] == "in use; full is judged after 300 s at one level"
    plan = plan_of(topics, 150 * KB, now=NOW + DWELL_S)
    assert steps_of(plan) == [(0, FULL)]
    assert plan.reasons[0] == "saves 1800 pulls an hour with 90.0 KB besides what is in use"


def test_hot_table_among_unused_tables_is_left_to_the_cache() -> None:
    hot = topic(0, MINIMAL, size=5000 * KB, usage=use(9.0, 1e-7, working=KB))
    other = topic(1, MINIMAL, size=5000 * KB, usage=use(9.0, 0.2, working=KB))
    more = topic(2, MINIMAL, size=5000 * KB, usage=use(9.0, 0.1, working=KB))
    plan = plan_of([hot, other, more], 6000 * KB)
    assert steps_of(plan) == [(1, FULL)]
    assert plan.reasons[0] == "in use; full would not save what it costs to bring 4.9 MB"
    assert plan.reasons[2] == "in use; full takes 4.9 MB, which is better used for others"


def test_cache_has_room_for_what_is_new_beside_what_is_in_use() -> None:
    hot = topic(0, MINIMAL, size=5000 * KB, usage=use(9.0, 1e-7, working=70 * KB))
    changing = topic(1, MINIMAL, size=90 * KB, usage=use(0.2, 0.2, working=KB))
    assert steps_of(plan_of([hot, changing], 200 * KB)) == []
    assert steps_of(plan_of([hot, changing], 270 * KB)) == [(1, FULL)]


def test_measured_costs_of_pulls_decide_what_is_worth_its_bytes() -> None:
    many = topic(0, MINIMAL, size=90 * KB, usage=use(9.0, 1.0, working=KB, size=1))
    large = topic(1, MINIMAL, size=90 * KB, usage=use(9.0, 0.01, working=KB, size=90 * KB))
    far, slow = LatencyEstimate(), LatencyEstimate()
    far.round_trip_s, slow.bytes_per_s = 0.1, 1e4
    for latency, chosen in ((far, 0), (slow, 1)):
        planner = Planner(MINIMAL_BYTES, latency)
        plan = plan_of([many, large], 120 * KB, planner)
        assert steps_of(plan) == [(chosen, FULL)]


def test_full_topic_that_saves_less_than_the_cache_would_is_lowered_first() -> None:
    idle = topic(0, FULL, usage=use(1.0, 1e-6, working=KB))
    plan = plan_of([topic(1, MINIMAL, usage=CHANGING), idle], 140 * KB)
    assert steps_of(plan) == [(0, MINIMAL), (1, FULL)]
    unused = topic(0, FULL, usage=IDLE)
    plan = plan_of([topic(1, MINIMAL, usage=CHANGING), unused], 140 * KB)
    assert steps_of(plan) == [(0, NONE), (1, FULL)]


def test_levels_that_only_wait_for_their_time_say_so() -> None:
    idle = use(1.0, 1e-6, working=KB)
    topics = [topic(0, FULL, usage=idle, since=NOW), topic(1, MINIMAL, since=NOW), topic(2)]
    plan = plan_of(topics, 250 * KB)
    assert plan.steps == ()
    assert plan.reasons == {
        0: "full is judged again after 300 s at one level",
        1: "never read here; minimal is left after 300 s at one level",
        2: "never read here",
    }


def test_small_gain_moves_nothing() -> None:
    held = topic(0, FULL, usage=use(1.0, 0.5, working=10 * KB))
    better = topic(1, MINIMAL, usage=use(1.0, 0.54, working=10 * KB))
    assert plan_of([held, better], 140 * KB).steps == ()
    best = topic(1, MINIMAL, usage=use(1.0, 0.9, working=10 * KB))
    assert steps_of(plan_of([held, best], 140 * KB)) == [(0, MINIMAL), (1, FULL)]


def test_small_catalog_becomes_full_little_by_little_what_is_in_use_first() -> None:
    count = RAISES_MAX + 2
    planner, budget = Planner(MINIMAL_BYTES), int(count * 101 * KB / ROOMY_SHARE)
    topics = [topic(number) for number in range(count - 1)] + [topic(count - 1, usage=CHANGING)]
    plan = plan_of(topics, budget, planner)
    assert steps_of(plan) == [(n, FULL) for n in (count - 1, *range(RAISES_MAX - 1))]
    roomy = "all topics fit comfortably into the budget"
    assert (plan.reasons[0], plan.reasons[count - 2]) == (roomy, f"{roomy}; full comes next")
    topics = perform(topics, plan, budget=budget, now=NOW)
    now = NOW + PACE_S
    topics[count - 2] = replace(topics[count - 2], usage=CHANGING)
    assert plan_of(topics, budget, planner, now=now - 1).steps[0].level == 1
    plan = plan_of(topics, budget, planner, now=now)
    assert steps_of(plan) == [(count - 2, FULL), (count - 3, FULL)]
    topics = perform(topics, plan, budget=budget, now=now)
    later = plan_of(topics, int(budget * 0.8), planner, now=NOW + 9 * IDLE_S)
    assert later.steps == ()
    crowded = int(budget * 0.7)
    later = plan_of(topics, crowded, planner, now=NOW + 9 * IDLE_S)
    assert len(later.steps) == count - 2  # all that is not in use


def test_small_catalog_that_is_only_watched_stays_at_minimal_until_something_is_read() -> None:
    watched = [topic(number, MINIMAL, required="all changes are watched") for number in range(3)]
    assert plan_of(watched, 10_000 * KB).steps == ()
    assert set(
        steps_of(plan_of([*watched[1:], replace(watched[0], usage=CHANGING)], 10_000 * KB))
    ) == {(number, FULL) for number in range(3)}


def test_topic_that_waits_for_its_turn_is_followed_meanwhile() -> None:
    count = RAISES_MAX + 1
    topics = [topic(number, usage=CHANGING) for number in range(count)]
    plan = plan_of(topics, 10_000 * KB)
    assert steps_of(plan) == [(RAISES_MAX, MINIMAL)] + [(n, FULL) for n in range(RAISES_MAX)]
    assert plan.reasons[RAISES_MAX] == "in use; full comes next"


def test_topic_that_outgrew_its_room_falls_and_waits_longer_each_time() -> None:
    planner, now = Planner(MINIMAL_BYTES), NOW
    topics = [topic(0, FULL, usage=CHANGING, since=now), topic(1)]
    planner.outgrew(0, now=now)
    plan = plan_of(topics, 150 * KB, planner, now=now + 10)
    assert steps_of(plan) == [(0, MINIMAL)]
    assert plan.reasons[0] == "in use; it outgrew its room, full is not tried for 50 s"
    topics = [topic(0, MINIMAL, usage=CHANGING), topic(1)]
    pauses = []
    for _ in range(10):
        planner.outgrew(0, now=now)
        start = now
        while not plan_of(topics, 150 * KB, planner, now=now).steps:
            now += PAUSE_S
        pauses.append(now - start)
    assert pauses[:3] == [2 * PAUSE_S, 4 * PAUSE_S, 8 * PAUSE_S]
    assert pauses[-1] == PAUSE_S_MAX
    now += 3 * PAUSE_S_MAX
    planner.outgrew(0, now=now)
    assert plan_of(topics, 150 * KB, planner, now=now + PAUSE_S).steps


def test_growth_is_accepted_until_the_budget_is_reached_and_then_the_dwell_is_broken() -> None:
    dense = topic(0, FULL, usage=use(2.0, 1.0, working=10 * KB), since=NOW)
    sparse = topic(1, FULL, usage=CHANGING, since=NOW)
    assert plan_of([dense, replace(sparse, since=-inf)], 205 * KB).steps == ()
    plan = plan_of([dense, replace(sparse, held_bytes=110 * KB)], 205 * KB)
    assert steps_of(plan) == [(1, MINIMAL)]
    assert plan.reasons[1] == "in use; at full its 110.0 KB do not fit the budget any more"
    old = replace(dense, since=-inf)
    assert steps_of(plan_of([old, sparse], 150 * KB)) == [(0, MINIMAL)]


def test_budget_without_bytes_serves_the_tables_that_are_used_most() -> None:
    topics = [topic(n, MINIMAL, usage=use(1.0 + n)) for n in range(3)] + [topic(3, required=PINNED)]
    plan = plan_of(topics, 2 * MINIMAL_BYTES)
    assert steps_of(plan) == [(0, NONE), (1, NONE), (3, MINIMAL)]
    assert plan.reasons[0] == "in use, but the budget has no bytes left"


def test_level_that_is_offered_no_longer_is_left_at_once() -> None:
    topics = [topic(0, FULL, usage=CHANGING, since=NOW), topic(1, FULL, since=NOW)]
    plan = plan_of(topics, 250 * KB, offered=(NONE, MINIMAL))
    assert steps_of(plan) == [(1, NONE), (0, MINIMAL)]
    assert plan.reasons[0] == "in use; full is not offered"
    topics = [topic(n, MINIMAL, usage=use(1.0 + n), since=NOW) for n in range(RAISES_MAX + 3)]
    planner, budget = Planner(MINIMAL_BYTES), int((RAISES_MAX + 2.5) * 100 * KB / FULL_SHARE)
    plan = plan_of(topics, budget, planner, offered=(NONE, FULL))
    raised = [(n, FULL) for n in range(RAISES_MAX + 2, 2, -1)]
    assert steps_of(plan) == [(0, NONE), *raised]
    assert plan.reasons[1] == "in use; full comes next"
    assert plan.reasons[3] == "saves 14400 pulls an hour with 100.0 KB"
    topics = perform(topics, plan, budget=budget, now=NOW)
    for now, steps in ((NOW, []), (NOW + PACE_S, [(2, FULL), (1, FULL)])):
        again = plan_of(topics, budget, planner, offered=(NONE, FULL), now=now)
        assert steps_of(again) == steps


def test_where_minimal_is_not_offered_pinned_tables_come_first() -> None:
    pinned = topic(0, required=PINNED)
    busy = topic(1, usage=use(50.0))
    plan = plan_of([busy, pinned], 120 * KB, offered=(NONE, FULL))
    assert steps_of(plan) == [(0, FULL)]
    assert plan.reasons[1] == "in use; full takes 100.0 KB, which is better used for others"


def test_only_topics_in_use_are_searched_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[Item] = []
    monkeypatch.setattr(module, "Knapsack", lambda items: Knapsack(looked.extend(items) or looked))
    plan_of([topic(n) for n in range(500)] + [topic(500, MINIMAL, usage=CHANGING)], 200 * KB)
    assert [item.topic for item in looked] == [500]


RATES = st.sampled_from([0.0, 1e-6, 1e-4, 0.01, 1.0]) | st.floats(0, 10, allow_subnormal=False)
AGES = st.sampled_from([0.0, 1.0, DWELL_S - 1, DWELL_S, IDLE_S, inf])


@st.composite
def uses(draw: st.DrawFn, *, read_at: float | None = None) -> TopicUsage:
    """Draw how a topic is used."""
    reads, size = draw(RATES), draw(st.integers(0, 200 * KB))
    misses = reads * draw(st.sampled_from([0.0, 0.01, 0.3, 1.0]))
    at = NOW - draw(AGES) if read_at is None else read_at
    working = draw(st.sampled_from([0, 1, 5 * KB, 300 * KB]))
    return replace(use(reads, misses, working=working, size=size), read_at=at)


@st.composite
def situations(draw: st.DrawFn, *, read_at: float | None = None) -> list[Situation]:
    """Draw up to eight topics at any levels."""
    found = []
    for number in range(draw(st.integers(0, 8))):
        level, size = draw(st.sampled_from(ALL)), draw(st.integers(0, 400 * KB))
        grown = draw(st.sampled_from([0, 0, KB, 90 * KB]))
        held = {NONE: 0, MINIMAL: MINIMAL_BYTES + grown, FULL: size + grown}[level]
        since = -inf if read_at is not None else NOW - draw(AGES)
        kept = PINNED if read_at is None and draw(st.booleans()) else ""
        the_use = draw(uses(read_at=read_at))
        one = topic(
            number, level, size=size, held_bytes=held, since=since, usage=the_use, required=kept
        )
        found.append(one)
    return found


BUDGETS = st.sampled_from([0, MINIMAL_BYTES, 3 * MINIMAL_BYTES]) | st.integers(0, 4000 * KB)
OFFERS = st.sampled_from([ALL, (NONE, MINIMAL), (NONE, FULL)])
OUTGROWN = st.lists(st.integers(0, 7), max_size=3)


@given(situations(), BUDGETS, OFFERS, OUTGROWN)
def test_no_step_leads_out_of_the_budget_and_a_second_plan_has_none(
    topics: list[Situation], budget: int, offered: tuple[int, ...], outgrown: list[int]
) -> None:
    planner, twin = Planner(MINIMAL_BYTES), Planner(MINIMAL_BYTES)
    for number in outgrown:
        planner.outgrew(number, now=NOW - 1)
        twin.outgrew(number, now=NOW - 1)
    plan = plan_of(topics, budget, planner, offered=offered)
    assert plan == plan_of(topics, budget, twin, offered=offered)
    after = perform(topics, plan, budget=budget, now=NOW)
    assert all(step.level in offered for step in plan.steps)
    assert rigid_bytes(after) <= budget
    again = plan_of(after, budget, planner, offered=offered)
    assert again.steps == ()


@given(situations(), BUDGETS)
def test_nothing_is_changed_within_the_dwell_but_for_the_budget(
    topics: list[Situation], budget: int
) -> None:
    needed = rigid_bytes(topics) + MINIMAL_BYTES * len(topics) > budget
    all_bytes = rigid_bytes([replace(t, level=FULL, held_bytes=0) for t in topics])
    state = {t.topic: t for t in topics}
    for step in plan_of(topics, budget).steps:
        old = state[step.topic]
        if old.since + DWELL_S <= NOW or (old.level, step.level) == (NONE, MINIMAL):
            continue
        roomy = step.level == FULL and all_bytes <= budget
        assert roomy or (needed and step.level < old.level)


@given(
    situations(read_at=1e9), st.integers(100 * KB, 3000 * KB), st.sampled_from([ALL, (NONE, FULL)])
)
def test_settled_levels_are_within_a_tenth_of_the_best(
    topics: list[Situation], budget: int, offered: tuple[int, ...]
) -> None:
    start = topics = [replace(t, held_bytes=min(t.held_bytes, t.full_bytes)) for t in topics]
    room = int(FULL_SHARE * budget)
    numbers = [t.topic for t in topics]
    sets = (set(some) for n in range(len(numbers) + 1) for some in combinations(numbers, n))
    best = max(worth(start, some, offered, room) for some in sets)
    planner, now = Planner(MINIMAL_BYTES), NOW
    for _ in range(12):
        plan = plan_of(topics, budget, planner, offered=offered, now=now)
        topics = perform(topics, plan, budget=budget, now=now)
        now += DWELL_S
    assert plan.steps == ()
    full = {t.topic for t in topics if t.level == FULL}
    assert worth(start, full, offered, budget) >= 0.9 * best - 1e-12


MOVES_MAX = 32  # in an hour, of 64 topics, to or from full, the first warming up included
RETURNS_MAX = 4  # of these, to full again within an hour
QUICK = "nightly batch"  # the trace of which one run is no thorough test
JOINS_MAX = 24  # between none and minimal


@pytest.mark.parametrize(
    ("name", "share"),  # of all bytes: the budget
    [
        pytest.param(name, share, marks=[pytest.mark.thorough] * (share > 0.1 or name != QUICK))
        for name in TRACES
        for share in (0.1, 0.4)
    ],
)
def test_levels_are_steady_on_what_drivers_do(name: str, share: float) -> None:
    make, hours, every_s = TRACES[name]
    facts, tables = make(1), sizes(1)
    budget = int(share * sum(tables))
    planned, cache_only = Driver(tables, budget), Driver(tables, budget, (NONE, MINIMAL))
    for driver in (planned, cache_only):
        driver.follow(facts, every_s=every_s)
    assert planned.moves <= MOVES_MAX * hours
    assert planned.returns <= RETURNS_MAX * hours
    assert planned.joins <= JOINS_MAX * hours
    assert planned.hit_share >= cache_only.hit_share - 0.02
