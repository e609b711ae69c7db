"""A metastore in memory: the port for catalogd, and hmsclient's writing methods for tests.

Behaves as the real one (metastore/test_port.py). Tests make it fail and hang.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from json.encoder import encode_basestring
from typing import Any, Generic, TypeVar

from hmsclient.genthrift.hive_metastore.ttypes import (
    AlreadyExistsException,
    Database,
    FieldSchema,
    FireEventRequest,
    NoSuchObjectException,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAcceleratedFactory
from thrift.protocol.TJSONProtocol import CTYPES
from thrift.Thrift import TType
from thrift.TSerialization import deserialize, serialize

from topicast.catalog.metastore.facts import functions_of, statistics_of
from topicast.catalog.metastore.port import Metastore, RawEvent
from topicast.topics.errors import ObjectGone, SourceRefused
from topicast.topics.objects.metastore_facts import ColumnStatistics, Function
from topicast.topics.objects.names import partition_name

TIME_S = 1_795_000_000
STRUCTS_MAX = 4096  # that are kept, over all metastores: most tests make the same ones
S = TypeVar("S")  # a Thrift struct


def thrift_bytes(struct: object) -> bytes:
    return serialize(struct, TBinaryProtocolAcceleratedFactory())


def from_thrift(kind: type[S], struct: bytes) -> S:
    found: S = deserialize(kind(), struct, TBinaryProtocolAcceleratedFactory())
    return found


def thrift_json(struct: object) -> str:
    """Return the struct as the JSON of Thrift's own protocol, which takes ten times longer."""
    return _text_of(TType.STRUCT, struct, (type(struct),))


def _text_of(kind: int, value: Any, of: Any) -> str:
    """Return ``value`` as TJSONProtocol writes it; ``of``: what its Thrift type is made of."""
    if kind == TType.STRING:
        return encode_basestring(value)
    if kind == TType.STRUCT:
        found = [
            f"{head}{_text_of(of_field, one, parts)}}}"
            for head, of_field, name, parts in _fields_of(of[0])
            if (one := getattr(value, name)) is not None
        ]
        return f"{{{','.join(found)}}}"
    if kind in {TType.LIST, TType.SET}:
        items = "".join([f",{_text_of(of[0], one, of[1])}" for one in value])
        return f'["{CTYPES[of[0]]}",{len(value)}{items}]'
    if kind == TType.MAP:
        pairs = [
            f"{_text_of(TType.STRING, str(key), None)}:{_text_of(of[2], one, of[3])}"
            for key, one in value.items()
        ]
        return f'["{CTYPES[of[0]]}","{CTYPES[of[2]]}",{len(value)},{{{",".join(pairs)}}}]'
    return json.dumps(int(value) if kind == TType.BOOL else value)


@cache
def _fields_of(kind: Any) -> list[tuple[str, int, str, Any]]:
    """Return of each field of a struct how its text begins, its type, its name and its parts."""
    return [
        (f'"{number}":{{"{CTYPES[of_field]}":', of_field, name, parts)
        for number, of_field, name, parts, _ in filter(None, kind.thrift_spec)
    ]


def copied(struct: S) -> S:
    """Return a copy of a Thrift struct, some ten times faster than ``deepcopy``."""
    return from_thrift(type(struct), thrift_bytes(struct))


