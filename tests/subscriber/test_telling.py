"""A subscriber tells who asks through the hub what it follows, and why."""

from topicast.subscriber import facts
from topicast.tests.subscriber.test_choosing import driver, read
from topicast.tests.subscriber.world import World
from topicast.topics.wire.messages import Inspect, Inspected, Message, Refused


def told(world: World, what: str) -> Message:
    world.hear(facts.CONTROL, Inspect(request=5, what=what))
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


def test_what_it_does_not_know_is_refused() -> None:
    answer = told(driver(), "nonsense")
    assert isinstance(answer, Refused)
    assert (answer.request, answer.code) == (5, "INSPECT")
    assert "'nonsense'" in answer.message
