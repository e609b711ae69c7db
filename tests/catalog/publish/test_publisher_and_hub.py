"""catalogd and hubs: whatever happens, each hub ends up with what catalogd holds, and no less."""

from collections import Counter
from random import Random

import pytest

from topicast.catalog.model.modes import Mode
from topicast.catalog.publish.publisher import UNACKED_MAX, FromHub
from topicast.tests.cluster.alone import Alone, loaded
from topicast.tests.cluster.catalogd import EPOCH_0
from topicast.tests.cluster.cluster import Cluster, NetworkOrder
from topicast.topics.objects.names import table_key
from topicast.topics.streams.follower import LIVE
from topicast.topics.topic import FULL, STUB, VALUE, Topic, table_topic
from topicast.topics.wire.messages.connection import BULK_CHANNEL
from topicast.topics.wire.messages.data import Chunk, Delta
from topicast.topics.wire.messages.readers import CatchUp, Wanted

LEAN, MIXED = Mode("minimal"), Mode("mixed")
T = table_key("d", "t")
NUMBER = table_topic("d", "t", 4)


def rows(topic: Topic) -> dict[bytes, tuple[int, bytes | None]]:
    """Return what a topic holds, without the tombstones that may be deleted at any time."""
    found = (entry for group in topic.group_ids() for entry in topic.rows(group))
    return {entry.key: (entry.version, entry.value) for entry in found}


def holds_everything(world: Cluster, number: int = 0) -> bool:
    """Return whether a hub holds what catalogd does, and knows it."""
    published, ingest = world.catalogd.published, world.hubs[number].hub.ingest
    if (ingest.epoch, ingest.start) != published.position or ingest.seeding:
        return False
    return all(
        ingest.followed[one].topic.version == topic.version
        and rows(ingest.followed[one].topic) == rows(topic)
        for one, topic in published.topics.items()
    )


def held(core: Alone) -> dict[bytes, int]:
    """Return what the hub holds of the topic of ``d.t``: keys of tables and their kinds."""
    topic = core.hubs[0].hub.ingest.followed[NUMBER].topic
    return {e.key: e.kind for g in topic.group_ids() for e in topic.rows(g) if e.key == g}


def change(core: Alone, times: int = 1) -> None:
    """Have catalogd commit transactions of the topic of ``d.t``."""
    for _ in range(times):
        core.catalog.tables.raise_data(("d", "t"), partitions=(), source=0)
        core.step()


def cut(core: Alone, hub: str) -> None:
    """Let nothing that is sent to and by ``hub`` arrive, until ``mend``."""
    for way in (("catalogd", hub), (hub, "catalogd")):
        core.orders.append(NetworkOrder(way, "*", None, hold=True, left=1 << 40))


def note_reached(world: Cluster, reached: dict[tuple[str, int, int], tuple[int, int]]) -> None:
    """Note how far each topic of each hub is; it never goes back while the hub lives."""
    for process in world.hubs:
        for number, followed in process.hub.ingest.followed.items():
            if followed.follower.state is LIVE:
                topic = (process.name, process.life, number)
                at = (followed.follower.epoch, followed.follower.version)
                assert at >= reached.get(topic, (0, 0))
                reached[topic] = at


@pytest.mark.parametrize("seed", range(2))
def test_hubs_converge_and_never_roll_back_whatever_happens(seed: int) -> None:
    world = Cluster(Random(seed), (), faults=True)
    reached: dict[tuple[str, int, int], tuple[int, int]] = {}
    for _ in range(600):
        world.run(world.now + 0.1)
        if world.rng.random() < 0.3:
            world.metastore.random_write()
        dice = world.rng.random()
        if dice < 0.03:
            victim = world.rng.choice([world.catalogd, *world.hubs])
            victim.crash()
            world.at(0.5, victim.revive)
        elif dice < 0.035:
            world.catalogd.crash()
            world.catalogd.restore(world.catalogd.old)
            world.at(0.5, world.catalogd.revive)
        note_reached(world, reached)
    world.faults = False
    world.run(world.now + 1)  # what died last is up again: the mode is turned of a catalogd
    world.catalogd.turn_mode(MIXED)
    world.run(world.now + 20)
    assert all(holds_everything(world, number) for number in range(2))


def test_hub_that_lacks_nothing_is_sent_next_to_nothing_by_another_start() -> None:
    core = loaded(*(f"t{number}" for number in range(40)), hubs=1)
    assert holds_everything(core)
    sent = core.record()
    core.restart()
    core.turn(20)
    assert holds_everything(core)
    assert core.counts["epochs minted"] == 0
    assert not [message for _, message in sent if isinstance(message, Delta | Chunk)]


