"""A driver whose Spark lacks what is needed says what it is."""

import pytest

from topicast.tests.spark.conftest import Drivers

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
    reader.do("from topicast.subscriber.spark import catalyst")
    reader.do(f"had = catalyst.{name}; catalyst.{name} = {needed!r}")
    try:
        reader.do(f"lacking = attach(spark, {drivers.daemons.hub_address!r})")
        said = reader.do("(lacking.status().state, lacking.status().reason)")
        assert said == ["unsupported", missing]
    finally:
        reader.do(f"lacking.detach(); catalyst.{name} = had")
