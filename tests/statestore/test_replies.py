"""What a hub says of itself and of its topics."""

from dataclasses import replace

import pytest

from topicast.statestore.ingest import Ingest
from topicast.statestore.replies import (
    SIZES_EVERY,
    Identity,
    heartbeat,
    lag_versions,
    state,
    welcome,
)
from topicast.tests.statestore.scripted import (
    BULK,
    CATALOG,
    CONTROL,
    DATA,
    ScriptedPublisher,
    connect,
    hello,
    seeded,
)
from topicast.topics.entries import FULL, MINIMAL, NONE, tombstone
from topicast.topics.offers import ALL_OFFERED
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.header import FEATURES, PROTOCOL
from topicast.topics.wire.messages import (
    BEHIND,
    CONTROL_CHANNEL,
    CURRENT,
    DENIED,
    READER,
    SNAPSHOT,
    Position,
)

KEY = b"db\0table\0"
HUB = Identity(hub_id=77, data_address=DATA, heartbeat_ms=250, lost_ms=8000)


@pytest.fixture
def ingest() -> Ingest:
    """Topic 1 at version 3 with its floor at 2; the others empty."""
    stage, publisher = seeded()
    stage.put(BULK, publisher.change(1))
    stage.put(BULK, publisher.commit(1, tombstone(KEY, 2)))
    publisher.topics[1].forget(2)
    stage.put(BULK, publisher.change(1))
    stage.say(CONTROL, publisher.heartbeat(watermark=9))
    return stage.hub._ingest


def at(topic: int, version: int = 0, *, level: int = FULL, epoch: int = 10) -> Position:
    return Position(topic=topic, level=level, epoch=epoch, version=version)


def test_welcome_says_who_the_hub_is_and_whom_it_follows(ingest: Ingest) -> None:
    said = welcome(HUB, ingest, hello("reader", READER, CONTROL_CHANNEL))
    assert (said.hub, said.data_address) == (77, DATA)
    assert (said.heartbeat_ms, said.lost_ms) == (250, 8000)
    assert (said.epoch, said.start, said.num_topics) == (10, 5, 4)
    assert (said.catalog_address, said.catalog_name) == (CATALOG, "hive")


def test_welcome_before_any_publisher_has_epoch_and_topics_0() -> None:
    said = welcome(HUB, Ingest(), hello("reader", READER, CONTROL_CHANNEL))
    assert (said.epoch, said.start, said.num_topics) == (0, 0, 0)
    assert (said.catalog_address, said.catalog_name) == ("", "")


@pytest.mark.parametrize(("most", "features"), [(PROTOCOL, 0), (255, FEATURES | 1 << 63)])
def test_welcome_chooses_what_both_have(most: int, features: int) -> None:
    """P-VER-1."""
    greeting = hello("reader", READER, CONTROL_CHANNEL, protocol=(0, most))
    said = welcome(HUB, Ingest(), replace(greeting, features=features))
    assert (said.protocol, said.features) == (PROTOCOL, features & FEATURES)


@pytest.mark.parametrize(
    ("position", "answer"),
    [
        (at(1, 3), CURRENT),
        (at(1, 4), CURRENT),  # the hub lags, and has nothing to add
        (at(1, 2), BEHIND),
        (at(1, 1), SNAPSHOT),  # below the floor
        (at(1, 0), SNAPSHOT),
        (at(1, 3, epoch=9), SNAPSHOT),
        (at(1, 3, epoch=11), SNAPSHOT),
        (at(2, 0), CURRENT),
        (at(NAMESPACE), CURRENT),
    ],
    ids=str,
)
@pytest.mark.parametrize("level", [MINIMAL, FULL])
def test_topic_state_says_how_a_reader_comes_to_where_the_hub_is(
    ingest: Ingest, position: Position, answer: int, level: int
) -> None:
    """P-JOIN-1."""
    told = state(ingest, replace(position, level=level))
    assert (told.topic, told.level, told.answer) == (position.topic, level, answer)
    assert told.version == ingest.slots[position.topic].topic.version
    held_bytes = ingest.slots[position.topic].topic.held_bytes
    assert told.full_bytes == (held_bytes if level == FULL else 0)


