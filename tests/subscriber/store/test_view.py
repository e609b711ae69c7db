"""What memory answers, from which entries, and that it equals the topics that it is made of."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.subscriber.store.view import HEADS_MAX, TopicView, View, heads_within, prepare
from topicast.tests.cluster.published import Published
from topicast.tests.cluster.shop import NAMES
from topicast.topics.errors import NoSuchObject, WireError
from topicast.topics.objects.encoding.values import (
    LOADING,
    decode_table_value,
    encode_problem,
    encode_table_value,
)
from topicast.topics.objects.names import block_key, names_key, problem_key, rules_key, table_key
from topicast.topics.objects.rules import OFF, Rule, encode_rules
from topicast.topics.objects.selector import TABLE_ONLY
from topicast.topics.objects.source_problem import ProblemKind, SourceProblem
from topicast.topics.topic import (
    NAMESPACE,
    PREFIX,
    STUB,
    TOMBSTONE,
    VALUE,
    Entry,
    Topic,
    prefix_tombstone,
    stub,
    tombstone,
)

SALES, ORDERS = table_key("shop", "sales"), table_key("shop", "orders")


def put(view: View, topic: int, entries: Sequence[Entry]) -> None:
    held = view.topics.setdefault(topic, TopicView())
    view.install(held, *prepare(held, entries))
    view.check()


class PublishedView:
    """A view of everything that is published, and of its changes."""

    def __init__(self, *, heads_max: int = HEADS_MAX) -> None:
        self.published = Published()
        self.shop = self.published.shop
        self.view = View(self.published.num_topics, heads_max=heads_max)
        for topic, held in self.published.topics.items():
            put(self.view, topic, list(held.since(0)))
            self.view.open(topic)

    def update(self, *topics: int) -> None:
        """Apply what has changed, of these topics, or of all."""
        for delta in self.published.deltas():
            if not topics or delta.topic in topics:
                put(self.view, delta.topic, delta.entries)

    def topic(self, name: str) -> int:
        return self.published.topic(f"shop.{name}")

    def entry(self, key: bytes) -> Entry:
        entry = self.published.topics[self.topic("sales")].get(key)
        assert entry is not None
        return entry

    def table(self, name: str) -> TableSnapshot:
        content = self.view.table("shop", name)
        assert content is not None
        return content


@pytest.fixture
def made() -> PublishedView:
    return PublishedView()


def rules(version: int, *named: Rule) -> Entry:
    value = encode_rules(named)
    if not named:
        return tombstone(rules_key(), version)
    return Entry(rules_key(), version, version, version, len(value), value)


def test_open_view_answers_names_tables_and_partitions(made: PublishedView) -> None:
    view = made.view
    assert view.databases() == ("default", "shop")
    database = view.database("shop")
    assert database is not None
    assert (database.name, database.location) == ("shop", "file:/w/shop")
    assert view.tables("shop") == NAMES
    content = made.table("sales")
    assert content.head_of("shop", "sales").table.full_name == "shop.sales"
    assert view.partitions("shop", "sales") is content
    assert len(content) == 5


def test_look_that_memory_does_not_answer_is_not_a_read(made: PublishedView) -> None:
    view, topic, entry = made.view, made.topic("sales"), made.entry(SALES)
    assert entry.value is not None
    loading = encode_table_value(replace(decode_table_value(entry.value), partitions=LOADING))
    put(view, topic, [replace_entry(entry, value=loading, version=99)])
    content = view.groups(topic)[SALES]
    assert view.partitions("shop", "sales") is None
    assert view.hits(topic) == 0
    assert not content.used, "it is evicted as a table that nobody has read"
    assert view.partitions("shop", "sales", TABLE_ONLY) is content
    assert view.hits(topic) == 1
    assert content.used


def test_namespace_alone_says_that_a_table_does_not_exist(made: PublishedView) -> None:
    view = made.view
    made.shop.drop("shop.orders")
    made.update(NAMESPACE)
    assert ORDERS in view.groups(made.topic("orders")), "its content is still here"
    for read in (view.table, view.partitions):
        for db, table in (("shop", "orders"), ("shop", "nothing"), ("nowhere", "orders")):
            with pytest.raises(NoSuchObject, match=rf"{db}\.{table}"):
                read(db, table)
    for names in (view.tables, view.database):
        with pytest.raises(NoSuchObject, match="nowhere"):
            names("nowhere")
    view.close(made.topic("orderz"))
    with pytest.raises(NoSuchObject):
        view.table("shop", "orderz")


def test_rules_are_answered_as_last_known_and_are_no_name(made: PublishedView) -> None:
    """P-RULES-1, P-RULES-3."""
    view = made.view
    assert view.rules() == ()
    put(view, NAMESPACE, [rules(100, Rule("a", OFF))])
    assert view.rules() == (Rule("a", OFF),)
    assert view.databases() == ("default", "shop")
    view.close(NAMESPACE)
    put(view, NAMESPACE, [rules(101)])
    assert view.rules() == (Rule("a", OFF),), "not all of the names may be there yet"
    view.open(NAMESPACE)
    assert view.rules() == ()


def test_rules_that_cannot_be_read_leave_those_that_were(made: PublishedView) -> None:
    """P-RULES-4."""
    view = made.view
    put(view, NAMESPACE, [rules(100, Rule("a", OFF))])
    view.rules()
    put(view, NAMESPACE, [replace_entry(rules(101, Rule("a", OFF)), value=b"newer")])
    assert view.rules() == (Rule("a", OFF),)
    put(view, NAMESPACE, [rules(102, Rule("b", OFF))])
    assert view.rules() == (Rule("b", OFF),)


def test_problem_of_the_metastore_is_reported_as_last_known_and_is_not_a_name(
    made: PublishedView,
) -> None:
    """P-PROBLEM-1, P-PROBLEM-3."""
    view = made.view
    assert view.metastore_problem() == ""
    value = encode_problem(SourceProblem(ProblemKind.UNRECORDED, "no listener"))
    problem = Entry(problem_key(), 100, 100, 100, len(value), value)
    put(view, NAMESPACE, [problem])
    assert view.metastore_problem() == "no listener"
    assert (view.databases(), view.rules()) == (("default", "shop"), ())
    put(view, NAMESPACE, [replace_entry(problem, value=b"newer", version=101)])
    assert view.metastore_problem() == "no listener"
    put(view, NAMESPACE, [tombstone(problem_key(), 102)])
    assert view.metastore_problem() == ""


def replace_entry(entry: Entry, *, value: bytes, version: int = 0) -> Entry:
    return entry._replace(value=value, size=len(value), version=version or entry.version)


def test_closed_topic_is_not_answered_from_memory(made: PublishedView) -> None:
    made.view.close(made.topic("orders"))
    assert made.view.table("shop", "orders") is None
    made.view.open(made.topic("orders"))
    assert made.view.table("shop", "orders") is not None


def test_closed_namespace_answers_nothing(made: PublishedView) -> None:
    view = made.view
    view.close(NAMESPACE)
    assert view.databases() is view.database("shop") is view.tables("shop") is None
    assert view.table("shop", "orders") is view.table("shop", "nothing") is None
    view.close(3)
    view.close(99)  # never followed


def test_content_of_another_incarnation_is_not_answered(made: PublishedView) -> None:
    assert made.table("orders")  # and is known to be of the old table
    made.shop.drop("shop.orders")
    made.shop.create("shop.orders")
    for delta in sorted(made.published.deltas(), key=lambda delta: delta.topic != NAMESPACE):
        put(made.view, delta.topic, delta.entries)
        answered = made.view.table("shop", "orders") is not None
        assert answered is (delta.topic != NAMESPACE)


def test_loading_table_is_answered_but_not_its_partitions(made: PublishedView) -> None:
    entry = made.entry(SALES)
    assert entry.value is not None
    loading = encode_table_value(replace(decode_table_value(entry.value), partitions=LOADING))
    put(made.view, made.topic("sales"), [replace_entry(entry, value=loading, version=99)])
    assert made.table("sales")
    assert made.view.partitions("shop", "sales") is None


@pytest.mark.parametrize("key", [SALES, block_key("shop", "sales", "")], ids=["table", "block"])
def test_stub_sends_the_reader_to_a_pull_until_the_value_comes(
    made: PublishedView, key: bytes
) -> None:
    view, topic, entry = made.view, made.topic("sales"), made.entry(key)
    put(view, topic, [stub(entry._replace(version=98))])
    assert (view.table("shop", "sales") is None) is (key == SALES)
    assert view.partitions("shop", "sales") is None
    put(view, topic, [entry._replace(version=99)])
    assert view.partitions("shop", "sales") is not None


def test_table_whose_own_entry_is_not_here_is_not_answered(made: PublishedView) -> None:
    put(made.view, made.topic("sales"), [tombstone(SALES, 99)])
    put(made.view, made.topic("orders"), [prefix_tombstone(ORDERS, 99)])
    assert made.view.table("shop", "sales") is made.view.table("shop", "orders") is None


def test_names_block_without_a_value_is_a_protocol_error(made: PublishedView) -> None:
    put(made.view, NAMESPACE, [Entry(names_key("shop", ""), 99, 99, 99, 5, None, STUB)])
    with pytest.raises(WireError):
        made.view.tables("shop")


def test_prefix_drops_a_table_whatever_its_size_and_frees_its_bytes(made: PublishedView) -> None:
    view, content = made.view, made.table("sales")
    before, topic = view.held_bytes, made.topic("sales")
    put(view, topic, [prefix_tombstone(SALES, min(entry.version for entry in content.entries()))])
    left = view.groups(topic)[SALES]
    assert list(left.entries()) == list(content.entries()), "a late one leaves what is newer"
    put(view, topic, [prefix_tombstone(SALES, 99)])
    assert SALES not in view.groups(topic)
    assert view.held_bytes == before - content.held_bytes
    assert len(content) == 5, "a reader keeps what it began with"


def test_discarded_topic_frees_all_its_bytes_and_keeps_its_hits(made: PublishedView) -> None:
    view, topic = made.view, made.topic("orders")
    for _ in range(3):
        view.table("shop", "orders")
    view.discard(topic)
    assert (view.groups(topic), view.hits(topic)) == ({}, 3)
    view.open(topic)
    assert view.table("shop", "orders") is None
    for one in made.published.topics:
        view.discard(one)
    assert (view.held_bytes, view.databases(), view.hits_all) == (0, None, 3)


def test_table_is_decoded_once_until_its_own_entry_changes(made: PublishedView) -> None:
    first = made.table("sales")
    head = first.head(SALES)
    assert first.head(SALES) is head
    (block,) = (entry for entry in first.entries() if entry.key == block_key("shop", "sales", ""))
    put(made.view, made.topic("sales"), [block._replace(version=98)])
    assert made.table("sales") is not first
    assert made.table("sales").head(SALES) is head
    made.shop.reshape("shop.sales", ("id", "more"))
    made.update()
    assert made.table("sales").head(SALES) is not head


def test_decoded_tables_are_few() -> None:
    made = PublishedView(heads_max=2)
    old = ref(made.table("orders"))
    contents = [made.table(name) for name in ("orders", "items", "people")]
    assert [content.decoded_bytes > 0 for content in contents] == [False, True, True]
    assert contents[0].names_block is None
    assert made.table("orders") is contents[0]
    contents.clear()
    made.shop.reshape("shop.orders", ("a", "b"))
    made.update()
    assert old() is None, "what was replaced is not kept for its decoded table"


def test_decoded_table_that_a_change_inherits_is_counted() -> None:
    made = PublishedView(heads_max=1)
    for name in ("sales", "orders"):
        assert made.table(name)
        block = Entry(block_key("shop", name, "z"), 98, 98, 98, 1, b"v")
        put(made.view, made.topic(name), [block])
    contents = [c for place in made.view.topics.values() for c in place.groups.values()]
    assert sum(content.decoded_bytes > 0 for content in contents) == 1


def test_wide_decoded_table_takes_the_place_of_several() -> None:
    made = PublishedView(heads_max=8)
    made.shop.reshape("shop.orders", [f"column_{number}" for number in range(200)])
    made.update()
    for name in ("items", "people"):
        made.table(name)
    wide = made.table("orders")
    for name in ("stock", "visits"):
        made.table(name)
    assert wide.decoded_bytes == 42_000, "six of eight places"
    made.table("sales")
    assert wide.decoded_bytes == 0


def test_decoded_tables_take_a_small_share_of_the_budget() -> None:
    assert [heads_within(size) for size in (1, 8 << 20, 1 << 40)] == [1, 128, HEADS_MAX]


def test_reader_that_meets_a_swap_in_the_middle_is_sent_to_a_pull(made: PublishedView) -> None:
    """The topic is closed and opened again while a reader is between its two looks."""
    view = made.view

    class Meddling(dict[bytes, TableSnapshot]):
        topic = made.topic("orders")

        def get(self, key: bytes, default: TableSnapshot | None = None) -> TableSnapshot | None:  # type: ignore[override]  # narrower on purpose
            found = super().get(key, default)
            view.close(self.topic)
            view.open(self.topic)
            return found

    held = view.topics[made.topic("orders")]
    held.groups = Meddling(held.groups)
    assert view.table("shop", "orders") is None
    namespace = view.topics[NAMESPACE]
    namespace.groups = Meddling(namespace.groups)
    Meddling.topic = NAMESPACE
    assert view.table("shop", "items") is view.tables("shop") is view.database("shop") is None


KINDS = st.sampled_from([VALUE, VALUE, VALUE, STUB, TOMBSTONE, PREFIX])
CHANGES = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 40), KINDS)


@given(st.lists(st.lists(CHANGES, min_size=1, max_size=30), max_size=15))
def test_view_equals_the_topic_after_any_transactions(
    transactions: list[list[tuple[str, int, int]]],
) -> None:
    topic, view = Topic(), View(1)
    topic.reset(1)
    for version, changes in enumerate(transactions, 1):
        entries = list(entries_of(changes, version))
        topic.file(entries)
        topic.version = version
        put(view, 0, entries)
        have = {group: list(content.entries()) for group, content in view.groups(0).items()}
        assert have == {group: sorted(topic.rows(group)) for group in topic.group_ids()}


def entries_of(changes: Iterable[tuple[str, int, int]], version: int) -> Iterable[Entry]:
    """Yield a transaction: tables that are dropped first, then each key once."""
    dropped = {table for table, _, kind in changes if kind == PREFIX}
    yield from (prefix_tombstone(table_key("db", table), version) for table in sorted(dropped))
    others = {(table, part): kind for table, part, kind in changes if kind != PREFIX}
    for (table, part), kind in sorted(others.items()):
        group = table_key("db", table)
        key = block_key("db", table, f"{part:02}") if part else group
        if kind == TOMBSTONE:
            yield tombstone(key, version)
        else:
            value = b"v" * (version % 5) if kind == VALUE else None
            yield Entry(key, version, version, version, 9, value, kind)
