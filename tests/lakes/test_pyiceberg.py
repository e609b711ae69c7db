"""pyiceberg's Hive catalog beside a driver that plans from memory: each commits on the other's.

pyiceberg runs in a process of its own, as another application. All commits take the metastore's
locks, for which only a metastore that Hive's own tool has set up has tables: that of Hive 3.1.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from topicast.tests.hive.releases import ReleasedMetastore
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.lakes.lakes import PACKAGES, PLANNING, WAIT_S
from topicast.tests.lakes.test_iceberg import LOCKING, PACKAGE, SETTINGS
from topicast.tests.spark.applications import Application, applications
from topicast.tests.waiting import until

PYICEBERG: Final = Path(__file__).resolve().parents[2] / ".venv" / "pyiceberg"
HIVE: Final = PYICEBERG.with_name("hive-3.1.3")
RUN_S: Final = 120
PREPARE: Final = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType

catalog = HiveCatalog("hive", uri=sys.argv[1])

def rows(name):
    found = catalog.load_table(name).scan().to_arrow().to_pylist()
    return sorted(([*one.values()] for one in found), key=str)

def append(name, **columns):
    made = {key: pa.array(of, pa.int32() if key == "id" else None) for key, of in columns.items()}
    catalog.load_table(name).append(pa.table(made))
"""


@dataclass
class Beside:
    """An attached driver with Iceberg's catalogs, and pyiceberg as another application."""

    driver: Application
    metastore: str

    def python(self, code: str, answer: str = "None") -> Any:
        """Run code with pyiceberg; return the value of ``answer``."""
        text = f"{PREPARE}\n{code}\nprint(json.dumps({answer}))"
        done = subprocess.run(
            [sys.executable, "-c", text, self.metastore],
            env={**os.environ, "PYTHONPATH": str(PYICEBERG)},
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    folder = tmp_path_factory.mktemp("pyiceberg")
    conf = {"spark.jars.packages": PACKAGE, "spark.jars.ivy": str(PACKAGES), **SETTINGS}
    del conf[LOCKING]
    with (
        ReleasedMetastore(HIVE, folder / "hive") as hive,
        both_daemons(folder, hive.uri) as daemons,
        applications(folder, hive.uri, driver=conf) as both,
    ):
        driver = both["driver"]
        driver.do("from topicast.subscriber.spark import attach")
        driver.do(f"handle = attach(spark, {daemons.hub_address!r})")
        yield Beside(driver, hive.uri)


@pytest.mark.parametrize("control", ["off", "on"])
def test_each_reads_and_keeps_what_the_other_has_committed(beside: Beside, control: str) -> None:
    driver, db = beside.driver, f"shared_{control}"
    driver.do(f"handle.control({control!r})")
    driver.rows("SHOW DATABASES")
    until(lambda: driver.do(PLANNING) == control, timeout_s=WAIT_S, what=control)
    driver.sql(f"CREATE DATABASE {db}")
    driver.sql(f"CREATE TABLE {db}.t (id INT) USING iceberg", f"INSERT INTO {db}.t VALUES (1)")
    name = f"{db}.t"
    assert beside.python(f"append({name!r}, id=[2])", f"rows({name!r})") == [[1], [2]]
    driver.sql(f"INSERT INTO {name} VALUES (3)")  # at once: on the commit of pyiceberg
    assert beside.python("", f"rows({name!r})") == [[1], [2], [3]]
    driver.sql(f"REFRESH TABLE {name}")
    assert driver.rows(f"SELECT * FROM {name}") == [[1], [2], [3]]
    beside.python(
        f"with catalog.load_table({name!r}).update_schema() as update:\n"
        "    update.add_column('note', StringType())"
    )
    driver.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('mine' = '1')")
    beside.python(f"append({name!r}, id=[4], note=['a'])")
    driver.sql(f"REFRESH TABLE {name}")
    assert driver.rows(f"SELECT id, note FROM {name}") == [
        [1, None],
        [2, None],
        [3, None],
        [4, "a"],
    ]
    assert beside.python("", f"catalog.load_table({name!r}).properties['mine']") == "1"
    made = "Schema(NestedField(1, 'id', IntegerType(), required=False))"
    beside.python(f"catalog.create_table('{db}.made', {made})\nappend('{db}.made', id=[7])")
    assert driver.rows(f"SELECT * FROM {db}.made") == [[7]]
    assert driver.do(f"spark.catalog.tableExists('{db}.made')")
    names = f"sorted(one.name for one in spark.catalog.listTables({db!r}))"
    until(lambda: driver.do(names) == ["made", "t"], timeout_s=WAIT_S, what="a name")
    driver.sql(f"DROP TABLE {db}.made")
    assert beside.python("", f"[one[1] for one in catalog.list_tables({db!r})]") == ["t"]
    assert driver.do("handle.status().errors") == 0, driver.do("handle.status().last_error")
