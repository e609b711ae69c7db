"""Whether what a session writes is reported, and under which name."""

import pytest

from topicast.subscriber.spark.writes.metastores import (
    ReportedMetastore,
    WriteTarget,
    metastore_of,
    object_of,
)

URI = "thrift://metastore:9083"


@pytest.mark.parametrize(
    ("implementation", "uris", "configured", "found"),
    [
        ("hive", URI, "", ReportedMetastore(uris=URI)),
        ("hive", URI, "thrift://other:1", ReportedMetastore(uris="thrift://other:1")),
        ("hive", "", "thrift://other:1", ReportedMetastore(uris="thrift://other:1")),
        (
            "hive",
            "",
            "",
            ReportedMetastore(reason="its metastore is embedded: hive.metastore.uris is not set"),
        ),
        ("in-memory", URI, URI, ReportedMetastore(reason="its catalog is in-memory, not hive")),
        ("", URI, "", ReportedMetastore(reason="its catalog is in-memory, not hive")),
    ],
    ids=["of its client", "configured", "only configured", "embedded", "in-memory", "default"],
)
def test_writes_are_reported_of_a_remote_metastore_only(
    implementation: str, uris: str, configured: str, found: ReportedMetastore
) -> None:
    assert metastore_of(implementation=implementation, uris=uris, configured=configured) == found


def reported_name(*name: str, catalog: str = "spark_catalog", path: str = "") -> str | None:
    others = {"spark.sql.catalog.ice": "org.iceberg.SparkCatalog"}
    return object_of(
        WriteTarget(name=name, path=path),
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
