"""Lineage and epochs of catalogd: nothing of a new one before it is compared."""

from dataclasses import replace
from hashlib import sha256

from topicast.subscriber.protocol.channels import Channel
from topicast.subscriber.replication.lineage import Lineage
from topicast.tests.subscriber.source import NAMES, Catalog, shop
from topicast.tests.subscriber.world import World, started
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import (
    Chunk,
    Compare,
    Compared,
)


def test_new_start_is_accepted_only_once_catalogd_confirms_it() -> None:
    """P-START-6."""
    world = started()
    catalog = world.catalog
    world.deaf.add(Channel.SERVICE)
    catalog.start = 2
    world.publish(catalog.put_table("shop", "orders", columns=("id", "new")))
    world.pass_time(1)
    assert world.columns("orders") == ("id",)  # the old is served meanwhile
    compare = world.said(Compare)[-1]
    assert isinstance(compare, Compare)
    assert (compare.epoch, compare.start) == (10, 1)
    versions = dict(compare.versions)
    assert versions[NAMESPACE] == catalog.topics[NAMESPACE].version
    world.deaf.clear()
    world.pass_time(2)
    assert world.columns("orders") == ("id", "new")


def test_restored_store_is_noticed_though_its_versions_are_the_same() -> None:
    world = started()
    catalog = world.catalog
    topic = catalog.topic("shop", "orders")
    catalog.start, world.accepting = 2, False
    delta = catalog.put_table("shop", "orders", columns=("id", "other"))
    world.publish(delta)
    world.pass_time(1)
    assert world.columns("orders") == ("id",)
    replacement = shop()
    replacement.epoch, replacement.start = 11, 3
    for held in replacement.topics.values():
        held.epoch = 11
    replacement.put_table("shop", "orders", columns=("minted",))
    world.catalog = replacement
    world.pass_time(3)
    assert world.columns("orders") == ("minted",)
    assert topic in replacement.topics


def test_late_frames_of_an_old_start_are_refused() -> None:
    world = started()
    catalog = world.catalog
    old = catalog.put_table("shop", "orders", columns=("id", "lost"))
    before = catalog.topics[old.topic].version
    catalog.start = 2
    world.pass_time(0.6)
    assert len(world.said(Compare)) == 1
    entry = old.entries[0]._replace(version=before + 1)
    newer = replace(old, from_version=before, to_version=before + 1, entries=(entry,))
    world.hear(Channel.DATA, newer)
    world.pass_time(0.6)
    assert len(world.said(Compare)) == 1
    assert world.topics()[old.topic].version == before


def test_chunks_of_a_start_that_is_not_accepted_are_not_applied() -> None:
    world = started()
    catalog = world.catalog
    world.deaf.add(Channel.SERVICE)
    catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.pass_time(0.3)
    world.kept = [
        (channel, replace(message, start=2))
        for channel, message in world.kept
        if isinstance(message, Chunk)
    ]
    world.release()
    assert world.columns("orders") is None
    assert any(isinstance(message, Compare) for message in world.said(Compare))
    world.deaf.clear()
    catalog.start = 2
    world.pass_time(3)
    assert world.columns("orders") == ("id", "lost")


def test_queued_deltas_are_part_of_what_is_compared() -> None:
    world = started()
    catalog = world.catalog
    topic = catalog.topic("shop", "orders")
    catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.publish(catalog.put_table("shop", "orders", columns=("id", "gap")))
    world.publish(catalog.put_table("shop", "orders", columns=("id", "queued")))
    queued = catalog.topics[topic].version
    world.deaf.add(Channel.SERVICE)
    catalog.start = 2
    world.pass_time(0.3)
    compare = world.said(Compare)[-1]
    assert isinstance(compare, Compare)
    assert dict(compare.versions)[topic] == queued


def test_new_epoch_replaces_everything_and_shows_nothing_in_between() -> None:
    world = started()
    replacement = Catalog(epoch=11, start=5)
    replacement.create_database("other")
    replacement.create_table("other", "only")
    world.catalog = replacement
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    world.pass_time(1)
    assert world.view.databases() is None
    world.release()
    world.pass_time(1)
    assert world.view.databases() == ("other",)
    assert world.view.tables("other") == ("only",)
    assert world.stats().held_bytes == sum(map(replacement.live_bytes, replacement.topics))


def _shop_of(epoch: int) -> Catalog:
    catalog = shop()
    catalog.epoch, catalog.start = epoch, epoch
    for held in catalog.topics.values():
        held.epoch = epoch
    return catalog


def test_content_of_two_epochs_is_not_combined() -> None:
    """Incarnations are unique within an epoch: an equal number of another says nothing."""
    world = started()
    world.catalog = _shop_of(11)
    for _ in range(2):  # the first is compared, the second caught up; no heartbeat comes between
        world.publish(*world.catalog.create_database("other"))
    assert world.view.databases() == ("other", "shop")
    assert world.columns("orders") is None  # of epoch 10, with the same incarnation
    world.pass_time(0.3)
    assert world.columns("orders") == ("id",)
    world.catalog = _shop_of(12)
    for _ in range(2):
        world.publish(world.catalog.put_table("shop", "orders", columns=("of", "12")))
    assert world.columns("orders") is None
    world.pass_time(0.3)
    assert world.columns("orders") == ("of", "12")


