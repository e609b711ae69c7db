"""Whatever an application passes: a UsageError that names it, and the subscriber serves on."""

import inspect
import string
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topicast.cli.client.operator import Operator, readers_of
from topicast.subscriber import Subscriber
from topicast.tests.cluster.served import served
from topicast.tests.waiting import until
from topicast.topics.errors import ConfigError, OverBudget, TopicastError, UsageError
from topicast.topics.settings import parse_addresses
from topicast.topics.topic import NAMESPACE, Version
from topicast.topics.wire.messages.questions import ReadUsage

TIMEOUT_S = 20
HUGE = 10**400
HALF = "\ud800"  # which no message can carry
METASTORE = "thrift://127.0.0.1:9083"  # which catalogd follows, if nobody says which
SELF_MANAGED = {"open", "close", "in_front_of"}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subscriber]:
    with (
        served(tmp_path_factory.mktemp("state")) as running,
        Subscriber(running.address, timeout_s=TIMEOUT_S, metastore=METASTORE) as found,
    ):
        yield found
        drained(found, running.address)


def drained(catalog: Subscriber, statestores: str) -> None:
    """Wait until the engine's thread has counted all reads that were noted: it may fail at them."""
    catalog.note_reads("shop.items")
    with Operator(parse_addresses(statestores), timeout_s=TIMEOUT_S) as visit:
        (reader,) = (one["registration"] for one in readers_of(visit))
        question = ReadUsage(member=bytes.fromhex(reader))

        def counted() -> bool:
            uses = visit.hub(question).rows
            return any(use.table == "shop.items" for use in uses)

        until(lambda: counted() or catalog.stats().engine_restarts > 0, what="the noted reads")
    serves(catalog)


def serves(catalog: Subscriber) -> None:
    assert catalog.table("shop.orders").name == "orders"
    assert catalog.stats().engine_restarts == 0


texts = st.text(max_size=20) | st.text(
    st.sampled_from([*string.ascii_lowercase[:3], ".", "=", "/", "*", "[", "'", "\0", HALF]),
    max_size=8,
)
numbers = st.sampled_from([-1, 0, 3, 2**63, 2**64, -(2**64), HUGE, -HUGE]) | st.integers()
floats = st.sampled_from([float("nan"), float("inf"), -1.0, 0.0, 1e300])
known = st.sampled_from(
    ["shop.orders", "shop.sales", "shop", "SHOP.Sales", "ds=001", "ds = '001'", "full", "none"]
)
tables = st.sampled_from(["shop.orders", "shop.sales"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    numbers,
    floats,
    texts,
    known,
    st.sampled_from(["x" * 5000, "a." + "b" * 2000, f"a.{HALF}", f"{HALF}.b", "/w/" + "p" * 5000]),
    st.binary(max_size=5),
    st.builds(Version, numbers, numbers | texts),
    st.just(object()),
)
nonsense = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(scalars.filter(lambda one: one == one), inner, max_size=3),
        st.lists(inner, max_size=3).map(iter),
    ),
    max_leaves=6,
)


def call(method: Callable[..., object], data: st.DataObject) -> object:
    """Call ``method`` with nonsense for each of its arguments, or for some of them.

    Half of those that it needs are tables, so that the others are looked at.
    """
    positional, named = [], {}
    for one in inspect.signature(method).parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            positional += data.draw(st.lists(nonsense, max_size=3), label=one.name)
        elif one.kind is one.KEYWORD_ONLY or one.default is not one.empty:
            if data.draw(st.booleans()):
                named[one.name] = data.draw(nonsense, label=one.name)
        else:
            is_right = data.draw(st.booleans())
            named[one.name] = data.draw(tables if is_right else nonsense, label=one.name)
    if positional:
        named = {}
    with suppress(TopicastError):
        return method(*positional, **named)
    return None


PUBLIC = sorted(
    name
    for name, _ in inspect.getmembers(Subscriber, inspect.isfunction)
    if not name.startswith("_") and name not in SELF_MANAGED
)


@pytest.mark.parametrize("name", PUBLIC)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nonsense_is_refused_and_a_table_is_answered(
    catalog: Subscriber, name: str, data: st.DataObject
) -> None:
    found: Any = call(getattr(catalog, name), data)
    if name == "watch" and found is not None:
        found.close()
        call(found.next_within, data)
        call(found.all_within, data)
    elif name == "read_view" and found is not None:
        call(found.table, data)
        call(found.partitions, data)
    elif name == "write_intent" and found is not None:
        found.partitions = data.draw(nonsense)
        call(found.end, data)
        call(found.wait, data)
    serves(catalog)


@given(data=st.data())
def test_nonsense_for_a_new_subscriber_is_refused(data: st.DataObject) -> None:
    with suppress(ConfigError):
        call(Subscriber, data)


