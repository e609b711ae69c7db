"""Attached Spark drivers of both releases, on servers that are upgraded below them."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from topicast.tests.cli.processes import command
from topicast.tests.hive.releases import RealMetastore
from topicast.tests.spark.applications import Application, applications
from topicast.tests.upgrade.fleet import NEW, OLD, Fleet
from topicast.tests.waiting import until

TABLE = "rolling.t"
PACKAGE = "import topicast, os; os.path.dirname(topicast.__file__)"


@pytest.fixture
def drivers(fleet: Fleet, hive: RealMetastore, tmp_path: Path) -> Iterator[dict[str, Application]]:
    """A driver of each release, by its name, attached by ``topicast run`` and nothing else."""
    key = fleet.admit(OLD, "etl")
    with ExitStack() as up:
        found = {}
        for release in (OLD, NEW):
            path = [] if release.folder is None else [f"PYTHONPATH={release.folder}"]
            own = ("env", f"TOPICAST_KEY_FILE={key}", *path)
            run = (*own, *command("main", "run", f"--statestores={','.join(fleet.hubs)}", "--"))
            one = applications(tmp_path, hive.uri, under=run, **{release.name: {}})
            found |= up.enter_context(one)
            assert Path(found[release.name].do(PACKAGE)) == release.package
        yield found


def reads(reader: Application, rows: list[list[object]]) -> bool:
    """Return whether a query returns ``rows``, and no error."""
    return bool(reader.rows(f"TABLE {TABLE}") == rows)


def each_reads_what_the_other_writes(drivers: dict[str, Application], step: int) -> None:
    """Rows that are added leave no event in the metastore; files that are replaced fail queries."""
    for name, writer in drivers.items():
        for how, count in (("OVERWRITE", 1), ("INTO", 2)):
            writer.sql(f"INSERT {how} {TABLE} VALUES ({step}, '{name}')")
            rows: list[list[object]] = [[step, name]] * count
            for other, reader in drivers.items():
                until(partial(reads, reader, rows), what=f"{step}: of {name} in {other}")


def test_attached_drivers_read_on_while_the_servers_are_upgraded(
    fleet: Fleet, drivers: dict[str, Application]
) -> None:
    drivers["old"].sql(
        "CREATE DATABASE rolling", f"CREATE TABLE {TABLE} (id INT, who STRING) USING parquet"
    )
    each_reads_what_the_other_writes(drivers, 0)
    for step, name in enumerate(("hub-1", "hub-2", "catalogd"), start=1):
        fleet.replace(NEW, name)
        each_reads_what_the_other_writes(drivers, step)
    drivers["new"].sql("DROP DATABASE rolling CASCADE")
