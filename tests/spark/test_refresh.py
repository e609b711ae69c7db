"""Two real drivers on one real metastore: what one writes the other reads, without REFRESH.

Each failure of plain Spark is reproduced first, by the same statements, in the same run.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from topicast.cli.commands.drivers import drivers_of
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.spark.applications import GONE
from topicast.tests.spark.cells import cells
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import BEFORE, WAIT_S, Pair
from topicast.tests.waiting import until
from topicast.topics.topic import MINIMAL_BYTES
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.questions import ReadDriver, ReadSubscribers

# The writer is not attached: its statistics leave an event where there is none otherwise.
STATISTICS = "spark.sql.statistics.size.autoUpdate.enabled"
SESSIONS_S: Final = float(os.environ.get("SESSIONS_S", "60"))
SAMPLES_MIN: Final = 3
GROWN_MB_MAX: Final = 64  # of each process; Spark itself keeps 30 for its last 1,000 executions
EVERY_KIND = {
    "parquet": "USING parquet",
    "csv": "USING csv",
    "orc": "USING orc",
    "parquet_by_day": "USING parquet PARTITIONED BY (ds)",
    "hive_parquet": "STORED AS parquet",
    "hive_parquet_by_day": "PARTITIONED BY (ds) STORED AS parquet",
    "hive_text": "STORED AS textfile",
}
KINDS = cells(EVERY_KIND, some=("parquet", "parquet_by_day", "hive_parquet_by_day", "hive_text"))
STALE = {kind: how for kind, how in EVERY_KIND.items() if kind != "hive_text"}  # in plain Spark
PLAIN = cells(STALE, some=("parquet_by_day",))
PLAIN_SOURCE = [kind for kind, how in PLAIN.items() if how.startswith("USING")]
OVERWRITTEN = [[30, "a"], [40, "a"], [50, "a"]]
# What plain Spark says of a file that it lists and is not there; 3.5 has no condition for it.


class Scene(Pair):
    """A pair of which the reader is attached, and the writer is not."""

    def create(self, db: str, tables: Any) -> None:
        """Make tables, and let the reader read each."""
        super().create(db, tables)
        assert self.read(db, tables) == dict.fromkeys(tables, BEFORE)

    @contextmanager
    def without_statistics(self) -> Iterator[None]:
        """Let the writer write as it does where nobody has set anything."""
        self.writer.sql(f"SET {STATISTICS}=false")
        try:
            yield
        finally:
            self.writer.sql(f"SET {STATISTICS}=true")

    def status(self, field: str) -> Any:
        """Return a field of the reader's status."""
        return self.reader.do(f"handle.status().{field}")

    def attach_anew(self, **settings: object) -> None:
        """Attach the reader with other settings."""
        self.reader.do("handle.detach()")
        hub = self.daemons.hub_address
        self.reader.do(f"handle = attach(spark, {hub!r}, **{settings!r})")
        self.refreshed()


@pytest.fixture(scope="module")
def scene(drivers: Drivers) -> Scene:
    drivers.writer.sql(f"SET {STATISTICS}=true")
    return Scene(drivers.writer, drivers.reader, drivers.daemons)


@pytest.fixture(scope="module")
def untouched(scene: Scene) -> dict[str, Any]:
    """What attaching makes of a session that has done nothing yet, whatever the driver has done."""
    scene.reader.do("fresh = type(spark)(spark.sparkContext, spark._jsparkSession.newSession())")
    state = "fresh._jsparkSession.getClass().getDeclaredField('sessionState')"
    scene.reader.do(f"field = {state}; field.setAccessible(True)")
    scene.reader.do("assert field.get(fresh._jsparkSession) is None")
    scene.reader.do(f"handle = attach(fresh, {scene.daemons.hub_address!r})")
    scene.refreshed()
    scene.reader.do("before = handle.status().sessions")
    found = {
        "state": scene.reader.do("field.get(fresh._jsparkSession) is not None"),
        "again": scene.reader.do("attach(spark) is handle"),
        "sessions": scene.reader.do(
            f"other = spark.newSession(); handle.sync({WAIT_S}); handle.status().sessions - before"
        ),
        "status": scene.status("state"),
    }
    scene.reader.do("handle.detach()")
    return found | {"detached": scene.status("state")}


