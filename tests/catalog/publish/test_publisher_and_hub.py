import pytest

from topicast.tests.catalog.hub_world import NUM_TOPICS, UNACKED_MAX, World
from topicast.topics.entries import Entry, prefix_tombstone, tombstone
from topicast.topics.sharding import NAMESPACE, topic_ids


def value(world: World, number: int, content: bytes = b"v", key: bytes = b"a\0b\0") -> Entry:
    version = world.catalog.topics[number].version + 1
    return Entry(key, version, version, version, len(content), content)


def write_something(world: World) -> None:
    """Commit one random transaction."""
    rng = world.rng
    number = rng.choice(topic_ids(NUM_TOPICS))
    topic = world.catalog.topics[number]
    group = b"d\0t%d\0" % rng.randrange(3)
    key = group + rng.choice([b"", b"\x01p", b"\x01q"])
    entry = value(world, number, rng.randbytes(rng.choice([1, 100, 70_000])), key)
    kind = rng.random()
    if kind < 0.1:
        entry = prefix_tombstone(group, topic.version + 1)
    elif kind < 0.25:
        entry = tombstone(key, topic.version + 1)
    world.commit(number, entry)
    if kind > 0.97:
        topic.raise_floor(rng.randint(0, topic.version))


def disturb(world: World) -> None:
    """Let one random fault happen."""
    site = world.rng.choice(world.sites)
    match world.rng.randrange(6):
        case 0:
            world.cut(site)
        case 1:
            world.restart_hub(site)
        case 2:
            site.frozen_until = world.now + world.rng.uniform(0.5, 4)
        case 3:
            world.catalog.start(world.catalog.published.position[0])
            world.restart_catalog()
        case 4:
            world.catalog.restore(world.saved)
            world.restart_catalog()
        case _:
            world.saved = world.catalog.saved()


@pytest.mark.parametrize("seed", range(12))
def test_hubs_converge_and_never_roll_back_whatever_happens(seed: int) -> None:
    world = World(seed, hubs=2, loss=0.02)
    world.saved = world.catalog.saved()
    while world.now < 120:
        world.step()
        if world.rng.random() < 0.1:
            write_something(world)
        if world.rng.random() < 0.005:
            disturb(world)
    world.loss = 0.0
    deadline = world.now + 12
    while world.now < deadline and not all(map(world.converged, world.sites)):
        world.step()
    assert all(map(world.converged, world.sites))


def test_hub_that_lacks_nothing_is_sent_next_to_nothing_by_another_start() -> None:
    world = World()
    world.run(1)
    for _ in range(200):
        number = world.rng.randrange(NUM_TOPICS)
        world.commit(number, value(world, number, b"x" * 5000, world.rng.randbytes(3) + b"\0b\0"))
    world.run(1)
    assert world.converged(world.site)
    deltas, chunks = len(world.site.told), world.site.hub.counts.chunks
    world.catalog.start(world.catalog.published.position[0])
    world.restart_catalog()
    world.run(2)
    assert world.converged(world.site)
    assert world.catalog.minted == 0
    assert (len(world.site.told), world.site.hub.counts.chunks) == (deltas, chunks)


def test_restarted_hub_is_seeded_by_the_same_versions() -> None:
    world = World()
    world.run(1)
    world.commit(0, value(world, 0))
    world.restart_hub(world.site)
    world.run(2)
    assert world.converged(world.site)
    assert world.catalog.minted == 0


def test_old_copy_that_has_grown_past_the_lost_versions_ends_in_a_new_epoch() -> None:
    world = World(hubs=2)
    world.run(1)
    old = world.catalog.saved()
    world.commit(0, value(world, 0, b"lost"))
    world.run(1)
    world.catalog.restore(old)
    world.restart_catalog()
    world.commit(0, value(world, 0, b"other"))
    world.commit(0, value(world, 0, b"later", b"a\0c\0"))
    world.run(3)
    assert all(map(world.converged, world.sites))
    assert world.catalog.minted == 1
    assert world.catalog.published.position[0] == 1001


def test_frozen_hub_costs_bounded_memory_and_the_other_hub_nothing() -> None:
    world = World(hubs=2)
    world.run(1)
    frozen, other = world.sites
    frozen.frozen_until = world.now + 1.5
    for _ in range(2 * UNACKED_MAX):
        world.commit(0, value(world, 0, b"x" * 1000))
        if world.rng.random() < 0.02:
            world.step()
    assert frozen.publisher.counts.skipped > 0
    assert len(frozen.to_hub) < UNACKED_MAX + 100
    assert other.publisher.counts.skipped == 0
    world.run(0.2)
    assert world.converged(other)
    assert not world.converged(frozen)
    world.run(4)
    assert world.converged(frozen)


def test_hub_frozen_for_five_seconds_is_led_again_when_it_wakes() -> None:
    world = World()
    world.run(1)
    world.site.frozen_until = world.now + 5
    world.run(5)
    world.commit(NAMESPACE, value(world, NAMESPACE))
    assert "WAITING" in world.site.states
    world.run(2.5)
    assert world.converged(world.site)


def test_large_transaction_reaches_the_hub_by_catch_up_and_its_readers_as_stubs() -> None:
    world = World()
    world.run(1)
    world.commit(0, value(world, 0))
    world.commit(0, value(world, 0, b"x" * 70_000))
    world.run(1)
    assert world.converged(world.site)
    told = world.site.told[-1]
    assert (told.from_version, told.to_version, told.stubbed) == (1, 2, True)
    assert [(entry.size, entry.value) for entry in told.entries] == [(70_000, None)]
