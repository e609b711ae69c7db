"""A subscriber's thread and sockets, with a real statestored and a real catalogd."""

import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace

import pytest

from topicast.subscriber import Change, Subscriber
from topicast.tests.cluster.served import Served, served
from topicast.tests.cluster.shop import NAMES
from topicast.tests.keys import user_keys
from topicast.tests.waiting import in_thread, until
from topicast.topics.errors import ConfigError, LinkError, NotReady, OverBudget, UsageError
from topicast.topics.keys.folder import DRIVER

TIMEOUT_S = 60


@pytest.fixture
def catalog(running: Served) -> Iterator[Subscriber]:
    with Subscriber(running.address, timeout_s=TIMEOUT_S, levels="full") as found:
        yield found


def test_settings_that_are_not_valid_are_named() -> None:
    with pytest.raises(ConfigError, match="statestores"):
        Subscriber("")
    with pytest.raises(ConfigError, match="budget"):
        Subscriber("tcp://127.0.0.1:1", budget="much")


def test_start_without_a_hub_fails_in_time_with_its_address() -> None:
    user_keys(DRIVER)  # as the daemons would have made them at their first start
    with pytest.raises(NotReady, match=r"127\.0\.0\.1:1"):
        Subscriber("tcp://127.0.0.1:1", timeout_s=0.3).open()


def test_namespace_over_the_budget_fails_the_start_with_the_bytes_needed(running: Served) -> None:
    subscriber = Subscriber(running.address, budget=100, timeout_s=TIMEOUT_S)
    with pytest.raises(OverBudget, match="the namespace needs"):
        subscriber.open()
    with pytest.raises(UsageError, match="not open"):
        subscriber.databases()


def test_watch_yields_changes_that_match_and_ends_with_the_subscriber(running: Served) -> None:
    with Subscriber(running.address, timeout_s=TIMEOUT_S, levels="full") as catalog:
        watch = catalog.watch("shop.o*")
        seen: list[Change] = []
        thread = threading.Thread(target=lambda: seen.extend(watch))
        thread.start()
        for name in ("shop.items", "shop.orders"):
            running.shop.reshape(name, ("id", "x"))
        until(lambda: seen, what="the change")
        change = ("shop.orders", "schema", "events")
        assert [(one.object, one.kind, one.origin) for one in seen] == [change]
        assert catalog.table("shop.orders").version == seen[0].version
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_many_threads_read_one_table_at_one_moment(running: Served, catalog: Subscriber) -> None:
    """Every partition of an answer is of the same commit, whatever is pushed meanwhile."""
    names = [f"ds={number:03}" for number in range(20)]
    mixed: list[set[str]] = []
    stop = threading.Event()

    def give(value: int) -> None:
        running.shop.change("shop.sales", {name: {"n": str(value)} for name in names})

    def values() -> set[str]:
        return {one.parameters["n"] for one in catalog.partitions("shop.sales", "ds < '020'")}

    def read() -> None:
        while not stop.wait(0.001):
            found = values()
            if len(found) != 1:
                mixed.append(found)

    give(0)
    catalog.sync()
    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, 11):
        give(number)
    catalog.sync()
    stop.set()
    for thread in threads:
        thread.join()
    assert mixed == []
    assert values() == {"10"}


def test_what_an_application_holds_says_what_it_is(running: Served) -> None:
    catalog = Subscriber(running.address, name="ann", budget=1_000_000, metastore="thrift://h:1")
    state = f"<Subscriber 'ann' of {running.address}: %s, budget 1000000 bytes>"
    assert repr(catalog) == state % "not open"
    with catalog:
        assert repr(catalog) == state % "open"
        assert repr(catalog.read_view("shop.orders", "shop.sales")) == (
            "<ReadView of shop.orders, shop.sales>"
        )
        watch = catalog.watch("quiet.*")  # of the shop catalogd may still read the tables
        assert repr(watch) == "<Watch of 'quiet.*': open, changes of 0 objects wait>"
        assert repr(catalog.write_intent("shop.orders")) == "<WriteIntent 1 of shop.orders>"
    assert repr(catalog) == state % "closed"
    assert repr(watch).startswith("<Watch of 'quiet.*': closed")