@pytest.fixture(scope="module")
def plain(scene: Scene, untouched: object) -> dict[str, dict[str, Any]]:
    """What plain Spark answers after each change, by kind of table."""
    scene.create("plain", PLAIN)
    found = {}
    scene.insert("plain", PLAIN, "(2, 'a')")
    found["append"] = scene.read("plain", PLAIN)
    scene.insert("plain", PLAIN, "(30, 'a'), (40, 'a'), (50, 'a')", how="OVERWRITE")
    found["overwrite"] = scene.read("plain", PLAIN)
    found["overwrite, again"] = scene.read("plain", PLAIN)
    scene.alter("plain", PLAIN_SOURCE, "ADD COLUMNS (note STRING)")
    found["add a column"] = scene.read("plain", PLAIN_SOURCE, "note")
    return found


@pytest.fixture(scope="module")
def attached(scene: Scene, plain: object) -> Scene:
    """The scene from when the reader is attached; all was plain Spark before."""
    scene.attach_anew()
    return scene


def test_attaching_makes_nothing_of_the_sessions_state(untouched: dict[str, Any]) -> None:
    """Whoever makes it fixes what metastore it has; so no metastore was called either."""
    assert untouched["state"] is False
    assert untouched["again"] is True
    assert (untouched["sessions"], untouched["status"], untouched["detached"]) == (
        1,
        "live",
        "detached",
    )


@pytest.mark.parametrize("kind", list(PLAIN))
def test_plain_spark_reads_old_rows_and_then_fails(
    plain: dict[str, dict[str, Any]], kind: str
) -> None:
    assert plain["append"][kind] == BEFORE
    assert GONE in plain["overwrite"][kind]
    assert GONE in plain["overwrite, again"][kind], "a retry is no cure"
    if kind in PLAIN_SOURCE:
        assert "UNRESOLVED_COLUMN" in plain["add a column"][kind]


def test_what_was_stale_before_is_right_once_it_is_attached(attached: Scene) -> None:
    noted = {kind: [[*row, None] for row in OVERWRITTEN] for kind in PLAIN_SOURCE}
    noted["parquet_by_day"] = [[number, None, day] for number, day in OVERWRITTEN]
    assert attached.read("plain", PLAIN) == {**dict.fromkeys(PLAIN, OVERWRITTEN), **noted}
    assert attached.status("errors") == 0


def test_attached_reader_sees_each_change(attached: Scene) -> None:
    scene = attached
    scene.create("fresh", KINDS)
    scene.insert("fresh", KINDS, "(2, 'a')")
    scene.refreshed()
    assert scene.read("fresh", KINDS) == {kind: [*BEFORE, [2, "a"]] for kind in KINDS}
    scene.insert("fresh", KINDS, "(30, 'a'), (40, 'a'), (50, 'a')", how="OVERWRITE")
    scene.refreshed()
    assert scene.read("fresh", KINDS) == dict.fromkeys(KINDS, OVERWRITTEN)
    scene.alter("fresh", KINDS, "ADD COLUMNS (note STRING)")
    scene.refreshed()
    without = [[number, None] for number, _ in OVERWRITTEN]
    assert scene.read("fresh", KINDS, "id, note") == dict.fromkeys(KINDS, without)
    assert scene.status("errors") == 0


def test_partitions_come_without_a_refresh_and_are_right_when_they_come_again(
    attached: Scene,
) -> None:
    scene, days = attached, ["parquet_by_day", "hive_parquet_by_day"]
    scene.create("days", {kind: KINDS[kind] for kind in days})
    with scene.without_statistics():
        scene.insert("days", days, "(2, 'b')")
        scene.is_settled("days", {kind: [*BEFORE, [2, "b"]] for kind in days})
        before = scene.status("refreshes")
        scene.insert("days", days, "(3, 'c')")
        scene.refreshed()
        assert scene.read("days", days) == {kind: [*BEFORE, [2, "b"], [3, "c"]] for kind in days}
        assert (scene.status("refreshes"), scene.status("changes_ignored") > 0) == (before, True)
        scene.alter("days", days, "PARTITION (ds = 'b') RENAME TO PARTITION (ds = 'd')")
        scene.refreshed()
        assert scene.read("days", days) == {kind: [*BEFORE, [2, "d"], [3, "c"]] for kind in days}
        scene.alter("days", days, "DROP PARTITION (ds = 'c')")
        scene.insert("days", days, "(4, 'c')")  # in the folder that the reader has listed
        scene.refreshed()
        assert scene.read("days", days) == {kind: [*BEFORE, [2, "d"], [4, "c"]] for kind in days}


