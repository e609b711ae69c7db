"""A lake of many tables and partitions, filled in seconds, and a driver of it in virtual time.

    Lake ──commit──▶ catalogd ──delta──▶ hub ──▶ Driver: a subscriber with its planner and cache
                         └────────────── pulls ─────▶┘

Tables share the bytes of their blocks, which are those of one hourly table; a change rewrites what
it changes. All processes are production cores in a cluster.
"""

import random
import sys
from collections.abc import Iterable
from functools import partial
from typing import Final, TypeVar

from topicast.catalog.effects import Effect, Publish
from topicast.catalog.model.versions import Transaction
from topicast.subscriber.fetch.fetcher import PartitionRequest
from topicast.subscriber.protocol.commands import Done, Operation
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.bench.source import SETTINGS, Catalog
from topicast.tests.bench.stores import COLUMNS, blocks_of, names_of, table_of
from topicast.tests.cluster.cluster import Cluster
from topicast.tests.cluster.reader import Setup
from topicast.tests.cluster.shop import Shop, followed
from topicast.tests.cluster.store import SimStore
from topicast.tests.subscriber.structs import partition_struct, table_struct
from topicast.topics.memory.memory_limit import MemoryLimit
from topicast.topics.objects.encoding.values import NameRecord
from topicast.topics.objects.names import group_of, table_key
from topicast.topics.objects.selector import ALL
from topicast.topics.topic import (
    FULL,
    LEVELS,
    MINIMAL,
    NAMESPACE,
    NONE,
    NUM_TOPICS_DEFAULT,
    Topic,
    accounted_bytes,
)
from topicast.topics.wire.messages.data import SOURCE_EVENTS

T = TypeVar("T")

STEP_S: Final = 0.005  # while an answer is waited for
ARRIVED_S: Final = 0.03  # without dice a delta is under way for less, through the hub
TIMEOUT_S: Final = 600.0
PARTITIONED_SHARE: Final = 0.2
TAIL: Final = 1.1  # of Pareto's law: a few tables have most of the partitions
LARGEST: Final = 20_000  # partitions, about
BLOCK: Final = 32


