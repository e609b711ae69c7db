"""catalogd in the cluster: the cores of catalogd and its publishers, in the thinnest of shells."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from topicast.catalog.core import IDLE_S, Catalog, CatalogSettings
from topicast.catalog.effects import (
    BeginEpoch,
    Effect,
    FloorRaised,
    Minted,
    MintEpoch,
    Publish,
    Requested,
)
from topicast.catalog.ingest.events.event_window import EventWindow
from topicast.catalog.ingest.events.identity import Identify
from topicast.catalog.ingest.events.poller import Poll
from topicast.catalog.ingest.loads.read_threads import perform
from topicast.catalog.metastore.port import ListNames, Read, ReadEvent, ReadFacts, ReadNames
from topicast.catalog.model.modes import Mode, overrides_text, parse_mode
from topicast.catalog.model.versions import Commit, Transaction, WriteRow
from topicast.catalog.publish import publisher
from topicast.catalog.publish.publisher import PublishedState, Publisher, delta_of_transaction
from topicast.tests.cluster.hub import TICK_S
from topicast.tests.cluster.store import SimStore
from topicast.tests.cluster.violation import Violation
from topicast.tests.keys import client_for
from topicast.topics.streams.sender import SendTo
from topicast.topics.topic import NAMESPACE, PREFIX, TOMBSTONE, VALUE, Topic
from topicast.topics.turn import Tick
from topicast.topics.wire.codec import is_large
from topicast.topics.wire.messages.data import Delta
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import Order
from topicast.topics.wire.messages.reports import Reported

if TYPE_CHECKING:
    from topicast.tests.cluster.cluster import Cluster

MODES = (
    Mode("full"),
    Mode("mixed"),
    Mode("minimal"),
    parse_mode("mixed", "*.t=minimal"),
    parse_mode("minimal", "*.t=full"),
)
SETTINGS = CatalogSettings(reads_max=4)
TOMBSTONES_MAX = 2
CHUNKS_BYTES = 512 << 10  # sent to a hub at once
CATALOG = "tcp://catalog:26000"
EPOCH_0 = 1_700_000_000_000_000


MetastoreRequest = Poll | Identify | Read | ReadNames | ListNames | ReadEvent | ReadFacts


def floor_leaving(topic: Topic, tombstones_max: int) -> int:
    """Return the lowest floor at which ``topic`` has at most ``tombstones_max`` tombstones."""
    found = [one.version for one in topic.since(topic.floor) if one.kind in (TOMBSTONE, PREFIX)]
    surplus = len(found) - tombstones_max
    return found[surplus - 1] if surplus > 0 else topic.floor


class CatalogProcess:
    """catalogd and its store; ``life`` grows with each start.

    ``performing``: each is called with every effect of the core, before it is performed.
    """

    name = "catalogd"

    def __init__(
        self, world: "Cluster", *, store: SimStore, settings: CatalogSettings = SETTINGS
    ) -> None:
        self.world = world
        self.settings = settings
        self.performing: list[Callable[[Effect], None]] = []
        self.held: list[MetastoreRequest] = []  # ordered, and not sent until ``release``
        self.hold()
        self.store = store
        self.old = self.store.copy()
        self.life = 0
        self.alive = False
        self.catalog: Catalog | None = None
        self.lines = [0] * len(world.hubs)
        self.committed: Callable[[tuple[Transaction, ...]], None] = lambda _: None
        self.wrote: Callable[[tuple[WriteRow, ...]], None] = lambda _: None
        self.reported: Callable[[bytes, Reported], None] = lambda _peer, _reported: None
        self.restored: Callable[[], None] = lambda: None
        self.ordered: Callable[[Message], None] = lambda _: None
        self.start()

    def start(self, finding: str = "") -> None:
        world = self.world
        self.life += 1
        self.alive = True
        self.store.begin(world.rng.getrandbits(48) | 1)
        memory = world.memory()
        topics = self.store.load(memory)
        place = self.store.place
        mode_state = self.store.mode_state
        self.published = PublishedState(
            topics=topics,
            starts=self.store.starts,
            catalog_address=CATALOG,
            catalog_name="hive",
            mode=mode_state.mode,
            clients=world.clients_text(),
        )
        self.publishers = [
            Publisher(self.published, name="c", registration=bytes(16), rng=world.rng)
            for _ in world.hubs
        ]
        self.catalog = Catalog(
            topics,
            starts=self.store.starts,
            window=EventWindow(place, now=world.now) if place else None,
            folders=self.store.folders,
            settings=self.settings,
            mode_state=mode_state,
            writes=tuple(self.store.writes.values()),
            leases=self.store.leases,
            sweeps=self.store.sweeps.values(),
            finding=finding,
            memory=memory,
        )
        if self.mode != mode_state.mode:
            raise Violation(f"{self.mode} holds after a restart, {mode_state.mode} was stored")
        world.note(f"catalogd starts: life {self.life}")
        self._turned_at = -inf
        self._tick(self.life)

    @property
    def mode(self) -> Mode:
        """The mode that holds, or did when it died."""
        assert self.catalog is not None
        return self.catalog.backfill.mode

    def crash(self) -> None:
        self.alive = False
        self.held.clear()
        self.world.note("catalogd dies")

    def restore(self, store: SimStore) -> None:
        """Have another store at the next start."""
        self.store, self.old = store, store.copy()
        self.restored()

    def _tick(self, life: int) -> None:
        if not self.alive or life != self.life:
            return
        if self.world.chance(0.15):
            self.discard_tombstones()
        if self.world.chance(0.03):
            self.turn_mode(self.world.rng.choice(MODES))
        self.wake()
        if self.catalog is not None:
            self.published.names_known = self.catalog.names_known
            for number in range(len(self.publishers)):
                self.feed(number, Tick())
        self.world.at(TICK_S, lambda: self._tick(life))

    def wake(self) -> None:
        """Take a turn if one is due though nothing came, as the shell does."""
        assert self.catalog is not None
        now = self.world.now
        if self.catalog.deadline(now) <= now or now >= self._turned_at + IDLE_S:
            self.turn(())

    def turn(self, facts: Sequence[object]) -> None:
        world, catalog = self.world, self.catalog
        assert catalog is not None
        self._turned_at = world.now
        happened = bool(facts)
        for fact in facts:
            catalog.handle(fact, now=world.now, now_us=world.now_us)
        catalog.check_some()
        for effect in catalog.flush(now=world.now, now_us=world.now_us):
            happened = True
            reported = isinstance(effect, SendTo) and isinstance(effect.message, Reported)
            if world.chance(0.02 if reported else 0.0005):  # the driver has to report again
                world.counts["catalogd crashes in a turn"] += 1
                self.crash()
                world.at(world.rng.uniform(0.1, 0.8), self.revive)
            if not self.alive:
                return
            for see in self.performing:
                see(effect)
            self._perform(effect)
        if catalog is not self.catalog:
            return  # its store has another epoch, of which it knows nothing
        world.hold(catalog.memory)
        if happened or catalog.memory is not None:  # else the core is as it was
            world.check(catalog, entries=sum(map(len, self.published.topics.values())))

    def discard_tombstones(self, tombstones_max: int = TOMBSTONES_MAX) -> None:
        """Keep so many tombstones of each topic, as if more were too many."""
        topics = self.published.topics
        found = {number: floor_leaving(topic, tombstones_max) for number, topic in topics.items()}
        floors = {number: floor for number, floor in found.items() if floor > topics[number].floor}
        if floors:
            self.world.counts["floors raised"] += len(floors)
            for topic, floor in floors.items():
                self.store.delete_tombstones(topic, floor)
            self.turn([FloorRaised(topic=topic, floor=floor) for topic, floor in floors.items()])

    def turn_mode(self, mode: Mode) -> None:
        """Do what an operator may order."""
        assert self.catalog is not None
        if self.catalog.background.change_mode(mode):
            self.world.counts["modes turned"] += 1
            self.world.note(f"mode {mode.name} {overrides_text(mode)}")

    def revive(self) -> None:
        if not self.alive:
            self.start()

    def order(self, order: Order) -> None:
        """Take what an operator orders; ``ordered`` is called with the answer."""
        peer = b"o/%d" % self.life
        self.turn((Requested(peer=peer, message=order, client=client_for(order)),))

    def hold(
        self, *kinds: type, where: Callable[[MetastoreRequest], bool] = lambda _: True
    ) -> None:
        """From now on, hold requests to the metastore of these ``kinds``, if ``where`` is so."""
        self._held_kinds, self._is_held = kinds, where

    def release(self) -> None:
        """Let the metastore answer what is held: it looks now, its answer arrives later."""
        held, self.held = self.held, []
        for order in held:
            self._ask(order, self.life)

    def resume(self) -> None:
        """Hold no more requests to the metastore; those that are held are answered."""
        self.hold()
        self.release()

    def _perform(self, effect: Effect) -> None:
        world = self.world
        match effect:
            case (
                Poll() | Identify() | Read() | ReadNames() | ListNames() | ReadEvent() | ReadFacts()
            ):
                self._request(effect)
            case Commit():
                self.store.commit(effect)
                self.wrote(effect.writes)
                self.published.mode = self.store.mode_state.mode
                self.committed(effect.transactions)
                self.published.watermark = effect.window.last_id if effect.window else 0
                if world.chance(0.02):
                    self.old = self.store.copy()
            case Publish(transactions=transactions):
                self._publish(transactions)
            case MintEpoch(at_least=at_least):
                self.mint(at_least)
            case BeginEpoch():
                self._begin_anew(effect)
            case SendTo(peer=peer, message=message) if peer.startswith(b"o/"):
                self.ordered(message)
            case SendTo(peer=peer, message=message):
                if isinstance(message, Reported):
                    self.reported(peer, message)
                self._reply(peer, self.world.frames.write(message))

    def _begin_anew(self, effect: BeginEpoch) -> None:
        """Hold nothing any more; requests and connections of before end."""
        self.world.counts["begun anew"] += 1
        self.world.note(effect.finding)
        self.store.begin_anew(self.world.now_us, effect.at_least)
        self.crash()
        self.start(effect.finding)

    def _request(self, order: MetastoreRequest) -> None:
        if isinstance(order, self._held_kinds) and self._is_held(order):
            self.held.append(order)
            return
        life = self.life
        self.world.at(self.world.rng.uniform(0.001, 0.06), lambda: self._ask(order, life))

    def _ask(self, order: MetastoreRequest, life: int) -> None:
        if not self.alive or life != self.life:
            return
        fact = perform(self.world.metastore, order)

        def deliver() -> None:
            if self.alive and life == self.life:
                self.turn((fact,))

        self.world.at(self.world.rng.uniform(0.001, 0.06), deliver)

    def _publish(self, transactions: Iterable[object]) -> None:
        epoch, start = self.published.position
        for one in transactions:
            floor = self.published.topics[one.topic].floor
            delta = delta_of_transaction(
                one,
                epoch=epoch,
                start=start,
                floor=floor,
                sent_us=self.world.now_us,
                mode=self.published.mode,
            )
            check_withheld(delta, self.mode)
            for number in range(len(self.publishers)):
                fact = publisher.Committed(
                    one.topic, one.to_version, self.world.frames.write(delta)
                )
                self.feed(number, fact)

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
        self.published.starts = self.store.starts
        for number in range(len(self.publishers)):
            self.feed(number, publisher.EpochBegun())

    def feed(self, number: int, fact: publisher.Fact) -> None:
        world = self.world
        to_hub = self.publishers[number]
        effects: tuple[publisher.Effect, ...]
        effects = to_hub.handle(fact, now=world.now, now_us=world.now_us)
        if isinstance(fact, publisher.FromHub | Tick):
            effects = (*effects, *to_hub.send_some(CHUNKS_BYTES))
        for effect in effects:
            match effect:
                case publisher.Put(frame=frame):
                    self._to_hub(number, 2, frame)
                case publisher.SendOn(channel=channel, message=message):
                    self._to_hub(number, channel, self.world.frames.write(message))
                case publisher.Reconnect():
                    self.lines[number] += 1
                case publisher.MintAbove(epoch=epoch):
                    if epoch >= self.store.epoch:
                        self.catalog.epochs.mint_above(epoch)
                case _:
                    pass
        self.world.check(to_hub)

    def _to_hub(self, number: int, channel: int, frame: bytes) -> None:
        hub = self.world.hubs[number]
        place = f"c/{number}/{channel}/{self.life}/{self.lines[number]}/{hub.life}".encode()
        way = (self.name, hub.name)
        self.world.carry(way, place, frame, partial(hub.take, place))

    def take_hub(self, place: bytes, frame: bytes) -> None:
        _, number, channel, life, line, _ = place.decode().split("/")
        if self.alive and int(life) == self.life and int(line) == self.lines[int(number)]:
            self.feed(int(number), publisher.FromHub(int(channel), self.world.frames.read(frame)))

    def take_request(self, peer: bytes, frame: bytes) -> None:
        if self.alive and peer.endswith(b"/%d" % self.life):
            message = self.world.frames.read(frame)
            client = client_for(message)
            if peer.startswith(b"s/"):
                client = self.world.readers[int(peer.split(b"/")[1])].client
            self.turn((Requested(peer=peer, message=message, client=client),))

    def _reply(self, peer: bytes, frame: bytes) -> None:
        client = self.world.client(peer)
        way = (self.name, client.name)
        slow_s = self.world.chance(0.1) * self.world.rng.uniform(0, 0.4)  # it is far away
        self.world.carry(way, peer, frame, partial(client.take_service, peer), slow_s=slow_s)


def check_withheld(delta: Delta, mode: Mode) -> None:
    """Check a delta that leaves catalogd: what the mode withholds is in it as stubs only."""
    if delta.topic == NAMESPACE:
        return
    if any(map(is_large, delta.entries)):
        raise Violation(f"a large value leaves in topic {delta.topic} at {delta.to_version}")
    for entry in delta.entries:
        db, table, _ = entry.key.decode().split("\0")
        if entry.kind == VALUE and mode.withholds((db, table)):
            raise Violation(f"{db}.{table} is withheld, and leaves at {entry.version}")
