"""A small world in one process: catalogd's publishing half, real hubs, lossy links, one clock."""

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from topicast.catalog.model.lineage import StartRecord
from topicast.catalog.model.versions import Transaction
from topicast.catalog.publish.deltas import UNACKED_BYTES_MAX, UNACKED_MAX, delta_of
from topicast.catalog.publish.publisher import (
    Committed,
    MintAbove,
    Minted,
    PublishedState,
    Publisher,
    Put,
    Received,
    Reconnect,
    Send,
    Tick,
)
from topicast.statestore import facts
from topicast.statestore.hub import Broadcast, Hub
from topicast.topics.entries import Entry
from topicast.topics.follower import LIVE
from topicast.topics.sharding import topic_ids
from topicast.topics.topic import Topic
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages import BULK_CHANNEL, CONTROL_CHANNEL, Delta, Refused, Welcome

STEP_S = 0.01
NUM_TOPICS = 4
CHANNELS = (CONTROL_CHANNEL, BULK_CHANNEL)
Flight = tuple[float, int, bytes]  # when it arrives, channel, frame


class MiniCatalog:
    """Topics, starts and publishers of one catalogd; what it commits is durable at once."""

    def __init__(self, epoch: int) -> None:
        topics = {number: Topic() for number in topic_ids(NUM_TOPICS)}
        for topic in topics.values():
            topic.epoch = epoch
        self.started = 0
        self.minted = 0
        self.published = PublishedState(
            topics=topics, starts=(), catalog_address="c", catalog_name="hms"
        )
        self.publishers: list[Publisher] = []
        self.start(epoch)

    @property
    def topics(self) -> dict[int, Topic]:
        return dict(self.published.topics)

    def start(self, epoch: int, fresh_id: int = 0) -> None:
        """Begin another life over the same topics."""
        self.started = max(self.started, fresh_id) + 1
        versions = tuple(topic.version for topic in self.topics.values())
        record = StartRecord(start=self.started, epoch=epoch, versions=versions)
        self.published.starts = (*self.published.starts, record)

    def saved(self) -> tuple[dict[int, Topic], tuple[StartRecord, ...]]:
        return deepcopy((self.topics, self.published.starts))

    def restore(self, copy: tuple[dict[int, Topic], tuple[StartRecord, ...]]) -> None:
        self.published.topics, self.published.starts = deepcopy(copy)
        self.start(self.published.position[0], fresh_id=self.started)

    def mint(self, at_least: int) -> bool:
        """Do what catalogd does for MintAbove; False if it was done for another hub already."""
        epoch, start = self.published.position
        if at_least < epoch:
            return False
        self.minted += 1
        versions = tuple(topic.version for topic in self.topics.values())
        self.published.starts = (StartRecord(start=start, epoch=at_least + 1, versions=versions),)
        for topic in self.topics.values():
            topic.epoch = at_least + 1
        return True

    def write(self, number: int, *entries: Entry, now_us: int = 0) -> Committed:
        """Commit one transaction; the entries' versions are the topic's next."""
        topic = self.topics[number]
        transaction = Transaction(
            topic=number,
            from_version=topic.version,
            to_version=topic.version + 1,
            entries=entries,
            source=0,
            at_us=now_us,
        )
        topic.file(entries)
        topic.version += 1
        epoch, start = self.published.position
        delta = delta_of(transaction, epoch=epoch, start=start, floor=topic.floor, sent_us=now_us)
        return Committed(number, topic.version, encode(delta))


@dataclass
class Site:
    """One hub and the connection pair of one publisher to it."""

    hub: Hub
    publisher: Publisher
    generation: int = 0
    frozen_until: float = 0.0
    to_hub: deque[Flight] = field(default_factory=deque)
    to_publisher: deque[Flight] = field(default_factory=deque)
    reached: dict[int, tuple[int, int]] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    told: list[Delta] = field(default_factory=list)

    def peer(self, channel: int) -> bytes:
        return b"%d-%d" % (channel, self.generation)


