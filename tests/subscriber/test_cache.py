"""What was pulled is given up least used first, and a scan pushes out nothing that is in use."""

from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.cache import PROTECTED_SHARE, Cache, Key


class Marks:
    """The marks that readers would leave."""

    def __init__(self) -> None:
        self.marked: set[Key] = set()

    def __call__(self, key: Key) -> bool:
        used = key in self.marked
        self.marked.discard(key)
        return used


def key(number: int) -> Key:
    return number % 4, str(number).encode()


def test_oldest_of_what_was_never_used_goes_first() -> None:
    cache = Cache(Marks())
    assert cache.victim() is None
    for number in range(3):
        cache.note(key(number), 10)
    assert cache.victim() == key(0)
    cache.discard(key(0))
    assert (cache.victim(), len(cache), cache.held_bytes) == (key(1), 2, 20)


def test_scan_pushes_out_nothing_that_is_in_use() -> None:
    marks = Marks()
    cache = Cache(marks)
    hot = [key(number) for number in range(5)]
    for one in hot:
        cache.note(one, 10)
    for number in range(100, 300):
        marks.marked.update(hot)
        cache.note(key(number), 10)
        while cache.held_bytes > 100:
            victim = cache.victim()
            assert victim is not None
            assert victim not in hot
            cache.discard(victim)
    assert all(one in cache for one in hot)


def test_what_is_used_no_more_goes_in_the_end() -> None:
    marks = Marks()
    cache = Cache(marks)
    cache.note(key(0), 10)
    marks.marked.add(key(0))
    cache.note(key(1), 10)
    assert cache.victim() == key(1)
    cache.discard(key(1))
    assert cache.victim() == key(0)


def test_protected_keys_take_at_most_their_share() -> None:
    marks = Marks()
    cache = Cache(marks)
    for number in range(20):
        cache.note(key(number), 10)
    marks.marked.update(key(number) for number in range(20))
    assert cache.victim() is not None
    assert cache._protected_bytes <= PROTECTED_SHARE * cache.held_bytes


def test_new_size_of_a_key_is_counted_wherever_it_stands() -> None:
    marks = Marks()
    cache = Cache(marks)
    cache.note(key(0), 10)
    cache.note(key(0), 30)
    cache.note(key(1), 10)
    marks.marked.add(key(0))
    assert cache.victim() == key(1)
    cache.note(key(0), 5)
    assert cache.held_bytes == 15
    cache.discard(key(0))
    cache.discard(key(0))
    assert cache.held_bytes == 10
    cache.check()


@given(
    st.lists(
        st.tuples(st.sampled_from(["note", "use", "drop", "evict"]), st.integers(0, 8)),
        max_size=60,
    )
)
def test_sums_are_right_and_a_victim_is_one_that_is_kept(steps: list[tuple[str, int]]) -> None:
    marks = Marks()
    cache = Cache(marks)
    kept: set[Key] = set()
    for what, number in steps:
        if what == "note":
            cache.note(key(number), 1 + number)
            kept.add(key(number))
        elif what == "use":
            marks.marked.add(key(number))
        elif what == "drop":
            cache.discard(key(number))
            kept.discard(key(number))
        else:
            victim = cache.victim()
            assert victim in kept if kept else victim is None
        cache.check()
        assert len(cache) == len(kept)
        assert all(one in cache for one in kept)
