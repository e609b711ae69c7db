"""Convert on real parts: what the source has, the copy has, whatever happens in between."""

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.quickstart.processes.spark_settings import submit_arguments
from topicast.tests.cli.processes import command
from topicast.tests.spark.applications import Application, Failed, quick_environment
from topicast.tests.spark.cells import EVERY_CELL
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

DOCUMENT = Path(__file__).parents[2] / "docs" / "pipelines.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RAW, LAKE = "convert_raw", "convert_lake"
QUERY_S = 0.5  # between two queries of a wait: each takes a tenth of a second of a core
EVERY_STEP = ("compared", "noted", "written", "ready", "changed", "done")
STEPS = EVERY_STEP if EVERY_CELL else ("written", "changed")

PRELUDE = """
import os, signal, threading
from topicast.pipeline.convert import convert

class Killed(BaseException):
    pass

def run(source, target, at=None, how=None, **options):
    def on_progress(progress):
        if progress.step == at:
            how()
    report = convert(
        spark, "convert_raw." + source, "convert_lake." + target, on_progress=on_progress, **options
    )
    return report.as_dict()

def die():
    raise Killed

def killed(step, *pair):
    try:
        run(*pair, at=step, how=die)
    except Killed:
        return True
    return False

def pause():
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture(scope="module")
def pair(drivers: Drivers) -> Drivers:
    """Both applications know ``run``; the databases are new."""
    address = drivers.daemons.hub_address
    for one in (drivers.writer, drivers.reader):
        one.do(PRELUDE + f"os.environ['TOPICAST_STATESTORES'] = {address!r}")
    drivers.writer.sql(f"CREATE DATABASE {RAW}", f"CREATE DATABASE {LAKE}")
    return drivers


def run(application: Application, source: str, target: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = application.do(f"run({source!r}, {target!r}, **{options!r})")
    return found


def create(drivers: Drivers, name: str, rows: str, *, using: str = "csv") -> Path:
    """Create a table with partitions by ds and hour; return its folder."""
    drivers.writer.sql(
        f"CREATE TABLE {RAW}.{name} (id INT, amount FLOAT, ds STRING, hour INT) USING {using} "
        "PARTITIONED BY (ds, hour)",
        f"INSERT INTO {RAW}.{name} VALUES {rows}",
    )
    return drivers.writer.folder(f"{RAW}.{name}")


def both(application: Application, source: str, target: str) -> tuple[Any, Any]:
    """Return what plain queries read of the source, refreshed for files put by hand, and copy."""
    application.sql(f"REFRESH TABLE {RAW}.{source}")
    columns = "id, amount, ds, hour"
    return (
        application.rows(f"SELECT {columns} FROM {RAW}.{source}"),
        application.rows(f"SELECT {columns} FROM {LAKE}.{target}"),
    )


def set_clock(application: Application, ahead_s: float) -> None:
    """Let the application's Python take the time for another, by so many seconds."""
    application.do(
        "import time\n"
        "true_time = globals().get('true_time', time.time)\n"
        f"time.time = lambda: true_time() + {ahead_s}"
    )


def parts(folder: Path) -> set[str]:
    """Return the folders of parts of a copy that are there, as run/part."""
    return {f"{one.parent.name}/{one.name}" for one in folder.glob("convert-*/part=*")}


