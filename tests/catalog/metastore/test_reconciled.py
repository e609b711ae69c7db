"""On a real metastore: what leaves no event arrives, and what did not change is no difference."""

from collections.abc import Iterator

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    BooleanColumnStatsData,
    ColumnStatistics,
    ColumnStatisticsData,
    ColumnStatisticsDesc,
    ColumnStatisticsObj,
    Database,
)

from topicast.catalog.metastore.hms import Hms
from topicast.catalog.reconcile.reconciliation import NAMES_S
from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.fake_metastore import Place, from_thrift, make_partition
from topicast.tests.hive.releases import RealMetastore, home


@pytest.fixture
def core(real_place: Place, hive: RealMetastore) -> Iterator[Alone]:
    """A catalogd that compares fast, and has read a table with three partitions."""
    table = real_place.table("t", "ds", "hour")
    for hour in "123":
        real_place.writes.add_partitions([make_partition(table, ["2026-11-27", hour])])
    real_place.table("flat")
    reads = Hms(hive.uri, timeout_s=60)
    found = Alone(source=reads, reconcile_calls_per_s=100.0)
    found.turn(20)
    yield found
    reads.close()


def test_what_is_as_it_was_read_is_no_difference(core: Alone, real_place: Place) -> None:
    core.wait(NAMES_S + 10)
    counts = core.catalog.reconciliation.counts
    assert counts.objects >= 6, "a database, two tables, three partitions"
    assert (counts.rounds > 0, counts.differing) == (True, 0)


@pytest.mark.skipif(home() is not None, reason="3.1 and 4.0 have events of both")
def test_changes_of_databases_and_statistics_arrive_without_an_event(
    core: Alone, real_place: Place
) -> None:
    db, writes = real_place.db, real_place.writes
    before = writes.get_current_notificationEventId().eventId
    writes.alter_database(db, Database(db, "said", real_place.location, {"a": "b"}))
    data = ColumnStatisticsData(booleanStats=BooleanColumnStatsData(1, 2, 3))
    described = ColumnStatisticsDesc(True, db, "flat")
    writes.update_table_column_statistics(
        ColumnStatistics(described, [ColumnStatisticsObj("a", "boolean", data)])
    )
    assert writes.get_current_notificationEventId().eventId == before, "there is no event"
    core.wait(NAMES_S + 10)
    struct = core.catalog.namespace.database(db)
    assert struct is not None
    assert from_thrift(Database, struct).parameters == {"a": "b"}
    held = core.catalog.tables.value((db, "flat"))
    assert held is not None
    assert b"COLUMN_STATS_ACCURATE" in held.thrift
    core.wait(10)
    assert core.catalog.reconciliation.counts.drift == 2
    assert core.reasons == {}


def test_what_events_say_is_applied_as_the_metastore_has_it(core: Alone, real_place: Place) -> None:
    """Whatever else is held is found by comparing everything afterwards."""
    db, writes = real_place.db, real_place.writes
    reads, events = core.catalog.counts.reads, core.catalog.counts.events
    table = writes.get_table(db, "t")
    for hour in "456":
        writes.add_partitions([make_partition(table, ["2026-11-28", hour])])
        core.wait(1)
    for rev in "123":
        one = writes.get_partition(db, "t", ["2026-11-27", "1"])
        one.parameters["rev"] = rev
        one.sd.location += rev
        writes.alter_partitions(db, "t", [one])
        core.wait(1)
    writes.drop_partition(db, "t", ["2026-11-27", "2"], False)
    table.parameters["comment"] = "said"
    writes.alter_table(db, "t", table)
    flat = writes.get_table(db, "flat")
    flat.parameters["numRows"] = "7"
    writes.alter_table(db, "flat", flat)
    core.wait(2)
    counts = core.catalog.counts
    assert core.partitions(db, "t") == [
        *("ds=2026-11-27/hour=1", "ds=2026-11-27/hour=3"),
        *(f"ds=2026-11-28/hour={hour}" for hour in "456"),
    ]
    assert counts.events >= events + 9
    print(f"{counts.events_in_place} events in place, {counts.reads - reads} reads")
    assert counts.events_in_place >= 6
    core.wait(NAMES_S + 10)
    assert core.catalog.reconciliation.counts.rounds > 0
    assert core.catalog.reconciliation.counts.differing == 0
