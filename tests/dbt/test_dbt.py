"""A project of dbt that ``topicast run`` runs: drivers read what it has built, without REFRESH.

dbt runs Spark in its own process (dbt-spark, method session), each run in another process.
"""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.quickstart.processes.spark_settings import submit_arguments
from topicast.tests.cli.processes import command
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.spark.applications import Application, applications, quick_environment
from topicast.tests.waiting import until_equal

DBT: Final = Path(__file__).resolve().parents[2] / ".venv" / "dbt" / "bin" / "dbt"
RUN_S: Final = 400  # measured: less than 110 s, on a busy machine
WAIT_S: Final = 60
SCHEMA: Final = "built"
QUIET: Final = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DO_NOT_TRACK": "1", "NO_COLOR": "1"}
PROJECT: Final = {
    "dbt_project.yml": "name: shop\nprofile: shop\nmodel-paths: [models]\n",
    "profiles.yml": f"""
shop:
  target: here
  outputs:
    here: {{type: spark, method: session, host: none, schema: {SCHEMA}, threads: 1}}
""",
    "models/orders.sql": """
{{ config(materialized='table', file_format='parquet') }}
SELECT id, {{ var('run') }} AS run FROM range({{ var('run') }})
""",
    "models/orders_view.sql": """
{{ config(materialized='view') }}
SELECT id, run FROM {{ ref('orders') }}
""",
    "models/appended.sql": """
{{ config(materialized='incremental', incremental_strategy='append', file_format='parquet') }}
SELECT {{ var('run') }} AS run, 'a' AS ds
""",
    "models/overwritten.sql": """
{{ config(materialized='incremental', incremental_strategy='insert_overwrite',
          partition_by=['ds'], file_format='parquet') }}
SELECT {{ var('run') }} AS run, 'a' AS ds
{% if var('run') == 1 %} UNION ALL SELECT 1, 'b' {% endif %}
""",
}
READ: Final = {
    "orders": f"SELECT id, run FROM {SCHEMA}.orders",
    "view": f"SELECT id, run FROM {SCHEMA}.orders_view",
    "appended": f"SELECT run FROM {SCHEMA}.appended",
    "overwritten": f"SELECT run, ds FROM {SCHEMA}.overwritten",
}


@dataclass
class Shop:
    """A project of dbt, and two drivers that read what it builds, of which one is attached."""

    folder: Path
    hubs: str
    uri: str
    attached: Application
    plain: Application

    def build(self, run: int, *options: str) -> None:
        """Let dbt build everything, in a process of its own that is attached."""
        words = [str(DBT), "run", "--project-dir", str(self.folder), "--vars", f"run: {run}"]
        words += ["--profiles-dir", str(self.folder), "--no-version-check", *options]
        spark = self.folder / f"spark-{run}"
        (spark / "scratch").mkdir(parents=True)
        submit = submit_arguments(spark, self.uri)
        done = subprocess.run(
            [*command("main", "run", f"--statestores={self.hubs}", "--"), *words],
            env={**os.environ, **quick_environment(), **QUIET, "PYSPARK_SUBMIT_ARGS": submit},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert "PASS=4" in done.stdout
        assert "not attached" not in done.stderr

    def read(self, driver: Application) -> dict[str, Any]:
        """Return what ``driver`` reads of everything that was built."""
        return driver.read(**{name: f"spark.sql({query!r})" for name, query in READ.items()})

    def sees(self, wanted: dict[str, Any]) -> None:
        """Wait until the attached driver reads what it should; it goes on reading that."""
        until_equal(lambda: self.read(self.attached), wanted, timeout_s=WAIT_S)
        for _ in range(2):  # a relation that was read soon after a change is renewed once
            self.attached.do(f"handle.sync({WAIT_S})")
            assert self.read(self.attached) == wanted


@pytest.fixture(scope="module")
def shop(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("dbt")
    for name, text in PROJECT.items():
        file = folder / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    with (
        both_daemons(folder, hive.uri) as daemons,
        applications(folder, hive.uri, attached={}, plain={}) as both,
    ):
        both["attached"].do("from topicast.subscriber.spark import attach")
        both["attached"].do(f"handle = attach(spark, {daemons.hub_address!r})")
        yield Shop(folder / "project", daemons.hub_address, hive.uri, **both)


def test_what_dbt_builds_and_builds_again_is_read_right(shop: Shop) -> None:
    shop.build(1)
    first = {
        "orders": [[0, 1]],
        "view": [[0, 1]],
        "appended": [[1]],
        "overwritten": [[1, "a"], [1, "b"]],
    }
    assert shop.read(shop.plain) == first
    shop.sees(first)
    shop.build(2)
    second = {
        "orders": [[0, 2], [1, 2]],
        "view": [[0, 2], [1, 2]],
        "appended": [[1], [2]],
        "overwritten": [[1, "b"], [2, "a"]],
    }
    found = shop.read(shop.plain)
    assert found["appended"] == [[1]], "plain Spark"
    assert found["overwritten"] not in (first["overwritten"], second["overwritten"]), "it fails"
    shop.sees(second)
    shop.build(3, "--full-refresh")
    third = [[number, 3] for number in range(3)]
    shop.sees(
        {"orders": third, "view": third, "appended": [[3]], "overwritten": [[3, "a"]]},
    )
    assert shop.attached.do("handle.status().errors") == 0
