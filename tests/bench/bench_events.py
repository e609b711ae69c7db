"""What a thousand events cost: the metastore's calls, and catalogd's time.

backlog    1,000 events of mixed kinds on 200 tables, all there when catalogd looks: events a second
calls      calls of the metastore that read objects, of so many events; beside one call an event,
           as a follower makes that reads again what each event names
steady     50 events a second for 20 s (STEADY_S=600): catalogd's part of a core, its lag in
           seconds, and by how much its memory grows after the first fifth of the time
unchanged  everything is compared with the metastore, at 3 calls a second: part of a core

Kinds: of ten, four change a parameter of a partition, three add a partition, two change a parameter
of a table, one drops a partition.
"""

import os
import re
import signal
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from threading import Event
from typing import Final

import psutil
from hmsclient import HMSClient

from topicast.tests.bench.bench import DB, Bench
from topicast.tests.bench.processes import used_s
from topicast.tests.bench.report import at_least, beside, both_at_most, quantile, reference, say
from topicast.tests.cli.processes import Running
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.waiting import until

TABLES: Final = 200
EVENTS: Final = 1_000
STEADY_S, STEADY_HZ = float(os.environ.get("STEADY_S", "20")), 50
UNCHANGED_S: Final = 60.0
TIMEOUT_S: Final = 120.0
PER_S_MIN: Final = 500.0
CALLS_MAX: Final = 0.05  # of an event
CORE_MAX: Final = 25.0  # percent, at 50 events a second
LAG_S_MAX: Final = 0.5
GROWTH_MB_MAX: Final = 8.0  # 30,000 events that stayed would be 100
COMPARING_MAX: Final = 1.0  # percent
KINDS: Final = ["alter", "add", "table", "alter", "add", "alter", "drop", "add", "table", "alter"]


class Writer:
    """Changes the tables of ``bench``, one event at a time."""

    def __init__(self, client: HMSClient) -> None:
        self._client = client
        self._number = 0
        self._changes = self._endless()

    def change(self, count: int) -> None:
        """Make so many events."""
        for _ in islice(self._changes, count):
            pass

    def _endless(self) -> Iterator[None]:
        names = cycle(f"t{number:03d}" for number in range(TABLES))
        dropped = 0
        for number, kind in enumerate(cycle(KINDS)):
            name = next(names)
            if kind == "alter":
                one = self._client.get_partition("bench", name, ["000000"])
                one.parameters["rev"] = str(number)
                self._client.alter_partitions("bench", name, [one])
            elif kind == "add":
                table = self._client.get_table("bench", name)
                self._client.add_partitions([make_partition(table, [f"{number + 1:06d}"])])
            elif kind == "table":
                table = self._client.get_table("bench", name)
                table.parameters["rev"] = str(number)
                self._client.alter_table("bench", name, table)
            else:
                name, dropped = f"t{dropped % TABLES:03d}", dropped + 1
                table = self._client.get_table("bench", name)
                extra = make_partition(table, [f"x{number:06d}"])
                self._client.add_partitions([extra])
                self._client.drop_partition("bench", name, extra.values, False)
            yield


def facts_of(daemon: Running) -> dict[str, float]:
    """Return catalogd's metrics without labels, by their names."""
    rows = re.findall(r"^topicast_catalogd_(\w+) (\S+)$", daemon.page("/metrics"), re.MULTILINE)
    return {name: float(value) for name, value in rows}


def is_complete(daemon: Running, client: HMSClient) -> bool:
    newest = client.get_current_notificationEventId().eventId
    found = facts_of(daemon)
    return found["watermark"] >= newest and found["tables_to_load"] == 0


