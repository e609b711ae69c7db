"""A subscriber on real sockets, against a real statestored."""

import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from topicast.subscriber import Change, Subscriber
from topicast.tests.subscriber.source import NAMES, Catalog, shop
from topicast.tests.subscriber.stand import Hub, Publisher, free_ports, stand
from topicast.tests.waiting import until
from topicast.topics.entries import tombstone
from topicast.topics.errors import (
    ConfigError,
    LinkError,
    NoSuchObject,
    NotReady,
    OverBudget,
    StaleMetadata,
    UsageError,
)
from topicast.topics.objects.names import table_key
from topicast.topics.sharding import NAMESPACE


@contextmanager
def _joined(**settings: object) -> Iterator[tuple[Subscriber, Publisher, list[Hub]]]:
    hubs = settings.pop("hubs", 1)
    port = settings.pop("port", 0)
    assert isinstance(hubs, int)
    assert isinstance(port, int)
    with stand(shop(), hubs, port=port) as (publisher, running):
        addresses = ",".join(hub.address for hub in running)
        settings = {"timeout_s": 5, "levels": "full", **settings}
        with Subscriber(addresses, **settings) as catalog:  # type: ignore[arg-type]  # by test
            yield catalog, publisher, running


def _columns(catalog: Subscriber, name: str) -> list[str]:
    return [column.name for column in catalog.table(name).columns]


def test_subscriber_reads_what_catalogd_published() -> None:
    with _joined() as (catalog, _, _):
        assert catalog.databases() == ("shop",)
        assert catalog.database("SHOP").location == "file:/w/shop"
        assert catalog.tables("Shop") == NAMES
        assert catalog.table("Shop.Orders").full_name == "shop.orders"
        assert len(catalog.partitions("shop.sales")) == 100
        found = catalog.partitions("shop.sales", "ds >= '095' and ds != '097'")
        assert [one.name for one in found] == ["ds=095", "ds=096", "ds=098", "ds=099"]
        assert found[0].parameters["n"] == "95"
        assert catalog.partitions("shop.orders") == ()
        for name in ("shop.nothing", "nowhere.orders"):
            with pytest.raises(NoSuchObject, match=name):
                catalog.table(name)
        with pytest.raises(NoSuchObject):
            catalog.tables("nowhere")
        with pytest.raises(UsageError):
            catalog.table("orders")
        assert catalog.stats().pulls == 0


def test_change_is_seen_by_push_and_after_sync_in_any_case() -> None:
    with _joined() as (catalog, publisher, _):
        publisher.commit(lambda c: c.put_table("shop", "orders", columns=("id", "more")))
        until(lambda: _columns(catalog, "shop.orders") == ["id", "more"], what="the push")
        publisher.commit(lambda c: c.create_table("shop", "fresh"))
        catalog.sync()
        assert catalog.table("shop.fresh").name == "fresh"
        publisher.commit(lambda c: c.drop_table("shop", "fresh"))
        catalog.sync(5)
        with pytest.raises(NoSuchObject):
            catalog.table("shop.fresh")


def test_many_tables_are_validated_at_once() -> None:
    with _joined() as (catalog, publisher, _):
        known = [(f"shop.{name}", catalog.table(f"shop.{name}").version) for name in NAMES]
        assert catalog.validate(known) == {}
        assert catalog.validate([]) == {}
        publisher.commit(lambda c: c.put_table("shop", "orders", columns=("id", "more")))
        publisher.commit(lambda c: c.drop_table("shop", "stock"))
        stale = catalog.validate([*known, ("shop.none", 1)])
        until(lambda: _columns(catalog, "shop.orders") == ["id", "more"], what="the push")
        now = catalog.table("shop.orders").version
        assert stale == {"shop.orders": now, "shop.stock": 0, "shop.none": 0}
        with pytest.raises(UsageError):
            catalog.validate([("orders", 1)])