def test_restarted_hub_is_seeded_by_the_same_versions() -> None:
    core = loaded(hubs=1)
    core.hubs[0].crash()
    core.hubs[0].revive()
    core.turn(60)
    assert holds_everything(core)
    assert core.counts["epochs minted"] == 0


def test_old_copy_that_has_grown_past_the_lost_versions_ends_in_a_new_epoch() -> None:
    core = loaded(hubs=2)
    old = core.catalogd.store.copy()
    change(core)
    core.turn(10)
    core.catalogd.crash()
    core.catalogd.restore(old)
    core.catalogd.revive()
    change(core, 2)
    core.turn(60)
    assert all(holds_everything(core, number) for number in range(2))
    assert core.catalog.position[0] == EPOCH_0 + 1
    assert core.counts["epochs minted"] == 1


def test_frozen_hub_costs_bounded_memory_and_the_other_hub_nothing() -> None:
    core = loaded(hubs=2)
    core.turn(20)
    cut(core, "hub-0")
    sent = core.record()
    for _ in range(UNACKED_MAX // 50 + 2):
        change(core, 50)
        core.wait(0.02)
    deltas = Counter(way[1] for way, one in sent if isinstance(one, Delta))
    assert deltas["hub-0"] <= UNACKED_MAX < deltas["hub-1"]
    assert len(core.held) < UNACKED_MAX + 100
    core.turn(2)
    assert holds_everything(core, 1)
    assert not holds_everything(core, 0)
    core.mend(hold=True)
    core.turn(60)
    assert holds_everything(core, 0)


def test_hub_frozen_for_five_seconds_is_led_again_when_it_wakes() -> None:
    core = loaded(hubs=1)
    cut(core, "hub-0")
    core.wait(5.0)
    change(core)
    assert core.catalogd.lines[0] > 1
    core.mend(hold=True)
    core.turn(60)
    assert holds_everything(core)


def test_large_transaction_reaches_the_hub_by_catch_up_and_its_readers_as_stubs() -> None:
    core = loaded(hubs=1)
    core.turn(20)
    sent = core.record()
    table = core.metastore.get_table("d", "t")
    table.parameters["comment"] = Random(1).randbytes(100_000).hex()
    core.metastore.alter_table("d", "t", table)
    core.turn(20)
    assert holds_everything(core)
    (delta,) = [one for _, one in sent if isinstance(one, Delta)]
    assert delta.stubbed
    assert [(entry.key, entry.value) for entry in delta.entries] == [(T, None)]
    assert delta.entries[0].size > 60_000


# what the mode withholds


def test_hub_keeps_what_it_has_gets_stubs_for_changes_and_values_again_afterwards() -> None:
    core = loaded("t", "l", hubs=1)
    assert table_topic("d", "l", 4) == NUMBER
    core.order("mode", "minimal")
    change(core)
    core.turn(10)
    assert held(core) == {T: STUB, table_key("d", "l"): VALUE}
    core.order("mode", "mixed")
    core.turn(10)
    assert held(core) == {T: VALUE, table_key("d", "l"): VALUE}
    assert holds_everything(core)


def test_hub_that_is_seeded_meanwhile_holds_stubs_and_then_values() -> None:
    core = loaded(hubs=1)
    core.order("mode", "minimal")
    core.hubs[0].crash()
    core.hubs[0].revive()
    core.turn(60)
    assert held(core) == {T: STUB}
    assert core.hubs[0].hub.status(now=core.now).offers == LEAN.offers
    core.order("mode", "mixed")
    core.turn(10)
    assert held(core) == {T: VALUE}
    assert core.hubs[0].hub.status(now=core.now).offers == MIXED.offers


def test_catch_up_of_what_is_withheld_brings_stubs() -> None:
    core = loaded(hubs=1)
    core.order("mode", "minimal", turns=20)
    wanted = Wanted(topic=NUMBER, level=FULL, epoch=EPOCH_0, version=0)
    asked = FromHub(BULK_CHANNEL, CatchUp(stream=99, credit=1 << 20, wanted=(wanted,)))
    to_hub = core.catalogd.publishers[0]
    assert to_hub.handle(asked, now=core.now, now_us=core.now_us) == ()
    (chunk,) = [one.message for one in to_hub.send_some(1)]
    assert isinstance(chunk, Chunk)
    assert {entry.kind for entry in chunk.entries} == {STUB}
    assert chunk.last, "it is all there is to have"
