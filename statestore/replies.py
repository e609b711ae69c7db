"""Answers: what a hub says of itself and of its topics, as pure functions of what it holds."""

from dataclasses import dataclass
from typing import Final

from ..topics.entries import FULL
from ..topics.offers import offered
from ..topics.wire.header import FEATURES, PROTOCOL
from ..topics.wire.messages import (
    BEHIND,
    CURRENT,
    DENIED,
    SNAPSHOT,
    Heartbeat,
    Hello,
    Position,
    TopicState,
    Welcome,
)
from .ingest import Ingest

SIZES_EVERY: Final = 20  # heartbeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a hub is from its start to its end."""

    hub_id: int
    data_address: str
    heartbeat_ms: int
    lost_ms: int


def welcome(identity: Identity, ingest: Ingest, hello: Hello) -> Welcome:
    """Answer a Hello; epoch and number of topics are 0 until a publisher announced."""
    return Welcome(
        protocol=min(PROTOCOL, hello.protocol_max),
        features=hello.features & FEATURES,
        hub=identity.hub_id,
        epoch=ingest.epoch,
        start=ingest.start,
        num_topics=ingest.num_topics,
        data_address=identity.data_address,
        catalog_address=ingest.catalog_address,
        catalog_name=ingest.catalog_name,
        heartbeat_ms=identity.heartbeat_ms,
        lost_ms=identity.lost_ms,
    )


def state(ingest: Ingest, position: Position, *, joined: bool = False) -> TopicState:
    """Answer one position of a Join; a hub that is behind the reader has nothing to add.

    ``joined``: the reader has the topic at that level, which need not be offered any more.
    """
    slot = ingest.slots.get(position.topic)
    may = joined or offered(ingest.offers, position.topic, position.level)
    if slot is None or not may:
        answer, version, full_bytes = DENIED, 0, 0
    else:
        version, floor = slot.topic.version, slot.topic.floor
        full_bytes = slot.topic.held_bytes if position.level == FULL else 0
        same = position.epoch == ingest.epoch
        if same and position.version >= version:
            answer = CURRENT
        elif same and position.version >= max(floor, 1):
            answer = BEHIND
        else:
            answer = SNAPSHOT
    return TopicState(
        topic=position.topic,
        level=position.level,
        answer=answer,
        version=version,
        full_bytes=full_bytes,
    )


def lag_versions(ingest: Ingest, position: Position) -> int:
    """Tell how many versions ``position``, of a topic that exists, is behind the hub's."""
    version = ingest.slots[position.topic].topic.version
    return max(0, version - position.version) if position.epoch == ingest.epoch else version


def heartbeat(
    identity: Identity, ingest: Ingest, *, sequence: int, sent_us: int, age_ms: int
) -> Heartbeat:
    """Say where the hub stands; without a vector while it is being seeded."""
    topics = [] if ingest.seeding else [slot.topic for slot in ingest.slots.values()]
    sized = topics if sequence % SIZES_EVERY == 1 else []
    return Heartbeat(
        hub=identity.hub_id,
        epoch=ingest.epoch,
        start=ingest.start,
        sequence=sequence,
        interval_ms=identity.heartbeat_ms,
        sent_us=sent_us,
        watermark=ingest.watermark,
        age_ms=age_ms,
        catalog_address=ingest.catalog_address,
        versions=tuple(topic.version for topic in topics),
        floors=tuple(topic.floor for topic in topics),
        sizes=tuple(topic.held_bytes for topic in sized),
        offers=ingest.offers,
    )