@pytest.mark.parametrize("level", ["full", "minimal", "none"])
def test_plan_is_read_at_one_moment_and_confirmed_at_any_level(level: str) -> None:
    with _joined() as (catalog, publisher, _):
        for name in ("sales", "orders"):
            catalog.join(publisher.catalog.topic("shop", name), level=level)
        with catalog.read_view("shop.sales", "shop.orders") as snapshot:
            assert len(snapshot.partitions("shop.sales", "ds < '010'")) == 10
            snapshot.confirm()
            publisher.commit(lambda c: c.put_partitions("shop", "sales", {"ds=000": {"n": "x"}}))
            with pytest.raises(StaleMetadata, match=r"shop\.sales$"):
                snapshot.confirm()
        with catalog.read_view("shop.sales", "shop.orders") as again:
            assert again.partitions("shop.sales", "ds = '000'")[0].parameters["n"] == "x"
            again.confirm()
        with pytest.raises(NoSuchObject):
            catalog.read_view("shop.none")


def test_dropped_topic_is_pulled_and_can_be_joined_again() -> None:
    with _joined() as (catalog, publisher, _):
        topic = publisher.catalog.topic("shop", "sales")
        catalog.drop(topic)
        assert len(catalog.partitions("shop.sales", "ds < '010'")) == 10
        assert _columns(catalog, "shop.sales") == ["id"]
        assert catalog.stats().pulls == 2
        assert {one.level for one in catalog.topics() if one.id == topic} == {"none"}
        catalog.join(topic)
        assert _columns(catalog, "shop.sales") == ["id"]
        assert catalog.stats().pulls == 2
        catalog.join(topic, level="none")
        with pytest.raises(UsageError, match="none, minimal, full"):
            catalog.join(topic, level="half")
        with pytest.raises(UsageError):
            catalog.join(99)


@pytest.mark.parametrize("level", ["full", "minimal", "none"])
def test_partitions_are_read_by_name_and_names_alone_at_any_level(level: str) -> None:
    with _joined() as (catalog, publisher, _):
        catalog.join(publisher.catalog.topic("shop", "sales"), level=level)
        every = tuple(f"ds={number:03d}" for number in range(100))
        assert catalog.partition_names("shop.sales") == every
        assert catalog.partition_names("shop.sales", "ds < '010'") == every[:10]
        wanted = ["ds=077", "ds=003", "ds=never", "ds=003"]
        found = catalog.partitions("shop.sales", names=wanted)
        assert [one.name for one in found] == ["ds=003", "ds=077"]
        assert catalog.partitions("shop.sales", names=[]) == ()
        assert found == catalog.partitions("shop.sales", "ds in ('003', '077')")
        assert catalog.partition_names("shop.orders") == ()
        pulled = catalog.stats().pulls
        assert catalog.partitions("shop.sales", names=wanted[::-1]) == found
        assert catalog.stats().pulls == pulled + (level == "none")
        with pytest.raises(UsageError):
            catalog.partitions("shop.sales", names=["nonsense"])
        with pytest.raises(UsageError):
            catalog.partitions("shop.sales", "ds = '003'", names=wanted)
        with pytest.raises(NoSuchObject):
            catalog.partition_names("shop.none")


def test_namespace_over_the_budget_fails_the_start_with_the_bytes_needed() -> None:
    with stand(shop()) as (_, hubs):
        subscriber = Subscriber(hubs[0].address, budget=100, timeout_s=5)
        with pytest.raises(OverBudget, match="the namespace needs"):
            subscriber.open()
        with pytest.raises(UsageError, match="not open"):
            subscriber.databases()


def test_table_larger_than_the_budget_is_answered_each_time_and_never_kept() -> None:
    budget = shop().size(NAMESPACE) + 1500
    with _joined(levels="auto", budget=budget, never="shop.stock") as (catalog, _, _):
        for number in (1, 2):
            assert len(catalog.partitions("shop.sales")) == 100
            until(lambda n=number: catalog.stats().pulls_not_kept == n, what="the count")

        def kept() -> bool:
            pulls = catalog.stats().pulls
            assert len(catalog.partitions("shop.sales", "ds = '050'")) == 1
            return catalog.stats().pulls == pulls

        until(kept, what="what a filter needs")
        assert catalog.stats().held_bytes <= budget
        with pytest.raises(OverBudget, match=r"shop\.sales needs"):
            catalog.pin("shop.sales")
        catalog.pin("shop.orders")
        catalog.unpin("Shop.Orders")
        assert (catalog.stats().pinned_tables, catalog.table("shop.stock").name) == (0, "stock")


