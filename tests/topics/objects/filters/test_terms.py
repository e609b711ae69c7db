"""A filter has one form in messages, whatever it was written in; no other form is read."""

from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.tests.strategies import filters
from topicast.topics.errors import UsageError, WireError
from topicast.topics.objects.filters.terms import ITEMS_MAX, TERMS_MAX
from topicast.topics.objects.filters.tokens import DEPTH_MAX
from topicast.topics.objects.names import NULL_PARTITION, partition_name
from topicast.topics.objects.selector import (
    SELECTOR_BYTES_MAX,
    Selector,
    by_filter,
    by_sql,
    selector_of,
)
from topicast.topics.objects.tables import Column

KIND = 2


def received(selector: Selector) -> Selector:
    """Return what a message brings of ``selector``."""
    return selector_of(msgpack.unpackb(msgpack.packb(selector.form), use_list=False))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (by_sql("a = 1 and b = 2"), by_sql("B = 2 AND A = 1")),
        (by_sql("a = 1 or (b = 2 or c = 3)"), by_sql("(c = 3 or a = 1) or b = 2")),
        (by_sql("a in (2, 1, 2)"), by_sql("a in (1, 2)")),
        (by_sql("a = 1 and (a = 1)"), by_sql("a = 1")),
        (
            by_sql("(a = 1 or b = 2) and (b = 2 or a = 1) or c = 3"),
            by_sql("c = 3 or b = 2 or a = 1"),
        ),
        (by_sql("a between 1 and 2"), by_sql("a <= 2 and a >= 1")),
        (by_sql("not (a = 1 or b in (2, 3))"), by_sql("a <> 1 and b not in (3, 2)")),
        (by_sql("3 < a"), by_sql("a > 3")),
        (by_filter("ds >= '2026-11-01' and hour = 3"), by_sql("hour = 3 and ds >= '2026-11-01'")),
        (by_filter("s like 'a.*b.'"), by_sql("s like 'a%b_'")),
        (by_filter("a <> 1"), by_sql("a != 1")),
        (by_filter("(n) not in (1, 2)"), by_sql("not n in (2, 1)")),
        (by_filter("d = 2026-11-01"), by_sql("d = '2026-11-01'")),
    ],
)
def test_what_says_the_same_is_equal_and_has_the_same_form(one: Selector, other: Selector) -> None:
    assert (one, hash(one), one.form) == (other, hash(other), other.form)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1", "a = '1'"),
        ("a = 1", "a = true"),
        ("a = 1", "a in (1)"),  # of a list Spark may compare otherwise
        ("a = 1.0", "a = 1e0"),
        ("a = 1 and b = 2", "a = 1 or b = 2"),
        ("s like 'a_%'", "s like 'a%_'"),
        ("s like '%'", "s like '_'"),
        ("s is null", "s is not null"),
        ("lower(s) = 'a'", "upper(s) = 'a'"),
        ("a in (1, null)", "a in (1)"),
    ],
)
def test_what_may_differ_is_not_equal(one: str, other: str) -> None:
    assert by_sql(one) != by_sql(other)
    assert msgpack.packb(by_sql(one).form) != msgpack.packb(by_sql(other).form)


@given(filters)
def test_every_filter_survives_the_wire(text: str) -> None:
    selector = by_sql(text)
    assert selector.is_sendable
    assert received(selector) == selector
    assert received(selector).form == selector.form


N = ["=", "n", 1]
HOSTILE: list[tuple[Any, str]] = [
    (None, "begins with its operator"),
    ([], "begins with its operator"),
    (["xor", [N, N]], "begins with its operator"),
    (["=", "n"], "begins with its operator"),
    (["=", "n", 1, 2], "begins with its operator"),
    ([b"=", "n", 1], "begins with its operator"),
    (["null", "n", 1], "begins with its operator"),
    (["in", "n", 1], "begins with its operator"),
    (["like", "n", "a%"], "begins with its operator"),
    (["like", "n", []], "begins with its operator"),
    (["like", "n", [[]]], "pieces of texts"),
    (["like", "n", [["a", 1]]], "pieces of texts"),
    (["=", "N", 1], "a column in lower case"),
    (["=", "", 1], "a column in lower case"),
    (["=", 7, 1], "a column in lower case"),
    (["=", ["n"], 1], "a column in lower case"),
    (["=", ["n", "sleep"], 1], "lower, upper, cast or try_cast"),
    (["=", ["n", 1], 1], "lower, upper, cast or try_cast"),
    (["=", "n", None], "a literal expected beside ="),
    (["=", "n", b"x"], "a literal of a known type"),
    (["=", "n", [1]], "a literal of a known type"),
    (["=", "n", float("nan")], "a literal of a known type"),
    (["=", "n", float("inf")], "a literal of a known type"),
    (["=", "n", ["date", "2026-13-01"]], "a literal of a known type"),
    (["=", "n", ["date", "2026-1-1"]], "a literal of a known type"),
    (["=", "n", ["timestamp", "2026-11-01"]], "a literal of a known type"),
    (["=", "n", ["decimal", "1e999999999"]], "a literal of a known type"),
    (["=", "n", ["decimal", "NaN"]], "a literal of a known type"),
    (["=", "n", ["decimal", "01.5"]], "a literal of a known type"),
    (["=", "n", ["int", "7"]], "a literal of a known type"),
    (["=", "n", ["int", "9" * 39]], "a literal of a known type"),
    (["=", "n", ["regex", ".*"]], "a literal of a known type"),
    (["in", "n", []], "may be in a list"),
    (["in", "n", [None]], "may be in a list"),
    (["not in", "n", [1, None]], "may be not in a list"),
    (["in", "n", [2, 1]], "normal form"),
    (["in", "n", [1, 1]], "normal form"),
    (["and", [N]], "not a single one"),
    (["and", [["and", [N, ["=", "n", 2]]], N]], "not of the same kind"),
    (["or", [["=", "n", 2], N]], "normal form"),
    (["or", [N, N]], "normal form"),
    (["or", [["=", "n", at] for at in range(TERMS_MAX)]], f"at most {TERMS_MAX} terms"),
    (["=", ["n", *["lower"] * TERMS_MAX], 1], f"at most {TERMS_MAX} terms"),
    (["like", "n", [["x"]] * TERMS_MAX], f"at most {TERMS_MAX} terms"),
    (["in", "n", list(range(ITEMS_MAX + 1))], f"{ITEMS_MAX} literals"),
    (["=", "n", "x" * 4097], "4096 characters"),
    (["=", "n" * 4097, 1], "4096 characters"),
    (["like", "n", [["x" * 4097]]], "4096 characters"),
    (["in", "n", [f"{at:03000}" for at in range(100)]], f"{SELECTOR_BYTES_MAX} bytes"),
]


