"""Pulls, their fence, and syncs: no answer goes back behind an earlier one."""

from dataclasses import replace

import pytest

from topicast.tests.cluster.cluster import Way
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.errors import LinkError, NoSuchObject, NotReady
from topicast.topics.wire.messages import (
    Cancel,
    Chunk,
    Compared,
    Credit,
    Delta,
    Message,
    Pull,
    Pulled,
    Refused,
    Sync,
    Synced,
)

CATALOGD, HUB, READER = "catalogd", "hub-0", "reader-0"


def without_orders() -> Shopping:
    """Return an application that does not follow the topic of shop.orders, so that it pulls."""
    shopping = Shopping()
    shopping.leave("shop.orders")
    return shopping


def refuse(request: int, code: str, retry_ms: int) -> Refused:
    return Refused(request=request, code=code, message="a reason", retry_ms=retry_ms)


def test_one_pull_serves_all_callers_and_nothing_of_it_is_kept_without_a_level() -> None:
    shopping = without_orders()
    before = shopping.stats()
    shopping.hold(CATALOGD, READER, Pulled)
    found: list[tuple[str, ...]] = []
    for _ in range(5):
        shopping.begin(
            lambda catalog: found.append(
                tuple(c.name for c in catalog.table("shop.orders").columns)
            )
        )
    shopping.release()
    assert found == [("id",)] * 5
    assert len(shopping.messages(Pull)) == 1
    after = shopping.stats()
    assert (after.misses, after.held_bytes) == (before.misses + 5, before.held_bytes)
    assert shopping.columns("shop.orders") == ("id",)
    assert len(shopping.messages(Pull)) == 2, "it was not kept"


def test_pull_brings_partitions_only_if_they_are_requested() -> None:
    shopping = Shopping()
    shopping.leave("shop.sales")
    shopping.table("shop.sales")
    assert len(shopping.messages(Pulled, sender=CATALOGD)[-1].entries) == 1
    assert len(shopping.partitions("shop.sales")) == 100
    assert len(shopping.messages(Pulled, sender=CATALOGD)[-1].entries) > 1


def test_table_in_memory_is_not_pulled_and_neither_is_a_name_that_is_not_there() -> None:
    shopping = Shopping()
    assert shopping.columns("shop.orders") == ("id",)
    with pytest.raises(NoSuchObject):
        shopping.table("shop.nothing")
    assert shopping.messages(Pull) == []


def test_namespace_behind_a_pull_does_not_answer() -> None:
    """P-PULL-5: rule: a pull's reply carries the namespace version; memory behind it waits."""
    shopping = without_orders()
    shopping.hold(HUB, READER, Delta, Chunk)
    shopping.shop.drop("shop.orders")
    shopping.settle()
    with pytest.raises(NoSuchObject):  # as catalogd says
        shopping.table("shop.orders")
    names: list[tuple[str, ...]] = []
    listing = shopping.begin(lambda catalog: names.append(catalog.tables("shop")))
    shopping.pass_time(0.5)
    assert listing.alive, "memory still names the table"
    shopping.release()
    shopping.settle()
    assert not listing.alive
    assert "orders" not in names[0]


def test_memory_behind_a_pull_does_not_answer() -> None:
    """P-PULL-6: rule: memory answers only at or above what a pull answered."""
    shopping = without_orders()
    shopping.hold(CATALOGD, HUB, Delta, Chunk)  # the hub lags
    shopping.shop.reshape("shop.orders", ("id", "two"))
    shopping.settle()
    assert shopping.columns("shop.orders") == ("id", "two")
    shopping.begin(lambda catalog: catalog.join(shopping.topic("shop.orders")))
    shopping.settle()
    assert shopping.columns("shop.orders") == ("id", "two")
    shopping.release()
    shopping.pass_time(3)
    pulls = len(shopping.messages(Pull))
    assert shopping.columns("shop.orders") == ("id", "two")
    assert len(shopping.messages(Pull)) == pulls


@pytest.mark.parametrize(
    ("name", "older"),
    [
        ("topic_version", lambda part: {"topic_version": part.topic_version - 1}),
        ("namespace_version", lambda part: {"namespace_version": part.namespace_version - 1}),
        ("found", lambda _part: {"found": False, "incarnation": 0}),
        ("incarnation", lambda _part: {"incarnation": 999}),
    ],
)
def test_reply_that_contradicts_what_was_answered_before_is_pulled_again(
    name: str, older: object
) -> None:
    """Rule: load fence in the reader; the lower bound is kept at a drop."""
    shopping = Shopping()
    shopping.shop.reshape("shop.orders", ("id", "two"))
    shopping.settle()
    assert shopping.columns("shop.orders") == ("id", "two")
    shopping.leave("shop.orders")
    shopping.alter(Pulled, lambda part: replace(part, **older(part)), count=1)  # type: ignore[operator]  # above
    assert shopping.columns("shop.orders") == ("id", "two"), name
    assert shopping.stats().stale_replies == 1
    assert len(shopping.messages(Pull)) == 2


def test_reply_that_is_older_than_another_reply_is_pulled_again() -> None:
    shopping = Shopping()
    shopping.leave("shop.sales")
    shopping.table("shop.sales")
    shopping.alter(
        Pulled, lambda part: replace(part, topic_version=part.topic_version - 1), count=1
    )
    assert len(shopping.partitions("shop.sales")) == 100
    assert shopping.stats().stale_replies == 1


