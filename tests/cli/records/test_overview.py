"""What ``topicast status`` prints of what the daemons have answered."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topicast.cli.records.overview import DaemonAnswers, Installation, counters, document, lines
from topicast.tests.cli.snapshots import assert_snapshot
from topicast.topics.verdict import Reason, Serving, Verdict

SILENT = Reason(
    state=Serving.DEGRADED,
    code="catalogd_silent",
    what="catalogd@c at tcp://c:26000 has been silent for 12 s: what is held is served on, nothing "
    "newer comes",
    mend="does catalogd run, and is this statestored among its --statestores?",
)
BEHIND = Reason(
    state=Serving.DEGRADED,
    code="behind",
    what="for 95 s changes of the metastore have not been published (1 event waits)",
    mend="topicast events status shows what the current batch waits for; does the metastore answer "
    "reads of tables?",
)
REFUSED = "no statestored answers at tcp://b:24000: start one, or name others with --statestores"
SILENT_CATALOGD = "catalogd at tcp://c:26000 does not answer: is it running?"


def hub(host: str = "a", *, drivers: int = 0, elsewhere: int = 0, **more: Any) -> DaemonAnswers:
    facts = {
        "num_topics": 256,
        "publisher_silent_s": 0.1,
        "topics_behind": 0,
        "streams": 0,
        "drivers_live": drivers,
        "drivers_connecting": 0,
        "drivers_plain": 0,
        "drivers_gone": 0,
        "drivers_with_problem": 0,
        "drivers_with_another_hub": elsewhere,
    }
    return DaemonAnswers(kind="statestored", address=f"tcp://{host}:24000", facts=facts | more)


def catalogd(**more: Any) -> DaemonAnswers:
    facts = {"hubs": 1, "hubs_connected": 1, "lag_events": 0, "lag_s": 0.21, "intents": 0}
    return DaemonAnswers(kind="catalogd", address="tcp://c:26000", facts=facts | more)


def shown(*hubs: DaemonAnswers, catalogd: DaemonAnswers, width: int = 80) -> str:
    return "\n".join(lines(Installation(hubs=hubs, catalogd=catalogd), width=width)) + "\n"


AWAY = DaemonAnswers(kind="statestored", address="tcp://b:24000", problems=(REFUSED,))
LOST = DaemonAnswers(kind="catalogd", address="tcp://c:26000", problems=(SILENT_CATALOGD,))

WELL = """\
serving

statestored  a:24000  serving  hears catalogd, 0 drivers
catalogd     c:26000  serving  1 of 1 hub, lag 0 events, 0.2 s

drivers: 0 live, 0 connecting, 0 plain, 0 gone (last hour)

A restart now
  statestored a:24000: no driver is connected; no catch-up in flight
  catalogd c:26000: drivers serve what they hold, and get no change until it is
    back; no write in flight
"""
BUSY = """\
degraded
  catalogd c:26000: for 95 s changes of the metastore have not been published (1
  event waits)
    -> topicast events status shows what the current batch waits for; does the
       metastore answer reads of tables?

statestored  a:24000  serving   hears catalogd, 1 topic behind, 50 drivers
statestored  b:24000  serving   hears catalogd, 3 drivers
catalogd     c:26000  degraded  1 of 2 hubs, lag 1 event, 95 s

drivers: 53 live, 0 connecting, 0 plain, 2 gone (last hour); 4 with a problem

A restart now
  statestored a:24000: 40 of 50 drivers go to another hub, 10 have none: plain
    Spark until it is back; 2 catch-ups in flight begin anew
  statestored b:24000: 3 drivers go to another hub; no catch-up in flight
  catalogd c:26000: drivers serve what they hold, and get no change until it is
    back; 1 write in flight is kept; 7 requests wait for an answer; 1 table is
    still to be loaded
"""
CUT_OFF = """\
degraded
  no statestored answers at tcp://b:24000: start one, or name others with
  --statestores
  catalogd at tcp://c:26000 does not answer: is it running?
  statestored a:24000: catalogd@c at tcp://c:26000 has been silent for 12 s:
  what is held is served on, nothing newer comes
    -> does catalogd run, and is this statestored among its --statestores?

statestored  a:24000  degraded     catalogd silent for 12 s, 3 drivers
statestored  b:24000  not reached
catalogd     c:26000  not reached

drivers: 3 live, 0 connecting, 0 plain, 0 gone (last hour)

A restart now
  statestored a:24000: 3 drivers, and no other hub answers: plain Spark until it
    is back; no catch-up in flight
"""
DEAD = """\
not reachable
  no statestored answers at tcp://b:24000: start one, or name others with
  --statestores

statestored  b:24000  not reached
catalogd     c:26000  serving      1 of 1 hub, lag 0 events, 0.2 s

