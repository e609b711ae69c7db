from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.subscriber.store.view import HEADS_MAX, TopicView, View, heads_within, prepare
from topicast.tests.subscriber.source import Catalog, shop
from topicast.topics.entries import STUB, Entry, prefix_tombstone, stub, tombstone
from topicast.topics.errors import NoSuchObject, WireError
from topicast.topics.objects.names import block_key, names_key, rules_key, table_key
from topicast.topics.objects.rules import OFF, Rule
from topicast.topics.objects.values import LOADING
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import Delta


def put(view: View, topic: int, entries: Sequence[Entry]) -> None:
    held = view.topics.setdefault(topic, TopicView())
    view.install(held, *prepare(held, entries))


def _apply(view: View, *deltas: Delta) -> None:
    for delta in deltas:
        put(view, delta.topic, delta.entries)
        view.check()


def _filled(catalog: Catalog, **settings: int) -> View:
    view = View(catalog.num_topics, **settings)
    for topic, held in catalog.topics.items():
        put(view, topic, list(held.since(0)))
        view.open(topic)
    view.check()
    return view


def _head_name(content: TableSnapshot, db: str, table: str) -> str:
    head = content.head(table_key(db, table))
    assert head is not None
    return head.table.full_name


def test_open_view_answers_names_tables_and_partitions() -> None:
    view = _filled(shop())
    assert view.databases() == ("shop",)
    database = view.database("shop")
    assert database is not None
    assert (database.name, database.description) == ("shop", "about")
    assert view.tables("shop") == ("items", "orders", "people", "sales", "stock", "visits")
    content = view.table("shop", "sales")
    assert content is not None
    assert _head_name(content, "shop", "sales") == "shop.sales"
    assert view.partitions("shop", "sales") is content
    assert len(content) == 5


def test_namespace_alone_says_that_a_table_does_not_exist() -> None:
    catalog = shop()
    view = _filled(catalog)
    _apply(view, catalog.drop_table("shop", "orders")[0])  # its content is still here
    assert table_key("shop", "orders") in view.groups(catalog.topic("shop", "orders"))
    with pytest.raises(NoSuchObject, match=r"shop\.orders"):
        view.table("shop", "orders")
    with pytest.raises(NoSuchObject):
        view.table("shop", "nothing")
    with pytest.raises(NoSuchObject):
        view.table("nowhere", "orders")
    with pytest.raises(NoSuchObject, match="nowhere"):
        view.tables("nowhere")
    with pytest.raises(NoSuchObject, match="nowhere"):
        view.database("nowhere")


def test_rules_are_told_as_last_known_and_are_no_name() -> None:
    """P-RULES-1, P-RULES-3."""
    catalog = shop()
    view = _filled(catalog)
    assert view.rules() == ()
    _apply(view, catalog.rule(Rule("a", OFF)))
    assert view.rules() == (Rule("a", OFF),)
    assert view.databases() == ("shop",)
    view.close(NAMESPACE)
    _apply(view, catalog.rule())
    assert view.rules() == (Rule("a", OFF),), "not all of the names may be there yet"
    view.open(NAMESPACE)
    assert view.rules() == ()


def test_rules_that_cannot_be_read_leave_those_that_were() -> None:
    """P-RULES-4."""
    catalog = shop()
    view = _filled(catalog)
    _apply(view, catalog.rule(Rule("a", OFF)))
    view.rules()
    newer = catalog.value(rules_key(), catalog.next(NAMESPACE), b"newer")
    _apply(view, catalog.commit(NAMESPACE, [newer]))
    assert view.rules() == (Rule("a", OFF),)
    _apply(view, catalog.rule(Rule("b", OFF)))
    assert view.rules() == (Rule("b", OFF),)


def test_absent_table_of_a_topic_that_is_shut_does_not_exist_either() -> None:
    catalog = shop()
    view = _filled(catalog)
    view.close(catalog.topic("shop", "orderz"))
    with pytest.raises(NoSuchObject):
        view.table("shop", "orderz")


def test_shut_topic_is_not_answered_from_memory() -> None:
    catalog = shop()
    view = _filled(catalog)
    view.close(catalog.topic("shop", "orders"))
    assert view.table("shop", "orders") is None
    view.open(catalog.topic("shop", "orders"))
    assert view.table("shop", "orders") is not None


def test_shut_namespace_answers_nothing() -> None:
    view = _filled(shop())
    view.close(NAMESPACE)
    assert view.databases() is None
    assert view.database("shop") is None
    assert view.tables("shop") is None
    assert view.table("shop", "orders") is None
    assert view.table("shop", "nothing") is None
    view.close(3)
    view.close(99)  # never followed


