from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topicast.catalog.ingest.event_history import EventBatch, EventFacts, Slot, TableCost
from topicast.catalog.status import Status
from topicast.catalog.storage.store import Store
from topicast.cli.pages.event_pages import event_pages, events, rate
from topicast.cli.pages.figure import Bars
from topicast.cli.pages.grid import Grid
from topicast.tests.cli.pages.asking import parts
from topicast.tests.cluster.alone import loaded
from topicast.topics.errors import UsageError
from topicast.topics.histogram import Histogram

NOTHING = Histogram().facts()


def batch(number: int, *, took_s: float = 0.02, left: int = 0, missing: str = "") -> EventBatch:
    return EventBatch(
        at_us=1_790_000_000_000_000 + number,
        events=3,
        last_id=number,
        tables=2,
        left=left,
        missing=missing,
        took_s=took_s,
        waited_s=took_s + 0.5,
    )


def facts(
    *, batches: Sequence[EventBatch] = (), running: Sequence[EventBatch] = (), slots: Any = ()
) -> EventFacts:
    return EventFacts(
        running=tuple(running),
        batches=tuple(batches),
        slots=tuple(slots),
        slot=1000,
        up_s=7200.0,
        costs=(TableCost(("shop", "orders"), 4, 1.25),),
        delays=NOTHING,
        batch_times=NOTHING,
    )


def status(of: EventFacts, **changed: Any) -> Status:
    return replace(loaded().catalog.status(), events=of, **changed)


def grid(of: Status, title: str = "", *, is_guarded: bool = True) -> Grid:
    found = events(of, is_guarded=is_guarded)[title]
    assert isinstance(found, Grid)
    return found


def summary(of: Status) -> dict[str, Any]:
    return {str(name): value for name, value in grid(of).rows}


def test_summary_says_whether_catalogd_keeps_up_and_how_far_it_is() -> None:
    well = summary(status(facts(), lag_events=0, lag_s=0.21, watermark=9, newest_event=9))
    assert (well["state"], well["lag"]) == ("up to date", "0 events, 0.2 s")
    assert (well["current batch"], well["time of a batch"]) == ("", "")
    running = [batch(7, took_s=65.0, left=1), batch(8, left=2)]
    late = summary(status(facts(running=running), lag_events=6, lag_s=65.0))
    assert late["state"] == "behind"
    assert late["current batch"] == (
        "3 events up to 7, 1 of 2 tables published, for 65 s; 1 batch waits behind it"
    )
    assert summary(status(facts(), lag_events=None, lag_s=None))["state"] == "events are off"


def test_times_of_batches_have_their_least_mean_median_and_percentile() -> None:
    times = [*(0.01 for _ in range(50)), *(0.03 for _ in range(49)), 7.5]
    found = summary(status(facts(batches=[batch(1, took_s=one) for one in times])))
    assert found["time of a batch"] == (
        "min 10 ms, mean 95 ms, median 20 ms, p99 7.5 s (of 100 batches)"
    )


def test_rates_are_of_the_last_minutes_or_of_less_after_a_start() -> None:
    found = facts(slots=[Slot(900, 600, 0.1), Slot(980, 300, 0.1), Slot(999, 60, 0.1)])
    assert [rate(found, minutes) for minutes in (1, 5, 15)] == [1.0, 360 / 300, 360 / 900]
    assert rate(replace(found, up_s=120.0), 15) == 360 / 120
    assert rate(replace(found, up_s=0.0), 1) == 6.0


def test_graphs_are_of_the_last_hour_by_minute() -> None:
    slots = [Slot(600, 9, 9.0), Slot(1000 - 359, 4, 0.2), Slot(999, 1, 0.5), Slot(1000, 2, 0.1)]
    parts = events(status(facts(slots=slots)), is_guarded=True)
    counts, slowest = parts["The last hour"], parts["Slowest batches"]
    assert isinstance(counts, Bars)
    assert isinstance(slowest, Bars)
    assert (counts.values[0], counts.values[-1], sum(counts.values)) == (4, 3, 7)
    assert (slowest.values[0], slowest.values[-1]) == (0.2, 0.5)
    assert counts.html("/events", {}).count("<rect ") == 2
    assert counts.document() == {"values": list(counts.values)}


def test_batches_are_listed_the_newest_first_with_their_outcome() -> None:
    lost = "events 3 to 5 are missing"
    found = facts(batches=[batch(6, missing=lost), batch(7)], running=[batch(8, left=1)])
    outcomes = [(row[2], row[4], row[5]) for row in grid(status(found), "Batches").rows]
    assert outcomes == [(8, "running", 20), (7, "published", 20), (6, lost, 20)]
    many = facts(batches=[batch(number) for number in range(300)])
    assert len(grid(status(many), "Batches").rows) == 100


def test_names_of_tables_need_a_secret() -> None:
    open_to_all = grid(status(facts()), "Costliest tables", is_guarded=False)
    assert open_to_all.rows == ()
    assert "password" in open_to_all.html("/events", {})
    guarded = grid(status(facts()), "Costliest tables")
    assert guarded.rows == [("shop.orders", 4, 1.25)]
    assert 'href="/history?object=shop.orders"' in guarded.html("/events", {})


@pytest.fixture
def empty_store(tmp_path: Path) -> Path:
    store = Store.open(tmp_path, num_topics=16, now_us=1, new_id=1)
    store.close()
    return store.path


def test_history_says_which_changes_it_shows_and_refuses_what_it_does_not_know(
    empty_store: Path,
) -> None:
    page = event_pages(lambda: status(facts()), empty_store, hubs=dict, is_guarded=True)["history"]
    assert page.is_private
    (every,) = parts(page, "", {}).values()
    assert "of all objects" in every.about
    (some,) = parts(page, "", {"object": "shop.*", "since": "10m", "by": "etl"}).values()
    assert isinstance(some, Grid)
    assert "since 10m of shop.* by etl" in some.about
    assert some.more["last 1h"] == "/history?since=1h&object=shop.%2A&by=etl"
    assert some.empty == "no change is known of these"
    with pytest.raises(UsageError, match="--since soon"):
        parts(page, "", {"since": "soon"})
    with pytest.raises(UsageError, match="characters"):
        parts(page, "", {"object": "x" * 2000})
