"""What saves least for its bytes is given up first, and a scan pushes out nothing in use."""

from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.store.eviction import PROTECTED_SHARE, STALE_MAX, EvictionOrder, Key
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.subscriber.source import shop
from topicast.tests.subscriber.world import World
from topicast.topics.sharding import NAMESPACE


class ReadMarks:
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
    cache = EvictionOrder(ReadMarks())
    assert cache.victim() is None
    for number in range(3):
        cache.note(key(number), 10)
    assert cache.victim() == key(0)
    cache.discard(key(0))
    assert (cache.victim(), len(cache), cache.held_bytes) == (key(1), 2, 20)


def test_scan_pushes_out_nothing_that_is_in_use() -> None:
    marks = ReadMarks()
    cache = EvictionOrder(marks)
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
    marks = ReadMarks()
    cache = EvictionOrder(marks)
    cache.note(key(0), 10)
    marks.marked.add(key(0))
    cache.note(key(1), 10)
    assert cache.victim() == key(1)
    cache.discard(key(1))
    assert cache.victim() == key(0)


def evicted(cache: EvictionOrder) -> Key:
    victim = cache.victim()
    assert victim is not None
    cache.discard(victim)
    cache.check()
    return victim


def test_large_table_goes_before_many_small_ones() -> None:
    cache = EvictionOrder(ReadMarks())
    for number in range(4):
        cache.note(key(number), 10)
    cache.note(key(9), 1000)
    assert evicted(cache) == key(9)


def test_large_table_stays_while_it_is_used_and_small_ones_are_not() -> None:
    marks = ReadMarks()
    cache = EvictionOrder(marks)
    cache.note(key(9), 1000)
    for number in range(10, 1000):
        marks.marked.add(key(9))
        cache.note(key(number), 10)
        if cache.held_bytes > 1100:
            assert evicted(cache) != key(9)


def test_table_that_was_used_often_is_given_up_in_the_end() -> None:
    marks = ReadMarks()
    cache = EvictionOrder(marks)
    cache.note(key(0), 10)
    for number in range(1, 100):  # looked at again and again, while others come and go
        marks.marked.add(key(0))
        cache.note(key(number), 10)
        assert evicted(cache) == key(number)
    for number in range(100, 300):  # then five others are in use at any time
        cache.note(key(number), 10)
        marks.marked.update(key(one) for one in range(max(number - 5, 100), number))
        if cache.held_bytes > 100:
            evicted(cache)
    assert key(0) not in cache


def test_what_is_in_use_takes_at_most_its_share_from_what_is_new() -> None:
    marks = ReadMarks()
    cache = EvictionOrder(marks)
    for number in range(20):
        cache.note(key(number), 10)
    marks.marked.update(key(number) for number in range(20))
    assert cache.victim() is not None
    assert cache._protected.held_bytes <= PROTECTED_SHARE * cache.held_bytes


def test_change_of_a_table_does_not_make_it_new() -> None:
    cache = EvictionOrder(ReadMarks())
    cache.note(key(0), 10)
    for number in range(1, 4):
        cache.note(key(number), 5)
        cache.note(key(0), 10)  # somebody writes to it, nobody reads it
    assert evicted(cache) == key(0)
    cache.note(key(4), 5)
    cache.note(key(1), 10)
    assert evicted(cache) == key(1)


def test_ranks_of_what_is_gone_are_forgotten() -> None:
    cache = EvictionOrder(ReadMarks())
    for _ in range(10 * STALE_MAX):
        cache.note(key(0), 10)
    for number in range(1000):
        cache.note(key(number), 10)
    for number in range(1000):
        cache.discard(key(number))
        cache.check()


def test_new_size_of_a_key_is_counted_wherever_it_stands() -> None:
    marks = ReadMarks()
    cache = EvictionOrder(marks)
    cache.note(key(0), 10)
    cache.note(key(0), 30)
    cache.note(key(1), 10)
    marks.marked.add(key(0))
    assert cache.victim() == key(1)
    cache.note(key(0), 5)
    assert cache.held_bytes == 15
    cache.check()
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
    marks = ReadMarks()
    cache = EvictionOrder(marks)
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


def test_what_would_be_given_up_is_named_in_its_order_and_left() -> None:
    marks = ReadMarks()
    cache = EvictionOrder(marks)
    for number in range(4):
        cache.note(key(number), 10)
    marks.marked.add(key(0))
    assert cache.victim() == key(1)  # 0 was used: it is protected
    marks.marked.add(key(2))
    assert list(cache.cheapest(25)) == [(key(1), 10), (key(2), 10), (key(3), 10)]
    assert [one for one, _ in cache.cheapest(1000)] == [key(1), key(2), key(3), key(0)]
    assert list(cache.cheapest(0)) == []
    assert len(cache) == 4
    assert marks.marked == {key(2)}


def crowded(*, reads: int) -> World:
    """Return a world whose cache is full of small tables, each read so many times."""
    catalog = shop()
    small = [f"t{number}" for number in range(12)]
    for name in small:
        catalog.create_table("shop", name)
    world = World(catalog, automatic=True, budget_bytes=catalog.live_bytes(NAMESPACE) + 7_000)
    world.start()
    for name in small:
        world.table(f"shop.{name}")
        world.member.placement.reads.extend([("shop", name, False)] * reads)
    world.pass_time(1.1)
    return world


def kept(world: World) -> set[str]:
    return {name for name in world.catalog.names["shop"] if world.columns(name) is not None}


def test_large_table_read_once_pushes_out_no_small_ones_that_are_hot() -> None:
    world = crowded(reads=50)
    before = kept(world)
    assert len(before) == 12
    number = world.partitions("shop.sales")
    assert isinstance(world.answers[number], TableSnapshot)
    assert kept(world) == before
    assert world.stats().pulls_not_kept == 1


def test_large_table_takes_the_room_of_small_ones_that_are_read_less() -> None:
    world = crowded(reads=2)
    world.member.placement.reads.extend([("shop", "sales", True)] * 50)
    world.pass_time(1.1)
    world.partitions("shop.sales")
    assert "sales" in kept(world)
    assert world.stats().evictions > 0
