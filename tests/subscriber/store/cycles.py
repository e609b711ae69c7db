"""A process of its own that joins and drops topics again and again, and prints its memory use.

Run: python -m topicast.tests.subscriber.store.cycles HUB BUDGET_BYTES CYCLES.
It prints one JSON line.
"""

import gc
import json
import os
import sys
import tracemalloc
from pathlib import Path

from topicast.subscriber import Subscriber

TOPICS = 8
COUNTED = 20  # cycles between two counts of objects: the same levels stand at each
A_CYCLE = 2  # topics that are dropped and joined


def rss_bytes() -> int:
    """Return what the kernel counts for this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(hub: str, budget: int, cycles: int) -> None:
    """Go through ``cycles``, and print what was measured."""
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
    result = {
        "base": base,
        "rss": seen,
        "held": held,
        "objects": objects,
        "traced": traced,
        "accounted": accounted,
        "evictions": stats.evictions,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
