"""How long catalogd needs from its store to topics in memory, with 100,000 tables.

restart   the store is opened and all topics are made, beside SQLite reading the same rows
blocks    100,000 partitions in blocks, beside the same as one row each
drop      the commit that drops the largest table, a million partitions

``bench_start.py`` measures the whole process.
"""

import gc
import random
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from time import perf_counter

from topicast.catalog.model.versions import Commit
from topicast.catalog.model.window_state import WindowState
from topicast.catalog.storage.database import FILE_NAME
from topicast.catalog.storage.loading import load_topics
from topicast.catalog.storage.store import VALUES_OF
from topicast.tests.bench.bench import Bench
from topicast.tests.bench.report import RUNS, at_most, beside, best_s, say
from topicast.tests.bench.stores import Write, opened, transaction, write
from topicast.topics.topic import NUM_TOPICS_DEFAULT, prefix_tombstone, table_topic, topic_ids

TABLES = 100_000
PARTITIONS = 1_000_000
COMPARED = 100_000  # partitions, as blocks and as rows
LARGE = 2_000  # tables that share the partitions
PER_BLOCK = 32
TABLE_BYTES = 600
BLOCK_BYTES = 1024
ROW_BYTES = 331  # one partition by itself
RESTART_S_MAX = 2.0
BLOCKS_RATIO_MAX = 0.2  # of what a row for each partition would take
DROP_S_MAX = 1.0  # of a million partitions


def table(number: int) -> tuple[str, str]:
    return f"db{number % 1000:03d}", f"table{number:06d}"


def tables(count: int, rng: random.Random) -> Iterator[Write]:
    """Yield tables as rows of a transaction each."""
    for number in range(count):
        db, name = table(number)
        key = f"{db}\0{name}\0".encode()
        yield table_topic(db, name, NUM_TOPICS_DEFAULT), [(key, rng.randbytes(TABLE_BYTES))]


def parts(count: int, size: int, rng: random.Random) -> Iterator[Write]:
    """Yield blocks or partitions, table after table."""
    each = -(-count // LARGE)
    for number in range(count):
        db, name = table(number // each)
        key = f"{db}\0{name}\0\x01ds={number % each:08d}/hour=00".encode()
        yield table_topic(db, name, NUM_TOPICS_DEFAULT), [(key, rng.randbytes(size))]


def fill(folder: Path, writes: Iterable[Write]) -> None:
    """Write a store as catalogd would, one transaction each, many in one commit."""
    with closing(opened(folder)) as store:
        write(store, writes, WindowState(last_id=1, stable_id=0))


def restart_s(folder: Path) -> tuple[float, int]:
    """Return seconds and entries of the fastest of several restarts."""
    times = []
    for _ in range(RUNS):
        gc.collect()
        began = perf_counter()
        store = opened(folder)
        topics = load_topics(store, topic_ids(NUM_TOPICS_DEFAULT))
        times.append(perf_counter() - began)
        entries = sum(map(len, topics.values()))
        store.close()
        del topics
    return min(times), entries


def drop_s(folder: Path) -> tuple[float, int]:
    """Return the seconds that the commit takes that drops the first table, and its rows."""
    db, name = table(0)
    topic, group = table_topic(db, name, NUM_TOPICS_DEFAULT), f"{db}\0{name}\0".encode()
    store = opened(folder)
    held = load_topics(store, [topic])[topic]
    version = held.version + 1
    drop = transaction(topic, version, [prefix_tombstone(group, version)])
    began = perf_counter()
    store.commit(Commit(transactions=(drop,), window=None))
    elapsed = perf_counter() - began
    store.close()
    return elapsed, len(held.rows(group))


def read_s(folder: Path) -> float:
    """Return the seconds that SQLite itself needs to read every entry, topic after topic."""
    database = sqlite3.connect(folder / FILE_NAME)

    def read() -> None:
        for topic in topic_ids(NUM_TOPICS_DEFAULT):
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
    against = beside("SQLite alone", seconds, read_s(folder))
    say("restart", what, against, at_most(seconds, RESTART_S_MAX), restart_s=seconds)


def bench_blocks(folder: Path, rng: random.Random) -> None:
    fill(folder / "blocks", parts(COMPARED // PER_BLOCK, BLOCK_BYTES, rng))
    fill(folder / "rows", parts(COMPARED, ROW_BYTES, rng))
    ours, its = restart_s(folder / "blocks")[0], restart_s(folder / "rows")[0]
    against = beside("a row each", ours, its, most=BLOCKS_RATIO_MAX)
    say("blocks", against, partitions=COMPARED, restart_s=ours)


def bench_drop(folder: Path, rng: random.Random) -> None:
    large = f"{table(0)[0]}\0{table(0)[1]}\0".encode()
    topic = table_topic(*table(0), NUM_TOPICS_DEFAULT)
    keys = (large + f"\x01ds={number:08d}/hour=00".encode() for number in range(31_250))
    fill(folder, ((topic, [(key, rng.randbytes(BLOCK_BYTES))]) for key in keys))
    seconds, dropped = drop_s(folder)
    say("drop", at_most(seconds, DROP_S_MAX), drop_s=seconds, blocks=dropped)


def main(bench: Bench) -> None:
    rng = random.Random(3)
    bench_restart(bench.folder / "all", rng)
    bench_blocks(bench.folder, rng)
    bench_drop(bench.folder / "large", rng)
