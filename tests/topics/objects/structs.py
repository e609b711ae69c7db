"""Thrift bytes for tests: of hmsclient's own structs, and of structs that nobody has defined."""

from hmsclient.genthrift.hive_metastore import ttypes
from hypothesis import strategies as st
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

BASE = "hdfs://nn:8020/warehouse/sales.db/orders"
KEYS = ("ds", "hour")
SIZES = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}


def written(struct):
    """Return the bytes of a struct of hmsclient."""
    buffer = TMemoryBuffer()
    struct.write(TBinaryProtocol(buffer))
    return buffer.getvalue()


def storage(location, columns=20):
    return ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(f"column_{i}", "bigint", "of a test") for i in range(columns)],
        location=location,
        inputFormat="in.Format",
        outputFormat="out.Format",
        compressed=False,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo(None, "a.SerDe", {"serialization.format": "1"}),
        bucketCols=["column_1"],
        sortCols=[ttypes.Order("column_1", 1), ttypes.Order("column_2", 0)],
        parameters={},
    )


def partition(values=("2026-11-01", "03"), *, location=None, size="1234", created=17, **parameters):
    """Return a Partition struct as HMS sends it; ``parameters`` go beside the usual three."""
    path = "/".join(f"{key}={value}" for key, value in zip(KEYS, values, strict=True))
    return written(
        ttypes.Partition(
            values=list(values),
            dbName="sales",
            tableName="orders",
            createTime=created,
            lastAccessTime=0,
            sd=storage(location or f"{BASE}/{path}"),
            parameters={"numFiles": "7", "totalSize": size, "ddlTime": "1700000000", **parameters},
        )
    )


def table(**changes):
    fields = {
        "tableName": "orders",
        "dbName": "sales",
        "owner": "ann",
        "createTime": 17,
        "lastAccessTime": 0,
        "retention": 0,
        "sd": storage(BASE, columns=2),
        "partitionKeys": [ttypes.FieldSchema(key, "string", None) for key in KEYS],
        "parameters": {"EXTERNAL": "TRUE"},
        "tableType": "EXTERNAL_TABLE",
    }
    return written(ttypes.Table(**(fields | changes)))


def string(raw):
    return len(raw).to_bytes(4, "big") + raw


def struct(*fields):
    """Return the bytes of a struct of ``(id, type, value bytes)``."""
    return b"".join(kind.to_bytes(1, "big") + at.to_bytes(2, "big", signed=True) + value
                    for at, kind, value in fields) + b"\0"  # fmt: skip


def strings(*raws):
    return b"\x0b" + len(raws).to_bytes(4, "big") + b"".join(map(string, raws))


def string_map(**pairs):
    body = b"".join(string(key.encode()) + string(value.encode()) for key, value in pairs.items())
    return b"\x0b\x0b" + len(pairs).to_bytes(4, "big") + body


def with_field(data, at, kind, value):
    """Return the struct ``data`` with one more field at its end."""
    return data[:-1] + struct((at, kind, value))


texts = st.binary(max_size=4) | st.sampled_from([b"0", b"00", b"7", b"-1", b"9" * 18, b"9" * 19])


@st.composite
def values_of(draw, kind, depth=3):
    """Draw the bytes of any value of the Thrift type ``kind``."""
    if kind in SIZES:
        return draw(st.binary(min_size=SIZES[kind], max_size=SIZES[kind]))
    if kind == 11:
        return string(draw(texts))
    kinds = st.sampled_from([2, 3, 4, 6, 8, 10, 11] + ([12, 13, 14, 15] if depth else []))
    if kind == 12:
        found = draw(st.lists(st.tuples(st.integers(-3, 9), kinds), max_size=3))
        return struct(*[(at, k, draw(values_of(k, depth - 1))) for at, k in found])
    count = draw(st.integers(0, 3))
    types = [draw(kinds) for _ in range(2 if kind == 13 else 1)]
    items = [draw(values_of(k, depth - 1)) for _ in range(count) for k in types]
    return bytes(types) + count.to_bytes(4, "big") + b"".join(items)


@st.composite
def partitions(draw):
    """Draw a Partition struct: the known fields, each perhaps absent or twice, and others."""
    known = {
        1: st.lists(texts, max_size=3).map(lambda found: (15, strings(*found))),
        4: values_of(8).map(lambda found: (8, found)),
        5: values_of(10).map(lambda found: (10, found)),
        6: st.tuples(texts, values_of(12)).map(
            lambda found: (12, struct((2, 11, string(found[0])), (3, 12, found[1])))
        ),
        7: st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["", "1", "01", "x"])).map(
            lambda found: (13, string_map(**found))
        ),
    }
    fields = []
    for at in draw(st.lists(st.integers(1, 9), max_size=8)):
        kind = draw(st.sampled_from([2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15]))
        unknown = values_of(kind).map(lambda found, kind=kind: (kind, found))
        kind, value = draw(known.get(at, unknown) | unknown)
        fields.append((at, kind, value))
    return struct(*fields)
