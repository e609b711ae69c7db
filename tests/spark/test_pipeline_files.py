"""Files that are put by hand under tables: found by a sweep, reported once, read by drivers."""

import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.spark.applications import Application, applications
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

DB = "swept"


@pytest.fixture(scope="module")
def sweeper(drivers: Drivers) -> Iterator[Application]:
    """An application that sweeps; the other one reads, attached."""
    address = drivers.daemons.hub_address
    drivers.reader.do(f"handle = attach(spark, {address!r})")
    drivers.writer.do("attach(spark).detach()")  # whatever other modules have attached, and set
    drivers.writer.sql("SET spark.sql.statistics.size.autoUpdate.enabled=false")
    drivers.writer.do(
        f"""
from topicast.pipeline.files import files
def sweep(pattern={DB!r}, **more):
    found = files(spark, pattern, statestores={address!r}, **more).as_dict()
    found.pop("seconds")
    return found
from topicast.pipeline.sweep.known import known_at
def known_facts(address, table):
    "How many partitions an interrupted run has got to, and what is known of all."
    with known_at(address) as known:
        facts = [one for _, page in known.facts(table) for one in page]
        state = known.swept().get(table)
        reached = [one.partition for one in facts if state and one.partition <= state.open_until]
        return len(reached), [(one.partition, one.fingerprint, one.files) for one in facts]
"""
    )
    drivers.writer.sql(
        f"CREATE DATABASE {DB}",
        f"CREATE TABLE {DB}.sales (id INT) PARTITIONED BY (ds STRING) STORED AS PARQUET",
        f"CREATE TABLE {DB}.stock (id INT) STORED AS PARQUET",
        f"INSERT INTO {DB}.sales VALUES (1, '1'), (2, '2')",
        f"INSERT INTO {DB}.stock VALUES (7)",
        f"CREATE VIEW {DB}.everything AS SELECT * FROM {DB}.sales",
    )
    yield drivers.writer
    drivers.reader.do("handle.detach()")


def put_by_hand(folder: Path, to: Path, name: str) -> None:
    """Copy a file without Spark and without the metastore."""
    part = next(folder.glob("part-*.parquet"))
    to.mkdir(exist_ok=True)
    shutil.copyfile(part, to / f".{name}")
    Path(to / f".{name}").replace(to / name)


def changed(application: Application, **more: Any) -> list[str]:
    return sorted(application.do(f"sweep(**{more!r})")["changed"])


def test_driver_reads_files_that_were_put_by_hand_after_one_sweep_and_each_change_counts_once(
    drivers: Drivers, sweeper: Application
) -> None:
    rows = f"SELECT count(*) FROM {DB}.sales"
    until(lambda: drivers.reader.rows(rows) == [[2]], timeout_s=60)
    first = sweeper.do("sweep()")
    assert (first["tables"], first["partitions"], first["files"]) == (2, 2, 3)
    assert first["changed"] == [f"{DB}.stock"]  # the writer is not attached, and Hive says nothing
    assert first["requests"] == first["requests_predicted"] == 4

    sales, names = sweeper.folder(f"{DB}.sales"), (f"{number}.parquet" for number in count())

    def is_unnoticed() -> bool:
        """Put a file; without a sweep the reader does not see it, once it has cached the others."""
        before = drivers.reader.rows(rows)
        put_by_hand(sales / "ds=1", sales / "ds=1", next(names))
        return drivers.reader.rows(rows) == before

    until(is_unnoticed, timeout_s=60)
    assert changed(sweeper) == [f"{DB}.sales/ds=1"]
    there = len(list(sales.glob("ds=*/*.parquet")))
    until(lambda: drivers.reader.rows(rows) == [[there]], timeout_s=20)
    assert changed(sweeper) == []

    days = ("ds=1", "ds=2")
    for day in days:
        put_by_hand(sales / "ds=1", sales / day, next(names))
    each = [f"{DB}.sales/{day}" for day in days]
    assert changed(sweeper, max_requests_per_second=1) == each  # in batches of one partition

    stock = sweeper.folder(f"{DB}.stock")
    next(stock.glob("part-*.parquet")).unlink()
    assert changed(sweeper) == [f"{DB}.stock"]
    until(lambda: drivers.reader.rows(f"SELECT * FROM {DB}.stock") == [], timeout_s=20)


