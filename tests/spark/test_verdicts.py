"""Verdicts of queries beside writes, by the times of both."""

import pytest

from topicast.tests.spark.soaking import Note
from topicast.tests.spark.verdicts import CROSSED, FRESH, OLD, WRONG, judge


def write(number: int, begin: float, end: float, *files: str, removes: bool = True) -> Note:
    return Note(object="t", begin=begin, end=end, number=number, files=list(files), removes=removes)


def query(begin: float, end: float, number: int | None, *files: str) -> Note:
    return Note(object="t", begin=begin, end=end, number=number, files=list(files), error="gone")


WRITTEN = (write(0, 0, 0, "a"), write(1, 10, 11, "b"), write(2, 20, 21, "c"))


@pytest.mark.parametrize(
    ("read", "kind", "late_s"),
    [
        (query(12, 13, 1), FRESH, 0),
        (query(10.5, 13, 0), FRESH, 0),
        (query(9, 10, 1), FRESH, 0),
        (query(9, 9.5, 1), WRONG, 0),
        (query(13, 14, 0), OLD, 2),
        (query(22, 24, 0), OLD, 11),
        (query(12, 13, None), WRONG, 1),
        (query(10.5, 13, None), CROSSED, 0),
        (query(9, 13, None, "a"), CROSSED, 0),
        (query(19, 22, None, "b"), CROSSED, 0),
        (query(19, 22, None, "a"), WRONG, 8),
        (query(19, 22, None, "none of them"), CROSSED, 0),
    ],
)
def test_query_is_judged_by_what_ran_at_the_same_time(read: Note, kind: str, late_s: float) -> None:
    (verdict,) = judge(WRITTEN, [read])
    assert (verdict.kind, verdict.late_s) == (kind, late_s)
