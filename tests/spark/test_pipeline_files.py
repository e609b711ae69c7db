"""Files that are put by hand under tables: found by a sweep, reported once, read by drivers."""

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from topicast.tests.spark.applications import Application
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

DB = "swept"


@pytest.fixture(scope="module")
def sweeper(drivers: Drivers) -> Iterator[Application]:
    """An application that sweeps; the other one reads, attached."""
    address = drivers.daemons.hub_address
    drivers.reader.do(f"handle = attach(spark, {address!r})")
    drivers.writer.do(
        f"""
from topicast.subscriber.pipeline.files import files
def sweep(**more):
    found = files(spark, {DB!r}, statestores={address!r}, **more).as_dict()
    found.pop("seconds")
    return found
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


def location(application: Application, table: str) -> Path:
    found = application.do(f"spark.sql('DESCRIBE FORMATTED {DB}.{table}').collect()")
    text = next(row[1] for row in found if row[0] == "Location")
    return Path(str(text).removeprefix("file://").removeprefix("file:"))


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

    sales, names = location(sweeper, "sales"), (f"{number}.parquet" for number in count())

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

    stock = location(sweeper, "stock")
    next(stock.glob("part-*.parquet")).unlink()
    assert changed(sweeper) == [f"{DB}.stock"]
    until(lambda: drivers.reader.rows(f"SELECT * FROM {DB}.stock") == [], timeout_s=20)


def test_watch_reports_what_is_put_by_hand_and_drivers_read_it_without_another_sweep(
    drivers: Drivers, sweeper: Application
) -> None:
    changed(sweeper)
    sales, stock = location(sweeper, "sales"), location(sweeper, "stock")
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


def test_write_that_its_driver_reported_is_no_change_for_a_sweep(
    drivers: Drivers, sweeper: Application
) -> None:
    changed(sweeper)
    drivers.reader.sql(f"INSERT INTO {DB}.sales VALUES (5, '2')")  # attached, so it reports
    found = sweeper.do("sweep()")
    assert found["changed"] == []
    there = [len(list(location(sweeper, name).rglob("*.parquet"))) for name in ("sales", "stock")]
    assert found["files"] == sum(there)


def test_folder_that_is_no_partition_is_shown_and_added_only_if_that_is_wanted(
    drivers: Drivers, sweeper: Application
) -> None:
    sales = location(sweeper, "sales")
    put_by_hand(sales / "ds=1", sales / "ds=it's %", "x.parquet")
    (sales / "notes").mkdir()
    found = sweeper.do("sweep()")
    assert sorted(Path(one).name for one in found["no_partition"]) == ["ds=it's %", "notes"]
    assert found["added"] == []
    assert sweeper.do("sweep(dry_run=True)")["requests"] == 0
    found = sweeper.do("sweep(add_partitions=True)")
    assert found["added"] == [f"{DB}.sales/ds=it%27s %25"]
    assert [Path(one).name for one in found["no_partition"]] == ["notes"]


def test_folder_that_does_not_exist_has_no_files_and_one_that_cannot_be_listed_says_why(
    drivers: Drivers, sweeper: Application, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    sweeper.sql(f"ALTER TABLE {DB}.sales ADD PARTITION (ds='9') LOCATION '{gone}'")
    gone.rmdir()
    until(lambda: sweeper.do("sweep(dry_run=True)")["partitions"] == 4, timeout_s=20)
    found = sweeper.do("sweep()")
    assert found["missing"] == [f"{DB}.sales/ds=9"]
    assert found["files"] > 0
    here = location(sweeper, "stock")
    listed = sweeper.do(
        "from topicast.subscriber.pipeline.sweep.listing import Lister\n"
        f"[(one.problem, len(one.entries)) for one in Lister(spark).files("
        f"['nosuch://host/x', {str(gone)!r}, {str(here.parent)!r}])]"
    )
    assert "nosuch" in listed[0][0]
    assert listed[1] == ["does not exist", 0]
    assert (listed[2][0], listed[2][1] > 0) == ("", True)
