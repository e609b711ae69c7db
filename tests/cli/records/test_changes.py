"""What has changed and by whom, as pure functions over the rows that catalogd answers."""

from typing import Any

import pytest

from topicast.cli.records.changes import (
    HISTORY,
    LOG,
    about,
    by,
    joined,
    once,
    records_of,
    shown,
    since,
    utc,
)
from topicast.cli.terminal.lists import listed
from topicast.topics.errors import UsageError
from topicast.topics.topic import NAMESPACE

NOW = 1_795_683_600.0  # 2026-11-26T09:00:00Z
AT_US = 1_795_683_480_000_000
WRITER = "ab" * 16
DRIVERS = ({"writer": WRITER, "application": "nightly-etl", "user": "ann"}, {"writer": ""})


def line(**more: Any) -> dict[str, Any]:
    made = {
        "time_us": AT_US,
        "source": "events",
        "topic": 17,
        "object": "shop.orders",
        "change": "data",
        "version_before": 4,
        "version_after": 5,
        "event_before": 61,
        "event_after": 62,
        "who": None,
        "driver": None,
    }
    return made | more


@pytest.mark.parametrize(
    ("more", "caused_by"),
    [
        ({}, "event 62"),
        ({"event_after": 70}, "events 62-70"),
        ({"event_after": 61}, "events"),
        ({"event_before": None}, "events"),
        ({"event_after": 61, "change": "loaded"}, "first read"),
        ({"change": "loaded"}, "event 62"),
        ({"source": "reports", "driver": WRITER}, "driver nightly-etl (ann)"),
        ({"source": "reports", "driver": "cd" * 16}, "driver cdcdcdcd"),
        ({"source": "reports"}, "driver unknown"),
        ({"source": "load"}, "first read"),
        ({"source": "catch-up"}, "a hub's catch-up"),
        ({"source": "reconciliation"}, "no event: it differed from the metastore"),
        ({"source": "orders"}, "an order"),
        ({"source": "orders", "who": "ops (ann@a)", "change": "mode"}, "ops (ann@a)"),
    ],
)
def test_each_change_says_who_caused_it(more: dict[str, Any], caused_by: str) -> None:
    (one,) = records_of([line(**more)], DRIVERS)
    assert one["by"] == caused_by
    assert one["time"] == "2026-11-26T08:58:00.000Z"


@pytest.mark.parametrize(
    ("given", "covers"),
    [
        ("shop.orders", True),
        ("shop.orders data", True),  # an argument follows
        ("shop", True),
        ("", True),
        ("shop.order", False),
        ("sales", False),
    ],
)
def test_what_an_order_caused_names_the_operator(given: str, *, covers: bool) -> None:
    changed = line(source="orders")
    order = line(source="orders", object=given, change="refresh", who="ops (ann@a)")
    assert records_of([changed, order], ())[0]["by"] == ("ops (ann@a)" if covers else "an order")


def test_changes_of_a_driver_are_found_by_each_of_its_names() -> None:
    driver = {"writer": WRITER, "application": "nightly-etl", "user": "ann"}
    driver |= {"application_id": "app-7", "registration": "0badcafe" + "0" * 24}
    mine, other = line(source="reports", driver=WRITER), line()
    records = records_of([mine, other], [driver])
    for name in ("nightly-etl", "Ann", "app-7", "0badcafe", WRITER[:8]):
        assert by(records, name, [driver]) == records[:1], name
    for name in ("app-8", "0badcaf", "0badcaff"):
        assert by(records, name, [driver]) == [], name


def test_history_has_what_differs_and_the_cause_from_the_log() -> None:
    row = {"time_us": AT_US, "object": "shop.orders", "change": "schema", "source": "events"}
    row |= {"version": 5, "before": "column a=int; parameter p=1", "after": "column a=bigint"}
    part = row | {"object": "shop.orders/ds=1", "change": "created", "before": "", "after": "x=1"}
    old = row | {"version": 2, "change": "data", "before": "", "after": ""}
    records = joined([row, part, old], records_of([line()], ()))
    assert [one["by"] for one in records] == ["event 62", "event 62", "events"]
    assert records[0]["before"] == row["before"], "JSON is whole"
    assert shown(records)[0]["what"] == "column a int -> bigint; parameter p 1 -> -"
    assert listed(HISTORY, shown(records), width=80) == [
        "time            change   by        what",
        "11-26 08:58:00  schema   event 62  column a int -> bigint; parameter p 1 -> -",
        "11-26 08:58:00  created  event 62  ds=1",
        "11-26 08:58:00  data     events    -",
    ]