@pytest.mark.nightly  # a minute and a half; units have the decisions
def test_copy_is_created_and_follows_what_is_new_rewritten_corrupt_wider_and_in_conflict(
    pair: Drivers,
) -> None:
    folder = create(pair, "sales", "(1, 1.5, 'a b', 1), (2, 2.5, 'a b', 2), (3, 3.5, NULL, 3)")
    planned = run(pair.writer, "sales", "sales", dry_run=True)
    assert len(planned["created"]) == 3
    assert ["sales"] not in [row[1:2] for row in pair.writer.rows(f"SHOW TABLES IN {LAKE}")]

    first = run(pair.writer, "sales", "sales", batch=2)
    assert sorted(first["created"]) == sorted(planned["created"])
    assert (first["rows"], first["quarantined"], first["passes"]) == (3, {}, 2)
    source, copy = both(pair.reader, "sales", "sales")
    assert len(source) == 3
    assert copy == source
    again = run(pair.writer, "sales", "sales")
    assert (again["created"], again["replaced"], again["unchanged"]) == ([], [], 3)

    # Rows that cannot be read are kept aside; many small files become one file.
    day = folder / "ds=a b" / "hour=1"
    for number in range(3):
        (day / f"late-{number}.csv").write_text(f"{10 + number},1.0\n")
    (day / "corrupt.csv").write_text("7,abc\n")
    late = run(pair.writer, "sales", "sales")
    assert late["replaced"] == ["ds=a b/hour=1"]
    assert (late["rows"], late["rows_rejected"]) == (4, 1)
    assert late["folders_deleted"] == 0
    (aside,) = late["rejected_in"]
    kept = pair.writer.rows(f"SELECT partition, file, record FROM json.`{aside}`")
    ((name, file, record),) = kept
    assert (name, record) == ("ds=a b/hour=1", "7,abc")
    assert file.endswith("/corrupt.csv")
    source, copy = both(pair.reader, "sales", "sales")
    assert copy == [row for row in source if row[0] != 7]
    lake = pair.writer.folder(f"{LAKE}.sales")
    assert [len(list(one.glob("*.parquet"))) for one in lake.glob("convert-*/part=*")] == [1] * 4

    # Columns that are new or wider.
    pair.writer.sql(f"ALTER TABLE {RAW}.sales ADD COLUMNS (note STRING)")
    (folder / "ds=a b" / "hour=2" / "more.csv").write_text("20,2.0,new\n")
    wider = run(pair.writer, "sales", "sales", keep_s=0.0)
    assert (wider["columns_added"], wider["replaced"]) == (["note"], ["ds=a b/hour=2"])
    query = f"SELECT id, note FROM {LAKE}.sales WHERE hour = 2"
    assert pair.reader.rows(query) == [[2, None], [20, "new"]]

    # What was replaced was kept until it was for long enough.
    assert wider["folders_deleted"] == 2
    assert len(parts(lake)) == 3
    source, copy = both(pair.reader, "sales", "sales")
    assert copy == [row for row in source if row[0] != 7]


@pytest.mark.nightly  # the copy's test keeps what was replaced for as long, by one clock
def test_clocks_that_differ_delete_nothing_early(pair: Drivers) -> None:
    day_s = 86_400.0
    folder = create(pair, "clocks", "(1, 1.5, 'x', 1)")
    run(pair.writer, "clocks", "clocks")
    late = folder / "ds=x" / "hour=1"
    try:
        for number, ahead_s in enumerate((0.0, day_s, -day_s)):
            set_clock(pair.writer, ahead_s)
            (late / f"{number}.csv").write_text(f"{10 + number},1.0\n")
            found = run(pair.writer, "clocks", "clocks")
            assert (len(found["replaced"]), found["folders_deleted"]) == (1, 0)
    finally:
        set_clock(pair.writer, 0.0)
    assert run(pair.writer, "clocks", "clocks")["folders_deleted"] == 0
    assert len(parts(pair.writer.folder(f"{LAKE}.clocks"))) == 4
    assert run(pair.writer, "clocks", "clocks", keep_s=0.0)["folders_deleted"] == 3
    source, copy = both(pair.reader, "clocks", "clocks")
    assert copy == source


@pytest.mark.nightly  # 30 s
def test_partition_that_cannot_be_converted_is_quarantined_and_the_others_are_converted(
    pair: Drivers,
) -> None:
    create(pair, "parts", "(1, 1.5, 'x', 1), (2, 2.5, 'x', 2), (3, 3.5, 'x', 3)", using="orc")
    folder = pair.writer.folder(f"{RAW}.parts")
    for file in (folder / "ds=x" / "hour=2").glob("*.orc"):
        file.write_bytes(b"no ORC")
    pair.writer.sql(
        f"CREATE TABLE {LAKE}.parts (id INT, amount FLOAT) PARTITIONED BY (ds STRING, hour INT) "
        "STORED AS ORC",
        f"INSERT INTO {LAKE}.parts VALUES (9, 9.5, 'x', 3)",
    )
    found = run(pair.writer, "parts", "parts")
    assert found["created"] == ["ds=x/hour=1"]
    assert sorted(found["quarantined"]) == ["ds=x/hour=2", "ds=x/hour=3"]
    assert "convert did not make" in found["quarantined"]["ds=x/hour=3"]
    assert pair.reader.rows(f"SELECT id FROM {LAKE}.parts") == [[1], [9]]

    # The columns of a table that convert has not made stay, unless it is named as the copy.
    pair.writer.sql(f"ALTER TABLE {RAW}.parts ADD COLUMNS (note STRING)")
    found = run(pair.writer, "parts", "parts")
    why = found["quarantined"]["ds=x/hour=2"]
    assert f"new or wider than in {LAKE}.parts: note; convert did not make it" in why
    assert found["columns_added"] == []
    assert pair.reader.rows(f"SELECT * FROM {LAKE}.parts") == [[1, 1.5, "x", 1], [9, 9.5, "x", 3]]
    owned = f"SET TBLPROPERTIES ('topicast.convert.from' = '{RAW}.parts')"
    pair.writer.sql(f"ALTER TABLE {LAKE}.parts {owned}")
    assert run(pair.writer, "parts", "parts")["columns_added"] == ["note"]

    create(pair, "typed", "(1, 1.5, 'x', 1)")
    run(pair.writer, "typed", "typed")
    pair.writer.sql(
        f"DROP TABLE {RAW}.typed",
        f"CREATE TABLE {RAW}.typed (id BIGINT, amount STRING, ds STRING, hour INT) USING csv "
        "PARTITIONED BY (ds, hour)",
        f"INSERT INTO {RAW}.typed VALUES (2, 'much', 'x', 2)",
    )
    conflict = run(pair.writer, "typed", "typed")
    why = "column amount is string in the source and float in the copy"
    assert why in conflict["quarantined"]["ds=x/hour=2"]
    assert pair.reader.rows(f"SELECT id FROM {LAKE}.typed") == [[1]]


