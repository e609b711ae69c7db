import json
import os
from dataclasses import replace

import pytest

from topicast import __version__
from topicast.cli.pages.answers import Sources, answer_to_probe
from topicast.cli.pages.metrics import STATESTORED, Facts, registry_of
from topicast.cli.pages.parts.grid import Grid, Query
from topicast.cli.pages.parts.page import Page, grid_page
from topicast.tests.cli.pages.asking import answer
from topicast.topics.errors import HistoryGone, UsageError
from topicast.topics.verdict import Reason, Serving, Verdict, verdict_of

FACTS: Facts = {"hub": 7, "data_address": "<tcp>", "deltas": 3}
AWAY = Reason(state=Serving.DEGRADED, code="away", what="hive is away", mend="start it")
NEW = Reason(state=Serving.NOT_SERVING, code="new", what="nothing is here", mend="wait")


def sources(*reasons: Reason) -> Sources:
    """Return the sources of a hub with these troubles."""

    def verdict() -> Verdict:
        return verdict_of(reasons)

    return Sources(
        title="statestored",
        facts=lambda: FACTS,
        verdict=verdict,
        metrics=registry_of("statestored", STATESTORED, lambda: FACTS, verdict=verdict),
    )


SERVING, DEGRADED, NOT_SERVING = sources(), sources(AWAY), sources(AWAY, NEW)


@pytest.mark.parametrize(
    ("source", "status", "body"),
    [
        (SERVING, 200, "serving\n"),
        (DEGRADED, 200, "degraded: hive is away; start it\n"),
        (
            NOT_SERVING,
            503,
            "not serving: nothing is here; wait\ndegraded: hive is away; start it\n",
        ),
    ],
    ids=["serves", "serves, and is degraded", "does not serve"],
)
def test_healthz_is_the_verdict_and_its_reasons(source: Sources, status: int, body: str) -> None:
    assert answer(source, "/healthz")[::2] == (status, body.encode())


@pytest.mark.parametrize(
    ("source", "status", "body"),
    [
        (SERVING, 200, b"serving\n"),
        (DEGRADED, 200, b"degraded\n"),
        (NOT_SERVING, 503, b"not serving\n"),
    ],
)
def test_probe_learns_whether_the_daemon_serves_and_no_names(
    source: Sources, status: int, body: bytes
) -> None:
    assert answer_to_probe(source)[::2] == (status, body)


def test_document_of_the_page_has_the_verdict_before_the_facts() -> None:
    found = json.loads(answer(NOT_SERVING, "/?json")[2])
    assert list(found)[:3] == ["serving", "verdict", "reasons"]
    assert (found["serving"], found["verdict"]) == (False, "not serving")
    assert [one["code"] for one in found["reasons"]] == ["new", "away"]
    assert json.loads(answer(DEGRADED, "/?json")[2])["serving"]
    assert found["hub"] == 7
    assert found["pages"] == [], "it has no other"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (SERVING, ["serving 1.0", "verdict 0.0"]),
        (DEGRADED, ["serving 1.0", "verdict 1.0", 'reasons{code="away"} 1.0']),
        (
            NOT_SERVING,
            ["serving 0.0", "verdict 2.0", 'reasons{code="away"} 1.0', 'reasons{code="new"} 1.0'],
        ),
    ],
)
def test_metrics_are_the_verdict_and_its_reasons(source: Sources, lines: list[str]) -> None:
    scraped = answer(source, "/metrics")[2].decode().splitlines()
    names = tuple(f"topicast_statestored_{name}" for name in ("serving", "verdict", "reasons"))
    assert {line for line in scraped if line.startswith(names)} == {
        f"topicast_statestored_{line}" for line in lines
    }


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
)


def test_metrics_are_a_page_to_a_browser_and_text_to_everybody_else() -> None:
    status, kind, body = answer(DEGRADED, "/metrics", accepts=BROWSER)
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert b"<h1>statestored: Metrics</h1>" in body
    assert b'<h2 id="topics">Topics</h2>' in body
    assert json.loads(answer(DEGRADED, "/metrics?json", accepts=BROWSER)[2]) == FACTS
    for accepts in (PROMETHEUS, "*/*", ""):
        _, kind, body = answer(DEGRADED, "/metrics", accepts=accepts)
        assert kind.startswith("text/plain")
        assert b"# TYPE topicast_statestored_deltas_total counter" in body


def things(rest: str, query: Query) -> Grid:
    if rest == "none":
        raise UsageError("there is no such thing")
    if rest == "later":
        raise HistoryGone("the history is of another epoch")
    rows = [(f"<{rest or query.get('of', 'all')}>", 1)]
    return Grid(about="All of them.", columns=("thing", "number"), rows=rows)


def with_pages(*, is_guarded: bool = False) -> Sources:
    pages: dict[str, Page] = {
        "things": grid_page("Things", "Which?", things),
        "secrets": grid_page("Secrets", "Which?", things, is_private=True),
    }
    return replace(DEGRADED, pages=pages, is_guarded=is_guarded)


def shown(target: str, *, is_guarded: bool = False) -> tuple[int, str, str]:
    status, kind, body = answer(with_pages(is_guarded=is_guarded), target)
    return int(status), kind, body.decode()


def test_page_of_a_table_has_the_verdict_above_it_and_leads_to_the_others() -> None:
    status, _, body = shown("/things/some%20one?of=x")
    assert status == 200
    assert "<h1>statestored: Things</h1>" in body
    assert "degraded: hive is away" in body.partition("&lt;some one&gt;")[0]
    assert f"release {__version__}" in body
    assert f"process {os.getpid()} · up " in body
    assert '<a href="/secrets">Secrets</a>' in body
    assert '<a href="/things/some%20one?of=x&amp;json=">json</a>' in body


def test_page_as_a_document_has_every_row() -> None:
    _, kind, body = shown("/things?json&of=x")
    assert kind == "application/json"
    assert json.loads(body) == {"things": {"rows": [{"thing": "<x>", "number": 1}]}}


@pytest.mark.parametrize(
    ("target", "status", "said"),
    [
        ("/things/none", 404, "there is no such thing\n"),
        ("/things/later", 503, "try again: the history is of another epoch"),
        ("/thing", 404, "no page /thing: there are /, /things, /secrets, /healthz and /metrics\n"),
        ("/secrets", 403, "--webserver_password_file"),
    ],
)
def test_what_cannot_be_shown_is_said(target: str, status: int, said: str) -> None:
    found = shown(target)
    assert found[0] == status
    assert said in found[2]


def test_private_page_is_shown_to_those_who_gave_a_secret() -> None:
    assert shown("/secrets", is_guarded=True)[0] == 200


@pytest.mark.parametrize(
    ("refresh", "is_loaded_again"),
    [("5", True), ("3600", True), ("0", False), ("3601", False), ("9" * 6000, False), ("٣", False)],
)
def test_page_is_loaded_again_as_often_as_was_asked_for(
    refresh: str, is_loaded_again: bool
) -> None:
    assert ("http-equiv" in shown(f"/things?refresh={refresh}")[2]) == is_loaded_again