def test_session_that_lists_partitions_itself_sees_those_that_come_and_go(attached: Scene) -> None:
    scene, query = attached, "spark_listing.sql('SELECT * FROM listed.parquet_by_day')"
    scene.create("listed", {"parquet_by_day": KINDS["parquet_by_day"]})
    scene.reader.do("spark_listing = spark.newSession()")
    scene.reader.do("spark_listing.conf.set('spark.sql.hive.manageFilesourcePartitions', False)")
    with scene.without_statistics():
        for _turn in range(2):
            scene.refreshed()
            assert scene.reader.read(it=query) == {"it": BEFORE}
        scene.insert("listed", ["parquet_by_day"], "(2, 'b')")
        scene.refreshed()
        assert scene.reader.read(it=query) == {"it": [*BEFORE, [2, "b"]]}
        scene.alter("listed", ["parquet_by_day"], "DROP PARTITION (ds = 'a')")
        scene.refreshed()
        assert scene.reader.read(it=query) == {"it": [[2, "b"]]}
    scene.reader.do("spark_listing = None")


def test_table_that_is_made_anew_or_renamed_is_read_as_it_is_now(attached: Scene) -> None:
    scene, kinds = attached, {kind: KINDS[kind] for kind in ("parquet", "parquet_by_day")}
    scene.create("anew", kinds)
    scene.writer.side_by_side(*(f"DROP TABLE anew.{kind}" for kind in kinds))
    scene.writer.side_by_side(
        *(f"CREATE TABLE anew.{kind} USING orc AS SELECT 'x' AS name" for kind in kinds)
    )
    scene.refreshed()
    assert scene.read("anew", kinds) == {key: [["x"]] for key in kinds}
    scene.writer.sql("ALTER TABLE anew.parquet RENAME TO anew.renamed")
    scene.refreshed()
    assert scene.read("anew", ["renamed"]) == {"renamed": [["x"]]}
    assert scene.read("anew", ["parquet"]) == {"parquet": "TABLE_OR_VIEW_NOT_FOUND"}


TYPED: Final = {"parquet": "Spelled.Parquet", "parquet_by_day": "SPELLED.Parquet_By_Day"}
SENSITIVE: Final = """
typed = spark.newSession()
typed.conf.set("spark.sql.caseSensitive", True)
"""


@pytest.mark.nightly
def test_names_typed_with_capitals_are_fresh_where_spark_distinguishes_them(
    attached: Scene,
) -> None:
    """A session then has a relation, and cached data, for each spelling that was typed."""
    scene, reader = attached, attached.reader
    kinds = {kind: EVERY_KIND[kind] for kind in (*TYPED, "orc")}
    read = {f"{kind} {name}": f"typed.table({name!r})" for kind, name in TYPED.items()}
    read |= {kind: f"typed.table('spelled.{kind}')" for kind in TYPED}
    reader.do("handle.detach()")
    reader.do(SENSITIVE)
    scene.create("spelled", kinds)
    assert reader.read(**read) == dict.fromkeys(read, BEFORE)
    scene.insert("spelled", TYPED, "(2, 'a')")
    assert reader.read(**read) == dict.fromkeys(read, BEFORE), "plain Spark"
    scene.attach_anew(refresh_cached=True)
    rows = [*BEFORE, [2, "a"]]
    for _turn in range(2):  # what is read soon after a change is renewed once
        assert reader.read(**read) == dict.fromkeys(read, rows)
        scene.refreshed()
    reader.do("_ = typed.sql('CACHE TABLE Spelled.Orc')")
    reader.do("held = typed.table('Spelled.Parquet')")
    for number in (3, 4):
        scene.insert("spelled", TYPED, f"({number}, 'a')")
        scene.insert("spelled", ["orc"], f"({number - 1}, 'a')")
        rows = [*rows, [number, "a"]]
        scene.refreshed()
        assert reader.read(**read) == dict.fromkeys(read, rows)
        assert reader.read(orc="typed.table('Spelled.Orc')") == {"orc": rows[: number - 1]}
    scene.insert("spelled", TYPED, "(30, 'a'), (40, 'a'), (50, 'a')", how="OVERWRITE")
    scene.refreshed()
    read["held"] = "held.select('*')"
    assert reader.read(**read) == dict.fromkeys(read, OVERWRITTEN)
    scene.alter("spelled", ["parquet"], "ADD COLUMNS (note STRING)")
    scene.refreshed()
    noted = {"it": [[number, None] for number, _ in OVERWRITTEN]}
    assert reader.read(it="typed.sql('SELECT id, note FROM Spelled.Parquet')") == noted
    assert scene.status("errors") == 0
    reader.do("typed.sql('UNCACHE TABLE Spelled.Orc'); typed = held = None")
    scene.attach_anew()


