"""Changes: every kind that the metastore's clients make, drawn, by one writer after the other.

Beside what `operations` has, what is rarely done, or leaves no event: ``unreported`` names the
objects of such changes.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Final

from hmsclient.genthrift.hive_metastore.ttypes import (
    AddForeignKeyRequest,
    AddPrimaryKeyRequest,
    ColumnStatistics,
    ColumnStatisticsData,
    ColumnStatisticsDesc,
    ColumnStatisticsObj,
    Database,
    DropConstraintRequest,
    FieldSchema,
    Function,
    LongColumnStatsData,
    Partition,
    PrimaryKeysRequest,
    SQLForeignKey,
    SQLPrimaryKey,
    Table,
)

from topicast.catalog.ingest.loads.follow_rules import PARAMETER
from topicast.tests.cluster.fake_metastore import make_table
from topicast.tests.hive.calls import Struct, call
from topicast.tests.integration.operations import Writer
from topicast.topics.objects.names import partition_name

WIDE_CHARS: Final = 32_000  # of the type of one column
Name = tuple[str, str]


class Changes(Writer):
    """One writer that does all kinds, also those that tell catalogd what to follow.

    ``stale``: tables that went while they were not followed, and may be held until a refresh.
    """

    def __init__(self, *, host: str, port: int, location: str, family: str, release: str) -> None:
        """``release``: of the metastore, such as 2.3."""
        super().__init__(0, seed=0, host=host, port=port, location=location, family=family)
        self.databases = (*self.shared, self.own)
        self.stale: set[Name] = set()
        self.unreported: list[str] = []
        self.off_databases: set[str] = set()
        self.added = itertools.count()
        self.inserted = Struct({1: []} if release == "2.3" else {1: False, 2: []})
        more: dict[str, Callable[[], None]] = {
            "create view": self.create_view,
            "follow or not": self.follow_or_not,
            "describe database": self.describe_database,
            "wide column": self.wide_column,
            "move table": self.move_table,
            "alter partitions": self.alter_partitions,
            "drop partitions": self.drop_partitions,
            "append partition": self.append_partition,
            "exchange partition": self.exchange_partition,
            "insert": self.insert,
            "table statistics": self.table_statistics,
            "partition statistics": self.partition_statistics,
            "constraint": self.constraint,
            "function": self.function,
        }
        if release != "2.3":  # where it is Hive's own code that lists files, and deletes them
            more["truncate"] = self.truncate
        self.kinds |= more

    # -- what there is

    def a_database(self) -> str:
        there = [db for db in self.client.get_all_databases() if db in self.databases]
        return self.rng.choice([db for db in there if self.client.get_all_tables(db)] or there)

    def any_database(self) -> str:
        there = set(self.client.get_all_databases())
        return self.rng.choice([db for db in self.databases if db in there])

    def a_partitioned(self) -> Table:
        """Return a table with keys; some tries find a table as a rule."""
        found = [table for _ in range(4) if (table := self.a_table()).partitionKeys]
        return found[0]

    def spelt(self, name: str) -> str:
        """Return ``name`` as a client may write it: Hive's names have no case."""
        return self.rng.choice((name, name, name.upper(), name.title()))

    def is_off(self, table: Table) -> bool:
        """Return whether ``table`` is not followed."""
        own = (table.parameters or {}).get(PARAMETER)
        return table.dbName in self.off_databases if own is None else own == "true"

    def _goes(self, table: Table) -> None:
        """Note that a table goes, of which nobody may be told."""
        if self.is_off(table):
            self.stale.add((table.dbName, table.tableName))

    # -- tables

    def create_table(self) -> None:
        db, name = self.any_database(), self.a_name()
        keys = self.rng.choice(((), ("ds",), ("ds",), ("ds", "Hour")))
        where = f"{self.location}/{db}/{name}"
        table = make_table(self.spelt(db), self.spelt(name), location=where, keys=keys)
        if not self.rng.randrange(8):
            table.parameters[PARAMETER] = "true"
        self.client.create_table(table)

    def create_view(self) -> None:
        db, name = self.any_database(), f"v{self.rng.randrange(2)}"
        view = make_table(db, name, location="")
        view.tableType, view.sd.location = "VIRTUAL_VIEW", None
        of = f"select a from {self.any_database()}.{self.a_name()}"  # which may not be there
        view.viewOriginalText = view.viewExpandedText = of
        self.client.create_table(view)

    def drop_table(self) -> None:
        table = self.a_table()
        self.client.drop_table(self.spelt(table.dbName), self.spelt(table.tableName), False)
        self._goes(table)

    def recreate_table(self) -> None:
        table = self.a_table()
        self.client.drop_table(table.dbName, table.tableName, False)
        self._goes(table)
        self.client.create_table(table)

    def rename(self) -> None:
        table = self.a_table()
        after = deepcopy(table)
        after.tableName = self.spelt(f"{self.a_name()}x")
        self.client.alter_table(table.dbName, table.tableName, after)
        self._goes(table)

    def move(self) -> None:
        table = self.a_table()
        after = deepcopy(table)
        after.dbName = self.rng.choice([db for db in self.databases if db != table.dbName])
        after.tableName = self.a_name()
        self.client.alter_table(table.dbName, table.tableName, after)
        self._goes(table)

    def follow_or_not(self) -> None:
        table = self.a_table()
        value = self.rng.choice(("true", "false", None))
        table.parameters.pop(PARAMETER, None)
        if value is not None:
            table.parameters[PARAMETER] = value
        self.client.alter_table(table.dbName, table.tableName, table)

    def a_column(self) -> str:
        """Return a new name: 2.3 tries for a second where a table gets one twice."""
        return f"c{next(self.added)}"

    def wide_column(self) -> None:
        table = self.a_table()
        fields = ",".join(f"f{number}:int" for number in range(WIDE_CHARS // 10))
        kind = f"struct<{fields}>"[: WIDE_CHARS - 1].rpartition(",")[0] + ">"
        table.sd.cols.append(FieldSchema(self.a_column(), kind, "wide"))
        self.client.alter_table(table.dbName, table.tableName, table)

    def move_table(self) -> None:
        table = self.a_table()
        table.sd.location = f"{self.location}/moved/{self.rng.randrange(10**6)}"
        self.client.alter_table(table.dbName, table.tableName, table)

    def insert(self) -> None:
        table = self.a_table()
        values = None
        if table.partitionKeys:
            values = self.a_partition(table).values
        fields = {1: True, 2: Struct({1: self.inserted}), 3: table.dbName, 4: table.tableName}
        fields |= {5: values} if values else {}
        call(self.client, "fire_listener_event", Struct(fields))

    def truncate(self) -> None:
        table = self.a_table()
        names = []
        if table.partitionKeys and self.rng.randrange(2):
            names = [self._name_of(table, self.a_partition(table))]
        call(self.client, "truncate_table", table.dbName, table.tableName, names)

    # -- partitions

    def alter_partitions(self) -> None:
        table = self.a_partitioned()
        some = self.client.get_partitions(table.dbName, table.tableName, 5)
        for one in some:
            one.parameters["numRows"] = str(self.rng.randrange(10**9))
        self.rng.choice(some).sd.location = f"{self.location}/moved/{self.rng.randrange(10**6)}"
        self.client.alter_partitions(table.dbName, table.tableName, some)

    def drop_partitions(self) -> None:
        table = self.a_partitioned()
        some = self.client.get_partitions(table.dbName, table.tableName, 3)
        names = Struct({1: [self._name_of(table, one) for one in some]})
        request = Struct({1: table.dbName, 2: table.tableName, 3: names, 4: False})
        call(self.client, "drop_partitions_req", request)

    def append_partition(self) -> None:
        table = self.a_partitioned()
        self.client.append_partition(table.dbName, table.tableName, self.some_values(table))

    def exchange_partition(self) -> None:
        """Move a partition into another table with the same columns."""
        table = self.a_partitioned()
        one = self.a_partition(table)
        target = deepcopy(table)
        target.dbName, target.tableName = self.any_database(), f"{self.a_name()}y"
        target.sd.location = f"{self.location}/{target.dbName}/{target.tableName}"
        if target.tableName not in self.client.get_all_tables(target.dbName):
            self.client.create_table(target)
        keys = [key.name for key in table.partitionKeys]
        folder = f"{table.sd.location}/{partition_name(keys, one.values)}"
        Path(folder.removeprefix("file:")).mkdir(parents=True, exist_ok=True)
        spec = dict(zip(keys, one.values, strict=True))
        self.client.exchange_partition(
            spec, table.dbName, table.tableName, target.dbName, target.tableName
        )

    # -- databases

    def create_database(self) -> None:
        flag = self.rng.choice(("true", None, None))
        parameters = {PARAMETER: flag} if flag else {}
        database = Database(self.own, "a writer's own", f"{self.location}/own", parameters)
        self.client.create_database(database)
        self._note_flag(database)

    def drop_database(self) -> None:
        self.client.get_database(self.own)  # 2.3 tries for a second to drop what is not there
        self.client.drop_database(self.spelt(self.own), False, True)
        self.stale = {one for one in self.stale if one[0] != self.own}
        self.off_databases.discard(self.own)

    def describe_database(self) -> None:
        """Change what a database says; 2.3 reports none of it, 4.0 no new description alone."""
        database = self.client.get_database(self.any_database())
        database.description = f"described {self.rng.randrange(10**6)}"
        if self.rng.randrange(2):
            flag = self.rng.choice(("true", "false", "false"))
            database.parameters = {**(database.parameters or {}), PARAMETER: flag}
        with self._noting(database.name):
            self.client.alter_database(self.spelt(database.name), database)
        self._note_flag(database)

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """Note that what is done to the object leaves no event, if it leaves none."""
        before = self.client.get_current_notificationEventId().eventId
        yield
        if self.client.get_current_notificationEventId().eventId == before:
            self.unreported.append(name)

    def _note_flag(self, database: Database) -> None:
        self.off_databases.discard(database.name)
        if (database.parameters or {}).get(PARAMETER) == "true":
            self.off_databases.add(database.name)

    # -- statistics, constraints, functions

    def table_statistics(self) -> None:
        """Tell statistics of a column; now and then drop them at once."""
        table = self.a_table()
        with self._noting(f"{table.dbName}.{table.tableName}"):
            self.client.update_table_column_statistics(_statistics(table, None))
            if not self.rng.randrange(3):
                here = table.dbName, table.tableName
                self.client.delete_table_column_statistics(*here, "a")

    def partition_statistics(self) -> None:
        table = self.a_partitioned()
        name = self._name_of(table, self.a_partition(table))
        with self._noting(f"{table.dbName}.{table.tableName}"):
            self.client.update_partition_column_statistics(_statistics(table, name))

    def constraint(self) -> None:
        """Give a table a primary key, or a foreign key to another's; or drop a key that it has.

        2.3 reports none of it, and writes the table's columns again: a read meanwhile lacks some.
        """
        table, name = self.a_table(), f"k{next(self.added)}"
        here, key = (table.dbName, table.tableName), self._primary_key(table)
        flags = True, False, False
        drops = bool(key and self.rng.randrange(2))
        with self._noting(".".join(here)):
            if drops:
                self.client.drop_constraint(DropConstraintRequest(*here, key))
            elif not key:
                made = SQLPrimaryKey(*here, "a", 1, name, *flags)
                self.client.add_primary_key(AddPrimaryKeyRequest([made]))
            else:
                both = (*here, "a", *here, "b")
                foreign = SQLForeignKey(*both, 1, 0, 0, name, key, *flags)
                self.client.add_foreign_key(AddForeignKeyRequest([foreign]))

    def _primary_key(self, table: Table) -> str:
        found = self.client.get_primary_keys(PrimaryKeysRequest(table.dbName, table.tableName))
        return found.primaryKeys[0].pk_name if found.primaryKeys else ""

    def function(self) -> None:
        """Create a function, or drop it."""
        db, name = self.any_database(), f"f{self.rng.randrange(2)}"
        if name in self.client.get_functions(db, "*"):
            self.client.drop_function(db, name)
        else:
            made = Function(name, db, "org.example.Upper", "etl", 1, 0, 1, [])
            self.client.create_function(made)

    def _name_of(self, table: Table, one: Partition) -> str:
        return partition_name([key.name for key in table.partitionKeys], one.values)


def _statistics(table: Table, partition: str | None) -> ColumnStatistics:
    description = ColumnStatisticsDesc(partition is None, table.dbName, table.tableName, partition)
    data = ColumnStatisticsData(longStats=LongColumnStatsData(1, 9, 0, 9))
    return ColumnStatistics(description, [ColumnStatisticsObj("a", "int", data)])
