"""Starts and epochs of catalogd: nothing of a new start is applied before it is compared."""

from dataclasses import replace

import pytest

from topicast.subscriber.client.subscriber import Subscriber
from topicast.subscriber.protocol import effects
from topicast.subscriber.protocol.effects import BeginAnew, ConnectCatalog, Connection
from topicast.subscriber.replication.lineage import AGAIN_S, NO_START, Lineage
from topicast.subscriber.replication.topic_replica import TopicReplica
from topicast.tests.cluster.cluster import NetworkOrder
from topicast.tests.cluster.shop import NAMES
from topicast.tests.cluster.shopping import Shopping
from topicast.tests.topics.following import delta
from topicast.topics.errors import StaleMetadata
from topicast.topics.streams import sender
from topicast.topics.streams.follower import Follower
from topicast.topics.topic import FULL, NAMESPACE
from topicast.topics.wire.messages.catalog import Compare, Compared
from topicast.topics.wire.messages.data import Chunk, Delta, Heartbeat
from topicast.topics.wire.messages.readers import Joined

HUB, READER, CATALOGD = "hub-0", "reader-0", "catalogd"


def late() -> Shopping:
    return Shopping(late=True)


def compared(shopping: Shopping) -> dict[int, int]:
    """Return the versions that the last comparison claims."""
    return dict(shopping.messages(Compare)[-1].versions)


def published(shopping: Shopping, topic: int) -> int:
    return shopping.cluster.catalogd.published.topics[topic].version


def miss(shopping: Shopping, name: str = "shop.orders") -> None:
    """Let the reader miss a change of a table."""
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.reshape(name, "id", "lost")


def test_new_start_is_accepted_only_once_catalogd_confirms_it() -> None:
    """P-START-6."""
    shopping = late()
    before = shopping.cluster.catalogd.store
    epoch, start = before.epoch, before.starts[-1].start
    shopping.hold(CATALOGD, READER, Compared)
    shopping.restart_catalogd()
    shopping.shop.reshape("shop.orders", ("id", "new"))
    shopping.pass_time(2)
    assert shopping.memory("shop.orders") == ("id",), "what was accepted is served meanwhile"
    compare = shopping.messages(Compare)[-1]
    assert (compare.epoch, compare.start) == (epoch, start)
    assert compared(shopping)[NAMESPACE] == published(shopping, NAMESPACE)
    shopping.release()
    shopping.settle()
    assert shopping.memory("shop.orders") == ("id", "new")


def test_restored_store_is_noticed_though_its_versions_are_the_same() -> None:
    """P-FOLLOW-5."""
    shopping = late()
    copy = shopping.cluster.catalogd.store.copy()
    shopping.reshape("shop.orders", "id", "seen")
    topic = shopping.topic("shop.orders")
    seen, epoch = published(shopping, topic), copy.epoch
    shopping.cluster.catalogd.crash()
    shopping.shop.reshape("shop.orders", ("of the other store",))
    shopping.hold(CATALOGD, READER, Compared)
    shopping.restart_catalogd(copy)
    shopping.pass_time(2)
    assert published(shopping, topic) == seen
    assert shopping.memory("shop.orders") == ("id", "seen")
    shopping.release()
    shopping.pass_time(3)
    assert shopping.cluster.catalogd.store.epoch > epoch
    assert shopping.memory("shop.orders") == ("of the other store",)


def test_late_frames_of_an_old_start_are_refused() -> None:
    shopping = late()
    shopping.reshape("shop.orders", "id", "more")
    old = shopping.messages(Delta, sender=HUB)[-1]
    shopping.restart_catalogd()
    shopping.pass_time(2)
    assert len(shopping.messages(Compare)) == 1
    version = published(shopping, old.topic)
    entry = old.entries[0]._replace(version=version + 1)
    newer = replace(old, from_version=version, to_version=version + 1, entries=(entry,))
    shopping.reader.handle(effects.Received(Connection.DATA, newer))
    shopping.pass_time(1)
    assert len(shopping.messages(Compare)) == 1
    assert shopping.topics()[old.topic].version == version


def test_chunks_of_a_start_that_is_not_accepted_are_not_applied() -> None:
    shopping = late()
    shopping.hold(HUB, READER, Chunk)
    miss(shopping)
    shopping.hold(CATALOGD, READER, Compared)
    shopping.restart_catalogd()
    shopping.pass_time(1)
    start = shopping.cluster.catalogd.store.starts[-1].start
    shopping.alter(Chunk, lambda chunk: replace(chunk, start=start))
    for held in shopping.messages(Chunk, sender=HUB)[-1:]:
        shopping.reader.handle(effects.Received(Connection.BULK, replace(held, start=start)))
    assert shopping.memory("shop.orders") is None
    assert shopping.messages(Compare)
    shopping.release()
    shopping.pass_time(3)
    assert shopping.memory("shop.orders") == ("id", "lost")