EXISTING = {
    "dataframe": "frame.select('id')",
    "view_of_dataframe": "spark.sql('SELECT id FROM frame_view')",
}
ANEW = {
    "table": "spark.read.table('shared.parquet').select('id')",
    "sql_view": "spark.sql('SELECT id FROM sql_view')",
    "view": "spark.sql('SELECT id FROM shared.view')",
    "other_session": "other.sql('SELECT id FROM shared.parquet')",
}


def test_views_and_sessions_are_fresh_and_dataframes_where_their_files_are_gone(
    attached: Scene,
) -> None:
    scene, reader = attached, attached.reader
    scene.create("shared", {"parquet": KINDS["parquet"]})
    scene.writer.sql("CREATE VIEW shared.view AS SELECT * FROM shared.parquet")
    scene.is_settled("shared", {"parquet": BEFORE})
    reader.do("frame = spark.table('shared.parquet'); frame.createOrReplaceTempView('frame_view')")
    reader.sql("CREATE TEMP VIEW sql_view AS SELECT * FROM shared.parquet")
    everything = {**EXISTING, **ANEW}
    assert reader.read(**everything) == {key: [[1]] for key in everything}
    scene.insert("shared", ["parquet"], "(2, 'a')")
    scene.refreshed()
    assert reader.read(**ANEW) == {key: [[1], [2]] for key in ANEW}
    assert reader.read(**EXISTING) == {key: [[1]] for key in EXISTING}, "as plain Spark has it"
    for number in (3, 4, 5, 6, 7):
        rows = [[10 * number + row] for row in range(number)]
        values = ", ".join(f"({row[0]}, 'a')" for row in rows)
        scene.insert("shared", ["parquet"], values, how="OVERWRITE")
        scene.refreshed()
        read = EXISTING if number in {5, 6} else everything  # nobody reads it by name meanwhile
        assert reader.read(**read) == dict.fromkeys(read, rows)
    scene.attach_anew(refresh_existing=True)
    reader.do("frame = spark.table('shared.parquet')")
    scene.insert("shared", ["parquet"], "(1, 'a')")
    scene.refreshed()
    assert [1] in reader.read(it="frame.select('id')")["it"]
    scene.attach_anew()


SESSIONS = """
java = spark._jsparkSession
options = spark._jvm.java.util.HashMap()
options.put("spark.sql.catalogImplementation", "hive")
root = spark._jvm.SparkSession(spark._jsc.sc(), options)  # of no other: it inherits nothing
sessions = {"new": java.newSession(), "clone": java.cloneSession(), "root": root}
sessions["clone of new"] = sessions["new"].cloneSession()
from pyspark.sql import DataFrame

def ids(name):
    return lambda: DataFrame(sessions[name].table("inside.parquet"), spark).select("id")
"""


def test_sessions_that_only_the_jvm_has_are_fresh(attached: Scene) -> None:
    """Each has only analysed the table, and so cached it; one of another root has executed, too."""
    scene, reader = attached, attached.reader
    scene.create("inside", {"parquet": KINDS["parquet"]})
    scene.is_settled("inside", {"parquet": BEFORE})
    reader.do(SESSIONS)
    reader.do("for one in sessions.values(): one.table('inside.parquet')")
    read = {name.replace(" ", "_"): f"ids({name!r})()" for name in reader.do("list(sessions)")}
    assert reader.read(root=read["root"]) == {"root": [[1]]}
    for number in (2, 3):
        scene.insert("inside", ["parquet"], f"({number}, 'a')")
        scene.refreshed()
        rows = [[one] for one in range(1, number + 1)]
        assert reader.read(**read) == dict.fromkeys(read, rows)
    assert scene.status("errors") == 0
    reader.do("root = one = None; sessions.clear()")


COME_AND_GO = """
import gc

def analyse(count, table="gone.parquet"):
    made = [spark._jsparkSession.newSession() for _ in range(count)]
    for one in made:
        one.table(table)
    return made, [spark._jvm.java.lang.ref.WeakReference(one) for one in made]
"""


