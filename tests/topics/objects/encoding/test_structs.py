"""Structs of many partitions, kept in little memory."""

import random
import tracemalloc
from collections.abc import Iterator

import pytest

from topicast.topics.objects.encoding.structs import KEPT_BYTES_MAX, RequestedStructs, Structs

LONG = bytes(range(256)) * 128  # what all partitions have in common


def replies(count: int, *, per_reply: int = 100) -> Iterator[dict[str, bytes]]:
    every = [f"ds={number:05}" for number in range(count)]
    for at in range(0, count, per_reply):
        yield {name: name.encode() + LONG for name in every[at : at + per_reply]}


@pytest.mark.parametrize("count", [0, 1, 250, 1_000])
def test_structs_are_found_as_they_were_added_in_any_order(count: int) -> None:
    found = Structs()
    for reply in replies(count):
        found.add(reply)
    names = [name for reply in replies(count) for name in reply]
    assert sorted(found) == names
    assert len(found) == count
    random.Random(1).shuffle(names)
    assert all(found[name] == name.encode() + LONG for name in names)
    assert "ds=none" not in found
    assert found.get("ds=none") is None


def test_what_is_kept_of_many_is_less_than_two_replies() -> None:
    count, per_reply = 4 * KEPT_BYTES_MAX // len(LONG), 100
    found = Structs()
    tracemalloc.start()
    for reply in replies(count, per_reply=per_reply):
        found.add(reply)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(map(len, found.values())) > 4 * KEPT_BYTES_MAX
    assert kept < KEPT_BYTES_MAX + 2 * per_reply * len(LONG)


def test_partition_that_was_requested_and_does_not_exist_is_none() -> None:
    changes = RequestedStructs({"ds=1": None, "ds=2": None}, {"ds=1": b"one"})
    assert dict(changes) == {"ds=1": b"one", "ds=2": None}
    assert len(changes) == 2
    with pytest.raises(KeyError):
        changes["ds=3"]
