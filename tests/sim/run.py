"""A run: one seed's workload, faults, reads and what they are held against."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from topicast.catalog.sources import pieces, reading
from topicast.subscriber.content import Content
from topicast.subscriber.facts import Answer, AskDrop, AskJoin, AskSync, AskTable, Fail
from topicast.subscriber.reads import reach_of, read_partitions
from topicast.tests.sim.metastore import PARTS, State, TableId
from topicast.tests.sim.processes import HUBS
from topicast.tests.sim.reader import ReaderProcess
from topicast.tests.sim.store import NUM_TOPICS
from topicast.tests.sim.world import World
from topicast.topics.entries import FULL, MINIMAL
from topicast.topics.errors import NoSuchObject, UsageError
from topicast.topics.objects.names import table_key

FAULTS_S = 5.0  # of trouble
HEALED_S = 14.0  # until everything must be as the metastore is
STEP_S = 0.5  # between two looks whether it is
OPERATIONS = 24


class Violation(AssertionError):
    """What a checker found; says how to see it again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What an application waits for; ``part``: the one partition that a filter asks for."""

    kind: str
    table: TableId
    whole: bool
    moment: int
    part: str | None = None

    @property
    def filter(self) -> str | None:
        """The filter in the metastore's language."""
        if self.part is None:
            return None
        key, _, value = self.part.partition("=")
        return f"{key} = '{value}'"


@dataclass(slots=True)
class Reader:
    """An application at one subscriber: one read after the other, each checked."""

    run: "Run"
    process: ReaderProcess
    shown: dict[TableId, int] = field(default_factory=dict)
    floor: int = 0
    asked: "Asked | None" = None
    waiting: int = 0

    def act(self) -> None:
        """Ask for something, unless an answer is still to come."""
        run, rng = self.run, self.run.world.rng
        if self.asked is not None:
            return
        now = run.world.now
        if not run.done and rng.random() < 0.1:
            topic = rng.randrange(NUM_TOPICS)
            if rng.random() < 0.5:
                self.process.ask(lambda n: AskDrop(id=n, topic=topic))
            else:
                level = rng.choice((MINIMAL, MINIMAL, FULL))
                self.process.ask(
                    lambda n: AskJoin(id=n, topic=topic, level=level, give_up_at=now + 3)
                )
            return
        if rng.random() < 0.15:
            self._put("sync", ("", ""), whole=False)
            return
        table = rng.choice(list(run.world.metastore.history))
        whole = rng.random() < 0.7
        part = rng.choice(PARTS) if whole and rng.random() < 0.4 else None
        self._put("table", table, whole=whole, part=part)

    def _put(self, kind: str, table: TableId, *, whole: bool, part: str | None = None) -> None:
        give_up_at = self.run.world.now + 3
        asked = Asked(kind, table, whole, self.run.world.metastore.moment, part)
        self.asked = asked
        number = self.process.next_id + 1
        self.waiting = number
        if kind == "sync":
            self.process.ask(lambda n: AskSync(id=n, give_up_at=give_up_at))
        else:
            db, name = table
            self.process.member.choosing.reads.append((db, name, whole))
            self.process.ask(
                lambda n: AskTable(
                    id=n,
                    db=db,
                    table=name,
                    whole=whole,
                    filter=asked.filter,
                    give_up_at=give_up_at,
                )
            )

    def answered(self, effect: object) -> None:
        assert isinstance(effect, Answer | Fail)
        if effect.id != self.waiting or self.asked is None:
            return
        asked, self.asked = self.asked, None
        if asked.kind == "sync":
            if isinstance(effect, Answer):
                self.floor = max(self.floor, asked.moment)
                self.run.counts["syncs"] += 1
            return
        if isinstance(effect, Fail) and type(effect.error) is UsageError:
            return  # a filter on a table that has no partition columns, by now
        if isinstance(effect, Fail) and not isinstance(effect.error, NoSuchObject):
            self.run.counts["reads that failed"] += 1
            return
        self.run.counts["reads checked"] += 1
        self.run.counts["filters checked"] += asked.part is not None
        self._check(asked, None if isinstance(effect, Fail) else effect.result)

    def _check(self, asked: Asked, content: object) -> None:
        """Find the moment of the metastore's history that was shown."""
        table = asked.table
        seen = _state_of(asked, content) if isinstance(content, Content) else None
        history = self.run.world.metastore.history[table]
        least = max(self.floor, self.shown.get(table, 0))
        for at, (moment, state) in enumerate(history):
            ends = history[at + 1][0] if at + 1 < len(history) else float("inf")
            if ends > least and _same(asked, seen, state):
                self.shown[table] = max(moment, self.shown.get(table, 0))
                if self.run.world.metastore.moment == moment or ends == float("inf"):
                    self.run.current[self.process.number, table] = self.run.world.now
                return
        self.run.world.note(f"{self.process.name} violated")
        raise Violation(
            f"{self.process.name} {'.'.join(table)} {asked}: shown {seen}, which was not so "
            f"at or after moment {least}; history {history[-6:]}"
        )


