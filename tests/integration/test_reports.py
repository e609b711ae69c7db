"""Writes that leave no event, on real processes: told by one subscriber, heard by another."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.catalog.metastore.embedded import EmbeddedMetastore
from topicast.subscriber import Change, Subscriber, Watch
from topicast.tests.catalog.fake_metastore import make_table
from topicast.tests.integration.daemons import Daemons
from topicast.tests.waiting import until
from topicast.topics.errors import UsageError


@pytest.fixture
def client(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[HMSClient]:
    host, _, port = hive.uri.removeprefix("thrift://").partition(":")
    with HMSClient(host=host, port=int(port)) as found:
        found.create_database(Database("reports", "", f"file:{tmp_path}/reports", {}))
        for name in ("t", "u"):
            found.create_table(make_table("reports", name, location=f"file:{tmp_path}/{name}"))
        yield found
        found.drop_database("reports", False, True)


def heard(watch: Watch) -> Callable[[], list[Change]]:
    """Return what takes the changes of data that came since."""
    found: list[Change] = []

    def take() -> list[Change]:
        found.extend(
            one for one in iter(lambda: watch.next_within(0.05), None) if one.kind == "data"
        )
        return found

    return take


def test_written_tables_are_heard_of_through_kills_and_once_each(
    hive: EmbeddedMetastore, client: HMSClient, daemons: Daemons, tmp_path: Path
) -> None:
    """Given a writer and a reader, when catalogd dies between writes, then all are heard of."""
    hub = daemons.hub_address
    with (
        Subscriber(hub, timeout_s=60, metastore=hive.uri, name="writer") as writer,
        Subscriber(hub, timeout_s=60, name="reader") as reader,
        closing(reader.watch("reports.*")) as watch,
    ):
        reader.sync()
        before = reader.table("reports.t")
        take = heard(watch)
        assert writer.wrote("reports.t", wait_s=20)
        until(lambda: {c.object for c in take()} == {"reports.t"}, timeout_s=20, what="t")
        assert take()[-1].origin == "reports"
        after = reader.table("reports.t")
        assert after.thrift() == before.thrift(), "no struct of it changed"
        assert list(writer.validate([("reports.t", before.version)])) == ["reports.t"]

        daemons.kill("catalogd")
        with writer.writing(f"file:{tmp_path}/u/part-0"):
            pass
        assert not writer.wrote("reports.none", wait_s=0.1), "nobody is there to take it"
        daemons.start("catalogd")
        until(lambda: {c.object for c in take()} == {"reports.t", "reports.u"}, timeout_s=60)
        until(lambda: writer.stats().writes_waiting == 0, timeout_s=60, what="an empty outbox")
        stats = writer.stats()
        assert (stats.writes_told, stats.writes_unknown, stats.writes_lost) == (2, 1, 0)
        assert client.get_all_tables("reports") == ["t", "u"]


def test_report_of_another_metastore_is_refused_and_said(
    client: HMSClient, daemons: Daemons
) -> None:
    with Subscriber(daemons.hub_address, timeout_s=60, metastore="thrift://elsewhere:9083") as it:
        with pytest.raises(UsageError, match=r"elsewhere.*spark\.topicast\.metastore"):
            it.wrote("reports.t", wait_s=20)
        assert it.table("reports.t").name == "t", "it reads on"
