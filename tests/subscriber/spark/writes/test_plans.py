"""What a plan says of partitions; the rest is an adapter, tested on real Spark in tests/spark."""

import pytest

from topicast.subscriber.spark.writes.plans import partitions_of


@pytest.mark.parametrize(
    ("columns", "spec", "named"),
    [
        (["ds"], {"ds": "1"}, ("ds=1",)),
        (["ds", "hour"], {"hour": "3", "ds": "a b/c"}, ("ds=a b%2Fc/hour=3",)),
        (["ds", "hour"], {"ds": "1"}, ("ds=1/",)),
        (["ds", "hour"], {"hour": "3"}, ()),
        (["ds"], {}, ()),
        ([], {}, ()),
        ([], {"ds": "1"}, ("ds=1/",)),
    ],
)
def test_partitions_are_exact_a_prefix_or_unknown(
    columns: list[str], spec: dict[str, str], named: tuple[str, ...]
) -> None:
    assert partitions_of(columns, spec) == named
