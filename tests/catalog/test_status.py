"""The status: what catalogd reports, to pages, metrics and operators alike."""

from dataclasses import asdict, fields, replace
from typing import Any

import pytest

from topicast.catalog.follow.notes import CatalogCounts
from topicast.catalog.ingest.events.poller import NO_LISTENER, UNPROVEN, Poll
from topicast.catalog.status import (
    APART,
    BEHIND_S,
    COMPARISON_TIMES,
    HUB_AWAY_S,
    NAMED_MAX,
    TRY_EVENTS,
    CatalogStatus,
    MetastoreFacts,
    answer,
    first_of,
    verdict,
)
from topicast.tests.cluster.alone import Alone, loaded
from topicast.topics.errors import StoreFull
from topicast.topics.objects.rules import Rule
from topicast.topics.objects.source_problem import ProblemKind, SourceProblem
from topicast.topics.slices import ROWS_MAX
from topicast.topics.topic import NAMESPACE
from topicast.topics.verdict import HANDSHAKES_S, RefusedHandshake, Serving
from topicast.topics.wire.messages.answers import HeldTopic, HubFacts
from topicast.topics.wire.messages.questions import (
    ReadHeldTopics,
    ReadHubs,
    ReadStatus,
    ReadVerdict,
)

DEGRADED, NOT_SERVING = Serving.DEGRADED, Serving.NOT_SERVING


@pytest.fixture
def status() -> CatalogStatus:
    return loaded().catalog.status()


def test_status_is_every_number_that_is_no_list_and_every_count(status: CatalogStatus) -> None:
    found = answer(status, ReadStatus())
    assert found.columns == ("name", "value")
    facts = dict(found.rows)
    named = {field.name for field in fields(CatalogStatus)} - APART
    about = {"release", "metastore", "verdict", "problem", "warning", "hubs", "hubs_connected"}
    about |= {*COMPARISON_TIMES}
    assert set(facts) == about | named | set(status.counts)
    assert facts["databases"] == 2
    assert facts["events"] == status.counts["events"] > 0


def test_every_count_of_the_core_is_told(status: CatalogStatus) -> None:
    assert set(asdict(CatalogCounts())) <= set(status.counts)


def test_topics_are_told_one_by_one(status: CatalogStatus) -> None:
    found = answer(status, ReadHeldTopics())
    columns, rows = found.columns, found.rows
    assert columns == HeldTopic._fields
    assert [row[0] for row in rows] == [0, 1, 2, 3, NAMESPACE]
    reported = [dict(zip(columns, row, strict=True)) for row in rows]
    assert sum(one["entries"] for one in reported) == status.entries
    assert sum(one["held_bytes"] for one in reported) == status.held_bytes


def test_status_made_in_slices_agrees_with_itself_while_tables_come() -> None:
    core = Alone(num_topics=256)
    core.create_database("d")
    core.create("d", "t", "ds")
    core.turn(20)
    made = list[CatalogStatus | None]()
    for one in core.catalog.introspection.status_in_slices():
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
    assert "a poll for events has waited 3 s" in core.reasons["metastore_silent"]
    assert status.counts["polls_late"] == 1
    assert status.metastore_silent_s is not None
    assert status.metastore_silent_s > 2
    core.catalogd.resume()
    core.turn(4)
    status = core.catalog.status()
    assert (core.reasons, status.counts["polls_late"]) == ({}, 1)
    assert status.metastore_silent_s < 1


AGAIN = (
    "catalogd tries again every few seconds: does the metastore run, and at "
    "--hive_metastore_uris=m?"
)


def test_some_tables_are_named_with_their_reasons_and_the_others_counted() -> None:
    tables = {("d", f"t{number}"): f"e{number}" for number in range(NAMED_MAX + 2)}
    assert first_of(tables).endswith("; d.t4: e4; 2 more")
    assert first_of({("d", "t"): "e"}) == "d.t: e"
    assert first_of({}) == ""


