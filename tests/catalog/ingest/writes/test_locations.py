"""Locations: a path is matched to tables by their folders, and by those of their partitions."""

from collections.abc import Iterator, Sequence

import pytest

from topicast.catalog.ingest.writes import locations as module
from topicast.catalog.ingest.writes.locations import Locations, normal
from topicast.catalog.model.folders import FolderRow
from topicast.tests.catalog.holding import Holding, T, struct
from topicast.tests.cluster.fake_metastore import make_partition, make_table, thrift_bytes
from topicast.tests.cluster.store import SimFolders
from topicast.topics.objects.encoding.values import PartitionKind
from topicast.topics.wire.messages.data import SOURCE_EVENTS

WHOLE = ()  # any part of a table


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("/w/d/t", "file:/w/d/t", True),
        ("file:///w/d/t/", "file:/w//d/t", True),
        ("file://host/w/d/t", "file:/w/./d/t", True),
        ("s3a://lake/t", "s3n://lake/t/", True),
        ("S3://lake/t", "s3a://lake//t", True),
        ("hdfs://NN:8020/w/t", "hdfs://nn/w/t", True),
        ("abfss://c@a/t", "abfs://c@a/t", True),
        ("wasbs://c@a.blob.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t", True),
        ("wasb://c@a.blob.core.windows.net/t", "abfs://d@a.dfs.core.windows.net/t", False),
        ("/w/a:b", "file:/w/a:b", True),
        ("/w/T", "/w/t", False),
        ("s3a://lake/t", "s3a://pond/t", False),
        ("hdfs://nn:9000/t", "hdfs://nn/t", False),
        ("hdfs://nn/t", "/t", False),
        ("/w/a%20b", "/w/a b", False),
    ],
)
def test_ways_to_write_one_path_are_alike_and_different_paths_are_not(
    one: str, other: str, alike: bool
) -> None:
    assert (normal(one) == normal(other)) is alike


def located(holding: Holding, name: str, location: str) -> None:
    table = make_table("d", name, location=location)
    holding.whole(thrift_bytes(table), {}, table=("d", name))


def test_table_of_a_source_lies_at_its_path_and_not_where_the_metastore_says() -> None:
    """Spark gives a table that Hive cannot read, such as CSV at a LOCATION, a placeholder there."""
    holding = Holding()
    for name, provider in (("csv", {"spark.sql.sources.provider": "csv"}), ("text", {})):
        table = make_table("d", name, location=f"/w/d.db/{name}-__PLACEHOLDER__")
        table.sd.serdeInfo.parameters = {"path": f"file:/data/{name}"}
        table.parameters |= provider
        holding.whole(thrift_bytes(table), {}, table=("d", name))
    locations = current(holding)
    assert locations.find("/data/csv/part-0") == {("d", "csv"): WHOLE}
    assert locations.find("/data/text/part-0") == {}
    assert locations.find("/w/d.db/text-__PLACEHOLDER__") == {("d", "text"): WHOLE}


def current(holding: Holding, locations: Locations | None = None) -> Locations:
    locations = locations or Locations(holding.version_log, SimFolders())
    locations.check()  # which takes in what was written
    return locations


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/w/d/t", {"t": ()}),
        ("/w/d/t/ds=1/hour=2/part-0.parquet", {"t": ("ds=1/hour=2/",)}),
        ("/w/d/t/_temporary/0", {"t": ()}),
        ("/w/d/t2", {}),
        ("/w/d", {"t": ()}),  # a folder that holds it
        ("/w/d/s", {}),
        ("/w/o/inner/ds=1", {"inner": ("ds=1/",), "twin": ("ds=1/",)}),
        ("/w/o/x", {"outer": ()}),
        ("/w/o", {"outer": (), "inner": (), "twin": ()}),
    ],
)
def test_path_finds_the_deepest_tables_above_it_and_every_table_below(
    path: str, found: dict[str, tuple[str, ...]]
) -> None:
    holding = Holding()
    places = {"t": "file:/w/d/t", "outer": "/w/o", "inner": "/w/o/inner", "twin": "/w/o/inner/"}
    for name, location in places.items():
        located(holding, name, location)
    expected = {("d", name): partition for name, partition in found.items()}
    assert current(holding).find(path) == expected


