"""Writing: what a driver wrote is heard by everybody else, from the core to the other's watch."""

import pytest

from topicast.subscriber.writing import checked, named
from topicast.topics.errors import UsageError


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("Sales.Orders", "sales.orders"),
        ("s3a://Lake/Sales", "s3a://Lake/Sales"),
        ("/w/Sales", "/w/Sales"),
    ],
)
def test_tables_are_told_in_lower_case_and_paths_as_they_are(written: str, told: str) -> None:
    assert checked(written) == told


@pytest.mark.parametrize("wrong", ["", "orders", "a.b.c"])
def test_what_is_neither_table_nor_path_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="db.table"):
        checked(wrong)


def test_partitions_are_names_or_how_they_begin() -> None:
    assert named(["ds=1", "ds=1/", "ds=1/hour=2"]) == ("ds=1", "ds=1/", "ds=1/hour=2")
    assert named([]) == ()
    with pytest.raises(UsageError):
        named(["ds"])
