"""What a subscriber's view costs: memory, a read, a change.

memory           bytes per cached partition, everything counted: 100,000 of 20 columns, 3 parameters
entry            bytes per entry beside key and value, for ENTRY_OVERHEAD_BYTES
table_first      table() after a change, table_again the second time, through Subscriber's own path
change_1e6       one partition's block is applied to a table of that size
drop_1e6         a table of that size is dropped, and freed, for no reader holds it
partitions_1     one partition of 100,000 by filter, partitions_all every one of them built
"""

import gc
import random
import tracemalloc
from itertools import count

from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.subscriber.store.view import TopicView, View, prepare
from topicast.tests.bench.bench_representation import (
    KEYS,
    held_bytes,
    structs,
    thrift_object,
)
from topicast.tests.bench.report import (
    RUNS,
    at_most,
    beside,
    best_s,
    best_us,
    reference,
    say,
    timed_s,
)
from topicast.tests.bench.source import Catalog
from topicast.tests.bench.stores import blocks_of
from topicast.topics.objects.names import parse_table_name, table_key
from topicast.topics.objects.selector import by_filter
from topicast.topics.objects.tables import Partition
from topicast.topics.streams.sender import chunks
from topicast.topics.topic import (
    ENTRY_OVERHEAD_BYTES,
    FULL,
    Entry,
    accounted_bytes,
    prefix_tombstone,
)
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.data import Chunk
from topicast.topics.wire.messages.readers import Wanted

SEED = 5
PARTITIONS = 100_000
FEW = 5_000  # as hmsclient's objects
BYTES_MAX, AGAIN_US_MAX = 50.0, 10.0
FIRST_US_MAX = 1000.0
CHANGE_RATIO_MAX = 5.0
ONE_RATIO_MAX = 0.005  # of all 100,000
DROP_US_MAX = 20_000.0  # in one turn, for the largest table
NAME = "db.events"


def source() -> Catalog:
    """Return a catalog with one table of PARTITIONS."""
    catalog = Catalog(1)
    catalog.create_database("db")
    catalog.create_table("db", "events", keys=KEYS)
    catalog.fill("db", "events", *blocks_of(PARTITIONS))
    return catalog


def frames(catalog: Catalog) -> list[bytes]:
    """Return the catch-up of every topic as it travels."""
    wanted = [Wanted(topic=t, level=FULL, epoch=0, version=0) for t in catalog.topics]
    parts = chunks(1, wanted, find=lambda one: catalog.topics[one.topic], stamp=lambda: (1, 0))
    return [encode(part[1]) for part in parts]


def apply(view: View, topic: int, entries: tuple[Entry, ...]) -> None:
    """Do what the background thread does with entries."""
    held = view.topics.setdefault(topic, TopicView())
    view.install(held, *prepare(held, entries))


def filled(travelled: list[bytes]) -> View:
    """Return a view that has caught up."""
    view = View(1)
    for frame in travelled:
        chunk = decode(frame)
        assert isinstance(chunk, Chunk)
        apply(view, chunk.topic, chunk.entries)
    for topic in list(view.topics):
        view.open(topic)
    return view


def bench_memory(travelled: list[bytes]) -> View:
    """Measure what a view holds, with tracemalloc."""
    filled(travelled)  # warms what is allocated once
    gc.collect()
    tracemalloc.start()
    view = filled(travelled)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    content = view.table("db", "events")
    assert content is not None
    rows = list(content.entries())
    raw = sum(len(entry.key) + len(entry.value or b"") for entry in rows)
    accounted = sum(map(accounted_bytes, rows))
    ours, few = held / PARTITIONS, dict(structs(FEW)).values()
    its = held_bytes(lambda: [thrift_object(data) for data in few], FEW)
    facts = {"partitions": PARTITIONS, "accounted": accounted / PARTITIONS}
    against, reached = beside("hmsclient's objects", ours, its), at_most(ours, BYTES_MAX)
    say("memory", facts, against, reached, bytes_per_partition=ours)
    ours = (held - raw) / len(rows)
    against = beside("ENTRY_OVERHEAD_BYTES", ours, ENTRY_OVERHEAD_BYTES)
    reached = at_most(ours, ENTRY_OVERHEAD_BYTES)
    say("entry", against, reached, overhead_bytes=ours, entries=len(rows))
    return view


def bench_table(view: View) -> None:
    """Measure a read as ``Subscriber.table`` does it."""

    def read() -> object:
        content = view.table(*parse_table_name(NAME))
        assert content is not None
        return content.head(table_key(*parse_table_name(NAME)))

    def first() -> object:
        view.table(*parse_table_name(NAME)).discard_head()  # type: ignore[union-attr]  # it is there
        return read()

    slow, fast = best_us(first, calls=100), best_us(read, calls=20_000)
    reached = at_most(fast, AGAIN_US_MAX)
    say("table_first", at_most(slow, FIRST_US_MAX), us=slow)
    say("table_again", beside("table_first", fast, slow), reached, us=fast)


def change_us(view: View, blocks: int) -> float:
    """Return the microseconds of one changed block in a table of so many."""
    group = b"db\0big%d\0" % blocks
    value = bytes(900)
    entries = [Entry(group + b"\x01%08d" % n, 1, 1, 1, 900, value) for n in range(blocks)]
    apply(view, 0, tuple(entries))
    versions = count(2)
    rng = random.Random(SEED)

    def change() -> None:
        version = next(versions)
        key = group + b"\x01%08d" % rng.randrange(blocks)
        apply(view, 0, (Entry(key, version, 1, version, 900, value),))

    return best_us(change, calls=2000)


def bench_change(view: View) -> None:
    small, large = change_us(view, 4), change_us(view, 31_250)
    say("change_1e6", beside("a table of 1e2", large, small, most=CHANGE_RATIO_MAX), us=large)


def drop_us(view: View, blocks: int) -> float:
    """Return the microseconds in which a table of so many blocks is dropped and freed."""
    group = b"db\0gone%d\0" % blocks
    keys = [group + b"\x01%08d" % number for number in range(blocks)]
    apply(view, 0, tuple([Entry(key, 1, 1, 1, 550, bytes(550)) for key in keys]))
    return timed_s(lambda: apply(view, 0, (prefix_tombstone(group, 2),))) * 1e6


def bench_drop(view: View) -> None:
    small, large = (min(drop_us(view, blocks) for _ in range(RUNS)) for blocks in (4, 31_250))
    reached = at_most(large, DROP_US_MAX)
    say("drop_1e6", beside("a table of 1e2", large, small), reached, us=large)


def bench_partitions(view: View) -> None:
    """Measure partitions(): what a filter costs, and building every object."""
    content = view.partitions("db", "events")
    assert isinstance(content, TableSnapshot)
    text = "ds = '2016-01-02' and hour = '07'"

    def filtered() -> tuple[Partition, ...]:
        return content.partitions("db", "events", by_filter(text))

    assert len(filtered()) == 1
    ours = best_s(filtered) * 1000
    its = best_s(lambda: content.partitions("db", "events")) * 1000
    say("partitions_all", reference("all"), ms=its, partitions=PARTITIONS)
    say("partitions_1", beside("partitions_all", ours, its, most=ONE_RATIO_MAX), ms=ours)


def main() -> None:
    travelled = frames(source())
    view = bench_memory(travelled)
    bench_table(view)
    bench_change(view)
    bench_drop(view)
    bench_partitions(view)
