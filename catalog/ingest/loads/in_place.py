"""InPlace: applies the objects in events to the held content, without a call of the metastore.

An event has the object as its writer sent it, perhaps without parameters that the server leaves out
of messages, and the object may be older than a read since. So catalogd applies an object only if
one of these is proved; it reads any other from the metastore:

    altered   the event's object before the change equals the held object, and has the same fields
    renamed   as altered, if the held partition has no column statistics
    added     the object has the fields and parameters of a partition of the table, held now or once
    dropped   nothing is left that could differ
    written   the object itself stays as it is held

An object of a table that is being read is read again, too: the result may be newer than the event.
Invariant: the held content after an event equals what the metastore had after that event.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from ....topics.backports import assert_never
from ....topics.comparison import same_struct
from ....topics.errors import UsageError, WireError
from ....topics.newest import Newest
from ....topics.objects.encoding.thrift import fields, read_int, read_texts, shape
from ....topics.objects.names import TableId, partition_name
from ...metastore.port import (
    KEPT,
    Content,
    Dirty,
    DirtyDatabase,
    DirtyPartitions,
    DirtyTable,
    Said,
    TableRead,
)
from ...model.tables import Tables
from ..events.thrift_json import parsed, struct_bytes
from .needs import Extent, Need, WriteTables

_TABLE_NAME, _TABLE_DB, _TABLE_TEMPORARY = "1", "2", "14"  # the metastore lacks the last
_PARTITION_DB, _PARTITION_TABLE = "2", "3"
_SERVERS: Final = ("19", "25")  # of a table in Hive 4: its write and id, which only servers send
_WRITE: Final = "10"  # of a partition
_NO_WRITES: Final[tuple[object, ...]] = ({"i64": -1}, {"i64": 0})
OBJECTS_MAX: Final = 1_000  # of one batch that are applied, 0.2 ms each; further ones are read
SAID_BYTES_MAX: Final = 8 << 20  # of their messages, 48 ms each megabyte
STATISTICS: Final = b"COLUMN_STATS_ACCURATE"  # Hive 3.1 changes it after the event of a rename


SHAPED_MAX: Final = 1_000  # tables, each with 0.5 KB of shapes
SHAPES_MAX: Final = 4  # of a table: of new partitions, and of partitions with statistics


class _Shape(NamedTuple):
    """A digest of a partition's fields and parameters, and its ``write``, which events may lack."""

    digest: bytes
    write: int | None


@dataclass(slots=True)
class _Applied:
    """One table after the events of this batch so far."""

    thrift: bytes | None = None  # its own struct; None: as it is held
    partitions: dict[str, bytes | None] = field(default_factory=dict)  # None: gone
    data: bool = False