def test_sessions_that_come_and_go_are_known_and_not_kept(attached: Scene) -> None:
    scene, reader = attached, attached.reader
    scene.create("gone", {"parquet": KINDS["parquet"]})
    scene.refreshed()
    reader.do(COME_AND_GO)
    reader.do("made, weak = analyse(50)")
    scene.refreshed()
    known = scene.status("sessions")  # those of other tests may end at any time
    assert known >= 50
    scene.insert("gone", ["parquet"], "(2, 'a')")
    scene.refreshed()
    reader.do("del made")
    gone = "gc.collect(), spark._jvm.System.gc(), [one.get() is None for one in weak]"
    until(lambda: all(reader.do(gone)[-1]), timeout_s=60, what="nobody holds them", interval_s=1)
    until(lambda: scene.status("sessions") <= known - 50, timeout_s=WAIT_S, what="their end")
    assert scene.status("errors") == 0


HELD = """
import resource

def held():
    # Spark keeps the listing of files of each session until 250 MB are full: 2 KB each here.
    spark._jvm.org.apache.spark.sql.execution.datasources.FileStatusCache.resetForTesting()
    gc.collect(), spark._jvm.System.gc()
    java = spark._jvm.java.lang.Runtime.getRuntime()
    with open("/proc/self/statm") as own:
        python = int(own.read().split()[1]) * resource.getpagesize()
    return {"java": java.totalMemory() - java.freeMemory(), "python": python}
"""


@pytest.mark.nightly
@pytest.mark.timeout(SESSIONS_S + 180)
def test_sessions_that_come_and_go_for_long_leave_nothing(attached: Scene) -> None:
    """Ten at each change of the table, one of which reads it; memory does not grow."""
    scene, reader = attached, attached.reader
    scene.create("hour", {"parquet": KINDS["parquet"]})
    scene.refreshed()
    reader.do(COME_AND_GO)
    reader.do(HELD)
    samples: list[dict[str, int]] = []
    began = time.monotonic()
    for number in count(2):
        scene.writer.sql(f"INSERT OVERWRITE hour.parquet VALUES ({number}, 'a')")
        scene.refreshed()
        reader.do("made, weak = analyse(10, 'hour.parquet')")
        assert reader.do("made[-1].table('hour.parquet').head().getInt(0)") == number
        reader.do("del made, weak")
        if number % 20 == 0:
            samples.append(reader.do("held()"))
        if time.monotonic() > began + SESSIONS_S and len(samples) >= SAMPLES_MIN:
            break
    grown = {
        kind: max(one[kind] - first for one in samples) >> 20 for kind, first in samples[0].items()
    }
    print(f"{number * 10} sessions, {len(samples)} samples: grown by at most {grown} MB")
    assert all(megabytes <= GROWN_MB_MAX for megabytes in grown.values()), grown
    assert scene.status("errors") == 0


STREAMS = """
from collections import defaultdict
seen = defaultdict(list)

def start(name):
    def batch(rows, _number):
        seen[name].append(rows.sparkSession.table("streamed.parquet").count())
    lines = spark.readStream.text(where)
    return lines.writeStream.foreachBatch(batch).start()

def step(number):
    with open(f"{where}/{number}", "w") as file:
        print(number, file=file)
    for stream in streams:
        stream.processAllAvailable()
    return [one[-1] for one in seen.values()]
"""


def test_each_stream_reads_what_is_new(attached: Scene, tmp_path: Path) -> None:
    """Spark makes a session for each, in which every batch of it is read."""
    scene, reader = attached, attached.reader
    scene.create("streamed", {"parquet": KINDS["parquet"]})
    scene.is_settled("streamed", {"parquet": BEFORE})
    reader.do(f"where = {str(tmp_path)!r}")
    reader.do(STREAMS)
    reader.do("streams = [start(name) for name in 'ab']")
    try:
        assert reader.do("step(1)") == [1, 1]
        for number in (2, 3):
            scene.insert("streamed", ["parquet"], f"({number}, 'a')")
            scene.refreshed()
            assert reader.do(f"step({number})") == [number, number]
    finally:
        reader.do("for stream in streams: stream.stop()")


