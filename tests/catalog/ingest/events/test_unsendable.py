"""The search for events that cannot be sent passes the fewest that it can."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.catalog.ingest.events.unsendable import UnsendableSearch

NEWEST = 1_000


def search(
    log: set[int], bad: set[int], *, limits: bool, begins: int, read: int
) -> tuple[int, ...]:
    """Search the log of a metastore that limits its query, or none; return how many polls it took.

    With them the first and the last id that are to be passed; nothing if none are.
    """
    one = UnsendableSearch(begins=begins, read=read, newest=NEWEST)
    polls = 0
    while not one.over:
        polls += 1
        after = sorted(id_ for id_ in log if id_ > one.after)
        known = sum(id_ <= read for id_ in after)
        if bad.intersection(after[: known + 1] if limits else after):
            one.on_failure()
        else:
            one.on_answer()
    return (polls,) if one.found is None else (polls, one.origin + 1, one.found)


IDS = st.sets(st.integers(1, NEWEST), max_size=20)


@given(bad=IDS, gone=IDS, read=st.integers(10, NEWEST - 1))
def test_only_the_first_bad_event_is_passed_where_the_query_is_limited(
    bad: set[int], gone: set[int], read: int
) -> None:
    """With the ids before it that the log does not have; others are passed when they come."""
    log = set(range(1, NEWEST + 1)) - gone
    first = min((id_ for id_ in log if id_ > read), default=0)
    bad = {id_ for id_ in bad & log if id_ > read}
    _, *found = search(log, bad & {first}, limits=True, begins=read, read=read)
    assert found == ([read + 1, first] if first in bad else [])
    _, *found = search(log, bad, limits=True, begins=read, read=read)
    assert bool(found) == (first in bad)
    assert not found or min((id_ for id_ in log if id_ > found[1]), default=0) not in bad


@given(bad=IDS, read=st.integers(10, NEWEST - 1))
def test_all_up_to_the_last_bad_event_is_passed_where_the_query_is_not_limited(
    bad: set[int], read: int
) -> None:
    bad = {id_ for id_ in bad if id_ > read}
    polls, *found = search(set(range(1, NEWEST + 1)), bad, limits=False, begins=read, read=read)
    assert found == ([read + 1, max(bad)] if bad else [])
    assert polls <= 2 * (NEWEST - read).bit_length() + 4


@pytest.mark.parametrize("limits", [False, True])
@given(bad=st.integers(11, 20))
def test_event_that_was_read_before_it_could_not_be_sent_is_passed_with_those_before_it(
    bad: int, limits: bool
) -> None:
    log = set(range(1, NEWEST + 1))
    _, *found = search(log, {bad}, limits=limits, begins=10, read=20)
    assert found == [11, bad]


@pytest.mark.parametrize("fails_at", range(6))
def test_nothing_is_passed_if_what_failed_is_answered_in_the_end(fails_at: int) -> None:
    """Given a metastore that fails, and works from one poll of the search on."""
    one = UnsendableSearch(begins=10, read=10, newest=13)
    polls = 0
    while not one.over:
        polls += 1
        if polls <= fails_at:
            one.on_failure()
        else:
            one.on_answer()
    assert one.found is None


def test_nothing_is_passed_of_a_metastore_that_sends_no_events_at_all() -> None:
    one = UnsendableSearch(begins=10, read=10, newest=13)
    one.on_failure()
    assert one.over
    assert one.found is None
    assert UnsendableSearch(begins=10, read=10, newest=10).over
