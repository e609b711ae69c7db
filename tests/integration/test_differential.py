"""Whatever writers do and whichever daemon is killed: a synced subscriber holds what HMS holds."""

import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

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

SEED = 20_261_121
WRITERS = 4
OPERATIONS = 500
EACH_KIND = 10
KILLS = 6


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
    with Subscriber(daemons.hub_address, budget="64MB", timeout_s=60) as catalog:
        kills = _write_and_kill(writers, daemons)
        counts = sum((writer.counts for writer in writers), Counter[str]())
        for kind in writers[0].kinds:
            missing = EACH_KIND - counts[kind]
            if missing > 0:
                writers[0].fill_up(kind, writers[0].counts[kind] + missing)
        counts = sum((writer.counts for writer in writers), Counter[str]())
        print(f"seed {SEED}: {dict(counts)}, refused {sum(w.refused for w in writers)}, {kills}")
        assert min(counts[kind] for kind in writers[0].kinds) >= EACH_KIND
        assert sum(counts.values()) >= OPERATIONS
        catalog.sync(timeout_s=180)  # the metastore tries ten times, 5 s each, what meets a lock
        with HMSClient(host=host, port=int(port)) as client:
            _assert_equal(catalog, client)


def _write_and_kill(writers: list[Writer], daemons: Daemons) -> Counter[str]:
    """Let all write at once, while daemons are killed in turn; return how often each was killed."""
    done = threading.Event()
    threads = [
        threading.Thread(target=writer.run, args=(OPERATIONS // WRITERS, done), daemon=True)
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
            name = (
                rng.choice(("statestored", "catalogd"))
                if number > 1
                else (
                    "statestored",
                    "catalogd",
                )[number]
            )
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
