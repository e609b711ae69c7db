"""The status: what catalogd reports, to pages, metrics and operators alike."""

from dataclasses import asdict, fields, replace

import pytest

from topicast.catalog.core import Counts
from topicast.catalog.ingest.poller import EVENTS_OFF, NO_LISTENER, Poll
from topicast.catalog.status import (
    NAMED_MAX,
    Status,
    TopicStatus,
    first_of,
    problem_and_warning,
    table,
)
from topicast.tests.cluster.alone import Alone, loaded
from topicast.topics.slices import ROWS_MAX
from topicast.topics.topic import NAMESPACE


@pytest.fixture
def status() -> Status:
    return loaded().catalog.status()


def test_status_is_every_number_that_is_no_list_and_every_count(status: Status) -> None:
    found = table(status, "status")
    assert found.columns == ("name", "value")
    facts = dict(found.rows)
    named = {field.name for field in fields(Status)} - {"counts", "topics"}
    assert set(facts) == {"release"} | named | set(status.counts)
    assert facts["databases"] == 2
    assert facts["events"] == status.counts["events"] > 0


def test_every_count_of_the_core_is_told(status: Status) -> None:
    assert set(asdict(Counts())) <= set(status.counts)


def test_topics_are_told_one_by_one(status: Status) -> None:
    found = table(status, "topics")
    columns, rows = found.columns, found.rows
    assert columns == tuple(field.name for field in fields(TopicStatus))
    assert [row[0] for row in rows] == [0, 1, 2, 3, NAMESPACE]
    reported = [dict(zip(columns, row, strict=True)) for row in rows]
    assert sum(one["entries"] for one in reported) == status.entries
    assert sum(one["held_bytes"] for one in reported) == status.held_bytes


def test_status_made_in_slices_agrees_with_itself_while_tables_come() -> None:
    core = Alone(num_topics=256)
    core.create_database("d")
    core.create("d", "t", "ds")
    core.turn(20)
    made = list[Status | None]()
    for one in core.catalog.status_in_slices():
        made.append(one)
        core.create("d", f"t{len(made)}", "ds")
        core.turn(5)
    *pauses, status = made
    assert pauses == [None] * (len(core.catalog.version_log.topics) // ROWS_MAX)
    assert status is not None
    assert sum(one.entries for one in status.topics) == status.entries > 0
    assert sum(one.held_bytes for one in status.topics) == status.held_bytes
    assert status.databases == 2


def test_picture_does_not_change_afterwards(core: Alone) -> None:
    before = core.catalog.status()
    kept = replace(before, counts=dict(before.counts))
    core.create("d", "u")
    core.turn(12)
    assert before == kept
    assert core.catalog.status() != kept


def test_metastore_that_hangs_is_told_before_anything_fails(core: Alone) -> None:
    core.catalogd.hold(Poll)
    core.turn(33)
    status = core.catalog.status()
    assert "does not answer: a poll for events has waited 3 s" in status.warning
    assert status.counts["polls_late"] == 1
    assert status.metastore_silent_s is not None
    assert status.metastore_silent_s > 2
    core.catalogd.resume()
    core.turn(4)
    status = core.catalog.status()
    assert (status.warning, status.counts["polls_late"]) == ("", 1)
    assert status.metastore_silent_s < 1


AGAIN = (
    "; catalogd tries again every few seconds: does the metastore run, and at "
    "--hive_metastore_uris=m?"
)


def test_some_tables_are_named_with_their_reasons_and_the_others_counted() -> None:
    tables = {("d", f"t{number}"): f"e{number}" for number in range(NAMED_MAX + 2)}
    assert first_of(tables).endswith("; d.t4: e4; 2 more")
    assert first_of({("d", "t"): "e"}) == "d.t: e"
    assert first_of({}) == ""


LOST = "events 3 to 5 are missing"


@pytest.mark.parametrize(
    ("polls", "names", "names_known", "missing", "expected"),
    [
        ("", "", False, LOST, ("reading names from the metastore: wait", "")),
        ("", "n", False, LOST, (f"reading names from the metastore: n{AGAIN}", "")),
        ("p", "n", False, LOST, (f"reading names from the metastore: p{AGAIN}", "")),
        ("", "n", True, "", ("", "")),
        ("p", "n", True, "", ("", f"the metastore does not answer: p{AGAIN}")),
        ("", "", True, LOST, ("", f"{LOST}, everything is read again: wait")),
        ("", "n", True, LOST, ("", f"{LOST}, everything is read again: n{AGAIN}")),
    ],
)
def test_problem_and_warning_name_the_remedy(
    polls: str, names: str, names_known: bool, missing: str, expected: tuple[str, str]
) -> None:
    found = problem_and_warning(
        polls, names, names_known=names_known, missing=missing, metastore="m", blind=""
    )
    assert found == expected


@pytest.mark.parametrize(
    ("blind", "expected"),
    [(NO_LISTENER, (NO_LISTENER, "")), (EVENTS_OFF, ("", EVENTS_OFF))],
    ids=["a fault", "as the operator wants it"],
)
def test_view_that_no_change_reaches_is_a_problem_unless_events_are_off(
    blind: str, expected: tuple[str, str]
) -> None:
    found = problem_and_warning("", "", names_known=True, missing="", metastore="m", blind=blind)
    assert found == expected