def test_epoch_with_another_number_of_topics_begins_anew() -> None:
    world = started()
    replacement = Catalog(8, epoch=11, start=5)
    replacement.create_database("other")
    replacement.create_table("other", "only")
    world.catalog = replacement
    world.pass_time(2)
    assert world.view.tables("other") == ("only",)
    assert set(world.topics()) == set(replacement.topics)


def test_catalogd_that_moves_is_followed() -> None:
    world = started()
    world.catalog_address = "tcp://elsewhere:26000"
    topic = world.catalog.topic("shop", "orders")
    world.ask("drop", topics=(topic,))
    number = world.table("shop.orders")
    assert number not in world.answers
    world.pass_time(0.3)
    assert number in world.answers


def test_accepted_start_is_asked_soon_for_what_was_refused_of_it() -> None:
    world = started()
    world.catalog.start = 2
    world.catalog.put_table("shop", "orders", columns=("id", "new"))
    world.held_back = lambda channel, message: isinstance(message, Compared)
    world.pass_time(0.3)
    behind = replace(world.catalog.put_table("shop", "orders", columns=("x",)), start=1)
    world.hear(Channel.DATA, behind)  # a gap: the catch-up comes from the new start
    assert world.columns("orders") is None
    world.release()
    world.pass_time(0.3)  # and not after the silence of a lost stream
    assert world.columns("orders") == ("x",)


def test_chunks_of_an_unfinished_catch_up_are_part_of_what_is_compared() -> None:
    world = started()
    catalog = world.catalog
    topic = catalog.topic("shop", "sales")
    noise = {f"ds=y{i:05}": {"n": sha256(b"%d" % i).hexdigest()} for i in range(20_000)}
    catalog.put_partitions("shop", "sales", noise)
    last = catalog.topics[topic].version
    world.held_back = lambda channel, message: isinstance(message, Chunk) and message.last
    world.pass_time(0.3)
    world.deaf.add(Channel.SERVICE)
    catalog.start = 2
    world.pass_time(0.3)
    compare = world.said(Compare)[-1]
    assert isinstance(compare, Compare)
    assert dict(compare.versions)[topic] == last


def test_position_without_an_entry_is_part_of_what_is_compared() -> None:
    catalog = shop()
    topic = next(t for t in catalog.topics if not len(catalog.topics[t]) or t == 0)
    for name in NAMES:
        if catalog.topic("shop", name) == topic:
            catalog.drop_table("shop", name)
    catalog.topics[topic].version += 5
    catalog.topics[topic].raise_floor(catalog.topics[topic].version)
    assert list(catalog.topics[topic].since(0)) == []
    world = World(catalog)
    world.start()
    world.deaf.add(Channel.SERVICE)
    catalog.start = 2
    world.pass_time(0.3)
    compare = world.said(Compare)[-1]
    assert isinstance(compare, Compare)
    assert dict(compare.versions)[topic] == catalog.topics[topic].version


def test_answer_to_an_earlier_comparison_is_not_taken_for_the_last_one() -> None:
    world = started()
    world.deaf.add(Channel.SERVICE)
    world.catalog.start = 2
    world.pass_time(1.2)
    first, last = world.said(Compare)[0], world.said(Compare)[-1]
    assert isinstance(first, Compare)
    assert isinstance(last, Compare)
    assert first.request != last.request
    answer = Compared(request=first.request, accepted=True, epoch=10, start=2)
    world.hear(Channel.SERVICE, answer)
    world.publish(world.catalog.put_table("shop", "orders", columns=("id", "new")))
    assert world.columns("orders") == ("id",)
    world.hear(Channel.SERVICE, replace(answer, request=last.request))
    world.pass_time(0.3)
    assert world.columns("orders") == ("id", "new")


def test_deltas_queued_from_a_lost_epoch_are_not_compared_with_another() -> None:
    world = started()
    catalog = world.catalog
    topic = catalog.topic("shop", "orders")
    world.held_back = lambda channel, message: isinstance(message, Chunk)
    catalog.put_table("shop", "orders", columns=("id", "lost"))
    world.publish(catalog.put_table("shop", "orders", columns=("id", "gap")))
    replicas = world.member._subscriptions.replicas
    delta = replace(catalog.put_table("shop", "orders", columns=("id", "x")), epoch=11)
    replicas.on_delta(delta, now=world.now)
    assert dict(replicas.versions(10))[topic] < delta.to_version
    assert dict(replicas.versions(11))[topic] == delta.to_version


def test_late_frame_of_a_lower_epoch_is_no_first_contact() -> None:
    """Given a reader that holds nothing of a new epoch, an old frame is compared, not accepted."""
    lineage = Lineage()
    assert lineage.accepts((5, 1), holds=False, now=0.0)
    assert not lineage.accepts((4, 9), holds=False, now=1.0)
    assert lineage.accepted == (5, 1)
    assert lineage.deadline == 1.0


def test_another_start_of_the_epoch_is_compared_also_by_who_holds_nothing() -> None:
    """P-START-6: also by who holds nothing, within an epoch."""
    lineage = Lineage()
    assert lineage.accepts((5, 1), holds=False, now=0.0)
    assert not lineage.accepts((5, 2), holds=False, now=1.0)
    assert lineage.accepted == (5, 1)
    assert lineage.accepts((6, 3), holds=False, now=2.0)
