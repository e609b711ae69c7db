"""Trouble: what fails in a run, at any time, or in the middle of a join or a pull."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from topicast.catalog.model.modes import MODE_DEFAULT
from topicast.subscriber.engine.core import Core
from topicast.tests.cluster.catalogd import EPOCH_0, MODES
from topicast.tests.cluster.cluster import HUBS
from topicast.tests.cluster.reader import ReaderProcess
from topicast.tests.cluster.store import SimStore
from topicast.tests.sim.world import World
from topicast.topics.topic import FULL
from topicast.topics.wire.messages.questions import Order

START = Order(request=0, sender="ann", order="events", arguments=("start",))
PAUSE_S = 0.15, 0.8  # between two faults, at least and at most


@dataclass(frozen=True, slots=True)
class Ambush:
    """A fault that waits until it finds a subscriber in the middle of something."""

    name: str
    finds: Callable[[Core], bool]
    fault: Callable[[ReaderProcess], None]


class Trouble:
    """Draws faults, one after the other, until everything is healed."""

    def __init__(self, world: World, counts: Counter[str]) -> None:
        self.world = world
        self.counts = counts
        self._waiting: list[Ambush] = []
        self._ambushes = (
            Ambush("hub dies in a join", _joins, self._kill_its_hub),
            Ambush("hub dies in a pull", _pulls, self._kill_its_hub),
            Ambush("catalogd dies in a pull", _pulls, lambda _: self._kill_catalogd()),
            Ambush("catalogd dies in a join", _joins, lambda _: self._kill_catalogd()),
            Ambush("mode turns in a join", _joins, lambda _: self._turn()),
            Ambush("mode turns in a pull", _pulls, lambda _: self._turn()),
            Ambush("old store in a join", _joins, lambda _: self._restore_old()),
        )

    def begin(self) -> None:
        """Let one thing fail, and others after it."""
        if not self.world.faults:
            return
        rng = self.world.rng
        faults = (
            self._kill_catalogd,
            self._restore_old,
            self._lose_store,
            self._kill_hub,
            self._cut,
            self._slow,
            self._away,
            self._ambush,
            self._kill_driver,
            self._replace_metastore,
            self._put_metastore_back,
            self._clean_log,
        )
        fault = rng.choices(faults, [6, 2, 2, 6, 6, 2, 2, 8, 4, 1, 1, 1])[0]
        self.counts[fault.__name__.removeprefix("_")] += 1
        self.world.note(fault.__name__)
        fault()
        self.world.at(rng.uniform(*PAUSE_S), self.begin)

    def stepped(self, process: ReaderProcess) -> None:
        """Look whether somebody who waits in ambush has found what he waits for."""
        if not self._waiting or not self.world.faults:
            return
        found = next((one for one in self._waiting if one.finds(process.member)), None)
        if found is None:
            return
        self._waiting.remove(found)
        self.counts[found.name] += 1
        self.world.note(f"{found.name}: {process.name}")
        self.world.at(self.world.rng.uniform(0, 0.02), lambda: self._strike(found, process))

    def heal(self) -> None:
        """Let nothing fail any more, and everything run."""
        world = self.world
        world.faults = False
        world.healed = world.now
        world.metastore.away = False
        world.metastore.unreadable.clear()
        world.cut.clear()
        for reader in world.readers:
            reader.slow = 0.0
        world.catalogd.revive()
        world.catalogd.turn_mode(MODE_DEFAULT)
        for after_s in (0.0, 2.0):  # a catalogd that is starting refuses the first
            world.at(after_s, lambda: world.catalogd.order(START))
        if world.rng.random() < 0.5:
            self._kill_driver()  # for good
        for hub in world.hubs:
            hub.revive()
        world.note("healed")

    def _ambush(self) -> None:
        self._waiting.append(self.world.rng.choice(self._ambushes))

    def _strike(self, ambush: Ambush, process: ReaderProcess) -> None:
        if self.world.faults:
            ambush.fault(process)

    def _kill_catalogd(self) -> None:
        catalogd = self.world.catalogd
        if catalogd.alive:
            catalogd.crash()
            away_s = 2.0 if self.world.chance(0.1) else 0.8
            self.world.at(self.world.rng.uniform(0.05, away_s), catalogd.revive)

    def _kill_driver(self) -> None:
        driver = self.world.driver
        if driver.alive:
            driver.crash()
            if self.world.faults:
                self.world.at(self.world.rng.uniform(0.05, 1.0), driver.revive)

    def _restore_old(self) -> None:
        catalogd = self.world.catalogd
        if catalogd.alive:
            self._kill_catalogd()
            catalogd.restore(catalogd.old.copy())

    def _lose_store(self) -> None:
        catalogd = self.world.catalogd
        if catalogd.alive:
            self._kill_catalogd()
            catalogd.restore(SimStore(epoch=self.world.now_us + EPOCH_0))

    def _turn(self) -> None:
        if self.world.catalogd.alive:
            self.world.catalogd.turn_mode(self.world.rng.choice(MODES))

    def _kill_its_hub(self, process: ReaderProcess) -> None:
        self._kill(max(process.hub, 0))

    def _kill_hub(self) -> None:
        self._kill(self.world.rng.randrange(HUBS))

    def _kill(self, number: int) -> None:
        hub = self.world.hubs[number]
        if hub.alive:
            hub.crash()
            self.world.at(self.world.rng.uniform(0.05, 1.0), hub.revive)

    def _cut(self) -> None:
        rng, cut = self.world.rng, self.world.cut
        one = rng.choice([f"hub-{n}" for n in range(HUBS)])
        other = rng.choice([r.name for r in self.world.readers] + ["catalogd"])
        if rng.random() < 0.1:
            one, other = "driver", "catalogd"
        pair = {(one, other), (other, one)}
        cut |= pair
        self.world.at(rng.uniform(0.2, 1.5), lambda: cut.difference_update(pair))

    def _slow(self) -> None:
        reader = self.world.rng.choice(self.world.readers)
        reader.slow = self.world.rng.uniform(0.05, 0.5)
        self.world.at(1.0, lambda: setattr(reader, "slow", 0.0))

    def _replace_metastore(self) -> None:
        """Let another metastore be there, with as many events or more, and some of the tables."""
        rng, metastore = self.world.rng, self.world.metastore
        tables = [table for table in metastore.history if rng.random() < 0.5]
        last_id = metastore.last_id + rng.choice((0, 0, 1, 5))
        metastore.replace(last_id, tables, known_as=rng.choice(("", "", "another")))

    def _put_metastore_back(self) -> None:
        """Keep a copy of the metastore, and put it back later; writers go on meanwhile."""
        world = self.world
        world.metastore.save()

        def put_back() -> None:
            world.metastore.restore()
            if not world.faults:  # the trouble ends only with this
                world.healed = world.now

        world.at(world.rng.uniform(0.1, 0.6), put_back)

    def _clean_log(self) -> None:
        self.world.metastore.clean_log()

    def _away(self) -> None:
        metastore = self.world.metastore
        metastore.away = True
        self.world.at(self.world.rng.uniform(0.1, 0.8), lambda: setattr(metastore, "away", False))


def _joins(member: Core) -> bool:
    """Tell whether a table topic comes at full, and its catch-up was asked for."""
    replicas = member.subscriptions.replicas
    followers = [one for replica in replicas for one in replica.followers()]
    return any(one.level == FULL and one.stream for one in followers)


def _pulls(member: Core) -> bool:
    return member.catalog.fetcher.open_pulls > 0
