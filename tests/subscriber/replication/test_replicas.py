"""What memory answers of pulled and withheld tables while topics lag, change level or catch up."""

from dataclasses import replace

import pytest

from topicast.catalog.model.modes import Mode, parse_mode
from topicast.subscriber.replication.topic_replica import TopicReplica
from topicast.tests.cluster.shop import NAMES, Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.cluster.store import SimStore
from topicast.tests.topics.following import behind, delta, live
from topicast.topics.streams.follower import LIVE, Follower
from topicast.topics.topic import FULL, MINIMAL, MINIMAL_BYTES
from topicast.topics.wire.messages.catalog import Pulled
from topicast.topics.wire.messages.data import Barrier, Chunk, Delta
from topicast.topics.wire.messages.readers import Joined

HUB, READER, CATALOGD = "hub-0", "reader-0", "catalogd"
PARTITIONS = {f"ds={day:03}": {"n": "1"} for day in range(100)}
MATE = "shop.log"  # a new table, of the topic of shop.orders


@pytest.mark.parametrize(
    ("current", "coming", "may"),
    [
        (live(10, FULL), None, False),
        (live(10, FULL), behind(12, MINIMAL), False),
        (live(10, FULL), live(9, MINIMAL), False),
        (live(10, FULL), live(10, MINIMAL), True),
        (behind(10, FULL), behind(5, MINIMAL), True),
        (behind(10, MINIMAL), behind(5, FULL), False),
    ],
    ids=["alone", "not live", "older", "as new", "nothing is held", "nothing would be held"],
)
def test_level_is_left_for_a_level_that_is_as_new_or_if_nothing_is_held(
    current: Follower, coming: Follower | None, may: bool
) -> None:
    """P-JOIN-4."""
    assert TopicReplica(current, coming).may_take_over() is may


def withholding(*names: str, **more: object) -> Mode:
    return parse_mode("mixed", ",".join(f"shop.{name}=minimal" for name in names))


def one_topic(*names: str, level: str = "minimal") -> Shopping:
    """Return a shopping whose tables are of one topic, which is followed at ``level``."""
    shop = Shop(names or ("orders", "people"), partitions=0)
    shopping = Shopping(shop, num_topics=1, late=True)
    shopping.call(lambda catalog: catalog.join(0, level))
    return shopping


def lag(shopping: Shopping) -> Shopping:
    """Let the hub, and with it the reader, receive no changes until ``release``."""
    shopping.hold(CATALOGD, HUB, Delta, Chunk)
    return shopping


def test_reply_that_is_newer_than_the_hub_is_not_fetched_again() -> None:
    """P-PULL-6."""
    shopping = one_topic()
    shopping.columns("shop.orders")
    lag(shopping)
    shopping.reshape("shop.orders", "id", "new")
    shopping.reshape("shop.people", "id", "new")
    assert shopping.memory("shop.orders") == ("id",), "its change has not arrived"
    for _ in range(4):
        assert shopping.columns("shop.people") == ("id", "new")
    assert len(shopping.pulls()) == 2
    shopping.release()
    assert len(shopping.pulls()) == 2


def test_tables_that_are_pulled_in_turns_while_the_hub_lags_do_not_evict_each_other() -> None:
    """P-PULL-17: a reply says which of its topic are as they were, and that is enough."""
    shopping = one_topic("orders", "people", "stock", "visits")
    read = ("shop.orders", "shop.people", "shop.stock")
    lag(shopping)
    for _ in range(5):
        for name in read:
            shopping.reshape("shop.visits", "id", "new")
            shopping.columns(name)
    assert len(shopping.pulls()) == len(read)
    for _ in range(2):
        assert [shopping.memory(name) for name in read] == [("id",)] * len(read)
        shopping.release()
    assert len(shopping.pulls()) == len(read)


def test_table_that_is_older_than_a_reply_of_its_topic_waits_for_the_hub() -> None:
    """P-PULL-6."""
    shopping = one_topic()
    shopping.columns("shop.orders")
    lag(shopping)
    shopping.reshape("shop.people", "id", "new")
    shopping.reshape("shop.orders", "id", "new")
    shopping.columns("shop.people")
    assert shopping.memory("shop.orders") is None, "the reply says that it has changed"
    shopping.release()
    assert shopping.memory("shop.orders") is None
    assert shopping.columns("shop.orders") == ("id", "new")
    assert len(shopping.pulls()) == 3


def test_reply_that_is_newer_is_answered_until_a_stub_says_that_it_is_stale() -> None:
    shopping = lag(one_topic())
    shopping.reshape("shop.people", "id", "new")
    shopping.columns("shop.people")
    shopping.reshape("shop.people", "id", "newer")
    assert shopping.memory("shop.people") == ("id", "new")
    shopping.release()
    assert shopping.memory("shop.people") is None