PATHS = """
where = spark.sql("DESCRIBE DATABASE {db}").where("info_name = 'Location'").first()[1]
spark.conf.set("spark.sql.sources.useV1SourceList", "{sources}")
at = spark.read.parquet(where + "/parquet")
inside = spark.read.parquet(where + "/parquet_by_day/ds=a")
above = spark.read.option("recursiveFileLookup", True).parquet(where)
_ = spark.sql(f"CREATE TEMP VIEW path_view USING parquet OPTIONS (path '{{where}}/parquet')")
"""
OVER_PATHS = {name: f"{name}.select('id')" for name in ("at", "inside", "above")}
PATH_VIEW = "spark.sql('SELECT id FROM path_view')"


@pytest.mark.parametrize(
    ("db", "sources", "relation"),
    [
        ("paths", "parquet", "LogicalRelation"),
        pytest.param("paths_v2", "", "DataSourceV2Relation", marks=pytest.mark.nightly),
    ],
)
def test_relations_over_the_paths_of_a_table_are_refreshed_as_it_is(
    attached: Scene, db: str, sources: str, relation: str
) -> None:
    """At, in and above its location: a view as what is planned anew, the others as DataFrames.

    ``relation``: as Spark reads what is in its list of ``sources``, and what is not.
    """
    scene, reader, kinds = attached, attached.reader, ("parquet", "parquet_by_day")
    scene.create(db, {kind: KINDS[kind] for kind in kinds})
    scene.refreshed()
    reader.do(PATHS.format(db=db, sources=sources))
    assert reader.do("at._jdf.queryExecution().analyzed().getClass().getSimpleName()") == relation
    read = {**OVER_PATHS, "view": PATH_VIEW}
    first = {"at": [[1]], "inside": [[1]], "above": [[1], [1]]}
    assert reader.read(**read) == {**first, "view": [[1]]}
    scene.insert(db, kinds, "(2, 'a')")
    scene.refreshed()
    assert reader.read(**read) == {**first, "view": [[1], [2]]}
    scene.insert(db, kinds, "(3, 'a')", how="OVERWRITE")
    scene.refreshed()
    gone = {"at": [[3]], "inside": [[3]], "above": [[3], [3]], "view": [[3]]}
    assert reader.read(**read) == gone
    for kind, number, rows in (("parquet", 4, [[3], [4]]), ("parquet_by_day", 5, [[4], [5]])):
        reader.do("above = spark.read.option('recursiveFileLookup', True).parquet(where)")
        scene.insert(db, [kind], f"({number}, 'a')", how="OVERWRITE")
        scene.refreshed()
        assert reader.read(above=OVER_PATHS["above"]) == {"above": rows}, "one of its two is gone"
    reader.do("at = inside = above = None")
    reader.do("spark.conf.unset('spark.sql.sources.useV1SourceList')")
    reader.sql("DROP VIEW path_view")
    assert scene.status("errors") == 0


CACHED = ["parquet", "orc"]


def test_users_cached_data_stays_unless_requested(attached: Scene) -> None:
    scene, reader = attached, attached.reader
    scene.create("kept", {kind: EVERY_KIND[kind] for kind in CACHED})
    scene.is_settled("kept", dict.fromkeys(CACHED, BEFORE))
    cache = "spark.sql('CACHE TABLE kept.parquet'); _ = spark.table('kept.orc').cache().count()"
    reader.do(cache)
    scene.insert("kept", CACHED, "(2, 'a')")
    scene.refreshed()
    assert scene.read("kept", CACHED) == dict.fromkeys(CACHED, BEFORE)
    assert reader.do("spark.catalog.isCached('kept.parquet')") is True
    reader.sql("CLEAR CACHE")
    scene.attach_anew(refresh_cached=True)
    rows = [*BEFORE, [2, "a"]]
    scene.is_settled("kept", dict.fromkeys(CACHED, rows))
    reader.do(cache)
    for number in (3, 4):  # Spark's own REFRESH TABLE would do it once
        scene.insert("kept", CACHED, f"({number}, 'a')")
        rows = [*rows, [number, "a"]]
        scene.refreshed()
        assert scene.read("kept", CACHED) == dict.fromkeys(CACHED, rows)
        assert reader.do("spark.catalog.isCached('kept.parquet')") is True
    assert scene.status("errors") == 0
    scene.attach_anew()