@pytest.mark.parametrize(("form", "expected"), HOSTILE)
def test_what_no_filter_becomes_is_refused_with_what_was_expected(form: Any, expected: str) -> None:
    """P-PULL-20."""
    packed = msgpack.packb([KIND, form])
    with pytest.raises(WireError, match=expected):
        selector_of(msgpack.unpackb(packed, use_list=False))


def nested(depth: int) -> Any:
    """Return a term that is ``depth`` terms deep."""
    form: Any = N
    for at in range(depth - 1):
        form = ["or" if at % 2 else "and", [["=", "a", at], form]]
        form[1].sort(key=msgpack.packb)
    return form


def test_depth_of_a_filter_is_bounded() -> None:
    """P-PULL-20."""
    deepest = msgpack.unpackb(msgpack.packb([KIND, nested(DEPTH_MAX)]), use_list=False)
    assert selector_of(deepest).form == deepest
    for depth in (DEPTH_MAX + 1, 400):
        packed = msgpack.packb([KIND, nested(depth)])
        with pytest.raises(WireError, match="nests at most"):
            selector_of(msgpack.unpackb(packed, use_list=False))


def test_filter_that_nests_too_deep_for_a_message_is_refused_where_it_is_read() -> None:
    text = "n = 0"
    for at in range(1, DEPTH_MAX + 1):
        text = f"({text}) {'or' if at % 2 else 'and'} n = {at}"
    with pytest.raises(UsageError, match="deeper"):
        by_sql(text)


noise = st.recursive(
    st.sampled_from(["and", "or", "=", "in", "like", "null", "n", "date", "2026-11-01", ""])
    | st.none()
    | st.booleans()
    | st.integers(-2, (1 << 64) - 1)  # MessagePack has none beyond
    | st.floats()
    | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=12,
)


@given(st.tuples(st.integers(-1, 6), noise) | noise)
def test_any_form_is_a_selector_or_refused(form: object) -> None:
    """P-PULL-20."""
    try:
        selector = selector_of(form)
    except WireError:
        return
    assert selector.is_sendable
    assert received(selector) == selector


@given(filters, st.data())
def test_mutated_form_is_a_selector_or_refused(text: str, data: st.DataObject) -> None:
    """P-PULL-20."""
    packed = bytearray(msgpack.packb(by_sql(text).form))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        form = msgpack.unpackb(bytes(packed), use_list=False, max_map_len=0, max_ext_len=0)
    except (ValueError, TypeError, msgpack.UnpackException):
        return
    try:
        selector = selector_of(form)
    except WireError:
        return
    assert received(selector) == selector


COLUMNS = [
    Column("n", kind)
    for kind in (
        "string",
        "char(3)",
        "int",
        "decimal(5,2)",
        "double",
        "boolean",
        "date",
        "timestamp",
    )
]
VALUES = ("", "a", "7", "1.5", "true", "2026-11-01", "2026-11-01 12:00:00", NULL_PARTITION)


@given(st.tuples(st.just(KIND), noise) | filters.map(lambda text: by_sql(text).form))
def test_selector_of_a_message_decides_on_every_value_or_is_refused(form: object) -> None:
    """P-PULL-7."""
    try:
        selector = selector_of(form)
    except WireError:
        return
    for column in COLUMNS:
        columns = [replace(column, name=name) for name in ("n", "a", "b", "a b")]
        try:
            matches, ranges = selector.matches(columns), selector.ranges(columns)
        except UsageError:
            continue
        names = [partition_name([one.name for one in columns], [value] * 4) for value in VALUES]
        assert matches is not None
        for name in filter(matches, names):
            assert ranges is None or any(low <= name < high for low, high in ranges)