def test_nobody_there_is_said_in_time() -> None:
    with pytest.raises(NotReady, match=r"127\.0\.0\.1:1"):
        Subscriber("tcp://127.0.0.1:1", timeout_s=0.3).open()


def test_hub_that_dies_is_left_for_the_other_without_a_catch_up() -> None:
    with _joined(hubs=2) as (catalog, publisher, hubs):
        caught_up = catalog.stats().catch_ups
        first = catalog.stats().hub
        dead = next(hub for hub in hubs if hub.address == first)
        dead.stop()
        assert catalog.tables("shop") == NAMES  # served meanwhile
        until(lambda: catalog.stats().hub != first, what="the other hub")
        publisher.commit(lambda c: c.put_table("shop", "orders", columns=("id", "more")))
        until(lambda: _columns(catalog, "shop.orders") == ["id", "more"], what="its pushes")
        assert catalog.stats().catch_ups <= caught_up + 1
        hubs.remove(dead)


def test_hub_that_restarts_at_its_address_is_followed_again() -> None:
    port = free_ports()
    with _joined(port=port) as (catalog, publisher, hubs):
        hubs[0].stop()
        publisher.commit(lambda c: c.put_table("shop", "orders", columns=("id", "missed")))
        assert _columns(catalog, "shop.orders") == ["id"]
        hubs[0] = Hub(port)
        until(lambda: _columns(catalog, "shop.orders") == ["id", "missed"], what="the hub's return")


def test_catalogd_that_restarts_is_compared_and_followed() -> None:
    with stand(shop()) as (publisher, hubs), Subscriber(hubs[0].address) as catalog:
        publisher.stop()
        publisher.catalog.start += 1
        other = Publisher(publisher.catalog, [hubs[0].address])
        try:
            other.commit(lambda c: c.put_table("shop", "orders", columns=("id", "after")))
            until(lambda: _columns(catalog, "shop.orders") == ["id", "after"], what="the new start")
        finally:
            other.stop()


def test_silent_catalogd_bounds_what_memory_answers() -> None:
    with _joined(max_staleness_s=0.5) as (catalog, _, hubs):
        until(lambda: catalog.stats().staleness_s < 0.5, what="a heartbeat")
        hubs[0].stop()
        until(lambda: catalog.stats().staleness_s > 0.5, what="the age")
        with pytest.raises(LinkError, match="max_staleness_s"):
            catalog.table("shop.orders")
        hubs.clear()


def test_sync_that_is_not_answered_fails_in_time_and_says_so() -> None:
    with _joined() as (catalog, publisher, _):
        publisher.serving = False
        with pytest.raises(NotReady, match="catalogd has not answered the sync"):
            catalog.sync(timeout_s=0.2)


def test_watch_yields_what_matches_and_ends_with_the_subscriber() -> None:
    with _joined() as (catalog, publisher, _):
        watch = catalog.watch("shop.*")
        seen: list[Change] = []
        thread = threading.Thread(target=lambda: seen.extend(watch))
        thread.start()
        publisher.commit(lambda c: c.create_database("other"))
        publisher.commit(lambda c: c.put_table("shop", "orders", columns=("id", "x")))
        until(lambda: seen, what="the change")
        assert [(one.object, one.kind, one.origin) for one in seen] == [
            ("shop.orders", "schema", "events")
        ]
        assert catalog.table("shop.orders").version == seen[0].version
    thread.join(5)
    assert not thread.is_alive()


