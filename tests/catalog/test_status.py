"""The status: what is told of catalogd, to pages, metrics and operators alike."""

from dataclasses import asdict, fields, replace

import pytest

from topicast.catalog.facts import Counts
from topicast.catalog.status import Status, TopicStatus, table
from topicast.tests.catalog.core import Core, loaded
from topicast.topics.errors import SourceError
from topicast.topics.sharding import NAMESPACE


@pytest.fixture
def status() -> Status:
    return loaded().catalog.status()


def test_status_is_every_number_that_is_no_list_and_every_count(status: Status) -> None:
    columns, rows = table(status, "status") or ((), ())
    assert columns == ("name", "value")
    facts = dict(rows)
    named = {field.name for field in fields(Status)} - {"counts", "topics"}
    assert set(facts) == named | set(status.counts)
    assert facts["databases"] == 2
    assert facts["events"] == status.counts["events"] > 0


def test_every_count_of_the_core_is_told(status: Status) -> None:
    assert set(asdict(Counts())) <= set(status.counts)


def test_topics_are_told_one_by_one(status: Status) -> None:
    columns, rows = table(status, "topics") or ((), ())
    assert columns == tuple(field.name for field in fields(TopicStatus))
    assert [row[0] for row in rows] == [0, 1, 2, 3, NAMESPACE]
    told = [dict(zip(columns, row, strict=True)) for row in rows]
    assert sum(one["entries"] for one in told) == status.entries
    assert sum(one["held_bytes"] for one in told) == status.held_bytes


def test_unknown_table_is_none(status: Status) -> None:
    assert table(status, "counts") is None


def test_picture_does_not_change_afterwards() -> None:
    core = loaded()
    before = core.catalog.status()
    kept = replace(before, counts=dict(before.counts))
    core.create("d", "u")
    core.turn(12)
    assert before == kept
    assert core.catalog.status() != kept


def test_problem_and_warning_say_what_is_wrong() -> None:
    core = Core()
    core.metastore.failures.append(SourceError("down"))
    core.turn()
    status = core.catalog.status()
    assert status.problem == "reading names from the metastore: down"
    assert status.warning == "the metastore does not answer: down"
    core.turn(20)
    status = core.catalog.status()
    assert (status.problem, status.warning) == ("", "")
