"""What keeps the router true, on a real hub and a real subscriber; the JVM alone is a stub."""

from collections.abc import Iterator
from contextlib import closing
from threading import Event

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.subscriber import Subscriber
from topicast.subscriber.spark.guard import Guard
from topicast.subscriber.spark.planning.planning import Planning, PlanningSettings
from topicast.subscriber.spark.planning.router import Router
from topicast.tests.cluster.served import Served
from topicast.tests.waiting import until
from topicast.topics.errors import NotReady

WAIT_S = 20
STATE = "live=1\nerrors=0\nlast_error=\n\n"  # and no table was read
PAUSE_S = 0.01


class ToldJvm:
    """What the router calls in the JVM: it reads nothing, and remembers what it is told."""

    def __init__(self) -> None:
        self.changes: list[str] = []  # objects
        self.followed: list[str] = []  # databases
        self.lives_ms = 0
        self.synced_up_to = 0
        self._queued = Event()  # nothing ever is

    def begin(self, *_settings: object) -> int:
        return 1

    def end(self, _number: int) -> None:
        self.lives_ms = 0

    def live(self, ms: int) -> None:
        self.lives_ms = ms

    def renew(self, ms: int) -> str:
        self.live(ms)
        return STATE

    def follow(self, databases: str) -> None:
        self.followed = databases.splitlines()

    def changedAll(self, _ms: int) -> None:  # noqa: N802 - its name in Java
        self.changes.append("*")

    def changed(self, lines: str) -> None:
        self.changes += [line.rpartition(" ")[2] for line in lines.splitlines()]

    def synced(self, number: int) -> None:
        self.synced_up_to = number

    def nothing(self, ms: int) -> str:
        self._queued.wait(min(ms / 1000, PAUSE_S))
        return ""

    wanted = altered = nothing

    def __getattr__(self, name: str) -> object:
        if name != "await":  # a word of Python's
            raise AttributeError(name)
        return lambda ms: int(self.nothing(ms) or 0)


@pytest.fixture
def jvm() -> ToldJvm:
    return ToldJvm()


class Halting(Subscriber):
    """A subscriber that does not say which databases there are while it halts."""

    halts = False

    def databases(self) -> tuple[str, ...]:
        if self.halts:
            raise NotReady("it halts")
        return super().databases()


@pytest.fixture
def subscriber(running: Served) -> Iterator[Halting]:
    with Halting(running.address, budget="1MB", timeout_s=WAIT_S) as found:
        yield found


@pytest.fixture
def planning(subscriber: Subscriber, jvm: ToldJvm) -> Iterator[Planning]:
    settings = PlanningSettings(bytes_max=1 << 20, max_staleness_s=WAIT_S, endpoint=False)
    made = Planning(
        lambda: Router(jvm), settings=settings, report=lambda *_, **__: None, guard=Guard()
    )
    with closing(made):
        made.switch(on=True)
        made.follow(subscriber)
        until(lambda: jvm.lives_ms > 0, timeout_s=WAIT_S, what="answers from memory")
        yield made


def widen(running: Served, table: str) -> None:
    """Give a table another column than it has."""
    old = [one.name for one in running.shop.get_table("shop", table).sd.cols]
    running.shop.reshape(f"shop.{table}", ("x" if old != ["x"] else "y",))


def test_what_had_changed_before_a_sync_is_dropped_when_planning_is_told_of_the_sync(
    running: Served, subscriber: Subscriber, planning: Planning, jvm: ToldJvm
) -> None:
    widen(running, "items")
    until(lambda: "shop.items" in jvm.changes, timeout_s=WAIT_S, what="a change")
    widen(running, "orders")  # which waits, as changes gather for a moment after the first
    subscriber.sync(WAIT_S)
    planning.synced()
    assert "shop.orders" in jvm.changes
    assert jvm.synced_up_to == 0, "the sync may have been of one table alone"
    planning.synced(7)
    assert jvm.synced_up_to == 7


def test_changes_are_dropped_although_the_subscriber_does_not_say_which_databases_there_are(
    running: Served, subscriber: Halting, planning: Planning, jvm: ToldJvm
) -> None:
    """The databases are asked for again at the next look, and what is held goes on serving."""
    subscriber.halts = True
    running.shop.create_database(Database("annex", locationUri="/annex"))
    widen(running, "orders")
    subscriber.sync(WAIT_S)
    planning.synced()
    assert {"annex", "shop.orders"} <= set(jvm.changes)
    assert "annex" not in jvm.followed
    subscriber.halts = False
    until(lambda: "annex" in jvm.followed, timeout_s=WAIT_S, what="the new database")
    until(lambda: jvm.lives_ms > 0, timeout_s=WAIT_S, what="answers from memory")
    running.shop.drop_database("annex", delete_data=False, cascade=True)
