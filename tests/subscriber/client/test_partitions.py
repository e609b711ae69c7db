"""Partitions by filter, by names and by values: one of these, the same ones, cached alike."""

from collections.abc import Iterator

import pytest

from topicast.subscriber import Subscriber
from topicast.subscriber.client.partitions import Values
from topicast.tests.subscriber.source import Catalog, shop
from topicast.tests.subscriber.stand import Publisher, stand
from topicast.topics.errors import UsageError

HOURS = ("00", "01", "02")
DAYS = tuple(f"2026-11-{day:02}" for day in range(1, 31))
NAME = "shop.hits"


def hits() -> Catalog:
    """Return the shop with a table of 90 partitions by day and hour."""
    catalog = shop()
    catalog.create_table("shop", "hits", keys=("ds", "hour"))
    names = {f"ds={day}/hour={hour}": {"n": day + hour} for day in DAYS for hour in HOURS}
    catalog.put_partitions("shop", "hits", names)
    return catalog


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Subscriber, Publisher]]:
    """Run a subscriber that pulls the table, and keeps what it has pulled."""
    with (
        stand(hits()) as (publisher, (hub,)),
        Subscriber(hub.address, timeout_s=20, levels="full") as catalog,
    ):
        catalog.join(publisher.catalog.topic("shop", "hits"), level="minimal")
        yield catalog, publisher


def names(day: str, *hours: str) -> tuple[str, ...]:
    return tuple(f"ds={day}/hour={hour}" for hour in hours)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("2026-11-03",), names("2026-11-03", *HOURS)),
        ({"ds": "2026-11-03"}, names("2026-11-03", *HOURS)),
        (("2026-11-03", "01"), names("2026-11-03", "01")),
        ({"HOUR": "01", "ds": "2026-11-03"}, names("2026-11-03", "01")),
        (("", "02"), tuple(name for day in DAYS for name in names(day, "02"))),
        ({"hour": "02"}, tuple(name for day in DAYS for name in names(day, "02"))),
        (("2026-12-01",), ()),
        (("", ""), tuple(name for day in DAYS for name in names(day, *HOURS))),
        ({}, tuple(name for day in DAYS for name in names(day, *HOURS))),
    ],
)
def test_values_select_at_every_level_alike(
    running: tuple[Subscriber, Publisher], values: Values, expected: tuple[str, ...]
) -> None:
    catalog, publisher = running
    topic = publisher.catalog.topic("shop", "hits")
    for level in ("none", "minimal", "full"):
        catalog.join(topic, level=level)
        assert catalog.partition_names(NAME, values=values) == expected
        found = catalog.partitions(NAME, values=values)
        assert tuple(one.name for one in found) == expected
        assert all(one.parameters["n"] == "".join(one.values) for one in found)


def test_what_was_pulled_by_values_is_answered_from_memory(
    running: tuple[Subscriber, Publisher],
) -> None:
    catalog, publisher = running
    topic = publisher.catalog.topic("shop", "hits")
    catalog.join(topic, level="none")
    catalog.join(topic, level="minimal")
    pulls = catalog.stats().pulls
    day = catalog.partitions(NAME, values=("2026-11-07",))
    assert catalog.stats().pulls == pulls + 1
    assert catalog.partitions(NAME, values=("2026-11-07",)) == day
    assert catalog.partitions(NAME, values={"ds": "2026-11-07"}) == day  # the table was pulled, too
    assert catalog.partition_names(NAME, values=("2026-11-07",)) == names("2026-11-07", *HOURS)
    assert catalog.stats().pulls == pulls + 1
    catalog.partitions(NAME, names=names("2026-11-07", "00"))
    assert catalog.stats().pulls == pulls + 2  # of other blocks, as far as anybody knows
    held = next(one.bytes for one in catalog.topics() if one.id == topic)
    assert held < publisher.catalog.size(topic)
    publisher.commit(
        lambda c: c.put_partitions("shop", "hits", {"ds=2026-11-07/hour=01": {"n": "new"}})
    )
    catalog.sync()
    changed = catalog.partitions(NAME, values=("2026-11-07",))
    assert [one.parameters["n"] for one in changed] == ["2026-11-0700", "new", "2026-11-0702"]
    assert catalog.stats().pulls == pulls + 3
    publisher.commit(
        lambda c: c.put_partitions("shop", "hits", {"ds=2026-11-07/hour=01": {"n": "2026-11-0701"}})
    )
    catalog.sync()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"filter": "hour = '01'", "values": ("2026-11-03",)}, "not by two"),
        ({"names": (), "values": ()}, "not by two"),
        (
            {"values": {"day": "2026-11-03"}},
            "no partition column 'day' in shop.hits; there are",
        ),
        ({"values": "2026-11-03"}, "values are several"),
        ({"values": ("", "", "x")}, "3 values given"),
        ({"names": ("nonsense",)}, "not a partition's name"),
    ],
)
def test_selection_that_is_none_is_refused(
    running: tuple[Subscriber, Publisher], fields: dict[str, object], why: str
) -> None:
    catalog, publisher = running
    catalog.join(publisher.catalog.topic("shop", "hits"), level="full")
    with pytest.raises(UsageError, match=why):
        catalog.partitions(NAME, **fields)  # type: ignore[arg-type]  # by the table above
