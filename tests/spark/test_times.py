"""Times that are promised, with a real Spark: what it changes is seen, and drivers are switched."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, product
from math import ceil
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from topicast.tests.cli.processes import command
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import BEFORE, Pair
from topicast.tests.waiting import in_time, until
from topicast.topics.wire.messages.answers import NamedFacts

SEEN_S_MAX: Final = 0.5  # p99
SWITCHED_S_MAX: Final = 1.0
TURNS: Final = 2  # off and on again
SIDE_BY_SIDE: Final = 3  # databases of a round: 30 changes
ROUNDS: Final = 10
STATEMENTS: Final = (  # of database {db}, and what is to be seen of each
    ("CREATE DATABASE {db}", {("{db}", "created")}),
    (
        "CREATE TABLE {db}.t (id INT, ds STRING) USING parquet PARTITIONED BY (ds)",
        {("{db}.t", "created")},
    ),
    ("ALTER TABLE {db}.t ADD COLUMNS (note STRING)", {("{db}.t", "schema")}),
    ("ALTER TABLE {db}.t ADD PARTITION (ds = 'a')", {("{db}.t", "data")}),
    ("ALTER TABLE {db}.t RENAME TO {db}.u", {("{db}.t", "dropped"), ("{db}.u", "created")}),
    ("CREATE TABLE {db}.v (id INT) USING parquet", {("{db}.v", "created")}),
    ("DROP TABLE {db}.u", {("{db}.u", "dropped")}),
    ("DROP DATABASE {db} CASCADE", {("{db}.v", "dropped"), ("{db}", "dropped")}),
)
TIMED: Final = """
import time

def returned(statement):
    spark.sql(statement)
    return time.monotonic()
"""

pytestmark = [
    pytest.mark.alone,
    pytest.mark.nightly,
]  # times; all else is of test_watch and test_refresh


class Watch:
    """What a watch has printed, and when each line came, by the machine's one monotonic clock."""

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[str, str], float]] = []  # (object, kind), seconds

    def after(self, begin: int) -> dict[tuple[str, str], float]:
        """Return when each (object, kind) was first seen after the first ``begin`` lines."""
        return dict(reversed(self.seen[begin:]))

    def read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            change = json.loads(line)
            self.seen.append(((change["object"], change["kind"]), time.monotonic()))


@contextmanager
def watching(hub: str, log: Path) -> Iterator[Watch]:
    """Run ``topicast watch '*'`` until the end of the block."""
    words = command("main", "watch", "*", "--output=json", f"--statestores={hub}")
    with log.open("w") as errors:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
    watch = Watch()
    reading = Thread(target=watch.read, args=(process,))
    try:
        until(lambda: "watching *" in log.read_text(), what="the watch")
        reading.start()
        yield watch
    finally:
        process.kill()
        process.wait()
        if reading.ident is not None:
            reading.join()
        assert process.stdout is not None
        process.stdout.close()


def p99(delays: list[float]) -> float:
    """Return the 99th percentile by nearest rank: of fewer than 100, the slowest."""
    return sorted(delays)[ceil(len(delays) * 0.99) - 1]


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(1, id="slowest of 30"),
        pytest.param(
            ROUNDS, id="p99 of 300", marks=(pytest.mark.nightly, pytest.mark.timeout(600))
        ),
    ],
)
def test_what_spark_sql_changes_is_seen_by_a_watch_within_half_a_second(
    drivers: Drivers, tmp_path: Path, rounds: int
) -> None:
    """Given a writer that is not attached: the metastore's events are all there is."""
    writer, numbers = drivers.writer, count()
    writer.do("attach(spark).detach()")
    writer.do(TIMED)
    with watching(drivers.daemons.hub_address, tmp_path / "watch.log") as watch:

        def seconds_of_a_round() -> list[float]:
            """Return how long each change took to be seen."""
            number, delays = next(numbers), []
            for statement, changes in STATEMENTS:
                begin = len(watch.seen)
                dbs = [f"watched_{rounds}_{number}_{side}" for side in range(SIDE_BY_SIDE)]
                texts = [statement.format(db=db) for db in dbs]
                ended = writer.do(f"list(threads.map(returned, {texts!r}))")
                for (db, at), (name, kind) in product(zip(dbs, ended, strict=True), changes):
                    wanted = name.format(db=db), kind
                    until(lambda b=begin, w=wanted: w in watch.after(b), what=str(wanted))  # type: ignore[misc]  # of this turn
                    delays.append(max(watch.after(begin)[wanted] - at, 0.0))
            return delays

        def seconds() -> float:
            delays = [delay for _ in range(rounds) for delay in seconds_of_a_round()]
            slowest = " ".join(f"{delay:.3f}" for delay in sorted(delays)[-10:])
            print(f"{len(delays)} changes, p99 {p99(delays):.3f} s, the slowest {slowest} s")
            return p99(delays)

        in_time(seconds, limit_s=SEEN_S_MAX)


def test_drivers_are_switched_off_and_on_within_a_second_of_the_order(drivers: Drivers) -> None:
    """Off is plain Spark: it goes on reading what it has cached; on, it reads what was written."""
    pair, rows = Pair(drivers.writer, drivers.reader, drivers.daemons), list(BEFORE)
    name = pair.reader.do("spark.sparkContext.applicationId")
    for one in (pair.writer, pair.reader):
        one.do("attach(spark).detach()")
        pair.attach(one)
    pair.create("switched", ["t"])
    pair.is_settled("switched", {"t": rows})
    with pair.daemons.operator() as visit:

        def order(state: str) -> float:
            """Give an order; return when."""
            at = time.monotonic()
            visit.order("drivers", (state, name), NamedFacts, sender="test")
            return at

        def reads(wanted: object) -> bool:
            return pair.read("switched", ["t"]) == {"t": wanted}

        def seconds_of_a_turn() -> float:
            """Return how long the slower of off and on takes."""
            at = order("off")
            until(lambda: pair.reader.do("handle.status().control") == "off", what="off")
            off_s = time.monotonic() - at
            assert pair.reader.do("handle.status().state") == "live"
            pair.writer.sql("INSERT INTO switched.t VALUES (2, 'a')")
            pair.refreshed()
            assert reads(rows), "plain Spark"
            rows.append([2, "a"])
            at = order("on")
            until(lambda: reads(rows), what="what was written meanwhile")
            on_s = time.monotonic() - at
            print(f"off within {off_s:.3f} s, on within {on_s:.3f} s")
            return max(off_s, on_s)

        try:
            for _ in range(TURNS):
                in_time(seconds_of_a_turn, limit_s=SWITCHED_S_MAX)
        finally:
            order("on")
