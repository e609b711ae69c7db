"""A process of its own that joins and drops topics again and again, and says what memory it takes.

Run: python -m topicast.tests.subscriber.cycles HUB BUDGET_BYTES CYCLES. It prints one JSON line.
"""

import gc
import json
import os
import sys
import tracemalloc
from pathlib import Path
from random import Random

from topicast.subscriber import Subscriber
from topicast.tests.subscriber.source import Catalog
from topicast.topics.objects.names import block_key

TOPICS = 8
TABLES = 40  # in each topic, read one by one
BLOCKS = 1200  # in each topic, of 32 partitions' size
BLOCK_BYTES = 900
COLUMNS = tuple(f"column_{number:02}" for number in range(20))
COUNTED = 20  # cycles between two counts of objects: the same levels stand at each
A_CYCLE = 2  # topics that are dropped and joined


def catalog() -> Catalog:
    """Return a catalog whose topics at full take 1.5 MB each, 12 MB in all."""
    dice = Random(1)
    made = Catalog(TOPICS)
    made.create_database("db")
    number = 0
    while min(_tables(made).values()) < TABLES:
        name = f"t{number:04}"
        number += 1
        if _tables(made)[made.topic("db", name)] < TABLES:
            made.create_table("db", name, keys=("ds",))
            made.put_table("db", name, columns=COLUMNS, keys=("ds",))
    for topic in range(TOPICS):
        owner = next(name for name in made.names["db"] if made.topic("db", name) == topic)
        made.put_partitions("db", owner, {f"ds={i:03}": {"n": str(i)} for i in range(300)})
        blocks = [
            made.value(
                block_key("db", owner, f"ds=x{i:06}"), made.next(topic), dice.randbytes(BLOCK_BYTES)
            )
            for i in range(BLOCKS)
        ]
        made.commit(topic, blocks)
    return made


def _tables(made: Catalog) -> dict[int, int]:
    counts = dict.fromkeys(range(TOPICS), 0)
    for name in made.names["db"]:
        counts[made.topic("db", name)] += 1
    return counts


def rss_bytes() -> int:
    """Return what the kernel counts for this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(hub: str, budget: int, cycles: int) -> None:
    """Go through ``cycles``, and print what was seen."""
    with Subscriber(hub, budget=budget, levels="auto", timeout_s=60) as reader:
        names = [f"db.{name}" for name in reader.tables("db")]
        for topic in range(TOPICS):
            reader.drop(topic)
        gc.collect()
        base, seen, held = rss_bytes(), [], []
        objects: list[int] = []
        for topic in range(TOPICS):
            reader.join(topic)
        for cycle in range(cycles):
            first = cycle * A_CYCLE % TOPICS
            for topic in range(first, first + A_CYCLE):
                reader.drop(topic)
            for topic in range(first, first + A_CYCLE):
                reader.join(topic, level="minimal" if cycle % 10 == 9 else "full")
            for name in names[cycle % 7 :: 7]:
                reader.table(name)
            seen.append(rss_bytes())
            held.append(reader.stats().held_bytes)
            if cycle % COUNTED == COUNTED - 1:
                gc.collect()
                objects.append(len(gc.get_objects()))
        for topic in range(TOPICS):
            reader.drop(topic)
        empty = reader.stats().held_bytes
        gc.collect()
        tracemalloc.start()
        for topic in range(TOPICS):
            reader.join(topic)
        traced, accounted = tracemalloc.get_traced_memory()[0], reader.stats().held_bytes - empty
        tracemalloc.stop()
        stats = reader.stats()
    told = {
        "base": base,
        "rss": seen,
        "held": held,
        "objects": objects,
        "traced": traced,
        "accounted": accounted,
        "evictions": stats.evictions,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