def test_queued_deltas_are_part_of_what_is_compared() -> None:
    shopping = late()
    shopping.hold(HUB, READER, Chunk)
    miss(shopping)
    shopping.reshape("shop.orders", "id", "queued")
    shopping.restart_catalogd()
    shopping.pass_time(1)
    topic = shopping.topic("shop.orders")
    assert compared(shopping)[topic] == published(shopping, topic)


def test_chunks_of_an_unfinished_catch_up_are_part_of_what_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender, "CHUNK_BYTES_MAX", 500)
    shopping = late()
    shopping.alter(Chunk, lambda chunk: () if chunk.last and chunk.topic == topic else chunk)
    topic = shopping.topic("shop.sales")
    shopping.lose(HUB, READER, Delta, count=1)
    shopping.shop.change("shop.sales", {f"ds={i:03}": {"n": "lost"} for i in range(100)})
    shopping.settle()
    assert len(shopping.messages(Chunk, sender=HUB)) > 2
    shopping.restart_catalogd()
    shopping.pass_time(1)
    assert compared(shopping)[topic] == published(shopping, topic)


def test_position_without_an_entry_is_part_of_what_is_compared() -> None:
    shopping = late()
    topic = shopping.topic("shop.orders")
    shopping.shop.drop("shop.orders")
    shopping.settle()
    shopping.cluster.catalogd.discard_tombstones(0)
    assert list(shopping.cluster.catalogd.published.topics[topic].since(0)) == []
    shopping.restart_catalogd()
    shopping.pass_time(1)
    assert compared(shopping)[topic] == published(shopping, topic) > 0


def test_new_epoch_replaces_everything_and_answers_nothing_in_between() -> None:
    shopping = late()
    for name in NAMES:
        shopping.shop.drop(f"shop.{name}")
    shopping.shop.create("shop.only")
    shopping.hold(HUB, READER, Chunk)
    shopping.lose_store()
    shopping.pass_time(2)
    assert shopping.reader.member.view.databases() is None
    shopping.release()
    shopping.settle()
    assert shopping.call(lambda catalog: catalog.tables("shop")) == ("only",)
    assert shopping.memory("shop.only") == ("id",)
    held = sum(info.full_bytes for info in shopping.topics().values())
    assert shopping.stats().held_bytes == held


def test_content_of_two_epochs_is_not_combined() -> None:
    """Incarnations are unique within an epoch: an equal number of another means nothing."""
    shopping = late()
    topic = shopping.topic("shop.orders")
    shopping.cluster.orders.append(
        NetworkOrder((HUB, READER), "Chunk", topic, hold=True, left=1 << 30)
    )
    shopping.cluster.orders.append(
        NetworkOrder((HUB, READER), "Delta", topic, hold=True, left=1 << 30)
    )
    shopping.lose_store()
    shopping.pass_time(3)
    assert shopping.memory("shop.people") == ("id",)
    assert shopping.memory("shop.orders") is None, "of the lost epoch, with the same incarnation"
    shopping.release()
    shopping.pass_time(2)
    assert shopping.memory("shop.orders") == ("id",)


def test_epoch_with_another_number_of_topics_begins_anew() -> None:
    shopping = late()
    shopping.lose_store(num_topics=8)
    shopping.pass_time(3)
    assert set(shopping.topics()) == {*range(8), NAMESPACE}
    assert [shopping.columns(f"shop.{name}") for name in NAMES] == [("id",)] * len(NAMES)


def test_answer_to_a_join_of_an_epoch_with_other_topics_plans_nothing() -> None:
    shopping = late()
    shopping.leave("shop.orders")
    shopping.hold(HUB, READER, Joined)
    joining = shopping.begin(join_in_vain)
    shopping.pass_time(0.3)
    shopping.lose_store(num_topics=8)
    while len(shopping.topics()) < 9:
        shopping.pass_time(0.05)
    shopping.release()
    shopping.pass_time(3)
    assert not joining.alive
    assert {one.level for one in shopping.topics().values()} == {"full"}


def join_in_vain(catalog: Subscriber) -> None:
    with pytest.raises(StaleMetadata, match="8 topics by now, and there were 4"):
        catalog.join("shop.orders")


@pytest.mark.parametrize("level", ["full", "minimal"])
def test_join_under_way_ends_once_its_topics_are_numbered_anew(level: str) -> None:
    """Given a join that waits, its topic's number is that of other tables in the next epoch."""
    shopping = Shopping(late=True, automatic=True)
    topic = shopping.topic("shop.orders")
    shopping.hold(HUB, READER, Joined)

    def join(catalog: Subscriber) -> None:
        with pytest.raises(StaleMetadata, match="join again"):
            catalog.join(topic, level)

    joining = shopping.begin(join)
    shopping.pass_time(0.3)
    shopping.lose_store(num_topics=8)
    shopping.pass_time(0.5)
    shopping.release()
    shopping.pass_time(5)
    assert not joining.alive
    assert [one.id for one in shopping.topics().values() if one.level != "none"] == [NAMESPACE]