def test_reports_that_were_taken_are_acknowledged(catalog: Subscriber) -> None:
    """Given as many partitions as no message holds, and writes that no report holds together."""
    names = [f"ds={number:09}" for number in range(100_000)]
    for _ in range(3):
        catalog.report_write("shop.sales", names)
        catalog.report_write("/w/" + "é" * 4000, [f"ds={'é' * 4000}"] * 20)
    assert catalog.flush(TIMEOUT_S)
    assert catalog.stats().writes_acknowledged >= 3
    serves(catalog)


def test_many_claims_are_validated_in_messages_that_hold_them(catalog: Subscriber) -> None:
    version = catalog.table("shop.orders").version
    claims = [(f"shop.{'n' * 90}{number}", version) for number in range(30_000)]
    stale = catalog.validate([*claims, ("shop.orders", version)])
    assert len(stale) == 30_000
    assert "shop.orders" not in stale


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("table", (None,), "name is None: it has to be a table's name, as db.table"),
        ("table", ("orders",), "'orders' is not a table's name"),
        ("table", (f"shop.{HALF}",), "name is .* valid Unicode"),
        ("table", ("shop." + "x" * 5000,), "name has 5005 characters"),
        ("tables", (7,), "db is of type int: it has to be a database's name"),
        ("join", ("orders",), "'orders' is not a table's name"),
        ("join", (99,), "no topic 99"),
        ("join", (True,), "topics is True"),
        ("join", (1, "half"), "level 'half': none, minimal, full"),
        ("join", (count(),), "topics has too many items"),
        ("drop", (1.5,), "topics is 1.5"),
        ("drop", (NAMESPACE,), "the namespace is always joined"),
        ("topics", (-1,), "no topic -1: there are 0 to 3"),
        ("partitions", ("shop.sales", 5), "filter is of type int: it has to be a text"),
        ("partitions", ("shop.sales", f"ds = '{HALF}'"), "filter is .* valid Unicode"),
        ("sync", (float("nan"),), "timeout_s is nan: it has to be a number of seconds from 0"),
        ("flush", (HUGE,), "timeout_s is of type int"),
        ("watch", (3,), "pattern is of type int"),
        ("report_write", ("shop.sales", "ds=1"), "partitions is 'ds=1': it has to be several"),
        ("report_write", ("shop.sales", [5]), "an item of partitions is of type int"),
        ("report_write", (f"/w/{HALF}",), "wanted is .* valid Unicode"),
        ("validate", ([("shop.sales", -1)],), "a version in known is not one"),
        ("validate", ([("shop.sales",)],), "a pair of a table's name and a version"),
        ("read_view", (), "a read view of 0 tables"),
        ("pin", (b"shop.sales",), "name is b'shop.sales'"),
    ],
)
def test_error_names_the_argument_and_what_is_right(
    catalog: Subscriber, name: str, arguments: tuple[object, ...], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        getattr(catalog, name)(*arguments)
    assert not isinstance(caught.value, OverBudget)
    serves(catalog)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (5, "values is of type int"),
        ([None], 'an item of values is None: .* "" is any'),
        ([HALF], "valid Unicode"),
        ({5: "x"}, "a column in values is of type int"),
        ([HUGE * HUGE**20], "too many digits"),
    ],
)
def test_values_that_no_column_has_are_refused(
    catalog: Subscriber, values: object, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        catalog.partitions("shop.sales", values=values)  # type: ignore[arg-type]  # as intended
    serves(catalog)


@pytest.mark.parametrize("whole", [{}, [], 1, None])
def test_reads_are_noted_as_whole_or_not_and_as_nothing_else(
    catalog: Subscriber, whole: object
) -> None:
    """The engine's thread counts them: what it cannot count would end it."""
    with pytest.raises(UsageError, match=r"whole is .*: it has to be True or False"):
        catalog.note_reads("shop.sales", whole=whole)  # type: ignore[arg-type]  # as intended
    serves(catalog)


def test_values_may_be_of_any_type_that_a_column_has(catalog: Subscriber) -> None:
    for value in ("001", 1, 1.5, date(2026, 11, 3)):
        found = catalog.partition_names("shop.sales", values=[value])
        assert found == (("ds=001",) if value == "001" else ())


def test_topics_are_meant_by_a_table_of_theirs(catalog: Subscriber) -> None:
    number = catalog.topic_of("Shop.Orders")
    catalog.join("shop.orders", "minimal")
    assert [(one.id, one.level) for one in catalog.topics("shop.orders")] == [(number, "minimal")]
    catalog.join(["shop.orders", number, "shop.sales"])
    assert {one.level for one in catalog.topics("shop.sales", number)} == {"full"}
    catalog.drop("shop.orders")
    assert catalog.topics(number)[0].level == "none"
    assert len(catalog.topics()) == 5
