"""Audit of what hubs and subscribers hold, against catalogd's store, on real daemons."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from topicast.cli.commands.pipeline.audit import mended
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.pipeline.audit import audit
from topicast.pipeline.comparison.report import AuditReport
from topicast.pipeline.progress import RunProgress
from topicast.subscriber import Subscriber
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.damaged import damage
from topicast.tests.integration.tables import database
from topicast.tests.keys import restricted_key
from topicast.topics.errors import LinkError, NotReady
from topicast.topics.objects.encoding.values import (
    decode_database_value,
    decode_table_value,
    encode_database_value,
    encode_table_value,
)
from topicast.topics.objects.names import block_lead, database_key, table_key
from topicast.topics.topic import Entry, value_of

DB = "copied"
SALES, STOCK, GONE, GHOST = (f"{DB}.{name}" for name in ("sales", "stock", "gone", "ghost"))
NO_SPARK = cast("Any", None)  # hubs and subscribers are compared in the driver's process


@pytest.fixture
def key_file(tmp_path: Path) -> Iterator[Path]:
    """The key file of a driver that may see one database."""
    with restricted_key(tmp_path / f"audit-{tmp_path.name}.key", DB) as found:
        yield found


def compared(statestores: str, pattern: str = f"{DB}.*", **how: Any) -> AuditReport:
    """Compare hubs and a subscriber with catalogd's store, once each of the hubs serves readers."""
    for hub in statestores.split(","):
        with Subscriber(hub, timeout_s=60, key_file=how.get("key_file")):
            pass
    return audit(NO_SPARK, pattern, sides="hub,subscriber", statestores=statestores, **how)


def said(report: AuditReport, by: str) -> list[tuple[str, str]]:
    """Return object and property of each difference of the side ``by``."""
    return [(one.object, one.property) for one in report.differences if one.side == by]


def harmed(entry: Entry) -> Iterable[Entry]:
    """Return what a hub holds that has lost, changed, damaged and invented something."""
    if entry.key == table_key(DB, "sales"):
        value = decode_table_value(value_of(entry))
        wrong = encode_table_value(
            replace(value, thrift=value.thrift.replace(b"/sales", b"/SALES"))
        )
        return [entry._replace(value=wrong, size=len(wrong))]
    if entry.key.startswith(block_lead(table_key(DB, "stock"))):
        return [entry._replace(value=b"\7" + value_of(entry)[1:])]
    if entry.key.startswith((table_key(DB, "gone"), table_key("unseen", "t"))):
        return []
    if entry.key == table_key(DB, "plain"):
        return [entry, entry._replace(key=table_key(DB, "ghost"))]
    if entry.key == database_key(DB):
        thrift = decode_database_value(value_of(entry))
        wrong = encode_database_value(thrift.replace(b"/copied", b"/COPIED"))
        return [entry._replace(value=wrong, size=len(wrong))]
    return [entry]


