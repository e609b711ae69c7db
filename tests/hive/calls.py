"""Calls: methods of a metastore, and fields of its structs, that hmsclient does not know.

call(client, "truncate_table", "db", "t", ["ds=1"])          arguments are fields 1, 2, …
call(client, "create_catalog", Struct({1: Struct({1: "other", 3: "file:/w"})}))
"""

import struct
from typing import Any, Final, NamedTuple

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import GetTableRequest, MetaException, Table
from thrift.Thrift import TApplicationException, TMessageType, TType

from topicast.tests.cluster.fake_metastore import thrift_bytes


class Client(HMSClient):
    """A client that calls what every release has."""

    def get_table(self, dbname: str, tbl_name: str) -> Table:
        return self.get_table_req(GetTableRequest(dbname, tbl_name)).table


class Struct(NamedTuple):
    """A struct by the numbers of its fields; ``more``: what hmsclient's struct has besides."""

    fields: dict[int, object]
    more: object = None


class Long(int):
    """A number of 64 bits."""


def call(client: Any, method: str, *arguments: object) -> object:
    """Call ``method`` and return its result, structs as dictionaries by number.

    Raises:
        MetaException: the server has answered with an exception.
    """
    out, into = client._oprot, client._iprot
    out.writeMessageBegin(method, TMessageType.CALL, 0)
    out.trans.write(_struct(Struct(dict(enumerate(arguments, start=1)))))
    out.writeMessageEnd()
    out.trans.flush()
    _, kind, _ = into.readMessageBegin()
    if kind == TMessageType.EXCEPTION:
        refusal = TApplicationException()
        refusal.read(into)
        into.readMessageEnd()
        raise refusal
    result = _read(into, TType.STRUCT)
    into.readMessageEnd()
    refused = [fields for number, fields in result.items() if number]
    if refused:
        raise MetaException(str(refused[0]))
    return result.get(0)


def _struct(value: Struct) -> bytes:
    more = b"" if value.more is None else thrift_bytes(value.more)[:-1]
    return more + b"".join(map(_field, *zip(*sorted(value.fields.items()), strict=True))) + b"\0"


def _field(number: int, value: object) -> bytes:
    kind, content = _typed(value)
    return struct.pack(">bh", kind, number) + content


def _typed(value: object) -> tuple[int, bytes]:
    match value:
        case bool():
            return TType.BOOL, struct.pack(">b", value)
        case Long():
            return TType.I64, struct.pack(">q", value)
        case int():
            return TType.I32, struct.pack(">i", value)
        case str():
            text = value.encode()
            return TType.STRING, struct.pack(">i", len(text)) + text
        case list():
            typed = [_typed(one) for one in value]
            kind = typed[0][0] if typed else TType.STRING
            head = struct.pack(">bi", kind, len(typed))
            return TType.LIST, head + b"".join(content for _, content in typed)
        case Struct():
            return TType.STRUCT, _struct(value)
        case _:
            return TType.STRUCT, thrift_bytes(value)


def _read(protocol: Any, kind: int) -> Any:
    if kind == TType.STRUCT:
        found = {}
        protocol.readStructBegin()
        while (field := protocol.readFieldBegin())[1] != TType.STOP:
            found[field[2]] = _read(protocol, field[1])
        return found
    if kind in {TType.LIST, TType.SET}:
        one, count = protocol.readListBegin()
        return [_read(protocol, one) for _ in range(count)]
    if kind == TType.MAP:
        key, value, count = protocol.readMapBegin()
        return {_read(protocol, key): _read(protocol, value) for _ in range(count)}
    return READS[kind](protocol)


READS: Final = {
    TType.BOOL: lambda protocol: protocol.readBool(),
    TType.BYTE: lambda protocol: protocol.readByte(),
    TType.I16: lambda protocol: protocol.readI16(),
    TType.I32: lambda protocol: protocol.readI32(),
    TType.I64: lambda protocol: protocol.readI64(),
    TType.DOUBLE: lambda protocol: protocol.readDouble(),
    TType.STRING: lambda protocol: protocol.readString(),
}