def test_many_threads_read_one_table_at_one_moment() -> None:
    """Every partition of an answer is of the same commit, whatever is pushed meanwhile."""
    with _joined() as (catalog, publisher, _):
        mixed: list[set[str]] = []
        stop = threading.Event()

        def read() -> None:
            while not stop.wait(0.001):
                values = {one.parameters["n"] for one in catalog.partitions("shop.sales")}
                if len(values) != 1:
                    mixed.append(values)

        publisher.commit(lambda c: _all_partitions(c, "0"))
        catalog.sync()
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(1, 11):
            publisher.commit(lambda c, n=number: _all_partitions(c, str(n)))  # type: ignore[misc]  # bound now
        catalog.sync()
        stop.set()
        for thread in threads:
            thread.join()
        assert mixed == []
        assert {one.parameters["n"] for one in catalog.partitions("shop.sales")} == {"10"}


def _all_partitions(catalog: Catalog, value: str) -> object:
    return catalog.put_partitions("shop", "sales", {f"ds={i:03}": {"n": value} for i in range(100)})


def test_closed_subscriber_refuses_and_closes_twice() -> None:
    with _joined() as (catalog, _, _):
        catalog.close()
        catalog.close()
        for call in (catalog.databases, catalog.stats, catalog.watch, catalog.open):
            with pytest.raises(UsageError):
                call()
    assert "topicast-subscriber" not in {thread.name for thread in threading.enumerate()}


def test_waiting_call_ends_when_the_subscriber_is_closed() -> None:
    with _joined() as (catalog, publisher, _):
        publisher.serving = False
        failed: list[Exception] = []

        def wait() -> None:
            try:
                catalog.sync()
            except UsageError as error:
                failed.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: len(catalog._reader.running()._commands) == 1, what="the call")
        catalog.close()
        thread.join(5)
        assert len(failed) == 1


def test_forgotten_subscriber_ends_its_thread() -> None:
    with stand(shop()) as (_, hubs):
        catalog = Subscriber(hubs[0].address).open()
        del catalog
        gc.collect()
        names = {thread.name for thread in threading.enumerate()}
        assert "topicast-subscriber" not in names


def test_forked_child_is_refused_and_its_close_does_nothing() -> None:
    with _joined() as (catalog, _, _):
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: threads, which is it
            child = os.fork()
        if not child:
            try:
                catalog.table("shop.orders")
            except UsageError:
                catalog.close()
                os.write(write, b"refused")
            os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            assert pipe.read() == b"refused"
        assert catalog.tables("shop") == NAMES


@pytest.mark.parametrize("leave", ["", "catalog.close()", "del catalog", "import asyncio"])
def test_interpreter_ends_at_once_and_without_a_word(leave: str) -> None:
    with stand(shop()) as (_, hubs):
        code = (
            "from topicast.subscriber import Subscriber\n"
            f"catalog = Subscriber({hubs[0].address!r}).open()\n"
            "print(*catalog.tables('shop'))\n"
            f"{leave}\n"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == list(NAMES)


def test_settings_that_are_not_valid_are_named() -> None:
    with pytest.raises(ConfigError, match="statestores"):
        Subscriber("")
    with pytest.raises(ConfigError, match="budget"):
        Subscriber("tcp://127.0.0.1:1", budget="much")


def test_names_are_answered_as_soon_as_the_namespace_is_there() -> None:
    with _joined() as (catalog, _, _):
        view = catalog._core.view
        view.close(NAMESPACE)  # as during a catch-up; the next heartbeat finds it as new as before
        found: list[tuple[str, ...]] = []
        thread = threading.Thread(target=lambda: found.append(catalog.tables("shop")))
        thread.start()
        until(lambda: not catalog._reader.running()._commands, what="the call")
        view.open(NAMESPACE)
        thread.join(5)
        assert found == [NAMES]


def test_pulled_table_without_its_own_entry_is_an_error_to_try_again() -> None:
    with _joined() as (catalog, publisher, _):
        topic = publisher.catalog.topic("shop", "orders")
        catalog.drop(topic)
        gone = tombstone(table_key("shop", "orders"), publisher.catalog.next(topic))
        publisher.commit(lambda c: c.commit(topic, [gone]))
        with pytest.raises(NotReady, match="ask again"):
            catalog.table("shop.orders")
