"""What goes wrong around real drivers: plain Spark meanwhile, and right afterwards."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.spark.applications import Application, Failed
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import BEFORE, SLOW_ROWS, WAIT_S, Pair
from topicast.tests.waiting import until

pytestmark = pytest.mark.nightly  # four minutes; the simulator and units have each fault

INSERTED: Final = [[1, "a"], [2, "a"]]
OVERWRITTEN: Final = [[2, "a"]]
SILENT_S: Final = float(os.environ.get("SILENT_S", "3"))  # of which 2 make a hub suspect, 8 lost
WRITES: Final = "handle.status().writes"


@dataclass
class Scene(Pair):
    """A pair, with daemons of its own, and two drivers that may die."""

    victims: tuple[Application, Application]

    def settled(self, db: str, *tables: str) -> None:
        """Make tables that the reader holds."""
        self.create(db, tables)
        self.is_settled(db, dict.fromkeys(tables, BEFORE))

    def write(self, table: str, *, by: str = "spark") -> None:
        self.writer.do(f"_ = {by}.sql(\"INSERT INTO {table} VALUES (2, 'a')\")")


@pytest.fixture(scope="module")
def scene(
    drivers: Drivers,
    more: dict[str, Application],
    hive: EmbeddedMetastore,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("faults")
    with both_daemons(folder, hive.uri, module="topicast.tests.integration.hasty") as daemons:
        scene = Scene(drivers.writer, drivers.reader, daemons, (more["writer"], more["reader"]))
        scene.writer.sql("SET spark.sql.statistics.size.autoUpdate.enabled=false")
        for one in (drivers.writer, drivers.reader, *more.values()):
            one.do("import os; from topicast.subscriber.spark import attach")
            one.do("attach(spark).detach()")
            scene.attach(one)
        yield scene
        for one in (drivers.writer, drivers.reader):
            one.do("handle.detach()")


def test_driver_reports_whatever_names_its_metastore(scene: Scene) -> None:
    """A driver by ``.config("hive.metastore.uris", ...)``, another by hive-site.xml."""
    tables = ("builder", "site")
    scene.settled("named", *tables)
    for victim, table in zip(scene.victims, tables, strict=True):
        until(lambda of=victim: of.do(WRITES) == "reported", timeout_s=WAIT_S, what=table)  # type: ignore[misc]  # of this turn
        victim.sql(f"INSERT INTO named.{table} VALUES (2, 'a')")
    scene.sees("named", dict.fromkeys(tables, INSERTED))


DIES: Final = """
from pyspark.sql import SparkSession
inner = SparkSession.sql

def sql(self, text, *args, **named):
    inner(self, text, *args, **named)
    os.kill(os.getpid(), 9)

SparkSession.sql = sql  # which the attach wraps: it dies before the wrapper reports the end
"""


STREAM: Final = """
two = spark.sql("SELECT 2 AS id, 'a' AS ds")
two.write.json(where + "-in")
rows = spark.readStream.schema("id INT, ds STRING").json(where + "-in").writeStream
rows = rows.option("checkpointLocation", where + "-checkpoint").partitionBy("ds")
stream = rows.trigger(processingTime="100 milliseconds").start(where)
stream.processAllAvailable()
"""


def test_what_killed_drivers_may_have_written_is_read_once_their_leases_lapse(scene: Scene) -> None:
    """One dies in the middle of two overwrites, one between the end of it and its report.

    One of the two is of the JVM, which reports it when it begins. The first has a stream, too, of
    which a batch may have ended that was not reported.
    """
    scene.settled("killed", "midway", "java", "unsaid", "stream")
    folders = [Path(scene.location("killed"), one) for one in ("midway", "java")]
    midway, unsaid = scene.victims
    java, python = (
        f"INSERT OVERWRITE killed.{one} PARTITION (ds = 'a') {SLOW_ROWS}"
        for one in ("java", "midway")
    )
    streamed = Path(scene.location("killed"), "stream")
    midway.do(f"where = 'file:{streamed}'")
    midway.do(STREAM)
    scene.sees("killed", {"stream": OVERWRITTEN})  # Spark reads what the log of its sink lists
    until(lambda: scene.intents() == 1, timeout_s=WAIT_S, what="the intent of its next batch")
    midway.do(f"_ = threads.submit(spark._jsparkSession.newSession().sql, {java!r})")
    midway.send(f"spark.sql({python!r})")
    for folder in folders:
        until(lambda of=folder: not [*of.glob("ds=a/part-*")], timeout_s=WAIT_S, what=str(folder))  # type: ignore[misc]  # of this turn
    until(lambda: scene.intents() == len(folders) + 1, timeout_s=WAIT_S, what="their intents")
    with Subscriber(scene.daemons.hub_address) as catalog:
        changes = catalog.watch("killed.stream")
        midway.kill()
        assert [one.object for one in changes.all_within(WAIT_S)] == ["killed.stream"]
    unsaid.do("handle.detach()")
    unsaid.do(DIES)
    scene.attach(unsaid)
    unsaid.send("spark.sql(\"INSERT OVERWRITE killed.unsaid VALUES (2, 'a')\")")
    unsaid.is_dead()
    scene.sees("killed", {"midway": [], "java": [], "unsaid": OVERWRITTEN})


CALLS_NOBODY: Final = """
server = spark.sparkContext._gateway.java_gateway_server
before = server.getCallbackClient()
server.resetCallbackClient(before.getAddress(), 1)  # where nobody listens
"""


def test_reports_of_the_jvm_need_no_calls_of_it_to_python(scene: Scene) -> None:
    """Given that another library has taken Py4J's callbacks."""
    scene.settled("uncalled", "java")
    scene.writer.do(CALLS_NOBODY)
    try:
        scene.write("uncalled.java", by="spark._jsparkSession")
        scene.sees("uncalled", {"java": INSERTED})
    finally:
        scene.writer.do("server.resetCallbackClient(before.getAddress(), before.getPort())")
    assert scene.status("writes") == "reported"


