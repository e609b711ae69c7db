"""Pulls, their fence, and syncs: no answer goes back behind an earlier answer."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from topicast.subscriber import Subscriber
from topicast.tests.cluster.cluster import Way
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.errors import NoSuchObject, NotReady, SourceError, UsageError
from topicast.topics.wire.messages.catalog import Compared, Pull, Pulled, Sync, Synced, Validated
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.data import Chunk, Delta
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.readers import Cancel, Credit

CATALOGD, HUB, READER = "catalogd", "hub-0", "reader-0"


@pytest.fixture
def pulling(shopping: Shopping) -> Shopping:
    """An application that does not follow the topic of shop.orders, so that it pulls."""
    shopping.leave("shop.orders")
    return shopping


def refuse(request: int, code: str, retry_ms: int) -> Refused:
    return Refused(request=request, code=code, message="a reason", retry_ms=retry_ms)


def test_one_pull_serves_all_callers_and_nothing_of_it_is_kept_without_a_level(
    pulling: Shopping,
) -> None:
    before = pulling.stats()
    pulling.hold(CATALOGD, READER, Pulled)
    found: list[tuple[str, ...]] = []
    for _ in range(5):
        pulling.begin(
            lambda catalog: found.append(
                tuple(c.name for c in catalog.table("shop.orders").columns)
            )
        )
    pulling.release()
    assert found == [("id",)] * 5
    assert len(pulling.messages(Pull)) == 1
    after = pulling.stats()
    assert (after.misses, after.held_bytes) == (before.misses + 5, before.held_bytes)
    assert pulling.columns("shop.orders") == ("id",)
    assert len(pulling.messages(Pull)) == 2, "it was not kept"


def caught(catalog: Subscriber, name: str) -> object:
    """Return the columns of a table, or the type of the error."""
    try:
        return tuple(column.name for column in catalog.table(name).columns)
    except NoSuchObject as error:
        return type(error)


def test_pull_brings_partitions_only_if_they_are_requested(shopping: Shopping) -> None:
    shopping.leave("shop.sales")
    shopping.table("shop.sales")
    assert len(shopping.messages(Pulled, sender=CATALOGD)[-1].entries) == 1
    assert len(shopping.partitions("shop.sales")) == 100
    assert len(shopping.messages(Pulled, sender=CATALOGD)[-1].entries) > 1


def test_namespace_behind_a_pull_does_not_answer(pulling: Shopping) -> None:
    """P-PULL-5: rule: a pull's reply carries the namespace version; memory behind it waits."""
    pulling.hold(HUB, READER, Delta, Chunk)
    pulling.shop.drop("shop.orders")
    pulling.settle()
    with pytest.raises(NoSuchObject):  # as catalogd says
        pulling.table("shop.orders")
    names: list[tuple[str, ...]] = []
    listing = pulling.begin(lambda catalog: names.append(catalog.tables("shop")))
    pulling.pass_time(0.5)
    assert listing.alive, "memory still names the table"
    pulling.release()
    pulling.settle()
    assert not listing.alive
    assert "orders" not in names[0]


@pytest.mark.parametrize("change", ["reshape", "drop"])
def test_reply_as_new_as_what_was_pushed_meanwhile_is_believed(
    pulling: Shopping, change: str
) -> None:
    """P-PULL-5."""
    pulling.join("shop.orders", level="minimal")
    pulling.hold(READER, CATALOGD, Pull)
    found: list[object] = []
    reading = pulling.begin(lambda catalog: found.append(caught(catalog, "shop.orders")))
    pulling.settle()
    if change == "drop":
        pulling.shop.drop("shop.orders")
    else:
        pulling.shop.reshape("shop.orders", ("id", "two"))
    pulling.settle()
    pulling.release()
    pulling.settle()
    assert not reading.alive
    assert found == [("id", "two") if change == "reshape" else NoSuchObject]
    assert pulling.stats().stale_replies == 0


def test_memory_behind_a_pull_does_not_answer(pulling: Shopping) -> None:
    """P-PULL-6: rule: memory answers only at or above what a pull answered."""
    pulling.hold(CATALOGD, HUB, Delta, Chunk)  # the hub lags
    pulling.shop.reshape("shop.orders", ("id", "two"))
    pulling.settle()
    assert pulling.columns("shop.orders") == ("id", "two")
    pulling.begin(lambda catalog: catalog.join(pulling.topic("shop.orders")))
    pulling.settle()
    assert pulling.columns("shop.orders") == ("id", "two")
    pulling.release()
    pulling.pass_time(3)
    pulls = len(pulling.messages(Pull))
    assert pulling.columns("shop.orders") == ("id", "two")
    assert len(pulling.messages(Pull)) == pulls


