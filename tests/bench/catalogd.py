"""A catalogd whose content a benchmark commits, and readers in processes of their own.

    BenchCatalogd.commit ──▶ a real statestored ──▶ readers: Subscriber, watch ──pipe──▶ Seen

Times are of one clock, CLOCK_MONOTONIC, which all processes of a machine share.
"""

import random
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from topicast.catalog import core
from topicast.catalog.catalogd import SERVICE
from topicast.catalog.effects import Fact, Requested
from topicast.catalog.ingest.events.event_window import EventWindow
from topicast.catalog.ingest.events.identity import Identify
from topicast.catalog.ingest.events.poller import Poll
from topicast.catalog.ingest.loads.read_threads import perform
from topicast.catalog.metastore.port import ListNames, Read, ReadNames
from topicast.catalog.model.lineage import StartRecord
from topicast.catalog.model.modes import MODE_DEFAULT, Mode
from topicast.catalog.publish import publisher
from topicast.catalog.publish.publisher import PublishedState, Publisher
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import DB, Bench
from topicast.tests.bench.processes import Reporter
from topicast.tests.bench.source import SETTINGS, Catalog
from topicast.tests.cli.processes import Running
from topicast.tests.cluster.shop import Shop, followed
from topicast.tests.cluster.store import SimFolders
from topicast.tests.keys import client_for, user_keys
from topicast.topics.keys.folder import CATALOGD
from topicast.topics.link import Link, ReceivedFrame
from topicast.topics.objects.names import block_key
from topicast.topics.streams.sender import SendTo
from topicast.topics.topic import Entry
from topicast.topics.turn import Tick
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.connection import BULK_CHANNEL, CONTROL_CHANNEL
from topicast.topics.wire.messages.data import Delta
from topicast.topics.wire.messages.publishers import Filed

CHANNELS: Final = {CONTROL_CHANNEL: "control", BULK_CHANNEL: "bulk"}
NUM_TOPICS: Final = 16
BLOCK_BYTES: Final = 1000
PIECE_BLOCKS: Final = 60  # of one transaction, as catalogd loads a table: below 64 KB
READER_BUDGET: Final = "1GB"


class Publishing:
    """catalogd's publisher, and its channels to a real hub."""

    def __init__(self, published: PublishedState, hub: str, link: Link) -> None:
        self.filed: dict[int, int] = {}  # versions by topic that the hub has acknowledged
        self._publisher = Publisher(
            published, name="bench", registration=bytes(16), rng=random.Random(1)
        )
        self._hub, self._link = hub, link
        self._server = user_keys(CATALOGD).credential.hub_key(hub)
        self._is_connected = False  # to the hub, once at least

    @property
    def is_leading(self) -> bool:
        return self._publisher.state == publisher.State.LEADING

    def receive(self, one: ReceivedFrame) -> None:
        """Take in a message of the hub."""
        channel = next(c for c, name in CHANNELS.items() if name == one.name)
        message = decode(one.frame)
        if isinstance(message, Filed):
            self.filed |= dict(message.versions)
        self.handle(publisher.FromHub(channel, message))

    def handle(self, fact: publisher.Fact) -> None:
        now = time.monotonic()
        self._perform(self._publisher.handle(fact, now=now, now_us=int(now * 1e6)))

    def send(self) -> None:
        """Send what waits for its turn."""
        self._perform(self._publisher.send_some(1 << 20))

    def _perform(self, effects: Iterable[publisher.Effect]) -> None:
        for effect in effects:
            match effect:
                case publisher.Put(frame=frame):
                    self._link.send("bulk", frame)
                case publisher.SendOn(channel=channel, message=message):
                    self._link.send(CHANNELS[channel], encode(message))
                case publisher.Reconnect():
                    for name in CHANNELS.values():
                        if self._is_connected:
                            self._link.disconnect(name)
                        self._link.connect_dealer(name, self._hub, self._server)
                    self._is_connected = True
                case _:
                    pass