def make_table(db: str, name: str, *, location: str, keys: Sequence[str] = ()) -> Table:
    """A plain external text table with columns ``a`` and ``b``."""
    return Table(
        tableName=name,
        dbName=db,
        owner="tester",
        createTime=0,
        lastAccessTime=0,
        retention=0,
        sd=StorageDescriptor(
            cols=[FieldSchema("a", "int", "first"), FieldSchema("b", "string", "")],
            location=location,
            inputFormat="org.apache.hadoop.mapred.TextInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            compressed=False,
            numBuckets=-1,
            serdeInfo=SerDeInfo("", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", {}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
        partitionKeys=[FieldSchema(key, "string", "") for key in keys],
        parameters={"EXTERNAL": "TRUE"},
        tableType="EXTERNAL_TABLE",
    )


def make_partition(table: Table, values: Sequence[str]) -> Partition:
    """A partition of ``table`` in the table's own folder, which costs the real one no mkdir."""
    return Partition(
        values=list(values),
        dbName=table.dbName,
        tableName=table.tableName,
        createTime=0,
        lastAccessTime=0,
        sd=copied(table.sd),
        parameters={},
    )


def raw_event(
    number: int,
    table: str = "t",
    *,
    kind: str = "CREATE_TABLE",
    db: str = "d",
    message: str = "{}",
    message_format: str = "json-0.2",
) -> RawEvent:
    """Return an event as a metastore sends it."""
    return RawEvent(
        id=number, type=kind, db=db, table=table, message=message, message_format=message_format
    )


@lru_cache(STRUCTS_MAX)
def _read(kind: type[S], struct: bytes) -> S:
    return from_thrift(kind, struct)


@lru_cache(STRUCTS_MAX)
def _text_in_event(kind: Any, struct: bytes) -> str:
    return json.dumps(thrift_json(_read(kind, struct)))


class Held(Generic[S]):
    """A copy of a Thrift struct, which nobody changes: any number of events and reads share it."""

    def __init__(self, struct: S) -> None:
        self.kind = type(struct)
        self.bytes = thrift_bytes(struct)

    def copy(self) -> S:
        """Return a copy that its receiver may change."""
        return from_thrift(self.kind, self.bytes)

    @property
    def struct(self) -> S:
        """What everybody may read."""
        return _read(self.kind, self.bytes)

    @property
    def text(self) -> str:
        """What the message of an event has of it: a text in JSON, which is JSON itself."""
        return _text_in_event(self.kind, self.bytes)


def moved(
    partition: Held[Partition], table: tuple[str, str], columns: list[FieldSchema] | None
) -> Held[Partition]:
    """Return ``partition`` as one of ``table``, with these columns, else with its own."""
    found = partition.copy()
    found.dbName, found.tableName = table
    if columns is not None:
        found.sd.cols = columns
    return Held(found)


def message_of(value: object) -> str:
    """Return ``value`` as the message of an event has it."""
    if isinstance(value, Held):
        return value.text
    if isinstance(value, dict):
        pairs = (f'"{name}": {message_of(of)}' for name, of in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(message_of, value))}]"
    return json.dumps(value, default=thrift_json)