@pytest.mark.parametrize("level", ["full", "none"])
@pytest.mark.parametrize(
    "older",
    [
        lambda part: {"topic_version": part.topic_version - 1},
        lambda part: {"namespace_version": part.namespace_version - 1},
        lambda _part: {"found": False, "incarnation": 0},
        lambda _part: {"incarnation": 999},
    ],
)
def test_reply_that_contradicts_what_was_pushed_or_pulled_before_is_pulled_again(
    shopping: Shopping, level: str, older: Callable[[Pulled], dict[str, object]]
) -> None:
    """Rule: load fence in the reader; the lower bound is kept at a drop."""
    shopping.join("shop.orders", level=level)
    shopping.shop.reshape("shop.orders", ("id", "two"))
    shopping.settle()
    assert shopping.columns("shop.orders") == ("id", "two")
    shopping.leave("shop.orders")
    pulls = len(shopping.messages(Pull))
    shopping.alter(Pulled, lambda part: replace(part, **older(part)), count=1)  # type: ignore[arg-type]  # fields
    assert shopping.columns("shop.orders") == ("id", "two")
    assert shopping.stats().stale_replies == 1
    assert len(shopping.messages(Pull)) == pulls + 2


@pytest.mark.parametrize("second", [{"sequence": 1, "topic_version": 999}, {"sequence": 2}])
def test_parts_of_two_versions_or_with_a_part_missing_are_never_combined(
    shopping: Shopping, second: dict[str, int]
) -> None:
    """P-PULL-6."""
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


def test_reply_of_a_start_that_is_not_accepted_waits(pulling: Shopping) -> None:
    pulling.hold(CATALOGD, READER, Compared)
    pulling.cluster.catalogd.crash()
    pulling.cluster.catalogd.revive()
    pulling.settle()
    reading = pulling.begin(lambda catalog: catalog.table("shop.orders"))
    pulling.settle()
    assert pulling.messages(Pulled, sender=CATALOGD)
    assert reading.alive
    pulling.release()
    pulling.settle()
    assert not reading.alive


def test_pull_without_answer_is_repeated_and_times_out(pulling: Shopping) -> None:
    pulling.lose(CATALOGD, READER, Pulled)
    with pytest.raises(NotReady, match=r"shop\.orders"):
        pulling.table("shop.orders")
    assert len(pulling.messages(Pull)) == 2
    assert isinstance(pulling.messages(Cancel)[-1], Cancel)


def test_refused_pull_is_sent_again_or_fails_with_what_catalogd_says(pulling: Shopping) -> None:
    pulling.alter(Pulled, lambda part: refuse(part.request, "BUSY", 200), count=1)
    assert pulling.columns("shop.orders") == ("id",)
    assert len(pulling.messages(Pull)) == 2
    pulling.alter(Pulled, lambda part: refuse(part.request, "BROKEN", 0), count=1)
    with pytest.raises(UsageError, match="catalogd refused: a reason"):
        pulling.table("shop.orders")


def test_validation_that_is_refused_for_good_fails_with_what_catalogd_says(
    shopping: Shopping,
) -> None:
    shopping.alter(Validated, lambda answer: refuse(answer.request, "BUSY", 200), count=1)
    assert shopping.call(lambda catalog: catalog.outdated(["shop.orders"])) == frozenset()
    shopping.alter(Validated, lambda answer: refuse(answer.request, "BROKEN", 0), count=1)
    with pytest.raises(UsageError, match="catalogd refused: a reason"):
        shopping.call(lambda catalog: catalog.outdated(["shop.orders"]), wait_s=0.5)


def test_sync_returns_when_everything_joined_has_reached_it(shopping: Shopping) -> None:
    """P-SYNC-2: and nothing older is answered from then on."""
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


def test_pull_that_began_before_a_sync_is_not_answered_after_it(pulling: Shopping) -> None:
    pulling.hold(CATALOGD, READER, Pulled)
    found: list[int] = []
    reading = pulling.begin(lambda catalog: found.append(len(catalog.table("shop.orders").columns)))
    pulling.pass_time(0.1)
    pulling.shop.reshape("shop.orders", ("id", "new"))
    pulling.call(lambda catalog: catalog.sync())
    assert reading.alive
    pulling.release()
    pulling.settle()
    assert found == [2]


def test_read_that_catalogd_does_not_answer_is_answered_by_memory_that_has_caught_up(
    shopping: Shopping,
) -> None:
    """It is no reason to fail that memory was behind for a moment, and catalogd is not reached."""
    shopping.lose(CATALOGD, READER, Pulled)
    shopping.hold(HUB, READER, Delta, Chunk)
    shopping.shop.reshape("shop.orders", ("id", "new"))
    shopping.begin(lambda catalog: catalog.sync())
    shopping.settle()
    found: list[int] = []
    reading = shopping.begin(
        lambda catalog: found.append(len(catalog.table("shop.orders").columns))
    )
    shopping.settle()
    assert reading.alive, "memory is older than the sync"
    shopping.release()
    shopping.settle()
    assert found == [2]
    assert isinstance(shopping.messages(Cancel)[-1], Cancel)


