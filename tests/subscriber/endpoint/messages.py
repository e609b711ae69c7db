"""Requests as Hive's client sends them, and replies as it reads them, by hmsclient's own code."""

from typing import Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from hmsclient.genthrift.hive_metastore.ttypes import GetTableRequest, GetTablesRequest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

NUMBER = 7
# hmsclient's release of this method has no exceptions; Hive 2.3 declares those of another method
_LIKE = (b"\0\x19get_table_objects_by_name", b"\0\x1dget_table_objects_by_name_req")


def call(method: str, *arguments: Any, number: int = NUMBER, oneway: bool = False) -> bytes:
    """Return a request."""
    kind = getattr(ThriftHiveMetastore, f"{method}_args", None)
    named = [spec[2] for spec in kind.thrift_spec if spec] if kind else []
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(method, TMessageType.ONEWAY if oneway else TMessageType.CALL, number)
    if kind is None:
        protocol.writeFieldStop()
    else:
        kind(**dict(zip(named, arguments, strict=True))).write(protocol)
    return bytes(buffer.getvalue())


def answered(reply: bytes, method: str, *, number: int = NUMBER) -> Any:
    """Return what a reply gives, or raise the exception in it; all of it is read."""
    buffer = TMemoryBuffer(reply)
    protocol = TBinaryProtocol(buffer)
    name, kind, found = protocol.readMessageBegin()
    assert (name, found) == (method, number)
    if kind == TMessageType.EXCEPTION:
        error = TApplicationException()
        error.read(protocol)
        raise error
    assert kind == TMessageType.REPLY
    result = getattr(ThriftHiveMetastore, f"{method}_result")()
    result.read(protocol)
    assert buffer.read(1) == b""
    if method == "get_table_objects_by_name" and result.success is None:
        return answered(reply.replace(*_LIKE), "get_table_objects_by_name_req", number=number)
    for at in ("o1", "o2", "o3"):
        if getattr(result, at, None) is not None:
            raise getattr(result, at)
    return getattr(result, "success", None)


def table_request(db: str, name: str) -> GetTableRequest:
    return GetTableRequest(dbName=db, tblName=name)


def tables_request(db: str, names: list[str]) -> GetTablesRequest:
    return GetTablesRequest(dbName=db, tblNames=names)