@pytest.mark.parametrize(("end", "back"), [("freeze", "thaw"), ("kill", "start")])
def test_hub_that_is_away_leaves_plain_spark_and_is_caught_up_with(
    scene: Scene, end: str, back: str
) -> None:
    db = f"away_by_{end}"
    scene.settled(db, "t")
    counted = "[handle.status().refreshes, handle.status().errors]"
    refreshes, errors = scene.reader.do(counted)
    getattr(scene.daemons, end)("statestored")
    try:
        scene.write(f"{db}.t")
        age = "handle.status().staleness_s"
        until(lambda: scene.reader.do(age) > SILENT_S, timeout_s=SILENT_S + WAIT_S, what="silence")
        assert scene.read(db, ["t"]) == {"t": BEFORE}
        assert scene.reader.do(counted) == [refreshes, errors]
        shown = "(lambda it: [it.state, it.reason])(handle.status())"
        until(lambda: scene.reader.do(shown)[0] == "connecting", timeout_s=WAIT_S, what="the state")
        assert scene.reader.do(shown)[1].startswith("the statestored ")
    finally:
        getattr(scene.daemons, back)("statestored")
    until(lambda: scene.reader.do(shown) == ["live", ""], timeout_s=WAIT_S, what="the state")
    scene.sees(db, {"t": INSERTED})
    assert scene.reader.do("handle.status().errors") == errors


def test_path_that_is_no_table_yet_and_another_metastore_are_reported_in_vain(scene: Scene) -> None:
    scene.settled("vain", "t")
    where, writer = scene.location("vain"), scene.writer
    writer.do(f"spark.sql(\"SELECT 2 id, 'a' ds\").write.parquet('file:{where}/later')")
    writer.sql(f"CREATE TABLE vain.later USING parquet LOCATION 'file:{where}/later'")
    scene.sees("vain", {"later": OVERWRITTEN})
    writer.do("handle.detach()")
    try:
        elsewhere = "metastore='thrift://elsewhere:9083'"
        writer.do(f"handle = attach(spark, {scene.daemons.hub_address!r}, {elsewhere})")
        writer.do(f"handle.sync({WAIT_S})")
        until(lambda: "elsewhere" in scene.status("writes"), timeout_s=WAIT_S, what="why not")
        assert scene.status("writes_reported") == 0, "it is known before a write"
        said = f"writes: {scene.status('writes')}"
        until(lambda: said in writer.log(), timeout_s=WAIT_S, what="the line of log")
        scene.write("vain.t")
        assert scene.writer.rows("SELECT * FROM vain.t") == INSERTED
        assert scene.read("vain", ["t"]) == {"t": BEFORE}, "nobody was notified"
        before = scene.status("refreshes")
        scene.reader.sql("INSERT INTO vain.t VALUES (3, 'a')")
        until(lambda: scene.status("refreshes") > before, timeout_s=WAIT_S, what="it is fresh")
        assert writer.log().count(said) == 1
    finally:
        writer.do("handle.detach()")
        scene.attach(writer)
    scene.write("vain.t")
    scene.sees("vain", {"t": [*INSERTED, [2, "a"], [3, "a"]]})


