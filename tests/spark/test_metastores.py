"""Which metastore a driver writes to is what Spark's own client of it uses, however it is named."""

from typing import Any, Final

import pytest

from topicast.tests.spark.conftest import Drivers

PREPARE: Final = """
from concurrent.futures import ThreadPoolExecutor
from topicast.subscriber.spark.writes.plans import metastore_in_use
jvm, context = spark._jvm, spark._jsc.sc()
hive = getattr(getattr(jvm.org.apache.spark.sql.hive, "HiveUtils$"), "MODULE$")
nothing = getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
hadoop = context.hadoopConfiguration()
named = hadoop.get("hive.metastore.uris")

def looked(*given):
    with ThreadPoolExecutor(1) as alone:  # Hive's client leaves its state in its thread
        return alone.submit(look, *given).result()

def look(options, conf, site):
    context.conf().set("spark.sql.catalogImplementation", "in-memory")
    hadoop.unset("hive.metastore.uris")
    try:
        if conf:
            context.conf().set("hive.metastore.uris", conf)
        if site:
            hadoop.set("hive.metastore.uris", site)
        java = jvm.SparkSession(context, options)
        early = metastore_in_use(java, made=False, configured="")
        shared = java.sharedState()
        client = hive.newClientForMetadata(shared.conf(), shared.hadoopConf(), nothing)
        found = client.getConf("hive.metastore.uris", "")
        if site:
            hadoop.set("hive.metastore.uris", "thrift://too.late:1")
        late = metastore_in_use(java, made=True, configured="")
        return [found, early.uris, late.uris, early.reason, late.reason]
    finally:
        context.conf().remove("hive.metastore.uris")
        context.conf().set("spark.sql.catalogImplementation", "hive")
        hadoop.set("hive.metastore.uris", named)
"""
HIVE: Final = {"spark.sql.catalogImplementation": "hive"}
A, B, C = ("thrift://a:1", "thrift://b:1", "thrift://c:1")


@pytest.mark.parametrize(
    ("options", "conf", "site", "uris"),
    [
        ({"hive.metastore.uris": A}, "", "", A),
        ({}, B, "", B),
        ({}, "", C, C),
        pytest.param({"hive.metastore.uris": A}, B, "", B, marks=pytest.mark.nightly),
        pytest.param({"hive.metastore.uris": A}, "", C, A, marks=pytest.mark.nightly),
        pytest.param({}, B, C, B, marks=pytest.mark.nightly),
        ({}, "", "", ""),
    ],
    ids=[
        "builder",
        "SparkConf",
        "hive-site.xml, spark.hadoop or spark.hive",
        "SparkConf before builder",
        "builder before hive-site.xml",
        "SparkConf before hive-site.xml",
        "embedded",
    ],
)
def test_metastore_is_that_of_sparks_client(
    drivers: Drivers, options: dict[str, str], conf: str, site: str, uris: str
) -> None:
    drivers.writer.do(PREPARE)
    found: list[Any] = drivers.writer.do(f"looked({HIVE | options!r}, {conf!r}, {site!r})")
    why = "" if uris else "its metastore is embedded: hive.metastore.uris is not set"
    assert found == [uris, uris, uris, why, why]


def test_catalog_in_memory_is_known_before_and_after_it_is_made(drivers: Drivers) -> None:
    drivers.writer.do(PREPARE)
    *_, early, late = drivers.writer.do(f"looked({{}}, {A!r}, '')")
    assert early == late == "its catalog is in-memory, not hive"
