from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.budget import Budget


def test_reservation_counts_until_it_is_filled_and_never_twice() -> None:
    budget = Budget(1000)
    budget.reserve(1, 400)
    assert (budget.free_bytes, budget.unfilled(1), budget.held_bytes) == (600, 400, 0)
    budget.hold(1, 300)
    assert (budget.free_bytes, budget.unfilled(1), budget.held_bytes) == (600, 100, 300)
    budget.hold(1, 200)
    assert (budget.free_bytes, budget.unfilled(1), budget.held_bytes) == (500, 0, 500)
    budget.reserve(1, 0)
    assert (budget.free_bytes, budget.committed(1)) == (500, 500)
    budget.release(1)
    assert (budget.free_bytes, budget.held(1)) == (1000, 0)


def test_growth_fits_into_its_own_reservation_and_what_is_free() -> None:
    budget = Budget(1000)
    budget.reserve(1, 400)
    budget.reserve(2, 500)
    assert budget.fits(1, 500)
    assert not budget.fits(1, 501)
    assert not budget.fits(3, 101)
    budget.hold(2, 500)
    assert budget.fits(2, -100)


def test_largest_topic_is_by_what_is_committed_and_never_the_one_spared() -> None:
    budget = Budget(1000)
    assert budget.largest(9) is None
    budget.hold(1, 100)
    budget.reserve(2, 200)
    budget.hold(9, 500)
    assert budget.largest(9) == 2
    budget.release(2)
    budget.reserve(3, 0)
    assert budget.largest(1) == 9
    budget.release(9)
    assert budget.largest(1) is None


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
            budget.release(topic)
        elif what == "reserve":
            budget.reserve(topic, size)
        elif budget.fits(topic, size):
            budget.hold(topic, size)
        if budget.free_bytes >= 0:
            budget.check()