class BenchCatalogd:
    """Production cores on a catalog that a benchmark fills; it lives while ``turn`` is called."""

    def __init__(self, catalog: Catalog, hub: str, *, mode: Mode = MODE_DEFAULT) -> None:
        self.catalog = catalog
        self.at: dict[tuple[int, int], float] = {}
        """When each (topic, version) was published."""
        keys = user_keys(CATALOGD)
        self._link = Link(keys.credential.pair)
        self._link.admit(SERVICE, keys.folder.clients().keys())
        versions = (0,) * (catalog.num_topics + 1)
        starts = (StartRecord(start=catalog.start, epoch=catalog.epoch, versions=versions),)
        published = PublishedState(
            topics=catalog.topics,
            starts=starts,
            catalog_address=self._link.bind_router(SERVICE, "tcp://127.0.0.1:0"),
            catalog_name="hive",
            mode=mode,
        )
        self._publishing = Publishing(published, hub, self._link)
        self._metastore = Shop(())  # which brings no other event than the one that it is known by
        self._core = core.Catalog(
            catalog.topics,
            starts=starts,
            window=EventWindow(followed(self._metastore), now=time.monotonic()),
            folders=SimFolders(),
            settings=SETTINGS,
        )

    def turn(self, timeout_s: float) -> None:
        """Exchange messages with hub and readers for so long."""
        until = time.monotonic() + timeout_s
        while True:
            left_s = until - time.monotonic()
            for one in self._link.poll(min(max(left_s, 0.0), 0.05)):
                self._receive(one)
            self._publish(Tick())
            if left_s <= 0:
                return

    def settle(self) -> None:
        """Turn until the hub has filed everything."""
        while not self._publishing.is_leading or any(
            topic.version > self._publishing.filed.get(number, 0)
            for number, topic in self.catalog.topics.items()
        ):
            self.turn(0.02)

    def commit(self, delta: Delta) -> None:
        """Publish ``delta``, which the catalog has just made."""
        frame = encode(delta)
        self.at[delta.topic, delta.to_version] = time.monotonic()
        self._publish(publisher.Committed(delta.topic, delta.to_version, frame))

    def wait_for(self, reader: "Reader") -> object:
        """Turn until ``reader`` has answered; return its answer."""
        while not reader.answered:
            self.turn(0.01)
        return reader.answer()

    def close(self) -> None:
        self._link.close()

    def _receive(self, one: ReceivedFrame) -> None:
        if one.name != SERVICE:
            self._publishing.receive(one)
            self._publishing.send()
            return
        message = decode(one.frame)
        self._serve(Requested(peer=one.peer, message=message, client=client_for(message)))

    def _serve(self, fact: Fact) -> None:
        now, facts = time.monotonic(), [fact]
        while facts:
            self._core.handle(facts.pop(), now=now, now_us=int(now * 1e6))
            for effect in self._core.flush(now=now, now_us=int(now * 1e6)):
                match effect:
                    case SendTo(peer=peer, message=message):
                        self._link.send(SERVICE, encode(message), peer)
                    case Poll() | Identify() | Read() | ReadNames() | ListNames():
                        facts.append(perform(self._metastore, effect))
                    case _:
                        pass  # there is no store, and nothing else to publish

    def _publish(self, fact: publisher.Fact) -> None:
        self._publishing.handle(fact)
        self._publishing.send()


