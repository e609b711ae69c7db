"""No order of reads, others' updates and statements loses an update, though the view is old.

    view frozen ─▶ INTERLEAVINGS tables, each of: it is read, another writer alters it, a statement
                   of one of KINDS runs; so many of each, in an order that is drawn
    ─▶ each update of the other writer is still in the metastore ─▶ view thawed: the driver has it

The same orders run on a router without its two rules, which loses updates. SEED=7 replays them.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Table

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.spark.applications import Failed
from topicast.tests.spark.test_planning import CARRIERS, WAIT_S, Planned, attached_driver
from topicast.tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]

INTERLEAVINGS: Final = int(os.environ.get("INTERLEAVINGS", "500"))
CARELESSLY: Final = INTERLEAVINGS // 4  # of them without the rules: each fifth loses an update
FROZEN: Final = 50  # interleavings while the view is frozen: less than the view may be old
DAYS, FILES = "days", "files"
IN_A_PARTITION: Final = (
    "ALTER TABLE {t} PARTITION (ds = 'a') SET SERDEPROPERTIES ('mine' = '1')",
    "ALTER TABLE {t} PARTITION (ds = 'a') SET LOCATION '{location}'",
    "ANALYZE TABLE {t} PARTITION (ds = 'a') COMPUTE STATISTICS",
    "INSERT INTO {t} PARTITION (ds = 'a') (id) VALUES (2)",
    "ALTER TABLE {t} ADD PARTITION (ds = 'b{number}')",
    "!catalog.alterPartitions(*names, catalog.listPartitions(*names, none))",
)
PAST_COMMANDS: Final = (  # calls of the JVM: they read and write, and no command runs
    "!catalog.alterTable(catalog.getTable(*names))",
    "!catalog.alterTableDataSchema(*names, catalog.getTable(*names).dataSchema())",
)
INFERS: Final = "!infer({t!r})"  # a query that saves the schema that it has found in files
KINDS: Final = (*CARRIERS, *IN_A_PARTITION, *PAST_COMMANDS, INFERS)
TEMPLATES: Final = {
    "": "CREATE TABLE {t} (id INT) STORED AS textfile",
    DAYS: "CREATE TABLE {t} (id INT) PARTITIONED BY (ds STRING) STORED AS textfile",
    FILES: "CREATE TABLE {t} STORED AS parquet AS SELECT 1 AS id",
}
REFUSED: Final = "was changed by somebody else"
OWN: Final = """
catalog = spark._jsparkSession.sharedState().externalCatalog()
none = spark._jvm.scala.Option.apply(None)

def read(names):
    is_partitioned = catalog.getTable(*names).partitionColumnNames().nonEmpty()
    found = catalog.listPartitions(*names, none).mkString() if is_partitioned else ""
    return spark.table(".".join(names)).columns, found

def read_all(db, count):
    for at in range(count):
        read([db, f"t{at}"])

def infer(table):
    other = spark.newSession()  # which has no relation of it
    other.conf.set("spark.sql.hive.caseSensitiveInferenceMode", "INFER_AND_SAVE")
    other.table(table).collect()
"""
CARELESS: Final = """
from topicast.subscriber.spark.java import java_object
from topicast.subscriber.spark.planning.router import Router, router_source
from topicast.subscriber.spark.refresh.catalyst import Catalyst

source = router_source(spark._jvm)
for old, new in (
    ('if (commands.runs(one.from.context)) return "command";', ""),
    ("if (!differs) return;", "if (true) return;"),
    ("TopicastPlanning", "TopicastCareless"),
    ("TopicastCatalog", "TopicastCarelessCatalog"),
):
    assert old in source
    source = source.replace(old, new)
registry = Catalyst.probe(spark).registry
careless = Router(java_object(spark._jvm, "TopicastCareless", source, registry))

def hold(db, count):
    careless.begin(bytes_max=1 << 26)
    careless.follow([db])
    careless.live(3600)
    read_all(db, count)
    for number, name in careless.wanted(0):
        careless.known(number, name, is_followed=True)
    read_all(db, count)