@pytest.mark.parametrize("second", [{"sequence": 1, "topic_version": 999}, {"sequence": 2}])
def test_parts_of_two_versions_or_with_a_part_missing_are_never_combined(
    second: dict[str, int],
) -> None:
    """P-PULL-6."""
    shopping = Shopping()
    shopping.leave("shop.sales")

    def wrong(whole: Pulled) -> tuple[Message, ...]:
        first = replace(whole, last=False, entries=whole.entries[:2])
        return first, replace(whole, entries=whole.entries[2:], **second)  # type: ignore[arg-type]  # above

    def right(whole: Pulled) -> tuple[Message, ...]:
        parts = whole.entries[:2], whole.entries[2:], ()
        return tuple(
            replace(whole, sequence=number, entries=entries, last=number == 2)
            for number, entries in enumerate(parts)
        )

    shopping.alter(Pulled, wrong, count=1)
    shopping.hold(CATALOGD, READER, Pulled, count=0)
    assert len(shopping.partitions("shop.sales")) == 100
    assert shopping.stats().stale_replies == 1
    first, again = shopping.messages(Pull)
    assert again.request != first.request
    shopping.alter(Pulled, right, count=1)
    assert len(shopping.partitions("shop.sales")) == 100
    assert len(shopping.messages(Pull)) == 3
    assert [one.stream for one in shopping.messages(Credit)][-2:] == [
        shopping.messages(Pull)[-1].request
    ] * 2


def test_reply_of_a_start_that_is_not_accepted_waits() -> None:
    shopping = without_orders()
    shopping.hold(CATALOGD, READER, Compared)
    shopping.cluster.catalogd.crash()
    shopping.cluster.catalogd.revive()
    shopping.settle()
    reading = shopping.begin(lambda catalog: catalog.table("shop.orders"))
    shopping.settle()
    assert shopping.messages(Pulled, sender=CATALOGD)
    assert reading.alive
    shopping.release()
    shopping.settle()
    assert not reading.alive


def test_pull_without_answer_is_repeated_and_times_out() -> None:
    shopping = without_orders()
    shopping.lose(CATALOGD, READER, Pulled)
    with pytest.raises(NotReady, match=r"shop\.orders"):
        shopping.table("shop.orders")
    assert len(shopping.messages(Pull)) == 2
    assert isinstance(shopping.messages(Cancel)[-1], Cancel)


def test_refused_pull_is_sent_again_or_fails_with_what_catalogd_says() -> None:
    shopping = without_orders()
    shopping.alter(Pulled, lambda part: refuse(part.request, "BUSY", 200), count=1)
    assert shopping.columns("shop.orders") == ("id",)
    assert len(shopping.messages(Pull)) == 2
    shopping.alter(Pulled, lambda part: refuse(part.request, "BROKEN", 0), count=1)
    with pytest.raises(LinkError, match="BROKEN"):
        shopping.table("shop.orders")


def test_sync_returns_when_everything_joined_has_reached_it() -> None:
    """P-SYNC-2: and nothing older is answered from then on."""
    shopping = Shopping()
    shopping.hold(HUB, READER, Delta, Chunk)
    shopping.shop.reshape("shop.orders", ("id", "new"))
    syncing = shopping.begin(lambda catalog: catalog.sync())
    shopping.settle()
    assert syncing.alive
    assert shopping.columns("shop.orders") == ("id", "new"), "pulled: memory is older"
    assert len(shopping.messages(Pull)) == 1
    shopping.release()
    shopping.settle()
    assert not syncing.alive
    assert shopping.columns("shop.orders") == ("id", "new")
    assert len(shopping.messages(Pull)) == 1


def test_pull_that_began_before_a_sync_is_not_answered_after_it() -> None:
    shopping = without_orders()
    shopping.hold(CATALOGD, READER, Pulled)
    found: list[int] = []
    reading = shopping.begin(
        lambda catalog: found.append(len(catalog.table("shop.orders").columns))
    )
    shopping.pass_time(0.1)
    shopping.shop.reshape("shop.orders", ("id", "new"))
    shopping.call(lambda catalog: catalog.sync())
    assert reading.alive
    shopping.release()
    shopping.settle()
    assert found == [2]


def test_sync_without_answer_is_repeated_until_its_caller_gives_up() -> None:
    shopping = Shopping()
    shopping.lose(CATALOGD, READER, Synced)
    with pytest.raises(NotReady, match="catalogd has not answered the sync"):
        shopping.call(lambda catalog: catalog.sync(timeout_s=5))
    syncs = len(shopping.messages(Sync))
    assert syncs > 1
    shopping.pass_time(10)
    assert len(shopping.messages(Sync)) == syncs


def test_sync_that_a_topic_does_not_reach_says_so() -> None:
    shopping = Shopping()
    shopping.lose(HUB, READER, Delta, Chunk)
    shopping.shop.reshape("shop.orders", ("id", "new"))
    with pytest.raises(NotReady, match="1 topics have not reached the sync"):
        shopping.call(lambda catalog: catalog.sync())


@pytest.mark.parametrize("started", [False, True])
def test_sync_is_sent_again_when_catalogd_is_busy_or_its_start_is_not_accepted(
    started: bool,
) -> None:
    shopping = Shopping()
    if started:
        shopping.alter(Synced, lambda answer: replace(answer, start=answer.start + 2), count=1)
    else:
        shopping.alter(Synced, lambda answer: refuse(answer.request, "BUSY", 100), count=1)
    shopping.call(lambda catalog: catalog.sync())
    assert len(shopping.messages(Sync)) == 2


def test_answers_to_nothing_change_nothing() -> None:
    shopping = without_orders()

    def doubled(way: Way, message: Message) -> tuple[Message, ...]:
        if way[0] == CATALOGD and isinstance(message, Pulled | Synced):
            stranger = refuse(999, "BUSY", 100)
            return stranger, replace(message, request=999), message, message
        return (message,)

    shopping.cluster.taps.append(doubled)
    assert shopping.columns("shop.orders") == ("id",)
    shopping.call(lambda catalog: catalog.sync())
    assert shopping.stats().stale_replies == 0
