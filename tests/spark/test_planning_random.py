"""Drivers that plan from memory see nothing older than before, in any order and through kills.

    a driver, drawn ──▶ it alters, writes, drops or creates a table, drawn ──▶ another one looks
    between two of these: catalogd, a hub, an agent or the metastore ends or freezes, and is back

One operation follows the other, so what the metastore has is known. An answer is older if it lacks
what the same driver has written or seen before, and wrong if the table never was so. SEED=7 replays
an order; OPERATIONS=1000 makes it longer.
"""

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.quickstart.processes.counting import Counting
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.spark.applications import Application, applications
from topicast.tests.spark.test_endpoint_reads import HOLD
from topicast.tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]

OPERATIONS: Final = int(os.environ.get("OPERATIONS", "200"))
WAIT_S: Final = 60
KEPT, FLEETING = ("kept_1", "kept_2"), ("fleeting_1", "fleeting_2")
END_ONE_OF: Final = 15  # operations, as a rule, until something ends
SYNC_ONE_OF: Final = 15  # operations, as a rule, until a driver syncs and looks at everything
AWAY: Final = range(2, 8)  # operations until it is back
METASTORE, LOCK = "metastore", "lock"  # of a driver's Python
CONF: Final = {"spark.hadoop.hive.metastore.client.connect.retry.delay": "0s"}  # fail soon
LOOK: Final = """
catalog = spark._jsparkSession.sharedState().externalCatalog()
none = spark._jvm.scala.Option.apply(None)

def number(table):
    return int(catalog.getTable("drawn", table).properties().apply("made"))

def days(table):
    found = catalog.listPartitions("drawn", table, none)
    values = [found.apply(at).spec().apply("ds") for at in range(found.size())]
    return sorted(int(value[1:]) for value in values) or [0]

def look(table):
    for _ in range(9):
        try:
            made = number(table)
            columns = len(spark.table("drawn." + table).columns)
            of = days(table)
            newest = spark.sql(f"SELECT coalesce(max(id), 0) FROM drawn.{table}").first()[0]
            listed = table in [one.name for one in spark.catalog.listTables("drawn")]
            if number(table) == made:  # else it was pushed meanwhile that it is another one
                return [made, columns, of[-1], of[0], newest, listed]
        except Exception as error:
            found = name_of(error)
            if found == "TABLE_OR_VIEW_NOT_FOUND" or "NoSuchTableException" in found:
                return "missing"
            return f"{found}: {error}"
    return "another one each time"
"""


def say(text: str) -> None:
    """Print what has happened, for whoever looks at a failure."""
    print(f"{time.monotonic() % 10_000:.1f} {text}")


@dataclass
class Table:
    """What the metastore has: how often it was created or dropped, and what is in it."""

    name: str
    made: int = 0  # even: it exists
    columns: int = 2
    days: int = 0  # the last day; each is made once
    first: int = 0  # the first day that is left
    row: int = 0  # the number of the newest
    row_day: int = 0

    @property
    def is_there(self) -> bool:
        return self.made % 2 == 0

    @property
    def seen(self) -> list[int]:
        """What a driver that knows all finds, each greater than before while it is not remade."""
        if not self.is_there:
            return [self.made]
        return [self.made, self.columns, self.days, self.first, self.row]

    def create(self) -> str:
        self.columns, self.days, self.first, self.row, self.row_day = 2, 0, 0, 0, 0
        return (
            f"CREATE TABLE drawn.{self.name} (id INT, ds STRING) USING parquet"
            f" PARTITIONED BY (ds) TBLPROPERTIES (made = '{self.made}')"
        )

    def statement(self, drawn: random.Random) -> str:
        """Return a statement that changes it, and note what it then is.

        A table that is dropped, and a day that is, have no rows: plain Spark fails, too, if files
        that it has listed are gone.
        """
        name = f"drawn.{self.name}"
        if self.name in FLEETING and (not self.is_there or not drawn.randrange(3)):
            self.made += 1
            return self.create() if self.is_there else f"DROP TABLE {name}"
        kinds = ["column", "day"] + ["row"] * (self.name in KEPT)
        kinds += ["drop"] * (self.first < self.days and self.first != self.row_day)
        match drawn.choice(kinds):
            case "column":
                self.columns += 1
                return f"ALTER TABLE {name} ADD COLUMNS (c{self.columns} INT)"
            case "drop":
                self.first += 1
                return f"ALTER TABLE {name} DROP PARTITION (ds = 'd{self.first - 1}')"
            case "day":
                self._add_day()
                return f"ALTER TABLE {name} ADD PARTITION (ds = 'd{self.days}')"
            case _:
                self._add_day()
                self.row, self.row_day = self.row + 1, self.days
                day = f"ds = 'd{self.days}'"
                return f"INSERT INTO {name} PARTITION ({day}) (id) VALUES ({self.row})"

    def _add_day(self) -> None:
        self.days += 1
        self.first = self.first or self.days