def filled(table: str, megabytes: int, *, seed: int) -> Catalog:
    """Return a catalog with ``table`` of random blocks, and two small tables beside.

    ``other`` stands in another topic than ``table``, ``near`` in the same.
    """
    catalog = Catalog(NUM_TOPICS)
    catalog.create_database(DB)
    topic = catalog.topic(DB, table)
    catalog.create_table(DB, table, keys=("ds",))
    numbers = range(1000)
    catalog.create_table(DB, next(f"other{n}" for n in numbers if _topic(f"other{n}") != topic))
    catalog.create_table(DB, next(f"near{n}" for n in numbers if _topic(f"near{n}") == topic))
    rng = random.Random(seed)
    blocks = range(megabytes * 1_000_000 // BLOCK_BYTES)
    for begin in range(0, len(blocks), PIECE_BLOCKS):
        rewrite(catalog, table, blocks[begin : begin + PIECE_BLOCKS], rng)
    return catalog


def small_tables(catalog: Catalog) -> tuple[str, str]:
    """Return the names of the small tables: of another topic, of the same."""
    other, near = (next(n for n in catalog.names[DB] if n.startswith(w)) for w in ("other", "near"))
    return other, near


def rewrite(catalog: Catalog, table: str, blocks: Iterable[int], rng: random.Random) -> Delta:
    """Give blocks of ``table`` new content, in one transaction."""
    topic = catalog.topic(DB, table)
    version = catalog.next(topic)
    entries = []
    for number in blocks:
        key = block_key(DB, table, f"ds={number:08d}" if number else "")
        entries.append(Entry(key, version, version, version, BLOCK_BYTES, rng.randbytes(1000)))
    return catalog.commit(topic, entries)


def _topic(table: str) -> int:
    return Catalog(NUM_TOPICS).topic(DB, table)


@dataclass(frozen=True, slots=True)
class Seen:
    """A change that a reader received: which, and when."""

    table: str
    version: int
    at: float


class Reader(Reporter):
    """A process with a subscriber that holds ``topics``, and reports when it sees which change.

    Its first answer comes unasked: it is ready.
    """

    def __init__(self, hub: str, topics: Iterable[int]) -> None:
        super().__init__(_read, hub, tuple(topics))
        self.seen: list[Seen] = []

    def collect(self) -> None:
        """Take in the changes that were reported by now."""
        self.seen += [Seen(*one) for one in self.reports()]


def leading(
    bench: Bench, catalog: Catalog, *, mode: Mode = MODE_DEFAULT
) -> tuple[Running, BenchCatalogd]:
    """Run a statestored, and a catalogd that has published all of ``catalog`` to it."""
    hub = bench.hub()
    catalogd = bench.enter_context(closing(BenchCatalogd(catalog, hub.address, mode=mode)))
    catalogd.settle()
    return hub, catalogd


def stand(
    bench: Bench, catalog: Catalog, *, readers: int
) -> tuple[int, BenchCatalogd, list[Reader]]:
    """Run both, and readers that hold everything; return the process of the hub, and them."""
    hub, catalogd = leading(bench, catalog)
    topics = range(catalog.num_topics)
    started = [bench.enter_context(Reader(hub.address, topics)) for _ in range(readers)]
    for reader in started:
        catalogd.wait_for(reader)
    return hub.process.pid, catalogd, started


def delays_ms(
    reader: Reader, table: str, topic: int, at: dict[tuple[int, int], float]
) -> list[float]:
    """Return the time from each change of ``table`` to the eyes of ``reader``."""
    return [
        (one.at - at[topic, one.version]) * 1000
        for one in reader.seen
        if one.table == f"{DB}.{table}" and (topic, one.version) in at
    ]


def _read(hub: str, topics: tuple[int, ...], reported: Connection, orders: Connection) -> None:
    with Subscriber(hub, budget=READER_BUDGET, timeout_s=120) as catalog:
        for topic in topics:
            catalog.join(topic)
        changes = catalog.watch(f"{DB}.[no]*")  # near and other: the small tables
        threading.Thread(target=_obey, args=(catalog, orders), daemon=True).start()
        for change in changes:
            reported.send((change.object, change.version, time.monotonic()))


def _obey(catalog: Subscriber, orders: Connection) -> None:
    """Drop or join a topic, or send the version of a table, whenever ordered."""
    orders.send("ready")
    while True:
        what, argument = orders.recv()
        begin = time.monotonic()
        if what == "drop":
            catalog.drop(argument)
            orders.send("dropped")
        elif what == "join":
            catalog.join(argument)
            orders.send(time.monotonic() - begin)
        else:
            orders.send(catalog.table(argument).version)
