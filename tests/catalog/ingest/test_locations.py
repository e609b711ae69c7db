"""Locations: one form of every way to write a path, and the tables that lie where it leads."""

import pytest

from topicast.catalog.ingest.locations import Locations, normal
from topicast.tests.catalog.holding import Holding, struct
from topicast.tests.cluster.fake_metastore import make_table, thrift_bytes
from topicast.topics.wire.messages import SOURCE_EVENTS


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/w/d/t", "file:/w/d/t"),
        ("file:///w/d/t/", "file:/w//d/t"),
        ("file://host/w/d/t", "file:/w/./d/t"),
        ("s3a://lake/t", "s3n://lake/t/"),
        ("S3://lake/t", "s3a://lake//t"),
        ("hdfs://NN:8020/w/t", "hdfs://nn/w/t"),
        ("abfss://c@a/t", "abfs://c@a/t"),
        ("/w/a:b", "file:/w/a:b"),
    ],
)
def test_ways_to_write_one_path_are_alike(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/w/T", "/w/t"),
        ("s3a://lake/t", "s3a://pond/t"),
        ("hdfs://nn:9000/t", "hdfs://nn/t"),
        ("hdfs://nn/t", "/t"),
        ("/w/a%20b", "/w/a b"),
    ],
)
def test_different_paths_stay_different(one: str, other: str) -> None:
    assert normal(one) != normal(other)


def located(holding: Holding, name: str, location: str) -> None:
    table = make_table("d", name, location=location)
    holding.whole(thrift_bytes(table), {}, table=("d", name))


def current(holding: Holding, locations: Locations | None = None) -> Locations:
    locations = locations or Locations(holding.topics)
    while not locations.catch_up():
        pass
    return locations


def test_path_at_a_table_and_below_finds_it_and_its_partitions() -> None:
    holding = Holding()
    located(holding, "t", "file:/w/d/t")
    found = current(holding).find
    assert found("/w/d/t") == {("d", "t"): ""}
    assert found("/w/d/t/ds=1/hour=2/part-0.parquet") == {("d", "t"): "ds=1/hour=2"}
    assert found("/w/d/t/_temporary/0") == {("d", "t"): ""}
    assert found("/w/d/t2") == {}
    assert found("/w/d") == {("d", "t"): ""}, "a folder that holds it"
    assert found("/w/d/s") == {}


def test_deepest_table_has_the_path_and_tables_of_one_place_share_it() -> None:
    holding = Holding()
    located(holding, "outer", "/w/o")
    located(holding, "inner", "/w/o/inner")
    located(holding, "twin", "/w/o/inner/")
    found = current(holding).find
    assert found("/w/o/inner/ds=1") == {("d", "inner"): "ds=1", ("d", "twin"): "ds=1"}
    assert found("/w/o/x") == {("d", "outer"): ""}
    assert found("/w/o").keys() == {("d", "outer"), ("d", "inner"), ("d", "twin")}


def test_moved_and_dropped_tables_are_found_no_more_where_they_were() -> None:
    holding = Holding()
    located(holding, "t", "/w/a")
    located(holding, "u", "/w/u")
    locations = current(holding)
    located(holding, "t", "/w/b")
    holding.tables.drop(("d", "u"), source=SOURCE_EVENTS, at_us=0)
    current(holding, locations)
    assert locations.find("/w/a") == {}
    assert locations.find("/w/b") == {("d", "t"): ""}
    assert locations.find("/w/u") == {}


def test_what_is_withdrawn_keeps_its_place() -> None:
    """A table that cannot be read now has not moved."""
    holding = Holding()
    holding.whole(struct(), {})
    locations = current(holding)
    holding.tables.withdraw(("d", "t"), source=SOURCE_EVENTS, at_us=0)
    current(holding, locations)
    assert locations.find("/w/d/t") == {("d", "t"): ""}


def test_only_what_changed_is_looked_at() -> None:
    holding = Holding()
    located(holding, "t", "/w/a")
    locations = current(holding)
    looked_at: list[int] = []
    for number, topic in holding.topics.items():
        since = topic.since
        topic.since = lambda version, n=number, f=since: looked_at.append(n) or f(version)
    located(holding, "t", "/w/b")
    assert locations.catch_up()
    assert len(looked_at) == 1
    assert locations.find("/w/b") == {("d", "t"): ""}


def test_new_epoch_is_looked_at_from_its_beginning() -> None:
    holding = Holding()
    located(holding, "t", "/w/a")
    locations = current(holding)
    for topic in holding.topics.values():
        topic.epoch += 1
    assert not locations.catch_up(), "a topic a call"
    current(holding, locations)
    assert locations.find("/w/a") == {("d", "t"): ""}
