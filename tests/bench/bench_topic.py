"""What a topic costs at 1e5 entries, and that nothing of it depends on the size of a table.

file          one entry, filed again with a new version     since_1pct, since_10   what changed
drop          a table of 1e6 partitions (31,250 blocks)     since_0                a snapshot
change_1e2, change_1e6   one partition's block is filed and found again, in a table of that size
"""

import json
import random
from collections.abc import Callable
from time import perf_counter

from topicast.topics.entries import Entry, prefix_tombstone
from topicast.topics.topic import Topic

SEED = 3
RUNS = 5
ENTRIES = 100_000
TABLES = 1000
CHANGES = 20_000
PARTITIONS_PER_BLOCK = 32
VALUE = bytes(1000)


def best_us(work: Callable[[], float]) -> float:
    """Return the microseconds that ``work`` says it took, best of RUNS runs."""
    return min(work() for _ in range(RUNS)) * 1e6


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that ``work`` takes."""
    begin = perf_counter()
    work()
    return perf_counter() - begin


def say(name: str, us: float, **more: float) -> None:
    """Print one result as a JSON line."""
    print(json.dumps({"bench": "topic", "name": name, "us": round(us, 3), **more}))


def block(table: int, number: int, version: int) -> Entry:
    """Return one block; its value is shared, so that a million fit."""
    key = b"db\0table%04d\0\x01ds=%08d" % (table, number)
    return Entry(key, version, 1, version, len(VALUE), VALUE)


def filled(rng: random.Random, entries: int) -> Topic:
    """Return a topic of TABLES tables, its entries filed in an order of their own."""
    topic = Topic()
    places = [(number % TABLES, number // TABLES) for number in range(entries)]
    rng.shuffle(places)
    topic.file(block(*place, version) for version, place in enumerate(places, 1))
    topic.version = entries
    return topic


def table_of(partitions: int, *, beside: int = 0) -> Topic:
    """Return a topic that holds one table of ``partitions``, and ``beside`` small ones."""
    topic = Topic()
    blocks = max(1, partitions // PARTITIONS_PER_BLOCK)
    topic.file(block(0, number, number + 1) for number in range(blocks))
    topic.version = blocks
    topic.file(block(table, 0, blocks + table) for table in range(1, beside + 1))
    topic.version += beside
    return topic


def file_changes(topic: Topic, rng: random.Random, blocks: int) -> float:
    """Return the seconds of one change: filed by itself, then asked for."""
    changes = [
        block(0, rng.randrange(blocks), topic.version + number + 1) for number in range(CHANGES)
    ]
    begin = perf_counter()
    for change in changes:
        topic.file((change,))
        assert len(topic.since(change.version - 1)) == 1
    seconds = perf_counter() - begin
    topic.version += CHANGES
    return seconds / CHANGES


def drop(partitions: int) -> float:
    """Return the seconds of dropping a table, freeing its blocks included."""
    topic = table_of(partitions, beside=100)
    tombstone = prefix_tombstone(b"db\0table0000\0", topic.version + 1)
    return timed(lambda: topic.file((tombstone,)))


def main() -> None:
    """Measure, print."""
    rng = random.Random(SEED)
    topic = filled(rng, ENTRIES)
    renewed = [
        block(rng.randrange(TABLES), rng.randrange(ENTRIES // TABLES), ENTRIES + number + 1)
        for number in range(ENTRIES // 100)
    ]
    begin = perf_counter()
    topic.file(renewed)
    say("file", (perf_counter() - begin) / len(renewed) * 1e6)
    topic.version += len(renewed)
    for name, changed in (("since_1pct", len(renewed)), ("since_10", 10), ("since_none", 0)):
        known = topic.version - changed
        us = best_us(lambda known=known: timed(lambda: topic.since(known)))
        say(name, us, found=len(topic.since(known)))
    say("since_0", best_us(lambda: timed(lambda: topic.since(0))), found=len(topic.since(0)))
    for partitions in (100, 1_000_000):
        say(f"drop_1e{len(str(partitions)) - 1}", best_us(lambda n=partitions: drop(n)))
    for partitions in (100, 1_000_000):
        blocks = max(1, partitions // PARTITIONS_PER_BLOCK)
        big = table_of(partitions, beside=100)
        us = best_us(lambda big=big, blocks=blocks: file_changes(big, rng, blocks))
        say(f"change_1e{len(str(partitions)) - 1}", us)


if __name__ == "__main__":
    main()
