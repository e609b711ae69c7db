"""Random operations on a real metastore, by several writers at once, each kind counted."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Final

from hmsclient.genthrift.hive_metastore.ttypes import (
    Database,
    EnvironmentContext,
    FieldSchema,
    Partition,
    Table,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.hive.calls import Client

# The metastore tries ten times what met a lock; a caller that waited for all would stop the test.
ANSWER_MS: Final = 20_000
VALUES: Final = (
    "2026-11-01",
    "Upper Case",
    "dot.ted",
    "it's",
    'say "so"',
    "100%",
    "a=b",
    "a/b",
    "größe",
    "日本",
    "__HIVE_DEFAULT_PARTITION__",
    "",
    "{brace}",
    "x:y*z?",
    "plain",
)


WEIGHTS: Final = (3, 1, 1, 1, 1, 1, 1, 2, 6, 3, 1, 2, 1, 1)  # of the kinds of operations
LACKING: Final = 0.3  # of the operations are of a kind that succeeded too seldom so far


class Refused(Exception):
    """Something that is no client of Thrift has refused a change."""


REFUSALS: Final = (TException, Refused, IndexError)  # the last: there is nothing to work on


class Writer:
    """One writer: its own connection, dice and databases; ``counts`` by kind of what succeeded."""

    def __init__(
        self,
        number: int,
        *,
        seed: int,
        host: str,
        port: int,
        location: str,
        family: str = "diff",
    ) -> None:
        """``family``: how the names of its databases begin; two of them all its writers share."""
        self.rng = random.Random(f"{seed}/{number}")
        socket = TSocket(host, port)
        socket.setTimeout(ANSWER_MS)
        self.client = Client(iprot=TBinaryProtocol(TBufferedTransport(socket)))
        self.counts: Counter[str] = Counter()
        self.refused = 0
        self.location = f"{location}/{family}"
        self.own = f"{family}_{number}"
        self.shared = (f"{family}_a", f"{family}_b")
        self.kinds: dict[str, Callable[[], None]] = {
            "create table": self.create_table,
            "drop table": self.drop_table,
            "drop and recreate": self.recreate_table,
            "rename": self.rename,
            "rename across databases": self.move,
            "add column": self.add_column,
            "cascade": self.cascade,
            "set parameter": self.set_parameter,
            "add partitions": self.add_partitions,
            "alter partition": self.alter_partition,
            "rename partition": self.rename_partition,
            "drop partition": self.drop_partition,
            "create database": self.create_database,
            "drop database cascade": self.drop_database,
        }

    def run(self, operations: int, done: threading.Event, *, of_each: int) -> None:
        """Do random operations until so many, and ``of_each`` kind, succeeded, or when ``done``."""
        kinds = list(self.kinds)
        with self.client:
            while not done.is_set():
                lacking = [kind for kind in kinds if self.counts[kind] < of_each]
                if not lacking and sum(self.counts.values()) >= operations:
                    return
                if lacking and self.rng.random() < LACKING:
                    self.attempt(self.rng.choice(lacking))
                else:
                    self.attempt(self.rng.choices(kinds, WEIGHTS)[0])

    def attempt(self, kind: str) -> None:
        """Do ``kind`` once; the metastore may refuse, another writer may have been first."""
        try:
            self.kinds[kind]()
        except TTransportException:  # no answer, or its unchecked exception ended it
            self.refused += 1
            self.client.close()
            self.client.open()
        except REFUSALS:
            self.refused += 1
        else:
            self.counts[kind] += 1

    # -- what there is

    def a_database(self) -> str:
        return self.rng.choice((*self.shared, *self.shared, self.own))

    def a_name(self) -> str:
        return f"t{self.rng.randrange(6)}"

    def a_table(self) -> Table:
        db = self.a_database()
        table = self.client.get_table(db, self.rng.choice(self.client.get_all_tables(db)))
        if table.sd is None or table.sd.cols is None:  # read while it was being dropped
            raise IndexError
        return table

    def a_partitioned(self) -> Table:
        table = self.a_table()
        if not table.partitionKeys:
            raise IndexError
        return table

    def a_partition(self, table: Table) -> Partition:
        found = self.client.get_partitions(table.dbName, table.tableName, 50)
        return self.rng.choice(found)

    def some_values(self, table: Table) -> list[str]:
        return [self.rng.choice(VALUES) for _ in table.partitionKeys]

    def a_column(self) -> str:
        return f"c{self.rng.randrange(10**6)}"

    # -- operations

    def create_table(self) -> None:
        keys = self.rng.choice(((), ("ds",), ("ds",), ("ds", "hour")))
        self.client.create_table(
            make_table(self.a_database(), self.a_name(), location=self.location, keys=keys)
        )

    def drop_table(self) -> None:
        table = self.a_table()
        self.client.drop_table(table.dbName, table.tableName, False)

    def recreate_table(self) -> None:
        table = self.a_table()
        self.client.drop_table(table.dbName, table.tableName, False)
        self.client.create_table(table)

    def rename(self) -> None:
        table = self.a_table()
        after = deepcopy(table)
        after.tableName = f"{self.a_name()}x"
        self.client.alter_table(table.dbName, table.tableName, after)

    def move(self) -> None:
        table = self.a_table()
        after = deepcopy(table)
        after.dbName = next(db for db in self.shared if db != table.dbName)
        after.tableName = self.a_name()
        self.client.alter_table(table.dbName, table.tableName, after)

    def add_column(self) -> None:
        table = self.a_table()
        table.sd.cols.append(FieldSchema(self.a_column(), "string", "added"))
        self.client.alter_table(table.dbName, table.tableName, table)

    def cascade(self) -> None:
        table = self.a_partitioned()
        table.sd.cols.append(FieldSchema(self.a_column(), "int", "everywhere"))
        self.client.alter_table_with_environment_context(
            table.dbName, table.tableName, table, EnvironmentContext({"CASCADE": "true"})
        )

    def set_parameter(self) -> None:
        table = self.a_table()
        table.parameters["rev"] = str(self.rng.randrange(10**9))
        self.client.alter_table(table.dbName, table.tableName, table)

    def add_partitions(self) -> None:
        table = self.a_partitioned()
        count = self.rng.choice((1, 1, 2, 5))
        wanted = {tuple(self.some_values(table)) for _ in range(count)}
        self.client.add_partitions([make_partition(table, values) for values in sorted(wanted)])

    def alter_partition(self) -> None:
        partition = self.a_partition(self.a_partitioned())
        partition.parameters["numFiles"] = str(self.rng.randrange(10**9))
        self.client.alter_partition(partition.dbName, partition.tableName, partition)

    def rename_partition(self) -> None:
        table = self.a_partitioned()
        partition = self.a_partition(table)
        before = list(partition.values)
        partition.values = self.some_values(table)
        if partition.values == before:
            raise IndexError
        self.client.rename_partition(table.dbName, table.tableName, before, partition)

    def drop_partition(self) -> None:
        partition = self.a_partition(self.a_partitioned())
        self.client.drop_partition(partition.dbName, partition.tableName, partition.values, False)

    def create_database(self) -> None:
        self.client.create_database(Database(self.own, "a writer's own", self.location, {}))

    def drop_database(self) -> None:
        self.client.drop_database(self.own, False, True)