def test_moved_dropped_and_unreadable_tables_are_found_where_they_are() -> None:
    """Given a table that cannot be read any more, then it is taken to be where it was."""
    holding = Holding()
    for name in ("t", "u", "v"):
        located(holding, name, f"/w/{name}")
    locations = current(holding)
    located(holding, "t", "/w/b")
    holding.tables.drop(("d", "u"), source=SOURCE_EVENTS)
    holding.tables.end_content(("d", "v"), source=SOURCE_EVENTS)
    current(holding, locations)
    found = {path: locations.find(path) for path in ("/w/t", "/w/u", "/w/b", "/w/v")}
    assert found == {"/w/t": {}, "/w/u": {}, "/w/b": {("d", "t"): ()}, "/w/v": {("d", "v"): ()}}


def test_table_whose_name_goes_on_with_a_digit_does_not_lie_in_the_other() -> None:
    """The digit 0 follows the slash."""
    holding = Holding()
    for name in ("t", "t0"):
        located(holding, name, f"/w/{name}")
    locations = current(holding)
    assert locations.find("/w/t") == {("d", "t"): WHOLE}
    assert locations.beside(["file:///w/t"], ("d", "t")) == {}


class Looked(SimFolders):
    """Notes each folder that is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[str] = []
        self.below: list[str] = []

    def folders_at(self, locations: Sequence[str]) -> list[FolderRow]:
        self.at += locations
        return super().folders_at(locations)

    def folders_in(self, location: str) -> Iterator[FolderRow]:
        self.below.append(location)
        return super().folders_in(location)


def test_folders_above_many_partitions_are_looked_up_once() -> None:
    """The store answers, so that each look takes a query."""
    holding, stored = Holding(), Looked()
    for name in ("t", "u"):
        located(holding, name, "/w/t")
    locations = current(holding, Locations(holding.version_log, stored))
    stored.at.clear()
    stored.below.clear()
    folders = [f"file:///w/t/ds={day}" for day in range(100)]
    assert set(locations.beside(folders, ("d", "t"))) == {("d", "u")}
    assert sorted(stored.at) == sorted(["file://", "file:///w", "file:///w/t", *folders])
    assert sorted(stored.below) == sorted(["file:///w/t", *folders])


def test_partition_without_a_location_lies_nowhere() -> None:
    holding = Holding()
    holding.whole(struct(T, "ds"), placed(a="", b="/data/b"))
    found = find(holding, "/x", "/data/b/part-0", "/data/x")
    assert found == {"/data/b/part-0": ("ds=b",)}


def test_partition_whose_location_is_no_text_lies_nowhere() -> None:
    """Given a metastore that answers with bytes that no Java writes."""
    holding = Holding()
    parts = placed(a="/data/a", b="/data/b", c="/data/\u00ff/ds=c")
    parts["ds=a"] = parts["ds=a"].replace(b"/data/a", b"/data/\xff")
    parts["ds=c"] = parts["ds=c"].replace(b"/\xc3\xbf/ds=c", b"/\xff\xff/ds=c")
    locations = current(holding)
    holding.whole(struct(T, "ds"), parts)
    assert find(holding, "/data", locations=locations) == {"/data": ("ds=b",)}


def placed(**places: str) -> dict[str, bytes]:
    """Return partitions of ``d.t`` that lie at ``places``, each ``ds`` with a location."""
    table = make_table(*T, location="file:/w/d/t", keys=("ds",))
    found = {}
    for day, location in places.items():
        partition = make_partition(table, [day])
        partition.sd.location = location
        found[f"ds={day}"] = thrift_bytes(partition)
    return found


def find(holding: Holding, *paths: str, locations: Locations | None = None) -> dict[str, object]:
    """Return, by path, the partitions of ``d.t`` that it names; WHOLE: any; absent: not ``d.t``."""
    found = {path: current(holding, locations).find(path) for path in paths}
    return {path: tables[T] for path, tables in found.items() if T in tables}


def test_path_in_the_folder_of_a_partition_that_lies_elsewhere_names_it() -> None:
    holding = Holding()
    places = placed(a="s3a://lake/a", b="/data/b/", c="/data/b", d="/w/d/t/other", e="/w/d/t/ds=e")
    holding.whole(struct(T, "ds"), places)
    found = find(
        holding, "s3://lake/a/part-0", "/data/b", "/data", "/w/d/t/ds=e", "/w/d/t/other/x", "/dat"
    )
    assert found == {
        "s3://lake/a/part-0": ("ds=a",),
        "/data/b": ("ds=b", "ds=c"),
        "/data": ("ds=b", "ds=c"),
        "/w/d/t/ds=e": ("ds=e/",),
        "/w/d/t/other/x": WHOLE,
    }


def test_partition_in_the_folder_of_another_table_changes_with_it() -> None:
    holding = Holding()
    located(holding, "outer", "/data")
    holding.whole(struct(T, "ds"), placed(a="/data/ds=1"))
    assert current(holding).find("/data/ds=1/x") == {T: ("ds=a",), ("d", "outer"): ("ds=1/",)}


def test_partitions_that_move_go_and_come_are_found_where_they_are() -> None:
    holding = Holding()
    holding.whole(struct(T, "ds"), placed(a="/data/a", b="/data/b", c="/data/c"))
    locations = current(holding)
    holding.change({**placed(a="/data/x", d="/data/d"), "ds=b": None})
    paths = [f"/data/{one}" for one in "abcdx"]
    assert find(holding, *paths, locations=locations) == {
        "/data/c": ("ds=c",),
        "/data/d": ("ds=d",),
        "/data/x": ("ds=a",),
    }
    holding.whole(struct(T, "ds"), placed(e="/data/e"), incarnation=2)
    assert find(holding, *paths, "/data/e", locations=locations) == {"/data/e": ("ds=e",)}
    holding.tables.drop(T, source=SOURCE_EVENTS)
    assert find(holding, *paths, "/data/e", locations=locations) == {}


def test_partitions_stay_where_they_are_when_their_table_moves() -> None:
    """Whether their locations are those of their names, or not."""
    holding = Holding()
    named = placed(**{"1": "file:/w/d/t/ds=1"})
    holding.whole(struct(T, "ds"), named | placed(a="/data/a", b="/w/d/t/by_hand"))
    locations = current(holding)
    moved = make_table(*T, location="/data", keys=("ds",))
    holding.change({}, thrift=thrift_bytes(moved))
    paths = ("/data/a/x", "/w/d/t/by_hand/x", "/w/d/t/ds=1/x")
    assert find(holding, *paths, locations=locations) == {
        "/data/a/x": WHOLE,
        "/w/d/t/by_hand/x": WHOLE,
        "/w/d/t/ds=1/x": ("ds=1/",),
    }


def test_too_many_partitions_elsewhere_count_for_the_folder_that_they_have_in_common(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given blocks of three partitions, of which five have locations of their own in two stores."""
    monkeypatch.setattr(module, "PARTITIONS_MAX", 4)
    monkeypatch.setattr(PartitionKind, "records_max", 3)
    holding = Holding()
    places = {f"a{n}": f"/data/2026/{n}" for n in range(4)}
    holding.whole(struct(T, "ds"), placed(**places, b="s3://lake/b", z="/w/d/t/ds=z"))
    locations = current(holding)
    paths = ("/data/2026/9", "/data/2025", "s3://lake/b/x", "s3://lake/c", "/w/d/t/ds=z")
    assert find(holding, *paths, locations=locations) == {
        "/data/2026/9": WHOLE,
        "s3://lake/b/x": WHOLE,
        "/w/d/t/ds=z": ("ds=z/",),
    }
    holding.change(placed(c="/data/2025/1"))
    assert find(holding, *paths[:2], locations=locations) == dict.fromkeys(paths[:2], WHOLE)
    holding.tables.drop(T, source=SOURCE_EVENTS)
    assert find(holding, *paths, locations=locations) == {}