@pytest.mark.nightly
def test_run_that_dies_at_any_step_is_made_good_by_the_next_run(pair: Drivers) -> None:
    """Given a run that replaces a partition and creates another, as ``kill -9`` would leave it."""
    folder = create(pair, "fragile", "(1, 1.5, 'x', 1)")
    run(pair.writer, "fragile", "fragile")
    for number, step in enumerate(STEPS):
        (folder / "ds=x" / "hour=1" / f"{step}.csv").write_text(f"{10 + number},1.0\n")
        pair.writer.sql(f"INSERT INTO {RAW}.fragile VALUES ({20 + number}, 2.0, '{step}', 1)")
        assert pair.writer.do(f"killed({step!r}, 'fragile', 'fragile')"), step
        found = run(pair.writer, "fragile", "fragile", keep_s=0.0)
        assert found["quarantined"] == {}
        source, copy = both(pair.reader, "fragile", "fragile")
        assert copy == source, step
    run(pair.writer, "fragile", "fragile", keep_s=0.0)
    assert len(parts(pair.writer.folder(f"{LAKE}.fragile"))) == 1 + len(STEPS)


@pytest.mark.nightly
def test_source_that_changes_its_columns_or_is_dropped_midway_leaves_no_half_done_copy(
    pair: Drivers,
) -> None:
    create(pair, "moving", "(1, 1.5, 'x', 1)")
    pair.writer.do(
        "def once(statement):\n"
        "    def change():\n"
        "        if not done:\n"
        "            done.append(spark.sql(statement))\n"
        "    done = []\n"
        "    return change"
    )
    add = f"ALTER TABLE {RAW}.moving ADD COLUMNS (note STRING)"
    found = pair.writer.do(f"run('moving', 'moving', at='written', how=once({add!r}))")
    assert (found["created"], found["columns_added"]) == (["ds=x/hour=1"], ["note"])
    assert pair.reader.rows(f"SELECT id, note FROM {LAKE}.moving") == [[1, None]]
    pair.writer.sql(f"INSERT INTO {RAW}.moving VALUES (2, 2.5, 'new', 'x', 2)")
    drop = f"DROP TABLE {RAW}.moving"
    with pytest.raises(Failed, match=r"SourceError|NoSuchObject"):
        pair.writer.do(f"run('moving', 'moving', at='written', how=once({drop!r}))")
    assert pair.reader.rows(f"SELECT id, note FROM {LAKE}.moving") == [[1, None]]


@pytest.mark.nightly  # 30 s
def test_second_run_is_refused_and_a_run_that_was_paused_changes_nothing(pair: Drivers) -> None:
    folder = create(pair, "paused", "(1, 1.5, 'x', 1)")
    pair.writer.send("run('paused', 'paused', at='ready', how=pause)")
    pid = pair.writer.pids[0]
    stat = Path(f"/proc/{pid}/stat")
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", timeout_s=60)
    try:
        with pytest.raises(Failed, match=f"paused is held by convert from .* process {pid}"):
            run(pair.reader, "paused", "paused")
        (folder / "ds=x" / "hour=1" / "late.csv").write_text("2,2.0\n")
        done = until(lambda: attempted(pair.reader), timeout_s=60, interval_s=QUERY_S)
        assert done["created"] == ["ds=x/hour=1"]
    finally:
        os.kill(pid, signal.SIGCONT)
    with pytest.raises(Failed, match="LeaseHeld"):
        pair.writer.receive()
    source, copy = both(pair.reader, "paused", "paused")
    assert copy == source == [[1, 1.5, "x", 1], [2, 2.0, "x", 1]]


