"""Writes that leave no event, on real processes: one subscriber reports, another receives."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Change, Subscriber, Watch
from topicast.subscriber.engine.write_outbox import WriteOutbox
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.tables import database
from topicast.tests.waiting import until
from topicast.topics.errors import UsageError
from topicast.topics.wire.messages.questions import ReadRecent


@pytest.fixture
def client(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[HMSClient]:
    with database(hive.uri, tmp_path, {"reports.t": 0, "reports.u": 0}) as found:
        yield found


@contextmanager
def writer_reader_and_watch(
    hub: str, metastore: str, pattern: str
) -> Iterator[tuple[Subscriber, Subscriber, Watch]]:
    """Yield a subscriber that writes, another that reads, and what the latter sees change."""
    with (
        Subscriber(hub, timeout_s=60, metastore=metastore, name="writer") as writer,
        Subscriber(hub, timeout_s=60, name="reader") as reader,
        closing(reader.watch(pattern)) as watch,
    ):
        reader.sync()
        yield writer, reader, watch


def received(watch: Watch) -> Callable[[], list[Change]]:
    """Return what takes the changes of data that came since."""
    found: list[Change] = []

    def take() -> list[Change]:
        found.extend(
            one for one in iter(lambda: watch.next_within(0.05), None) if one.kind == "data"
        )
        return found

    return take


def test_written_tables_are_notified_through_kills_and_once_each(
    hive: EmbeddedMetastore, client: HMSClient, daemons: Daemons, tmp_path: Path
) -> None:
    """Given a writer and a reader, when catalogd dies between writes, then all are received."""
    hub = daemons.hub_address
    with writer_reader_and_watch(hub, hive.uri, "reports.*") as (writer, reader, watch):
        before = reader.table("reports.t")
        take = received(watch)
        take().clear()  # a creation that still waits would stand for what comes after it
        assert writer.report_write("reports.t", wait_s=20)
        until(lambda: {c.object for c in take()} == {"reports.t"}, timeout_s=20, what="t")
        assert take()[-1].origin == "reports"
        after = reader.table("reports.t")
        assert after.thrift() == before.thrift(), "no struct of it changed"
        assert list(writer.validate([("reports.t", before.version)])) == ["reports.t"]

        daemons.kill("catalogd")
        with writer.write_intent(f"file:{tmp_path}/u/part-0"):
            pass
        assert not writer.report_write("reports.none", wait_s=0.1), "nobody is there to take it"
        daemons.start("catalogd")
        until(lambda: {c.object for c in take()} == {"reports.t", "reports.u"}, timeout_s=60)
        until(lambda: writer.stats().writes_pending == 0, timeout_s=60, what="an empty outbox")
        stats = writer.stats()
        assert (stats.writes_acknowledged, stats.writes_unknown_table, stats.writes_discarded) == (
            2,
            1,
            0,
        )
        assert client.get_all_tables("reports") == ["t", "u"]


def test_what_one_subscriber_could_not_report_the_next_subscriber_reports(
    hive: EmbeddedMetastore, client: HMSClient, daemons: Daemons
) -> None:
    hub, outbox = daemons.hub_address, WriteOutbox(driver=b"spark driver, 16", metastore=hive.uri)
    with writer_reader_and_watch(hub, hive.uri, "reports.*") as (_writer, _reader, watch):
        take = received(watch)
        take().clear()
        daemons.kill("catalogd")
        with Subscriber(hub, timeout_s=60, name="first", outbox=outbox) as first:
            assert not first.report_write("reports.t", wait_s=0.1)
        daemons.start("catalogd")
        with Subscriber(hub, timeout_s=60, name="next", outbox=outbox):
            assert outbox.wait(timeout_s=60)
        until(lambda: {c.object for c in take()} == {"reports.t"}, timeout_s=60, what="t")
        assert outbox.acknowledged == 1


def test_report_of_another_metastore_is_refused_and_logged(
    client: HMSClient, daemons: Daemons
) -> None:
    with Subscriber(daemons.hub_address, timeout_s=60, metastore="thrift://elsewhere:9083") as it:
        with pytest.raises(UsageError, match=r"elsewhere.*spark\.topicast\.metastore"):
            it.report_write("reports.t", wait_s=20)
        assert it.table("reports.t").name == "t", "it reads on"


def test_each_write_is_told_with_its_driver_though_later_reports_have_followed(
    hive: EmbeddedMetastore, client: HMSClient, daemons: Daemons
) -> None:
    driver = b"spark driver, 17"
    outbox = WriteOutbox(driver=driver, metastore=hive.uri)
    with Subscriber(daemons.hub_address, timeout_s=60, outbox=outbox) as writer:
        writer.sync()
        for _ in range(3):
            assert writer.report_write("reports.t", wait_s=20)
        with daemons.operator() as operator:
            page = operator.catalog(ReadRecent(since_us=0, count=100, pattern="reports.t"))
    drivers = [line.driver for line in page.rows if line.source == "reports"]
    assert drivers == [driver.hex()] * 3


FLOOD = """
import sys
from topicast.subscriber import Subscriber

hub, metastore = sys.argv[1:]
delay = ""
with Subscriber(hub, timeout_s=60, metastore=metastore, name="flood") as it:
    while not delay:
        for _ in range(100):
            it.report_write("reports.t")
        delay = it.stats().writes_delay_reason
    print(delay, flush=True)
    while not it.flush(0.0):
        it.report_write("reports.t")
        print("flood", flush=True)
"""


def test_flood_of_one_driver_is_delayed_and_others_are_not(
    hive: EmbeddedMetastore, client: HMSClient, daemons: Daemons
) -> None:
    hub = daemons.hub_address
    with writer_reader_and_watch(hub, hive.uri, "reports.u") as (writer, _reader, watch):

        def received_ms() -> list[float]:
            found = []
            for _ in range(30):
                begin = time.perf_counter()
                assert writer.report_write("reports.u", wait_s=60)
                found.append((time.perf_counter() - begin) * 1000)
            return sorted(found)

        quiet = received_ms()
        flood = subprocess.Popen(
            [sys.executable, "-c", FLOOD, hub, hive.uri], stdout=subprocess.PIPE, text=True
        )
        try:
            assert flood.stdout is not None
            printed = flood.stdout.readline()
            assert "more than 200 writes a second of one driver: send fewer" in printed
            beside = received_ms()
            assert flood.poll() is None, "it goes on"
        finally:
            flood.kill()
            flood.communicate()
        print(f"received within ms: alone {quiet[15]:.1f} {quiet[-1]:.1f}", end=", ")
        print(f"beside a flood {beside[15]:.1f} {beside[-1]:.1f}")
        take = received(watch)
        until(
            lambda: writer.report_write("reports.u", wait_s=60) and take(), timeout_s=30, what="u"
        )
        assert writer.stats().writes_delay_reason == ""