def test_sync_without_answer_is_repeated_until_its_caller_gives_up(shopping: Shopping) -> None:
    shopping.lose(CATALOGD, READER, Synced)
    with pytest.raises(NotReady, match="catalogd has not answered the sync"):
        shopping.call(lambda catalog: catalog.sync(timeout_s=5))
    syncs = len(shopping.messages(Sync))
    assert syncs > 1
    shopping.pass_time(10)
    assert len(shopping.messages(Sync)) == syncs


def test_sync_that_a_topic_does_not_reach_says_so(shopping: Shopping) -> None:
    shopping.lose(HUB, READER, Delta, Chunk)
    shopping.shop.reshape("shop.orders", ("id", "new"))
    with pytest.raises(NotReady, match="this subscriber has not reached the sync in 1 topics"):
        shopping.call(lambda catalog: catalog.sync())


def test_sync_that_the_hub_does_not_reach_names_the_hub(shopping: Shopping) -> None:
    shopping.lose(CATALOGD, HUB, Delta, Chunk)
    shopping.shop.reshape("shop.orders", ("id", "new"))
    with pytest.raises(NotReady, match="statestored at hub-0 has not received .* of 1 topics"):
        shopping.call(lambda catalog: catalog.sync(timeout_s=2))


def test_sync_that_catalogd_still_reads_for_names_the_table(shopping: Shopping) -> None:
    """However short the timeout: catalogd is asked once more, shortly before its end."""
    shopping.hold_reads_of("orders")
    shopping.shop.reshape("shop.orders", ("id", "new"))
    with pytest.raises(NotReady, match="catalogd still reads shop.orders"):
        shopping.call(lambda catalog: catalog.sync(timeout_s=0.8))


def test_sync_names_a_metastore_that_does_not_answer(shopping: Shopping) -> None:
    shopping.shop.failures += [SourceError("no route")] * 1000
    with pytest.raises(NotReady, match="the metastore does not answer: no route"):
        shopping.call(lambda catalog: catalog.sync(timeout_s=3))


@pytest.mark.parametrize("scope", ["shop.stock", "SHOP.Stock", "elsewhere", "elsewhere.t"])
def test_sync_of_a_scope_waits_for_no_other_table(shopping: Shopping, scope: str) -> None:
    shopping.hold_reads_of("orders")
    shopping.shop.reshape("shop.orders", ("id", "new"))
    shopping.shop.remark("shop.stock", {"synced": "yes"})
    shopping.call(lambda catalog: catalog.sync(timeout_s=3, scope=scope))
    if scope.lower() == "shop.stock":
        assert shopping.table("shop.stock").parameters["synced"] == "yes"
    for others in ("", "shop", "shop.orders"):
        with pytest.raises(NotReady, match="shop.orders"):
            shopping.call(lambda catalog, of=others: catalog.sync(timeout_s=1, scope=of))


def test_sync_of_a_table_waits_for_its_topic_and_the_names_alone(shopping: Shopping) -> None:
    assert shopping.topic("shop.orders") != shopping.topic("shop.stock")
    shopping.lose(HUB, READER, Delta, Chunk)
    shopping.shop.reshape("shop.orders", ("id", "new"))
    shopping.call(lambda catalog: catalog.sync(timeout_s=3, scope="shop.stock"))
    with pytest.raises(NotReady, match="this subscriber"):
        shopping.call(lambda catalog: catalog.sync(timeout_s=3, scope="shop.orders"))


@pytest.mark.parametrize("scope", ["a.b.c", ".t", "d.", "d\0", 7, None])
def test_scope_that_is_none_is_refused(shopping: Shopping, scope: str) -> None:
    with pytest.raises(UsageError):
        shopping.call(lambda catalog: catalog.sync(scope=scope))


@pytest.mark.parametrize("started", [False, True])
def test_sync_is_sent_again_when_catalogd_is_busy_or_its_start_is_not_accepted(
    shopping: Shopping, started: bool
) -> None:
    if started:
        shopping.alter(Synced, lambda answer: replace(answer, start=answer.start + 2), count=1)
    else:
        shopping.alter(Synced, lambda answer: refuse(answer.request, "BUSY", 100), count=1)
    shopping.call(lambda catalog: catalog.sync())
    assert len(shopping.messages(Sync)) == 2


def test_answers_to_nothing_change_nothing(pulling: Shopping) -> None:

    def doubled(way: Way, message: Message) -> tuple[Message, ...]:
        if way[0] == CATALOGD and isinstance(message, Pulled | Synced):
            stranger = refuse(999, "BUSY", 100)
            return stranger, replace(message, request=999), message, message
        return (message,)

    pulling.cluster.taps.append(doubled)
    assert pulling.columns("shop.orders") == ("id",)
    pulling.call(lambda catalog: catalog.sync())
    assert pulling.stats().stale_replies == 0
