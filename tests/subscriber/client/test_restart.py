"""What is left after an error of ours in the engine, on real sockets: nothing but a short wait."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from topicast.subscriber import Subscriber
from topicast.subscriber.client.reader import Reader
from topicast.subscriber.config import settings_of
from topicast.subscriber.engine.core import Core
from topicast.subscriber.engine.loop import EngineLoop
from topicast.subscriber.engine.write_outbox import WriteOutbox
from topicast.subscriber.protocol.commands import Started
from topicast.tests.cluster.served import Served, served
from topicast.tests.keys import user_keys
from topicast.tests.waiting import in_thread, until
from topicast.topics.errors import LinkError, NotReady, StaleMetadata
from topicast.topics.keys.folder import DRIVER
from topicast.topics.link import Link

TIMEOUT_S = 60
METASTORE = "thrift://127.0.0.1:9083"  # which catalogd follows, if nobody says which


def fail() -> Started[None]:
    raise RuntimeError("a fault of ours")


@contextmanager
def opened(running: Served, **given: object) -> Iterator[tuple[Subscriber, EngineLoop]]:
    """Open a subscriber, and return the loop that runs it, which a test lets fail."""
    settings = settings_of(
        statestores=running.address,
        timeout_s=TIMEOUT_S,
        environ={},
        default_name="test",
        metastore=METASTORE,
        **given,  # type: ignore[arg-type]  # each test names its own
    )
    outbox = WriteOutbox(driver=os.urandom(16), metastore=METASTORE)
    core = Core(settings, new_id=lambda: os.urandom(16), outbox=outbox)
    own = user_keys(DRIVER).credential
    loop = EngineLoop(core, Link(own.pair), credential=own, clock=time.monotonic)
    reader = Reader(core, settings)
    reader.engine = loop
    loop.start()
    try:
        reader.call(core.ready)
        yield Subscriber.in_front_of(reader), loop
    finally:
        loop.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("state"), num_topics=16) as found:
        yield found


@pytest.mark.parametrize("levels", ["auto", "full"])
def test_what_the_application_has_set_is_as_before(running: Served, levels: str) -> None:
    with opened(running, levels=levels) as (catalog, loop):
        catalog.pin("shop.sales")
        catalog.join("shop.orders", "minimal")
        catalog.drop("shop.items")
        with pytest.raises(NotReady, match="a fault of ours"):
            loop.call(fail, timeout_s=TIMEOUT_S)
        assert catalog.table("shop.orders").name == "orders"
        found = catalog.topics("shop.orders", "shop.items")
        assert [one.level for one in found] == ["minimal", "none"]
        catalog.pin("shop.sales")
        stats = catalog.stats()
        assert (stats.pinned_tables, stats.pinned_not_held, stats.engine_restarts) == (1, 0, 1)
        assert catalog.report_write("shop.items", wait_s=TIMEOUT_S)


def test_watch_is_notified_of_the_restart_and_goes_on(running: Served) -> None:
    with opened(running) as (catalog, loop):
        watch = catalog.watch("shop.*")
        with pytest.raises(NotReady):
            loop.call(fail, timeout_s=TIMEOUT_S)
        with pytest.raises(StaleMetadata, match="restarted"):
            watch.next_within(TIMEOUT_S)
        catalog.sync()
        running.shop.reshape("shop.items", ("id", "new"))
        change = watch.next_within(TIMEOUT_S)
        assert change is not None
        assert (change.object, change.kind) == ("shop.items", "schema")


def test_callers_that_wait_are_answered_all_the_same(running: Served) -> None:
    with opened(running) as (catalog, loop):
        with running.shop.hanging():
            threads = [in_thread(lambda: catalog.sync(TIMEOUT_S)) for _ in range(3)]
            catalog.stats()
            with pytest.raises(NotReady):
                loop.call(fail, timeout_s=TIMEOUT_S)
        for thread, errors in threads:
            thread.join(TIMEOUT_S)
            assert errors == []
        assert "shop" in catalog.databases()


def test_nothing_is_answered_that_is_older_than_before(running: Served) -> None:
    with opened(running) as (catalog, loop):
        for number in range(5):
            running.shop.reshape("shop.orders", ("id", f"c{number}"))
            catalog.sync()
            with pytest.raises(NotReady):
                loop.call(fail, timeout_s=TIMEOUT_S)
            assert [one.name for one in catalog.table("shop.orders").columns] == [
                "id",
                f"c{number}",
            ]


def test_engine_that_is_given_up_says_so_to_every_call(running: Served) -> None:
    with opened(running) as (catalog, loop):
        while loop.running:
            with pytest.raises(LinkError):
                loop.call(fail, timeout_s=TIMEOUT_S)
        until(lambda: not loop.running, what="the thread's end")
        for call in (catalog.stats, catalog.databases, catalog.watch):
            with pytest.raises(LinkError, match="10 times within 60 s.*make another subscriber"):
                call()
