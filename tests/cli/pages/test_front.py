from typing import Any

import pytest

from topicast.cli.pages.front import brief, front_html
from topicast.cli.pages.metrics import Fact
from topicast.cli.pages.parts.grid import Grid
from topicast.cli.pages.parts.page import grid_page
from topicast.cli.records.overview import DaemonAnswers, Installation, lines

HUB: dict[str, Fact] = {
    "num_topics": 256,
    "publisher_silent_s": 0.1,
    "topics_behind": 1,
    "streams": 2,
    "drivers_live": 50,
    "drivers_connecting": 0,
    "drivers_plain": 0,
    "drivers_gone": 2,
    "drivers_with_problem": 4,
    "drivers_with_another_hub": 40,
    "members": 52,
    "entries": 1200,
    "full_bytes": 48_900,
}
CATALOGD: dict[str, Fact] = {
    "metastore": "thrift://hms:9083",
    "hubs": 2,
    "hubs_connected": 1,
    "lag_events": 3,
    "lag_s": 31.0,
    "intents": 1,
    "metastore_silent_s": 0.2,
    "newest_event": 77,
    "databases": 1,
    "tables_to_load": 5,
    "tables_unreadable": 1,
    "waiting_requests": 7,
    "num_topics": 256,
    "entries": 1,
    "held_bytes": 900,
}
PAGES = {
    "hubs": grid_page(
        "Hubs", "Is <each> connected?", lambda *_: Grid(about="", columns=(), rows=())
    ),
    "logs": grid_page(
        "Log", "What was logged?", lambda *_: Grid(about="", columns=(), rows=()), is_private=True
    ),
}


def texts(kind: str, facts: dict[str, Fact]) -> dict[str, str]:
    return {one.name: one.text for one in brief(kind, facts)}


@pytest.mark.parametrize(("kind", "facts"), [("statestored", HUB), ("catalogd", CATALOGD)])
def test_front_page_has_the_words_and_numbers_of_the_command(
    kind: str, facts: dict[str, Any]
) -> None:
    """Given one daemon, then what ``topicast status`` says of it is on its page, word by word."""
    daemon = DaemonAnswers(kind=kind, address="tcp://a:1", facts=facts)
    absent = DaemonAnswers(kind="", address="")
    hubs, catalogd = ((daemon,), absent) if kind == "statestored" else ((), daemon)
    printed = lines(Installation(hubs=hubs, catalogd=catalogd), width=10_000)
    shown = texts(kind, facts)
    (line,) = (one for one in printed if one.startswith(kind))
    assert line.split(maxsplit=3) == [kind, "a:1", "serving", shown["sees"]]
    (meant,) = (one for one in printed if one.startswith(f"  {kind} a:1: "))
    assert meant == f"  {kind} a:1: {shown['a restart now']}"
    if kind == "statestored":
        assert f"drivers: {shown['drivers']}" in printed


def test_catalogd_says_what_it_has_of_its_metastore() -> None:
    shown = texts("catalogd", CATALOGD)
    assert shown["metastore"] == "thrift://hms:9083, answered 0.2 s ago, event 77"
    assert shown["topics"] == "256 topics, 1 entry, 900 B"
    assert shown["loading"] == "1 database, 5 tables wait to be read, 1 cannot be read"


@pytest.mark.parametrize("kind", ["statestored", "catalogd"])
def test_daemon_that_has_just_begun_leaves_out_what_it_does_not_know(kind: str) -> None:
    assert all(one.text for one in brief(kind, {"release": "0.1.0"}))


def front(*, is_guarded: bool) -> str:
    return front_html("catalogd", CATALOGD, pages=PAGES, is_guarded=is_guarded)


def test_front_page_leads_to_each_page_and_says_what_it_answers() -> None:
    found = front(is_guarded=True)
    assert '<th><a href="/hubs">Hubs</a></th><td>Is &lt;each&gt; connected?</td>' in found
    assert '<th><a href="/logs">Log</a></th><td>What was logged?</td>' in found
    locked = '<td>What was logged? <span class="meaning">(once the pages need a password or'
    assert locked in front(is_guarded=False)
    assert '<th><a href="/metrics">Metrics</a></th>' in found


def test_front_page_leads_to_the_last_changes_where_names_may_be_shown() -> None:
    assert '<th><a href="/history?since=10m">changes</a></th>' in front(is_guarded=True)
    assert "/history" not in front(is_guarded=False)
