"""Targets: what is asked for alike is pulled once, and what no message holds brings all blocks."""

import pytest

from topicast.subscriber.fetch.targets import (
    NAMES_BYTES_MAX,
    Target,
    cover_of,
    cover_of_target,
    selection,
    target_of,
)
from topicast.subscriber.protocol import facts
from topicast.topics.wire.fields import TEXT_MAX
from topicast.topics.wire.messages import (
    SELECT_BLOCKS,
    SELECT_FILTER,
    SELECT_NAMES,
    SELECT_TABLE,
    SELECT_VALUES,
)

MANY = tuple(f"ds={number:05d}" for number in range(NAMES_BYTES_MAX // 10))


def test_table_alone_is_its_own_entry() -> None:
    ask = facts.AskTable(id=1, db="d", table="t", whole=False, give_up_at=1.0)
    assert target_of(ask) == Target("d", "t", SELECT_TABLE)


@pytest.mark.parametrize("names_only", [False, True])
def test_selection_is_pulled_as_it_is_asked_for(*, names_only: bool) -> None:
    everything = target_of(selection("d", "t", None, names_only=names_only))
    assert everything == Target("d", "t", SELECT_BLOCKS, names_only=names_only)
    some = target_of(selection("d", "t", "ds = '1'", names_only=names_only))
    assert some == Target("d", "t", SELECT_FILTER, filter="ds = '1'", names_only=names_only)


def test_same_names_are_the_same_target_in_any_order() -> None:
    one, other = (selection("d", "t", None, names=names) for names in (("b", "a", "b"), ("a", "b")))
    assert target_of(one) == target_of(other) == Target("d", "t", SELECT_NAMES, names=("a", "b"))
    assert cover_of(None, one.names) == cover_of(None, other.names)


@pytest.mark.parametrize(
    "ask",
    [
        selection("d", "t", "x" * (TEXT_MAX + 1)),
        selection("d", "t", "x" * (TEXT_MAX + 1), names_only=True),
        selection("d", "t", None, names=MANY),
        selection("d", "t", None, names=("x" * (TEXT_MAX + 1),)),
        selection("d", "t", None, values=("x" * (TEXT_MAX + 1),)),
    ],
    ids=["filter", "names by filter", "names", "name", "value"],
)
def test_what_is_too_long_for_a_message_brings_all_blocks(ask: facts.AskTable) -> None:
    """P-LIM-6."""
    assert target_of(ask) == Target("d", "t", SELECT_BLOCKS)


@pytest.mark.parametrize("names_only", [False, True])
def test_values_are_pulled_by_their_selector(*, names_only: bool) -> None:
    ask = selection("d", "t", None, values=("1", "", "2"), names_only=names_only)
    target = Target("d", "t", SELECT_VALUES, values=("1", "", "2"), names_only=names_only)
    assert target_of(ask) == target
    assert cover_of_target(target) == cover_of(None, None, ask.values)
    assert cover_of_target(target) != cover_of_target(target._replace(values=("1", "2")))


def test_no_filter_is_remembered_as_names_are() -> None:
    assert cover_of(None, None) is None
    assert cover_of("a", None) == "a"
    every = [cover_of("a", None), cover_of(None, ("a",)), cover_of(None, ())]
    assert len({*every, cover_of(None, None, ("a",)), cover_of(None, None, ("", "a"))}) == 5