@pytest.mark.parametrize("restarts", [False, True])
def test_levels_by_hand_end_once_topics_are_numbered_anew(restarts: bool) -> None:
    """Given all topics set by hand, the next ones are left to placement: a watch needs them all."""
    shopping = Shopping(late=True, automatic=True, watching=True)
    shopping.call(lambda catalog: catalog.join((0, 1)))
    shopping.call(lambda catalog: catalog.drop((2, 3)))
    if restarts:
        shopping.reader.perform((BeginAnew("a test says so"),))
    shopping.lose_store(num_topics=8)
    shopping.pass_time(12)
    assert not shopping.call(Subscriber.unfollowed)
    assert "set by hand" not in {one.why for one in shopping.topics().values()}


def test_catalogd_that_moves_is_followed() -> None:
    shopping = late()
    heartbeat = shopping.messages(Heartbeat, sender=HUB)[-1]
    moved = replace(heartbeat, catalog_address="tcp://elsewhere:26000")
    decided = shopping.reader.member.handle(
        effects.Received(Connection.DATA, moved), now=shopping.cluster.now
    )
    assert ConnectCatalog("tcp://elsewhere:26000") in decided


def test_what_was_refused_of_a_start_is_requested_soon_after_it_is_accepted() -> None:
    shopping = late()
    shopping.hold(CATALOGD, READER, Compared)
    shopping.hold(HUB, READER, Chunk, count=1)
    miss(shopping)
    shopping.restart_catalogd()
    shopping.pass_time(1)
    shopping.release()
    shopping.pass_time(0.5)  # and not after the silence of a lost stream
    assert shopping.memory("shop.orders") == ("id", "lost")


def test_answer_to_an_earlier_comparison_is_ignored() -> None:
    lineage = Lineage()
    assert lineage.accepts((10, 1), holds=False, now=0.0)
    for request in (1, 2):
        assert not lineage.accepts((10, 2), holds=True, now=request * AGAIN_S)
        lineage.due(request, (), now=request * AGAIN_S)
    answer = Compared(request=1, accepted=True, epoch=10, start=2)
    assert not lineage.on_compared(answer)
    refused = replace(answer, request=2, accepted=False)
    assert not lineage.on_compared(refused)
    assert lineage.accepted == (10, 1)
    assert not lineage.accepts((10, 2), holds=True, now=9.0)
    assert lineage.compare_at is not None
    assert lineage.compare_at > 9.0, "it is compared again after a pause"
    assert lineage.on_compared(replace(answer, request=2))
    assert lineage.accepted == (10, 2)


def test_deltas_queued_from_a_lost_epoch_are_not_compared_with_another() -> None:
    replica = TopicReplica(Follower(0, FULL, epoch=10, version=5))
    for missed in (delta(6, 7, topic=0, epoch=10), delta(7, 8, topic=0, epoch=11)):
        replica.current.handle(missed, now=0.0)
    assert (replica.newest_version(10), replica.newest_version(11)) == (7, 8)


def test_late_frame_of_a_lower_epoch_is_no_first_contact() -> None:
    """Given a reader that holds nothing of a new epoch, an old frame is compared, not accepted."""
    lineage = Lineage()
    assert lineage.accepts((5, 1), holds=False, now=0.0)
    assert not lineage.accepts((4, 9), holds=False, now=1.0)
    assert (lineage.accepted, lineage.compare_at) == ((5, 1), 1.0)


@pytest.mark.parametrize("start", [(0, 3), (7, 0)], ids=["no epoch", "no start"])
def test_what_no_catalogd_has_sent_is_not_compared(start: tuple[int, int]) -> None:
    """P-START-6."""
    lineage = Lineage()
    assert not lineage.accepts(start, holds=False, now=0.0)
    assert (lineage.accepted, lineage.compare_at) == (NO_START, None)


@pytest.mark.parametrize(("start", "believed"), [(0, False), (1, True)], ids=str)
def test_answer_that_names_no_start_is_ignored(start: int, believed: bool) -> None:
    """P-START-6."""
    lineage = Lineage()
    lineage.accepts((10, 5), holds=False, now=0.0)
    lineage.accepts((10, 7), holds=True, now=1.0)
    lineage.due(1, (), now=1.0)
    answer = Compared(request=1, accepted=True, epoch=10, start=start)
    assert lineage.on_compared(answer) is believed


def test_another_start_of_the_epoch_is_compared_even_if_nothing_is_held() -> None:
    """P-START-6: also by a reader that holds nothing, within an epoch."""
    lineage = Lineage()
    assert lineage.accepts((5, 1), holds=False, now=0.0)
    assert not lineage.accepts((5, 2), holds=False, now=1.0)
    assert lineage.accepted == (5, 1)
    assert lineage.accepts((6, 3), holds=False, now=2.0)