def test_notebook_shows_first_whether_a_subscriber_serves(running: Served) -> None:
    catalog = Subscriber(running.address, budget="1MB", timeout_s=TIMEOUT_S, name="a <b> c")
    assert catalog._repr_html_().startswith("<div><p><b>not open</b></p>")
    with catalog:
        catalog.sync()
        page = catalog._repr_html_()
        assert page.startswith("<div><p><b>ready, and current within ")
        assert ">a &lt;b&gt; c</td>" in page
        assert ">1.0 MB</td>" in page
        assert catalog.stats()._repr_html_().startswith("<div><p><b>ready, and current within ")
    assert catalog._repr_html_().startswith("<div><p><b>closed</b></p>")


def test_stats_name_what_is_wrong_first(catalog: Subscriber) -> None:
    found = replace(catalog.stats(), metastore_problem="", connection_problem="")
    lost = replace(found, ready=False, connection_problem="port 24000 is shut")
    assert lost.verdict == "not ready: port 24000 is shut"
    away = replace(found, metastore_problem="it is away")
    assert away.verdict == "ready, and not current: it is away"


def test_closed_subscriber_refuses_calls_and_closes_twice(catalog: Subscriber) -> None:
    catalog.close()
    catalog.close()
    for call in (catalog.databases, catalog.stats, catalog.watch, catalog.open):
        with pytest.raises(UsageError):
            call()
    assert "topicast-subscriber" not in {thread.name for thread in threading.enumerate()}


def test_call_that_waits_ends_when_the_subscriber_is_closed(
    running: Served, catalog: Subscriber
) -> None:
    with running.shop.hanging():
        thread, errors = in_thread(lambda: catalog.sync(TIMEOUT_S))
        catalog.stats()
        catalog.close()
        thread.join(TIMEOUT_S)
    assert isinstance(errors[0], UsageError)


def test_subscriber_that_is_not_referenced_any_more_ends_its_thread(running: Served) -> None:
    catalog = Subscriber(running.address).open()
    del catalog
    gc.collect()
    assert "topicast-subscriber" not in {thread.name for thread in threading.enumerate()}


def test_forked_child_is_refused_and_its_close_does_nothing(catalog: Subscriber) -> None:
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
def test_interpreter_ends_at_once_and_without_output(running: Served, leave: str) -> None:
    code = (
        "from topicast.subscriber import Subscriber\n"
        f"catalog = Subscriber({running.address!r}).open()\n"
        "print(*catalog.tables('shop'))\n"
        f"{leave}\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == list(NAMES)


def test_restarts_are_followed_and_silence_bounds_what_memory_answers(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with (
        served(tmp_path_factory.mktemp("state"), hubs=2) as running,
        Subscriber(
            running.address, timeout_s=TIMEOUT_S, levels="full", max_staleness_s=1.0
        ) as catalog,
    ):

        def answers(*columns: str) -> None:
            def seen() -> bool:
                try:
                    table = catalog.table("shop.orders")
                except LinkError:  # heartbeats have not come yet
                    return False
                return tuple(column.name for column in table.columns) == columns

            until(seen, what=f"{columns}")

        running.catalogd.stop()
        until(lambda: catalog.stats().staleness_s > 1.0, what="the age")
        with pytest.raises(LinkError, match="max_staleness_s"):
            catalog.table("shop.orders")
        running.start_catalogd()
        running.shop.reshape("shop.orders", ("id", "after"))
        answers("id", "after")
        first = catalog.stats().hub
        hub = next(hub for hub in running.hubs if hub.address == first)
        hub.stop()
        until(lambda: catalog.stats().hub != first, what="the other hub")
        running.shop.reshape("shop.orders", ("id", "more"))
        answers("id", "more")
        running.hubs.remove(hub)