@pytest.mark.nightly
def test_cached_data_that_is_to_be_fresh_is_so_of_young_tables_and_of_partitions(
    attached: Scene,
) -> None:
    """Of a table that has just been made, and if another driver makes a partition."""
    scene, reader = attached, attached.reader
    scene.attach_anew(refresh_cached=True)
    kinds = {"young": EVERY_KIND["parquet"], "days": EVERY_KIND["parquet_by_day"]}
    Pair.create(scene, "recached", kinds)
    scene.refreshed()
    reader.sql(*(f"CACHE TABLE recached.{kind}" for kind in kinds))
    with scene.without_statistics():
        scene.insert("recached", ["days"], "(2, 'b')")
    scene.insert("recached", ["young"], "(2, 'a')")
    scene.refreshed()
    assert scene.read("recached", kinds) == {
        "young": [*BEFORE, [2, "a"]],
        "days": [*BEFORE, [2, "b"]],
    }
    scene.insert("recached", ["young"], "(3, 'a')", how="OVERWRITE")
    scene.alter("recached", ["days"], "ADD PARTITION (ds = 'c')")
    scene.alter("recached", ["days"], "DROP PARTITION (ds = 'a')")
    scene.refreshed()
    assert scene.read("recached", kinds) == {"young": [[3, "a"]], "days": [[2, "b"]]}
    for kind in kinds:
        assert reader.do(f"spark.catalog.isCached('recached.{kind}')") is True
    reader.sql("CLEAR CACHE")
    assert scene.status("errors") == 0
    scene.attach_anew()


def overwritten(scene: Scene, db: str, number: int) -> list[int]:
    """Overwrite a table with ``number`` rows, and let the reader know; return their ids.

    Of as many rows as before no event tells if their file has the size of the file before.
    """
    rows = [10 * number + row for row in range(number)]
    values = ", ".join(f"({row}, 'a')" for row in rows)
    scene.insert(db, ["parquet"], values, how="OVERWRITE")
    scene.refreshed()
    return rows


@pytest.mark.nightly
def test_dataframe_of_a_table_that_has_just_been_made_is_refreshed_like_others(
    attached: Scene,
) -> None:
    scene, reader = attached, attached.reader
    Pair.create(scene, "just_made", {"parquet": EVERY_KIND["parquet"]})
    scene.refreshed()
    reader.do("frame = spark.table('just_made.parquet')")
    for number in (2, 3):  # nobody reads it by its name meanwhile
        rows = overwritten(scene, "just_made", number)
        assert reader.read(it="frame.select('id')") == {"it": [[one] for one in rows]}
    reader.do("frame = None")


STATIC = """
joined = []
static = spark.table("static.parquet")
lines = spark.readStream.text(where).selectExpr("int(value) AS id")

def batch(rows, _number):
    both = rows, rows.select("id").join(static, "id")
    joined.append([sorted(row.id for row in one.collect()) for one in both])

def step(name, ids):
    with open(f"{where}/{name}", "w") as file:
        print(*ids, sep="\\n", file=file)
    stream.processAllAvailable()
    return joined[-1]

stream = lines.join(static, "id").writeStream.foreachBatch(batch).start()
"""


@pytest.mark.nightly
def test_static_side_of_a_stream_over_a_table_that_has_just_been_made_is_refreshed(
    attached: Scene, tmp_path: Path
) -> None:
    """Joined by the stream's own plan, and in each batch."""
    scene, reader = attached, attached.reader
    Pair.create(scene, "static", {"parquet": EVERY_KIND["parquet"]})
    scene.refreshed()
    reader.do(f"where = {str(tmp_path)!r}")
    reader.do(STATIC)
    try:
        assert reader.do("step('before', [1, 2])") == [[1], [1]]
        for number in (2, 3):
            rows = overwritten(scene, "static", number)
            assert reader.do(f"step({number}, {[1, *rows]})") == [rows, rows]
    finally:
        reader.do("stream.stop(); static = None")


def test_dry_run_counts_what_off_ignores_and_on_cures(attached: Scene) -> None:
    scene = attached
    scene.create("turned", {"parquet": KINDS["parquet"]})
    scene.is_settled("turned", {"parquet": BEFORE})
    for control, would in (("off", 0), ("dry-run", 1)):
        scene.reader.do(f"handle.control({control!r})")
        scene.refreshed()
        before = scene.status("would_refresh")
        scene.insert("turned", ["parquet"], "(2, 'a')")
        scene.refreshed()
        assert scene.read("turned", ["parquet"])["parquet"] == BEFORE, control
        assert (scene.status("would_refresh") > before) is (would > 0)
    scene.reader.do("handle.control('on')")
    scene.refreshed()
    assert scene.read("turned", ["parquet"])["parquet"] == [*BEFORE, [2, "a"], [2, "a"]]


