"""Lake: a catalog of many tables and partitions, filled in seconds, and a driver in virtual time.

    Lake ──commit──▶ DELAY_S ──delta──▶ Driver: a Core with its planner and cache
      └────────────── pulls, at once ─────▶┘

Tables share the bytes of their blocks, which are those of one hourly table; a change rewrites what
it changes. Everything that the driver is told passes the codec.
"""

import random
from collections import deque
from dataclasses import replace
from typing import Final

from topicast.subscriber.protocol import effects, facts
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.bench.bench_representation import KEYS
from topicast.tests.bench.stores import COLUMNS, blocks_of, names_of, table_of
from topicast.tests.subscriber.source import Catalog
from topicast.tests.subscriber.structs import table_struct
from topicast.tests.subscriber.world import World
from topicast.topics.objects.names import block_key, table_key
from topicast.topics.objects.selector import ALL
from topicast.topics.objects.values import (
    ABSENT,
    COMPLETE,
    NameRecord,
    TableValue,
    encode_table_value,
)
from topicast.topics.topic import (
    FULL,
    MINIMAL,
    NAMESPACE,
    NONE,
    NUM_TOPICS_DEFAULT,
    accounted_bytes,
    topic_ids,
)
from topicast.topics.wire.messages import Delta, Heartbeat, Status

DELAY_S: Final = 0.05  # from a commit to the driver
HEARTBEAT_S: Final = 1.0
SIZES_HEARTBEATS: Final = 5  # one of so many says how large the topics are
STEP_S: Final = 0.005  # while an answer is waited for
PARTITIONED_SHARE: Final = 0.2
TAIL: Final = 1.1  # of Pareto's law: a few tables have most of the partitions
LARGEST: Final = 20_000  # partitions, about
BLOCK: Final = 32


