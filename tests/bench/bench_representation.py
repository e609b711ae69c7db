"""How many bytes a partition takes, and how long its block takes.

``docs/design/0002-representation.md`` has the options among which this representation was chosen.
"""

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator

from hmsclient.genthrift.hive_metastore import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TTransport import TMemoryBuffer

from topicast.tests.bench.report import at_most, beside, best_us, say
from topicast.topics.objects.encoding.templates import Templates
from topicast.topics.objects.encoding.values import (
    RECORDS_MAX,
    decode_block,
    edit_partitions,
    encode_block,
)
from topicast.topics.objects.names import block_key, partition_name, partition_values
from topicast.topics.objects.tables import PartitionReader
from topicast.topics.topic import ENTRY_OVERHEAD_BYTES, Entry

KEYS = ("ds", "hour")
LOCATION = "hdfs://namenode:8020/warehouse/sales.db/orders"
PARQUET = "org.apache.hadoop.hive.ql.io.parquet"
SERDE = f"{PARQUET}.serde.ParquetHiveSerDe"
PARTITIONS = 100_000
FEW = 5_000  # as hmsclient's objects
MEMORY_MAX = 0.01  # of hmsclient's objects
LOAD_US_MAX = 20.0  # for each partition of a table that is read


def structs(count: int) -> Iterator[tuple[str, bytes]]:
    """Yield names and Thrift structs of an hourly table of 20 columns and 3 parameters."""
    rng = random.Random(7)
    columns = [
        ttypes.FieldSchema(f"column_{i}", ("string", "bigint", "double")[i % 3], "a comment")
        for i in range(20)
    ]
    for hours in range(count):
        day, hour = divmod(hours, 24)
        values = [f"{2015 + day // 336}-{1 + day // 28 % 12:02d}-{1 + day % 28:02d}", f"{hour:02d}"]
        name = partition_name(KEYS, values)
        created = 1_420_070_400 + hours * 3600 + rng.randrange(1800)
        storage = ttypes.StorageDescriptor(
            cols=columns,
            location=f"{LOCATION}/{name}",
            inputFormat=f"{PARQUET}.MapredParquetInputFormat",
            outputFormat=f"{PARQUET}.MapredParquetOutputFormat",
            compressed=False,
            numBuckets=-1,
            serdeInfo=ttypes.SerDeInfo(None, SERDE, {"serialization.format": "1"}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        parameters = {
            "numFiles": str(rng.randrange(1, 20)),
            "totalSize": str(int(rng.lognormvariate(18, 1))),
            "transient_lastDdlTime": str(created + rng.choice((0, 0, 1, 2700))),
        }
        one = ttypes.Partition(
            values=values,
            dbName="sales",
            tableName="orders",
            createTime=created,
            lastAccessTime=0,
            sd=storage,
            parameters=parameters,
        )
        yield name, written(one)


def written(struct: ttypes.Partition) -> bytes:
    buffer = TMemoryBuffer()
    struct.write(TBinaryProtocolAccelerated(buffer))
    found: bytes = buffer.getvalue()
    return found


def thrift_object(data: bytes) -> ttypes.Partition:
    found = ttypes.Partition()
    found.read(TBinaryProtocolAccelerated(TMemoryBuffer(data)))
    return found


class NoBlocks:
    """A table without blocks."""

    def floor(self, _name: str) -> str | None:
        return None

    def after(self, _lower: str) -> str | None:
        return None

    def read(self, lower: str) -> tuple[int, bytes]:
        raise AssertionError(lower)


class OneBlock(NoBlocks):
    """One block of many: an edit sees no other."""

    def __init__(self, value: bytes, after: str) -> None:
        self._value, self._after = value, after

    def floor(self, _name: str) -> str:
        return ""

    def after(self, _lower: str) -> str:
        return self._after

    def read(self, _lower: str) -> tuple[int, bytes]:
        return 1, self._value


def time_the_choice(table: list[tuple[str, bytes]]) -> None:
    few = dict(table[:4096])
    place = {"templates": (), "location": LOCATION, "version": 1}
    edited = edit_partitions(NoBlocks(), few, **place)
    value, second = edited.blocks[0][1], edited.blocks[1][0]
    assert value is not None
    records = decode_block(value, 1).records()
    template = Templates(edited.templates, LOCATION).template(0)
    reader = PartitionReader(edited.templates)
    name, data = table[3]
    slots = records[3].slots
    other = {name: template.fill((*slots[:2], 99, *slots[3:]), name)}
    load_us = best_us(lambda: edit_partitions(NoBlocks(), few, **place)) / len(few)
    second_block, place["version"] = OneBlock(value, second), 2
    place["templates"] = edited.templates
    us = {
        "match": best_us(lambda: template.match(data, name), calls=2000),
        "fill": best_us(lambda: template.fill(slots, name), calls=2000),
        "encode_block": best_us(lambda: encode_block(records, 1), calls=500),
        "decode_names": best_us(lambda: decode_block(value, 1).names, calls=500),
        "decode_records": best_us(lambda: decode_block(value, 1).records(), calls=500),
        "read_partition": best_us(lambda: reader.read(records[3]), calls=2000),
        "values": best_us(lambda: partition_values(name), calls=2000),
        "edit_one": best_us(lambda: edit_partitions(second_block, other, **place), calls=200),
    }
    facts: dict[str, float] = {"thrift_bytes": len(data), "template_bytes": len(template.skeleton)}
    facts |= {"block_bytes": len(value), "load_us_per_partition": load_us}
    times = {f"{what}_us": took for what, took in us.items()}
    say("the choice", facts, times, at_most(load_us, LOAD_US_MAX))


def measure_memory(table: list[tuple[str, bytes]]) -> None:
    edited = edit_partitions(NoBlocks(), dict(table), templates=(), location=LOCATION, version=1)
    blocks = [
        (block_key("sales", "orders", lower), value) for lower, value in edited.blocks if value
    ]
    values = sum(len(value) for _, value in blocks)

    def entries() -> object:
        return {
            bytes(bytearray(key)): Entry(key, 1, 1, 1, len(value), bytes(bytearray(value)))
            for key, value in blocks
        }

    few = table[:FEW]
    its = held_bytes(lambda: [thrift_object(data) for _, data in few], FEW)
    ours = held_bytes(entries, len(table))
    accounted = values + sum(len(k) + ENTRY_OVERHEAD_BYTES for k, _ in blocks)
    facts: dict[str, float] = {"partitions": len(table), "blocks": len(blocks), "full": RECORDS_MAX}
    facts |= {"value_bytes": values / len(table), "bytes_per_partition": ours}
    against = beside("hmsclient's objects", ours, its, most=MEMORY_MAX)
    say("memory, columns in entries", facts, against, accounted_bytes=accounted / len(table))


def held_bytes(build: Callable[[], object], count: int) -> float:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    held = build()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del held
    return round(taken / count, 1)


def main() -> None:
    table = list(structs(PARTITIONS))
    time_the_choice(table)
    measure_memory(table)