A restart now
  catalogd c:26000: drivers serve what they hold, and get no change until it is
    back; no write in flight
"""


@pytest.mark.parametrize(
    ("stack", "printed", "code"),
    [
        (Installation(hubs=(hub(),), catalogd=catalogd()), WELL, 0),
        (
            Installation(
                hubs=(
                    hub(
                        drivers=50,
                        elsewhere=40,
                        topics_behind=1,
                        streams=2,
                        drivers_gone=2,
                        drivers_with_problem=4,
                    ),
                    hub("b", drivers=3, elsewhere=3),
                ),
                catalogd=replace(
                    catalogd(
                        hubs=2,
                        lag_events=1,
                        lag_s=95.0,
                        intents=1,
                        waiting_requests=7,
                        tables_to_load=1,
                    ),
                    verdict=Verdict((BEHIND,)),
                ),
            ),
            BUSY,
            5,
        ),
        (
            Installation(
                hubs=(
                    replace(
                        hub(drivers=3, elsewhere=3, publisher_silent_s=12.0),
                        verdict=Verdict((SILENT,)),
                    ),
                    AWAY,
                ),
                catalogd=LOST,
            ),
            CUT_OFF,
            3,
        ),
        (Installation(hubs=(AWAY,), catalogd=catalogd()), DEAD, 3),
    ],
    ids=["well", "busy", "cut off", "the only hub is dead"],
)
def test_verdict_comes_first_then_a_line_for_each_daemon(
    stack: Installation, printed: str, code: int
) -> None:
    assert "\n".join(lines(stack, width=80)) + "\n" == printed
    assert stack.exit_code == code
    assert document(stack)["verdict"] == printed.partition("\n")[0]


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("drivers", [0, 3, 50])
def test_overview_looks_as_in_the_snapshot(
    drivers: int, width: int, pytestconfig: pytest.Config
) -> None:
    names = [f"statestored-{number}.topicast.svc.cluster.local" for number in range(2)]
    hubs = (hub(names[0], drivers=drivers, elsewhere=drivers), hub(names[1]))
    made = lines(Installation(hubs=hubs, catalogd=catalogd(hubs=2)), width=width)
    assert max(map(len, made)) <= width
    assert all(any(name in line for line in made) for name in names), "no name is broken"
    name = f"status-{drivers}-{width}"
    assert_snapshot(name, made, rewrite=pytestconfig.getoption("--rewrite"))


def test_reason_that_both_hubs_give_is_said_once() -> None:
    later = replace(SILENT, what=SILENT.what.replace("12 s", "13 s"))
    ill = [
        replace(hub(name), verdict=Verdict((reason,)))
        for name, reason in (("a", SILENT), ("b", later))
    ]
    text = shown(*ill, catalogd=catalogd())
    assert "  statestored a:24000, statestored b:24000: catalogd@c at" in text
    assert text.count("-> does catalogd run") == 1


def test_daemons_that_do_not_say_all_are_shown_with_what_they_say() -> None:
    """Such are all to a key of some databases."""
    some = DaemonAnswers(kind="statestored", address="tcp://a:1", facts={"num_topics": 0})
    text = shown(
        some, catalogd=DaemonAnswers(kind="catalogd", address="tcp://c:1", facts={"hubs": None})
    )
    assert "no catalogd yet\n" in text
    assert "drivers" not in text
    assert "A restart" not in text


def test_document_is_whole_and_its_numbers_are_numbers() -> None:
    ill = replace(hub(drivers=3), verdict=Verdict((SILENT,)))
    records = ({"address": "tcp://a:24000", "connected": True, "unacknowledged": 7},)
    found = document(Installation(hubs=(ill, AWAY), catalogd=catalogd(), connections=records))
    assert found == json.loads(json.dumps(found))
    (one,) = found["statestoreds"]
    assert (one["address"], one["verdict"], one["drivers_live"]) == ("tcp://a:24000", "degraded", 3)
    assert one["reasons"][0]["code"] == "catalogd_silent"
    assert found["catalogd"]["lag_s"] == 0.21
    assert found["connections"] == [*records]
    assert found["not_reached"] == [
        {"process": "statestored", "address": "tcp://b:24000", "problem": REFUSED}
    ]


def test_counters_are_all_facts_of_those_that_answer() -> None:
    found = counters(Installation(hubs=(hub(), AWAY), catalogd=catalogd()))
    assert "  drivers_live              0" in found
    assert "  lag_s           0.21" in found
    assert [line for line in found if line and not line.startswith(" ")] == [
        "statestored a:24000",
        "catalogd c:26000",
    ]


def test_page_for_operators_shows_what_is_printed() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert f"$ topicast status\n{BUSY}```" in page