def test_driver_says_that_no_change_of_the_metastore_reaches_it(
    scene: Scene, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    """Given a catalogd that polls no events, a sync fails at once, and reports arrive."""
    scene.settled("blind", "t")
    daemons = Daemons(tmp_path, hive.uri)
    blind = replace(scene, daemons=daemons)
    off = "events are off (--hms_event_polling_interval_s=0)"
    live = "handle.status().state, handle.status().writes"
    try:
        daemons.start("statestored")
        daemons.start("catalogd", "--hms_event_polling_interval_s=0")
        for one in (scene.reader, scene.writer):
            one.do(f"handle.detach(); handle = attach(spark, {daemons.hub_address!r})")
            until(lambda of=one: of.do(live) == ["live", "reported"], timeout_s=WAIT_S, what="it")  # type: ignore[misc]  # of this turn
            assert one.do("handle.status().metastore_problem").startswith(off)
            with pytest.raises(Failed, match="SourceError"):
                one.do(f"handle.sync({WAIT_S})")
        assert blind.read("blind", ["t"]) == {"t": BEFORE}
        blind.write("blind.t")
        blind.sees("blind", {"t": INSERTED})
    finally:
        for one in (scene.reader, scene.writer):
            one.do("handle.detach()")
            scene.attach(one)
        daemons.close()


def test_clocks_that_jump_decide_nothing(scene: Scene) -> None:
    scene.settled("clocks", "t")
    rows: list[list[Any]] = [*BEFORE]
    for one in (scene.writer, scene.reader):
        one.do("import time; clocks = time.time, time.time_ns")
    for years in (30, -30):
        jump = years * 365 * 86400
        for one in (scene.writer, scene.reader):
            one.do(f"time.time = lambda: clocks[0]() + {jump}")
            one.do(f"time.time_ns = lambda: clocks[1]() + {jump} * 10**9")
        scene.write("clocks.t")
        rows.append([2, "a"])
        scene.sees("clocks", {"t": rows})
    for one in (scene.writer, scene.reader):
        one.do("time.time, time.time_ns = clocks")


HOLD: Final = "libc.read(os.open({fifo!r}, os.O_RDONLY), byte, 1)"  # and holds Python's lock


def test_driver_that_holds_pythons_lock_is_late_and_loses_nothing(
    scene: Scene, tmp_path: Path
) -> None:
    scene.settled("held", "read", "python", "java")
    fifos = [tmp_path / one for one in ("reader", "writer")]
    for one, fifo in zip((scene.reader, scene.writer), fifos, strict=True):
        os.mkfifo(fifo)
        one.do("import ctypes; libc, byte = ctypes.PyDLL(None), ctypes.create_string_buffer(1)")
    scene.reader.send(HOLD.format(fifo=str(fifos[0])))
    with fifos[0].open("wb") as reader:  # it is in the call, or about to be
        scene.write("held.read")
        reader.write(b"x")
    assert scene.reader.receive() == 1
    scene.sees("held", {"read": INSERTED})
    insert = "spark{by}.sql(\"INSERT INTO held.{t} VALUES (2, 'a')\")"
    both = insert.format(by="", t="python"), insert.format(by="._jsparkSession", t="java")
    scene.writer.send("; ".join((*both, HOLD.format(fifo=str(fifos[1])))))
    with fifos[1].open("wb") as writer:
        writer.write(b"x")
    assert scene.writer.receive() == 1
    scene.sees("held", {"python": INSERTED, "java": INSERTED})


OF_ANOTHER: Final = """
from topicast.subscriber.spark.agent.driver import Driver
from topicast.subscriber.spark.jar.bootstrap import bootstrap_of
handle.detach()
given = dict(statestores={hub!r})
bootstrap = bootstrap_of(spark, given, "true")  # an agent that attaches nothing
driver = Driver(bootstrap, pid=1, versions=("9.8", "9.9"))
driver.begin(spark, given)
"""


def test_version_of_spark_that_was_not_tried_is_said(scene: Scene) -> None:
    """In this Python, as its agent would attach it."""
    reader = scene.reader
    reader.do(OF_ANOTHER.format(hub=scene.daemons.hub_address))
    try:
        reader.do(f"import time; driver.sync({WAIT_S}, until=time.monotonic() + {WAIT_S})")
        assert reader.do("[driver.status().state, driver.status().reason]") == [
            "live",
            "tried with Spark 9.8, 9.9 only",
        ]
    finally:
        reader.do("driver.detach(); bootstrap.stop()")
        scene.attach(reader)