def placed(*kinds: type) -> Shopping:
    """Return a shopping that has read shop.orders, whose topic has no position yet."""
    shopping = Shopping(Shop(("orders",)), num_topics=1, late=True)
    shopping.leave("shop.orders")
    shopping.hold(HUB, READER, *kinds)
    shopping.begin(lambda catalog: catalog.join(0, "minimal"))
    assert shopping.columns("shop.orders") == ("id",)
    return shopping


def test_reply_of_a_topic_that_is_being_joined_is_kept() -> None:
    shopping = placed(Joined)
    assert shopping.memory("shop.orders") is None, "no stub of it would come"
    shopping.release()
    assert shopping.memory("shop.orders") == ("id",)
    assert len(shopping.pulls()) == 1


@pytest.mark.parametrize("kind", [Barrier, Joined])
def test_reply_is_not_kept_where_its_topic_is_joined_above_it(kind: type) -> None:
    """P-PULL-5: nor if the stub comes while it is being joined."""
    shopping = placed(kind)
    shopping.shop.reshape("shop.orders", ("id", "new"))
    shopping.pass_time(0.7)
    shopping.release()
    assert shopping.memory("shop.orders") is None
    assert shopping.columns("shop.orders") == ("id", "new")


def test_topic_that_is_behind_answers_nothing_of_what_was_pulled() -> None:
    shopping = one_topic()
    shopping.columns("shop.orders")
    shopping.lose(HUB, READER, Delta)
    shopping.hold(HUB, READER, Chunk)
    shopping.reshape("shop.people", "id", "lost")
    assert shopping.columns("shop.orders") == ("id",)
    assert shopping.memory("shop.orders") is None
    shopping.release()
    assert shopping.memory("shop.orders") == ("id",)


def test_delta_that_just_follows_at_minimal_is_applied_the_short_way_and_no_other() -> None:
    follower = Follower(0, MINIMAL, epoch=10, version=5)
    follower.state = LIVE
    replica = TopicReplica(follower)
    sent = delta(5, 6, topic=0, level=MINIMAL, epoch=10, stubbed=True, entries=())
    assert not replica.step(replace(sent, level=FULL)), "it is of another level"
    assert not replica.step(replace(sent, from_version=6)), "one is missing"
    replica.coming = Follower(0, FULL)
    assert not replica.step(sent), "its level changes"
    replica.coming = None
    assert replica.step(sent)
    assert replica.position == (10, 6)
    assert not replica.step(sent), "it was applied"


# At full, where content is withheld


def full(*names: str) -> Shopping:
    """Return a shopping at full in which only stubs of the tables ``names`` are sent."""
    return Shopping(late=True, mode=withholding(*names))


def with_others(*names: str) -> Shopping:
    """Return a shopping at full, of one topic, with shop.log withheld, whose hub lags.

    Every table has a hundred partitions; ``names`` were read.
    """
    shop = Shop((), partitions=0)
    for name in ("log", *names):
        shop.create(f"shop.{name}", keys=("ds",))
        shop.add(f"shop.{name}", PARTITIONS)
    shopping = Shopping(shop, num_topics=1, late=True, mode=withholding("log"))
    for name in names:
        assert shopping.memory(f"shop.{name}") == ("id",)
    return lag(shopping)


def bytes_of(shopping: Shopping, name: str) -> int:
    return shopping.topics()[shopping.topic(f"shop.{name}")].bytes


def test_table_that_is_withheld_no_more_is_held_once() -> None:
    shopping = full("orders")
    shopping.columns("shop.orders")
    shopping.cluster.catalogd.turn_mode(Mode())
    shopping.settle()
    shopping.reshape("shop.orders", "id", "pushed")
    assert shopping.memory("shop.orders") == ("id", "pushed")
    shopping.pass_time(3)
    info = shopping.topics()[shopping.topic("shop.orders")]
    assert info.bytes == info.full_bytes
    assert len(shopping.pulls()) == 1


def test_content_that_was_pulled_of_a_withheld_table_ends_with_its_epoch() -> None:
    shopping = full("orders")
    assert shopping.columns("shop.orders") == ("id",)
    before = shopping.cluster.catalogd.store
    store = SimStore.of(4, epoch=before.epoch + 1)
    store.mode_state = before.mode_state
    shopping.restart_catalogd(store)
    shopping.pass_time(3)
    assert shopping.memory("shop.items") == ("id",)
    assert shopping.memory("shop.orders") is None
    assert shopping.columns("shop.orders") == ("id",)