class World:
    """Everything on one virtual clock and one seed."""

    def __init__(self, seed: int = 1, *, hubs: int = 1, loss: float = 0.0) -> None:
        self.rng = Random(seed)
        self.now = 100.0
        self.loss = loss
        self.hub_ids = 0
        self.catalog = MiniCatalog(epoch=1000)
        self.sites = [Site(self.new_hub(), self.new_publisher()) for _ in range(hubs)]

    @property
    def site(self) -> Site:
        return self.sites[0]

    @property
    def now_us(self) -> int:
        return int(self.now * 1e6)

    def new_hub(self) -> Hub:
        self.hub_ids += 1
        return Hub(hub_id=self.hub_ids, data_address="d")

    def new_publisher(self) -> Publisher:
        return Publisher(
            self.catalog.published, name="c", registration=self.rng.randbytes(16), rng=self.rng
        )

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.step()

    def step(self) -> None:
        self.now += STEP_S
        for site in self.sites:
            self._deliver_to_hub(site)
            while site.to_publisher and site.to_publisher[0][0] <= self.now:
                _, channel, frame = site.to_publisher.popleft()
                self.tell(site, Received(channel, decode(frame)))
            self.tell(site, Tick())
            site.publisher.check()
            assert site.publisher.unacknowledged_bytes <= UNACKED_BYTES_MAX
            self._check_no_rollback(site)

    def commit(self, number: int, *entries: Entry) -> None:
        committed = self.catalog.write(number, *entries, now_us=self.now_us)
        for site in self.sites:
            self.tell(site, committed)

    def tell(self, site: Site, fact: object) -> None:
        """Give ``fact`` to the site's publisher and perform what it decides."""
        effects = site.publisher.handle(fact, now=self.now, now_us=self.now_us)
        for effect in effects:
            match effect:
                case Reconnect():
                    self.cut(site)
                case Send(channel=channel, message=message):
                    self._send(site.to_hub, channel, encode(message))
                case Put(frame=frame):
                    self._send(site.to_hub, BULK_CHANNEL, frame)
                case MintAbove(epoch=epoch):
                    if self.catalog.mint(epoch):
                        for other in self.sites:
                            self.tell(other, Minted())
                case _:
                    site.states.append(effect.state)

    def cut(self, site: Site) -> None:
        """Break both connections; what is in flight is lost, peers have new names."""
        site.generation += 1
        site.to_hub.clear()
        site.to_publisher.clear()

    def restart_hub(self, site: Site) -> None:
        self.cut(site)
        site.hub = self.new_hub()
        site.reached.clear()

    def restart_catalog(self) -> None:
        """Start catalogd anew over what it has, or what it was restored to."""
        for site in self.sites:
            self.cut(site)
            site.publisher = self.new_publisher()

    def converged(self, site: Site) -> bool:
        place = self.catalog.published.position
        ingest = site.hub.ingest
        if (ingest.epoch, ingest.start) != place or ingest.seeding:
            return False
        theirs = {number: slot.topic for number, slot in ingest.slots.items()}
        return all(
            theirs[number].version == topic.version and values(theirs[number]) == values(topic)
            for number, topic in self.catalog.topics.items()
        )

    def _send(self, queue: deque[Flight], channel: int, frame: bytes) -> None:
        if self.rng.random() >= self.loss:
            jam = max((at for at, other, _ in queue if other == channel), default=0.0)
            arrives = max(self.now + self.rng.uniform(0, 0.03), jam)  # order holds in a channel
            queue.append((arrives, channel, frame))
            if len(queue) > 1 and queue[-2][0] > arrives:
                ordered = sorted(queue, key=lambda flight: flight[0])
                queue.clear()
                queue.extend(ordered)

    def _deliver_to_hub(self, site: Site) -> None:
        if self.now < site.frozen_until:
            return
        effects = []
        while site.to_hub and site.to_hub[0][0] <= self.now:
            _, channel, frame = site.to_hub.popleft()
            message = decode(frame)
            peer = site.peer(channel)
            fact = facts.MessageReceived(peer, message)
            if isinstance(message, Delta):
                fact = facts.Put(peer, frame)
            effects += site.hub.handle(fact, now=self.now)
        effects += site.hub.handle(facts.Tick(self.now_us), now=self.now)
        site.hub.check()
        for effect in effects:
            if isinstance(effect, Broadcast):
                message = decode(effect.frame)
                site.told += [message] if isinstance(message, Delta) else []
                continue
            for channel in CHANNELS:
                if effect.peer == site.peer(channel):
                    self._send(site.to_publisher, channel, encode(effect.message))

    def _check_no_rollback(self, site: Site) -> None:
        for number, slot in site.hub.ingest.slots.items():
            if slot.follower.state is LIVE:
                place = slot.follower.epoch, slot.follower.version
                assert place >= site.reached.get(number, (0, 0)), number
                site.reached[number] = place


def values(topic: Topic) -> dict[bytes, tuple[int, bytes | None]]:
    """What a topic holds, without the tombstones that one may have forgotten before another."""
    return {
        entry.key: (entry.version, entry.value)
        for group in topic.group_ids()
        for entry in topic.rows(group)
    }


def welcome(hub: int = 5, protocol: int = 1) -> Welcome:
    return Welcome(
        protocol=protocol,
        features=0,
        hub=hub,
        epoch=0,
        start=0,
        num_topics=0,
        data_address="",
        catalog_address="",
        catalog_name="",
        heartbeat_ms=250,
        lost_ms=8000,
    )


def refusal(code: str, *, request: int = 0, retry_ms: int = 0) -> Refused:
    return Refused(request=request, code=code, message="why", retry_ms=retry_ms)


__all__ = [
    "NUM_TOPICS",
    "UNACKED_MAX",
    "MiniCatalog",
    "Site",
    "World",
    "refusal",
    "values",
    "welcome",
]
