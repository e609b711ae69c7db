"""Whether what a session writes is reported, and under which name."""

import pytest

from topicast.subscriber.spark.writes.metastores import Metastore, metastore_of, object_of
from topicast.subscriber.spark.writes.statements import Target

URI = "thrift://metastore:9083"
HIVE = {"spark.sql.catalogImplementation": "hive"}


def look(conf: dict[str, str]) -> Metastore:
    return metastore_of(lambda key: conf.get(key, ""), uris=URI, configured="")


@pytest.mark.parametrize("conf", [{}, {"spark.sql.catalog.spark_catalog": "builtin"}])
def test_session_of_a_remote_metastore_reports_under_its_uris(conf: dict[str, str]) -> None:
    assert look(HIVE | conf) == Metastore(uris=URI)


def test_what_the_settings_say_goes_first() -> None:
    said = metastore_of(lambda key: HIVE.get(key, ""), uris=URI, configured="thrift://other:1")
    assert said == Metastore(uris="thrift://other:1")


@pytest.mark.parametrize(
    ("conf", "why"),
    [
        ({}, "in-memory, not hive"),
        ({"spark.sql.catalogImplementation": "in-memory"}, "in-memory, not hive"),
        (HIVE | {"spark.sql.catalog.spark_catalog": "org.x.Y"}, "spark_catalog is org.x.Y"),
    ],
)
def test_session_of_another_catalog_reports_nothing(conf: dict[str, str], why: str) -> None:
    assert why in look(conf).reason
    assert look(conf).uris == ""


def test_session_of_an_embedded_metastore_reports_nothing() -> None:
    found = metastore_of(lambda key: HIVE.get(key, ""), uris="", configured="")
    assert "embedded: hive.metastore.uris is not set" in found.reason


def reported_name(*name: str, catalog: str = "spark_catalog", path: str = "") -> str | None:
    others = {"spark.sql.catalog.ice": "org.iceberg.SparkCatalog"}
    return object_of(
        Target(name=name, path=path),
        catalog=catalog,
        database="now",
        conf=lambda key: others.get(key, ""),
    )


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        (("T",), "now.t"),
        (("D", "T"), "d.t"),
        (("spark_catalog", "d", "t"), "d.t"),
        (("parquet", "/w/T"), "/w/T"),
        (("ice", "t"), None),
        (("ice", "d", "t"), None),
        (("a", "b", "c", "d"), None),
        (("d", "a.b"), None),
        ((), None),
    ],
)
def test_names_are_those_of_hive(name: tuple[str, ...], reported: str | None) -> None:
    assert reported_name(*name) == reported


def test_names_in_another_current_catalog_are_its_own() -> None:
    assert reported_name("t", catalog="ice") is None
    assert reported_name("d", "t", catalog="ice") is None
    assert reported_name("spark_catalog", "d", "t", catalog="ice") == "d.t"


def test_path_is_reported_whatever_the_catalog() -> None:
    assert reported_name(path="s3a://b/w", catalog="ice") == "s3a://b/w"
