import pytest

from topicast.catalog.metastore.calls import Calls


def test_calls_are_counted_by_method_also_those_that_fail() -> None:
    calls = Calls()
    with calls.timed("get_database"):
        pass
    with pytest.raises(OSError, match="away"), calls.timed("get_database"):
        raise OSError("away")
    with calls.timed("getVersion"):
        pass
    found = calls.facts()
    assert {method: one.count for method, one in found.items()} == {
        "getVersion": 1,
        "get_database": 2,
    }
    assert all(0.0 <= one.total < 1.0 for one in found.values())
