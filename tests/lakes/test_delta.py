"""Delta's catalog in attached drivers: its tables are left to it, and plain tables are fresh."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.lakes.lakes import Lake, lake, sees, status

PACKAGE = "io.delta:delta-spark_2.13:4.0.1"
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@pytest.fixture(scope="module")
def attached(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("delta"), hive, PACKAGE, SETTINGS) as found:
        found.attach()
        yield found


def test_tables_of_delta_are_left_to_it(attached: Lake, tmp_path: Path) -> None:
    """No report, no refresh of a relation, no error; Delta itself sees what others commit."""
    one, other = attached.one, attached.other
    one.sql("CREATE DATABASE delta_db")
    one.sql("CREATE TABLE delta_db.t (id INT, ds STRING) USING delta PARTITIONED BY (ds)")
    one.sql(f"CREATE TABLE delta_db.placed (id INT) USING delta LOCATION '{tmp_path}/placed'")
    one.sql("INSERT INTO delta_db.t VALUES (1, 'a')", "INSERT INTO delta_db.placed VALUES (1)")
    sees(other, "SELECT * FROM delta_db.t", [[1, "a"]])
    sees(other, "SELECT * FROM delta_db.placed", [[1]])
    other.do(f"_ = spark.read.format('delta').load('{tmp_path}/placed').collect()")
    attached.sync()
    before = status(one), status(other)
    one.sql("INSERT INTO delta_db.t VALUES (2, 'b')", "UPDATE delta_db.t SET id = 3")
    one.do("spark.sql(\"SELECT 4 id, 'b' ds\").write.mode('append').insertInto('delta_db.t')")
    sees(other, "SELECT * FROM delta_db.t", [[3, "a"], [3, "b"], [4, "b"]])
    one.sql("INSERT OVERWRITE delta_db.t VALUES (5, 'a')")
    sees(other, "SELECT * FROM delta_db.t", [[5, "a"]])
    rows = "spark.sql('SELECT 2 id').write.format('delta')"
    one.do(f"{rows}.mode('append').save('{tmp_path}/placed')")
    sees(other, "SELECT * FROM delta_db.placed", [[1], [2]])
    attached.sync()
    assert (status(one), status(other)) == before


def test_plain_tables_are_fresh_both_ways(attached: Lake) -> None:
    attached.keeps_plain_tables_fresh("beside_delta")


def test_statements_have_the_same_answers_and_writes_as_in_plain_spark(attached: Lake) -> None:
    attached.answers_as_plain_spark("delta")
