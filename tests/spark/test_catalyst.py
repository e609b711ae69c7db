"""A driver whose Spark lacks what is needed says what it is; what DataFrames hold is known."""

import pytest

from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

CATALOG = "org.apache.spark.sql.catalyst.catalog.SessionCatalog"
OTHER = "org.apache.spark.sql.catalyst.catalog.GlobalTempViewManager"


@pytest.mark.parametrize(
    ("name", "needed", "missing"),
    [
        ("_SESSION_CATALOG", "org.nowhere.Catalog", "there is no class org.nowhere.Catalog"),
        ("_SESSION_CATALOG", OTHER, f"{OTHER} has no field tableRelationCache"),
        ("_METHODS", ("forgetTable",), f"{CATALOG} has no method forgetTable"),
        ("_NAMES", "(int)", f"{CATALOG} does not find relations by three names"),
    ],
)
def test_what_this_spark_lacks_is_said(
    drivers: Drivers, name: str, needed: object, missing: str
) -> None:
    reader = drivers.reader
    reader.do("from topicast.subscriber.spark.refresh import catalyst")
    reader.do(f"had = catalyst.{name}; catalyst.{name} = {needed!r}")
    try:
        reader.do(f"lacking = attach(spark, {drivers.daemons.hub_address!r})")
        said = reader.do("(lacking.status().state, lacking.status().reason)")
        assert said == ["unsupported", missing]
    finally:
        reader.do(f"lacking.detach(); catalyst.{name} = had")


def test_what_dataframes_hold_is_known_weakly_and_within_bounds(drivers: Drivers) -> None:
    driver, tables = drivers.writer, [f"remembered.{name}" for name in "abc"]
    driver.sql("CREATE DATABASE remembered")
    driver.sql(*(f"CREATE TABLE {table} (id INT) USING parquet" for table in tables))
    driver.do("from topicast.subscriber.spark.refresh import catalyst")
    driver.do("it = catalyst.Catalyst.probe(spark); had = catalyst.HELD_MAX")

    def renewed(*names: str, existing: str = "ALWAYS") -> set[str]:
        how = f"existing=catalyst.Existing.{existing}"
        driver.do(f"for name in {names}: it.renew(spark, name, {how})")
        return set(driver.do("list(it.held(spark))"))

    def collected() -> bool:
        driver.do("spark._jvm.System.gc()")
        gone = not renewed(*tables, existing="IF_GONE")
        driver.do("import gc; gc.collect()")  # Py4J lets go a second after it
        return gone

    driver.do(f"held = [spark.table(name) for name in {tables}]")
    try:
        assert renewed(tables[0]) == {tables[0]}
        assert renewed(tables[0], existing="NEVER") == set(), "it may have other columns"
        driver.do("catalyst.HELD_MAX = 2")
        driver.do(f"held += [spark.table({tables[0]!r})]")
        assert renewed(*tables) == set(tables[1:]), "the oldest goes"
        assert renewed(tables[1]) == set(tables[1:]), "it is in no cache, and held"
        driver.do("held.clear()")
        until(collected, timeout_s=20, what="nobody holds it", interval_s=1.5)
        assert driver.do("it.keep(set()); list(it.held(spark))") == []
    finally:
        driver.do("catalyst.HELD_MAX = had")