@pytest.mark.nightly  # half a minute; units compare
def test_what_a_hub_and_its_subscribers_hold_otherwise_is_found_by_property_and_mended(
    hive: EmbeddedMetastore, daemons: Daemons, tmp_path: Path, key_file: Path
) -> None:
    """And with a key for one database only what is wrong in that."""
    tables = {SALES: 40, STOCK: 40, GONE: 40, f"{DB}.plain": 0}
    first = daemons.hub_address
    with (
        database(hive.uri, tmp_path, tables),
        database(hive.uri, tmp_path, {"unseen.t": 0}),
    ):
        with Subscriber(first, timeout_s=60) as catalog:
            catalog.sync()
            counts = [len(catalog.partitions(name)) for name, count in tables.items() if count]
            assert (counts, catalog.table(f"{DB}.plain").name) == ([40, 40, 40], "plain")
            assert catalog.table("unseen.t").name == "t"
        shown: list[RunProgress] = []
        equal = compared(first, on_progress=shown.append)
        assert (equal.problems, [one["tables"] for one in equal.copies]) == ((), [4, 4])
        assert str(shown[-1]) == "compared: 4 done, 0 left, 0 failing"

        daemons.start("statestored2")
        second = daemons.hub_address.split(",")[1]
        damage(first, second, harmed)
        daemons.kill("catalogd")
        daemons.start("catalogd")
        block, last = "first block of partitions", "block of partitions from 'ds=032'"
        both = compared(daemons.hub_address)
        assert {one.side for one in both.differences} == {f"hub {second}"}
        assert said(both, f"hub {second}") == [
            (DB, "locationUri"),
            (GHOST, "exists"),
            (GONE, "exists"),
            (SALES, "sd.location"),
            (STOCK, block),
            (STOCK, last),
        ]
        (moved,) = (one for one in both.differences if one.object == SALES)
        assert (moved.value, moved.catalogd) == (f"file:{tmp_path}/SALES", f"file:{tmp_path}/sales")

        alone = compared(second)
        assert said(alone, "subscriber") == [(DB, "locationUri"), (SALES, "sd.location")]
        assert list(alone.unread) == [f"subscriber, {STOCK}"]
        everything = compared(second, "*")
        assert {one.object for one in everything.differences} > {"unseen.t"}
        limited = compared(second, "*", key_file=str(key_file))
        assert limited.differences == alone.differences
        assert f"only databases that the key sees: {DB}" in limited.summary()
        repaired = compared(second, repair=partial(mended, statestores=second))
        assert (repaired.mended, repaired.unread) == ([GHOST, GONE, SALES, STOCK], {})
        assert {one.object for one in repaired.differences} == {DB}
        restart = f"restart the hub {second}: it takes everything from catalogd anew"
        assert repaired.advice == (restart,)
        daemons.kill("statestored2")
        daemons.start("statestored2")
        assert compared(second).problems == ()


@pytest.mark.nightly  # daemons are waited for
def test_what_is_restarted_meanwhile_is_waited_for(
    hive: EmbeddedMetastore, daemons: Daemons, tmp_path: Path
) -> None:
    tables = dict.fromkeys((SALES, STOCK, GONE), 40)
    with database(hive.uri, tmp_path, tables):
        with Subscriber(daemons.hub_address, timeout_s=60) as catalog:
            catalog.sync()
            assert [len(catalog.partitions(name)) for name in tables] == [40, 40, 40]
        restarts = [("hub", "statestored"), ("hub", "catalogd"), ("subscriber", "statestored")]

        def meddle(progress: RunProgress) -> None:
            if progress.done in (3, 6) and restarts and restarts[0][0] in progress.step:
                _, name = restarts.pop(0)
                daemons.kill(name)
                daemons.start(name)

        found = compared(daemons.hub_address, on_progress=meddle)
        assert (found.problems, restarts) == ((), [])
        assert [one["tables"] for one in found.copies] == [3, 3]


@pytest.mark.nightly  # the hub is waited for
def test_a_hub_that_is_gone_is_named_and_the_others_are_compared(
    hive: EmbeddedMetastore, daemons: Daemons, tmp_path: Path
) -> None:
    daemons.start("statestored2")
    daemons.kill("catalogd")
    daemons.start("catalogd")
    first, second = daemons.hub_address.split(",")

    def meddle(progress: RunProgress) -> None:
        if second in progress.step and progress.done == 3:
            daemons.kill("statestored2")

    with database(hive.uri, tmp_path, {SALES: 40}):
        with Subscriber(first, timeout_s=60) as catalog:
            catalog.sync()
            assert len(catalog.partitions(SALES)) == 40
        found = compared(daemons.hub_address, on_progress=meddle)
    assert list(found.unread) == [f"hub {second}, topic 3 and those behind it"]
    assert "1 could not be compared" in found.summary()
    assert (found.differing, found.copies[0]["tables"], found.copies[2]["tables"]) == (0, 1, 1)


@pytest.mark.nightly  # catalogd is waited for
def test_the_comparison_ends_with_an_error_when_catalogd_is_gone(daemons: Daemons) -> None:
    def meddle(progress: RunProgress) -> None:
        if progress.done == 3:
            daemons.kill("catalogd")

    with pytest.raises(
        LinkError, match=r"the comparison has ended: (catalogd at )?tcp://"
    ) as raised:
        compared(daemons.hub_address, on_progress=meddle)
    assert not isinstance(raised.value, NotReady)  # of which a command ends with another code
