import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topicast.catalog.event_status import rate
from topicast.catalog.ingest.events.event_batches import EventBatch, EventFacts, TableCost, TimeSlot
from topicast.catalog.model.versions import ChangeRow, Commit, Transaction, WriterRow
from topicast.catalog.publish.hub_questions import Known
from topicast.catalog.status import CatalogStatus
from topicast.catalog.storage.store import Store
from topicast.cli.pages.parts.figure import Bars
from topicast.cli.pages.parts.grid import Grid
from topicast.cli.pages.parts.page import Page
from topicast.cli.pages.views.event_pages import Ask, event_pages, events
from topicast.tests.cli.pages.asking import parts
from topicast.tests.cluster.alone import loaded
from topicast.topics.errors import UsageError
from topicast.topics.histogram import Histogram
from topicast.topics.objects.changes import ChangeKind
from topicast.topics.topic import table_topic
from topicast.topics.wire.messages.answers import NamedFacts
from topicast.topics.wire.messages.data import SOURCE_REPORTS
from topicast.topics.wire.messages.questions import ReadWriter

HUB = "tcp://hub:24000"
WRITER = b"\xab" * 16
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


def status(of: EventFacts, **changed: Any) -> CatalogStatus:
    return replace(loaded().catalog.status(), events=of, **changed)


def grid(of: CatalogStatus, title: str = "", *, is_guarded: bool = True) -> Grid:
    found = events(of, is_guarded=is_guarded)[title]
    assert isinstance(found, Grid)
    return found


def summary(of: CatalogStatus) -> dict[str, Any]:
    return {str(name): value for name, value in grid(of).rows}


def test_summary_says_whether_catalogd_keeps_up_and_how_far_it_is() -> None:
    well = summary(status(facts(), lag_events=0, lag_s=0.21, watermark=9, newest_event=9))
    assert (well["state"], well["lag"]) == ("ACTIVE, up to date", "0 events, 0.2 s")
    assert (well["current batch"], well["time of a batch"]) == ("", "")
    running = [batch(7, took_s=65.0, left=1), batch(8, left=2)]
    late = summary(status(facts(running=running), lag_events=6, lag_s=65.0))
    assert late["state"] == "ACTIVE, behind"
    assert late["current batch"] == (
        "3 events up to 7, 1 of 2 tables published, for 65 s; 1 batch waits behind it"
    )
    core = loaded(polling_interval_s=0.0)
    assert summary(core.catalog.status())["state"].startswith("DISABLED: events are off")
    core = loaded()
    core.order("events", "pause")
    assert "PAUSED since" in summary(core.catalog.status())["state"]


def test_times_of_batches_have_their_least_mean_median_and_percentile() -> None:
    times = [*(0.01 for _ in range(50)), *(0.03 for _ in range(49)), 7.5]
    found = summary(status(facts(batches=[batch(1, took_s=one) for one in times])))
    assert found["time of a batch"] == (
        "min 10 ms, mean 95 ms, median 20 ms, p99 7.5 s (of 100 batches)"
    )


def test_rates_are_of_the_last_minutes_or_of_less_after_a_start() -> None:
    found = facts(slots=[TimeSlot(900, 600, 0.1), TimeSlot(980, 300, 0.1), TimeSlot(999, 60, 0.1)])
    assert [rate(found, minutes) for minutes in (1, 5, 15)] == [1.0, 360 / 300, 360 / 900]
    assert rate(replace(found, up_s=120.0), 15) == 360 / 120
    assert rate(replace(found, up_s=0.0), 1) == 6.0


def test_graphs_are_of_the_last_hour_by_minute() -> None:
    slots = [
        TimeSlot(600, 9, 9.0),
        TimeSlot(1000 - 359, 4, 0.2),
        TimeSlot(999, 1, 0.5),
        TimeSlot(1000, 2, 0.1),
    ]
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


def known_of(**said: str) -> "Future[Known | None]":
    """Return what a hub has answered; nothing said: that it does not know."""
    found = Future[Known | None]()
    facts = NamedFacts(request=1, rows=tuple(said.items()))
    found.set_result(Known(HUB, facts) if said else None)
    return found


def history_of(store: Path, ask: Ask = lambda *_: known_of()) -> Page:
    pages = event_pages(
        lambda: status(facts()),
        store,
        hubs=lambda: {"statestored hub:24000": "http://hub:25010"},
        ask=ask,
        is_guarded=True,
    )
    return pages["history"]


@pytest.fixture
def reported_store(tmp_path: Path) -> Path:
    """A store with a change of shop.orders that the driver WRITER has reported."""
    store = Store.open(tmp_path, num_topics=16, now_us=1, new_id=1)
    topic = table_topic("shop", "orders", 16)
    change = ChangeRow(object="shop.orders", kind=ChangeKind.DATA, before=1)
    one = Transaction(
        topic=topic,
        from_version=0,
        to_version=1,
        entries=(),
        source=SOURCE_REPORTS,
        at_us=time.time_ns() // 1000,
        changes=(change,),
    )
    writers = (WriterRow(topic, 1, WRITER),)
    store.commit(Commit(transactions=(one,), window=None, writers=writers))
    store.close()
    return store.path


@pytest.mark.parametrize("query", [{}, {"object": "shop.orders", "since": "10m"}])
def test_history_names_the_driver_that_has_written_as_a_hub_knows_it(
    query: dict[str, str], reported_store: Path
) -> None:
    asked = []

    def ask(question: ReadWriter) -> "Future[Known | None]":
        asked.append(question)
        return known_of(writer=WRITER.hex(), application="etl", user="ann")

    (shown,) = parts(history_of(reported_store, ask), "", query).values()
    assert asked == [ReadWriter(writer=WRITER)]
    html = shown.html("/history", query)
    assert f'<a href="http://hub:25010/drivers/{WRITER.hex()[:8]}">driver etl (ann)</a>' in html
    (by_name,) = parts(history_of(reported_store, ask), "", {"by": "etl"}).values()
    assert "driver etl (ann)" in by_name.html("/history", {})
    (unknown,) = parts(history_of(reported_store), "", query).values()
    assert f">driver {WRITER.hex()[:8]}</td>" in unknown.html("/history", query)


def test_history_does_not_wait_for_a_hub_that_does_not_answer(reported_store: Path) -> None:
    silent = history_of(reported_store, lambda *_: Future())
    (shown,) = parts(silent, "", {}).values()
    assert f"driver {WRITER.hex()[:8]}" in shown.html("/history", {})


@pytest.fixture
def empty_store(tmp_path: Path) -> Path:
    store = Store.open(tmp_path, num_topics=16, now_us=1, new_id=1)
    store.close()
    return store.path


def test_history_says_which_changes_it_shows_and_refuses_what_it_does_not_know(
    empty_store: Path,
) -> None:
    page = history_of(empty_store)
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
