"""What saves least for its bytes is evicted first, and a scan evicts nothing in use."""

from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.store.eviction import EvictionOrder, Key
from topicast.tests.cluster.published import Published
from topicast.tests.cluster.shop import Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.topic import NAMESPACE


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


def test_oldest_of_the_tables_that_were_never_used_is_evicted_first() -> None:
    order = EvictionOrder(ReadMarks())
    assert order.victim() is None
    for number in range(3):
        order.note(key(number), 10)
    assert order.victim() == key(0)
    order.discard(key(0))
    assert (order.victim(), len(order), order.held_bytes) == (key(1), 2, 20)


def test_scan_evicts_nothing_that_is_in_use() -> None:
    marks = ReadMarks()
    order = EvictionOrder(marks)
    hot = [key(number) for number in range(5)]
    for one in hot:
        order.note(one, 10)
    for number in range(100, 300):
        marks.marked.update(hot)
        order.note(key(number), 10)
        while order.held_bytes > 100:
            victim = order.victim()
            assert victim is not None
            assert victim not in hot
            order.discard(victim)
    assert all(one in order for one in hot)


def test_table_that_is_used_no_more_is_evicted_in_the_end() -> None:
    marks = ReadMarks()
    order = EvictionOrder(marks)
    order.note(key(0), 10)
    marks.marked.add(key(0))
    order.note(key(1), 10)
    assert order.victim() == key(1)
    order.discard(key(1))
    assert order.victim() == key(0)


def evicted(order: EvictionOrder) -> Key:
    victim = order.victim()
    assert victim is not None
    order.discard(victim)
    order.check()
    return victim


def test_large_table_is_evicted_before_many_small_ones() -> None:
    order = EvictionOrder(ReadMarks())
    for number in range(4):
        order.note(key(number), 10)
    order.note(key(9), 1000)
    assert evicted(order) == key(9)


def test_large_table_stays_while_it_is_used_and_small_ones_are_not() -> None:
    marks = ReadMarks()
    order = EvictionOrder(marks)
    order.note(key(9), 1000)
    for number in range(10, 1000):
        marks.marked.add(key(9))
        order.note(key(number), 10)
        if order.held_bytes > 1100:
            assert evicted(order) != key(9)


def test_table_that_was_used_often_is_evicted_in_the_end() -> None:
    marks = ReadMarks()
    order = EvictionOrder(marks)
    order.note(key(0), 10)
    for number in range(1, 100):  # looked at again and again, while others come and go
        marks.marked.add(key(0))
        order.note(key(number), 10)
        assert evicted(order) == key(number)
    for number in range(100, 300):  # then five others are in use at any time
        order.note(key(number), 10)
        marks.marked.update(key(one) for one in range(max(number - 5, 100), number))
        if order.held_bytes > 100:
            evicted(order)
    assert key(0) not in order


def test_tables_in_use_take_at_most_their_share_from_new_ones() -> None:
    marks = ReadMarks()
    order = EvictionOrder(marks)
    for number in range(20):
        order.note(key(number), 10)
    marks.marked.update(key(number) for number in range(20))
    assert order.victim() is not None
    order.note(key(20), 10)
    assert order.victim() != key(20), "half of those in use are on probation again"


def test_change_of_a_table_does_not_make_it_new() -> None:
    order = EvictionOrder(ReadMarks())
    order.note(key(0), 10)
    for number in range(1, 4):
        order.note(key(number), 5)
        order.note(key(0), 10)  # somebody writes to it, nobody reads it
    assert evicted(order) == key(0)
    order.note(key(4), 5)
    order.note(key(1), 10)
    assert evicted(order) == key(1)


def test_new_size_of_a_key_is_counted_in_either_part() -> None:
    marks = ReadMarks()
    order = EvictionOrder(marks)
    order.note(key(0), 10)
    order.note(key(0), 30)
    order.note(key(1), 10)
    marks.marked.add(key(0))
    assert order.victim() == key(1)
    order.note(key(0), 5)
    assert order.held_bytes == 15
    order.check()
    order.discard(key(0))
    order.discard(key(0))
    assert order.held_bytes == 10
    order.check()


@given(
    st.lists(
        st.tuples(st.sampled_from(["note", "use", "drop", "evict"]), st.integers(0, 8)),
        max_size=60,
    )
)
def test_sums_are_right_and_a_victim_is_one_that_is_kept(steps: list[tuple[str, int]]) -> None:
    marks = ReadMarks()
    order = EvictionOrder(marks)
    kept: set[Key] = set()
    for what, number in steps:
        if what == "note":
            order.note(key(number), 1 + number)
            kept.add(key(number))
        elif what == "use":
            marks.marked.add(key(number))
        elif what == "drop":
            order.discard(key(number))
            kept.discard(key(number))
        else:
            victim = order.victim()
            assert victim in kept if kept else victim is None
        order.check()
        assert len(order) == len(kept)
        assert all(one in order for one in kept)


def test_cheapest_tables_are_named_in_their_order_and_stay() -> None:
    marks = ReadMarks()
    order = EvictionOrder(marks)
    for number in range(4):
        order.note(key(number), 10)
    marks.marked.add(key(0))
    assert order.victim() == key(1)  # 0 was used: it is protected
    marks.marked.add(key(2))
    assert list(order.cheapest(25)) == [(key(1), 10), (key(2), 10), (key(3), 10)]
    assert [one for one, _ in order.cheapest(1000)] == [key(1), key(2), key(3), key(0)]
    assert list(order.cheapest(0)) == []
    assert len(order) == 4
    assert marks.marked == {key(2)}


def crowded(*, reads: int, shop_reads: int = 0) -> Shopping:
    """Return a shopping that holds many small tables, each read so many times."""
    names = [f"shop.t{number}" for number in range(12)]
    shop = Shop(("sales",))
    for name in names:
        shop.create(name)
    names_bytes = Published(shop).topics[NAMESPACE].held_bytes
    shopping = Shopping(shop, late=True, automatic=True, budget_bytes=names_bytes + 8_500)
    for name in [*names, *names * (reads - 1)]:
        shopping.columns(name)
    for _ in range(shop_reads):
        shopping.call(lambda catalog: catalog.partitions("shop.sales", "ds = 'none'"))
    shopping.pass_time(1.1)
    return shopping


def kept(shopping: Shopping) -> set[str]:
    tables = shopping.call(lambda catalog: catalog.tables("shop"))
    return {name for name in tables if shopping.memory(f"shop.{name}") is not None}


def test_large_table_read_once_evicts_no_small_ones_that_are_hot() -> None:
    shopping = crowded(reads=50)
    assert len(kept(shopping)) == 12
    assert len(shopping.partitions("shop.sales")) == 100
    assert len(kept(shopping)) == 12
    assert shopping.stats().pulls_not_kept == 1


def test_large_table_takes_the_room_of_small_ones_that_are_read_less() -> None:
    shopping = crowded(reads=2, shop_reads=50)
    shopping.partitions("shop.sales")
    assert shopping.memory_of_partitions("shop.sales") is not None
    assert shopping.stats().evictions > 0