def attempted(application: Application) -> dict[str, Any] | None:
    try:
        return run(application, "paused", "paused")
    except Failed:
        return None


@pytest.mark.nightly
def test_stream_converts_what_another_application_adds_until_it_is_stopped(
    pair: Drivers,
) -> None:
    create(pair, "flow", "(1, 1.5, 'x', 1)")
    pair.writer.do(
        "stop, reports = threading.Event(), []\n"
        "stream = threading.Thread(target=lambda: reports.append("
        "run('flow', 'flow', once=False, stop=stop)))\n"
        "stream.start()"
    )
    query = f"SELECT id FROM {LAKE}.flow"
    until(lambda: pair.reader.rows(query) == [[1]], timeout_s=60, interval_s=QUERY_S)
    pair.writer.sql(f"INSERT INTO {RAW}.flow VALUES (2, 2.5, 'x', 2)")
    until(lambda: pair.reader.rows(query) == [[1], [2]], timeout_s=60, interval_s=QUERY_S)
    report = pair.writer.do("stop.set()\nstream.join()\nreports[0]")
    assert sorted(report["created"]) == ["ds=x/hour=1", "ds=x/hour=2"]


@pytest.mark.nightly  # it makes the pair of the others
@pytest.mark.parametrize(
    ("source", "target", "options", "problem"),
    [
        ("nowhere", "copy", {}, "NoSuchObject"),
        ("whole", "copy", {}, "has no partitions"),
        ("whole", "copy", {"file_format": "csv"}, "parquet or orc"),
        ("whole", "copy", {"batch": 0}, "batch=0 is not valid: 1 or more"),
        ("days", "other", {}, "is the converted copy of"),
    ],
)
def test_what_cannot_be_a_pair_is_refused_and_changes_nothing(
    pair: Drivers, source: str, target: str, options: dict[str, Any], problem: str
) -> None:
    key = f"TBLPROPERTIES ('topicast.convert.from' = '{RAW}.strange')"
    pair.writer.sql(
        f"CREATE TABLE IF NOT EXISTS {RAW}.whole (id INT) USING csv",
        f"CREATE TABLE IF NOT EXISTS {RAW}.days (id INT, ds INT) USING csv PARTITIONED BY (ds)",
        f"CREATE TABLE IF NOT EXISTS {LAKE}.other (id INT) PARTITIONED BY (ds INT) "
        f"STORED AS PARQUET {key}",
    )
    with pytest.raises(Failed, match=problem):
        run(pair.writer, source, target, **options)
    tables = [row[1] for row in pair.writer.rows(f"SHOW TABLES IN {LAKE}")]
    assert "copy" not in tables


@pytest.mark.nightly  # the quickstart's chapter runs the same commands in make test
def test_worked_example_of_the_documentation_does_what_it_says(
    drivers: Drivers, hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    _, chapter = DOCUMENT.read_text(encoding="utf-8").split("\n## Tables in another format\n")
    blocks = BLOCK.findall(chapter.partition("\n## ")[0])
    assert [language for language, _ in blocks] == ["sql", "sh", "", "python"]
    statements, line, shown, code = (text for _, text in blocks)
    drivers.writer.sql("CREATE DATABASE raw", "CREATE DATABASE lake")
    drivers.writer.sql(*(one for one in statements.split(";") if one.strip()))
    (tmp_path / "scratch").mkdir()
    environment = {
        **quick_environment(),
        "TOPICAST_STATESTORES": drivers.daemons.hub_address,
        "PYSPARK_SUBMIT_ARGS": submit_arguments(tmp_path, hive.uri),
    }
    report = tmp_path / "report.json"
    name, *arguments = shlex.split(line)
    assert name == "topicast"
    line_of = command("main", *arguments, f"--report={report}")
    environment = {**os.environ, **environment}
    done = subprocess.run(
        line_of, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = [one for one in done.stdout.splitlines() if not one.startswith("raw.events to")]
    assert printed == shown.splitlines()[1:]
    assert json.loads(report.read_text())["rows"] == 2
    query = "SELECT id, city, amount, ds FROM lake.events"
    rows = [[1, "Rome", 2.5, "2026-11-01"], [2, "Oslo", 4.0, "2026-11-02"]]
    assert drivers.reader.rows(query) == rows
    drivers.writer.sql("INSERT INTO raw.events VALUES (3, 'Bonn', 1.0, '2026-11-02')")
    drivers.writer.do(
        f"import os; os.environ['TOPICAST_STATESTORES'] = {drivers.daemons.hub_address!r}"
    )
    drivers.writer.do(code)
    assert len(drivers.reader.rows(query)) == 3
