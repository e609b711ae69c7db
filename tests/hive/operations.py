"""Operations: every kind that changes what a metastore holds, as its clients do them.

They are done in order, each on what those before it have left. A release refuses what it does not
have; the name of an operation says what is done, and to what.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Final

from hmsclient.genthrift.hive_metastore.ttypes import (
    AbortTxnRequest,
    AddForeignKeyRequest,
    AddPrimaryKeyRequest,
    ClientCapabilities,
    ColumnStatistics,
    ColumnStatisticsData,
    ColumnStatisticsDesc,
    ColumnStatisticsObj,
    CommitTxnRequest,
    CompactionRequest,
    Database,
    DropConstraintRequest,
    FieldSchema,
    Function,
    GetTableRequest,
    Index,
    LongColumnStatsData,
    OpenTxnRequest,
    SQLForeignKey,
    SQLPrimaryKey,
    Table,
)

from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.hive.calls import Long, Struct, call

DB: Final = "Corpus"  # Hive keeps names in lower case
OTHER: Final = "other"
ORC: Final = "org.apache.hadoop.hive.ql.io.orc"
COMPACTION: Final = 3  # the type of its transaction
MAJOR: Final = 2  # a compaction
Operation = tuple[str, Callable[[], object]]


class Operations:
    """What is done on the metastore of ``client``, whose warehouse is at ``warehouse``."""

    def __init__(self, client: Any, warehouse: str) -> None:
        self.client = client
        self.location = f"{warehouse}/corpus.db"

    def __iter__(self) -> Iterator[Operation]:
        """Yield each operation with its name; the next is made when it was done."""
        for kind in (
            self._databases,
            self._tables,
            self._partitions,
            self._bulk,
            self._files,
            self._statistics,
            self._transactions,
            self._compaction,
            self._constraints,
            self._views,
            self._functions,
            self._indexes,
            self._elsewhere,
            self._ends,
        ):
            yield from kind()

    def _databases(self) -> Iterator[Operation]:
        database = Database(DB, "of events", self.location, {"k": "v"})
        yield "create database", lambda: self.client.create_database(database)
        described = Database(DB, "described anew", self.location, {"k": "w"})
        yield "alter database", lambda: self.client.alter_database(DB, described)
        brief = Database("Brief", "", f"{self.location}/brief", {})
        yield "create database short lived", lambda: self.client.create_database(brief)
        yield "drop database short lived", lambda: self.client.drop_database("Brief", True, True)

    def _tables(self) -> Iterator[Operation]:
        create, alter = self.client.create_table, self._alter
        yield "create table plain", lambda: create(self._table("Plain"))
        yield "create table parted", lambda: create(self._table("Parted", "Zone", "day"))
        yield "alter table parameter", lambda: alter("plain", lambda t: t.parameters.update(k="v"))
        yield (
            "alter table comment",
            lambda: alter("plain", lambda t: t.parameters.update(comment="für Ä")),
        )
        yield "alter table nothing", lambda: alter("plain", lambda _: None)
        new = FieldSchema("c", "struct<a:int,b:array<string>>", "new")
        yield "alter table columns", lambda: alter("plain", lambda t: t.sd.cols.append(new))
        moved = f"{self.location}/elsewhere"
        yield (
            "alter table location",
            lambda: alter("plain", lambda t: setattr(t.sd, "location", moved)),
        )
        yield "alter table owner", lambda: alter("plain", lambda t: setattr(t, "owner", "other"))
        yield "rename table", lambda: alter("plain", lambda t: setattr(t, "tableName", "Renamed"))
        yield (
            "rename table back",
            lambda: alter("renamed", lambda t: setattr(t, "tableName", "plain")),
        )
        yield "create table short lived", lambda: create(self._table("gone"))
        yield "drop table", lambda: self.client.drop_table(DB, "gone", True)

    def _partitions(self) -> Iterator[Operation]:
        client = self.client
        parted = self._table("parted", "zone", "day")
        new = [make_partition(parted, values) for values in (["a/b", "1"], ["x", "2%"], ["ü", "3"])]
        yield "add partitions", lambda: client.add_partitions(new)
        yield "append partition", lambda: client.append_partition(DB, "parted", ["y", "1"])
        yield (
            "append partition by name",
            lambda: client.append_partition_by_name(DB, "parted", "zone=z/day=9"),
        )
        changed = partial(self._changed, "parted", ["y", "1"], k="v")
        yield "alter partition", lambda: client.alter_partition(DB, "parted", changed())
        yield "rename partition", lambda: self._rename_partition(["y", "1"], ["Y z", "2"])
        yield "drop partition", lambda: client.drop_partition(DB, "parted", ["Y z", "2"], True)
        yield "alter table cascade", lambda: self._cascade("parted")
        yield "truncate partition", lambda: call(client, "truncate_table", DB, "parted", [P])
        yield "truncate table", lambda: call(client, "truncate_table", DB, "plain", [])

    def _bulk(self) -> Iterator[Operation]:
        client = self.client

        def alter() -> None:
            some = [
                self._changed("parted", values, k="w") for values in (["a/b", "1"], ["x", "2%"])
            ]
            client.alter_partitions(DB, "parted", some)

        yield "alter partitions", alter
        both = [make_partition(self._table("parted", "zone", "day"), ["d", n]) for n in ("1", "2")]
        yield "add two partitions", lambda: client.add_partitions(both)
        names = Struct({1: ["zone=d/day=1", "zone=d/day=2"]})
        request = Struct({1: DB, 2: "parted", 3: names, 4: True})
        yield "drop partitions", lambda: call(client, "drop_partitions_req", request)

    def _files(self) -> Iterator[Operation]:
        added = Struct({1: False, 2: []})  # InsertEventRequestData; its files would be read
        older = Struct({1: []})  # that of 2.3
        for name, data in (("", added), (" of 2.3", older)):
            into = partial(self._fire, Struct({1: data}))
            yield f"insert into table{name}", partial(into, "plain")
            yield f"insert into partition{name}", partial(into, "parted", ["x", "2%"])
        several = Struct({2: [Struct({1: False, 2: [], 5: ["x", "2%"]})]})
        yield "insert into partitions", lambda: self._fire(several, "parted")
        yield "reload table", lambda: self._fire(Struct({3: True}), "plain")
        yield "reload partition", lambda: self._fire(Struct({3: True}), "parted", ["x", "2%"])
        yield "invalidate table", lambda: self._fire(Struct({3: False}), "plain")

    def _statistics(self) -> Iterator[Operation]:
        client = self.client
        yield (
            "table statistics",
            lambda: client.update_table_column_statistics(_statistics("plain")),
        )
        yield (
            "partition statistics",
            lambda: client.update_partition_column_statistics(_statistics("parted", P)),
        )
        request = Struct({1: [_statistics("parted", P), _statistics("parted", "zone=x/day=2%25")]})
        yield "statistics of partitions", lambda: call(client, "set_aggr_stats_for", request)
        yield (
            "drop partition statistics",
            lambda: client.delete_partition_column_statistics(DB, "parted", P, "a"),
        )
        yield (
            "drop table statistics",
            lambda: client.delete_table_column_statistics(DB, "plain", "a"),
        )

    def _transactions(self) -> Iterator[Operation]:
        yield "create ACID table", lambda: self.client.create_table(self._acid("acid"))
        only = self._acid("only", transactional_properties="insert_only")
        yield "create insert-only table", lambda: self.client.create_table(only)
        numbers: list[int] = []

        def begin() -> None:
            for _ in range(2):
                request = OpenTxnRequest(1, "etl", "host")
                numbers.extend(self.client.open_txns(request).txn_ids)

        yield "open transactions", begin
        for name in ("acid", "only"):
            yield f"write id of {name}", lambda name=name: self._allocate(name, numbers)
            yield f"write into {name}", lambda name=name: self._written(name, numbers[0])
        yield "commit", lambda: self.client.commit_txn(CommitTxnRequest(numbers[0]))
        yield "abort", lambda: self.client.abort_txn(AbortTxnRequest(numbers[1]))

    def _compaction(self) -> Iterator[Operation]:
        client = self.client
        yield (
            "request compaction",
            lambda: client.compact2(CompactionRequest(DB.lower(), "acid", type=MAJOR)),
        )

        def compact() -> None:
            found = call(client, "find_next_compact2", Struct({1: "worker", 2: "4"}))
            assert isinstance(found, dict)
            info = found[1]
            request = Struct({1: 1, 2: "etl", 3: "host", 7: COMPACTION})
            opened = call(client, "open_txns", request)
            assert isinstance(opened, dict)
            (number,) = opened[1]
            held = {1: Long(info[1]), 2: info[2], 3: info[3], 5: info[5], 6: "etl", 12: Long(1)}
            call(client, "update_compactor_state", Struct(held), Long(number))
            client.commit_txn(CommitTxnRequest(number))

        yield "compact", compact

    def _constraints(self) -> Iterator[Operation]:
        client, flags = self.client, (True, False, False)
        for name in ("parent", "child"):
            yield (
                f"create table {name}",
                lambda name=name: client.create_table(self._table(name)),
            )
        primary = SQLPrimaryKey(DB, "parent", "a", 1, "pk", *flags)
        yield "primary key", lambda: client.add_primary_key(AddPrimaryKeyRequest([primary]))
        foreign = SQLForeignKey(*(DB, "parent", "a", DB, "child", "a", 1, 0, 0, "fk", "pk"), *flags)
        yield "foreign key", lambda: client.add_foreign_key(AddForeignKeyRequest([foreign]))
        for method, more in (
            ("unique", {5: 1, 6: "uk", 7: True, 8: False, 9: False}),
            ("not_null", {5: "nn", 6: True, 7: False, 8: False}),
            ("default", {5: "1", 6: "dc", 7: True, 8: False, 9: False}),
            ("check", {5: "a > 1", 6: "cc", 7: True, 8: False, 9: False}),
        ):
            one = Struct({1: "hive", 2: DB.lower(), 3: "child", 4: "a", **more})
            request = Struct({1: [one]})
            yield (
                f"{method} constraint",
                partial(call, client, f"add_{method}_constraint", request),
            )
        dropped = DropConstraintRequest(DB, "child", "fk")
        yield "drop constraint", lambda: client.drop_constraint(dropped)

    def _views(self) -> Iterator[Operation]:
        for name, kind in (("seen", "VIRTUAL_VIEW"), ("kept", "MATERIALIZED_VIEW")):
            view = self._table(name)
            view.tableType, view.sd.location = kind, None
            view.viewOriginalText = view.viewExpandedText = f"select a from {DB}.plain"
            yield f"create {name}", partial(self.client.create_table, view)
            yield (
                f"alter {name}",
                partial(self._alter, name, lambda t: t.parameters.update(k="v")),
            )
            yield f"drop {name}", partial(self.client.drop_table, DB, name, True)

    def _functions(self) -> Iterator[Operation]:
        made = Function("upper2", DB.lower(), "org.example.Upper", "etl", 1, 0, 1, [])
        yield "create function", lambda: self.client.create_function(made)
        yield "drop function", lambda: self.client.drop_function(DB, "upper2")

    def _indexes(self) -> Iterator[Operation]:
        """Only 2.3 has them: an index is a table beside its own."""
        held = self._table("corpus__plain_idx__")
        held.tableType, held.parameters = "INDEX_TABLE", {}
        index = Index(
            *("idx", "org.example.Handler", DB, "plain", 1, 1, held.tableName),
            sd=held.sd,
            parameters={},
            deferredRebuild=True,
        )
        yield "create index", lambda: self.client.add_index(index, held)
        changed = deepcopy(index)
        changed.parameters = {"k": "v"}
        yield "alter index", lambda: self.client.alter_index(DB, "plain", "idx", changed)
        yield "drop index", lambda: self.client.drop_index_by_name(DB, "plain", "idx", True)

    def _elsewhere(self) -> Iterator[Operation]:
        """What no reader of a catalog's tables sees."""
        client, where = self.client, f"{self.location}/other"
        catalog = Struct({1: OTHER, 2: "of events", 3: where})
        yield "create catalog", lambda: call(client, "create_catalog", Struct({1: catalog}))
        altered = Struct({1: OTHER, 2: Struct({1: OTHER, 2: "anew", 3: where})})
        yield "alter catalog", lambda: call(client, "alter_catalog", altered)
        yield "drop catalog", lambda: call(client, "drop_catalog", Struct({1: OTHER}))
        name = Struct({1: "hive", 2: DB.lower(), 3: "avro"})
        fields = {1: 1, 2: "avro", 3: "hive", 4: DB.lower(), 5: 1, 6: 1, 7: True}
        yield "create schema", lambda: call(client, "create_ischema", Struct(fields))
        altered_schema = Struct({1: name, 3: Struct({**fields, 9: "anew"})})
        yield "alter schema", lambda: call(client, "alter_ischema", altered_schema)
        version = Struct({1: name, 2: 1, 3: Long(1), 4: [FieldSchema("a", "int", "")]})
        yield "add schema version", lambda: call(client, "add_schema_version", version)
        described = Struct({1: name, 2: 1})
        yield "drop schema version", lambda: call(client, "drop_schema_version", described)
        yield "drop schema", lambda: call(client, "drop_ischema", name)
        connector = Struct({1: "mysql", 2: "mysql", 3: "jdbc:mysql://db", 4: "of events"})
        for method, argument in (
            ("create_dataconnector", connector),
            ("create_dataconnector_req", Struct({1: connector})),
            ("drop_dataconnector_req", Struct({1: "mysql"})),
        ):
            yield method.replace("_", " "), partial(call, client, method, argument)
        yield (
            "drop dataconnector",
            lambda: call(client, "drop_dataconnector", "mysql", True, True),
        )

    def _ends(self) -> Iterator[Operation]:
        yield "drop database", lambda: self.client.drop_database(DB, True, True)

    # -- parts of operations

    def _table(self, name: str, *keys: str) -> Table:
        return make_table(DB, name, location=f"{self.location}/{name.lower()}", keys=keys)

    def _acid(self, name: str, **parameters: str) -> Table:
        table = self._table(name)
        table.tableType = "MANAGED_TABLE"
        table.parameters = {"transactional": "true", **parameters}
        table.sd.numBuckets, table.sd.bucketCols = 2, ["a"]  # 2.3 demands them
        table.sd.inputFormat = f"{ORC}.OrcInputFormat"
        table.sd.outputFormat = f"{ORC}.OrcOutputFormat"
        table.sd.serdeInfo.serializationLib = f"{ORC}.OrcSerde"
        return table

    def _read(self, name: str) -> Table:
        """Read a table by what every release has."""
        request = GetTableRequest(DB, name, ClientCapabilities([1, 2]))
        found: Table = self.client.get_table_req(request).table
        return found

    def _alter(self, name: str, change: Callable[[Table], object]) -> None:
        table = self._read(name)
        change(table)
        self.client.alter_table_with_environment_context(DB, name, table, None)

    def _cascade(self, name: str) -> None:
        table = self._read(name)
        table.sd.cols.append(FieldSchema("d", "string", ""))
        self.client.alter_table_with_cascade(DB, name, table, True)

    def _changed(self, table: str, values: list[str], **parameters: str) -> Any:
        partition = self.client.get_partition(DB, table, values)
        partition.parameters.update(parameters)
        return partition

    def _rename_partition(self, old: list[str], new: list[str]) -> None:
        partition = self.client.get_partition(DB, "parted", old)
        partition.values = new
        self.client.rename_partition(DB, "parted", old, partition)

    def _fire(self, data: Struct, table: str, values: list[str] | None = None) -> None:
        fields = {1: True, 2: data, 3: DB.lower(), 4: table, 6: "hive"}
        fields |= {5: values} if values else {}
        call(self.client, "fire_listener_event", Struct(fields))

    def _allocate(self, name: str, numbers: list[int]) -> None:
        request = Struct({1: DB.lower(), 2: name, 3: [Long(one) for one in numbers]})
        call(self.client, "allocate_table_write_ids", request)

    def _written(self, name: str, number: int) -> None:
        files = Struct({1: False, 2: [f"{self.location}/{name}/delta_1_1/f"]})
        request = Struct({1: Long(number), 2: Long(1), 3: DB.lower(), 4: name, 5: files})
        call(self.client, "add_write_notification_log", request)


P: Final = "zone=a%2Fb/day=1"


def _statistics(table: str, partition: str | None = None) -> ColumnStatistics:
    description = ColumnStatisticsDesc(partition is None, DB.lower(), table, partition)
    data = ColumnStatisticsData(longStats=LongColumnStatsData(1, 9, 0, 9))
    return ColumnStatistics(description, [ColumnStatisticsObj("a", "int", data)])
