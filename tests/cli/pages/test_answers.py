import json

import pytest

from topicast.cli.pages.answers import Facts, Sources, answer, answer_to_probe
from topicast.cli.pages.metrics import STATESTORED, registry_of
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
        meanings=STATESTORED,
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
