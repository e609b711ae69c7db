"""Uses: a subscriber tells catalogd which tables it has used, so that they stay loaded."""

from dataclasses import replace

import pytest

from topicast.catalog.content.unloading import UnloadSettings
from topicast.subscriber.placement.uses import PERIOD_S, Uses
from topicast.tests.cluster.catalogd import SETTINGS
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.wire.messages.catalog import USED_MAX, Used

TIMEOUT_S = 90.0  # longer than PERIOD_S
UNLOADING = replace(SETTINGS, unload=UnloadSettings(timeout_s=TIMEOUT_S))


def test_tables_of_a_minute_go_out_in_one_message() -> None:
    """P-USED-1."""
    uses = Uses(list)
    assert uses.due(now=0.0) is None
    uses.note([("d", "a"), ("d", "b"), ("d", "a")])
    assert uses.due(now=PERIOD_S - 1) is None
    assert uses.due(now=PERIOD_S) == Used(tables=(("d", "a"), ("d", "b")))
    assert uses.due(now=2 * PERIOD_S) is None, "nothing was used since"


def test_message_names_no_more_tables_than_it_may_and_pinned_tables_among_them() -> None:
    """P-USED-1."""
    uses = Uses(lambda: [("d", "pinned")])
    uses.due(now=0.0)
    assert uses.due(now=PERIOD_S) == Used(tables=(("d", "pinned"),))
    uses.note(("d", f"t{number}") for number in range(2 * USED_MAX))
    found = uses.due(now=2 * PERIOD_S)
    assert found is not None
    assert len(found.tables) == USED_MAX


@pytest.mark.parametrize("automatic", [True, False])
def test_table_that_is_answered_from_memory_stays_loaded_and_others_do_not(
    automatic: bool,
) -> None:
    """P-USED-1, P-USED-2."""
    shopping = Shopping(settings=UNLOADING, automatic=automatic)
    shopping.join("shop.orders", "shop.people", "shop.items")
    tables = shopping.cluster.catalogd.catalog.tables  # type: ignore[union-attr]
    shopping.settle()
    pulled = len(shopping.pulls("shop.orders"))
    for _ in range(4):
        shopping.pass_time(TIMEOUT_S / 2)
        assert shopping.columns("shop.orders") == ("id",)
    assert len(shopping.pulls("shop.orders")) == pulled, "it was answered from memory"
    assert tables.loaded(("shop", "orders"))
    assert not tables.loaded(("shop", "people"))
    assert shopping.memory("shop.people") is None, "a stub took its place"
    assert shopping.columns("shop.people") == ("id",)
    assert tables.loaded(("shop", "people"))


def test_pinned_table_stays_loaded_though_nobody_reads_it() -> None:
    """P-USED-1."""
    shopping = Shopping(settings=UNLOADING, always=("shop.orders",))
    shopping.pass_time(3 * TIMEOUT_S)
    tables = shopping.cluster.catalogd.catalog.tables  # type: ignore[union-attr]
    assert tables.loaded(("shop", "orders"))
    assert not tables.loaded(("shop", "people"))
    assert len(shopping.pulls("shop.orders")) <= 1


def test_watch_reports_no_unloading_but_each_change_of_an_unloaded_table() -> None:
    shopping = Shopping(settings=UNLOADING)
    shopping.columns("shop.orders")
    shopping.watch()
    shopping.pass_time(2 * TIMEOUT_S)
    assert shopping.take_changes() == []
    shopping.shop.remark("shop.orders", {"k": "new"})
    shopping.settle()
    assert [change[0] for change in shopping.take_changes()] == ["shop.orders"]
    assert shopping.table("shop.orders").parameters["k"] == "new"
