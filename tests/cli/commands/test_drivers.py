"""Drivers as operators see and switch them; they are subscribers of this process, without Spark."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from topicast.cli.client.operator import Operator
from topicast.subscriber import Subscriber
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.documents import assert_of_schema
from topicast.tests.cli.processes import topicast
from topicast.tests.waiting import until
from topicast.topics.settings import parse_addresses
from topicast.topics.wire.messages.questions import ReadDriver, ReadStatus, ReadSubscribers

ETL = {
    "application": "etl-7",
    "application_id": "app-1",
    "user": "ann",
    "host": "node1",
    "spark": "4.3.0",
    "release": "0.1.0",
    "state": "live",
    "reason": "",
    "control": "on",
    "hubs": 1,
    "refreshes": 3,
    "stale_reads_avoided": 2,
    "endpoint": "waiting: it is starting",
    "endpoint_reads": 5,
    "writes": "not reported: its metastore is embedded",
}


@pytest.fixture(scope="module")
def etl(served: Served) -> Iterator[Subscriber]:
    """A driver."""
    made = Subscriber(
        served.statestores,
        name="app-1@node1:7",
        timeout_s=30,
        driver_facts=lambda: {**ETL, "control": made.driver.wanted("etl-7", "app-1")},
    )
    with made:
        made.drop(range(16))  # it stays with the names, however long that takes
        yield made


def printed(served: Served, *words: str) -> str:
    """Return what the command prints; beside it may stand what is wrong with the daemons."""
    done = topicast("drivers", *words, "--timeout_s=60", f"--statestores={served.statestores}")
    assert done.returncode == 0, done.stderr
    assert {line[:5] for line in done.stderr.splitlines()} <= {"note:"}
    return done.stdout


def listed(served: Served, *words: str) -> dict[str, dict[str, Any]]:
    records = json.loads(printed(served, *words, "--output=json"))
    assert_of_schema("drivers", records)
    return {one["name"]: one for one in records}


def not_gone(served: Served) -> dict[str, dict[str, Any]]:
    """Return the drivers that are there: other tests of this process may have had some."""
    return {name: one for name, one in listed(served).items() if one["state"] != "gone"}


def test_drivers_are_listed_with_their_facts_and_others_are_not(
    served: Served, etl: Subscriber
) -> None:
    with Subscriber(served.statestores, name="explorer", timeout_s=30):
        # A reader that a busy machine keeps from answering is listed until it says it is no driver.
        found = until(
            lambda: (some := not_gone(served)).keys() == {"app-1@node1:7"} and some,
            what="the driver alone",
        )
    (row,) = found.values()
    assert {name: row[name] for name in ETL} == ETL
    assert (row["full_topics"], row["minimal_topics"]) == (1, 0)
    stats = etl.stats()
    assert row["budget_bytes"] == stats.budget_bytes
    assert row["held_bytes"] > 0
    assert row["staleness_s"] < 60
    assert row["statestored"] == served.statestores
    assert row["since"].endswith("Z")
    head, line = (text.split() for text in printed(served, "--app=etl-7").splitlines())
    assert head == ["application", "state", "stale", "host", "user", "id"]
    assert (line[:2], line[-3:]) == (["etl-7", "live"], ["node1", "ann", row["registration"][:8]])
    wide = printed(served, "--app=etl-7", "--output=wide")
    assert f"  {ETL['writes']}" in wide, "why writes are not reported"
    assert f"  {ETL['endpoint']}" in wide, "why first reads are the metastore's"
    assert list(listed(served, f"--app={row['registration'][:8]}")) == ["app-1@node1:7"]
    assert printed(served, "--problems", "--app=etl-7") == "no driver has a problem\n"
    assert printed(served, "--app=web") == "no driver matches web\n"
    assert list(listed(served, "--app=app-?")) == ["app-1@node1:7"]
    assert list(listed(served, "--app=etl-*")) == ["app-1@node1:7"]
    assert listed(served, "--app=web") == {}


def test_drivers_are_switched_by_name_at_once_and_rules_are_shown(
    served: Served, etl: Subscriber
) -> None:
    def obeyed(state: str) -> Callable[[], bool]:
        return lambda: etl.driver.wanted("etl-7", "app-1") == state

    assert printed(served, "--rules") == "no rules hold: every driver is on\n"
    assert json.loads(printed(served, "--rules", "--output=json")) == []
    try:
        done = topicast("drivers", "off", "--all", f"--statestores={served.statestores}")
        assert done.stdout.startswith("all drivers are off, also those that attach later; ")
        assert done.stderr == "note: of the drivers that are attached now, 1 match\n"
        until(obeyed("off"), timeout_s=20, what="the order")
        assert listed(served)["app-1@node1:7"]["control"] == "off"
        shown = json.loads(printed(served, "dry-run", "--app=etl-*", "--output=json"))
        assert shown[0] == {"applications": "*", "state": "off"}
        assert shown[1] == {"applications": "etl-*", "state": "dry-run"}
        until(obeyed("dry-run"), timeout_s=20, what="the canary")
        done = topicast("drivers", "off", "--app=elt-*", f"--statestores={served.statestores}")
        assert done.stderr == "note: of the drivers that are attached now, 0 match\n"
        with Subscriber(served.statestores, timeout_s=30) as later:
            assert later.driver.wanted("other") == "off", "the rule holds for later drivers, too"
            assert later.driver.wanted("etl-8") == "dry-run"
            assert "\0drivers" not in "".join(later.databases())
    finally:
        topicast("drivers", "on", "--all", f"--statestores={served.statestores}")
    until(obeyed("on"), timeout_s=20, what="the end of all rules")


@pytest.mark.parametrize("state", ["off", "on", "dry-run"])
def test_an_order_for_every_driver_is_asked_for(served: Served, state: str) -> None:
    for words in ((), ("--app=etl-*", "--all")):
        done = topicast("drivers", state, *words, f"--statestores={served.statestores}")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"drivers {state}: either --app PATTERN, or --all for every driver" in done.stderr
    assert printed(served, "--rules") == "no rules hold: every driver is on\n"


def test_order_for_no_application_is_refused(served: Served) -> None:
    done = topicast("drivers", "off", "--app=", f"--statestores={served.statestores}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "1 to 200 characters" in done.stderr


def test_reader_that_does_not_answer_may_be_a_driver(served: Served, etl: Subscriber) -> None:
    addresses = parse_addresses(served.statestores)
    with Operator(addresses, timeout_s=30) as visit:
        members = visit.hub(ReadSubscribers())
        (registration,) = [row[1] for row in members.rows if row[0] == "app-1@node1:7"]
        reported = visit.readers(ReadDriver, [str(registration), "00" * 16])
        assert sorted(reported) == sorted([str(registration), "00" * 16])
        assert "no member" in str(reported["00" * 16])
        visit.timeout_s = 0.0
        assert visit.readers(ReadDriver, [str(registration)]) == {}
        visit.timeout_s = 30
        with Operator(addresses, timeout_s=30) as other:  # answered after what comes late
            assert list(other.readers(ReadDriver, [str(registration)])) == [registration]
        assert "watermark" in dict(visit.hub(ReadStatus()).rows), "what comes late is passed over"
        visit.timeout_s = 0.0
        assert visit.readers(ReadDriver, [str(registration)]) == {}
        visit.timeout_s = 30
        assert list(visit.readers(ReadDriver, [str(registration)])) == [registration]


def test_driver_that_has_ended_is_listed_as_gone(served: Served) -> None:
    ended = {**ETL, "driver": "d9", "application": "ended", "pid": 9}
    with Subscriber(
        served.statestores, name="app-9@node9:9", timeout_s=30, driver_facts=lambda: ended
    ):
        shown = listed(served, "--app=ended")["app-9@node9:9"]
        assert (shown["state"], shown["driver"]) == ("live", "d9")
        assert shown["since_s"] < 60

    def gone() -> dict[str, Any] | None:
        found = json.loads(printed(served, "--app=ended", "--output=json"))
        return next((one for one in found if one["state"] == "gone"), None)

    row = until(gone, timeout_s=30, what="its end")
    assert row is not None
    assert "detached" in row["reason"]
    names = ("application", "application_id", "user", "host", "pid", "driver")
    assert [row[name] for name in names] == [ended[name] for name in names]
