"""The selector of a Pull, as it is sent and as it is read; what no message holds selects all."""

import pytest

from topicast.topics.errors import UsageError
from topicast.topics.objects.selector import (
    ALL,
    TABLE_ONLY,
    Selector,
    SelectorKind,
    by_filter,
    by_names,
    by_values,
)
from topicast.topics.wire.fields import TEXT_MAX
from topicast.topics.wire.messages import Pull
from topicast.topics.wire.selector import NAMES_BYTES_MAX, selector_of, sendable

LONG = "x" * (TEXT_MAX + 1)


@pytest.mark.parametrize(
    "selector",
    [TABLE_ONLY, ALL, by_filter("ds = '1'"), by_names(("ds=2", "ds=1")), by_values(("1", "", "2"))],
    ids=lambda selector: selector.kind.name,
)
def test_selector_of_a_pull_is_the_one_that_was_sent(selector: Selector) -> None:
    assert sendable(selector) is selector
    pull = Pull(
        request=1,
        db="d",
        table="t",
        selector=int(selector.kind),
        credit=1,
        filter=selector.filter,
        names=selector.names,
        values=selector.values,
    )
    assert selector_of(pull) == selector


@pytest.mark.parametrize(
    "selector",
    [
        by_filter(f"ds = '{LONG}'"),
        by_names(tuple(f"ds={number:05d}" for number in range(NAMES_BYTES_MAX // 10))),
        by_names((f"ds={LONG}",)),
        by_values((LONG,)),
    ],
    ids=["filter", "names", "name", "value"],
)
def test_what_is_too_long_for_a_message_brings_all_blocks(selector: Selector) -> None:
    """P-LIM-6."""
    assert sendable(selector) is ALL


@pytest.mark.parametrize("selector", [5, 99, SelectorKind.FILTER])
def test_pull_that_selects_nothing_known_is_refused(selector: int) -> None:
    pull = Pull(request=1, db="d", table="t", selector=selector, credit=1, filter="nonsense")
    with pytest.raises(UsageError):
        selector_of(pull)
