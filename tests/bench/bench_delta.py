"""What one changed partition costs on the wire: tables of 10, 100,000 and 1,000,000 partitions.

catalogd's own cores write the table and its changes; ``bytes`` is the largest frame of a delta, as
it is sent to a hub and from there to every reader, beside the Thrift struct that ``get_partition``
returns; ``stub_bytes`` is what a hub sends at minimal; ``us`` is what catalogd takes to write it
and to build the frame, ``hub_us`` what a hub takes to file it and to make stubs of it.
"""

import random
from time import perf_counter

from topicast.catalog.model.tables import Tables
from topicast.catalog.model.versions import VersionLog
from topicast.catalog.publish.publisher import delta_of_transaction
from topicast.statestore.content.stub_deltas import minimal
from topicast.tests.bench.bench_representation import KEYS, LOCATION, structs
from topicast.tests.bench.report import at_most, beside, quantile, say
from topicast.tests.subscriber.structs import table_struct
from topicast.topics.objects.names import partition_name, partition_values
from topicast.topics.topic import Topic, table_topic, topic_ids
from topicast.topics.turn import Turn
from topicast.topics.wire import encode
from topicast.topics.wire.messages.data import SOURCE_EVENTS, SOURCE_LOAD

SEED = 3
SIZES = (10, 100_000, 1_000_000)
CHANGES = 300
PIECE = 1_000  # partitions in one transaction of the load, as catalogd reads them
BYTES_MAX = 1_500
TABLE = ("sales", "orders")
HOURS = 24
SAMPLES = tuple(structs(168 * HOURS))  # of which all others are made, each keeping its hour


def partition(number: int, sample: int) -> tuple[str, bytes]:
    """Return name and struct of an hourly partition, with times and sizes of a sample's day."""
    day, hour = divmod(number, HOURS)
    text = f"{1000 + day // 336:04d}-{1 + day // 28 % 12:02d}-{1 + day % 28:02d}"
    name, struct = SAMPLES[(sample * HOURS + hour) % len(SAMPLES)]
    was = partition_values(name)[0]
    return partition_name(KEYS, [text, f"{hour:02d}"]), struct.replace(was.encode(), text.encode())


def loaded(partitions: int) -> tuple[VersionLog, Tables]:
    """Return what catalogd holds once it has loaded a table of so many."""
    topics = {number: Topic() for number in topic_ids(1)}
    for topic in topics.values():
        topic.reset(5)
    version_log = VersionLog(topics, Turn[object]())
    tables = Tables(version_log, 1)
    columns = tuple(f"column_{number}" for number in range(20))
    thrift = table_struct(*TABLE, columns=columns, keys=KEYS).replace(
        b"\0\0\0\x14file:/w/sales/orders", len(LOCATION).to_bytes(4, "big") + LOCATION.encode()
    )
    how = {"source": SOURCE_LOAD}
    tables.write_whole(TABLE, thrift, None, incarnation=1, data=False, **how)
    for begin in range(0, partitions, PIECE):
        numbers = range(begin, min(begin + PIECE, partitions))
        changes = dict(partition(number, number // HOURS) for number in numbers)
        complete = numbers.stop == partitions
        tables.write_partitions(TABLE, changes, complete=complete, **how)
        version_log.take()
    return version_log, tables


def copy_of(version_log: VersionLog) -> Topic:
    """Return what a hub holds of the table."""
    topic = Topic()
    topic.reset(5)
    topic.file(tuple(version_log.topics[table_topic(*TABLE, 1)].since(0)))
    return topic


def measure(partitions: int) -> None:
    rng = random.Random(SEED)
    version_log, tables = loaded(partitions)
    hub, stubs, filing = copy_of(version_log), 0, []
    sizes, seconds = [], []
    for _ in range(CHANGES):
        name, struct = partition(rng.randrange(partitions), rng.randrange(len(SAMPLES)))
        begin = perf_counter()
        tables.write_partitions(TABLE, {name: struct}, source=SOURCE_EVENTS)
        written = version_log.take()
        if not written:
            continue  # the sample that it had
        delta = delta_of_transaction(written[0], epoch=5, start=6, floor=0, sent_us=1)
        frame = encode(delta)
        seconds.append(perf_counter() - begin)
        sizes.append(len(frame))
        begin = perf_counter()
        hub.file(delta.entries)
        stub = encode(minimal(delta))
        filing.append(perf_counter() - begin)
        stubs = max(stubs, len(stub))
    most, us, hub_us = max(sizes), quantile(seconds, 0.5) * 1e6, quantile(filing, 0.5) * 1e6
    facts = {"bytes": most, "bytes_p50": quantile(sizes, 0.5), "us": us}
    against = beside("bytes of the Thrift struct", most, len(SAMPLES[0][1]))
    reached = at_most(most, BYTES_MAX)
    say(f"partitions_{partitions}", facts, against, reached, stub_bytes=stubs, hub_us=hub_us)


def main() -> None:
    for size in SIZES:
        measure(size)
