"""Which folders are partitions of a table, and how many hold them."""

import pytest

from topicast.pipeline.sweep.unknown_folders import as_written, folders_above
from topicast.topics.objects.tables import Column


@pytest.mark.parametrize(
    ("partitions", "folders"),
    [
        ((), 1),
        (("ds=1", "ds=2"), 1),
        (("ds=1/hour=1", "ds=1/hour=2", "ds=2/hour=1"), 3),
        (("a=1/b=1/c=1", "a=1/b=2/c=1", "a=1-1/b=1/c=1"), 6),
        (("a=x%2Fy/b=1", "a=x/b=1"), 3),
    ],
)
def test_folders_above_partitions_are_the_tables_own_and_each_distinct_one_between(
    partitions: tuple[str, ...], folders: int
) -> None:
    assert folders_above(partitions) == folders


@pytest.mark.parametrize(
    ("folder", "partition"),
    [
        ("ds=a b/hour=1", "ds=a b/hour=1"),
        ("DS=it's %/hour=", "ds=it%27s %25/hour=__HIVE_DEFAULT_PARTITION__"),
        ("convert-1/part=2", ""),
        ("ds=1", ""),
        ("hour=1/ds=1", ""),
        ("=1/hour=1", ""),
        ("ds=a=b/hour=1", ""),
    ],
)
def test_folder_is_a_partitions_if_it_is_named_by_the_tables_keys(
    folder: str, partition: str
) -> None:
    assert as_written(folder, (Column("ds", "string"), Column("hour", "int"))) == partition
