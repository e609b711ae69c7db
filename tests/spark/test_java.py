"""What our classes of Java do when threads meet in them, those of a killed agent among them."""

from collections.abc import Iterator

import pytest

from topicast.tests.spark.applications import Application
from topicast.tests.spark.conftest import Drivers
from topicast.tests.waiting import until

PREPARE = """
from threading import Thread
from topicast.subscriber.spark.jar.bootstrap import bootstrap_source
from topicast.subscriber.spark.java import java_class, java_object, java_source, java_unit
from topicast.subscriber.spark.planning.router import Router, router_source
from topicast.subscriber.spark.refresh.catalyst import Catalyst
attach(spark, hub).detach()  # whatever was attached in other modules
registry = Catalyst.probe(spark).registry
registry.adopt(spark._jsparkSession)
_ = spark.sql("SHOW DATABASES")  # then its catalog is there
first = java_class(spark._jvm, "TopicastBootstrap", bootstrap_source())

def made(name):
    kind = first.getClassLoader().loadClass(name)
    return kind.getConstructors()[0].newInstance(spark._jvm.java.util.ArrayList().toArray())

def router():
    source = router_source(spark._jvm).replace("Topicast", "Other")
    return Router(java_object(spark._jvm, "OtherPlanning", source, registry))
"""
WRITES_WHILE_SYNCED = """
public final class Race extends Thread {
    private final TopicastWrites writes = new TopicastWrites(new TopicastObjects());
    private volatile long passed;
    private volatile boolean ended;

    public void run() {
        while (!ended) writes.synced(passed);
    }

    // Return after how many writes of a table one was not known any more; 0: each was.
    public int lost(int times) {
        setDaemon(true);
        start();
        int lost = 0;
        for (int at = 1; at <= times && lost == 0; at++) {
            writes.mark("shop.orders");
            if (!writes.isDirty("shop.orders")) lost = at;
            passed = writes.newest();
        }
        ended = true;
        return lost;
    }
}
"""
MARKS = 2_000_000  # 2 s; before, one of half a million was lost


@pytest.fixture(scope="module")
def driver(drivers: Drivers) -> Iterator[Application]:
    driver = drivers.writer
    driver.do(f"hub = {drivers.daemons.hub_address!r}")
    driver.do(PREPARE)
    return driver


def test_what_a_killed_agent_left_waiting_takes_no_question_from_the_next_agent(
    driver: Application,
) -> None:
    """Given its call in the JVM, which goes on after the process has ended."""
    driver.do("board, left, answers = made('TopicastBoard'), [], []")
    driver.do("Thread(target=lambda: left.append(board.request(60000)), daemon=True).start()")
    until(lambda: driver.do("board.resume() or left") == [""], timeout_s=20)
    driver.do("Thread(target=lambda: answers.append(board.ask('what', 60000))).start()")
    assert driver.do("board.request(20000)") == "1 what"
    driver.do("board.answer(1, 'so')")
    until(lambda: driver.do("answers") == ["so"], timeout_s=20)


def test_what_a_killed_agent_left_waiting_takes_no_read_that_is_to_be_confirmed(
    driver: Application,
) -> None:
    driver.do("mine, left = router(), []")
    begin = "mine.begin(bytes_max=1 << 20, validate='catalogd')"
    driver.do(begin)
    try:
        driver.do("Thread(target=lambda: left.append(mine.unconfirmed(60)), daemon=True).start()")
        until(lambda: driver.do(f"{begin} or left") == [[]], timeout_s=20)
    finally:
        driver.do("mine.end()")


def test_sync_that_has_passed_a_write_leaves_a_newer_write_of_the_table(
    driver: Application,
) -> None:
    parts = [f"Topicast{one}" for one in ("Writes", "Objects", "Names", "Sizes", "Lines")]
    room = "topicast.subscriber.spark.planning"
    sources = f"*(java_source({room!r}, one) for one in {parts}), {WRITES_WHILE_SYNCED!r}"
    driver.do(f"source = java_unit({sources})")
    assert driver.do(f"java_object(spark._jvm, 'Race', source).lost({MARKS})") == 0


def test_agent_that_ends_late_leaves_the_catalogs_to_the_agent_that_has_begun_since(
    driver: Application,
) -> None:
    driver.do("before, after = (lambda it: (it, Router(it._java)))(router())")
    driver.do("before.begin(bytes_max=1 << 20); after.begin(bytes_max=1 << 20); before.end()")
    name = "spark._jsparkSession.sharedState().externalCatalog().unwrapped().getClass().getName()"
    assert driver.do(name) == "OtherCatalog"
    driver.do("after.end()")
    assert driver.do(name) == "org.apache.spark.sql.hive.HiveExternalCatalog"


def test_endpoint_of_a_killed_agent_is_not_asked_once_the_next_agent_has_begun(
    driver: Application,
) -> None:
    """Given its port, on which another process may listen by then."""
    driver.do("from topicast.subscriber.spark.planning.router import EndpointAddress")
    driver.do("mine = router(); mine.begin(bytes_max=1 << 20)")
    driver.do("mine.endpoint(EndpointAddress(1, 'x' * 32))")
    until(lambda: driver.do("mine.status()['reader_failures']") != "0", timeout_s=20)
    try:
        driver.do("mine.begin(bytes_max=1 << 20)")
        assert driver.do("mine.status()['reader_failures']") == "0", "it has no readers"
    finally:
        driver.do("mine.end()")
