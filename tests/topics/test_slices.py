"""Slices: rows that are made some at a time."""

import pytest

from topicast.topics.slices import in_slices


@pytest.mark.parametrize(("count", "pauses"), [(0, 0), (1, 0), (3, 0), (4, 1), (6, 1), (7, 2)])
def test_rows_are_made_in_order_with_a_pause_between_two_slices(count: int, pauses: int) -> None:
    made: list[int] = []
    lengths = [len(made) for _ in in_slices(range(count), lambda n: 2 * n, into=made, rows_max=3)]
    assert made == [2 * number for number in range(count)]
    assert lengths == [3 * (number + 1) for number in range(pauses)]


def test_what_leaves_or_comes_between_two_slices_changes_nothing_of_which_rows_there_are() -> None:
    held = {number: number for number in range(5)}
    made: list[int] = []
    for _ in in_slices(held.values(), lambda n: n, into=made, rows_max=2):
        held.pop(max(held))
        held[-1] = -1
    assert made == [0, 1, 2, 3, 4]
