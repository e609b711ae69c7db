"""Iceberg's catalogs in attached drivers: they see each other's commits, and plain tables stay so.

Plain Spark first: a session's Iceberg catalog caches a table, and reads the old snapshot.
"""

from collections.abc import Iterator

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.lakes.lakes import Lake, lake, sees, status

PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
KEPT_MS = "3600000"  # by Iceberg's cache since the last use; 30 s by default, and tests are slow
LOCKING = "spark.hadoop.iceberg.engine.hive.lock-enabled"
SESSION, OWN = "spark.sql.catalog.spark_catalog", "spark.sql.catalog.lake"
SETTINGS = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    SESSION: "org.apache.iceberg.spark.SparkSessionCatalog",
    f"{SESSION}.type": "hive",
    f"{SESSION}.cache.expiration-interval-ms": KEPT_MS,
    OWN: "org.apache.iceberg.spark.SparkCatalog",
    f"{OWN}.type": "hive",
    f"{OWN}.cache.expiration-interval-ms": KEPT_MS,
    LOCKING: "false",  # the embedded metastore has no tables for locks
}
TABLES = ("spark_catalog.ice.t", "lake.ice.t")  # one table, by two catalogs of a session


@pytest.fixture(scope="module")
def drivers(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("iceberg"), hive, PACKAGE, SETTINGS) as found:
        yield found


@pytest.fixture(scope="module")
def plain(drivers: Lake) -> dict[str, object]:
    """What plain Spark makes of a commit of another driver, by both catalogs."""
    one, other = drivers.one, drivers.other
    one.sql("CREATE DATABASE ice", "CREATE TABLE ice.t (id INT) USING iceberg")
    one.sql("INSERT INTO ice.t VALUES (1)")
    for table in TABLES:
        assert other.rows(f"SELECT * FROM {table}") == [[1]]
    one.sql("INSERT INTO ice.t VALUES (2)")
    return {table: other.rows(f"SELECT * FROM {table}") for table in TABLES}


@pytest.fixture(scope="module")
def attached(drivers: Lake, plain: dict[str, object]) -> Lake:
    drivers.attach()
    return drivers


def test_plain_spark_reads_the_snapshot_that_iceberg_caches(plain: dict[str, object]) -> None:
    assert plain == {table: [[1]] for table in TABLES}


def test_commits_of_other_drivers_are_seen_in_every_catalog_and_session(attached: Lake) -> None:
    """The first row was missed before the attach."""
    one, other = attached.one, attached.other
    other.do("second = spark.newSession(); _ = second.table('ice.t').collect()")
    for table in TABLES:
        sees(other, f"SELECT * FROM {table}", [[1], [2]])
    one.sql("INSERT INTO lake.ice.t VALUES (3)")
    for table in TABLES:
        sees(other, f"SELECT * FROM {table}", [[1], [2], [3]])
    attached.sync()
    assert other.read(it="second.table('ice.t')") == {"it": [[1], [2], [3]]}
    one.sql("INSERT OVERWRITE ice.t VALUES (4)", "ALTER TABLE ice.t ADD COLUMNS (note STRING)")
    for table in TABLES:
        sees(other, f"SELECT * FROM {table}", [[4, None]])
        assert other.rows(f"SELECT count(*) FROM {table}.snapshots") == [[4]]
    other.sql("DELETE FROM ice.t")
    for table in TABLES:
        sees(one, f"SELECT * FROM {table}", [])


def test_table_that_is_made_anew_is_another_table(attached: Lake) -> None:
    one, other = attached.one, attached.other
    one.sql("CREATE TABLE ice.anew (id INT) USING iceberg", "INSERT INTO ice.anew VALUES (1)")
    sees(other, "SELECT * FROM ice.anew", [[1]])
    one.sql("DROP TABLE ice.anew")
    sees(other, "SELECT * FROM ice.anew", "TABLE_OR_VIEW_NOT_FOUND")
    one.sql("CREATE TABLE ice.anew (name STRING) USING iceberg")
    one.sql("INSERT INTO ice.anew VALUES ('a')")
    sees(other, "SELECT * FROM ice.anew", [["a"]])


def test_tables_of_iceberg_are_left_to_it(attached: Lake) -> None:
    """No report, no refresh of a relation, no error."""
    one, other = attached.one, attached.other
    one.sql("CREATE TABLE ice.left (id INT, ds STRING) USING iceberg PARTITIONED BY (ds)")
    attached.sync()
    before = status(one), status(other)
    one.sql("INSERT INTO ice.left VALUES (1, 'a')", "UPDATE ice.left SET id = 2")
    one.do("row = spark.sql(\"SELECT 3 id, 'b' ds\"); row.writeTo('ice.left').append()")
    one.do("row.write.format('iceberg').mode('append').saveAsTable('ice.left')")
    one.sql("TRUNCATE TABLE lake.ice.left", "INSERT INTO ice.left VALUES (5, 'a')")
    sees(other, "SELECT * FROM ice.left", [[5, "a"]])
    attached.sync()
    assert (status(one), status(other)) == before


def test_plain_tables_are_fresh_both_ways(attached: Lake) -> None:
    attached.keeps_plain_tables_fresh("beside_ice")


def test_statements_have_the_same_answers_and_writes_as_in_plain_spark(attached: Lake) -> None:
    attached.answers_as_plain_spark("iceberg")
