"""Chunked comparison: what differs is found in bounded turns, and only that is read again."""

import pytest

from topicast.catalog.ingest.loads.chunked_comparison import (
    DIFFERING_MAX,
    OTHER_BYTES_COST,
    SLICE_MAX,
    ChunkedComparison,
)
from topicast.catalog.ingest.loads.loader import Loader
from topicast.catalog.ingest.loads.needs import Extent, Need
from topicast.catalog.metastore.port import PARTITIONS_PER_CALL_MAX, Read, TableRead
from topicast.tests.catalog.holding import Holding, T, parts, struct
from topicast.tests.topics.objects.structs import partition, string, string_map
from topicast.tests.topics.objects.structs import struct as fields
from topicast.topics.turn import Turn

COUNT = 3 * SLICE_MAX + 1
VALUES = [f"{number:04d}" for number in range(COUNT)]
NAMES = [f"ds={value}" for value in VALUES]


def comparison(names: list[str] | None, held: dict[str, bytes]) -> ChunkedComparison:
    """Return the comparison of ``d.t``, of which ``held`` is held."""
    holding = Holding()
    holding.whole(struct(T, "ds"), held)
    return ChunkedComparison(holding.tables, T, names, need=Need(extent=Extent.STRUCT))


def turns(one: ChunkedComparison) -> int:
    """Return how many turns compare what was listed or read."""
    for count in range(2 * COUNT):
        if not one.has_slices:
            return count
        one.take_slice()
        one.check()
    pytest.fail("the comparison has no end")


def differing(held: dict[str, bytes], found: dict[str, bytes]) -> list[str]:
    """Return the partitions of ``held`` that are read again if the metastore has ``found``."""
    one = comparison(sorted(found), held)
    turns(one)
    one.accept(TableRead(partitions={name: found[name] for name in one.next().names}))
    turns(one)
    assert one.over
    return sorted(one.need.names)


def test_a_turn_compares_a_slice_of_the_names_and_of_a_chunk() -> None:
    """A slice of names ends with the block that fills it; the last turn finds nothing left."""
    held = parts(*VALUES)
    one = comparison(NAMES[1:], held)
    assert turns(one) == COUNT // SLICE_MAX + 1
    assert list(one.need.names) == NAMES[:1]
    assert COUNT <= PARTITIONS_PER_CALL_MAX
    assert one.next().names == tuple(NAMES[1:])
    one.accept(TableRead(partitions=held))
    assert turns(one) == 3 + 1
    assert one.over


def test_partition_whose_bytes_alone_differ_is_not_read_again() -> None:
    """The metastore may choose another order of fields at each answer."""
    pairs, name = string_map(a="1", b="2"), string(b"x")
    one, other = fields((1, 11, name), (9, 13, pairs)), fields((9, 13, pairs), (1, 11, name))
    assert one != other
    assert differing({"ds=1": one, "ds=2": one}, {"ds=1": other, "ds=2": one}) == []


def test_turn_compares_fewer_partitions_if_they_must_be_decoded() -> None:
    """96 of them took up to 45 ms."""
    pairs, name = string_map(a="1", b="2"), string(b"x")
    one, other = fields((1, 11, name), (9, 13, pairs)), fields((9, 13, pairs), (1, 11, name))
    names = NAMES[:SLICE_MAX]
    compared = comparison(names, dict.fromkeys(names, one))
    turns(compared)
    compared.next()
    compared.accept(TableRead(partitions=dict.fromkeys(names, other)))
    assert turns(compared) == OTHER_BYTES_COST + 1
    assert compared.over
    assert list(compared.need.names) == []


def test_partition_that_was_written_created_or_damaged_is_read_again() -> None:
    held = {f"ds={number}": partition() for number in range(4)}
    found = {**held, "ds=0": partition(rev="1"), "ds=2": b"no struct", "ds=4": partition()}
    assert differing(held, found) == ["ds=0", "ds=2", "ds=4"]


def test_names_that_were_dropped_are_listed_again_before_anything_is_compared() -> None:
    held = parts("1", "2")
    one = comparison(["ds=1", "ds=2"], held)
    one.list_later()
    one.check()
    assert not one.over
    for away in (True, False):
        assert one.wants_read
        request = one.next()
        assert (request.whole, request.listed, request.names) == (True, True, ())
        assert not request.obj, "the struct was read before"
        assert not one.wants_read, "it is being read"
        if away:
            one.give_back()
    one.accept(TableRead(names=("ds=2",)))
    turns(one)
    request = one.next()
    assert (request.obj, request.whole, request.names) == (False, False, ("ds=2",))
    one.accept(TableRead(partitions={"ds=2": held["ds=2"]}))
    turns(one)
    assert one.over
    assert list(one.need.names) == ["ds=1"]


def test_table_that_somebody_syncs_is_compared_before_others() -> None:
    tables, turn = Holding().tables, Turn[Read]()
    loader = Loader(turn=turn, loaded=lambda _: True)
    for name in "tuv":
        need = Need(extent=Extent.STRUCT)
        loader.compare(ChunkedComparison(tables, ("d", name), None, need=need))
    loader.hasten(("d", "u"))
    loader.order()
    assert [read.requests[0].table for read in turn.end()] == ["u", "t", "v"]


@pytest.mark.parametrize(("count", "much"), [(DIFFERING_MAX, False), (DIFFERING_MAX + 1, True)])
def test_table_is_loaded_instead_if_too_many_partitions_differ(count: int, much: bool) -> None:
    one = comparison([], {})
    one.need.names = {str(number): None for number in range(count)}
    assert one.differs_much is much
