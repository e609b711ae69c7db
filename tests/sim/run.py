"""A run: one seed's workload, faults, reads and what they are held against."""

from collections import Counter
from random import Random

from topicast.catalog.modes import MODE_DEFAULT, POLICY_DEFAULT
from topicast.catalog.transactions import Transaction
from topicast.subscriber.facts import Answer, Fail
from topicast.tests.sim.application import Application
from topicast.tests.sim.checkers import Incarnations, Moments, Versions
from topicast.tests.sim.holding import count_held
from topicast.tests.sim.metastore import TableId
from topicast.tests.sim.processes import EPOCH_0, HUBS
from topicast.tests.sim.reader import ReaderProcess, Setup
from topicast.tests.sim.sessions import Session
from topicast.tests.sim.sizes import small
from topicast.tests.sim.store import NUM_TOPICS, SimStore
from topicast.tests.sim.verdicts import Commits
from topicast.tests.sim.violation import Violation
from topicast.tests.sim.world import World

FAULTS_S = 5.0  # of trouble
HEALED_S = 14.0  # until everything must be as the metastore is
STEP_S = 0.2  # between two looks whether it is
OPERATIONS = 24
NAMES_BYTES = 1600  # the namespace takes 1382 of them at most
THREADS = 2  # of an application: their reads overlap