def test_run_lists_what_has_changed_since_the_last_run_and_full_lists_everything(
    sweeper: Application,
) -> None:
    sweeper.sql(
        f"CREATE TABLE {DB}.many (id INT) PARTITIONED BY (ds INT) STORED AS PARQUET",
        f"INSERT INTO {DB}.many SELECT id, id FROM range(40)",
    )
    only = "sweep(pattern='swept.many'%s)"
    many = sweeper.folder(f"{DB}.many")

    def settled() -> bool:
        """Return whether a run lists nothing but the folder of the table."""
        found = sweeper.do(only % "")
        return found["listed"] == 0 and found["requests"] == 1

    until(settled, timeout_s=60)
    assert sweeper.do(only % ", dry_run=True")["requests_predicted"] == 1
    sweeper.sql(f"ALTER TABLE {DB}.many ADD PARTITION (ds=40)")
    sweeper.sql(f"ALTER TABLE {DB}.many PARTITION (ds=3) SET LOCATION '{many / 'ds=1'}'")
    found = sweeper.do(only % "")
    assert (found["listed"], found["requests"], found["files"]) == (2, 3, 40)
    sweeper.sql(f"ALTER TABLE {DB}.many PARTITION (ds=3) SET LOCATION '{many / 'ds=3'}'")
    until(settled, timeout_s=60)
    put_by_hand(many / "ds=1", many / "ds=2", "by-hand.parquet")
    found = sweeper.do(only % "")
    assert found["changed"] == [f"{DB}.many/ds=2"]
    assert (found["listed"], found["requests"], found["files"]) == (1, 2, 41)
    until(settled, timeout_s=60)

    part = next((many / "ds=5").glob("part-*.parquet"))
    part.write_bytes(part.read_bytes() + b"x")  # in place, so that its folder has the same time
    assert sweeper.do(only % "")["changed"] == []
    assert sweeper.do(only % ", full=True, dry_run=True")["requests_predicted"] == 42
    found = sweeper.do(only % ", full=True")
    assert found["changed"] == [f"{DB}.many/ds=5"]
    assert (found["listed"], found["requests"], found["requests_predicted"]) == (41, 42, 42)
    sweeper.sql(f"DROP TABLE {DB}.many")


@pytest.mark.nightly
def test_what_is_known_of_many_partitions_that_are_gone_is_read_and_discarded_in_batches(
    drivers: Drivers, sweeper: Application
) -> None:
    """One message names 65,536 of them at most."""
    sweeper.sql(
        f"CREATE TABLE {DB}.shrunk (id INT) PARTITIONED BY (ds INT) STORED AS PARQUET",
        f"INSERT INTO {DB}.shrunk SELECT id, id FROM range(40)",
    )
    assert sweeper.do("sweep(pattern='swept.shrunk')")["listed"] == 40
    gone = ", ".join(f"PARTITION (ds={day})" for day in range(13, 40))
    sweeper.sql(f"ALTER TABLE {DB}.shrunk DROP {gone}")
    sweeper.do(
        """
from topicast.pipeline.sweep.known import KnownFiles
send, sizes = KnownFiles.send, []
def counted(self, table, revision, facts, *, removed, **more):
    sizes.append(len(removed))
    return send(self, table, revision, facts, removed=removed, **more)
KnownFiles.send = counted
"""
    )
    found = sweeper.do("sweep(pattern='swept.shrunk', max_requests_per_second=4)")
    sizes = sweeper.do("KnownFiles.send = send\nsizes")
    assert (found["partitions"], found["files"], found["changed"]) == (13, 13, [])
    assert (sum(sizes), max(sizes) <= 8) == (27, True), sizes  # batches of 4, and a full one more
    facts = sweeper.do(f"known_facts({drivers.daemons.hub_address!r}, '{DB}.shrunk')[1]")
    assert len(facts) == 13
    sweeper.sql(f"DROP TABLE {DB}.shrunk")


@pytest.mark.nightly
def test_folder_beside_that_of_a_partition_and_of_the_same_value_hides_no_change(
    sweeper: Application,
) -> None:
    sweeper.sql(
        f"CREATE TABLE {DB}.twice (id INT) PARTITIONED BY (ds INT) STORED AS PARQUET",
        f"INSERT INTO {DB}.twice SELECT id, id FROM range(10)",
    )
    twice, only = sweeper.folder(f"{DB}.twice"), "sweep(pattern='swept.twice')"
    for day in range(10):
        (twice / f"ds=0{day}").mkdir()
    until(lambda: sweeper.do(only)["listed"] == 0, timeout_s=60)
    for day in range(10):
        put_by_hand(twice / "ds=1", twice / f"ds={day}", "by-hand.parquet")
    assert sorted(sweeper.do(only)["changed"]) == [f"{DB}.twice/ds={day}" for day in range(10)]
    sweeper.sql(f"DROP TABLE {DB}.twice")