"""


@pytest.fixture(scope="module")
def planned(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    with attached_driver(hive, tmp_path_factory.mktemp("orders")) as found:
        yield found


@dataclass
class Interleaved:
    """A table, the statement of its own, and what another writer has put into it."""

    db: str
    name: str
    kind: str
    location: Path  # an empty folder
    file: Path  # with a row
    steps: list[str]
    properties: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    @property
    def full_name(self) -> str:
        return f"{self.db}.{self.name}"

    @property
    def is_partitioned(self) -> bool:
        return self.kind in IN_A_PARTITION

    def update(self, planned: Planned, number: int, *, column: bool) -> None:
        """Alter it as another application does, and its partition."""
        self.properties.append(f"theirs_{number}")
        self.columns += [self.properties[-1]] if column else []
        added = {"column": self.properties[-1]} if column else {}
        planned.alter(self.full_name, **{self.properties[-1]: "1"}, **added)
        if self.is_partitioned:
            partition = planned.client.get_partition(self.db, self.name, ["a"])
            partition.parameters[self.properties[-1]] = "1"
            planned.client.alter_partition(self.db, self.name, partition)

    def run(self, planned: Planned, number: int) -> bool:
        """Run its statement; return whether it was refused."""
        other = self.name.removesuffix("_2") if self.name.endswith("_2") else f"{self.name}_2"
        text = self.kind.replace("(mine INT)", f"(mine_{number} INT)").format(
            t=self.full_name,
            other=f"{self.db}.{other}",
            number=number,
            location=self.location,
            file=self.file,
        )
        try:
            if text.startswith("!"):
                planned.driver.do(f"names = {[self.db, self.name]}\n_ = {text[1:]}")
            else:
                planned.driver.sql(text)
        except Failed as error:
            assert REFUSED in str(error), (text, error)
            return True
        self.name = other if "RENAME" in text else self.name
        return False

    def lost(self, planned: Planned) -> list[str]:
        """Return which of the other writer's updates the metastore does not have any more."""
        table = planned.table(self.full_name)
        found = {one.name for one in table.sd.cols}
        lost = [one for one in self.columns if one not in found]
        lost += [one for one in self.properties if one not in table.parameters]
        if self.is_partitioned:
            parameters = planned.client.get_partition(self.db, self.name, ["a"]).parameters
            lost += [f"{one} of ds=a" for one in self.properties if one not in parameters]
        return lost


def create_all(
    planned: Planned, db: str, count: int, *, drawn: random.Random, folder: Path
) -> list[Interleaved]:
    """Make a table for each interleaving, all of them as another application does."""
    driver, made = planned.driver, []
    driver.do(OWN)
    driver.sql(f"CREATE DATABASE {db}")
    for kind, ddl in TEMPLATES.items():
        driver.sql(ddl.format(t=f"{db}.template{kind}"))
    driver.sql(f"ALTER TABLE {db}.template{DAYS} ADD PARTITION (ds = 'a')")
    file, location = folder / "rows", folder / "empty"
    file.write_text("3\n")
    location.mkdir()
    for at in range(count):
        kind = KINDS[at % len(KINDS)]
        counts = {"read": range(3), "update": range(1, 3), "write": range(1, 3)}
        steps = [one for one, many in counts.items() for _ in range(drawn.choice(many))]
        drawn.shuffle(steps)
        made.append(Interleaved(db, f"t{at}", kind, location, file, steps))
        of = DAYS if kind in IN_A_PARTITION else FILES if kind == INFERS else ""
        copy(planned, planned.table(f"{db}.template{of}"), made[-1].name)
    return made


