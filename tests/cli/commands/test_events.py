import json
from collections.abc import Iterator
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database, FieldSchema

from topicast.catalog.ingest.loads.follow_rules import PARAMETER
from topicast.cli.commands.events import LINE_MAX
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.terminal.exit_codes import FAILED
from topicast.tests.cli.conftest import Served
from topicast.tests.cli.documents import assert_of_schema
from topicast.tests.cli.processes import document, topicast
from topicast.tests.cluster.fake_metastore import make_table
from topicast.tests.integration.tables import connect
from topicast.tests.waiting import until

SECONDS = "--timeout_s=60"


@pytest.fixture
def started(served: Served) -> Iterator[Served]:
    """Daemons that follow events afterwards, whatever the test does."""
    yield served
    topicast("events", "start", f"--statestores={served.statestores}", SECONDS)


def facts(served: Served) -> dict[str, Any]:
    return dict(document(served.statestores, "events", "status", SECONDS))


def test_events_are_paused_and_go_on_over_a_real_metastore(
    started: Served, hive: EmbeddedMetastore
) -> None:
    where = f"--statestores={started.statestores}"
    assert facts(started)["state"] == "ACTIVE"
    paused = document(started.statestores, "events", "pause", SECONDS)
    assert_of_schema("events-pause", paused)
    assert (paused["state"], "@" in paused["because"]) == ("PAUSED", True)
    with connect(hive.uri) as client:
        client.create_database(Database("paused", "", f"{hive.warehouse}/paused", {}))
    sync = topicast("sync", where, SECONDS)
    assert sync.returncode == FAILED
    assert "events are paused by" in sync.stderr
    assert "topicast events start" in sync.stderr

    until(lambda: "events_paused" in started.catalogd.page("/metrics"), timeout_s=20, what="reason")
    assert started.catalogd.page("/healthz").startswith("degraded: events are paused by")
    text = topicast("events", "status", where, SECONDS).stdout
    assert "PAUSED since" in text
    lines = topicast("events", "start", where, SECONDS).stdout
    assert lines.startswith("events start: the state is ACTIVE")
    topicast("sync", where, SECONDS)
    listed = document(started.statestores, "events", "--object=paused", "--since=1h", SECONDS)
    assert ("paused", "created") in {(one["object"], one["kind"]) for one in listed}
    named = document(
        started.statestores, "events", "list", "--object=paused", "--since=1h", SECONDS
    )
    assert named == listed, "the list is the command that need not be named"
    # Other tests may have changed more than is listed, which the command then says.
    newest = topicast("events", "--since=1h", "--output=json", where, SECONDS).stdout
    assert "events" in {one["kind"] for one in json.loads(newest)}


def test_status_has_its_schema_and_its_page_the_same_numbers(started: Served) -> None:
    found = facts(started)
    assert_of_schema("events-status", found)
    assert found["received"] > 0

    def page() -> dict[str, Any]:
        rows = json.loads(started.catalogd.page("/events?json"))["events"]["rows"]
        return {one["name"]: one["value"] for one in rows}

    until(lambda: page()["received"] >= found["received"], timeout_s=20, what="the page")
    assert page()["state"].startswith("ACTIVE")
    text = topicast("events", "status", f"--statestores={started.statestores}", SECONDS).stdout
    assert "in 1 min" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("start", "-2"), "-2"),
        (("start", "soon"), "soon"),
        (("skip",), "ID"),
        (("skip", "99999999"), "there is no event"),
        (("stop",), "stop"),
    ],
)
def test_what_is_wrong_is_refused_with_its_reason(
    started: Served, words: tuple[str, ...], said: str
) -> None:
    ended = topicast("events", *words, f"--statestores={started.statestores}", SECONDS)
    assert ended.returncode != 0
    assert said in ended.stderr
    assert facts(started)["state"] == "ACTIVE"


def test_a_table_is_not_followed_and_is_again_over_a_real_metastore(
    started: Served, hive: EmbeddedMetastore
) -> None:
    where = f"--statestores={started.statestores}"
    folder = f"{hive.warehouse}/aside"

    def columns() -> list[str]:
        topicast("sync", where, SECONDS)
        found = document(started.statestores, "describe", "aside.t", SECONDS)
        assert found["followed"] is ("true" not in found["parameters"].get(PARAMETER, ""))
        return [one["name"] for one in found["columns"]]

    with connect(hive.uri) as client:
        client.create_database(Database("aside", "", folder, {}))
        table = make_table("aside", "t", location=f"{folder}/t")
        client.create_table(table)
        assert columns() == ["a", "b"]
        off = client.get_table("aside", "t")
        off.parameters[PARAMETER] = "true"
        client.alter_table("aside", "t", off)
        assert columns() == ["a", "b"]
        off.sd.cols = [*off.sd.cols, FieldSchema("c", "int", "")]
        client.alter_table("aside", "t", off)
        assert columns() == ["a", "b"]
        text = topicast("describe", "aside.t", where, SECONDS).stdout
        assert "no, impala.disableHmsSync of the table is true" in text
        (one,) = document(started.statestores, "tables", "aside", SECONDS)
        assert one["state"] == "not followed"
        assert facts(started)["skipped_sync_off"] >= 1
        topicast("refresh", "aside.t", where, SECONDS)
        assert columns() == ["a", "b", "c"]
        off.sd.cols = off.sd.cols[:1]
        client.alter_table("aside", "t", off)
        assert columns() == ["a", "b", "c"], "once"
        del off.parameters[PARAMETER]
        client.alter_table("aside", "t", off)
        assert columns() == ["a"], "it is followed again"
        client.alter_database("aside", Database("aside", "", folder, {PARAMETER: "true"}))
        topicast("refresh", "aside", where, SECONDS)
        listed = topicast("tables", "aside", where, SECONDS)
        assert "aside.t" in listed.stdout
        assert "tables of aside are not followed" in listed.stderr
        client.drop_database("aside", deleteData=False, cascade=True)


def test_events_are_followed_live_and_shown_one_by_one(
    started: Served, hive: EmbeddedMetastore
) -> None:
    where = f"--statestores={started.statestores}"
    with connect(hive.uri) as client:
        names = [*(f"shown{number}" for number in range(9)), "shown"]
        for name in names:
            client.create_database(Database(name, "", f"{hive.warehouse}/{name}", {}))
        topicast("sync", where, SECONDS)
        lines = topicast("events", "tail", "--count=1", where, SECONDS).stdout.splitlines()
        assert all(len(line) <= LINE_MAX for line in lines)
        last = json.loads(
            topicast("events", "tail", "--count=10", where, "-ojson").stdout.splitlines()[-1]
        )
        assert_of_schema("events-tail", last)
        (event,) = document(started.statestores, "events", "show", str(last["id"]), SECONDS)
        assert (event["type"], event["object"]) == ("CREATE_DATABASE", "shown")
        assert (event["changes"], event["outcome"]) == ("shown", "published")
        assert json.loads(event["message"])["db"] == "shown"
        text = topicast("events", "show", str(last["id"]), where, SECONDS).stdout
        assert "CREATE_DATABASE" in text
        gone = topicast("events", "show", "99999999", where, SECONDS)
        assert (gone.returncode, "not in the metastore's log" in gone.stderr) == (FAILED, True)
        for name in names:
            client.drop_database(name, deleteData=False, cascade=True)
