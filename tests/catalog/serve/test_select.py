"""Selections: every partition that is selected comes, whatever the bounds of its block."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topicast.catalog.serve.pull_server import Selection, select
from topicast.tests.catalog.holding import Holding, T, struct
from topicast.tests.cluster.fake_metastore import make_partition, make_table, thrift_bytes
from topicast.topics.errors import UsageError
from topicast.topics.objects.names import block_key, partition_name, partition_values, table_key
from topicast.topics.objects.selector import (
    ALL,
    TABLE_ONLY,
    Selector,
    SelectorKind,
    by_filter,
    by_names,
    by_values,
    selector_of,
)
from topicast.topics.objects.tables import Column
from topicast.topics.wire.messages.catalog import (
    Pull,
)

KEYS = ("ds", "hour")
COLUMNS = tuple(Column(key, "string", "") for key in KEYS)
DAYS = ("", "2026-11-01", "2026-11-02", "a/b", "a=b", "a", "z%")
HOURS = tuple(f"{hour:02d}" for hour in range(24))
NAMES = tuple(sorted(partition_name(KEYS, values) for values in product(DAYS, HOURS)))
NONE = "ds=never/hour=00"


def held(*values: tuple[str, str]) -> Holding:
    """Return a holding of ``d.t`` with these partitions."""
    made = make_table(*T, location="file:/w/d/t", keys=KEYS)
    parts = {partition_name(KEYS, v): thrift_bytes(make_partition(made, v)) for v in values}
    holding = Holding()
    holding.whole(struct(T, *KEYS), parts)
    return holding


HOLDING = held(*product(DAYS, HOURS))


def pull(selector: Selector, **fields: object) -> Pull:
    return Pull(request=1, db="d", table="t", selector=selector, credit=1, **fields)


def sent(selection: Selection) -> tuple[bytes, ...]:
    return tuple(entry.key for entry in selection.entries if selection.needs(entry))


def names(selection: Selection) -> list[str]:
    """Return the names that are selected, of what is sent."""
    blocks = (entry for entry in selection.entries if entry.key != table_key(*T))
    return [name for entry in blocks for name in selection.names_in(entry)]


def selected(selector: Selector, **fields: object) -> list[str]:
    """Return the names in the answer; as blocks and as names alone they are the same."""
    asked = pull(selector, **fields)
    found = names(select(HOLDING.tables, asked))
    assert found == names(select(HOLDING.tables, pull(selector, names_only=True, **fields)))
    return found


def test_table_alone_is_one_entry_and_everything_is_all_of_them() -> None:
    assert sent(select(HOLDING.tables, pull(TABLE_ONLY))) == (table_key(*T),)
    assert tuple(selected(ALL)) == NAMES


def test_names_alone_bring_no_table() -> None:
    """P-PULL-8."""
    found = select(HOLDING.tables, pull(ALL, names_only=True))
    assert table_key(*T) not in sent(found)


@given(st.sets(st.sampled_from((*NAMES, NONE, "", "zzz")), max_size=5))
def test_named_partitions_come_in_the_blocks_in_which_they_stand(wanted: set[str]) -> None:
    """P-PULL-7."""
    named = selector_of((int(SelectorKind.NAMES), tuple(sorted(wanted))))
    found = select(HOLDING.tables, pull(named))
    assert names(found) == sorted(wanted.intersection(NAMES))
    assert len(sent(found)) <= 1 + len(wanted)


@given(st.sampled_from(("", *DAYS, "__HIVE_DEFAULT_PARTITION__", "2026")), st.integers(0, 2))
def test_values_select_those_that_have_them(day: str, count: int) -> None:
    """P-PULL-7: an empty value stands for any, and so does a last value that is left out."""
    values = (day, "07")[:count]
    expected = [
        name
        for name in NAMES
        if all(not v or v == f for v, f in zip(values, partition_values(name), strict=False))
    ]
    assert selected(by_values(values)) == expected


def test_first_values_reach_few_blocks() -> None:
    few = sent(select(HOLDING.tables, pull(by_values(("2026-11-01", "")))))
    assert len(few) <= 4
    one = sent(select(HOLDING.tables, pull(by_values(("2026-11-01", "07")))))
    assert len(one) == 2


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(KEYS),
            st.sampled_from(("=", "<", ">=", "!=", "like")),
            st.sampled_from(("2026-11-01", "a/b", "07", "zz")),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from((" and ", " or ")),
)
def test_filter_selects_what_it_selects_one_by_one(
    terms: list[tuple[str, str, str]], glue: str
) -> None:
    """P-PULL-7."""
    text = glue.join(f'{column} {sign} "{literal}"' for column, sign, literal in terms)
    matches = by_filter(text).matches(COLUMNS)
    assert matches is not None
    expected = [name for name in NAMES if matches(name)]
    assert selected(by_filter(text)) == expected


@pytest.mark.parametrize(
    "asked",
    [
        pull(by_filter("other = 1")),
        pull(by_values(("a", "b", "c"))),
    ],
    ids=["filter", "values"],
)
def test_what_is_no_selection_is_refused(asked: Pull) -> None:
    """P-PULL-7."""
    with pytest.raises(UsageError):
        select(HOLDING.tables, asked)


def test_selection_of_a_table_without_partitions_is_the_table() -> None:
    holding = Holding()
    holding.whole(struct(T), {})
    for asked in (pull(ALL), pull(by_names((NONE,)))):
        assert sent(select(holding.tables, asked)) == (table_key(*T),)
    with pytest.raises(UsageError):
        select(holding.tables, pull(by_values(("x",))))


def test_what_is_held_and_current_is_left_out_whether_it_is_selected_or_not() -> None:
    """P-PULL-2."""
    every = select(HOLDING.tables, pull(ALL)).entries
    have = tuple((entry.key, entry.version) for entry in every)
    lost = (block_key(*T, "ds=00"), 1)
    found = select(HOLDING.tables, pull(by_names(NAMES[:1]), held=(*have, lost)))
    assert (found.entries, found.gone) == ([], (lost[0],))
    old = tuple((key, version - 1) for key, version in have)
    found = select(HOLDING.tables, pull(by_names(NAMES[:1]), held=old))
    assert {*sent(found), *found.gone} == {key for key, _ in have}
    assert len(sent(found)) == 2


def test_page_begins_at_its_cursor_and_tells_of_nothing_that_is_gone() -> None:
    """P-PULL-9."""
    every = select(HOLDING.tables, pull(ALL))
    cursor = every.entries[3].key
    lost = ((block_key(*T, "ds=00"), 1),)
    page = select(HOLDING.tables, pull(ALL, after=cursor, held=lost))
    assert (page.entries, page.gone) == (every.entries[3:], ())