def copy(planned: Planned, template: Table, name: str) -> None:
    """Make a table like ``template`` and with its files, of which Spark has not kept a schema."""
    table, source = deepcopy(template), Path(template.sd.location.removeprefix("file:"))
    table.tableName, table.sd.location = name, f"file:{source.parent / name}"
    table.parameters = {
        one: value for one, value in table.parameters.items() if not one.startswith("spark.sql.")
    }
    planned.client.create_table(table)
    shutil.copytree(source, source.parent / name, dirs_exist_ok=True)
    if table.partitionKeys:
        partition = deepcopy(planned.client.get_partition(table.dbName, template.tableName, ["a"]))
        partition.tableName, partition.sd.location = name, f"{table.sd.location}/ds=a"
        planned.client.add_partitions([partition])


def run(planned: Planned, one: Interleaved, number: int, drawn: random.Random) -> Counter[str]:
    """Run the steps of an interleaving; return how often its statement was refused, and how many
    reads did not have the other writer's columns.
    """
    found: Counter[str] = Counter()
    for at, step in enumerate(one.steps):
        if step == "read":
            columns, _ = planned.driver.do(f"read({[one.db, one.name]})")
            found["old"] += not set(one.columns) <= set(columns)
        elif step == "update":
            one.update(planned, 10 * number + at, column=drawn.random() < 0.5)
        else:
            found["refused"] += one.run(planned, 10 * number + at)
    return found


def lost_of(planned: Planned, all_of: list[Interleaved]) -> dict[str, int]:
    """Return how often statements of each kind have undone an update."""
    lost = {(one.full_name, one.kind): one.lost(planned) for one in all_of}
    for (name, kind), updates in lost.items():
        if updates:
            print(f"{name}: {kind} has undone {updates}")
    return dict(Counter(kind for (_, kind), updates in lost.items() if updates))


def seeded() -> random.Random:
    seed = os.environ.get("SEED") or str(random.randrange(1 << 32))
    print(f"SEED={seed}")
    return random.Random(seed)


def test_no_order_of_reads_updates_and_statements_loses_an_update(
    planned: Planned, tmp_path: Path
) -> None:
    drawn = seeded()
    all_of = create_all(planned, "orders", INTERLEAVINGS, drawn=drawn, folder=tmp_path)
    found = Counter[str]()
    planned.is_live()
    read_all = f"read_all('orders', {INTERLEAVINGS})"

    def is_held() -> bool:
        planned.counting.take()
        planned.driver.do(read_all)
        return not planned.counting.take()

    until(is_held, timeout_s=WAIT_S, what="all tables in memory")
    for begin in range(0, INTERLEAVINGS, FROZEN):
        some = all_of[begin : begin + FROZEN]
        planned.daemons.freeze("catalogd")
        try:
            for number, one in enumerate(some, begin):
                found += run(planned, one, number, drawn)
            assert planned.status("planning") == "on"
        finally:
            planned.daemons.thaw("catalogd")
        planned.is_live()
        assert lost_of(planned, some) == {}
        for one in some:
            columns, _ = planned.driver.do(f"read({[one.db, one.name]})")
            assert set(one.columns) <= set(columns), one
    print(dict(found))
    assert found["old"] > INTERLEAVINGS // 20, "the view was not frozen"
    assert found["refused"], "nothing was refused"
    assert planned.status("errors") == 0, planned.status("last_error")


def test_same_orders_lose_updates_without_the_two_rules_of_the_router(
    planned: Planned, tmp_path: Path
) -> None:
    """Commands read from the metastore, and other writes are compared with it: that is needed."""
    drawn, driver = seeded(), planned.driver
    all_of = create_all(planned, "careless", CARELESSLY, drawn=drawn, folder=tmp_path)
    found = Counter[str]()
    driver.do("handle.control('off')")
    until(lambda: planned.status("planning") == "off")
    driver.do(CARELESS)
    driver.do(f"hold('careless', {CARELESSLY})")
    try:
        for number, one in enumerate(all_of):
            found += run(planned, one, number, drawn)
    finally:
        driver.do("careless.end()")
        driver.do("handle.control('on')")
    lost = lost_of(planned, all_of)
    print(dict(found), lost)
    assert found["refused"] == 0
    assert sum(lost.values()) > CARELESSLY // 20
    planned.is_live()
