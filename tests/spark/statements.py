"""Statements: the changes that Spark's users make of a metastore by SQL, drawn."""

from collections.abc import Callable, Mapping

from hmsclient.genthrift.hive_metastore.ttypes import Table

from topicast.tests.integration.changes import Changes
from topicast.tests.integration.operations import Refused
from topicast.tests.spark.applications import Application, Failed

PLAIN = "id INT, said STRING"


class Statements(Changes):
    """A writer that also has ``driver`` run statements; ``statements`` are the kinds of these."""

    driver: Application

    @property
    def statements(self) -> Mapping[str, Callable[[], None]]:
        """The kinds of statements, by name."""
        return {
            "sql create": self.sql_create,
            "sql create as select": self.sql_create_as_select,
            "sql insert": self.sql_insert,
            "sql overwrite": self.sql_overwrite,
            "sql properties": self.sql_properties,
            "sql add columns": self.sql_add_columns,
            "sql rename": self.sql_rename,
            "sql set location": self.sql_set_location,
            "sql add partition": self.sql_add_partition,
            "sql drop partition": self.sql_drop_partition,
            "sql rename partition": self.sql_rename_partition,
            "sql repair": self.sql_repair,
            "sql analyze": self.sql_analyze,
            "sql analyze columns": self.sql_analyze_columns,
            "sql truncate": self.sql_truncate,
            "sql view": self.sql_view,
            "sql drop": self.sql_drop,
        }

    def run_by(self, driver: Application) -> "Statements":
        """Have ``driver`` run statements, too, from now on."""
        self.driver = driver
        self.kinds |= self.statements
        return self

    def sql(self, statement: str) -> None:
        try:
            self.driver.sql(statement)
        except Failed as error:
            raise Refused(str(error)) from error

    def managed(self) -> Table:
        """Return a table that Spark has made; some tries find a table as a rule."""
        found = [one for _ in range(4) if (one := self.a_table()).tableName.startswith("s")]
        return found[0]

    def by_day(self) -> Table:
        found = [one for _ in range(4) if (one := self.managed()).partitionKeys]
        return found[0]

    def day(self) -> str:
        return f"ds = 'd{self.rng.randrange(4)}'"

    def new_name(self) -> str:
        return f"{self.any_database()}.s{self.rng.randrange(4)}"

    # -- statements

    def sql_create(self) -> None:
        kind = self.rng.choice(("USING parquet", "STORED AS parquet", "STORED AS textfile"))
        by_day = self.rng.choice(("", "PARTITIONED BY (ds)", "PARTITIONED BY (ds)"))
        if not kind.startswith("USING"):
            by_day = by_day.replace("(ds)", "(ds STRING)")
            self.sql(f"CREATE TABLE {self.new_name()} ({PLAIN}) {by_day} {kind}")
        else:
            ds = ", ds STRING" if by_day else ""
            self.sql(f"CREATE TABLE {self.new_name()} ({PLAIN}{ds}) {kind} {by_day}")

    def sql_create_as_select(self) -> None:
        by_day = self.rng.choice(("", "PARTITIONED BY (ds)"))
        rows = "SELECT 1 AS id, 'a' AS said, 'd1' AS ds"
        self.sql(f"CREATE TABLE {self.new_name()} USING parquet {by_day} AS {rows}")

    def sql_insert(self, how: str = "INTO") -> None:
        table = self.managed()
        into = f"{table.dbName}.{table.tableName}"
        part = f"PARTITION ({self.day()})" if table.partitionKeys else ""
        values = ", ".join(f"CAST(NULL AS {column.type})" for column in table.sd.cols)
        self.sql(f"INSERT {how} {into} {part} SELECT {values}")

    def sql_overwrite(self) -> None:
        self.sql_insert("OVERWRITE")

    def sql_properties(self) -> None:
        self._alter(self.managed(), f"SET TBLPROPERTIES ('said' = '{self.rng.randrange(999)}')")

    def sql_add_columns(self) -> None:
        self._alter(self.managed(), f"ADD COLUMNS ({self.a_column()} INT)")

    def sql_rename(self) -> None:
        table = self.managed()
        self._alter(table, f"RENAME TO {table.dbName}.s{self.rng.randrange(4)}")
        self._goes(table)

    def sql_set_location(self) -> None:
        where = f"{self.location}/moved/{self.rng.randrange(10**6)}"
        self._alter(self.managed(), f"SET LOCATION '{where}'")

    def sql_add_partition(self) -> None:
        self._alter(self.by_day(), f"ADD IF NOT EXISTS PARTITION ({self.day()})")

    def sql_drop_partition(self) -> None:
        self._alter(self.by_day(), f"DROP PARTITION ({self.day()})")

    def sql_rename_partition(self) -> None:
        change = f"PARTITION ({self.day()}) RENAME TO PARTITION ({self.day()})"
        self._alter(self.by_day(), change)

    def sql_repair(self) -> None:
        table = self.by_day()
        self.sql(f"MSCK REPAIR TABLE {table.dbName}.{table.tableName}")

    def sql_analyze(self) -> None:
        self._analyze("")

    def sql_analyze_columns(self) -> None:
        self._analyze("FOR ALL COLUMNS")

    def _analyze(self, which: str) -> None:
        table = self.managed()
        self.sql(f"ANALYZE TABLE {table.dbName}.{table.tableName} COMPUTE STATISTICS {which}")

    def sql_truncate(self) -> None:
        table = self.managed()
        self.sql(f"TRUNCATE TABLE {table.dbName}.{table.tableName}")

    def sql_view(self) -> None:
        table = self.managed()
        view = f"{self.any_database()}.w{self.rng.randrange(2)}"
        of = f"{table.dbName}.{table.tableName}"
        self.sql(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {of}")

    def sql_drop(self) -> None:
        table = self.managed()
        self.sql(f"DROP TABLE {table.dbName}.{table.tableName}")
        self._goes(table)

    def _alter(self, table: Table, change: str) -> None:
        self.sql(f"ALTER TABLE {table.dbName}.{table.tableName} {change}")
