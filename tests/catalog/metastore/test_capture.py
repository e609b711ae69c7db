"""Struct bytes come out of a reply as they went in, however the network cuts it."""

import socket
import struct
import threading
import tracemalloc
from collections.abc import Iterator

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import (
    Database,
    GetTableResult,
    GetTablesResult,
    NoSuchObjectException,
)
from thrift.Thrift import TApplicationException, TType

from topicast.catalog.metastore.capture import Capture
from topicast.catalog.metastore.slicer import NAME_ONLY, VALUES_ONLY, Slicer, Spec, accelerated
from topicast.tests.catalog.metastore.thrift_server import refusal, reply
from topicast.tests.cluster.fake_metastore import make_partition, make_table, thrift_bytes

STOP = b"\0"
LIST_OF_STRUCTS = struct.pack("!bhb", TType.LIST, 1, TType.STRUCT)
UNKNOWN_FIELDS = (
    struct.pack("!bhi", TType.STRING, 777, 7)
    + b"unknown"
    + struct.pack("!bhbbiiq", TType.MAP, 778, TType.I32, TType.I64, 1, 5, 6)
)
calls = ThriftHiveMetastore
TABLE = make_table("db", "t", location="file:/t", keys=("ds",))
DATABASE = Database("db", "text", "file:/db", {"k": "v"})
PARTITIONS = [make_partition(TABLE, [f"wert {n} ü"]) for n in range(300)]


class Wire:
    """The reading end under test, and the end that writes what it is to read."""

    def __init__(self, reads: Capture, writes: socket.socket) -> None:
        self.reads, self.writes = reads, writes
        self.slicer = Slicer(accelerated(reads))

    def sends(self, data: bytes, *, cut: int = 1 << 20) -> None:
        def write() -> None:
            for start in range(0, len(data), cut):
                self.writes.sendall(data[start : start + cut])

        threading.Thread(target=write, daemon=True).start()


@pytest.fixture
def wire() -> Iterator[Wire]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        reads = Capture(*listening.getsockname(), timeout_s=10)
        writes, _ = listening.accept()
    with writes:
        writes.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield Wire(reads, writes)
    reads.close()


def replying(result: object) -> bytes:
    return reply("call", thrift_bytes(result))


@pytest.mark.parametrize("cut", [1, 7, 1000, 1 << 20])
def test_structs_of_a_list_are_sliced(wire: Wire, cut: int) -> None:
    structs = PARTITIONS[: 300 if cut > 1 else 5]
    result = calls.get_partitions_by_names_result
    wire.sends(replying(result(success=structs)), cut=cut)
    assert wire.slicer.read(result, VALUES_ONLY) == [(p.values, thrift_bytes(p)) for p in structs]
    assert wire.reads.position() == wire.reads.received_bytes


@pytest.mark.parametrize(
    ("result", "naming", "wrapped", "structs"),
    [
        (calls.get_database_result(success=DATABASE), NAME_ONLY, False, [("db", DATABASE)]),
        (
            calls.get_table_req_result(success=GetTableResult(TABLE)),
            NAME_ONLY,
            True,
            [("t", TABLE)],
        ),
        (
            calls.get_table_objects_by_name_req_result(success=GetTablesResult([TABLE, TABLE])),
            NAME_ONLY,
            True,
            [("t", TABLE), ("t", TABLE)],
        ),
        (calls.get_partitions_by_names_result(success=[]), VALUES_ONLY, False, []),
    ],
    ids=["one", "one in a struct", "a list in a struct", "an empty list"],
)
def test_structs_are_sliced_wherever_a_reply_has_them(
    wire: Wire, *, result: object, naming: Spec, wrapped: bool, structs: list[tuple[str, object]]
) -> None:
    wire.sends(replying(result))
    found = wire.slicer.read(type(result), naming, wrapped=wrapped)
    assert found == [(name, thrift_bytes(one)) for name, one in structs]


def test_unknown_fields_survive(wire: Wire) -> None:
    table = UNKNOWN_FIELDS + thrift_bytes(TABLE)
    wrapper = LIST_OF_STRUCTS + struct.pack("!i", 2) + table + table + UNKNOWN_FIELDS + STOP
    result = struct.pack("!bh", TType.STRUCT, 0) + wrapper + UNKNOWN_FIELDS + STOP
    wire.sends(reply("call", result), cut=11)
    found = wire.slicer.read(calls.get_table_objects_by_name_req_result, NAME_ONLY, wrapped=True)
    assert found == [("t", table), ("t", table)]


def test_replies_follow_each_other(wire: Wire) -> None:
    result = calls.get_partitions_by_names_result
    for structs in (PARTITIONS[:3], PARTITIONS[5:9]):
        wire.reads.begin_reply()
        wire.sends(replying(result(success=structs)))
        expected = [(p.values, thrift_bytes(p)) for p in structs]
        assert wire.slicer.read(result, VALUES_ONLY) == expected


def test_reply_is_in_memory_once_while_structs_are_cut_out_of_it(wire: Wire) -> None:
    wide = [make_partition(TABLE, [f"{number}"]) for number in range(400)]
    for one in wide:
        one.parameters = {"wide": "x" * 30_000}
    result = calls.get_partitions_by_names_result
    data = replying(result(success=wide))
    tracemalloc.start()
    try:
        wire.sends(data)
        found = wire.slicer.read(result, VALUES_ONLY)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(one) for _, one in found) > 400 * 30_000
    assert most_bytes < 1.5 * len(data)


@pytest.mark.parametrize("wrapped", [False, True])
def test_declared_exception_is_raised(wire: Wire, wrapped: bool) -> None:
    result = calls.get_table_req_result
    wire.sends(replying(result(o2=NoSuchObjectException("no t"))))
    with pytest.raises(NoSuchObjectException, match="no t"):
        wire.slicer.read(result, NAME_ONLY, wrapped=wrapped)


def test_refusal_is_raised(wire: Wire) -> None:
    wire.sends(refusal("get_table_req"))
    with pytest.raises(TApplicationException, match="Invalid method name"):
        wire.slicer.read(calls.get_table_req_result, NAME_ONLY, wrapped=True)


@pytest.mark.parametrize("wrapped", [False, True])
def test_result_without_anything_is_refused(wire: Wire, wrapped: bool) -> None:
    wire.sends(reply("call", STOP))
    with pytest.raises(TApplicationException, match="no result"):
        wire.slicer.read(calls.get_table_req_result, NAME_ONLY, wrapped=wrapped)


def test_reply_that_ends_early_is_an_end_of_file(wire: Wire) -> None:
    result = calls.get_partitions_by_names_result
    wire.writes.sendall(replying(result(success=PARTITIONS))[:5000])
    wire.writes.shutdown(socket.SHUT_RDWR)
    with pytest.raises(EOFError):
        wire.slicer.read(result, VALUES_ONLY)


def test_reply_larger_than_allowed_is_refused(wire: Wire) -> None:
    wire.reads.reply_bytes_max = 10_000
    result = calls.get_partitions_by_names_result
    wire.sends(replying(result(success=PARTITIONS)))
    with pytest.raises(OverflowError, match="10000 bytes"):
        wire.slicer.read(result, VALUES_ONLY)


def test_requests_leave_when_flushed(wire: Wire) -> None:
    wire.reads.write(b"ab")
    wire.reads.write(bytearray(b"c"))
    wire.reads.flush()
    assert wire.writes.recv(10) == b"abc"
