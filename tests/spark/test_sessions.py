"""Sessions of a driver that come and go leave nothing behind, in Python or in the JVM.

As many as SESSIONS, or for SESSIONS_S seconds: ``make nightly`` takes an hour.
"""

import os
import time
from collections.abc import Iterator
from typing import Final

import pytest

from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import BEFORE, WAIT_S, Pair
from topicast.tests.waiting import until

SESSIONS: Final = 300
SESSIONS_S: Final = float(os.environ.get("SESSIONS_S", "0"))
EACH: Final = 20  # of each kind in a turn
HEAP_MB_MAX: Final = 16  # that it may grow by: what Spark itself keeps of statements
OBJECTS_MAX: Final = 200  # of ours in Python, and of the JVM that Python holds

MAKE: Final = """
import gc, resource, threading
from pyspark.sql import DataFrame, SparkSession

jvm, weak = spark._jvm, []
runtime = jvm.java.lang.Runtime.getRuntime()
bindings = spark.sparkContext._gateway.java_gateway_server.getGateway().getBindings()

def use(count):
    '''Make sessions in Python and in the JVM; let each read, some write, and drop them.'''
    java = spark._jsparkSession
    ours = [spark.newSession() for _ in range(count)]
    theirs = [java.newSession() for _ in range(count)] + [java.cloneSession() for _ in range(count)]
    for one in ours:
        assert one.table("passing.t").collect()
    for one in theirs:
        one.table("passing.t")
    for one in (ours[0], theirs[0]):
        one.sql("INSERT INTO passing.t VALUES (2, 'a')")
    all_of_them = [one._jsparkSession for one in ours] + theirs
    reference = jvm.java.lang.ref.WeakReference
    weak.extend(reference(one) for one in all_of_them)
    return len(all_of_them)

def alive():
    '''Return how many of them are held by anything; Spark holds the last ones until it goes on.'''
    spark.createDataFrame([(1,)], "n INT").collect()
    spark.table("passing.t").collect()
    gc.collect(), jvm.System.gc()
    weak[:] = [one for one in weak if one.get() is not None]
    return len(weak)

def held():
    '''Return what is held here: objects of ours, of Py4J, sessions, threads, and MB of the heap.'''
    kinds = [type(one) for one in gc.get_objects()]
    ours = sum(kind.__module__.startswith("topicast.") for kind in kinds)
    mb = (runtime.totalMemory() - runtime.freeMemory()) >> 20
    return {
        "ours": ours,
        "bindings": bindings.size(),
        "sessions of Python": kinds.count(SparkSession),
        "threads": threading.active_count(),
        "heap_mb": mb,
    }
"""


@pytest.fixture
def pair(drivers: Drivers) -> Iterator[Pair]:
    """A pair whose reader is attached anew: sessions of other tests are not counted."""
    pair = Pair(drivers.writer, drivers.reader, drivers.daemons)
    pair.reader.do("attach(spark).detach()")
    pair.attach(pair.reader)
    pair.create("passing", ["t"])
    pair.is_settled("passing", {"t": BEFORE})
    pair.reader.do(MAKE)
    yield pair
    pair.reader.do("weak.clear(); jvm = runtime = bindings = None")


@pytest.mark.timeout(SESSIONS_S + 300)
def test_sessions_that_come_and_go_leave_nothing_behind(pair: Pair) -> None:
    def settle() -> dict[str, int]:
        """Wait until no session is held; return what is."""
        pair.reader.do(f"handle.sync({WAIT_S})")
        until(lambda: pair.reader.do("alive()") == 0, timeout_s=WAIT_S, what="none", interval_s=1)
        pair.reader.do(f"handle.sync({WAIT_S})")  # a look, after which those that ended are unknown
        found: dict[str, int] = pair.reader.do("held()")
        return found | {"known": pair.reader.do("handle.status().sessions")}

    pair.reader.do(f"use({EACH})")  # what is loaded and compiled once is
    before, made, end = settle(), 0, time.monotonic() + SESSIONS_S
    while made < SESSIONS or time.monotonic() < end:
        made += int(pair.reader.do(f"use({EACH})"))
    after = settle()
    print(f"{made} sessions made; before: {before}; after: {after}")
    for name in ("sessions of Python", "known"):
        assert after[name] <= before[name]
    for name in ("ours", "bindings"):
        assert after[name] <= before[name] + OBJECTS_MAX, name
    assert after["threads"] <= before["threads"] + 2  # Py4J's, of connections
    assert after["heap_mb"] <= before["heap_mb"] + HEAP_MB_MAX
    assert pair.reader.do("handle.status().errors") == 0
