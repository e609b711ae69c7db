"""``topicast pipeline export``: the catalog as Parquet, and each change since, once."""

import json
from pathlib import Path
from typing import Any

import pytest

from topicast.subscriber import Subscriber
from topicast.tests.spark.applications import SPARK, Failed, pipeline
from topicast.tests.spark.conftest import Drivers

DB = "exported"

pytestmark = pytest.mark.skipif(SPARK < (4, 0), reason="Spark has no data sources in Python")


@pytest.mark.nightly
def test_each_run_writes_the_catalog_and_what_has_changed_since_the_last_run(
    drivers: Drivers, tmp_path: Path
) -> None:
    address, path = drivers.daemons.hub_address, f"{tmp_path}/catalog"

    def export(**how: Any) -> Any:
        catalog.sync()
        given = {"statestores": address, "tables": f"{DB}.*", **how}
        shown = "on_progress=shown.append"
        return drivers.reader.do(f"export_with(spark, {path!r}, {shown}, **{given!r}).as_dict()")

    def rows(sql: str) -> Any:
        return drivers.reader.rows(sql.replace("EXPORT", f"parquet.`{path}/v1"))

    drivers.reader.do("from topicast.pipeline.export import export as export_with\nshown = []")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(
        Failed, match="^ConfigError: path=.*file/in. is not valid: a folder that can"
    ):
        drivers.reader.do(f"export_with(spark, '{file}/in', statestores={address!r})")
    drivers.writer.sql(
        f"CREATE DATABASE {DB}",
        f"CREATE TABLE {DB}.sales (id INT) PARTITIONED BY (ds STRING) STORED AS PARQUET",
        f"INSERT INTO {DB}.sales VALUES (1, '2026-11-01'), (2, '2026-11-02')",
    )
    with Subscriber(address, timeout_s=60) as catalog:
        planned = export(dry_run=True)
        assert not Path(path).exists()
        first = export()
        counted = {"databases", "tables", "columns", "partitions"}
        assert (first["since"], set(first["rows"])) == ("", counted)
        assert first["rows"] == planned["rows"]
        assert drivers.reader.do("str(shown[-1])") == "written: 4 done, 0 left, 0 failing"
        assert (first["rows"]["tables"], first["rows"]["partitions"]) == (1, 2)

        drivers.writer.sql(f"ALTER TABLE {DB}.sales ADD PARTITION (ds = '2026-11-03')")
        second = export(changes_only=True)
        assert (second["since"], set(second["rows"])) == (first["snapshot_version"], {"changes"})
        third = export()
        assert (third["since"], third["rows"]["changes"]) == (second["snapshot_version"], 0)
        assert third["rows"]["partitions"] == 3

    changed = "SELECT partition FROM EXPORT/changes` WHERE kind = 'created'"
    assert rows(changed) == [["ds=2026-11-03"]]
    runs = [(first, 2), (second, None), (third, 3)]
    assert rows("SELECT exported_at, snapshot_version, rows['partitions'] FROM EXPORT/runs`") == [
        [run["exported_at"], run["snapshot_version"], partitions] for run, partitions in runs
    ]
    assert rows("SELECT DISTINCT typeof(exported_at) FROM EXPORT/tables`") == [["string"]]


@pytest.mark.nightly  # test_convert runs a pipeline's command, test_frame what all have
def test_the_command_needs_no_metastore_and_writes_a_report(
    drivers: Drivers, tmp_path: Path
) -> None:
    path, report = tmp_path / "catalog", tmp_path / "report.json"
    words = ("export", path, "--tables=none.*", f"--report={report}")
    done = pipeline(*words, statestores=drivers.daemons.hub_address, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"0 partitions below {path}" in done.stdout
    assert "topicast agent" not in done.stderr, "it has no table that an agent could follow"
    assert json.loads(report.read_text())["rows"]["tables"] == 0
    assert (path / "v1" / "runs" / "_SUCCESS").exists()
