"""Flights: an event touches what it says something of, and nothing else."""

import pytest

from topicast.catalog.ingest.chunked_load import ChunkedLoad
from topicast.catalog.ingest.in_flight import InFlightRead
from topicast.catalog.ingest.reads import Need, Read, TableRequest

T, U = ("d", "t"), ("d", "u")


def flight(need: Need) -> InFlightRead:
    want = TableRequest(db="d", table="t", obj=need.obj, whole=need.whole, names=tuple(need.names))
    return InFlightRead(Read(read=1, wants=(want,)), {T: need})


def piece(*names: str, whole: bool = False) -> InFlightRead:
    want = TableRequest(db="d", table="t", obj=False, whole=whole, names=names)
    return InFlightRead(Read(read=1, wants=(want,)), {}, ChunkedLoad(None))


@pytest.mark.parametrize("found", [flight(Need(names={"a": None})), piece("a")])
def test_partition_that_changed_touches_the_read_of_it_alone(found: InFlightRead) -> None:
    found.touch(T, ("b",))
    found.touch(U, ("a",))
    found.touch(U, None)
    assert not found.touched
    found.touch(T, ("b", "a"))
    assert list(found.touched) == [T]


@pytest.mark.parametrize("found", [flight(Need(whole=True)), piece(whole=True)])
def test_any_partition_touches_a_read_of_all(found: InFlightRead) -> None:
    found.touch(T, ("b",))
    assert list(found.touched) == [T]


@pytest.mark.parametrize("found", [flight(Need(names={"a": None})), piece("a")])
def test_table_that_changed_touches_every_read_of_it(found: InFlightRead) -> None:
    found.touch(T, None)
    assert list(found.touched) == [T]
    assert found.table == T
