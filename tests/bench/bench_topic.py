"""What a topic costs at 1e5 entries, and that only a drop depends on the size of a table.

file          one entry, filed again with a new version     since_1pct, since_10   what changed
drop          a table of 1e6 partitions (31,250 blocks)     since_0                a snapshot
              is freed, each block with a value of its own
change_1e2, change_1e6   one partition's block is filed and found again, in a table of that size
"""

import random
from time import perf_counter

from topicast.tests.bench.report import RUNS, at_most, beside, best_us, reference, say, timed_s
from topicast.topics.topic import Entry, Topic, prefix_tombstone

SEED = 3
ENTRIES = 100_000
TABLES = 1000
CHANGES = 20_000
PARTITIONS_PER_BLOCK = 32
VALUE = bytes(1000)
BLOCK_BYTES = 550  # of 32 partitions with 20 columns
FILE_US_MAX = 10.0  # an entry
SINCE_RATIO_MAX = 0.001  # beyond twice the share that has changed
CHANGE_RATIO_MAX = 3.0
DROP_US_MAX = 20_000.0  # in one turn, for the largest table


def block(table: int, number: int, version: int, value: bytes = VALUE) -> Entry:
    """Return one block; its value is shared, so that a million fit, unless it is given."""
    key = b"db\0table%04d\0\x01ds=%08d" % (table, number)
    return Entry(key, version, 1, version, len(value), value)


def filled(rng: random.Random, entries: int) -> Topic:
    """Return a topic of TABLES tables, its entries filed in an order of their own."""
    topic = Topic()
    places = [(number % TABLES, number // TABLES) for number in range(entries)]
    rng.shuffle(places)
    topic.file(block(*place, version) for version, place in enumerate(places, 1))
    topic.version = entries
    return topic


def table_of(partitions: int, *, others: int) -> Topic:
    """Return a topic that holds one table of ``partitions``, and ``others``, small ones."""
    topic = Topic()
    blocks = max(1, partitions // PARTITIONS_PER_BLOCK)
    topic.file(block(0, number, number + 1, bytes(BLOCK_BYTES)) for number in range(blocks))
    topic.version = blocks
    topic.file(block(table, 0, blocks + table) for table in range(1, others + 1))
    topic.version += others
    return topic


def file_changes(topic: Topic, rng: random.Random, blocks: int) -> float:
    """Return the seconds of one change: filed by itself, then asked for."""
    changes = [
        block(0, rng.randrange(blocks), topic.version + number + 1) for number in range(CHANGES)
    ]
    begin = perf_counter()
    for change in changes:
        topic.file((change,))
        assert len(list(topic.since(change.version - 1))) == 1
    seconds = perf_counter() - begin
    topic.version += CHANGES
    return seconds / CHANGES


def drop(partitions: int) -> float:
    """Return the seconds of dropping a table, freeing its blocks included."""
    topic = table_of(partitions, others=100)
    tombstone = prefix_tombstone(b"db\0table0000\0", topic.version + 1)
    return timed_s(lambda: topic.file((tombstone,)))


def bench_file(topic: Topic, rng: random.Random) -> None:
    renewed = [
        block(rng.randrange(TABLES), rng.randrange(ENTRIES // TABLES), ENTRIES + number + 1)
        for number in range(ENTRIES // 100)
    ]
    keys = {entry.key: entry for entry in topic.since(0)}
    us = timed_s(lambda: topic.file(renewed)) / len(renewed) * 1e6
    topic.version += len(renewed)
    its = timed_s(lambda: keys.update((entry.key, entry) for entry in renewed)) * 1e6
    say("file", beside("a dict", us, its / len(renewed)), at_most(us, FILE_US_MAX), us=us)


def bench_since(topic: Topic) -> None:
    whole = best_us(lambda: list(topic.since(0)))
    say("since_0", reference("all"), us=whole, found=len(list(topic.since(0))))
    for name, changed in (("since_1pct", ENTRIES // 100), ("since_10", 10), ("since_none", 0)):
        known = topic.version - changed
        us = best_us(lambda known=known: list(topic.since(known)))
        found = len(list(topic.since(known)))
        most = 2 * changed / ENTRIES + SINCE_RATIO_MAX
        say(name, beside("since_0", us, whole, most=most), us=us, found=found)


def bench_sizes() -> None:
    """Measure a drop and a change by the size of the table."""
    small, large = (min(drop(n) for _ in range(RUNS)) * 1e6 for n in (100, 1_000_000))
    reached = at_most(large, DROP_US_MAX)
    say("drop_1e6", beside("a table of 1e2", large, small), reached, us=large)
    times = []
    for partitions in (100, 1_000_000):
        rng = random.Random(SEED)
        blocks = max(1, partitions // PARTITIONS_PER_BLOCK)
        big = table_of(partitions, others=100)
        times.append(min(file_changes(big, rng, blocks) for _ in range(RUNS)) * 1e6)
    small, large = times
    say("change_1e6", beside("a table of 1e2", large, small, most=CHANGE_RATIO_MAX), us=large)


def main() -> None:
    rng = random.Random(SEED)
    topic = filled(rng, ENTRIES)
    bench_file(topic, rng)
    bench_since(topic)
    bench_sizes()
