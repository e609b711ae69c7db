"""Another metastore is distinguished from the same one, by what each of them holds."""

from collections.abc import Mapping

import pytest

from topicast.catalog.ingest.events.identity import (
    IDENTIFY_EVENTS_MAX,
    Finding,
    Identified,
    Identify,
    IdentityCheck,
    compare,
    compare_tables,
)
from topicast.catalog.metastore.port import RawEvent
from topicast.tests.cluster.fake_metastore import raw_event

KNOWN_TABLES: Mapping[tuple[str, str], int | None] = {
    ("d", "t"): 5,
    ("d", "u"): 6,
    ("d", "v"): None,
}


KNOWN = tuple((number, raw_event(number).digest) for number in (7, 8, 10))


def identified(*events: RawEvent, **more: object) -> Identified:
    fields = {"poll": 1, "connection": 2, "uuid": "", "current_id": 10, **more}
    return Identified(events=events, **fields)


def finding(*events: RawEvent, **more: object) -> Finding | None:
    return compare(identified(*events, **more), uuid="", last_id=10, known=KNOWN)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([raw_event(7), raw_event(8), raw_event(10)], "its event 10 is known"),
        ([raw_event(8)], "its event 8 is known"),
        ([raw_event(8), raw_event(8, "late"), raw_event(9, "late")], "its event 8 is known"),
    ],
    ids=["all are there", "the others were cleaned", "some came late"],
)
def test_metastore_with_a_known_event_is_the_same(events: list[RawEvent], why: str) -> None:
    assert finding(*events, current_id=12) == Finding(same=True, why=why)


def test_metastore_with_another_event_of_a_known_id_is_another() -> None:
    """Given an older copy of it that goes on since, then it has known events, too."""
    found = finding(raw_event(7), raw_event(8), raw_event(10, "another"), current_id=12)
    assert found == Finding(same=False, why="its event 10 is not the one that was read")


def test_metastore_without_one_of_two_events_of_a_known_id_is_another() -> None:
    """Given an older copy, which was made between two writers that got one id."""
    known = (*KNOWN, (10, raw_event(10, "u").digest))
    without = identified(raw_event(8), raw_event(10))
    found = compare(without, uuid="", last_id=10, known=known)
    assert found == Finding(same=False, why="its event 10 is not the one that was read")
    both = identified(raw_event(8), raw_event(10), raw_event(10, "u"))
    assert compare(both, uuid="", last_id=10, known=known) is not None


def test_oldest_event_tells_nothing_when_others_of_its_id_are_gone() -> None:
    """Given a log of which one of two events of an id was cleaned."""
    known = ((10, raw_event(10).digest), (10, raw_event(10, "u").digest))
    assert compare(identified(raw_event(10)), uuid="", last_id=10, known=known) is None
    found = compare(identified(raw_event(10, "x")), uuid="", last_id=10, known=known)
    assert found == Finding(same=False, why="its event 10 is not the one that was read")


def test_last_id_of_an_answer_that_was_cut_short_tells_nothing() -> None:
    late = [raw_event(10, f"late{n}") for n in range(IDENTIFY_EVENTS_MAX - 1)]
    found = compare(identified(raw_event(8), *late), uuid="", last_id=10, known=KNOWN)
    assert found == Finding(same=True, why="its event 8 is known")


def test_metastore_with_a_lower_id_is_another() -> None:
    found = finding(raw_event(7), raw_event(8), current_id=9)
    assert found == Finding(same=False, why="its newest event is 9, and 10 was read before")


def test_uuids_tell_only_where_both_are_known() -> None:
    two, none = identified(raw_event(10), uuid="two"), identified(raw_event(10))
    found = compare(two, uuid="one", last_id=10, known=KNOWN)
    assert found == Finding(same=False, why="its UUID is two, and was one")
    for uuid, fact in (("", two), ("two", two), ("one", none)):
        found = compare(fact, uuid=uuid, last_id=10, known=KNOWN)
        assert found == Finding(same=True, why="its event 10 is known")


def test_events_tell_nothing_once_they_are_cleaned() -> None:
    assert finding(current_id=12) is None
    assert finding(raw_event(11), raw_event(12), current_id=12) is None
    assert compare(identified(raw_event(9)), uuid="", last_id=10, known=()) is None


@pytest.mark.parametrize(
    ("found", "same"),
    [
        ({("d", "t"): 5, ("d", "u"): 6, ("d", "v"): 7}, True),
        ({("d", "u"): 6}, True),
        ({("d", "t"): 5, ("d", "u"): None}, True),
        ({("d", "t"): None, ("d", "u"): 7, ("d", "v"): 7}, False),
        ({("d", "t"): 6, ("d", "u"): 7}, False),
        ({("e", "t"): 5}, False),
    ],
    ids=[
        *("all", "half of them", "one that cannot be read", "names alone", "created later"),
        "another database",
    ],
)
def test_tables_tell_by_creation_time(
    found: Mapping[tuple[str, str], int | None], same: bool
) -> None:
    assert compare_tables(KNOWN_TABLES, found).same is same


def test_uuid_decides_where_no_creation_time_is_known() -> None:
    tables = {("d", "t"): None}
    assert not compare_tables(tables, {("d", "t"): 5}).same
    assert compare_tables(tables, {("d", "t"): 5}, same_uuid=True).same
    assert not compare_tables(KNOWN_TABLES, {}, same_uuid=True).same


def test_metastore_of_which_no_table_was_known_is_the_same_and_all_is_read() -> None:
    found = compare_tables({}, {("d", "t"): 5})
    assert (found.same, found.by_tables) == (True, True)


def test_tables_are_read_only_where_events_tell_nothing() -> None:
    check = IdentityCheck(lambda: KNOWN_TABLES)
    order = check.order(1, KNOWN)
    assert order == Identify(poll=1, after=6, events_max=IDENTIFY_EVENTS_MAX, behind=True)
    assert check.on_identified(identified(), uuid="", last_id=10, known=KNOWN) is None
    assert check.connection is None
    order = check.order(2, KNOWN)
    assert order.tables == tuple(KNOWN_TABLES)
    fact = identified(tables=KNOWN_TABLES)
    found = check.on_identified(fact, uuid="", last_id=10, known=KNOWN)
    assert str(found) == (
        "the same metastore: no known event is left, and 2 of 2 known tables are there"
    )
    assert check.connection == 2
    assert check.order(3, ()) == Identify(poll=3, after=0, events_max=0)


def test_connection_to_another_metastore_is_not_accepted() -> None:
    check = IdentityCheck(dict)
    found = check.on_identified(identified(raw_event(10, "x")), uuid="", last_id=10, known=KNOWN)
    assert str(found) == "another metastore: its event 10 is not the one that was read"
    assert check.connection is None
