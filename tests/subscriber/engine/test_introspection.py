"""A subscriber tells who asks through the hub what it follows, and why."""

from topicast.subscriber.protocol.channels import Channel
from topicast.tests.subscriber.placement.test_controller import driver, read
from topicast.tests.subscriber.world import World
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages import Inspect, Inspected, Message, Refused


def told(world: World, what: str) -> Message:
    world.hear(Channel.CONTROL, Inspect(request=5, what=what))
    return (*world.said(Inspected), *world.said(Refused))[-1]


def test_topics_are_told_with_level_bytes_and_reason() -> None:
    world = driver()
    read(world, "orders")
    answer = told(world, "topics")
    assert isinstance(answer, Inspected)
    assert answer.request == 5
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    (followed,) = [row for row in rows if row["level"] == "minimal"]
    assert (followed["id"], followed["why"]) == (
        world.catalog.topic("shop", "orders"),
        "read for the first time",
    )
    assert followed["full_bytes"] == world.topics()[int(str(followed["id"]))].full_bytes
    assert {row["lag_s"] for row in rows if row["level"] == "none"} == {None}


def test_stats_are_told_by_name() -> None:
    world = driver()
    answer = told(world, "stats")
    assert isinstance(answer, Inspected)
    assert dict(answer.rows)["budget_bytes"] == world.stats().budget_bytes  # type: ignore[arg-type]


def test_driver_is_told_as_its_application_says_with_topics_and_budget() -> None:
    world = driver(driver_facts=lambda: {"application": "etl", "refreshes": 3, "problem": None})
    read(world, "orders")
    answer = told(world, "driver")
    assert isinstance(answer, Inspected)
    assert answer.columns == ("name", "value")
    rows = {str(name): value for name, value in answer.rows}
    assert (rows["application"], rows["refreshes"], rows["problem"]) == ("etl", 3, None)
    assert (rows["full_topics"], rows["minimal_topics"]) == (1, 1)
    stats = world.stats()
    assert (rows["budget_bytes"], rows["held_bytes"]) == (stats.budget_bytes, stats.held_bytes)
    assert isinstance(rows["staleness_s"], float)


def test_whatever_an_application_tells_can_be_sent() -> None:
    world = driver(driver_facts=lambda: {"last_error": "\udcff" + "x" * 5000})
    answer = told(world, "driver")
    assert isinstance(answer, Inspected)
    assert decode(encode(answer)) == answer
    assert dict(answer.rows)["last_error"] == "?" + "x" * 4095  # type: ignore[arg-type]


def test_who_is_no_application_of_spark_is_no_driver() -> None:
    answer = told(driver(), "driver")
    assert isinstance(answer, Refused)
    assert answer.code == "INSPECT"


def test_what_it_does_not_know_is_refused() -> None:
    answer = told(driver(), "nonsense")
    assert isinstance(answer, Refused)
    assert (answer.request, answer.code) == (5, "INSPECT")
    assert "'nonsense'" in answer.message