def test_operators_see_the_driver(attached: Scene) -> None:
    scene = attached
    name = scene.reader.do("spark.sparkContext.applicationId")

    def facts() -> dict[str, Any]:
        members = visit.hub(ReadSubscribers())
        (registration,) = [row[1] for row in members.rows if str(row[0]).startswith(f"{name}@")]
        (found,) = visit.readers(ReadDriver, [str(registration)]).values()
        assert isinstance(found, Inspected)
        return dict(found.rows)  # type: ignore[arg-type]  # of two columns

    with scene.daemons.operator() as visit:
        shown = until(
            lambda: (one := facts())["refreshes"] == scene.status("refreshes") and one,
            timeout_s=20,
            what="what it reports of itself",
        )
    assert (shown["state"], shown["reason"], shown["control"]) == ("live", "", "on")
    assert shown["application_id"] == name
    for field in ("application", "user", "host", "pid", "spark"):
        assert shown[field]
    assert (shown["budget_bytes"], shown["writes"]) == (65 << 19, "reported")  # without plans


@pytest.mark.nightly  # units plan budgets
def test_budget_that_holds_a_part_keeps_all_reads_right_and_says_what_would_do(
    scene: Scene, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    """Two topics of 16 fit: those of what Spark has cached come first, the others are renewed."""
    tables = dict.fromkeys(("few", "some", "more"), "USING parquet")
    scene.reader.do("import os; attach(spark).detach()")
    scene.create("tight", tables)
    with both_daemons(tmp_path, hive.uri) as daemons:  # of which nothing was deleted
        tight, hub = Scene(scene.writer, scene.reader, daemons), daemons.hub_address
        tight.reader.do(f"from topicast.subscriber import Subscriber; held = Subscriber({hub!r})")
        names_bytes = tight.reader.do("held.open().topics()[-1].full_bytes")
        tight.reader.do("held.close()")
        tight.attach(tight.reader)
        tight.attach_anew(budget=names_bytes + 2 * MINIMAL_BYTES)
        for _ in range(3):
            assert tight.read("tight", tables) == dict.fromkeys(tables, BEFORE)
            tight.refreshed()
        state, reason = tight.status("state"), tight.status("reason")
        assert state == "live"
        needed = re.search(r"1[34] of 16 topics are not followed.* a budget of (\d+) KB", reason)
        assert needed is not None, reason
        pid = tight.reader.do("os.getpid()")

        def shown() -> list[tuple[Any, ...]]:
            with daemons.operator() as visit:
                found = [one for one in drivers_of(visit) if one.get("pid") == pid]
            return [(one["state"], one["reason"], one["control"]) for one in found]

        assert shown() == [("live", reason, "on")]
        tight.insert("tight", tables, "(2, 'a')")
        tight.sees("tight", {one: [[1, "a"], [2, "a"]] for one in tables})
        tight.insert("tight", tables, "(3, 'b')", how="OVERWRITE")
        tight.refreshed()
        overwritten = {one: [[3, "b"]] for one in tables}
        assert tight.read("tight", tables) == overwritten, "sync renews them all"
        tight.attach_anew(budget=f"{needed[1]}KB")
        assert (tight.status("state"), tight.status("reason")) == ("live", "")
        tight.reader.do("handle.detach()")
        until(lambda: [one[0] for one in shown()] == ["gone"], timeout_s=WAIT_S, what="its end")
    scene.attach(scene.reader)


FORKED = "handle.status().state == 'detached' and 7"


def test_application_may_fork_and_begin_anew(attached: Scene) -> None:
    scene, reader = attached, attached.reader
    scene.create("later", {"parquet": KINDS["parquet"]})
    reader.do(f"import os; child = os.fork(); child or os._exit({FORKED})")
    assert reader.do("os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])") == 7
    reader.do("conf = spark.sparkContext.getConf().getAll(); spark.stop()")
    reader.do("from pyspark.sql import SparkSession")
    reader.do("spark = SparkSession.builder.config(map=dict(conf)).getOrCreate()")
    assert scene.read("later", ["parquet"])["parquet"] == BEFORE
    scene.insert("later", ["parquet"], "(2, 'a')")
    scene.refreshed()
    assert scene.read("later", ["parquet"])["parquet"] == [*BEFORE, [2, "a"]]
    assert (scene.status("sessions"), scene.status("errors")) == (1, 0)
