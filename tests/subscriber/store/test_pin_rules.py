"""Rules that pin and ban tables: the first that names a table counts."""

import pytest

from topicast.subscriber.store import pin_rules as module
from topicast.subscriber.store.pin_rules import PATTERNS_MAX, PinRules, parse_patterns
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.errors import ConfigError
from topicast.topics.objects.names import table_key


def test_patterns_pin_and_ban_by_the_full_name() -> None:
    rules = PinRules(("finance.*", "sales.orders"), ("tmp_?.*", "*.x[12]"))
    assert rules.has_pins
    assert rules.has_bans
    assert rules.pinned("finance", "anything")
    assert rules.pinned("sales", "orders")
    assert not rules.pinned("sales", "orders2")
    assert rules.banned(table_key("tmp_1", "a"))
    assert rules.banned(table_key("sales", "x2"))
    assert not rules.banned(table_key("tmp_12", "a"))
    assert not rules.banned(table_key("sales", "x3"))


def test_no_rule_pins_or_bans_nothing() -> None:
    rules = PinRules()
    assert not rules.has_pins
    assert not rules.has_bans
    assert not rules.pinned("a", "b")
    assert not rules.banned(table_key("a", "b"))


def test_ban_is_an_exception_to_a_pin() -> None:
    rules = PinRules(("finance.*",), ("finance.tmp_*",))
    assert not rules.pinned("finance", "tmp_1")
    assert rules.banned(table_key("finance", "tmp_1"))
    assert rules.pinned("finance", "orders")


def test_rule_for_one_table_counts_before_patterns() -> None:
    rules = PinRules(("finance.*",), ("finance.tmp_*",))
    assert rules.banned(table_key("finance", "tmp_1"))
    rules.pin("finance", "tmp_1")
    assert rules.pinned("finance", "tmp_1")
    assert not rules.banned(table_key("finance", "tmp_1"))
    rules.unpin("finance", "tmp_1")
    assert rules.banned(table_key("finance", "tmp_1"))
    assert not rules.pinned("finance", "tmp_1")
    rules.unpin("finance", "orders")
    assert not rules.pinned("finance", "orders")
    assert not rules.banned(table_key("finance", "orders"))
    rules.pin("finance", "orders")
    assert rules.pinned("finance", "orders")


def test_pins_by_name_alone_are_pins_until_the_last_is_gone() -> None:
    rules = PinRules()
    rules.pin("a", "b")
    assert rules.has_pins
    rules.unpin("a", "b")
    assert not rules.has_pins


def test_verdicts_are_right_beyond_those_that_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 10)
    rules = PinRules(never=("tmp.*",))
    for number in range(100):
        assert rules.banned(table_key("tmp", f"t{number}"))
        assert not rules.banned(table_key("sales", f"t{number}"))


def test_patterns_are_read_from_a_list_in_any_case() -> None:
    assert parse_patterns(" Finance.* ,sales.orders", setting="always") == (
        "finance.*",
        "sales.orders",
    )
    assert parse_patterns("", setting="always") == ()
    assert parse_patterns("*.*", setting="always") == ("*.*",)


@pytest.mark.parametrize("text", ["finance", "a.b,", ".b", "a.", "a b.c", "a.b\n.c", ",a.b"])
def test_malformed_pattern_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="always"):
        parse_patterns(text, setting="always")


def test_too_many_patterns_are_refused() -> None:
    text = ",".join(f"a.b{number}" for number in range(PATTERNS_MAX + 1))
    with pytest.raises(ConfigError, match="at most"):
        parse_patterns(text, setting="never")


def test_banned_table_is_pulled_for_each_read_and_never_kept() -> None:
    shopping = Shopping(late=True, automatic=True, budget_bytes=5_000, never=("shop.orders",))
    for _ in range(3):
        assert shopping.columns("shop.orders") == ("id",)
        assert shopping.memory("shop.orders") is None
    assert len(shopping.pulls()) == 3
    shopping.pass_time(2)
    assert shopping.topics()[shopping.topic("shop.orders")].level == "none"
    assert len(shopping.reader.member.placement.usage) == 0
    shopping.columns("shop.items")
    shopping.pass_time(0.1)
    assert shopping.memory("shop.items") == ("id",)


@pytest.mark.parametrize("level", ["minimal", "full"])
def test_banned_table_is_not_held_at_any_level(level: str) -> None:
    shopping = Shopping(late=True, never=("shop.sales",))
    shopping.join("shop.sales", level=level)
    assert len(shopping.partitions("shop.sales")) == 100
    assert shopping.memory_of_partitions("shop.sales") is None
    held = shopping.cluster.catalogd.published.topics[shopping.topic("shop.sales")].held_bytes
    assert shopping.topics()[shopping.topic("shop.sales")].bytes < held
    shopping.shop.add("shop.sales", {"ds=200": {"n": "x"}})
    shopping.settle()
    assert shopping.memory_of_partitions("shop.sales") is None
    assert len(shopping.pulls()) == 1
