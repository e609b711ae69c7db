"""How many folders hold the partitions of a table."""

import pytest

from topicast.subscriber.pipeline.sweep.strays import folders_above


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