@pytest.mark.nightly
def test_file_that_seems_older_than_a_write_is_found_where_a_sweep_came_between(
    sweeper: Application,
) -> None:
    """Object stores keep whole seconds: here both times are set to before readers were notified."""
    sweeper.sql(
        f"CREATE TABLE {DB}.seconds (id INT, ds STRING) USING parquet PARTITIONED BY (ds)",
        f"INSERT INTO {DB}.seconds VALUES (1, '1')",
    )
    only = "sweep(pattern='swept.seconds', full=True)"
    until(lambda: sweeper.do(only)["changed"] == [], timeout_s=60)
    folder = sweeper.folder(f"{DB}.seconds") / "ds=1"
    put_by_hand(folder, folder, "by-hand.parquet")
    for path in (folder / "by-hand.parquet", folder):
        os.utime(path, (1, 1))
    assert sweeper.do(only)["changed"] == [f"{DB}.seconds/ds=1"]
    assert sweeper.do(only)["changed"] == []
    sweeper.sql(f"DROP TABLE {DB}.seconds")


@pytest.mark.nightly
def test_table_of_a_source_is_listed_where_spark_reads_it(
    sweeper: Application, tmp_path: Path
) -> None:
    """Of these the metastore names a folder that does not exist."""
    sweeper.sql(
        f"CREATE TABLE {DB}.flat (id INT) USING csv LOCATION '{tmp_path / 'flat'}'",
        f"CREATE TABLE {DB}.daily (id INT, ds INT) USING csv PARTITIONED BY (ds)"
        f" LOCATION '{tmp_path / 'daily'}'",
        f"INSERT INTO {DB}.flat VALUES (1)",
        f"INSERT INTO {DB}.daily VALUES (1, 1)",
    )
    (tmp_path / "daily" / "notes").mkdir()
    both = "sweep(pattern='swept.flat'), sweep(pattern='swept.daily')"
    flat, daily = sweeper.do(both)
    assert (flat["files"], daily["files"], flat["missing"], daily["missing"]) == (1, 1, [], [])
    assert [Path(one).name for one in daily["no_partition"]] == ["notes"]
    until(lambda: sweeper.do(both)[1]["listed"] == 0, timeout_s=60)
    for folder in (tmp_path / "flat", tmp_path / "daily" / "ds=1"):
        (folder / "by-hand.csv").write_text("2\n")
    flat, daily = sweeper.do(both)
    assert (flat["changed"], daily["changed"]) == ([f"{DB}.flat"], [f"{DB}.daily/ds=1"])
    sweeper.sql(f"DROP TABLE {DB}.flat", f"DROP TABLE {DB}.daily")