class Lake(Catalog):
    """A catalog of so many tables; ``sizes`` are their accounted bytes."""

    def __init__(self, tables: int, *, partitions: int, seed: int) -> None:
        super().__init__(NUM_TOPICS_DEFAULT)
        self.tables = [table_of(number, tables) for number in range(tables)]
        self.counts = partition_counts(tables, partitions, random.Random(seed)) if tables else []
        self._fill_names()
        blocks, templates = blocks_of(max(self.counts, default=0))
        few = {count: blocks_of(count) for count in range(1, BLOCK)}
        for number, count in enumerate(self.counts):
            here = few[count] if count in few else (blocks[: count // BLOCK], templates)
            self.fill(*self.tables[number], *(here if count else ((), ())))
        self.sizes = [self._size(number) for number in range(tables)]

    def place(self, number: int) -> tuple[int, bytes]:
        """Return topic and group of a table."""
        name = self.tables[number]
        return self.topic(*name), table_key(*name)

    def version(self, number: int) -> int:
        """Return the version of the last change of a table."""
        topic, group = self.place(number)
        return self.topics[topic].changed_at(group)

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

    def _size(self, number: int) -> int:
        topic, group = self.place(number)
        return sum(map(accounted_bytes, self.topics[topic].rows(group)))


class LakeStore(SimStore):
    """The store of a catalogd that holds a lake, whose topics are not copied."""

    topics: dict[int, Topic]

    @classmethod
    def holding(cls, lake: "Lake", shop: Shop) -> "LakeStore":
        store = cls(lake.epoch, place=followed(shop))
        store.versions = {number: topic.version for number, topic in lake.topics.items()}
        store.entries = dict.fromkeys(lake.topics, ())  # those of later commits
        store.topics = lake.topics
        return store

    def load(self, _memory: MemoryLimit | None = None) -> dict[int, Topic]:
        return self.topics


class Driver:
    """A subscriber in a cluster whose catalogd holds a lake; time passes as its caller orders.

    Changes are written by catalogd's own tables; its metastore has no event of them.
    """

    def __init__(self, lake: Lake, *, budget_bytes: int, automatic: bool) -> None:
        self.lake = lake
        self.applied: dict[int, int] = {}  # by table: the version of the last delta that arrived
        self._revision = 0  # of the last change, of any table
        shop = Shop(())
        self.cluster = Cluster(
            settings=SETTINGS,
            setups=(Setup(budget_bytes=budget_bytes, automatic=automatic),),
            hubs=1,
            metastore=shop,
            store=LakeStore.holding(lake, shop),
            check_every=sys.maxsize,
        )
        self._reader = self.cluster.readers[0]
        self._core = self._reader.member
        self._numbers = {lake.place(number): number for number in range(len(lake.tables))}
        self.cluster.catalogd.performing.append(self._note)

    @property
    def held_bytes(self) -> int:
        """The bytes that count in the budget."""
        return self._reader.budget.held_bytes

    @property
    def held_most(self) -> int:
        """The most that it ever was."""
        return self._reader.budget.held_most

    def levels(self) -> list[int]:
        """Return how many topics of tables are at each level."""
        started = self._core.topics()
        assert isinstance(started, Done)
        at = [one.level for one in started.result if one.id != NAMESPACE]
        return [at.count(LEVELS[level]) for level in (NONE, MINIMAL, FULL)]

    def start(self) -> None:
        """Return once the driver is ready."""
        self._wait_for(self._core.ready)

    def change(self, number: int) -> None:
        """Change a table: one partition if it has any, else its columns."""
        db, name = self.lake.tables[number]
        self._revision += 1
        if self.lake.counts[number]:
            part = f"ds=2040-01-{1 + self._revision % 28:02d}/hour=00"
            changes = {part: partition_struct(db, name, part, {"numFiles": str(self._revision)})}
            thrift = None
        else:
            changes, thrift = {}, table_struct(db, name, columns=(*COLUMNS, f"c{self._revision}"))
        catalogd = self.cluster.catalogd
        assert catalogd.catalog is not None
        catalogd.catalog.tables.write_partitions(
            (db, name), changes, thrift=thrift, source=SOURCE_EVENTS
        )
        catalogd.turn(())

    def read(self, number: int) -> tuple[TableSnapshot, bool]:
        """Read a table with all its partitions; return whether memory answered, too."""
        db, name = self.lake.tables[number]
        self._core.note_read(db, name, whole=True)
        content = self._core.view.partitions(db, name)
        if content is not None:
            return content, True
        request = PartitionRequest(db=db, table=name, selector=ALL)
        content = self._wait_for(partial(self._core.read, request))
        assert isinstance(content, TableSnapshot)
        return content, False

    def _wait_for(self, operation: Operation[T]) -> T:
        """Let time pass until an operation has ended; return its result."""
        command = self._reader.command(operation, timeout_s=TIMEOUT_S)
        self._reader.handle(command)
        while command.outcome is None:
            self.cluster.run(self.cluster.now + STEP_S)
        return command.result(0)

    def _note(self, effect: Effect) -> None:
        """Note what catalogd publishes as applied, once its delta has arrived at the reader."""
        if isinstance(effect, Publish):
            self.cluster.at(ARRIVED_S, lambda: self._note_applied(effect.transactions))

    def _note_applied(self, transactions: Iterable[Transaction]) -> None:
        for one in (one for one in transactions if one.topic != NAMESPACE):
            for entry in one.entries:
                self.applied[self._numbers[one.topic, group_of(entry.key)]] = one.to_version


def partition_counts(tables: int, partitions: int, rng: random.Random) -> list[int]:
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
