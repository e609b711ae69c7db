"""Tests of the knapsack: what is taken fits, and is worth nearly as much as the best subset."""

from collections.abc import Iterable
from itertools import combinations
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicast.subscriber.placement import knapsack as module
from topicast.subscriber.placement.knapsack import TOLERANCE, Item, Knapsack

SIZES = st.integers(0, 1000)
WORTHS = st.sampled_from([0.0, 0.1, 1.0, 7.0]) | st.floats(0, 100, allow_subnormal=False)


@st.composite
def drawn_items(draw: st.DrawFn, *, most: int = 8) -> list[Item]:
    """Draw what up to ``most`` topics offer."""
    count = draw(st.integers(0, most))
    found = []
    for topic in range(count):
        size = draw(SIZES)
        found.append(Item(topic, size, draw(st.integers(0, size)), draw(WORTHS), draw(WORTHS)))
    return found


def worth(items: Iterable[Item], full: Iterable[int], *, room: int) -> float | None:
    """Return what ``full`` topics are worth beside a cache, or None if they do not fit."""
    inside = set(full)
    total = 0.0
    cached = []
    for item in items:
        if item.topic in inside:
            room -= item.size
            total += item.cache + item.rest
        elif item.cache:
            cached.append(item)
    if room < 0:
        return None
    for item in sorted(cached, key=lambda b: -b.cache / max(b.working, 1)):
        part = min(max(item.working, 1), room)
        total += item.cache * part / max(item.working, 1)
        room -= part
    return total


def exact(items: list[Item], *, room: int) -> float:
    """Try every subset."""
    topics = [item.topic for item in items if item.rest > 0]
    sets = (full for n in range(len(topics) + 1) for full in combinations(topics, n))
    return max((worth(items, full, room=room) or 0.0 for full in sets), default=0.0)


@given(drawn_items(), st.integers(-10, 4000))
def test_few_topics_are_chosen_as_well_as_by_trying_every_subset(
    items: list[Item], room: int
) -> None:
    reached, full = Knapsack(items).choose(room=room)
    found = worth(items, full, room=room)
    assert (found is None) is (room < 0)
    assert reached <= (found or 0.0) * (1 + 1e-9) + 1e-9
    assert (found or 0.0) * (1 + TOLERANCE) >= exact(items, room=room) * (1 - 1e-9) - 1e-9
    if room >= 0:
        assert Knapsack(items).worth(full, room=room) == pytest.approx(found)
        assert Knapsack(items).worth(full, room=-1) == -inf
    assert all(item.rest > 0 for item in items if item.topic in full)


def test_order_of_items_does_not_matter() -> None:
    rng = Random(1)
    items = [Item(t, rng.randrange(1, 100), 0, 0.0, rng.random()) for t in range(30)]
    first = Knapsack(items).choose(room=500)
    rng.shuffle(items)
    assert Knapsack(items).choose(room=500) == first


def test_two_parts_that_fit_beat_a_denser_part() -> None:
    items = [Item(1, 6, 0, 0.0, 6.6), Item(2, 5, 0, 0.0, 5.0), Item(3, 5, 0, 0.0, 5.0)]
    assert Knapsack(items).choose(room=10) == (10.0, frozenset({2, 3}))


def test_topic_that_is_read_all_over_is_worth_more_at_full_than_in_the_cache() -> None:
    assert Knapsack([Item(1, 100, 90, 1.0, 5.0)]).choose(room=100) == (6.0, frozenset({1}))
    assert Knapsack([Item(1, 100, 90, 1.0, 5.0)]).choose(room=99) == (1.0, frozenset())


def test_cold_tables_beside_a_hot_table_are_not_held() -> None:
    hot = Item(1, 1000, 10, 50.0, 1.0)
    warm = Item(2, 1000, 600, 20.0, 0.1)
    assert Knapsack([hot, warm]).choose(room=1000) == (70.0, frozenset())


def test_search_ends_in_time_and_with_something(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(3)
    items = [Item(t, 100 + t, 0, 0.0, 100 + t + rng.random()) for t in range(40)]
    best, full = Knapsack(items).choose(room=1050)
    monkeypatch.setattr(module, "LOOKS_MAX", 1)
    hasty, hasty_full = Knapsack(items).choose(room=1050)
    assert 0 < hasty <= best
    assert sum(items[topic].size for topic in full | hasty_full) > 0
    assert sum(items[topic].size for topic in hasty_full) <= 1050


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_twelve_large_topics_too(seed: int) -> None:
    rng = Random(seed)
    items = []
    for topic in range(12):
        size = rng.randrange(50, 400)
        hits, rest = rng.random() * 2, rng.random()
        items.append(Item(topic, size, rng.randrange(size // 2), hits, rest))
    _, full = Knapsack(items).choose(room=1000)
    found = worth(items, full, room=1000)
    assert found is not None
    assert found >= 0.95 * exact(items, room=1000)
