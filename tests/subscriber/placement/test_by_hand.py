"""Levels that an application sets by hand, of several topics in one request."""

from collections.abc import Callable

import pytest

from topicast.catalog.model.modes import Mode
from topicast.subscriber.client.subscriber import Subscriber
from topicast.tests.cluster.shop import Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.subscriber.crowd import sizes
from topicast.topics.errors import NotReady, OverBudget, StaleMetadata, UsageError
from topicast.topics.topic import MINIMAL_BYTES, NAMESPACE
from topicast.topics.wire.messages.data import Chunk
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.readers import Drop, Join, Joined

HUB, READER = "hub-0", "reader-0"
ALL = tuple(range(256))


def wide() -> Shopping:
    """Return a shopping of 256 topics that follows the names alone."""
    shopping = Shopping(Shop(()), num_topics=256, late=True)
    drop(shopping, ALL)
    shopping.pass_time(0.2)
    shopping.sent.clear()
    return shopping


def join(shopping: Shopping, topics: object, level: str = "full") -> None:
    shopping.call(lambda catalog: catalog.join(topics, level))  # type: ignore[arg-type]  # any


def drop(shopping: Shopping, topics: object) -> None:
    shopping.call(lambda catalog: catalog.drop(topics))  # type: ignore[arg-type]  # any


def begin_join(shopping: Shopping, topics: tuple[int, ...]) -> list[StaleMetadata]:
    """Begin a join; return a list to which its error is added."""
    errors: list[StaleMetadata] = []

    def body(catalog: Subscriber) -> None:
        try:
            catalog.join(topics)
        except StaleMetadata as error:
            errors.append(error)

    shopping.begin(body)
    return errors


def followed(shopping: Shopping) -> dict[int, str]:
    """Return the topics that are followed, with their levels."""
    return {t: info.level for t, info in shopping.topics().items() if info.level != "none"}


@pytest.mark.parametrize("level", ["minimal", "full"])
def test_256_topics_are_one_join_and_are_dropped_with_one_drop(level: str) -> None:
    shopping = wide()
    join(shopping, ALL, level)
    (request,) = shopping.messages(Join)
    assert {one.topic for one in request.positions} == set(ALL)
    assert followed(shopping) == dict.fromkeys(ALL, level) | {NAMESPACE: "full"}
    drop(shopping, ALL)
    shopping.pass_time(0.1)
    assert [request.topics for request in shopping.messages(Drop)] == [ALL]
    assert followed(shopping) == {NAMESPACE: "full"}


def test_join_is_answered_once_the_last_topic_is_there() -> None:
    shopping = Shopping(late=True)
    drop(shopping, (0, 1, 2))
    shopping.hold(HUB, READER, Chunk)
    with pytest.raises(NotReady, match="3 topics are being caught up"):
        join(shopping, (0, 1, 2, 3))
    worker = shopping.begin(lambda catalog: catalog.join((0, 1, 2, 3)))
    shopping.pass_time(0.5)
    assert worker.alive
    shopping.release()
    assert not worker.alive


def test_topics_that_do_not_fit_together_are_refused_together_and_evict_nothing() -> None:
    full = sizes()
    names = full.pop(NAMESPACE)
    shopping = Shopping(late=True, automatic=True, budget_bytes=names + sum(full.values()) - 1)
    shopping.columns("shop.orders")
    shopping.pass_time(0.1)
    before = followed(shopping)
    with pytest.raises(OverBudget, match="topics 0, 1, 2, 3") as caught:
        join(shopping, (0, 1, 2, 3))
    assert caught.value.needed_bytes == sum(full.values())
    assert (followed(shopping), shopping.memory("shop.orders")) == (before, ("id",))
    assert shopping.stats().evictions == 0
    join(shopping, (0, 2))
    assert followed(shopping) == {0: "full", 2: "full", NAMESPACE: "full"}


def test_topics_at_minimal_that_do_not_fit_together_are_refused_together() -> None:
    budget = sizes()[NAMESPACE] + 3 * MINIMAL_BYTES
    shopping = Shopping(late=True, automatic=True, budget_bytes=budget)
    with pytest.raises(OverBudget):
        join(shopping, (0, 1, 2, 3), "minimal")
    assert followed(shopping) == {NAMESPACE: "full"}
    join(shopping, (0, 1, 2), "minimal")


@pytest.mark.parametrize(
    "call", [lambda catalog, topics: catalog.join(topics, "minimal"), Subscriber.drop]
)
def test_topic_that_does_not_exist_is_named_and_nothing_is_changed(
    call: Callable[[Subscriber, tuple[int, ...]], None],
) -> None:
    shopping = Shopping(late=True)
    before = followed(shopping)
    for topics, named in (((0, 17, 1), "17"), ((0, NAMESPACE), "namespace")):
        with pytest.raises(UsageError, match=named):
            shopping.call(lambda catalog, topics=topics: call(catalog, topics))
    assert followed(shopping) == before


def test_level_that_is_not_offered_is_named_with_its_topic() -> None:
    shopping = Shopping(late=True, automatic=True, mode=Mode("minimal"))
    with pytest.raises(UsageError, match="topic 3"):
        join(shopping, (3, 2))
    assert followed(shopping) == {NAMESPACE: "full"}


def test_topic_that_was_dropped_meanwhile_does_not_hold_up_the_others() -> None:
    shopping = wide()
    shopping.hold(HUB, READER, Joined)
    joining = begin_join(shopping, (0, 1, 2))
    drop(shopping, 1)
    shopping.cluster.mend(hold=True)
    shopping.pass_time(0.5)
    assert "topic 1 was dropped" in str(*joining)
    assert followed(shopping) == {0: "full", 2: "full", NAMESPACE: "full"}


@pytest.mark.parametrize(
    ("otherwise", "held_back"), [("none", Joined), ("minimal", Joined), ("none", Chunk)]
)
def test_join_that_waits_ends_at_once_when_its_topic_is_dropped_or_lowered(
    otherwise: str, held_back: type[Message]
) -> None:
    shopping = wide()
    shopping.hold(HUB, READER, held_back)
    joining = begin_join(shopping, (5, 6))
    shopping.pass_time(0.5)
    assert joining == []
    shopping.begin(lambda catalog: catalog.join((6,), otherwise))
    shopping.pass_time(0.01)
    assert str(*joining) == (
        "topic 6 was dropped, or joined at another level, meanwhile: if it is still wanted at "
        "full, join again"
    )


def test_no_topic_at_all_is_joined_at_once() -> None:
    shopping = wide()
    join(shopping, ())
    drop(shopping, ())
    assert shopping.messages(Join) == []


@pytest.mark.parametrize("level", ["minimal", "full"])
def test_topics_that_have_their_level_are_joined_at_once_and_nothing_is_sent(level: str) -> None:
    shopping = wide()
    join(shopping, (0, 1), level)
    before = followed(shopping)
    shopping.sent.clear()
    for _ in range(2):
        join(shopping, (1, 0), level)
    assert followed(shopping) == before
    for _ in range(2):
        drop(shopping, (0, 1))
    shopping.pass_time(0.1)
    assert followed(shopping) == {NAMESPACE: "full"}
    assert (len(shopping.messages(Join)), len(shopping.messages(Drop))) == (0, 1)
