"""What saves least for its bytes is evicted first, and a scan evicts nothing in use."""

from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.store.eviction import EvictionOrder, Key
from topicast.subscriber.store.latency import LatencyEstimate
from topicast.tests.cluster.shop import Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.subscriber.crowd import sizes
from topicast.topics.topic import NAMESPACE


class Kept(EvictionOrder):
    """An order of evictions, and the marks that readers would leave."""

    def __init__(self, *sizes: int) -> None:
        """Keep the keys 0, 1, … with these bytes."""
        super().__init__(self._take, LatencyEstimate())
        self.marked: set[Key] = set()
        for number, size in enumerate(sizes):
            self.note(key(number), size)

    def use(self, *numbers: int) -> None:
        """Mark keys as used."""
        self.marked.update(map(key, numbers))

    def evict(self) -> Key:
        """Remove what is evicted next."""
        victim = self.victim()
        assert victim is not None
        self.discard(victim)
        self.check()
        return victim

    def _take(self, one: Key) -> bool:
        used = one in self.marked
        self.marked.discard(one)
        return used


def key(number: int) -> Key:
    return number % 4, str(number).encode()


def test_oldest_of_the_tables_that_were_never_used_is_evicted_first() -> None:
    assert Kept().victim() is None
    order = Kept(10, 10, 10)
    assert order.evict() == key(0)
    assert (order.victim(), len(order), order.held_bytes) == (key(1), 2, 20)


def test_scan_evicts_nothing_that_is_in_use() -> None:
    order = Kept(10, 10, 10, 10, 10)
    for number in range(100, 300):
        order.use(*range(5))
        order.note(key(number), 10)
        while order.held_bytes > 100:
            order.evict()
    assert all(key(number) in order for number in range(5))


def test_table_that_is_used_no_more_is_evicted_in_the_end() -> None:
    order = Kept(10, 10)
    order.use(0)
    assert [order.evict(), order.evict()] == [key(1), key(0)]


def test_large_table_is_evicted_before_many_small_tables() -> None:
    assert Kept(10, 10, 10, 10, 1000).evict() == key(4)


def test_large_table_stays_while_it_is_used_and_small_tables_are_not() -> None:
    order = Kept(1000)
    for number in range(10, 1000):
        order.use(0)
        order.note(key(number), 10)
        if order.held_bytes > 1100:
            assert order.evict() != key(0)


def test_table_that_was_used_often_is_evicted_in_the_end() -> None:
    order = Kept(10)
    for number in range(1, 100):  # looked at again and again, while others come and go
        order.use(0)
        order.note(key(number), 10)
        assert order.evict() == key(number)
    for number in range(100, 300):  # then five others are in use at any time
        order.note(key(number), 10)
        order.use(*range(max(number - 5, 100), number))
        if order.held_bytes > 100:
            order.evict()
    assert key(0) not in order


def test_tables_in_use_take_at_most_their_share_from_new_tables() -> None:
    order = Kept(*[10] * 20)
    order.use(*range(20))
    assert order.victim() is not None
    order.note(key(20), 10)
    assert order.victim() != key(20), "half of those in use are on probation again"


def test_change_of_a_table_does_not_make_it_new() -> None:
    order = Kept(10)
    for number in range(1, 4):
        order.note(key(number), 5)
        order.note(key(0), 10)  # somebody writes to it, nobody reads it
    assert order.evict() == key(0)
    order.note(key(4), 5)
    order.note(key(1), 10)
    assert order.evict() == key(1)


def test_new_size_of_a_key_is_counted_in_either_part() -> None:
    order = Kept(10, 10)
    order.note(key(0), 30)
    order.use(0)
    assert order.victim() == key(1)
    order.note(key(0), 5)
    assert order.held_bytes == 15
    order.check()
    for _ in range(2):
        order.discard(key(0))
        assert order.held_bytes == 10
    order.check()


@given(
    st.lists(
        st.tuples(st.sampled_from(["note", "use", "drop", "evict"]), st.integers(0, 8)),
        max_size=60,
    )
)
def test_sums_are_right_and_a_victim_is_a_kept_table(steps: list[tuple[str, int]]) -> None:
    order, kept = Kept(), set[Key]()
    for what, number in steps:
        if what == "note":
            order.note(key(number), 1 + number)
            kept.add(key(number))
        elif what == "use":
            order.use(number)
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
    order = Kept(10, 10, 10, 10)
    order.use(0)
    assert order.victim() == key(1)  # 0 was used: it is protected
    order.use(2)
    assert list(order.cheapest(25)) == [(key(1), 10), (key(2), 10), (key(3), 10)]
    assert [one for one, _ in order.cheapest(1000)] == [key(1), key(2), key(3), key(0)]
    assert list(order.cheapest(0)) == []
    assert len(order) == 4
    assert order.marked == {key(2)}


def small_tables(*, reads: int, shop_reads: int = 0) -> Shopping:
    """Return a shopping that holds many small tables, each read so many times."""
    names = [f"shop.t{number}" for number in range(12)]
    shop = Shop(("sales", *(f"t{number}" for number in range(12))))
    budget = sizes(shop)[NAMESPACE] + 8_500
    shopping = Shopping(shop, late=True, automatic=True, budget_bytes=budget)
    for name in names * reads:
        shopping.columns(name)
    for _ in range(shop_reads):
        shopping.call(lambda catalog: catalog.partitions("shop.sales", "ds = 'none'"))
    shopping.pass_time(1.1)
    return shopping


def kept(shopping: Shopping) -> set[str]:
    tables = shopping.call(lambda catalog: catalog.tables("shop"))
    return {name for name in tables if shopping.memory(f"shop.{name}") is not None}


def test_large_table_read_once_evicts_no_small_tables_that_are_hot() -> None:
    shopping = small_tables(reads=50)
    assert len(kept(shopping)) == 12
    assert len(shopping.partitions("shop.sales")) == 100
    assert len(kept(shopping)) == 12
    assert shopping.stats().pulls_not_kept == 1


def test_large_table_takes_the_room_of_small_tables_that_are_read_less() -> None:
    shopping = small_tables(reads=2, shop_reads=50)
    shopping.partitions("shop.sales")
    assert shopping.memory_of_partitions("shop.sales") is not None
    assert shopping.stats().evictions > 0
