"""The thread that refreshes, on a real hub and a real subscriber; Spark alone is a stub."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from topicast.subscriber import Subscriber, Watch
from topicast.subscriber.spark.guard import Guard
from topicast.subscriber.spark.refresh.control import Control
from topicast.subscriber.spark.refresh.path_relations import PathRelations
from topicast.subscriber.spark.refresh.refresher import (
    UNCACHED_S,
    Existing,
    Invalidation,
    Refresher,
)
from topicast.subscriber.spark.refresh.worker import (
    FIRST_SYNC,
    Health,
    Times,
    Worker,
    condition_with,
    health,
)
from topicast.tests.cli.processes import steady_port
from topicast.tests.cluster.served import Served, served
from topicast.tests.cluster.shop import NAMES
from topicast.tests.keys import user_keys
from topicast.tests.subscriber.spark.spark_stub import Session, Stub
from topicast.tests.waiting import until
from topicast.topics.errors import SourceError
from topicast.topics.keys.folder import DRIVER
from topicast.topics.objects.drivers import CONNECTING, DETACHED, LIVE, PLAIN
from topicast.topics.objects.rules import DRY_RUN, OFF, ON
from topicast.topics.topic import MINIMAL_BYTES

ORDERS = "shop.orders"
ITEMS = "shop.items"
NAMES_OF_SHOP = [f"shop.{name}" for name in NAMES]
WAIT_S = 20


class Clients:
    """Sessions of clients, whose plans are discarded."""

    def __init__(self) -> None:
        self.discarded_of: list[str] = []
        self.looks = 0

    @property
    def pause_s(self) -> float:
        return WAIT_S

    def poll(self, *, at_once: bool) -> None:
        self.looks += at_once

    def discard_plans(self, session: str) -> None:
        self.discarded_of.append(session)

    def release(self) -> None:
        self.looks = -1


class Plans:
    """What would plan from memory: whether it may, and of which subscriber."""

    def __init__(self) -> None:
        self.on = False
        self.subscriber: Subscriber | None = None

    def switch(self, *, on: bool) -> None:
        self.on = on

    def follow(self, subscriber: Subscriber | None) -> None:
        self.subscriber = subscriber


class Attached:
    """A worker, and what it works on."""

    def __init__(
        self,
        address: str,
        *sessions: Session,
        kind: type[Subscriber] = Subscriber,
        refresh_cached: bool = False,
        uncached_s: float = UNCACHED_S,
        times: Times = Times(),  # noqa: B008 - it is frozen
        budget: str | int = "1MB",
        timeout_s: float = WAIT_S,
    ) -> None:
        user_keys(DRIVER)  # whose key the subscriber looks for
        self.refresher = Refresher(refresh_cached=refresh_cached, uncached_s=uncached_s)
        self.control = Control()
        self.spark = Stub(*sessions)
        self.clients = Clients()
        self.guard = Guard()
        self.plans = Plans()
        self.worker = Worker(
            self.refresher,
            caches=self.spark,
            paths=PathRelations(self.spark, guard=self.guard, refresh_existing=False),
            clients=self.clients,
            guard=self.guard,
            control=self.control,
            planning=self.plans,
            connect=lambda: kind(address, budget=budget, timeout_s=timeout_s),
            names=("nightly", "app-1"),
            times=times,
        )

    def topic_of(self, table: str) -> int:
        assert self.worker.subscriber is not None
        return self.worker.subscriber.topic_of(table)

    def is_refreshed(self) -> None:
        """Wait until all is refreshed that was published."""
        assert self.worker.connected.wait(WAIT_S)
        assert self.worker.subscriber is not None
        self.worker.subscriber.sync(WAIT_S)
        assert self.worker.caught_up(timeout_s=WAIT_S)


@contextmanager
def attached(running: Served, *sessions: Session, **settings: Any) -> Iterator[Attached]:
    found = Attached(running.address, *sessions, **settings)
    found.worker.start()
    try:
        found.is_refreshed()
        found.spark.renewed.clear()
        yield found
    finally:
        found.worker.stop()
    assert found.worker.state == DETACHED


def widen(running: Served, table: str = "orders", column: str = "") -> None:
    """Give a table the given column, else another column than it has."""
    old = [one.name for one in running.shop.get_table("shop", table).sd.cols]
    other = "x" if old != ["x"] else "y"
    running.shop.reshape(f"shop.{table}", (column or other,))


def test_change_is_refreshed_in_the_sessions_that_have_it_cached(running: Served) -> None:
    mine, other = Session("mine", ORDERS, ITEMS), Session("other", ITEMS)
    with attached(running, mine, other) as found:
        assert found.worker.state == LIVE
        mine.tables, other.tables = {ORDERS, ITEMS}, {ITEMS}
        widen(running)
        found.is_refreshed()
        assert found.spark.renewed == [("mine", ORDERS)]
        assert found.spark.renews_late[-1] is True
        servers = health(found.worker.subscriber)
        assert (servers.connected, servers.silent_s < WAIT_S) == (True, True)
    assert found.spark.renews_late[-1] is False
    assert found.spark.discarded, "detached, it keeps nothing of anybody"
    assert (found.guard.errors, health(found.worker.subscriber)) == (0, Health())


def test_tables_that_changed_are_loaded_anew_where_iceberg_is(running: Served) -> None:
    """After it was off, all of them, and all relations are renewed."""
    session = Session("s")
    with attached(running, session) as found:
        widen(running)
        found.is_refreshed()
        assert found.spark.reloaded == [], "there is no Iceberg"
        found.spark.has_iceberg = True
        widen(running)
        found.is_refreshed()
        assert found.spark.reloaded == [ORDERS]
        session.tables = {ORDERS, ITEMS}
        found.control.application = OFF
        until(lambda: found.refresher.control == OFF, timeout_s=WAIT_S)
        widen(running)
        found.is_refreshed()
        assert (found.spark.reloaded, found.spark.renewed) == ([ORDERS], [])
        found.control.application = ON
        until(lambda: found.spark.reloaded == [ORDERS, "*"], timeout_s=WAIT_S)
        until(lambda: len(found.spark.renewed) == 2, timeout_s=WAIT_S)
    assert found.guard.errors == 0


def test_change_is_refreshed_where_only_dataframes_hold_the_table(running: Served) -> None:
    session = Session("s")
    with attached(running, session) as found:
        session.held = {ORDERS}
        widen(running)
        found.is_refreshed()
        assert found.spark.renewed == [("s", ORDERS)]
        assert found.refresher.is_cached(ORDERS), "its next change does not wait either"


def test_what_was_cached_before_is_renewed(running: Served) -> None:
    session = Session("s", ORDERS)
    found = Attached(running.address, session)
    found.worker.start()
    found.is_refreshed()
    found.worker.stop()
    assert found.spark.renewed == [("s", ORDERS)]


def test_cached_data_is_made_anew_where_that_is_wanted(running: Served) -> None:
    session = Session("s", ORDERS)
    with attached(running, session, refresh_cached=True) as found:
        found.spark.recached.clear()
        widen(running)
        found.is_refreshed()
        assert found.spark.recached == [("s", ORDERS)]


def test_session_that_ended_is_left_alone_and_a_new_session_is_not(running: Served) -> None:
    old, new = Session("old"), Session("new", ORDERS)
    with attached(running, old) as found:
        old.tables, old.ended = {ORDERS}, True
        found.spark.sessions.append(new)
        widen(running)
        found.is_refreshed()
        assert found.spark.renewed == [("new", ORDERS)]


def test_plans_are_discarded_of_sessions_whose_tables_have_changed(running: Served) -> None:
    client = Session("client")
    with attached(running, client, Session("other")) as found:
        client.tables = {ORDERS}
        widen(running)
        found.is_refreshed()
        assert found.clients.looks > 0, "sync looks at once"
        assert set(found.clients.discarded_of) == {"client"}
    assert found.clients.looks == -1, "none is held any more"


def test_refresh_that_fails_later_is_counted_and_ordered_again(running: Served) -> None:
    session = Session("s")
    with attached(running, session) as found:
        session.tables = {ORDERS}
        widen(running)
        found.is_refreshed()
        (ordered,) = found.spark.renewed
        session.tables = {ORDERS}
        order = Invalidation(session="s", table=ORDERS, existing=Existing.NEVER)
        found.spark.failed_later = [(order, "java.io.IOException: no")]
        until(lambda: found.spark.renewed == [ordered] * 2, timeout_s=WAIT_S)
        assert found.guard.last_error == f"refresh {ORDERS}: java.io.IOException: no"


def test_refresh_that_fails_is_counted_and_made_as_soon_as_it_can_be(running: Served) -> None:
    session = Session("s")
    with attached(running, session) as found:
        session.tables = {ORDERS, ITEMS}
        found.spark.failing = {ITEMS}
        widen(running, "items")
        widen(running)
        found.is_refreshed()
        assert found.spark.renewed == [("s", ORDERS)], "others are refreshed all the same"
        assert found.guard.errors > 0
        assert (
            found.guard.last_error == f"refresh {ITEMS}: RuntimeError: java.lang.Exception: {ITEMS}"
        )
        found.spark.failing = set()
        until(lambda: ("s", ITEMS) in found.spark.renewed, timeout_s=WAIT_S)


def test_jvm_that_does_not_answer_is_called_again(running: Served) -> None:
    session = Session("s")
    with attached(running, session) as found:
        session.tables, found.spark.broken = {ORDERS}, True
        widen(running)
        until(lambda: found.guard.errors > 1, timeout_s=WAIT_S)
        found.spark.broken = False
        until(lambda: found.spark.renewed == [("s", ORDERS)], timeout_s=WAIT_S)


def test_orders_of_operators_wake_a_thread_that_waits_for_changes(running: Served) -> None:
    with Subscriber(running.address, timeout_s=WAIT_S) as subscriber:
        watch = subscriber.watch("*")
        for order in (OFF, ON):
            subscriber.sync(WAIT_S)
            watch.all_within(0.0)
            running.order("drivers", order)
            began = time.monotonic()
            assert watch.all_within(WAIT_S) == ()
            assert time.monotonic() - began < WAIT_S
            assert subscriber.driver.wanted("any") == order


def test_operators_switch_it_off_on_and_to_a_dry_run_by_name(running: Served) -> None:
    session = Session("s")
    with attached(running, session) as found:
        session.tables = {ORDERS}

        def order(*orders: tuple[str, ...], then: str) -> None:
            for words in orders:
                running.order("drivers", *words)
            until(lambda: found.refresher.control == then, timeout_s=WAIT_S, what=then)

        order((OFF,), (ON, "web-*"), then=OFF)
        assert not found.control.is_on
        found.is_refreshed()
        found.spark.renewed.clear()  # a change of before may have come until then
        widen(running, column="a")
        found.is_refreshed()
        assert found.spark.renewed == []
        order((DRY_RUN, "night*"), then=DRY_RUN)
        widen(running, column="b")
        found.is_refreshed()
        assert found.spark.renewed == []
        assert found.refresher.counts.would_renew > 0
        order((OFF,), (ON, "app-1"), then=ON)
        until(lambda: found.spark.renewed == [("s", ORDERS)], timeout_s=WAIT_S)
        assert found.control.is_on
        found.control.application = OFF
        until(lambda: found.refresher.control == OFF, timeout_s=WAIT_S)
        assert found.worker.state == LIVE, "it still follows"
    running.order("drivers", ON)


def test_driver_that_attaches_later_obeys_before_it_touches_anything(running: Served) -> None:
    session = Session("s", ORDERS)
    running.order("drivers", OFF, "app-*")
    found = Attached(running.address, session)
    found.worker.start()
    found.is_refreshed()
    found.worker.stop()
    running.order("drivers", ON)
    assert found.refresher.control == OFF
    assert found.spark.renewed == []


def test_subscriber_that_ends_is_replaced_and_everything_is_renewed(running: Served) -> None:
    session = Session("s")
    with attached(running, session, times=Times(retry_s=0.01)) as found:
        first = found.worker.subscriber
        assert first is not None
        session.tables = {ORDERS}
        first.close()
        until(lambda: found.spark.renewed == [("s", ORDERS)], timeout_s=WAIT_S)
        widen(running, "items")
        session.tables = {ITEMS}
        until(lambda: found.spark.renewed[-1] == ("s", ITEMS), timeout_s=WAIT_S)


def test_without_a_hub_nothing_waits() -> None:
    times = Times(connect_s=0.01)
    found = Attached(f"tcp://127.0.0.1:{steady_port()}", Session("s", ORDERS), times=times)
    found.worker.start()
    assert found.worker.state == CONNECTING
    found.worker.stop()
    assert found.worker.state == DETACHED
    assert (found.spark.renewed, found.guard.errors) == ([], 0)


def test_driver_that_reaches_no_hub_says_what_is_missing() -> None:
    times = Times(connect_s=0.01, retry_s=0.01)
    found = Attached(f"tcp://127.0.0.1:{steady_port()}", times=times, timeout_s=0.1)
    found.worker.start()
    try:
        until(lambda: found.worker.condition[1], timeout_s=WAIT_S)
        state, reason = found.worker.condition
        assert state == CONNECTING
        assert "no statestored has registered this subscriber" in reason
    finally:
        found.worker.stop()
    assert found.worker.condition == (DETACHED, "")


def test_driver_without_room_for_the_names_is_plain_and_says_how_much_is_needed(
    running: Served,
) -> None:
    """Before, it was connecting for ever, and the status gave no reason."""
    times = Times(connect_s=0.01, retry_s=0.01)
    found = Attached(running.address, Session("s", ORDERS), times=times, budget=100)
    found.worker.start()
    try:
        until(lambda: found.worker.state == PLAIN, timeout_s=WAIT_S)
        assert "the namespace" in found.worker.condition[1]
        assert "100" in found.worker.condition[1], "what there is"
        assert found.spark.renewed == []
    finally:
        found.worker.stop()


def test_worker_that_is_stopped_while_it_makes_a_subscriber_ends() -> None:
    """It is made, and opened, when ``stop`` has closed what there was."""
    making, stopped = threading.Event(), threading.Event()

    class SlowToMake(Subscriber):
        def __init__(self, address: str, *, budget: str, timeout_s: float) -> None:
            super().__init__(address, budget=budget, timeout_s=timeout_s)
            making.set()
            stopped.wait(WAIT_S)

    times = Times(connect_s=0.01)
    address = f"tcp://127.0.0.1:{steady_port()}"
    found = Attached(address, Session("s", ORDERS), kind=SlowToMake, times=times)
    found.worker.start()
    assert making.wait(WAIT_S)
    stopping = threading.Thread(target=found.worker.stop)
    stopping.start()
    stopping.join(0.5)  # by then it has looked for something to close
    stopped.set()
    stopping.join(WAIT_S)
    assert found.worker.state == DETACHED


class WithoutTopic(Subscriber):
    """A subscriber that does not follow one topic, as where there is no room for it."""

    def watch(self, pattern: str = "*", *, wait: bool = True) -> Watch:
        found = super().watch(pattern, wait=wait)
        self.drop(0)
        return found


def test_tables_of_a_topic_that_is_not_followed_are_renewed_now_and_then_and_it_is_said(
    running: Served,
) -> None:
    """Before, nothing was refreshed at all as long as one topic was not followed."""
    session, times = Session("s"), Times(follow_s=0.1, unseen_s=0.2)
    with attached(running, session, kind=WithoutTopic, times=times) as found:
        assert found.worker.subscriber is not None
        unseen, seen = (
            next(name for name in NAMES_OF_SHOP if (found.topic_of(name) == 0) is is_in)
            for is_in in (True, False)
        )
        state, reason = found.worker.condition
        assert state == LIVE
        assert reason.startswith("1 of 4 topics are not followed: topic 0: set by hand; ")
        assert reason.endswith("relations of their tables are renewed every 0.2 s")
        for _ in range(3):
            session.tables = {unseen, seen}
            until(lambda: unseen not in session.tables, timeout_s=WAIT_S)
        others = [one for one in found.spark.renewed if one != ("s", unseen)]
        assert others in ([], [("s", seen)]), "at most once, for it appeared after the attach"
        session.tables = {unseen}
        found.is_refreshed()
        assert unseen not in session.tables, "sync does not wait for the next time"
        found.worker.subscriber.join(0, "minimal")
        until(lambda: found.worker.condition == (LIVE, ""), timeout_s=WAIT_S)
        found.is_refreshed()
        found.spark.renewed.clear()
        session.tables = {unseen, seen}
        found.is_refreshed()
        assert [one for one in found.spark.renewed if one[1] == seen] == []


def test_budget_that_holds_some_topics_follows_those_of_what_is_cached_first(
    tmp_path: Path,
) -> None:
    session, times = Session("s"), Times(follow_s=0.1, unseen_s=0.2)
    with ExitStack() as stack:
        running = stack.enter_context(served(tmp_path))  # of which nothing was deleted
        with Subscriber(running.address, timeout_s=WAIT_S) as catalog:
            budget = catalog.topics()[-1].full_bytes + MINIMAL_BYTES
        found = stack.enter_context(attached(running, session, times=times, budget=budget))
        subscriber = found.worker.subscriber
        assert subscriber is not None
        assert len(followed(subscriber)) == 1
        name = next(one for one in NAMES_OF_SHOP if found.topic_of(one) not in followed(subscriber))
        session.tables = {name}
        until(lambda: followed(subscriber) == {found.topic_of(name)}, timeout_s=WAIT_S)
        session.tables = {name}
        widen(running, name.partition(".")[2])
        until(lambda: name not in session.tables, timeout_s=WAIT_S)
        state, reason = found.worker.condition
        assert state == LIVE
        assert reason.startswith("3 of 4 topics are not followed: all of them need a budget of ")
        assert found.guard.errors == 0


def followed(subscriber: Subscriber) -> set[int]:
    one = subscriber.unfollowed()
    return set(range(one.num_topics)) - one.topics


class Loading(Subscriber):
    """What catalogd has not synced yet, as while it reads a metastore again."""

    synced = threading.Event()

    def sync(self, timeout_s: float | None = None, *, scope: str = "") -> None:
        assert self.synced.wait(timeout_s)
        super().sync(timeout_s, scope=scope)


def test_driver_that_waits_for_all_that_was_committed_before_says_so(running: Served) -> None:
    found = Attached(running.address, kind=Loading)
    found.worker.start()
    try:
        expected = (CONNECTING, FIRST_SYNC)
        until(lambda: found.worker.condition == expected, timeout_s=WAIT_S, what="it says so")
        assert not found.worker.connected.is_set()
        Loading.synced.set()
        assert found.worker.connected.wait(WAIT_S)
        assert found.worker.condition == (LIVE, "")
    finally:
        Loading.synced.set()
        found.worker.stop()


class Counted(Subscriber):
    """A subscriber that counts how many were opened."""

    opened = 0

    def open(self) -> "Counted":
        type(self).opened += 1
        return super().open()


def test_driver_waits_through_a_long_gap_with_one_subscriber(running: Served) -> None:
    Counted.opened = 0
    times = Times(connect_s=0.01, sync_s=0.2, retry_s=0.01)
    found = Attached(running.address, kind=Counted, times=times)
    try:
        with running.shop.hanging():
            found.worker.start()
            until(
                lambda: found.worker.condition[1] not in ("", FIRST_SYNC),
                timeout_s=WAIT_S,
                what="a sync that timed out",
            )
            assert not found.worker.connected.wait(1.0), "several syncs have timed out by now"
            assert found.worker.state == CONNECTING
        assert found.worker.connected.wait(WAIT_S)
        assert found.worker.condition == (LIVE, "")
        assert (Counted.opened, found.guard.errors) == (1, 0)
    finally:
        found.worker.stop()


class WithoutEvents(Subscriber):
    """A subscriber of a catalogd that no change of the metastore reaches."""

    def sync(self, timeout_s: float | None = None) -> None:
        raise SourceError("no events")


def test_where_the_metastore_reports_nothing_what_arrives_is_refreshed(running: Served) -> None:
    session = Session("mine", ORDERS)
    found = Attached(running.address, session, kind=WithoutEvents)
    found.worker.start()
    try:
        assert found.worker.connected.wait(WAIT_S)
        session.tables = {ORDERS}
        found.spark.renewed.clear()
        widen(running)
        until(lambda: ("mine", ORDERS) in found.spark.renewed, timeout_s=WAIT_S)
        assert (found.worker.state, found.guard.errors) == (LIVE, 0)
    finally:
        found.worker.stop()


def test_change_of_what_is_cached_does_not_wait_with_the_others(running: Served) -> None:
    """Given that changes of other tables gather for a minute, when its own changes, then not."""
    session = Session("mine")
    with attached(running, session, uncached_s=60.0) as found:
        session.tables = {ORDERS}
        found.is_refreshed()
        session.tables = {ORDERS}
        found.is_refreshed()
        found.spark.renewed.clear()
        assert found.refresher.is_cached(ORDERS)
        widen(running, "items")
        until(lambda: found.refresher.can_wait, timeout_s=WAIT_S)
        widen(running)
        until(lambda: found.spark.renewed == [("mine", ORDERS)], timeout_s=WAIT_S)


def test_after_a_loss_of_changes_everything_is_renewed(
    running: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicast.subscriber.engine.watch.WAITING_MAX", 1)
    session = Session("s")

    with attached(running, session) as found:
        session.tables = {"shop.sales"}
        found.spark.broken = True  # it is busy, so that both changes wait
        before = found.refresher.counts.full
        columns = count()

        def is_lost() -> bool:
            for name in ("orders", "items"):
                widen(running, name, f"c{next(columns)}")
            return found.refresher.counts.full > before

        until(is_lost, timeout_s=WAIT_S, interval_s=0.0, what="two changes that wait at once")
        found.spark.broken = False
        until(lambda: ("s", "shop.sales") in found.spark.renewed, timeout_s=WAIT_S)


def test_plans_are_made_from_memory_while_a_subscriber_follows_and_it_is_wanted(
    running: Served,
) -> None:
    with attached(running, Session("mine", ORDERS)) as found:
        plans = found.plans
        assert plans.on
        assert plans.subscriber is found.worker.subscriber
        found.control.application = DRY_RUN
        until(lambda: not plans.on)
        found.control.application = ON
        until(lambda: plans.on)
    assert plans.subscriber is None


@pytest.mark.parametrize(
    ("condition", "servers", "shown"),
    [
        ((LIVE, ""), {}, (LIVE, "")),
        ((LIVE, "3 of 4 topics"), {}, (LIVE, "3 of 4 topics")),
        (
            (LIVE, "3 of 4 topics"),
            {"connection_problem": "catalogd is not reached"},
            (LIVE, "3 of 4 topics; catalogd is not reached"),
        ),
        ((LIVE, ""), {"silent_s": 9.6}, (LIVE, "catalogd has been silent for 10 s")),
        (
            (LIVE, ""),
            {"connected": False, "connection_problem": "the hub is not reached", "silent_s": 9.0},
            (CONNECTING, "the hub is not reached"),
        ),
        (
            (LIVE, ""),
            {"connected": False, "silent_s": 9.0},
            (CONNECTING, "the statestored has been silent for 9 s"),
        ),
        ((LIVE, ""), {"connected": False, "silent_s": 2.0}, (LIVE, "")),
        ((LIVE, ""), {"metastore_problem": "no listener"}, (LIVE, "no listener")),
        ((PLAIN, "no room"), {"metastore_problem": "no listener"}, (PLAIN, "no room")),
    ],
)
def test_servers_that_are_away_are_in_the_condition_of_a_driver(
    condition: tuple[str, str], servers: dict[str, Any], shown: tuple[str, str]
) -> None:
    known = Health(**{"connected": True, "silent_s": 0.1, **servers})
    assert condition_with(condition, known) == shown
