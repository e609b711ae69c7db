"""The world: the production cores of catalogd, two hubs and three readers on one virtual clock.

Shells here are as thin as the real ones; what is simulated is the network, the metastore, the
store and time. One seed, one trace.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import blake2b
from random import Random

from topicast.catalog import publishing
from topicast.catalog.catalog import Catalog
from topicast.catalog.deltas import delta_of
from topicast.catalog.facts import (
    Asked,
    Commit,
    Minted,
    MintEpoch,
    Publish,
    ReadNames,
    Reply,
    Settings,
)
from topicast.catalog.publisher import Publisher
from topicast.catalog.publishing import Standing
from topicast.catalog.sources.notifications import Window
from topicast.catalog.sources.poller import Poll
from topicast.catalog.sources.reading import perform
from topicast.catalog.sources.reads import Read
from topicast.statestore import facts as hub_facts
from topicast.statestore.hub import Hub
from topicast.statestore.intake import Broadcast
from topicast.subscriber import facts as member_facts
from topicast.subscriber.member import Member
from topicast.tests.sim.metastore import Port, SimMetastore
from topicast.tests.sim.store import SimStore
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import DELTA_KIND

HUBS = 2
READERS = 3
CHECK_EVERY = 7
TICK_S = 0.09  # below what liveness takes for a stall
CHANNEL = {member_facts.CONTROL: 1, member_facts.BULK: 2}
CATALOG = "tcp://catalog:26000"
EPOCH_0 = 1_700_000_000_000_000


class World:
    """The heap, the dice, the trace, the network and everybody on it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = 1000.0
        self.faults = True
        self.counts: Counter[str] = Counter()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._steps = 0
        self._digest = blake2b(digest_size=16)
        self.trace: list[str] = []
        self._fifo: dict[tuple[object, ...], float] = {}
        self.cut: set[tuple[str, str]] = set()
        self.metastore = SimMetastore(self.rng)
        self.hubs = [HubProcess(self, number) for number in range(HUBS)]
        self.catalogd = CatalogProcess(self)
        self.readers = [ReaderProcess(self, number) for number in range(READERS)]

    # -- time

    def at(self, delay_s: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now + delay_s, self._number, act))

    def run(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, act = heapq.heappop(self._heap)
            act()
        self.now = until

    def check(self, core: Catalog | Hub | Member | Publisher) -> None:
        """Have a core assert what always holds, now and then: it costs as much as a step."""
        self._steps += 1
        if self._steps % CHECK_EVERY == 0:
            core.check()

    @property
    def now_us(self) -> int:
        return int(self.now * 1e6)

    def note(self, said: str) -> None:
        """Add a line to the trace."""
        line = f"{self.now:.4f} {said}"
        self._digest.update(line.encode())
        self.trace.append(line)
        del self.trace[:-400]

    def digest(self) -> str:
        return self._digest.hexdigest()

    # -- the network

    def chance(self, probability: float) -> bool:
        return self.faults and self.rng.random() < probability

    def carry(
        self, way: tuple[str, str], line: object, frame: bytes, arrive: Callable[[bytes], None]
    ) -> None:
        """Carry ``frame`` on a connection: in order, late, and at times not at all."""
        if (way in self.cut or self.chance(0.01)) and self.faults:
            self.counts["lost messages"] += 1
            return
        delay = self.rng.uniform(0.001, 0.02) + (self.chance(0.03) * self.rng.uniform(0, 0.4))
        due = max(self.now + delay, self._fifo.get((way, line), 0.0))
        self._fifo[way, line] = due
        self.at(due - self.now, lambda: arrive(frame))

    def spread(self, way: tuple[str, str], frame: bytes, arrive: Callable[[bytes], None]) -> None:
        """Carry a broadcast: it may be lost, doubled and overtaken."""
        if way in self.cut or self.chance(0.04):
            self.counts["lost broadcasts"] += 1
            return
        for _ in range(1 + self.chance(0.03)):
            delay = self.rng.uniform(0.001, 0.01) + self.chance(0.05) * self.rng.uniform(0, 0.5)
            self.at(delay, lambda: arrive(frame))


class CatalogProcess:
    """catalogd and its store; ``life`` grows with each start."""

    name = "catalogd"

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = SimStore(epoch=EPOCH_0)
        self.old = self.store.copy()
        self.life = 0
        self.alive = False
        self.catalog: Catalog | None = None
        self.lines = [0] * HUBS
        self.start()

    def start(self) -> None:
        world = self.world
        self.life += 1
        self.alive = True
        self.store.begin(world.rng.getrandbits(48) | 1)
        topics = self.store.load()
        place = self.store.place
        self.standing = Standing(
            topics=topics, starts=self.store.starts, catalog_address=CATALOG, catalog_name="hive"
        )
        self.publishers = [
            Publisher(self.standing, name="c", registration=bytes(16), rng=world.rng)
            for _ in world.hubs
        ]
        self.catalog = Catalog(
            topics,
            starts=self.store.starts,
            window=Window(place, now=world.now) if place else None,
            settings=Settings(reads_max=4),
        )
        world.note(f"catalogd starts: life {self.life}")
        self._tick(self.life)

    def crash(self) -> None:
        self.alive = False
        self.world.note("catalogd dies")

    def _tick(self, life: int) -> None:
        if not self.alive or life != self.life:
            return
        self.turn(())
        if self.catalog is not None and self.catalog.desk.serving:
            for number in range(HUBS):
                self.tell(number, publishing.Tick())
        self.world.at(TICK_S, lambda: self._tick(life))

    def turn(self, facts: Iterable[object]) -> None:
        world, catalog = self.world, self.catalog
        assert catalog is not None
        for fact in facts:
            catalog.handle(fact, now=world.now, now_us=world.now_us)
        for effect in catalog.flush(now=world.now):
            if world.chance(0.0005):
                world.counts["catalogd crashes in a turn"] += 1
                self.crash()
                world.at(world.rng.uniform(0.1, 0.8), self.revive)
            if not self.alive:
                return
            self._perform(effect)
        world.check(catalog)

    def revive(self) -> None:
        if not self.alive:
            self.start()

    def _perform(self, effect: object) -> None:
        world = self.world
        match effect:
            case Poll() | Read() | ReadNames():
                life = self.life
                world.at(world.rng.uniform(0.001, 0.06), lambda: self._ask(effect, life))
            case Commit(transactions=transactions, place=place):
                self.store.commit(transactions, place)
                self.standing.watermark = place.last_id if place else 0
                if world.chance(0.02):
                    self.old = self.store.copy()
            case Publish(transactions=transactions):
                self._publish(transactions)
            case MintEpoch(at_least=at_least):
                self.mint(at_least)
            case Reply(peer=peer, message=message):
                self._reply(peer, encode(message))

    def _ask(self, order: Poll | Read | ReadNames, life: int) -> None:
        if not self.alive or life != self.life:
            return
        fact = perform(Port(self.world.metastore), order)  # type: ignore[arg-type]  # by __getattr__

        def deliver() -> None:
            if self.alive and life == self.life:
                self.turn((fact,))

        self.world.at(self.world.rng.uniform(0.001, 0.06), deliver)

    def _publish(self, transactions: Iterable[object]) -> None:
        epoch, start = self.standing.place
        for one in transactions:
            floor = self.standing.topics[one.topic].floor
            delta = delta_of(one, epoch=epoch, start=start, floor=floor, sent_us=self.world.now_us)
            for number in range(HUBS):
                fact = publishing.Committed(one.topic, one.to_version, encode(delta))
                self.tell(number, fact)

    def mint(self, at_least: int) -> None:
        world = self.world
        if at_least < self.store.epoch:
            return
        world.counts["epochs minted"] += 1
        self.store.mint(world.now_us, at_least)
        world.note(f"epoch {self.store.epoch}")
        assert self.catalog is not None
        self.catalog.handle(
            Minted(epoch=self.store.epoch, starts=self.store.starts),
            now=world.now,
            now_us=world.now_us,
        )
        self.standing.starts = self.store.starts
        for number in range(HUBS):
            self.tell(number, publishing.Minted())

    def tell(self, number: int, fact: publishing.Fact) -> None:
        world = self.world
        publisher = self.publishers[number]
        for effect in publisher.handle(fact, now=world.now, now_us=world.now_us):
            match effect:
                case publishing.Put(frame=frame):
                    self._to_hub(number, 2, frame)
                case publishing.Send(channel=channel, message=message):
                    self._to_hub(number, channel, encode(message))
                case publishing.Reconnect():
                    self.lines[number] += 1
                case publishing.Ahead(epoch=epoch):
                    if epoch >= self.store.epoch:
                        self.catalog.outgrow(epoch)
                case _:
                    pass
        self.world.check(publisher)

    def _to_hub(self, number: int, channel: int, frame: bytes) -> None:
        hub = self.world.hubs[number]
        place = f"c/{number}/{channel}/{self.life}/{self.lines[number]}/{hub.life}".encode()
        way = (self.name, hub.name)
        self.world.carry(way, place, frame, lambda got: hub.take(place, got))

    def take_hub(self, place: bytes, frame: bytes) -> None:
        _, number, channel, life, line, _ = place.decode().split("/")
        if self.alive and int(life) == self.life and int(line) == self.lines[int(number)]:
            self.tell(int(number), publishing.Heard(int(channel), decode(frame)))

    def take_asked(self, peer: bytes, frame: bytes) -> None:
        if self.alive and peer.endswith(b"/%d" % self.life):
            self.turn((Asked(peer=peer, message=decode(frame)),))

    def _reply(self, peer: bytes, frame: bytes) -> None:
        reader = self.world.readers[int(peer.split(b"/")[1])]
        way = (self.name, reader.name)
        self.world.carry(way, peer, frame, lambda got: reader.take_service(peer, got))


class HubProcess:
    """A statestored; soft state, so a restart begins with nothing."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.name = f"hub-{number}"
        self.life = 0
        self.alive = False
        self.subscriptions: dict[bytes, dict[bytes, None]] = {}
        self.start()

    def start(self) -> None:
        self.life += 1
        self.alive = True
        self.subscriptions = {}
        self.hub = Hub(
            hub_id=self.world.rng.getrandbits(48) | 1, data_address=f"data-{self.number}"
        )
        self.world.note(f"{self.name} starts: life {self.life}")
        self._tick(self.life)
        for reader in getattr(self.world, "readers", ()):
            reader.hub_is_back(self)

    def crash(self) -> None:
        self.alive = False
        self.world.note(f"{self.name} dies")

    def _tick(self, life: int) -> None:
        if self.alive and life == self.life:
            self._perform(self.hub.handle(hub_facts.Tick(self.world.now_us), now=self.world.now))
            self.world.at(TICK_S, lambda: self._tick(life))

    def take(self, place: bytes, frame: bytes) -> None:
        """Take a frame of the connection ``place``, which names the life that it was made to."""
        if not self.alive or not place.endswith(b"/%d" % self.life):
            return
        now = self.world.now
        if frame[4] == DELTA_KIND:
            self._perform(self.hub.handle(hub_facts.Put(place, frame), now=now))
        else:
            self._perform(self.hub.handle(hub_facts.Heard(place, decode(frame)), now=now))
        self._perform(self.hub.handle(hub_facts.Tick(self.world.now_us), now=now))
        self.world.check(self.hub)

    def subscribe(self, place: bytes, frame: bytes) -> None:
        if not self.alive or not place.endswith(b"/%d" % self.life):
            return
        of_one = self.subscriptions.setdefault(place, {})
        if frame[:1] == b"\1":
            of_one[frame[1:]] = None
        else:
            of_one.pop(frame[1:], None)
        self._perform(self.hub.handle(hub_facts.Subscription(frame), now=self.world.now))

    def _perform(self, effects: Iterable[object]) -> None:
        for effect in (*effects, *self.hub.turn(1 << 20)):
            if isinstance(effect, Broadcast):
                self._broadcast(effect.frame)
            else:
                self._send(effect.peer, encode(effect.message))

    def _broadcast(self, frame: bytes) -> None:
        for place, prefixes in self.subscriptions.items():
            if any(frame.startswith(prefix) for prefix in prefixes):
                reader = self.world.readers[int(place.split(b"/")[1])]
                self.world.spread(
                    (self.name, reader.name),
                    frame,
                    lambda got, place=place, reader=reader: reader.take_data(place, got),
                )

    def _send(self, place: bytes, frame: bytes) -> None:
        if place.startswith(b"c/"):
            catalogd = self.world.catalogd
            way = (self.name, catalogd.name)
            self.world.carry(way, place, frame, lambda got: catalogd.take_hub(place, got))
            return
        reader = self.world.readers[int(place.split(b"/")[1])]
        way = (self.name, reader.name)
        self.world.carry(way, place, frame, lambda got: reader.take_hub(place, got))


class ReaderProcess:
    """A subscriber; ``answered`` is called with each Answer and Fail."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.name = f"reader-{number}"
        self.answered: Callable[[object], None] = lambda _effect: None
        self.hub = -1
        self.lines = {"hub": 0, "data": 0, "catalog": 0}
        self.data = -1
        self.prefixes: dict[bytes, None] = {}
        self.slow = 0.0
        self.next_id = 0
        order = tuple(f"hub-{(number + n) % HUBS}" for n in range(HUBS))
        self.order = order
        self.member = Member(
            order,
            budget_bytes=10_000_000,
            name=self.name,
            new_id=lambda: world.rng.randbytes(16),
        )
        world.at(0.0, self._tick)

    def ask(self, make: Callable[[int], object]) -> int:
        self.next_id += 1
        self.hear(make(self.next_id))
        return self.next_id

    def hear(self, fact: object) -> None:
        world = self.world
        for effect in self.member.handle(fact, now=world.now):
            self._perform(effect)
        self.world.check(self.member)

    def _tick(self) -> None:
        self.hear(member_facts.Tick())
        self.world.at(TICK_S, self._tick)

    def _perform(self, effect: object) -> None:
        match effect:
            case member_facts.Send(channel=channel, message=message):
                self._send(channel, encode(message))
            case member_facts.Subscribe(prefix=prefix):
                self.prefixes[prefix] = None
                self._subscribe(b"\1" + prefix)
            case member_facts.Unsubscribe(prefix=prefix):
                self.prefixes.pop(prefix, None)
                self._subscribe(b"\0" + prefix)
            case member_facts.ConnectHub(index=index):
                self.lines["hub"] += 1
                self.lines["data"] += 1
                self.hub = int(self.order[index].removeprefix("hub-"))
                self.data, self.prefixes = -1, {}
            case member_facts.ConnectData(address=address):
                self.lines["data"] += 1
                self.data, self.prefixes = int(address.removeprefix("data-")), {}
            case member_facts.ConnectCatalog():
                self.lines["catalog"] += 1
            case member_facts.Answer() | member_facts.Fail():
                self.answered(effect)
            case _:
                pass

    def _send(self, channel: str, frame: bytes) -> None:
        world = self.world
        if channel in CHANNEL:
            if self.hub < 0:
                return
            hub = world.hubs[self.hub]
            place = (
                f"r/{self.number}/{channel}/{self.lines['hub']}/{hub.number}/{hub.life}".encode()
            )
            way = (self.name, hub.name)
            world.carry(way, place, frame, lambda got: hub.take(place, got))
            return
        catalogd = world.catalogd
        place = f"s/{self.number}/{channel}/{self.lines['catalog']}/{catalogd.life}".encode()
        way = (self.name, catalogd.name)
        world.carry(way, place, frame, lambda got: catalogd.take_asked(place, got))

    def _subscribe(self, frame: bytes) -> None:
        if self.data < 0:
            return
        hub = self.world.hubs[self.data]
        place = f"d/{self.number}/{self.lines['data']}/{hub.number}/{hub.life}".encode()
        due = self.world.rng.uniform(0.001, 0.02)
        line = ("subscribe", self.number, self.lines["data"])
        fifo = self.world._fifo
        due = max(self.world.now + due, fifo.get(line, 0.0))
        fifo[line] = due
        self.world.at(due - self.world.now, lambda: hub.subscribe(place, frame))

    def hub_is_back(self, hub: HubProcess) -> None:
        """ZeroMQ connects again by itself, and says again what is subscribed to."""
        if self.data == hub.number:
            for prefix in self.prefixes:
                self._subscribe(b"\1" + prefix)

    def take_data(self, place: bytes, frame: bytes) -> None:
        _, _, line, number, life = place.decode().split("/")
        hub = self.world.hubs[int(number)]
        if int(line) == self.lines["data"] and int(life) == hub.life:
            self._late(lambda: self.hear(member_facts.Heard(member_facts.DATA, decode(frame))))

    def take_hub(self, place: bytes, frame: bytes) -> None:
        _, _, channel, line, _, _ = place.decode().split("/")
        if int(line) == self.lines["hub"]:
            self._late(lambda: self.hear(member_facts.Heard(channel, decode(frame))))

    def take_service(self, place: bytes, frame: bytes) -> None:
        _, _, channel, line, _ = place.decode().split("/")
        if int(line) == self.lines["catalog"]:
            self._late(lambda: self.hear(member_facts.Heard(channel, decode(frame))))

    def _late(self, act: Callable[[], None]) -> None:
        if self.slow:
            self.world.at(self.slow, act)
        else:
            act()