def bench_backlog(daemon: Running, client: HMSClient, writer: Writer) -> None:
    before = facts_of(daemon)
    os.kill(daemon.process.pid, signal.SIGSTOP)
    began = client.get_current_notificationEventId().eventId
    writer.change(EVENTS)
    events = client.get_current_notificationEventId().eventId - began
    os.kill(daemon.process.pid, signal.SIGCONT)
    started, cpu = time.perf_counter(), used_s(daemon.process.pid)
    until(lambda: is_complete(daemon, client), timeout_s=TIMEOUT_S)
    took, cpu = time.perf_counter() - started, used_s(daemon.process.pid) - cpu
    after = facts_of(daemon)
    per_s, facts = events / took, {"tables": TABLES, "events": events}
    say("backlog", facts, at_least(per_s, PER_S_MIN), per_s=per_s, cpu_s=cpu)
    calls = (after["reads_total"] - before["reads_total"]) / events
    in_place = (after["events_in_place_total"] - before["events_in_place_total"]) / events
    against = beside("one call an event", calls, 1.0, most=CALLS_MAX)
    say("calls", against, events=events, in_place=in_place, calls=calls)


def bench_steady(daemon: Running, writer: Writer) -> None:
    lags, memory = list[float](), list[float]()
    cpu, began = used_s(daemon.process.pid), time.perf_counter()
    calls = facts_of(daemon)["reads_total"]
    sent = 0
    while (elapsed := time.perf_counter() - began) < STEADY_S:
        due = int(elapsed * STEADY_HZ) - sent
        writer.change(due)
        sent += due
        lags.append(facts_of(daemon)["lag_seconds"])
        memory.append(psutil.Process(daemon.process.pid).memory_info().rss / 1e6)
        Event().wait(0.2)
    percent = (used_s(daemon.process.pid) - cpu) / (time.perf_counter() - began) * 100
    lag, calls = quantile(lags, 0.99), facts_of(daemon)["reads_total"] - calls
    fifth = max(1, len(memory) // 5)
    growth = max(memory[-fifth:]) - max(memory[:fifth])
    facts = {"percent_of_a_core": percent, "lag_p99_s": lag, "calls": calls / max(sent, 1)}
    facts |= {"rss_mb": memory[-1], "grew_mb": growth, "seconds": STEADY_S}
    reached = both_at_most((percent, CORE_MAX), (lag, LAG_S_MAX), (growth, GROWTH_MB_MAX))
    say("steady", facts, reached, per_s=sent / STEADY_S)


def bench_unchanged(daemon: Running) -> None:
    """Beside it the daemon is idle: its heartbeats, and five looks a second at the newest event."""
    before, cpu, began = facts_of(daemon), used_s(daemon.process.pid), time.perf_counter()
    Event().wait(UNCHANGED_S)
    percent = (used_s(daemon.process.pid) - cpu) / (time.perf_counter() - began) * 100
    after = facts_of(daemon)
    facts = {
        f"{what}_per_s": (after[name] - before[name]) / UNCHANGED_S
        for what in ("calls", "objects")
        for name in (f"reconcile_{what}_total",)
    }
    facts |= {"differing": after["reconcile_differing_total"], "percent_of_a_core": percent}
    why = "all that an idle catalogd takes while it compares; see the docstring"
    say("unchanged", facts, reference(why))


def create_tables(client: HMSClient, folder: Path) -> None:
    """Create the tables that a Writer changes, each with a partition."""
    for number in range(TABLES):
        name = f"t{number:03d}"
        table = make_table(DB, name, location=f"file:{folder}/{name}", keys=["ds"])
        client.create_table(table)
        client.add_partitions([make_partition(table, ["000000"])])


def main(bench: Bench) -> None:
    hive = bench.metastore()
    client = bench.client(hive)
    create_tables(client, bench.folder)
    _, daemon = bench.served(hive)
    until(lambda: is_complete(daemon, client), timeout_s=TIMEOUT_S)
    writer = Writer(client)
    writer.change(len(KINDS) * TABLES // 10)  # each table has been changed once
    until(lambda: is_complete(daemon, client), timeout_s=TIMEOUT_S)
    bench_backlog(daemon, client, writer)
    bench_steady(daemon, writer)
    bench_unchanged(daemon)