@dataclass
class World:
    """Attached drivers, and what each may not see older than."""

    drivers: dict[str, Application]
    daemons: Daemons
    ways: tuple[Counting, Counting]  # to the metastore: of the drivers, and of catalogd
    drawn: random.Random
    tables: dict[str, Table] = field(default_factory=dict)
    floors: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    back_at: dict[str, int] = field(default_factory=dict)  # what is away -> the operation

    @property
    def is_metastore_up(self) -> bool:
        return METASTORE not in self.back_at

    def write(self) -> None:
        """Let a driver change a table, which it then has seen."""
        who, table = self.drawn.choice([*self.drivers]), self.drawn.choice([*self.tables.values()])
        statement = table.statement(self.drawn)
        say(f"{who}: {statement}")
        answer = self.drivers[who].rows(statement)
        assert isinstance(answer, list), answer
        self.floors[who, table.name] = table.seen
        if self.drawn.randrange(2):
            self.look(who, table)

    def look(self, who: str, table: Table, *, exactly: bool = False) -> None:
        """Let a driver look at a table; ``exactly``: it has synced."""
        found = self.drivers[who].do(f"look({table.name!r})")
        say(f"{who}: {table.name} is {found}, in truth {table.seen}")
        if not self.is_metastore_up and isinstance(found, str):
            return  # something of it is not held
        is_listed = table.is_there
        if found == "missing":
            assert not table.is_there or not exactly
            found = [table.made if not table.is_there else table.made - 1]
        else:
            assert isinstance(found, list)
            is_listed = found.pop()
        floor = self.floors.get((who, table.name), [0] * 5)
        assert table.made >= found[0] >= floor[0]
        for one, least in zip(found, floor, strict=False):
            assert found[0] > floor[0] or one >= least
        for one, most in zip(found, table.seen, strict=False):
            assert found[0] < table.made or one <= most
        assert is_listed == table.is_there or floor[0] < table.made
        assert found == table.seen or not exactly
        self.floors[who, table.name] = found

    def look_at_all(self, who: str) -> None:
        """Let a driver sync, and find each table as it is."""
        say(f"{who} syncs")
        self.drivers[who].do(f"handle.sync({WAIT_S})")
        for table in self.tables.values():
            self.look(who, table, exactly=True)

    def step(self, now: int) -> None:
        """Do one operation."""
        self._end_something(now)
        if self.is_metastore_up and not self.drawn.randrange(3):
            self.write()
        elif not self.back_at and not self.drawn.randrange(SYNC_ONE_OF):
            self.look_at_all(self.drawn.choice([*self.drivers]))
        else:
            self.look(
                self.drawn.choice([*self.drivers]), self.drawn.choice([*self.tables.values()])
            )

    def restore(self) -> None:
        """Let everything be back."""
        for name in self.back_at:
            self._bring_back(name)
        self.back_at.clear()

    def _end_something(self, now: int) -> None:
        """Let a part end or freeze, as a rule after END_ONE_OF operations, and others be back."""
        for name in [one for one, at in self.back_at.items() if at <= now]:
            del self.back_at[name]
            self._bring_back(name)
        if self.back_at or self.drawn.randrange(END_ONE_OF):
            return
        names = ["catalogd", "statestored", METASTORE, LOCK]
        name, freezes = self.drawn.choice(names), bool(self.drawn.randrange(2))
        self.back_at[name] = now + self.drawn.choice(AWAY)
        say(f"{name} {'freezes' if freezes else 'ends'}")
        if name == METASTORE:
            for way in self.ways:
                way.close()
        elif name == LOCK:
            self.drivers[self.drawn.choice([*self.drivers])].do(HOLD)
        elif freezes:
            self.daemons.freeze(name)
        else:
            self.daemons.kill(name)

    def _bring_back(self, name: str) -> None:
        say(f"{name} is back")
        if name == METASTORE:
            for way in self.ways:
                way.is_open = True
        elif name != LOCK and self.daemons.of(name).process.poll() is None:
            self.daemons.thaw(name)
        elif name != LOCK:
            self.daemons.start(name)


@pytest.fixture(params=[2, 3])
def world(
    request: pytest.FixtureRequest, hive: EmbeddedMetastore, tmp_path: Path
) -> Iterator[World]:
    seed = os.environ.get("SEED") or str(random.randrange(1 << 32))
    print(f"SEED={seed}")
    names: dict[str, Any] = {f"driver_{number}": CONF for number in range(request.param)}
    with ExitStack() as up:
        ways = up.enter_context(Counting(hive.uri)), up.enter_context(Counting(hive.uri))
        daemons = up.enter_context(both_daemons(tmp_path, ways[1].uri))
        drivers = up.enter_context(applications(tmp_path, ways[0].uri, **names))
        made = World(drivers, daemons, ways, random.Random(seed))
        drivers["driver_0"].sql("CREATE DATABASE drawn")
        up.callback(drivers["driver_0"].do, "_ = spark.sql('DROP DATABASE drawn CASCADE')")
        up.callback(made.restore)
        for name in (*KEPT, *FLEETING):
            made.tables[name] = Table(name)
            drivers["driver_0"].sql(made.tables[name].create())
        given = f"metastore={ways[1].uri!r}, max_staleness='5s'"
        for driver in drivers.values():
            driver.do("from topicast.subscriber.spark import attach")
            driver.do(f"handle = attach(spark, {daemons.hub_address!r}, {given})")
            driver.rows("SHOW DATABASES")
            driver.do(LOOK)
            is_on(driver)
        yield made


def is_on(driver: Application) -> None:
    """Wait until it plans from memory."""
    until(lambda: driver.do("handle.status().planning") == "on", timeout_s=WAIT_S)


def test_no_answer_is_older_than_what_the_driver_wrote_or_saw(world: World) -> None:
    for now in range(OPERATIONS):
        world.step(now)
    world.restore()
    for who, driver in world.drivers.items():
        is_on(driver)
        world.look_at_all(who)
        status = "handle.status()"
        assert driver.do(f"{status}.memory_reads") > 0, who
        print(who, driver.do(f"[{status}.memory_reads, {status}.endpoint_reads]"))
        assert driver.do(f"{status}.errors") == 0, driver.do(f"{status}.last_error")
