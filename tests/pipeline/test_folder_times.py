"""When folders have to be listed again, by their times alone."""

import pytest

from topicast.pipeline.sweep.times import GRAIN_S, QUIET_S, FolderTimes

OLD_MS, NOW_MS = 1_000, 1_000_000


@pytest.fixture
def times() -> FolderTimes:
    """Return the times of two folders that were seen at 0 s; b has changed a moment before."""
    found = FolderTimes()
    found.begin({"a": OLD_MS, "b": NOW_MS - 500}, at_s=0, now_ms=NOW_MS)
    return found


def listed(times: FolderTimes, now: dict[str, int], *, at_s: float) -> list[str]:
    """Return what is due, after it was listed."""
    due = times.due(now, at_s=at_s)
    times.listed(due, at_s=at_s)
    return due


def test_folder_whose_time_is_old_is_not_listed_until_it_changes(times: FolderTimes) -> None:
    assert times.due({"a": OLD_MS}, at_s=100) == []
    assert times.due({"a": NOW_MS}, at_s=100) == []
    assert times.due({"a": NOW_MS}, at_s=100 + QUIET_S) == ["a"]


def test_folder_is_listed_again_until_its_time_is_older_than_the_grain(times: FolderTimes) -> None:
    now = {"b": NOW_MS - 500}
    assert listed(times, now, at_s=GRAIN_S / 2) == ["b"]
    assert listed(times, now, at_s=GRAIN_S) == ["b"]
    assert listed(times, now, at_s=GRAIN_S + 1) == []


def test_folder_that_changes_all_the_time_is_listed_nevertheless(times: FolderTimes) -> None:
    due = [times.due({"a": NOW_MS + at}, at_s=at * QUIET_S / 4) for at in range(1, 9)]
    assert due == [[]] * 4 + [["a"]] * 4


def test_folder_stays_due_until_it_was_listed(times: FolderTimes) -> None:
    now = {"a": NOW_MS}
    times.due(now, at_s=10)
    assert times.due(now, at_s=20) == ["a"]
    assert listed(times, now, at_s=30) == ["a"]
    assert times.due(now, at_s=31) == []


def test_listing_that_began_before_a_change_was_seen_does_not_count_for_it(
    times: FolderTimes,
) -> None:
    times.due({"a": NOW_MS}, at_s=10)
    times.listed(["a"], at_s=9)
    assert times.due({"a": NOW_MS}, at_s=10 + QUIET_S) == ["a"]


def test_folder_that_is_new_or_gone_is_listed_and_a_folder_that_is_not_kept_is_new(
    times: FolderTimes,
) -> None:
    listed(times, {"c": OLD_MS}, at_s=9)
    assert listed(times, {"c": OLD_MS}, at_s=10) == ["c"]
    times.due({"a": 0}, at_s=10)
    assert times.due({"a": 0}, at_s=11) == ["a"]
    times.keep(["a"])
    assert len(times) == 1
    times.due({"c": OLD_MS}, at_s=20)
    assert times.due({"c": OLD_MS}, at_s=21) == ["c"]
