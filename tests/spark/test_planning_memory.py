"""A driver whose heap is nearly full, of what it holds for plans as well: its answers are right."""

from collections.abc import Iterator
from typing import Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.spark.test_planning import JOIN, Planned, attach, attached_driver, create
from topicast.tests.waiting import until

pytestmark = pytest.mark.nightly  # a driver of its own, which runs out of memory

DAYS: Final = 500
LISTS: Final = 60  # of all days, each by a filter of its own
BUDGET: Final = "400MB"  # more than all of it
LEFT_MB: Final = 24
BALLAST = """
import java.util.ArrayList;

public final class Ballast {
    private final ArrayList all = new ArrayList();

    public int fill(int leftMb) {
        int filled = 0;
        try {
            while (true) {
                all.add(new byte[1 << 20]);
                filled++;
            }
        } catch (OutOfMemoryError full) {
            for (int at = 0; at < leftMb && !all.isEmpty(); at++) all.remove(all.size() - 1);
        }
        return filled;
    }

    public void clear() {
        all.clear();
    }
}
"""
PREPARE = """
from topicast.subscriber.spark.java import java_object

ballast = java_object(spark._jvm, "Ballast", BALLAST)

def plan_all():
    for at in range(LISTS):
        one = f"SELECT * FROM full.days WHERE ds > 'd' OR ds = '{at}'"
        spark.sql(one)._jdf.queryExecution().sparkPlan()
"""


@pytest.fixture(scope="module")
def planned(hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    folder = tmp_path_factory.mktemp("memory")
    with attached_driver(hive, folder, endpoint="on") as found:
        yield found


@pytest.mark.timeout(500)
def test_queries_are_right_while_hardly_any_memory_is_left(planned: Planned) -> None:
    create(planned, "full")
    attach(planned, endpoint="on", budget=BUDGET)
    driver = planned.driver
    query = JOIN.format(db="full", day="2026-3")
    days = " ".join(f"PARTITION (ds = 'day-{at}')" for at in range(DAYS))
    driver.sql(f"ALTER TABLE full.days ADD {days}")
    planned.holds(query)
    rows = driver.rows(query)
    driver.do(f"LISTS, BALLAST = {LISTS}, {BALLAST!r}")
    driver.do(PREPARE)

    def holds_all() -> bool:
        before = int(planned.status("endpoint_reads"))
        driver.do("plan_all()")
        return int(planned.status("endpoint_reads")) == before

    until(holds_all, timeout_s=120, what="all lists")
    assert driver.rows(query) == rows
    driver.do(f"ballast.fill({LEFT_MB})")  # it is all that there is from now on
    assert driver.rows(query) == rows
    driver.do("ballast.clear()")
    planned.holds(query)
    assert driver.rows(query) == rows
    assert planned.status("errors") == 0, planned.status("last_error")
