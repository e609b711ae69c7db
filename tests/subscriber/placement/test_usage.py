"""Tests of the usage tracker: what is read, what would miss at minimal, what is remembered."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.placement import usage as module
from topicast.subscriber.placement.usage import (
    FIRST_SHARE,
    HALF_LIFE_S,
    HOT_PER_S,
    WINDOW_S,
    TopicUsage,
    UsageTracker,
)

PER_S = 0.6931471805599453 / HALF_LIFE_S


def test_topic_never_read_has_no_use() -> None:
    assert UsageTracker().of(7, now=100.0) == TopicUsage()
    assert TopicUsage().read_at == -inf


def test_first_read_counts_a_quarter_and_is_a_miss() -> None:
    usage = UsageTracker()
    usage.read(7, b"a", size=1000, now=5.0)
    use = usage.of(7, now=5.0)
    assert use.reads == use.misses == pytest.approx(FIRST_SHARE * PER_S)
    assert use.read_bytes == use.missed_bytes == pytest.approx(1000 * FIRST_SHARE * PER_S)
    assert (use.working_bytes, use.read_at) == (0, 5.0)


def test_second_read_is_a_hit_and_makes_the_table_part_of_the_working_set() -> None:
    usage = UsageTracker()
    usage.read(7, b"a", size=1000, now=5.0)
    usage.read(7, b"a", size=1200, now=5.0)
    use = usage.of(7, now=5.0)
    assert use.reads == pytest.approx((1 + FIRST_SHARE) * PER_S)
    assert use.misses == pytest.approx(FIRST_SHARE * PER_S)
    assert use.working_bytes == 1200
    assert usage.of(8, now=5.0) == TopicUsage()


def test_reads_counted_in_a_bundle_count_as_single_reads() -> None:
    bundled, single = UsageTracker(), UsageTracker()
    bundled.read(7, b"a", size=1000, now=5.0, times=3)
    for _ in range(3):
        single.read(7, b"a", size=1000, now=5.0)
    assert bundled.of(7, now=9.0) == single.of(7, now=9.0)


HOT = int(2 * HOT_PER_S / PER_S)  # reads


@pytest.mark.parametrize(
    ("times", "changes", "misses", "missed_bytes"),
    [
        (1, [(1, 100), (2, 200)], 1, 300),
        (1, [(1, 10**9)], 1, 1000),
        (2, [(1, 0)], 1, 1),
        (HOT, [(5, 100), (5, 100)], 0, 0),
        (HOT, [(5, 100), (6, 100)], 1, 200),
    ],
    ids=["changed", "whole", "tombstone", "hot, prefetched", "hot, changed faster than read"],
)
def test_read_after_a_change_is_a_miss_of_the_bytes_that_changed(
    times: int, changes: list[tuple[int, int]], misses: int, missed_bytes: int
) -> None:
    usage = UsageTracker()
    usage.read(7, b"a", size=1000, now=0.0, times=times)
    before = usage.of(7, now=0.0)
    for version, size in changes:
        usage.on_changed(b"a", size=size, version=version)
    for _ in range(2):  # the second one finds it pulled
        usage.read(7, b"a", size=1000, now=0.0)
    after = usage.of(7, now=0.0)
    assert after.reads - before.reads == pytest.approx(2 * PER_S)
    assert after.misses - before.misses == pytest.approx(misses * PER_S)
    assert after.missed_bytes - before.missed_bytes == pytest.approx(missed_bytes * PER_S)
    usage.check()


def test_change_of_a_table_that_is_not_read_counts_nothing() -> None:
    usage = UsageTracker()
    usage.on_changed(b"a", size=100, version=1)
    assert len(usage) == 0


def test_rates_halve_in_a_half_life() -> None:
    usage = UsageTracker()
    usage.read(7, b"a", size=1000, now=0.0, times=4)
    now, later = usage.of(7, now=0.0), usage.of(7, now=HALF_LIFE_S)
    for rate in ("reads", "read_bytes", "misses", "missed_bytes"):
        assert getattr(later, rate) == pytest.approx(getattr(now, rate) / 2)
    assert (later.working_bytes, later.read_at) == (now.working_bytes, 0.0)
    usage.read(7, b"a", size=1000, now=HALF_LIFE_S)
    assert usage.of(7, now=HALF_LIFE_S).reads == pytest.approx(now.reads / 2 + PER_S)


def test_table_not_read_for_the_window_is_removed() -> None:
    usage = UsageTracker()
    usage.read(7, b"a", size=1000, now=0.0, times=2)
    usage.read(7, b"b", size=10, now=1.0, times=2)
    usage.read(7, b"c", size=10, now=2.0)
    assert usage.of(7, now=WINDOW_S).working_bytes == 10
    assert len(usage) == 2
    usage.read(7, b"c", size=10, now=WINDOW_S + 2.0)
    assert usage.of(7, now=WINDOW_S + 2.0).working_bytes == 0
    assert len(usage) == 1


def test_dropped_table_is_not_in_the_working_set() -> None:
    usage = UsageTracker()
    usage.read(7, b"a", size=1000, now=0.0, times=2)
    usage.read(7, b"b", size=1000, now=0.0)
    for group in (b"a", b"b", b"c"):
        usage.on_dropped(group)
    assert usage.of(7, now=0.0).working_bytes == 0
    assert len(usage) == 0
    usage.check()


def test_scan_ends_no_working_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ONCE_MAX", 10)
    usage = UsageTracker()
    usage.read(7, b"hot", size=1000, now=0.0, times=2)
    for number in range(100):
        usage.read(number % 16, b"cold%d" % number, size=50, now=1.0)
    assert usage.of(7, now=1.0).working_bytes == 1000
    assert usage.of(8, now=1.0).working_bytes == 0
    assert len(usage) == 11
    usage.check()


def test_least_recently_read_table_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_MAX", 2)
    usage = UsageTracker()
    for group in (b"a", b"b", b"a", b"c"):
        usage.read(7, group, size=100 + group[0], now=0.0, times=2)
    assert usage.of(7, now=0.0).working_bytes == 100 + ord("a") + 100 + ord("c")
    usage.check()


GROUPS = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f"])
READS = st.tuples(st.just("read"), GROUPS, st.integers(0, 1000), st.integers(1, 3))
CHANGES = st.tuples(st.just("changed"), GROUPS, st.integers(0, 1000), st.just(0))
DROPS = st.tuples(st.just("gone"), GROUPS, st.just(0), st.just(0))


@given(st.lists(st.tuples(READS | CHANGES | DROPS, st.sampled_from([0.0, 1.0, WINDOW_S / 2]))))
def test_sums_hold_and_misses_are_never_more_than_reads(
    facts: list[tuple[tuple[str, bytes, int, int], float]],
) -> None:
    usage, now = UsageTracker(), 0.0
    for version, ((what, group, size, times), passed) in enumerate(facts, 1):
        now += passed
        if what == "read":
            usage.read(group[0] % 3, group, size=size, now=now, times=times)
        elif what == "changed":
            usage.on_changed(group, size=size, version=version)
        else:
            usage.on_dropped(group)
        usage.check()
        for topic in range(3):
            use = usage.of(topic, now=now)
            assert 0 <= use.misses <= use.reads * (1 + 1e-9)
            assert 0 <= use.missed_bytes <= use.read_bytes * (1 + 1e-9) + 1e-9


def test_newest_are_those_that_were_read_last_once_or_again() -> None:
    usage = UsageTracker()
    for at, group in enumerate((b"a", b"b", b"a", b"c", b"d", b"d")):
        usage.read(7, group, size=10, now=float(at))
    assert usage.newest(3) == [(7, b"d", 5.0), (7, b"c", 3.0), (7, b"a", 2.0)]
    assert len(usage.newest(9)) == 4