def test_content_of_another_incarnation_is_not_answered() -> None:
    catalog = shop()
    view = _filled(catalog)
    assert view.table("shop", "orders") is not None  # and is known to be of the old one
    catalog.drop_table("shop", "orders")
    names, table = catalog.create_table("shop", "orders")
    _apply(view, names)
    assert view.table("shop", "orders") is None
    _apply(view, table)
    assert view.table("shop", "orders") is not None


def test_loading_table_is_answered_but_not_its_partitions() -> None:
    catalog = shop()
    view = _filled(catalog)
    _apply(view, catalog.put_table("shop", "sales", keys=("ds",), state=LOADING))
    assert view.table("shop", "sales") is not None
    assert view.partitions("shop", "sales") is None


def test_stub_of_table_or_block_sends_the_reader_to_a_pull_until_the_value_comes() -> None:
    catalog = shop()
    view = _filled(catalog)
    topic = catalog.topic("shop", "sales")
    for key in (table_key("shop", "sales"), block_key("shop", "sales", "")):
        entry = catalog.topics[topic].get(key)
        assert entry is not None
        version = catalog.next(topic)
        newer = Entry(key, version, version, version, entry.size, entry.value)
        _apply(view, catalog.commit(topic, [stub(newer)]))
        own = key == table_key("shop", "sales")
        assert (view.table("shop", "sales") is None) is own  # a block's stub says nothing of it
        assert view.partitions("shop", "sales") is None
        version = catalog.next(topic)
        value = Entry(key, version, version, version, entry.size, entry.value)
        _apply(view, catalog.commit(topic, [value]))
        assert view.partitions("shop", "sales") is not None


def test_table_whose_own_entry_is_not_here_is_not_answered() -> None:
    catalog = shop()
    view = _filled(catalog)
    topic = catalog.topic("shop", "sales")
    _apply(
        view, catalog.commit(topic, [tombstone(table_key("shop", "sales"), catalog.next(topic))])
    )
    assert view.table("shop", "sales") is None
    _apply(view, catalog.drop_table("shop", "orders")[1])
    catalog.names["shop"]["orders"] = catalog.names["shop"]["items"]
    assert view.table("shop", "orders") is None


def test_names_block_without_value_is_a_protocol_error() -> None:
    catalog = shop()
    view = _filled(catalog)
    key = names_key("shop", "")
    old = catalog.topics[NAMESPACE].get(key)
    assert old is not None
    _apply(view, catalog.commit(NAMESPACE, [Entry(key, 99, 99, 99, 5, None, STUB)]))
    with pytest.raises(WireError):
        view.tables("shop")


def test_prefix_drops_a_table_whatever_its_size_and_gives_its_bytes_back() -> None:
    catalog = shop()
    view = _filled(catalog)
    before = view.held_bytes
    topic = catalog.topic("shop", "sales")
    content = view.table("shop", "sales")
    assert content is not None
    _apply(view, *catalog.drop_table("shop", "sales")[1:])
    assert table_key("shop", "sales") not in view.groups(topic)
    assert view.held_bytes == before - content.held_bytes
    assert len(content) == 5  # who reads keeps what it began with


def test_late_prefix_spares_what_is_newer() -> None:
    catalog = shop()
    view = _filled(catalog)
    topic = catalog.topic("shop", "sales")
    group = table_key("shop", "sales")
    version = catalog.topics[topic].version
    put(view, topic, [prefix_tombstone(group, version)])
    view.check()
    left = view.groups(topic)[group]
    assert {entry.version for entry in left.entries()} == {version}


def test_forgotten_topic_gives_all_its_bytes_back_and_keeps_its_hits() -> None:
    catalog = shop()
    view = _filled(catalog)
    topic = catalog.topic("shop", "orders")
    for _ in range(3):
        view.table("shop", "orders")
    view.discard(topic)
    assert (view.groups(topic), view.hits(topic)) == ({}, 3)
    view.open(topic)
    assert view.table("shop", "orders") is None
    for one in catalog.topics:
        view.discard(one)
    assert view.held_bytes == 0
    assert view.databases() is None
    assert view.hits_all == 3


def test_table_is_decoded_once_until_its_own_entry_changes() -> None:
    catalog = shop()
    view = _filled(catalog)
    first = view.table("shop", "sales")
    assert first is not None
    group = table_key("shop", "sales")
    head = first.head(group)
    assert first.head(group) is head
    _apply(view, catalog.put_partitions("shop", "sales", {"ds=001": {"n": "x"}}))
    second = view.table("shop", "sales")
    assert second is not None
    assert second is not first
    assert second.head(group) is head
    _apply(view, catalog.put_table("shop", "sales", keys=("ds",), columns=("id", "more")))
    third = view.table("shop", "sales")
    assert third is not None
    assert third.head(group) is not head