def test_cause_is_that_of_the_content_not_of_the_name_at_the_same_version() -> None:
    """Versions of different topics are equal now and then: the name's line comes later here."""
    row = {"time_us": AT_US, "object": "shop.orders", "change": "created", "source": "events"}
    row |= {"version": 5, "before": "", "after": "column a=int"}
    name = line(topic=NAMESPACE, change="created")
    (one,) = joined([row], records_of([name, line(change="loaded", event_after=61)], ()))
    assert (one["by"], one["topic"]) == ("first read", 17)
    (one,) = joined([row], records_of([name, line(change="loaded")], ()))
    assert one["by"] == "event 62"
    (one,) = joined([row], records_of([name], ()))
    assert (one["by"], one["topic"]) == ("events", None)


def test_events_are_picked_by_application_user_key_or_origin() -> None:
    lines = [
        line(source="reports", driver=WRITER),
        line(source="orders", who="ops (bob@a)", change="mode"),
        line(),
    ]
    records = records_of(lines, DRIVERS)
    picked = {name: len(by(records, name)) for name in ("nightly", "ANN", "ops", "events", "x9")}
    assert picked == {"nightly": 1, "ANN": 1, "ops": 1, "events": 1, "x9": 0}
    assert max(map(len, listed(LOG, shown(records), width=80))) <= 80


def test_events_are_picked_by_object_with_what_is_in_it_and_orders_that_name_it() -> None:
    names = ("shop.orders", "shop.orders/ds=1", "shop.orders_2", "shop", "shop.orders data", "")
    records = records_of([line(object=one) for one in names], ())

    def picked(pattern: str) -> list[str]:
        return [one["object"] for one in about(records, pattern)]

    assert picked("Shop.orders") == ["shop.orders", "shop.orders/ds=1", "shop.orders data"]
    assert picked("shop") == [*names[:-1]]
    assert picked("*.orders_?") == ["shop.orders_2"]
    assert picked("") == [*names]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("10m", "2026-11-26T08:50:00.000Z"),
        ("90s", "2026-11-26T08:58:30.000Z"),
        ("2h", "2026-11-26T07:00:00.000Z"),
        ("1D", "2026-11-25T09:00:00.000Z"),
        ("2026-11-26T08:00:00Z", "2026-11-26T08:00:00.000Z"),
        ("2026-11-26 08:00", "2026-11-26T08:00:00.000Z"),
        ("2026-11-26T10:00:00+02:00", "2026-11-26T08:00:00.000Z"),
    ],
)
def test_since_is_how_long_ago_or_a_time(text: str, at: str) -> None:
    assert utc(since(text, now=NOW)) == at


@pytest.mark.parametrize("text", ["", "10", "m", "yesterday", "-5m"])
def test_since_that_is_neither_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UsageError, match="as 30s, 10m, 2h or 1d"):
        since(text, now=NOW)


def test_what_follows_from_another_difference_is_left_out() -> None:
    """Spark writes the whole schema into a parameter; an order of columns may differ alone."""
    schema = "parameter spark.sql.sources.schema={}; parameter transient_lastDdlTime={}"
    names = "columns=id, {}"
    (one, moved) = shown(
        [
            {
                "object": "shop.orders",
                "kind": "schema",
                "before": f"{names.format('city')}; {schema.format('{1}', 7)}",
                "after": f"{names.format('city, x')}; {schema.format('{2}', 8)}; column x=int",
            },
            {
                "object": "shop.orders",
                "kind": "schema",
                "before": "columns=id, city",
                "after": "columns=city, id",
            },
        ]
    )
    assert one["what"] == "column x - -> int"
    assert moved["what"] == "columns id, city -> city, id"


def test_parts_of_one_load_are_one_change() -> None:
    def one(kind: str, by: str = "first read", name: str = "shop.orders") -> dict[str, str]:
        return {"object": name, "kind": kind, "by": by}

    some = [one("loaded"), one("loaded"), one("schema", "event 7"), one("loaded"), one("data")]
    assert once(some) == [some[0], some[2], some[3], some[4]]
    others = [one("loaded"), one("loaded", name="shop.t"), one("data"), one("data")]
    assert once(others) == others