@dataclass(frozen=True)
class Event:
    """An event of the log; its message is written when it is first read, which is slow."""

    id: int
    type: str
    db: str
    table: str
    body: dict[str, object]
    catalog: str = ""

    @cached_property
    def raw(self) -> RawEvent:
        names = {"db": self.db, "table": self.table} if self.table else {"db": self.db}
        body = {"server": "", "servicePrincipal": "", "timestamp": TIME_S, **names, **self.body}
        return RawEvent(
            id=self.id,
            type=self.type,
            db=self.db,
            table=self.table,
            message=message_of(body),
            message_format="json-0.2",
            catalog=self.catalog,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A metastore under test, the client that writes to it, and a database of the test's own."""

    reads: Metastore
    writes: Any
    db: str
    location: str

    def table(self, name: str, *keys: str) -> Table:
        table = make_table(self.db, name, location=f"{self.location}/{name}", keys=keys)
        self.writes.create_table(table)
        return table


class FakeMetastore:
    """Databases, tables, partitions and a notification log; safe for many threads."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.events_read = 0  # as Hive 2.3 does, which reads all behind an id for each call
        self.connections = 1
        self.known_as = ""  # its UUID
        self.release_said = ""
        self.failures: list[Exception] = []
        """Raised one by one, each by the next read."""
        self.records: bool | None = True  # whether it records events; None: it does, unsaid
        self.logs = True  # whether there are events, whatever it says
        self.tells = True  # whether it says that events have all of an object
        self.unsendable: set[int] = set()  # ids of events at which it fails
        self.limits = True  # its query of events; Hive 2.3 reads all, and then cuts
        self.cuts = True  # to as many as were asked for
        self.lost: set[int] = set()  # ids of events that somebody has deleted
        self.times_s: Callable[[int], int] = lambda _id: TIME_S  # when the event of an id was
        self.unreadable: dict[str, str] = {}  # databases, tables or partitions that cannot be read
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.RLock()
        self._databases = {"default": Held(Database("default", "", "file:/warehouse", {}))}
        self._tables: dict[tuple[str, str], Held[Table]] = {}
        self._partitions: dict[tuple[str, str], dict[str, Held[Partition]]] = {}
        self._functions: dict[tuple[str, str], Any] = {}
        self._statistics: dict[tuple[str, str, str], list[Any]] = {}
        self._events: list[Event] = []
        self._last_id = 0

    # -- faults

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Let reads wait until the block ends."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def clean_log(self, up_to_id: int) -> None:
        """Discard events, as the metastore does with those of yesterday."""
        self._events = [event for event in self._events if event.id > up_to_id]

    def log_as(self, type_: str, db: str, name: str, **body: object) -> None:
        """Record an event, whatever is there."""
        self._log(type_, db, name, **body)

    def set_counter_back(self, ids: int) -> None:
        """Give the last ``ids`` event ids once more, as Hive 2.3 does after a slow writer."""
        self._last_id -= ids

    def become(self, other: "FakeMetastore") -> None:
        """Let ``other`` be what stands behind the next connections."""
        with self._lock:
            self.connections += 1
            self.known_as = other.known_as
            self._databases, self._tables = other._databases, other._tables
            self._partitions = other._partitions
            self._events, self._last_id = other._events, other._last_id

    def copy(self) -> "FakeMetastore":
        """Return a copy of its database, to be put back later."""
        found = FakeMetastore()
        with self._lock:
            found.become(self)
            found.begin_as(self)
        return found

    def begin_as(self, other: "FakeMetastore") -> None:
        """Have all objects and events of ``other``; later changes are those of each alone."""
        self._databases, self._tables = dict(other._databases), dict(other._tables)
        self._partitions = {key: dict(held) for key, held in other._partitions.items()}
        self._events, self._last_id = list(other._events), other._last_id

    def drop_elsewhere(self, db: str, name: str) -> None:
        """Log that a table was dropped in a catalog that nobody follows."""
        with self._lock:
            self._last_id += 1
            self._events.append(Event(self._last_id, "DROP_TABLE", db, name, {}, catalog="other"))

    def log_late(self, event_id: int) -> None:
        """Log event ``event_id`` again, in place of the newest, whose id it gets."""
        with self._lock:
            again = next(one for one in self._events if one.id == event_id)
            self._events[-1] = replace(again, id=self._last_id)

    def log_unknown(self, kind: str, db: str, name: str) -> None:
        """Log an event of a type that this metastore has not, as those of later releases."""
        with self._lock:
            self._log(kind, db, name)

    def log_transaction(self, db: str, name: str, number: int) -> None:
        """Log a transaction that writes a table, as Hive 3.1 does."""
        with self._lock:
            self._log("OPEN_TXN", "null", " ", txnIds=None, fromTxnId=number, toTxnId=number)
            held = {"dbName": db, "tableName": name, "txnIdList": [number], "writeIdList": [1]}
            self._log("ALLOC_WRITE_ID_EVENT", db, " ", **held)
            self._log("COMMIT_TXN", "null", " ", txnid=number)

    # -- the port

    def uuid(self) -> str:
        with self._reading("uuid"):
            return self.known_as

    def release(self) -> str:
        return self.release_said

    def tells_all(self) -> bool:
        return self.tells

    def current_event_id(self) -> int:
        with self._reading("current_event_id"):
            return self._last_id

    def records_events(self) -> bool | None:
        return self.records

    def events_after(self, event_id: int, *, events_max: int) -> tuple[RawEvent, ...]:
        with self._reading("events_after"):
            there = (e for e in self._events if e.id > event_id and e.id not in self.lost)
            after = sorted(there, key=lambda e: e.id)
            self.events_read += len(after)
            some = after[:events_max] if self.cuts else after
            if any(event.id in self.unsendable for event in (some if self.limits else after)):
                raise SourceRefused("Internal error processing get_next_notification")
            return tuple(event.raw for event in some)

    def databases(self) -> tuple[str, ...]:
        with self._reading("databases"):
            return tuple(self._databases)

    def database(self, name: str) -> bytes:
        with self._reading("database"):
            if name not in self._databases:
                raise ObjectGone(name)
            return self._databases[name].bytes

    def table_names(self, db: str) -> tuple[tuple[str, str], ...]:
        with self._reading("table_names"):
            self._demand_readable(db)
            tables = self._tables.items()
            return tuple((n, t.struct.tableType) for (d, n), t in tables if d == db)

    def names(self, db: str) -> tuple[str, ...]:
        with self._reading("names"):
            self._demand_readable(db)
            return tuple(n for d, n in self._tables if d == db)

    def tables(self, db: str, names: Sequence[str]) -> dict[str, bytes]:
        with self._reading("tables"):
            for name in names:
                self._demand_readable(name)
            there = [name for name in names if (db, name) in self._tables]
            return {name: self._tables[db, name].bytes for name in there}

    def partition_names(self, db: str, table: str) -> tuple[str, ...]:
        with self._reading("partition_names"):
            return tuple(sorted(self._of(db, table)))

    def all_partitions(
        self, db: str, table: str, keys: Sequence[str], *, partitions_max: int
    ) -> tuple[tuple[str, ...], dict[str, bytes] | None]:
        with self._reading("all_partitions"):
            held = dict(sorted(self._of(db, table).items()))
            if len(held) <= partitions_max:
                for name in held:
                    self._demand_readable(name)
                return tuple(held), {name: one.bytes for name, one in held.items()}
        return self.partition_names(db, table), None

    def partitions(self, db: str, table: str, names: Sequence[str]) -> dict[str, bytes]:
        with self._reading("partitions"):
            held = self._of(db, table)
            for name in held.keys() & set(names):
                self._demand_readable(name)
            return {name: held[name].bytes for name in names if name in held}

    def functions(self, db: str) -> tuple[Function, ...]:
        with self._reading("functions"):
            return functions_of(db, self._functions.values())

    def statistics(
        self, db: str, table: str, columns: Sequence[str], *, partitions: Sequence[str] = ()
    ) -> tuple[ColumnStatistics, ...]:
        with self._reading("statistics"):
            self._of(db, table)
            return tuple(
                one
                for name in sorted(partitions) or [""]
                for one in statistics_of(name, self._statistics.get((db, table, name), ()))
                if one.column in columns
            )

    def close(self) -> None:
        self.calls.append("close")

    # -- hmsclient's writing methods

    def create_database(self, database: Database) -> None:
        with self._lock:
            if database.name in self._databases:
                raise AlreadyExistsException(database.name)
            self._databases[database.name] = Held(database)
            self._log("CREATE_DATABASE", database.name)

    def alter_database(self, name: str, new: Database) -> None:
        with self._lock:
            self._databases[name] = Held(new)
            self._log("ALTER_DATABASE", name)

    def drop_database(self, name: str, delete_data: bool, cascade: bool) -> None:
        with self._lock:
            for db, table in [key for key in self._tables if key[0] == name]:
                assert cascade
                self.drop_table(db, table, delete_data)
            del self._databases[name]
            self._log("DROP_DATABASE", name)

    def create_table(self, table: Table) -> None:
        with self._lock:
            key = (table.dbName, table.tableName)
            if key in self._tables:
                raise AlreadyExistsException(table.tableName)
            stored = copied(table)
            stored.createTime = stored.createTime or TIME_S
            self._tables[key], self._partitions[key] = Held(stored), {}
            self._log("CREATE_TABLE", *key, tableObjJson=self._tables[key])

    def get_table(self, db: str, name: str) -> Table:
        with self._lock:
            return self._demand(db, name).copy()

    def alter_table(self, db: str, name: str, new: Table) -> None:
        self.alter_table_with_cascade(db, name, new, False)

    def alter_table_with_cascade(self, db: str, name: str, new: Table, cascade: bool) -> None:
        with self._lock:
            before = self._demand(db, name)
            del self._tables[db, name]
            key = (new.dbName, new.tableName)
            self._tables[key] = after = Held(new)
            self._partitions[key] = held = self._partitions.pop((db, name))
            if cascade or key != (db, name):
                columns = new.sd.cols if cascade else None
                held.update({one: moved(of, key, columns) for one, of in held.items()})
            objects = {"tableObjBeforeJson": before, "tableObjAfterJson": after}
            self._log("ALTER_TABLE", *key, table=name, isTruncateOp="false", **objects)

    def drop_table(self, db: str, name: str, delete_data: bool) -> None:
        with self._lock:
            self._demand(db, name)
            del self._tables[db, name], self._partitions[db, name]
            self._log("DROP_TABLE", db, name)

    def add_partitions(self, new: Sequence[Partition]) -> int:
        with self._lock:
            db, name = new[0].dbName, new[0].tableName
            table, held = self._demand(db, name), self._partitions[db, name]
            added = {}
            for partition in new:
                of = self._name(table, partition.values)
                if of in held:
                    raise AlreadyExistsException(str(partition.values))
                added[of] = Held(partition)
            held.update(added)
            self._log(
                "ADD_PARTITION",
                db,
                name,
                tableObjJson=table,
                partitions=[self._key_values(table, partition.values) for partition in new],
                partitionListJson=list(added.values()),
            )
            return len(new)

    def get_partition(self, db: str, name: str, values: Sequence[str]) -> Partition:
        with self._lock:
            return self._of(db, name)[self._name(self._demand(db, name), values)].copy()

    def alter_partitions(self, db: str, name: str, new: Sequence[Partition]) -> None:
        for partition in new:
            self.rename_partition(db, name, partition.values, partition)

    def rename_partition(self, db: str, name: str, old: Sequence[str], new: Partition) -> None:
        with self._lock:
            table, held = self._demand(db, name), self._partitions[db, name]
            before = held.pop(self._name(table, old))
            held[self._name(table, new.values)] = after = Held(new)
            self._log(
                "ALTER_PARTITION",
                db,
                name,
                tableObjJson=table,
                keyValues=self._key_values(table, old),
                isTruncateOp="false",
                partitionObjBeforeJson=before,
                partitionObjAfterJson=after,
            )

    def drop_partition(self, db: str, name: str, values: Sequence[str], delete_data: bool) -> bool:
        with self._lock:
            table = self._demand(db, name)
            del self._partitions[db, name][self._name(table, values)]
            gone = [self._key_values(table, values)]
            self._log("DROP_PARTITION", db, name, tableObjJson=table, partitions=gone)
            return True

    def fire_listener_event(self, request: FireEventRequest) -> None:
        with self._lock:
            db, name = request.dbName, request.tableName
            table = self._demand(db, name)
            values: dict[str, str] = {}
            if request.partitionVals:
                self.get_partition(db, name, request.partitionVals)
                values = self._key_values(table, request.partitionVals)
            self._log("INSERT", db, name, files=[], partKeyVals=values)

    def create_function(self, function: Any) -> None:
        with self._lock:
            self._functions[function.dbName, function.functionName] = copied(function)
            self._log("CREATE_FUNCTION", function.dbName)

    def drop_function(self, db: str, name: str) -> None:
        with self._lock:
            del self._functions[db, name]
            self._log("DROP_FUNCTION", db)

    def update_table_column_statistics(self, given: Any) -> bool:
        """Take the statistics of columns; before Hive 4 this leaves no event."""
        of = given.statsDesc
        with self._lock:
            self._demand(of.dbName, of.tableName)
            place = of.dbName, of.tableName, of.partName or ""
            self._statistics[place] = copied(given).statsObj
            if self.release_said.startswith("4"):
                kind = "UPDATE_PART_COL_STAT_EVENT" if of.partName else "UPDATE_TBL_COL_STAT_EVENT"
                self._log(kind, of.dbName, of.tableName, partName=of.partName)
        return True

    def update_partition_column_statistics(self, given: Any) -> bool:
        return self.update_table_column_statistics(given)

    # -- inside

    @contextmanager
    def _reading(self, call: str) -> Iterator[None]:
        self.calls.append(call)
        self._open.wait()
        with self._lock:
            if self.failures:
                raise self.failures.pop(0)
            yield

    def _demand(self, db: str, table: str) -> Held[Table]:
        found = self._tables.get((db, table))
        if found is None:
            raise NoSuchObjectException(f"{db}.{table}")
        return found

    def _demand_readable(self, name: str) -> None:
        if name in self.unreadable:
            raise SourceRefused(self.unreadable[name])

    def _of(self, db: str, table: str) -> dict[str, Held[Partition]]:
        self._demand_readable(table)
        if (db, table) not in self._tables:
            raise ObjectGone(f"{db}.{table}")
        return self._partitions[db, table]

    @staticmethod
    def _name(table: Held[Table], values: Sequence[str]) -> str:
        return partition_name([key.name for key in table.struct.partitionKeys], values)

    @staticmethod
    def _key_values(table: Held[Table], values: Sequence[str]) -> dict[str, str]:
        return {key.name: v for key, v in zip(table.struct.partitionKeys, values, strict=True)}

    def _log(self, type_: str, db: str, name: str = "", **body: object) -> None:
        if self.records is False or not self.logs:
            return
        self._last_id += 1
        body = {"timestamp": self.times_s(self._last_id), **body}
        self._events.append(Event(self._last_id, type_, db, name, body))