def test_decoded_tables_are_bounded() -> None:
    catalog = shop()
    view = _filled(catalog, heads_max=2)
    first = view.table("shop", "orders")
    assert first is not None
    for name in ("items", "people"):
        view.table("shop", name)
    assert first.names_block is None
    assert view.table("shop", "orders") is first
    for name in ("items", "stock"):  # what was replaced meanwhile is gone by itself
        _apply(view, catalog.put_table("shop", name, columns=("a", "b")))
        view.table("shop", name)
    assert len(view._heads) == 2


def test_reader_that_meets_a_swap_in_the_middle_is_sent_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The topic shuts and opens again while a reader is between its two looks."""
    catalog = shop()
    view = _filled(catalog)
    topic = catalog.topic("shop", "orders")
    held = view.topics[topic]

    class Meddling(dict[bytes, TableSnapshot]):
        def get(self, key: bytes, default: TableSnapshot | None = None) -> TableSnapshot | None:  # type: ignore[override]  # narrower on purpose
            found = super().get(key, default)
            view.close(self_topic)
            view.open(self_topic)
            return found

    self_topic = topic
    held.groups = Meddling(held.groups)
    assert view.table("shop", "orders") is None
    namespace = view.topics[NAMESPACE]
    self_topic = NAMESPACE
    namespace.groups = Meddling(namespace.groups)
    assert view.table("shop", "items") is None
    assert view.tables("shop") is None
    assert view.database("shop") is None


NAMES = st.integers(0, 150).map(lambda n: f"ds={n:03}")
STEP = st.one_of(
    st.tuples(
        st.just("parts"),
        st.dictionaries(NAMES, st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=40),
    ),
    st.tuples(st.sampled_from(["table", "drop", "create"]), st.integers(0, 9)),
)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), STEP), max_size=15))
def test_view_equals_the_topics_after_any_transactions(
    steps: list[tuple[str, tuple[str, object]]],
) -> None:
    catalog = Catalog(2)
    view = View(2)
    _apply(view, *catalog.create_database("db"))
    for table, (what, argument) in steps:
        _apply(view, *_step(catalog, table, what, argument))
        for topic, held in catalog.topics.items():
            rows = {group: {row.key: row for row in held.rows(group)} for group in held.group_ids()}
            have = {
                group: {entry.key: entry for entry in content.entries()}
                for group, content in view.groups(topic).items()
            }
            assert have == {group: of_group for group, of_group in rows.items() if of_group}


def _step(catalog: Catalog, table: str, what: str, argument: object) -> list[Delta]:
    exists = table in catalog.names["db"]
    if what == "create" and not exists:
        return catalog.create_table("db", table, keys=("ds",))
    if not exists:
        return []
    if what == "drop":
        return catalog.drop_table("db", table)
    if what == "table":
        return [catalog.put_table("db", table, columns=(f"c{argument}",), keys=("ds",))]
    if what == "parts":
        assert isinstance(argument, dict)
        changes = {k: None if v is None else {"n": str(v)} for k, v in argument.items()}
        return [catalog.put_partitions("db", table, changes)]
    return []


def test_content_that_was_replaced_is_not_kept_for_its_decoded_table() -> None:
    catalog = shop()
    view = _filled(catalog, heads_max=1)
    view.table("shop", "orders")
    _apply(view, catalog.put_table("shop", "orders", columns=("a",)))
    view.table("shop", "items")
    assert [one() for one in view._heads] == [view.table("shop", "items")]


def test_decoded_table_that_a_change_inherits_is_counted() -> None:
    catalog = shop()
    catalog.create_table("shop", "logs", keys=("ds",))
    view = _filled(catalog, heads_max=1)
    for name in ("sales", "logs"):
        assert view.table("shop", name) is not None
        _apply(view, catalog.put_partitions("shop", name, {"ds=001": {"n": "x"}}))
    contents = [c for place in view.topics.values() for c in place.groups.values()]
    assert sum(content.decoded_bytes > 0 for content in contents) == 1


def test_wide_decoded_table_takes_the_place_of_several() -> None:
    catalog = shop()
    catalog.put_table("shop", "orders", columns=tuple(f"column_{n}" for n in range(200)))
    view = _filled(catalog, heads_max=8)
    for name in ("items", "people", "orders"):
        assert view.table("shop", name) is not None
    assert len(view._heads) == 8  # one, one, and six for 42,000 bytes
    for name in ("stock", "visits"):
        view.table("shop", name)
    wide = view.content(catalog.topic("shop", "orders"), table_key("shop", "orders"))
    assert wide is not None
    assert wide.decoded_bytes == 42_000
    view.table("shop", "sales")
    assert wide.decoded_bytes == 0


def test_decoded_tables_take_a_small_share_of_the_budget() -> None:
    assert heads_within(1) == 1
    assert heads_within(8 << 20) == 128
    assert heads_within(1 << 40) == HEADS_MAX