class Lake(Catalog):
    """A catalog of so many tables; ``sizes`` are their accounted bytes."""

    def __init__(self, tables: int, *, partitions: int, seed: int) -> None:
        super().__init__(NUM_TOPICS_DEFAULT)
        self._rng = random.Random(seed)
        self.tables = [table_of(number, tables) for number in range(tables)]
        self.counts = _partition_counts(tables, partitions, self._rng) if tables else []
        self._fill_names()
        blocks, templates = blocks_of(max(self.counts, default=0))
        few = {count: blocks_of(count) for count in range(1, BLOCK)}
        for number, count in enumerate(self.counts):
            here = few[count] if count in few else (blocks[: count // BLOCK], templates)
            self._fill(number, *(here if count else ([], ())))
        self.sizes = [self._size(number) for number in range(tables)]

    def place(self, number: int) -> tuple[int, bytes]:
        """Return topic and group of a table."""
        name = self.tables[number]
        return self.topic(*name), table_key(*name)

    def version(self, number: int) -> int:
        """Return the version of the last change of a table."""
        topic, group = self.place(number)
        return self.topics[topic].changed_at(group)

    def change(self, number: int) -> Delta:
        """Change a table: one partition if it has any, else its columns."""
        db, name = self.tables[number]
        draw = self._rng.randrange(1 << 30)
        if self.counts[number]:
            part = f"ds=2040-01-{1 + draw % 28:02d}/hour=00"
            return self.put_partitions(db, name, {part: {"numFiles": str(draw)}})
        return self.put_table(db, name, columns=(*COLUMNS, f"c{draw}"))

    def _fill_names(self) -> None:
        by_db: dict[str, list[str]] = {}
        for db, name in self.tables:
            by_db.setdefault(db, []).append(name)
        for db, names in by_db.items():
            version = self.next(NAMESPACE)
            self.names[db] = {
                name: NameRecord(name, "MANAGED_TABLE", version, version) for name in names
            }
            rows = names_of(db, sorted(names), version=version)
            self.commit(NAMESPACE, [self.value(key, version, value) for key, value in rows])

    def _fill(
        self, number: int, blocks: list[tuple[str, bytes]], templates: tuple[bytes, ...]
    ) -> None:
        db, name = self.tables[number]
        topic = self.topic(db, name)
        value = TableValue(
            incarnation=self.names[db][name].incarnation,
            partitions=COMPLETE if blocks else ABSENT,
            thrift=table_struct(db, name, columns=COLUMNS, keys=KEYS if blocks else ()),
            templates=templates,
        )
        version = self.next(topic)
        rows = [(table_key(db, name), encode_table_value(value))]
        rows += [(block_key(db, name, lower), block) for lower, block in blocks]
        self.commit(topic, [self.value(key, version, value) for key, value in rows])

    def _size(self, number: int) -> int:
        topic, group = self.place(number)
        return sum(map(accounted_bytes, self.topics[topic].rows(group)))


class Driver(World):
    """A subscriber of a lake; time passes as it is told."""

    def __init__(self, lake: Lake, *, budget_bytes: int, automatic: bool) -> None:
        self.lake = lake
        self.applied: dict[int, int] = {}  # by table: the version that its last delta brought
        self.held_most = 0
        self._coming: deque[tuple[float, int, Delta]] = deque()
        self._heartbeats = 0
        self._heartbeat_at = 0.0
        super().__init__(lake, budget_bytes=budget_bytes, automatic=automatic)

    @property
    def held_bytes(self) -> int:
        """What counts in the budget."""
        return self.member._subscriptions.replicas.budget.held_bytes

    def levels(self) -> list[int]:
        """Return how many topics are at each level."""
        at = [
            self.member._subscriptions.replicas.level(topic) for topic in range(NUM_TOPICS_DEFAULT)
        ]
        return [at.count(level) for level in (NONE, MINIMAL, FULL)]

    def start(self) -> None:
        """Bring the driver to readiness."""
        self.pass_until(self.now + 2 * HEARTBEAT_S)
        number = self.ask("ready")
        while number not in self.answers:
            self.pass_until(self.now + STEP_S)

    def change(self, number: int) -> None:
        """Change a table of the lake; the driver hears of it in a moment."""
        self._coming.append((self.now + DELAY_S, number, self.lake.change(number)))

    def read(self, number: int) -> tuple[TableSnapshot, bool]:
        """Read a table with all its partitions; tell whether memory answered."""
        db, name = self.lake.tables[number]
        self.member.placement.reads.append((db, name, True))
        content = self.view.partitions(db, name)
        if content is not None:
            return content, True
        ask = self.ask("read", db=db, table=name, selector=ALL)
        while ask not in self.answers:
            assert ask not in self.errors, self.errors[ask]
            self.pass_until(self.now + STEP_S)
        content = self.answers.pop(ask)
        assert isinstance(content, TableSnapshot)
        return content, False

    def pass_until(self, at: float) -> None:
        """Let time pass, with all that falls due meanwhile."""
        while (due := min(self._due(), at)) < at or due > self.now:
            self.now = max(due, self.now)
            while self._coming and self._coming[0][0] <= self.now:
                _, number, delta = self._coming.popleft()
                self.publish(delta)
                self.applied[number] = delta.to_version
            if self._heartbeat_at <= self.now:
                self._heartbeat_at = self.now + HEARTBEAT_S
                self.heartbeat()
            self.run()
            self.sent.clear()
            self.settled.clear()
            self.held_most = max(self.held_most, self.held_bytes)

    def handle(self, fact: facts.Fact) -> None:
        """As a world does, without its checks, which look at everything each time."""
        for effect in self.member.handle(fact, now=self.now):
            self._perform(effect)

    def _perform(self, effect: effects.Effect) -> None:
        if not (isinstance(effect, effects.Send) and isinstance(effect.message, Status)):
            super()._perform(effect)  # of a Status nothing comes

    def _due(self) -> float:
        coming = self._coming[0][0] if self._coming else self._heartbeat_at
        return min(coming, self._heartbeat_at, self.member.deadline)

    def _heartbeat(self) -> Heartbeat:
        self._heartbeats += 1
        sizes = ()
        if self._heartbeats % SIZES_HEARTBEATS == 0:
            sizes = tuple(self.lake.size(topic) for topic in topic_ids(self.lake.num_topics))
        return replace(super()._heartbeat(), interval_ms=int(HEARTBEAT_S * 1000), sizes=sizes)


def _partition_counts(tables: int, partitions: int, rng: random.Random) -> list[int]:
    """Return how many partitions each table has: most none, a few very many, in whole blocks."""
    weights = [rng.paretovariate(TAIL) for _ in range(int(tables * PARTITIONED_SHARE))]
    most = sum(weights) * LARGEST / partitions
    weights = [min(weight, most) for weight in weights]
    share = partitions / sum(weights)
    counts = [max(int(weight * share), 1) for weight in weights]
    counts = [-(-count // BLOCK) * BLOCK if count >= BLOCK else count for count in counts]
    counts += [0] * (tables - len(counts))
    rng.shuffle(counts)
    return counts
