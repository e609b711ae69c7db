"""An attached driver whose key has databases: fresh in these, plain Spark in all others."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from topicast.tests.cli.processes import topicast
from topicast.tests.keys import restricted_key
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

OWN, HIDDEN = "limited_own", "limited_hidden"


@pytest.fixture
def key_file(tmp_path: Path) -> Iterator[Path]:
    """The key file of a driver that may see one database."""
    with restricted_key(tmp_path / "limited.key", OWN) as found:
        yield found


@pytest.mark.nightly  # test_policies has the same key without Spark
def test_driver_with_databases_is_fresh_there_and_plain_spark_elsewhere(
    drivers: Drivers, key_file: Path
) -> None:
    """And a write that its key may not see is made, and not reported: its status says so."""
    writer, reader, hub = drivers.writer, drivers.reader, drivers.daemons.hub_address
    for db in (OWN, HIDDEN):
        writer.sql(f"CREATE DATABASE {db}", f"CREATE TABLE {db}.t USING parquet AS SELECT 1 AS id")
    writer.sql("SET spark.sql.statistics.size.autoUpdate.enabled=true")  # an event for each insert
    reader.do("attach(spark).detach()")  # what another file has attached
    reader.do(f"handle = attach(spark, {hub!r}, key_file={str(key_file)!r})")
    both = {db: f"spark.table('{db}.t')" for db in (OWN, HIDDEN)}
    try:
        until(lambda: reader.do("handle.status().state") == "live", what="the key at the hub")
        reader.do("handle.sync(30)")
        assert reader.read(**both) == {OWN: [[1]], HIDDEN: [[1]]}
        changes = reader.do("handle.status().changes")
        writer.sql(f"INSERT INTO {HIDDEN}.t VALUES (2)")
        reader.do("handle.sync(30)")
        assert reader.do("handle.status().changes") == changes
        writer.sql(f"INSERT INTO {OWN}.t VALUES (2)")
        reader.do("handle.sync(30)")
        assert reader.do("handle.status().changes") > changes
        assert reader.rows(f"SELECT id FROM {OWN}.t") == [[1], [2]]
        reader.sql(f"INSERT INTO {OWN}.t VALUES (3)")
        until(lambda: reader.do("handle.status().writes_reported") == 1, what="the report")
        assert reader.do("handle.status().writes") == "reported"
        reader.sql(f"INSERT INTO {HIDDEN}.t VALUES (3)")
        until(lambda: "but" in reader.do("handle.status().writes"), what="the refusal")
        said = reader.do("handle.status().writes")
        assert f"{HIDDEN}.t" in said
        assert "limited" in said
        shown = json.loads(topicast("drivers", f"--statestores={hub}", "--output=json").stdout)
        assert said in [one["writes"] for one in shown]
        assert reader.do("handle.status().errors") == 0
    finally:
        reader.do("handle.detach()")
        writer.sql("SET spark.sql.statistics.size.autoUpdate.enabled=false")
    assert writer.rows(f"SELECT id FROM {HIDDEN}.t") == [[1], [2], [3]]