UNRECORDED = SourceProblem(ProblemKind.UNRECORDED, NO_LISTENER)
LOST = "events 3 to 5 are missing"
NAMES = "reading names from the metastore"
SILENT = "the metastore does not answer"
ALL_AGAIN = f"{LOST}, everything is read again"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, []),
        ({"names": "n"}, []),  # of one table that cannot be read
        ({"names_known": False, "missing": LOST}, [(NOT_SERVING, NAMES, "wait")]),
        ({"names_known": False, "names": "n"}, [(NOT_SERVING, f"{NAMES}: n", AGAIN)]),
        ({"names_known": False, "names": "n", "polls": "p"}, [(NOT_SERVING, f"{NAMES}: p", AGAIN)]),
        ({"polls": "p"}, [(DEGRADED, f"{SILENT}: p", AGAIN)]),
        ({"polls": "p", "missing": LOST}, [(DEGRADED, f"{SILENT}: p", AGAIN)]),
        ({"missing": LOST}, [(DEGRADED, ALL_AGAIN, "wait")]),
        ({"missing": LOST, "names": "n"}, [(DEGRADED, f"{ALL_AGAIN}: n", AGAIN)]),
        ({"source_problem": UNRECORDED}, [(DEGRADED, NO_LISTENER, TRY_EVENTS)]),
        (
            {"source_problem": UNRECORDED, "polls": "p", "unproven": True},
            [(DEGRADED, NO_LISTENER, TRY_EVENTS), (DEGRADED, f"{SILENT}: p", AGAIN)],
        ),
        ({"unproven": True}, [(DEGRADED, UNPROVEN, TRY_EVENTS)]),
        ({"unproven": True, "polls": "p"}, [(DEGRADED, f"{SILENT}: p", AGAIN)]),
    ],
)
def test_what_is_wrong_with_the_metastore_is_said_with_what_to_do(
    status: CatalogStatus, found: dict[str, Any], expected: list[tuple[Serving, str, str]]
) -> None:
    lacks = replace(status, metastore=MetastoreFacts(addresses="m", **found))
    reasons = verdict(lacks).reasons
    assert [(one.state, one.what, one.mend) for one in reasons] == expected


@pytest.mark.parametrize(
    ("lag_s", "found", "expected"),
    [
        (None, {}, []),
        (BEHIND_S - 0.1, {}, []),
        (BEHIND_S, {}, ["behind"]),
        (BEHIND_S, {"polls": "p"}, ["metastore_silent"]),
        (BEHIND_S, {"missing": LOST}, ["events_missing"]),
        (BEHIND_S, {"source_problem": UNRECORDED}, ["metastore_events"]),
    ],
)
def test_changes_that_wait_for_long_are_said_unless_their_cause_is(
    status: CatalogStatus, lag_s: float | None, found: dict[str, Any], expected: list[str]
) -> None:
    metastore = MetastoreFacts(addresses="m", **found)
    late = replace(status, lag_s=lag_s, lag_events=3, metastore=metastore)
    assert [one.code for one in verdict(late).reasons] == expected


def test_store_without_room_is_worse_than_all_else(status: CatalogStatus) -> None:
    full = StoreFull("/state/catalog.sqlite3", "cannot grow", "free space on its disk")
    reasons = verdict(
        replace(status, store_problem=full, refused_handshake=RefusedHandshake(1.0))
    ).reasons
    assert [(one.state, one.code) for one in reasons] == [
        (NOT_SERVING, "store_full"),
        (DEGRADED, "handshakes_failed"),
    ]
    assert "free space" in reasons[0].mend


def test_rules_that_switch_drivers_off_are_said(status: CatalogStatus) -> None:
    rules = (Rule("*", "dry-run"), Rule("etl-*", "off"), Rule("etl-7", "on"))
    (reason,) = verdict(replace(status, rules=rules)).reasons
    assert (reason.state, reason.code) == (DEGRADED, "drivers_off")
    assert reason.what.endswith("not refreshed: dry-run for '*', off for 'etl-*'")
    assert verdict(replace(status, rules=rules[2:])).reasons == ()


def hub(*, connected: bool, since_s: float) -> HubFacts:
    address = f"tcp://hub-{since_s:g}:24000"
    return HubFacts(
        address=address, connected=connected, since_s=since_s, reason="silent", unacknowledged=0
    )


def test_catalogd_is_degraded_by_each_hub_that_has_been_away_for_longer_than_a_restart(
    status: CatalogStatus,
) -> None:
    hubs = (
        *(hub(connected=True, since_s=90.0), hub(connected=False, since_s=HUB_AWAY_S - 0.1)),
        *(hub(connected=False, since_s=HUB_AWAY_S), hub(connected=False, since_s=61.0)),
    )
    lacks = replace(status, hubs=hubs)
    found = verdict(lacks)
    assert found.state is DEGRADED
    assert [(one.code, one.subject) for one in found.reasons] == [
        ("hub_away", "tcp://hub-2:24000"),
        ("hub_away", "tcp://hub-61:24000"),
    ]
    assert "tcp://hub-61:24000 has not been connected for 61 s (silent)" in found.lines[1]
    facts = dict(answer(lacks, ReadStatus()).rows)
    assert (facts["verdict"], facts["hubs"], facts["hubs_connected"]) == ("degraded", 4, 1)
    assert answer(lacks, ReadVerdict()).rows == found.rows
    assert [one["address"] for one in answer(lacks, ReadHubs()).records()] == [
        h.address for h in hubs
    ]


def test_clients_that_are_refused_degrade_for_a_minute(status: CatalogStatus) -> None:
    ago = (0.0, HANDSHAKES_S, HANDSHAKES_S + 0.1)
    codes = [
        [one.code for one in verdict(replace(status, refused_handshake=last)).reasons]
        for last in (None, *map(RefusedHandshake, ago))
    ]
    assert codes == [[], ["handshakes_failed"], ["handshakes_failed"], []]