class Run:
    """One seed from the start to the last comparison."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = Random(seed)
        self.world = World(rng, _setups(rng))
        self.counts: Counter[str] = Counter()
        self.current: dict[int, dict[TableId, float]] = {}
        self.done = False
        self.commits = Commits(self.world.catalogd)
        self._record()
        self.threads = [one for process in self.world.readers for one in self._threads(process)]
        self.world.metastore.race = self._race
        for _ in range(6):
            self.world.metastore.random_write()

    def go(self) -> "Run":
        """Run it.

        Raises:
            Violation: a checker found something; names the seed.
        """
        try:
            with small(lambda: self.world.now):
                self._go()
        except Exception as exc:
            raise Violation(f"make sim SEED={self.seed}: {type(exc).__name__} {exc}") from exc
        finally:
            for reader in self.world.readers:
                for worker in reader.workers:
                    worker.end()
        return self

    def _go(self) -> None:
        world = self.world
        world.at(0.05, self._write)
        world.at(0.4, self._trouble)
        for thread in self.threads:
            world.at(world.rng.uniform(0.2, 0.5), lambda thread=thread: self._read(thread))
        world.run(world.now + FAULTS_S)
        self._heal()
        healed = world.now
        while (missing := self._missing(healed)) and world.now < healed + HEALED_S:
            world.run(world.now + STEP_S)
        assert not missing, missing
        for reader in world.readers:
            if reader.setup.watching:
                reader.mirror.calm(world.metastore.history, NUM_TOPICS)
        self.counts["operations"] = sum(world.metastore.counts.values())
        for reader in world.readers:
            count_held(reader.member, world.counts)
        self.counts += world.counts

    def _race(self) -> None:
        if not self.done and self.world.rng.random() < 0.1:
            self.world.metastore.random_write()

    def _write(self) -> None:
        if self.done:
            return
        self.world.metastore.random_write()
        self.world.at(self.world.rng.expovariate(OPERATIONS / FAULTS_S), self._write)

    def _threads(self, process: ReaderProcess) -> list[Application]:
        """Return the threads of an application at a subscriber."""
        metastore = self.world.metastore
        moments, versions = Moments(metastore.history), Versions()
        databases = Moments(metastore.databases_history)
        current = self.current[process.number] = {}
        threads = [
            Application(self.world, process, moments, versions, self.counts, current)
            for _ in range(THREADS)
        ]

        def session() -> Session:
            return Session(process, moments, databases, self.commits, self.counts, ())

        for thread in threads:
            thread.session = session

        def answered(effect: Answer | Fail) -> None:
            any(thread.answered(effect) for thread in threads)

        process.answered = answered
        process.stepped = versions.stepped
        return threads

    def _record(self) -> None:
        """Have everything that becomes durable looked at."""
        incarnations, commits = Incarnations(), self.commits

        def committed(transactions: tuple[Transaction, ...]) -> None:
            incarnations.committed(transactions)
            commits.committed(transactions)

        def restored() -> None:
            incarnations.forget()
            commits.forget()

        self.world.catalogd.committed, self.world.catalogd.restored = committed, restored

    def _read(self, thread: Application) -> None:
        thread.act(calm=self.done)
        pause_s = (
            self.world.rng.uniform(0.03, 0.1) if self.done else self.world.rng.uniform(0.06, 0.4)
        )
        self.world.at(pause_s, lambda: self._read(thread))

    def _trouble(self) -> None:
        if self.done:
            return
        world, rng = self.world, self.world.rng
        faults = (
            self._kill_catalogd,
            self._restore_old,
            self._lose_store,
            self._kill_hub,
            self._cut,
            self._slow,
            self._away,
        )
        fault = rng.choices(faults, [3, 1, 1, 3, 3, 1, 1])[0]
        self.counts[fault.__name__.removeprefix("_")] += 1
        world.note(fault.__name__)
        fault()
        world.at(rng.uniform(0.3, 1.5), self._trouble)

    def _kill_catalogd(self) -> None:
        catalogd = self.world.catalogd
        if catalogd.alive:
            catalogd.crash()
            self.world.at(self.world.rng.uniform(0.05, 0.8), catalogd.revive)

    def _restore_old(self) -> None:
        catalogd = self.world.catalogd
        if catalogd.alive:
            catalogd.crash()
            catalogd.restore(catalogd.old.copy())
            self.world.at(self.world.rng.uniform(0.05, 0.8), catalogd.revive)

    def _lose_store(self) -> None:
        catalogd = self.world.catalogd
        if catalogd.alive:
            catalogd.crash()
            catalogd.restore(SimStore(epoch=self.world.now_us + EPOCH_0))
            self.world.at(self.world.rng.uniform(0.05, 0.8), catalogd.revive)

    def _kill_hub(self) -> None:
        hub = self.world.rng.choice(self.world.hubs)
        if hub.alive:
            hub.crash()
            self.world.at(self.world.rng.uniform(0.05, 1.0), lambda: hub.alive or hub.start())

    def _cut(self) -> None:
        names = [f"hub-{n}" for n in range(HUBS)]
        one = self.world.rng.choice(names)
        other = self.world.rng.choice([r.name for r in self.world.readers] + ["catalogd"])
        pair = {(one, other), (other, one)}
        self.world.cut |= pair
        self.world.at(
            self.world.rng.uniform(0.2, 1.5), lambda: self.world.cut.difference_update(pair)
        )

    def _slow(self) -> None:
        reader = self.world.rng.choice(self.world.readers)
        reader.slow = self.world.rng.uniform(0.05, 0.5)
        self.world.at(1.0, lambda: setattr(reader, "slow", 0.0))

    def _away(self) -> None:
        self.world.metastore.away = True
        self.world.at(
            self.world.rng.uniform(0.1, 0.8), lambda: setattr(self.world.metastore, "away", False)
        )

    def _heal(self) -> None:
        world = self.world
        self.done, world.faults = True, False
        world.metastore.away = False
        world.cut.clear()
        for reader in world.readers:
            reader.slow = 0.0
        world.catalogd.revive()
        world.catalogd.turn_mode(MODE_DEFAULT)
        for hub in world.hubs:
            if not hub.alive:
                hub.start()
        world.note("healed")

    def _missing(self, healed: float) -> str:
        """Say who has not come to what the metastore holds since the trouble ended."""
        world = self.world
        for reader in world.readers:
            for table in world.metastore.history:
                if self.current[reader.number].get(table, 0.0) <= healed:
                    return f"{reader.name} has not converged on {'.'.join(table)}"
        if world.catalogd.store.policy != POLICY_DEFAULT:
            return "something that was withheld is not touched yet"
        ours = world.catalogd.standing.topics
        for hub in world.hubs:
            for number, topic in ours.items():
                slot = hub.hub._intake.slots.get(number)
                if slot is None or slot.topic.version != topic.version:
                    return f"{hub.name} has not converged"
                if _rows(slot.topic) != _rows(topic):
                    return f"{hub.name} topic {number} differs"
        return ""


def _setups(rng: Random) -> tuple[Setup, ...]:
    """Return a reader with room for all, one that chooses by use, and one that may."""
    tight = [NAMES_BYTES + rng.randrange(4000) for _ in range(2)]
    return (
        Setup(),
        Setup(budget_bytes=tight[0], automatic=True),
        Setup(budget_bytes=tight[1], automatic=rng.random() < 0.5),
    )


def _rows(topic: object) -> dict[bytes, tuple[int, bytes | None]]:
    return {e.key: (e.version, e.value) for g in topic.group_ids() for e in topic.rows(g)}