class InPlace:
    """Applies the objects of one batch: ``take`` one after the other, then ``results``."""

    def __init__(self, tables: Tables, *, pending: Callable[[TableId], bool]) -> None:
        """``pending``: whether a table is being read, or is about to be."""
        self._tables = tables
        self._pending = pending
        self._enabled = False  # whether events have all parameters, as the metastore says
        self._shapes = Newest[tuple[TableId, int], tuple[_Shape, ...]](SHAPED_MAX)
        """By table and incarnation: of partitions held at some time in this connection."""
        self._batch: dict[TableId, _Applied] = {}
        self._count = 0  # objects that were applied of this batch
        self._said_bytes = 0  # of the messages of this batch that were decoded

    def begin(self, *, enabled: bool) -> None:
        """Begin a new connection, whose server may have another release or setting."""
        self._enabled = enabled
        self._shapes.clear()

    def take(self, dirty: Dirty, *, said_bytes: int) -> bool:
        """Apply the content that an event has of ``dirty``; return False if it must be read.

        ``said_bytes``: the size of the event's message.
        """
        if not self._enabled or isinstance(dirty, DirtyDatabase) or self._count >= OBJECTS_MAX:
            return False
        table = dirty.db, dirty.table
        if self._pending(table) or not self._tables.loaded(table):
            return False
        if self._said_bytes + said_bytes > SAID_BYTES_MAX:
            return False
        self._said_bytes += said_bytes
        applied = self._batch.get(table) or _Applied()
        try:
            match dirty:
                case DirtyTable(content=content):
                    taken = content is not None and self._table(table, content, applied)
                case DirtyPartitions(names=names, contents=contents):
                    taken = 0 < len(contents) <= OBJECTS_MAX and self._partitions(
                        table, dict(zip(names, contents, strict=True)), applied
                    )
                case _:
                    assert_never(dirty)
        except (WireError, UsageError):
            return False
        if taken:
            self._count += len(dirty.contents) if isinstance(dirty, DirtyPartitions) else 1
            applied.data |= dirty.data
            self._batch[table] = applied
        return taken

    def results(self, seq: int) -> tuple[WriteTables, ...]:
        """End the batch with arrival number ``seq``; return the applied objects, to be written."""
        batch, self._batch, self._count, self._said_bytes = self._batch, {}, 0, 0
        if not batch:
            return ()
        tables = {
            table: TableRead(
                thrift=one.thrift,
                partitions={
                    n: struct for n, struct in one.partitions.items() if struct is not None
                },
            )
            for table, one in batch.items()
        }
        needs = {
            table: Need(
                seq,
                Extent.PARTITIONS if one.thrift is None else Extent.STRUCT,
                names=dict.fromkeys(one.partitions),
                data=one.data,
            )
            for table, one in batch.items()
        }
        return (WriteTables(databases={}, tables=tables, needs=needs),)

    def _table(self, table: TableId, content: Content, applied: _Applied) -> bool:
        value = self._tables.value(table)
        held = applied.thrift or (None if value is None else value.thrift)
        if held is None or content.after is None:
            return False
        if content.after == KEPT:
            applied.thrift = held
            return True
        names = {_TABLE_NAME: {"str": table[1]}, _TABLE_DB: {"str": table[0]}}
        if content.before is None:
            return False
        left_out = {_TABLE_TEMPORARY} - {str(one) for one in _ids(held)}
        before = _decoded(content.before)
        if not same_struct(held, _bytes(before, names, left_out=left_out)):
            return False
        kept = {number: before[number] for number in _SERVERS if number in before}
        after = _bytes({**kept, **_decoded(content.after)}, names, left_out=left_out)
        if _ids(after) != _ids(held):
            return False
        applied.thrift = after
        return True

    def _partitions(
        self, table: TableId, contents: Mapping[str, Content], applied: _Applied
    ) -> bool:
        changes: dict[str, bytes | None] = {}
        columns = [column.name for column in self._tables.partition_columns(table)]
        for name, content in contents.items():
            if content.after is None:
                changes[name] = None
                continue
            held = self._held(table, content.was or name, applied)
            if content.after == KEPT:
                if held is None:
                    return False
                changes[name] = held
                continue
            if content.before is None:
                after = None if held is not None else self._added(table, content.after)
            elif held is None or (content.was not in ("", name) and STATISTICS in held):
                after = None
            else:
                after = self._altered(table, held, content)
            if after is None or _name_of(after, columns) != name:
                return False
            changes[name] = after
        applied.partitions |= changes
        return True

    def _added(self, table: TableId, said: Said) -> bytes | None:
        """Return an added partition; None: nothing proves that the metastore returns it so."""
        names = _of_partitions(table)
        for known in self._shapes.get(self._incarnation(table), ()):
            after = _bytes(said, names, write=known.write)
            if _digest(after) == known.digest:
                return after
        sample = self._tables.sample(table)
        if sample is None:
            return None
        self._note_shape(table, sample)
        after = _bytes(said, names, write=_write_of(sample))
        return after if shape(after) == shape(sample) else None

    def _altered(self, table: TableId, held: bytes, content: Content) -> bytes | None:
        """Return an altered partition; None: nothing proves that the metastore returns it so."""
        assert content.before is not None
        assert content.after is not None
        names, write = _of_partitions(table), _write_of(held)
        after = _bytes(content.after, names, write=write)
        before = _bytes(content.before, names, write=write)
        if not same_struct(held, before) or _ids(held) != _ids(after):
            return None
        if len(held) != len(after):  # of equal length, they usually have the same parameters
            self._note_shape(table, held)
        return after

    def _note_shape(self, table: TableId, held: bytes) -> None:
        of, found = self._incarnation(table), _Shape(_digest(held), _write_of(held))
        others = (one for one in self._shapes.get(of, ()) if one != found)
        self._shapes.put(of, (found, *others)[:SHAPES_MAX])

    def _incarnation(self, table: TableId) -> tuple[TableId, int]:
        value = self._tables.value(table)
        return table, 0 if value is None else value.incarnation

    def _held(self, table: TableId, name: str, applied: _Applied) -> bytes | None:
        if name in applied.partitions:
            return applied.partitions[name]
        return next((struct for _, struct in self._tables.structs(table, [name])), None)


def _name_of(partition: bytes, columns: Sequence[str]) -> str:
    values = next((read_texts(partition, one) for one in fields(partition) if one.id == 1), ())
    return partition_name(columns, values)


def _of_partitions(table: TableId) -> Mapping[str, object]:
    """Return the fields that name the table of a partition, as the metastore returns them."""
    return {_PARTITION_DB: {"str": table[0]}, _PARTITION_TABLE: {"str": table[1]}}


def _decoded(said: Said) -> Mapping[str, object]:
    return parsed(said) if isinstance(said, str) else said


def _ids(struct: bytes) -> set[int]:
    return {one.id for one in fields(struct)}


def _digest(partition: bytes) -> bytes:
    """Return a digest of the fields and parameters that a partition has."""
    return blake2b(repr(shape(partition)).encode(), digest_size=16).digest()


def _write_of(partition: bytes) -> int | None:
    """Return the id of the write that a partition is of; None before Hive 4."""
    found = (read_int(partition, one) for one in fields(partition) if str(one.id) == _WRITE)
    return next(found, None)


def _bytes(
    said: Said,
    names: Mapping[str, object],
    *,
    left_out: Collection[str] = (),
    write: int | None = None,
) -> bytes:
    """Return the bytes of an object, with ``names`` as Hive keeps them, in lower case.

    ``left_out``: fields to omit. ``write``: the held partition's. For the same partition without a
    transaction clients, events and the metastore of Hive 4 send 0, -1 or nothing.

    Raises:
        WireError: ``said`` is not a struct, or is of a transaction.
    """
    kept = {number: of for number, of in _decoded(said).items() if number not in left_out}
    if write is not None:
        if write > 0 or kept.get(_WRITE, _NO_WRITES[0]) not in _NO_WRITES:
            raise WireError("a partition is of a transaction: it is read")
        kept[_WRITE] = {"i64": write}
    return struct_bytes({**kept, **names})