@contextmanager
def _small_pieces() -> Iterator[None]:
    """Let tables of more than two partitions be large, so that LOADING is an everyday thing."""
    with (
        patch.object(reading, "WHOLE_PARTITIONS_MAX", 2),
        patch.object(pieces, "PARTITIONS_PER_READ_MAX", 2),
    ):
        yield


def _state_of(asked: Asked, content: Content) -> State:
    group = table_key(*asked.table)
    head = content.head(group)
    assert head is not None
    rev = int(head.table.parameters["rev"])
    text = asked.filter if head.table.partition_columns else None
    blocks = content.blocks(group, reach_of(head, text))
    parts = read_partitions(head, blocks, text) if asked.whole else ()
    return rev, tuple(sorted((p.name, int(p.parameters["rev"])) for p in parts))


def _same(asked: Asked, seen: State, state: State) -> bool:
    if seen is None or state is None:
        return seen is state
    if not asked.whole:
        return seen[0] == state[0]
    parts = state[1] if asked.part is None else [p for p in state[1] if p[0] == asked.part]
    return seen == (state[0], tuple(parts))


class Run:
    """One seed from the start to the last comparison."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self.counts: Counter[str] = Counter()
        self.current: dict[tuple[int, TableId], float] = {}
        self.done = False
        self.readers = [Reader(self, process) for process in self.world.readers]
        for reader in self.readers:
            reader.process.answered = reader.answered
        self.world.metastore.race = self._race
        for _ in range(6):
            self.world.metastore.random_write()

    def go(self) -> "Run":
        """Run it.

        Raises:
            Violation: a checker found something; names the seed.
        """
        try:
            with _small_pieces():
                self._go()
        except AssertionError as exc:
            raise Violation(f"make sim SEED={self.seed}: {type(exc).__name__} {exc}") from exc
        return self

    def _go(self) -> None:
        world = self.world
        world.at(0.05, self._write)
        world.at(0.4, self._trouble)
        for reader in self.readers:
            world.at(world.rng.uniform(0.2, 0.5), lambda reader=reader: self._read(reader))
        world.run(world.now + FAULTS_S)
        self._heal()
        healed = world.now
        while (missing := self._missing(healed)) and world.now < healed + HEALED_S:
            world.run(world.now + STEP_S)
        assert not missing, missing
        self.counts["operations"] = sum(world.metastore.counts.values())
        self.counts += world.counts

    def _race(self) -> None:
        if not self.done and self.world.rng.random() < 0.1:
            self.world.metastore.random_write()

    def _write(self) -> None:
        if self.done:
            return
        self.world.metastore.random_write()
        self.world.at(self.world.rng.expovariate(OPERATIONS / FAULTS_S), self._write)

    def _read(self, reader: Reader) -> None:
        reader.act()
        self.world.at(self.world.rng.uniform(0.03, 0.2), lambda: self._read(reader))

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
            catalogd.store = catalogd.old.copy()
            self.world.at(self.world.rng.uniform(0.05, 0.8), catalogd.revive)

    def _lose_store(self) -> None:
        catalogd = self.world.catalogd
        if catalogd.alive:
            catalogd.crash()
            catalogd.store = type(catalogd.store)(epoch=self.world.now_us + 1_700_000_000_000_000)
            catalogd.old = catalogd.store.copy()
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
        for hub in world.hubs:
            if not hub.alive:
                hub.start()
        world.note("healed")

    def _missing(self, healed: float) -> str:
        """Say who has not come to what the metastore holds since the trouble ended."""
        world = self.world
        for reader in world.readers:
            for table in world.metastore.history:
                if self.current.get((reader.number, table), 0.0) <= healed:
                    return f"{reader.name} has not converged on {'.'.join(table)}"
        ours = world.catalogd.standing.topics
        for hub in world.hubs:
            for number, topic in ours.items():
                slot = hub.hub._intake.slots.get(number)
                if slot is None or slot.topic.version != topic.version:
                    return f"{hub.name} has not converged"
                if _rows(slot.topic) != _rows(topic):
                    return f"{hub.name} topic {number} differs"
        return ""


def _rows(topic: object) -> dict[bytes, tuple[int, bytes | None]]:
    return {e.key: (e.version, e.value) for g in topic.group_ids() for e in topic.rows(g)}