def test_reply_during_a_catch_up_is_answered_and_not_kept() -> None:
    shopping = full("orders")
    shopping.columns("shop.orders")
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.hold(HUB, READER, Chunk)
    shopping.reshape("shop.orders", "id", "lost")
    before = bytes_of(shopping, "orders")
    assert shopping.columns("shop.orders") == ("id", "lost")
    assert (shopping.memory("shop.orders"), bytes_of(shopping, "orders")) == (None, before)
    shopping.release()
    assert shopping.columns("shop.orders") == ("id", "lost")
    assert shopping.memory("shop.orders") == ("id", "lost")


def test_reply_that_comes_when_the_topic_is_pushed_is_not_held_twice() -> None:
    shopping = Shopping(late=True)
    held = bytes_of(shopping, "orders")
    shopping.leave("shop.orders")
    shopping.hold(CATALOGD, READER, Pulled)
    worker = shopping.begin(lambda catalog: catalog.table("shop.orders") and None)
    shopping.join("shop.orders")
    shopping.release()
    assert not worker.alive
    assert bytes_of(shopping, "orders") == held


def test_bytes_of_pulled_content_are_free_when_the_level_changes() -> None:
    shopping = full("orders")
    shopping.columns("shop.orders")
    shopping.join("shop.orders", level="minimal")
    assert bytes_of(shopping, "orders") == MINIMAL_BYTES
    shopping.columns("shop.orders")
    shopping.join("shop.orders")
    assert shopping.memory("shop.orders") is None
    shopping.columns("shop.orders")
    shopping.leave("shop.orders")
    assert bytes_of(shopping, "orders") == 0


def test_withheld_tables_are_evicted_when_room_is_needed_and_a_stub_needs_none() -> None:
    rigid = full(*NAMES).stats().held_bytes
    limit = rigid + 1700
    shopping = Shopping(late=True, mode=withholding(*NAMES), budget_bytes=limit)
    for name in (*(name for name in NAMES if name != "sales"), "sales"):
        assert shopping.columns(f"shop.{name}") == ("id",)
        assert shopping.memory(f"shop.{name}") == ("id",)
        assert shopping.stats().held_bytes <= limit
    assert shopping.stats().evictions > 0
    for name in NAMES:
        shopping.reshape(f"shop.{name}", "id", "more")
        assert shopping.memory(f"shop.{name}") is None
    assert shopping.stats().held_bytes == rigid


def test_tables_in_use_beside_a_withheld_table_are_answered_while_the_hub_lags() -> None:
    """P-PULL-17: at full, too, a reply says which of its topic are as they were."""
    shopping = with_others("orders", "people")
    shopping.reshape("shop.log", "id", "new")
    shopping.partitions("shop.log")
    assert [claim.table for claim in shopping.pulls()[-1].claims] == ["people", "orders"]
    for _ in range(2):
        assert shopping.memory("shop.orders") == shopping.memory("shop.people") == ("id",)
        shopping.release()
    assert len(shopping.pulls()) == 1


def test_table_that_changed_beside_a_withheld_table_is_pulled_while_the_hub_lags() -> None:
    """P-PULL-6."""
    shopping = with_others("orders", "people")
    shopping.reshape("shop.people", "id", "new")
    shopping.reshape("shop.log", "id", "new")
    shopping.partitions("shop.log")
    assert shopping.columns("shop.people") == ("id", "new")
    assert shopping.memory("shop.orders") == ("id",)
    assert shopping.memory("shop.people") is None, "the hub brings what is held in full"
    shopping.release()
    assert shopping.memory("shop.people") == ("id", "new")


def test_table_held_in_full_does_not_come_again_where_a_pull_finds_it_unchanged() -> None:
    """P-PULL-2, P-PULL-17: it is claimed by its own pull, though it was never read."""
    shop = Shop((), partitions=0)
    for name in ("log", "people"):
        shop.create(f"shop.{name}", keys=("ds",))
        shop.add(f"shop.{name}", PARTITIONS)
    shopping = lag(Shopping(shop, num_topics=1, late=True, mode=withholding("log")))
    shopping.reshape("shop.log", "id", "new")
    shopping.partitions("shop.log")
    assert shopping.memory("shop.people") is None, "it was not claimed"
    assert len(shopping.partitions("shop.people")) == 100
    came = [len(part.entries) for part in shopping.messages(Pulled, sender=CATALOGD)]
    assert (came[0] > 2, came[1]) == (True, 0)
    assert shopping.memory_of_partitions("shop.people") is not None
    assert len(shopping.pulls()) == 2