@pytest.mark.nightly
@pytest.mark.parametrize("full", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_run_after_a_killed_run_lists_what_was_left_and_ends_as_a_run_that_was_not_killed(
    drivers: Drivers, hive: EmbeddedMetastore, sweeper: Application, tmp_path: Path, *, full: bool
) -> None:
    sweeper.sql(
        f"CREATE TABLE {DB}.large (id INT) PARTITIONED BY (ds INT) STORED AS PARQUET",
        f"INSERT INTO {DB}.large SELECT id, id FROM range(60)",
    )
    address = drivers.daemons.hub_address
    facts = f"known_facts({address!r}, '{DB}.large')"
    if full:
        assert sweeper.do("sweep(pattern='swept.large')")["listed"] == 60
    with applications(tmp_path, hive.uri, killed={}) as started:
        started["killed"].send(
            "from topicast.pipeline.files import files\n"
            f"files(spark, '{DB}.large', statestores={address!r}, full={full},"
            f" max_requests_per_second=10)"
        )
        until(lambda: 20 <= sweeper.do(facts + "[0]") < 60, timeout_s=60)
        started["killed"].kill()
    handed = sweeper.do(facts + "[0]")
    found = sweeper.do(f"sweep(pattern='swept.large', full={full})")
    assert found["continued"] == full
    assert (found["listed"], found["files"]) == (60 - handed, 60)
    resumed = sweeper.do(facts + "[1]")
    assert sweeper.do("sweep(pattern='swept.large', full=True)")["listed"] == 60
    assert sweeper.do(facts + "[1]") == resumed
    sweeper.sql(f"DROP TABLE {DB}.large")


def test_watch_reports_what_is_put_by_hand_and_drivers_read_it_without_another_sweep(
    drivers: Drivers, sweeper: Application
) -> None:
    changed(sweeper)
    sales, stock = sweeper.folder(f"{DB}.sales"), sweeper.folder(f"{DB}.stock")
    sweeper.do(
        """
import threading
ended, seen = threading.Event(), []
watching = threading.Thread(target=lambda: seen.append(sweep(
    watch=True, add_partitions=True, stop=ended, on_change=seen.append
)))
watching.start()
"""
    )
    rows = f"SELECT count(*) FROM {DB}.sales"
    before = drivers.reader.rows(rows)[0][0]
    part = next((sales / "ds=1").glob("part-*.parquet"))

    def is_seen(name: str) -> bool:
        return name in sweeper.do("seen")

    put_by_hand(sales / "ds=1", sales / "ds=2", "watched-1.parquet")
    until(lambda: is_seen(f"{DB}.sales/ds=2"), timeout_s=30)
    until(lambda: drivers.reader.rows(rows) == [[before + 1]], timeout_s=30)
    put_by_hand(sales / "ds=1", sales / "ds=new", "watched-2.parquet")
    until(lambda: drivers.reader.rows(rows) == [[before + 2]], timeout_s=30)
    put_by_hand(sales / "ds=1", stock, "watched-3.parquet")
    until(lambda: is_seen(f"{DB}.stock"), timeout_s=30)
    part.replace(part.with_name("part-renamed.parquet"))
    until(lambda: is_seen(f"{DB}.sales/ds=1"), timeout_s=30)
    until(lambda: drivers.reader.rows(rows) == [[before + 2]], timeout_s=30)
    sweeper.do("ended.set(); watching.join(30); assert not watching.is_alive()")
    report = sweeper.do("seen[-1]")
    assert report["added"] == [f"{DB}.sales/ds=new"]
    assert report["unreadable"] == {}
    assert changed(sweeper) == []
    shutil.rmtree(sales / "ds=new")
    sweeper.sql(f"ALTER TABLE {DB}.sales DROP PARTITION (ds='new')")


LOSSY = """
from topicast.subscriber.client.conversation import Conversation
from topicast.topics.errors import NotReady
from topicast.topics.wire.messages.reports import Swept

def lossy(requested, lost):
    def request(self, message, kind, *, timeout_s):
        answer = requested(self, message, kind, timeout_s=timeout_s)
        if kind is Swept and not lost:
            lost.append(answer)
            raise NotReady("the answer was lost")
        return answer
    return request

requested = Conversation.request
"""


def test_change_whose_answer_was_lost_is_named_once(sweeper: Application) -> None:
    stock = sweeper.folder(f"{DB}.stock")
    put_by_hand(sweeper.folder(f"{DB}.sales") / "ds=1", stock, "lossy.parquet")
    sweeper.do(LOSSY + "Conversation.request = lossy(requested, lost := [])")
    assert changed(sweeper, pattern=f"{DB}.stock") == [f"{DB}.stock"]
    assert sweeper.do("Conversation.request = requested\n[one.kept for one in lost]") == [True]
    assert changed(sweeper, pattern=f"{DB}.stock") == []


@pytest.mark.nightly
def test_changes_behind_a_change_whose_answer_was_lost_are_named_too(sweeper: Application) -> None:
    """Given batches of one partition: the report of the first is no notice of the second."""
    changed(sweeper)
    sales = sweeper.folder(f"{DB}.sales")
    for day in ("ds=1", "ds=2"):
        put_by_hand(sales / "ds=1", sales / day, "lossy.parquet")
    sweeper.do(LOSSY + "Conversation.request = lossy(requested, lost := [])")
    found = changed(sweeper, pattern=f"{DB}.sales", max_requests_per_second=1)
    assert sweeper.do("Conversation.request = requested\n[one.kept for one in lost]") == [True]
    assert found == [f"{DB}.sales/ds=1", f"{DB}.sales/ds=2"]


def test_folders_of_a_local_disk_are_as_hadoop_has_them(
    sweeper: Application, tmp_path: Path
) -> None:
    names = ("ds=1", "ds=it's %2F", "a b", "_hidden", ".hidden", "ds=é", "x=#?", "a:b")
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ds=1")
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    (tmp_path / "file").touch()
    sweeper.do(
        """
from topicast.pipeline.sweep.listing import Lister
def shown(found):
    return [
        sorted([at.path, at.modified_ms] for at in one.entries if at.is_folder) for one in found
    ]
lister = Lister(spark)
"""
    )
    for scheme in ("", "file:", "file://"):
        for place in (f"{scheme}{tmp_path}", f"{scheme}{tmp_path}/"):
            (here,) = sweeper.do(f"shown(lister.folders([{place!r}]))")
            assert [here] == sweeper.do(f"shown(lister.entries([{place!r}]))"), place
            assert len(here) == len(names) + 1
    wrong = [str(tmp_path / name) for name in ("gone", "file")]
    assert sweeper.do(f"[one.problem for one in lister.folders({wrong!r})]") == [
        "does not exist",
        "",
    ]


@pytest.mark.nightly
def test_write_that_its_driver_reported_is_no_change_for_a_sweep(
    drivers: Drivers, sweeper: Application
) -> None:
    changed(sweeper)
    drivers.reader.sql(f"INSERT INTO {DB}.sales VALUES (5, '2')")  # attached, so it reports
    found = sweeper.do("sweep()")
    assert found["changed"] == []
    folders = [sweeper.folder(f"{DB}.{name}") for name in ("sales", "stock")]
    there = [len(list(one.rglob("*.parquet"))) for one in folders]
    assert found["files"] == sum(there)


def test_folder_that_is_no_partition_is_shown_and_added_only_if_that_is_wanted(
    drivers: Drivers, sweeper: Application
) -> None:
    sales = sweeper.folder(f"{DB}.sales")
    put_by_hand(sales / "ds=1", sales / "ds=it's %", "x.parquet")
    (sales / "notes").mkdir()
    found = sweeper.do("sweep()")
    assert sorted(Path(one).name for one in found["no_partition"]) == ["ds=it's %", "notes"]
    assert found["added"] == []
    assert sweeper.do("sweep(dry_run=True)")["requests"] == 0
    found = sweeper.do("sweep(add_partitions=True)")
    assert found["added"] == [f"{DB}.sales/ds=it%27s %25"]
    assert [Path(one).name for one in found["no_partition"]] == ["notes"]


@pytest.mark.nightly
def test_folders_of_any_name_and_of_convert_stop_no_sweep(sweeper: Application) -> None:
    sweeper.sql(
        f"CREATE TABLE {DB}.odd (id INT) PARTITIONED BY (n INT) STORED AS PARQUET "
        "TBLPROPERTIES ('topicast.convert.from' = 'raw.odd')"
    )
    odd = sweeper.folder(f"{DB}.odd")
    for name in ("n=abc", "n=007", "n=8", "=x", "x=1", "n=1=2", "convert-1/part=2", "convert-2"):
        (odd / name).mkdir(parents=True)
    place = odd / "convert-1" / "part=2"
    sweeper.sql(f"ALTER TABLE {DB}.odd ADD PARTITION (n=1) LOCATION '{place}'")
    put_by_hand(sweeper.folder(f"{DB}.sales") / "ds=1", place, "x.parquet")
    one = "sweep(pattern='swept.odd'%s)"
    until(lambda: sweeper.do(one % ", dry_run=True")["partitions"] == 1, timeout_s=20)
    found = sweeper.do(one % "")
    assert sorted(Path(folder).name for folder in found["no_partition"]) == [
        "=x",
        "n=007",
        "n=1=2",
        "n=8",
        "n=abc",
        "x=1",
    ]
    assert (found["files"], found["unreadable"]) == (1, {})
    found = sweeper.do(one % ", add_partitions=True")
    assert sorted(found["added"]) == [f"{DB}.odd/n=7", f"{DB}.odd/n=8"]
    ((folder, why),) = found["unreadable"].items()
    assert (Path(folder).name, "it cannot be added: " in why) == ("n=abc", True)
    until(lambda: sweeper.do(one % ", dry_run=True")["partitions"] == 3, timeout_s=20)
    assert sweeper.do(one % ", add_partitions=True")["added"] == []
    sweeper.sql(f"DROP TABLE {DB}.odd")


def test_folder_that_does_not_exist_has_no_files_and_an_unreadable_folder_says_why(
    drivers: Drivers, sweeper: Application, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    sweeper.sql(f"ALTER TABLE {DB}.sales ADD PARTITION (ds='9') LOCATION '{gone}'")
    gone.rmdir()
    until(lambda: sweeper.do("sweep(dry_run=True)")["partitions"] == 4, timeout_s=20)
    found = sweeper.do("sweep()")
    assert found["missing"] == [f"{DB}.sales/ds=9"]
    assert found["files"] > 0
    here = sweeper.folder(f"{DB}.stock")
    listed = sweeper.do(
        "from topicast.pipeline.sweep.listing import Lister\n"
        f"[(one.problem, len(one.entries)) for one in Lister(spark).files("
        f"['nosuch://host/x', {str(gone)!r}, {str(here.parent)!r}])]"
    )
    assert "nosuch" in listed[0][0]
    assert listed[1] == ["does not exist", 0]
    assert (listed[2][0], listed[2][1] > 0) == ("", True)
