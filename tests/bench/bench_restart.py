"""How long catalogd needs from its store to topics in memory, with 100,000 tables.

restart   the store is opened and all topics are made, beside SQLite reading the same rows
blocks    100,000 partitions in blocks, beside the same as one row each
drop      the commit that drops the largest table, a million partitions

``bench_start.py`` measures the whole process.
Run: make bench ARGS=tests/bench/bench_restart.py
"""

import gc
import random
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from time import perf_counter

from topicast.catalog.catalogd import load_topics
from topicast.catalog.model.versions import Transaction
from topicast.catalog.storage.store import FILE_NAME, VALUES_OF, Store
from topicast.tests.bench.report import RUNS, beside, best_s, say, target
from topicast.topics.topic import Entry, prefix_tombstone, table_topic, topic_ids

NUM_TOPICS = 256
TABLES = 100_000
PARTITIONS = 1_000_000
COMPARED = 100_000  # partitions, as blocks and as rows
LARGE = 2_000  # tables that share the partitions
PER_BLOCK = 32
TABLE_BYTES = 600
BLOCK_BYTES = 1024
ROW_BYTES = 331  # one partition by itself
TURN = 500  # transactions in one commit
RESTART_S_MAX = 2.0
BLOCKS_RATIO_MAX = 0.2  # of what a row for each partition would take
DROP_S_MAX = 1.0  # of a million partitions
NOW_US = 1_700_000_000_000_000
Write = tuple[int, tuple[bytes, bytes]]  # topic, key and value


def table(number: int) -> tuple[str, str]:
    return f"db{number % 1000:03d}", f"table{number:06d}"


def tables(count: int, rng: random.Random) -> Iterator[Write]:
    for number in range(count):
        db, name = table(number)
        key = f"{db}\0{name}\0".encode()
        yield table_topic(db, name, NUM_TOPICS), (key, rng.randbytes(TABLE_BYTES))


def parts(count: int, size: int, rng: random.Random) -> Iterator[Write]:
    """Yield blocks or partitions, table after table."""
    each = -(-count // LARGE)
    for number in range(count):
        db, name = table(number // each)
        key = f"{db}\0{name}\0\x01ds={number % each:08d}/hour=00".encode()
        yield table_topic(db, name, NUM_TOPICS), (key, rng.randbytes(size))


def fill(folder: Path, writes: Iterable[Write]) -> None:
    """Write a store as catalogd would, one transaction each, many in one commit."""
    store = opened(folder)
    versions = store.versions
    waiting = iter(writes)
    while turn := tuple(islice(waiting, TURN)):
        transactions = []
        for topic, (key, value) in turn:
            version = versions[topic] = versions[topic] + 1
            entry = Entry(key, version, version, version, len(value), value)
            transactions.append(transaction(topic, version, entry))
        store.commit(transactions, last_event_id=1, window=b"")
    store.close()


def transaction(topic: int, version: int, entry: Entry) -> Transaction:
    return Transaction(
        topic=topic,
        from_version=version - 1,
        to_version=version,
        entries=(entry,),
        source=0,
        at_us=NOW_US,
    )


def opened(folder: Path) -> Store:
    return Store.open(folder, num_topics=NUM_TOPICS, now_us=NOW_US, new_id=1)


def restart_s(folder: Path) -> tuple[float, int]:
    """Return seconds and entries of the fastest of several restarts."""
    times = []
    for _ in range(RUNS):
        gc.collect()
        began = perf_counter()
        store = opened(folder)
        topics = load_topics(store, topic_ids(NUM_TOPICS))
        times.append(perf_counter() - began)
        entries = sum(map(len, topics.values()))
        store.close()
        del topics
    return min(times), entries


def drop_s(folder: Path) -> tuple[float, int]:
    """Return the seconds that the commit takes that drops the first table, and its rows."""
    db, name = table(0)
    topic, group = table_topic(db, name, NUM_TOPICS), f"{db}\0{name}\0".encode()
    store = opened(folder)
    held = load_topics(store, [topic])[topic]
    version = held.version + 1
    drop = transaction(topic, version, prefix_tombstone(group, version))
    began = perf_counter()
    store.commit((drop,), last_event_id=2, window=b"")
    elapsed = perf_counter() - began
    store.close()
    return elapsed, len(held.rows(group))


def read_s(folder: Path) -> float:
    """Return the seconds that SQLite itself needs to read every entry, topic after topic."""
    database = sqlite3.connect(folder / FILE_NAME)

    def read() -> None:
        for topic in topic_ids(NUM_TOPICS):
            database.execute(VALUES_OF, (topic,)).fetchall()

    with closing(database):
        return best_s(read)


def bench_restart(folder: Path, rng: random.Random) -> None:
    blocks = -(-PARTITIONS // PER_BLOCK)
    fill(folder, tables(TABLES, rng))
    fill(folder, parts(blocks, BLOCK_BYTES, rng))
    megabytes = (folder / FILE_NAME).stat().st_size >> 20
    seconds, entries = restart_s(folder)
    what = {"tables": TABLES, "partitions": PARTITIONS, "entries": entries, "megabytes": megabytes}
    against = beside("SQLite alone", ours=seconds, its=read_s(folder))
    reached = target(seconds, at_most=RESTART_S_MAX)
    say("restart", "restart", restart_s=seconds, **what, **against, **reached)


def bench_blocks(folder: Path, rng: random.Random) -> None:
    fill(folder / "blocks", parts(COMPARED // PER_BLOCK, BLOCK_BYTES, rng))
    fill(folder / "rows", parts(COMPARED, ROW_BYTES, rng))
    ours, its = restart_s(folder / "blocks")[0], restart_s(folder / "rows")[0]
    against = beside("a row each", ours=ours, its=its)
    say(
        "restart",
        "blocks",
        partitions=COMPARED,
        restart_s=ours,
        **against,
        **target(ours / its, at_most=BLOCKS_RATIO_MAX),
    )


def bench_drop(folder: Path, rng: random.Random) -> None:
    large = f"{table(0)[0]}\0{table(0)[1]}\0".encode()
    topic = table_topic(*table(0), NUM_TOPICS)
    keys = (large + f"\x01ds={number:08d}/hour=00".encode() for number in range(31_250))
    fill(folder, ((topic, (key, rng.randbytes(BLOCK_BYTES))) for key in keys))
    seconds, dropped = drop_s(folder)
    say("restart", "drop", drop_s=seconds, blocks=dropped, **target(seconds, at_most=DROP_S_MAX))


def main() -> None:
    rng = random.Random(3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench_restart(folder / "all", rng)
        bench_blocks(folder, rng)
        bench_drop(folder / "large", rng)


if __name__ == "__main__":
    main()
