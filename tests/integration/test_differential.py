"""Whatever writers do and whichever daemon is killed: a synced subscriber holds what HMS holds."""

import random
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database, Partition, Table
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAcceleratedFactory
from thrift.TSerialization import deserialize

from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.operations import Writer
from topicast.tests.waiting import until
from topicast.topics.errors import LinkError, NoSuchObject
from topicast.topics.topic import NAMESPACE

SEED = 20_261_121
WRITERS = 4
OPERATIONS = 500
EACH_KIND = 10
KILLS = 6
READS = 200  # at least, of each reader, while there are writers
PAUSE_S = 0.01  # between two reads: the writers have the same two cores
SYNC_S = 60.0  # an operation that met a lock of the metastore may take 50 s: ten tries, 5 s each


@pytest.mark.timeout(300)
def test_random_operations_with_kills_end_in_what_the_metastore_holds(
    hive: EmbeddedMetastore, daemons: Daemons, tmp_path: Path
) -> None:
    host, _, port = hive.uri.removeprefix("thrift://").partition(":")
    with HMSClient(host=host, port=int(port)) as client:
        for db in ("diff_a", "diff_b"):
            client.create_database(Database(db, "shared", f"file:{tmp_path}/{db}", {}))
    writers = [
        Writer(n, seed=SEED, host=host, port=int(port), location=f"file:{tmp_path}")
        for n in range(WRITERS)
    ]
    with ExitStack() as up:
        readers = [
            up.enter_context(Reader(daemons.hub_address, level=level, seed=SEED))
            for level in ("full", "minimal")
        ]
        kills = _write_and_kill(writers, daemons)
        counts = sum((writer.counts for writer in writers), Counter[str]())
        refused = sum(writer.refused for writer in writers)
        print(f"seed {SEED}: {dict(counts)}, refused {refused}, {kills}")
        assert min(counts[kind] for kind in writers[0].kinds) >= EACH_KIND
        assert sum(counts.values()) >= OPERATIONS
        for reader in readers:
            print(f"{reader.level}: {dict(reader.stop())}")
            assert reader.counts["table"] >= READS
            assert reader.wrong == []
            reader.catalog.sync(timeout_s=SYNC_S)
            with HMSClient(host=host, port=int(port)) as client:
                _assert_equal(reader.catalog, client)


class Reader:
    """A subscriber whose topics are all at ``level``, and a thread that reads all the time."""

    def __init__(self, hub: str, *, level: str, seed: int) -> None:
        self.level = level
        self.catalog = Subscriber(hub, budget="64MB", timeout_s=SYNC_S)
        self.counts: Counter[str] = Counter()  # answers, by kind
        self.wrong: list[str] = []
        self._rng = random.Random(f"{seed}/{level}")
        self._seen: dict[str, int] = {}  # the highest version of each table
        self._epoch = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self.catalog.open()
        self.catalog.join(
            [one.id for one in self.catalog.topics() if one.id != NAMESPACE], self.level
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.catalog.close()

    def stop(self) -> Counter[str]:
        """End the thread; return how many answers of each kind it had."""
        self._done.set()
        self._thread.join(timeout=2 * SYNC_S)
        assert not self._thread.is_alive()
        return self.counts

    def _run(self) -> None:
        while not self._done.wait(PAUSE_S):
            try:
                self._read(self._rng.choice(self.catalog.databases()))
            except NoSuchObject:
                self.counts["gone"] += 1  # between two calls
            except LinkError:
                self.counts["waited in vain"] += 1  # a daemon was killed
            except Exception as error:  # noqa: BLE001  what a reader must never meet
                self.wrong.append(repr(error))
                return

    def _read(self, db: str) -> None:
        names = self.catalog.tables(db)
        if not names:
            return
        name = f"{db}.{self._rng.choice(names)}"
        table = self.catalog.table(name)
        if table.version < self._seen.get(name, 0):
            self.wrong.append(f"{name}: {table.version} after {self._seen[name]}")
        self._seen[name] = table.version
        self.counts["table"] += 1
        if table.partition_columns:
            names_read = [one.name for one in self.catalog.partitions(name)]
            if names_read != sorted(set(names_read)):
                self.wrong.append(f"{name}: {names_read}")
            self.counts["partitions"] += 1


def _write_and_kill(writers: list[Writer], daemons: Daemons) -> Counter[str]:
    """Let all write at once, while daemons are killed in turn; return how often each was killed."""
    done = threading.Event()
    threads = [
        threading.Thread(
            target=writer.run,
            args=(OPERATIONS // WRITERS, done),
            kwargs={"of_each": -(-EACH_KIND // WRITERS)},
            daemon=True,
        )
        for writer in writers
    ]
    rng, kills = random.Random(SEED), Counter[str]()
    for thread in threads:
        thread.start()
    try:
        for number in range(KILLS):
            goal = (number + 1) * OPERATIONS // (KILLS + 1)
            until(
                lambda goal=goal: sum(sum(w.counts.values()) for w in writers) >= goal,
                timeout_s=120,
                what=f"{goal} operations",
            )
            both = ("statestored", "catalogd")
            name = rng.choice(both) if number > 1 else both[number]
            daemons.kill(name)
            kills[name] += 1
            daemons.start(name)
        for thread in threads:
            thread.join(timeout=120)
    finally:
        done.set()
    assert not any(thread.is_alive() for thread in threads)
    return kills


def _assert_equal(catalog: Subscriber, client: HMSClient) -> None:
    """Compare object by object, every Thrift field that hmsclient knows."""
    mine = [db for db in client.get_all_databases() if db.startswith("diff_")]
    assert [db for db in catalog.databases() if db.startswith("diff_")] == sorted(mine)
    for db in mine:
        assert _read(Database, catalog.database(db).thrift()) == client.get_database(db)
        assert list(catalog.tables(db)) == sorted(client.get_all_tables(db))
        for name in client.get_all_tables(db):
            table = client.get_table(db, name)
            assert _read(Table, catalog.table(f"{db}.{name}").thrift()) == table, f"{db}.{name}"
            partitions = client.get_partitions(db, name, -1) if table.partitionKeys else []
            held = [_read(Partition, p.thrift()) for p in catalog.partitions(f"{db}.{name}")]
            assert _sorted(held) == _sorted(partitions), f"{db}.{name}"


def _read(kind: type, struct: bytes) -> Any:
    return deserialize(kind(), struct, TBinaryProtocolAcceleratedFactory())


def _sorted(partitions: list[Partition]) -> list[Partition]:
    return sorted(partitions, key=lambda partition: partition.values)
