"""Drawn SQL: statements that change tables in any way that SQL has, and queries that show it.

Tables have keys of many types, with values that paths, filters and Hive spell in more ways than
one. A statement may well be refused: what is compared is what drivers answer afterwards.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

DATABASES: Final = ("drawn_1", "drawn_2")
NAMES: Final = 5  # of tables in each database
TEXTS: Final = (
    *("'a'", "'A'", "'a b'", "'a/b'", "'a%2Fb'", "'a=b'", "'é'", "''", "NULL", "'a''b'", "'NULL'"),
    *("'1'", "'01'", "'日本'", "'a\\\\b'", "'*'", "'#'", "'a:b'", "'a,b'", "'a.b'", "'{a}'"),
)
TYPES: Final = {
    "STRING": TEXTS,
    "INT": ("1", "2", "-3", "10", "0", "NULL"),
    "BIGINT": ("1", "9223372036854775807", "NULL"),
    "DATE": ("DATE'2024-01-01'", "DATE'2024-02-29'", "DATE'0001-01-01'", "NULL"),
    "TIMESTAMP": ("TIMESTAMP'2024-01-01 00:00:00'", "TIMESTAMP'2024-01-01 10:11:12.5'", "NULL"),
    "DECIMAL(5,2)": ("1.10", "1.1", "-2.00", "NULL"),
    "BOOLEAN": ("true", "false", "NULL"),
    "VARCHAR(3)": ("'a'", "'abc'", "NULL"),
    "CHAR(3)": ("'a'", "'abc'"),
    "DOUBLE": ("1.0D", "1.5D", "NULL"),
}
SOURCES: Final = ("USING parquet", "USING parquet", "USING orc", "USING csv", "USING json")
SERDES: Final = ("STORED AS parquet", "STORED AS orc", "STORED AS textfile")
FUNCTION: Final = f"{DATABASES[0]}.turned"
CLASSES: Final = "org.apache.hadoop.hive.ql.udf.generic.GenericUDF"
CONDITIONS: Final = (
    *("{k} = {v}", "{k} <> {v}", "{k} > {v}", "{k} <= {v}", "{k} IN ({v}, {w})", "{k} <=> {v}"),
    *("{k} NOT IN ({v}, {w})", "{k} IS NULL", "{k} IS NOT NULL", "NOT ({k} = {v})", "{k} = '1'"),
    *("CAST({k} AS STRING) = CAST({v} AS STRING)", "CAST({k} AS STRING) LIKE 'a%'", "{k} = 1"),
    *("CAST({k} AS STRING) LIKE '%b'", "{k} = {v} OR {k} = {w}", "{k} BETWEEN {v} AND {w}"),
    *("{k} = {v} AND id = 1", "{k} = {v} OR id = 1", "length({k}) = 1", "{k} > {v} AND {k} < {w}"),
    *("coalesce({k}, {v}) = {v}", "{k} = (SELECT max({k}) FROM {t})", "{k} LIKE '_'"),
)
OF_ALL: Final = (
    *(
        "SHOW DATABASES",
        "SHOW TABLES IN drawn_1",
        "SHOW TABLES IN drawn_2",
        "SHOW VIEWS IN drawn_1",
    ),
    *("DESCRIBE DATABASE EXTENDED drawn_1", "DESCRIBE DATABASE EXTENDED drawn_2"),
    *("SHOW TABLES IN drawn_1 LIKE 't*|v1'", "SHOW TABLE EXTENDED IN drawn_1 LIKE 't*'"),
    *(f"SELECT {FUNCTION}('aB')", "SHOW USER FUNCTIONS IN drawn_1 LIKE 't*'"),
    *("SELECT * FROM drawn_1.v0", "SELECT * FROM drawn_1.v1", "DESCRIBE FORMATTED drawn_1.v0"),
)
TABLES_MAX: Final = 6  # of those that exist, until others are made seldom

Columns = list[tuple[str, str]]  # their names and types


class DrawnSql:
    """Draws by ``rng``; ``folder`` is where tables are that are put somewhere by hand."""

    def __init__(self, rng: random.Random, folder: str) -> None:
        self._rng = rng
        self._folder = folder
        self._tables: dict[str, tuple[Columns, Columns]] = {}  # columns and keys, as far as known
        self._then: Callable[[], None] = lambda: None  # what is known if the statement succeeds

    def succeeded(self) -> None:
        """Note that the last statement has been done."""
        self._then()

    def statement(self) -> str:
        """Return a statement that changes something, or is refused."""
        self._then = lambda: None
        t, number = self._table(), self._rng.randrange(100)
        place = f"LOCATION '{self._folder}/{self._rng.randrange(3)}'"
        view = f"{DATABASES[0]}.v{number % 2}"
        seldom: dict[str, float] = {
            f"ALTER TABLE {t} CHANGE COLUMN s s STRING COMMENT 'c{number}'": 1,
            f"ALTER TABLE {t} SET TBLPROPERTIES ('k'='{number}')": 1,
            f"ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('k')": 1,
            f"ALTER TABLE {t} SET SERDEPROPERTIES ('field.delim'='{',;'[number % 2]}')": 1,
            f"ALTER TABLE {t} SET {place}": 1,
            f"ALTER TABLE {t} ADD IF NOT EXISTS PARTITION ({self._spec(t)})": 3,
            f"ALTER TABLE {t} ADD PARTITION ({self._spec(t)}) PARTITION ({self._spec(t)})": 1,
            f"ALTER TABLE {t} ADD PARTITION ({self._spec(t)}) {place}": 1,
            f"ALTER TABLE {t} DROP IF EXISTS PARTITION ({self._spec(t)})": 3,
            f"ALTER TABLE {t} DROP IF EXISTS PARTITION ({self._first(t)})": 2,
            f"ALTER TABLE {t} DROP PARTITION ({self._first(t)}), PARTITION ({self._first(t)})": 1,
            f"ALTER TABLE {t} PARTITION ({self._spec(t)}) RENAME TO PARTITION ({self._spec(t)})": 2,
            f"ALTER TABLE {t} PARTITION ({self._spec(t)}) SET {place}": 1,
            f"TRUNCATE TABLE {t} PARTITION ({self._spec(t)})": 1,
            f"TRUNCATE TABLE {t}": 1,
            f"MSCK REPAIR TABLE {t}": 1,
            f"ANALYZE TABLE {t} COMPUTE STATISTICS": 1,
            f"ANALYZE TABLE {t} COMPUTE STATISTICS FOR COLUMNS id, s": 1,
            f"ANALYZE TABLE {t} PARTITION ({self._spec(t)}) COMPUTE STATISTICS": 1,
            f"COMMENT ON TABLE {t} IS 'c{number}'": 1,
            f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {t}": 1,
            f"ALTER VIEW {view} AS SELECT id FROM {t}": 1,
            f"DROP VIEW IF EXISTS {view}": 1,
            f"ALTER DATABASE {DATABASES[0]} SET DBPROPERTIES ('a'='{number}')": 1,
            f"CREATE OR REPLACE FUNCTION {FUNCTION}"
            f" AS '{CLASSES}{('Upper', 'Lower')[number % 2]}'": 0.5,
            "SET spark.sql.sources.partitionOverwriteMode="
            f"{('static', 'dynamic')[number % 2]}": 0.5,
        }
        made: dict[Callable[[], str], float] = {
            self._create: 5 if len(self._tables) < TABLES_MAX else 1,
            self._insert: 14,
            lambda: self._add_column(t, f"c{number}"): 2,
            lambda: self._rename(t): 2,
            lambda: self._drop(t): 1,
            lambda: self._like(t): 1,
            lambda: self._as_select(t): 1,
        }
        makes = [*made, *((lambda one=one: one) for one in seldom)]
        (make,) = self._rng.choices(makes, [*made.values(), *seldom.values()])
        return make()

    def queries(self) -> list[str]:
        """Return queries of some tables, or of what there is of them."""
        asked = list(OF_ALL) if self._rng.random() < 0.4 else []
        known = sorted(self._tables)
        for t in self._rng.sample(known, min(len(known), 4)):
            asked += [f"SELECT * FROM {t}", f"SHOW PARTITIONS {t}", f"DESCRIBE FORMATTED {t}"]
            asked += [f"SHOW CREATE TABLE {t}", f"EXPLAIN COST SELECT * FROM {t}"]
            asked += [f"DESCRIBE EXTENDED {t} id", f"SELECT count(*) FROM {t}"]
            for key, kind in self._tables[t][1]:
                some = {"t": t, "k": self._spelled(key), "v": self._value(kind)}
                for condition in self._rng.sample(CONDITIONS, 3):
                    asked.append(
                        f"SELECT * FROM {t} WHERE {condition.format(**some, w=self._value(kind))}"
                    )
                asked += [f"SELECT DISTINCT {key} FROM {t}", f"SELECT max({key}) FROM {t}"]
                asked.append(f"SHOW PARTITIONS {t} PARTITION ({key} = {some['v']})")
            if self._tables[t][1]:
                db, name = t.split(".")
                asked.append(f"DESCRIBE FORMATTED {t} PARTITION ({self._spec(t)})")
                of = f"PARTITION ({self._spec(t)})"
                asked.append(f"SHOW TABLE EXTENDED IN {db} LIKE '{name}' {of}")
        return list(dict.fromkeys(asked))

    # -- what is drawn

    def _some(self, of: Sequence[str]) -> str:
        return self._rng.choice(of)

    def _new_name(self) -> str:
        return f"{self._some(DATABASES)}.t{self._rng.randrange(NAMES)}"

    def _table(self) -> str:
        """Return a table that exists, as a rule."""
        known = sorted(self._tables)
        return self._some(known) if known and self._rng.random() < 0.95 else self._new_name()

    def _value(self, kind: str) -> str:
        return self._some(TYPES[kind])

    def _spelled(self, name: str) -> str:
        return self._some((name, name, name, name.upper()))

    def _spec(self, table: str) -> str:
        keys = self._tables.get(table, ([], []))[1] or [("p", "INT")]
        return ", ".join(f"{self._spelled(key)}={self._value(kind)}" for key, kind in keys)

    def _first(self, table: str) -> str:
        keys = self._tables.get(table, ([], []))[1] or [("p", "INT")]
        return f"{keys[0][0]}={self._value(keys[0][1])}"

    def _values(self, columns: Columns) -> str:
        rows = [
            ", ".join(f"CAST({self._value(kind)} AS {kind})" for _, kind in columns)
            for _ in range(self._rng.choice((1, 1, 3)))
        ]
        return "VALUES " + ", ".join(f"({row})" for row in rows)

    # -- statements that change which tables there are, or their columns

    def _create(self) -> str:
        name, columns = self._new_name(), [("id", "INT"), ("s", "STRING")]
        if self._rng.random() < 0.4:
            columns.append(("X", self._some([*TYPES])))
        keys = [
            (self._some(("p", "Q", "ds")) + str(number), self._some([*TYPES]))
            for number in range(self._rng.choice((0, 1, 1, 2)))
        ]
        self._then = lambda: self._tables.update({name: (columns, keys)})
        comment = self._some(("", "", " COMMENT 'it''s'"))
        place = f" LOCATION '{self._folder}/{self._rng.randrange(3)}'"
        rest = self._some(("", "", "", "", place)) + self._some(("", " TBLPROPERTIES ('k'='v')"))
        if self._rng.random() < 0.6:
            of = f" PARTITIONED BY ({', '.join(key for key, _ in keys)})" if keys else ""
            of += self._some(("", "", "", "", " CLUSTERED BY (id) INTO 2 BUCKETS"))
            how = f"{self._some(SOURCES)}{of}{comment}{rest}"
            return f"CREATE TABLE {name} ({_typed(columns + keys)}) {how}"
        of = f" PARTITIONED BY ({_typed(keys)})" if keys else ""
        return f"CREATE TABLE {name} ({_typed(columns)}){comment}{of} {self._some(SERDES)}{rest}"

    def _insert(self) -> str:
        name = self._table()
        columns, keys = self._tables.get(name, ([("id", "INT")], []))
        how = self._some(("INTO", "INTO", "OVERWRITE"))
        if keys and self._rng.random() < 0.5:
            return f"INSERT {how} {name} PARTITION ({self._spec(name)}) {self._values(columns)}"
        return f"INSERT {how} {name} {self._values(columns + keys)}"

    def _add_column(self, table: str, name: str) -> str:
        added = (name, self._some(("INT", "STRING", "DATE")))
        columns, keys = self._tables.get(table, ([], []))
        self._then = lambda: self._tables.update({table: ([*columns, added], keys)})
        return f"ALTER TABLE {table} ADD COLUMNS ({_typed([added])})"

    def _rename(self, table: str) -> str:
        new = f"{table.split('.', maxsplit=1)[0]}.t{self._rng.randrange(NAMES)}"
        self._then = lambda: self._tables.update({new: self._tables.pop(table, ([], []))})
        return f"ALTER TABLE {table} RENAME TO {new}"

    def _drop(self, table: str) -> str:
        self._then = lambda: self._tables.pop(table, None) and None
        return f"DROP TABLE IF EXISTS {table}"

    def _like(self, table: str) -> str:
        new = self._new_name()
        self._then = lambda: self._tables.update({new: self._tables.get(table, ([], []))})
        return f"CREATE TABLE {new} LIKE {table}"

    def _as_select(self, table: str) -> str:
        new, columns = self._new_name(), [("id", "INT"), ("s", "STRING")]
        self._then = lambda: self._tables.update({new: (columns, [])})
        return f"CREATE TABLE {new} USING parquet AS SELECT id, s FROM {table}"


def _typed(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)