@pytest.mark.parametrize("position", [at(4), at(99), at(1, level=NONE), at(1, 3, level=NONE)])
def test_topic_or_level_that_does_not_exist_is_denied(ingest: Ingest, position: Position) -> None:
    """P-JOIN-1."""
    told = state(ingest, position)
    assert (told.answer, told.version, told.full_bytes) == (DENIED, 0, 0)


def test_level_is_denied_unless_it_is_offered_or_joined_before(ingest: Ingest) -> None:
    """P-JOIN-5."""
    ingest.offers = MINIMAL
    assert state(ingest, at(1, 3)).answer == DENIED
    assert state(ingest, at(1, 3), joined=True).answer == CURRENT
    assert state(ingest, at(1, 3, level=MINIMAL)).answer == CURRENT
    assert state(ingest, at(99), joined=True).answer == DENIED


@pytest.mark.parametrize(
    ("position", "lag"), [(at(1, 3), 0), (at(1, 1), 2), (at(1, 7), 0), (at(1, 3, epoch=9), 3)]
)
def test_lag_is_counted_in_versions_of_the_hubs_epoch(
    ingest: Ingest, position: Position, lag: int
) -> None:
    assert lag_versions(ingest, position) == lag


def test_heartbeat_says_where_every_topic_stands(ingest: Ingest) -> None:
    """P-HEARTBEAT-2."""
    said = heartbeat(HUB, ingest, sequence=7, sent_us=123, age_ms=45)
    assert (said.hub, said.sequence, said.interval_ms) == (77, 7, 250)
    assert (said.sent_us, said.age_ms) == (123, 45)
    assert (said.epoch, said.start, said.watermark) == (10, 5, 9)
    assert said.catalog_address == CATALOG
    assert said.versions == (0, 3, 0, 0, 0)
    assert said.floors == (0, 2, 0, 0, 0)


def test_sizes_ride_the_first_heartbeat_and_each_20th_after_it(ingest: Ingest) -> None:
    """P-HEARTBEAT-2."""
    sized = [
        sequence
        for sequence in range(1, 3 * SIZES_EVERY)
        if heartbeat(HUB, ingest, sequence=sequence, sent_us=1, age_ms=0).sizes
    ]
    assert sized == [1, 21, 41]
    sizes = heartbeat(HUB, ingest, sequence=1, sent_us=1, age_ms=0).sizes
    assert sizes == tuple(slot.topic.held_bytes for slot in ingest.slots.values())


def test_heartbeat_while_seeding_has_no_vector_and_no_sizes(ingest: Ingest) -> None:
    """P-HEARTBEAT-3: also when one topic of many is missing, and before any publisher."""
    for number, slot in ingest.slots.items():
        slot.seeded = number != 2
    ingest._unseeded = 1
    for one in (ingest, Ingest()):
        said = heartbeat(HUB, one, sequence=1, sent_us=1, age_ms=0)
        assert (said.versions, said.floors, said.sizes) == ((), (), ())


def test_offers_are_all_until_catalogd_was_heard_and_then_what_it_said() -> None:
    """P-HEARTBEAT-5."""
    stage, publisher = seeded()
    ingest = stage.hub._ingest
    assert heartbeat(HUB, ingest, sequence=1, sent_us=1, age_ms=0).offers == ALL_OFFERED
    stage.say(CONTROL, replace(publisher.heartbeat(), offers=MINIMAL))
    assert heartbeat(HUB, ingest, sequence=2, sent_us=1, age_ms=0).offers == MINIMAL
    connect(stage, ScriptedPublisher(epoch=11))
    assert heartbeat(HUB, ingest, sequence=3, sent_us=1, age_ms=0).offers == MINIMAL
