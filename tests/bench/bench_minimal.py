"""Subscriptions all 256 topics at minimal, of an empty catalog, and with 100,000 tables.

join    of all topics at minimal until they are live: ms, and bytes that the driver's TCP sockets
        sent and received meanwhile, ZeroMQ's own included; beside all topics at full

Best and median of many drivers, one after the other, each with the names of all tables already. A
heartbeat falls into the time of few. A real statestored, a catalogd of ours.
"""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from topicast.catalog.model.modes import FULL_MODE, MINIMAL_MODE, Mode
from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import Bench
from topicast.tests.bench.catalogd import leading
from topicast.tests.bench.lake import Lake
from topicast.tests.bench.processes import Process
from topicast.tests.bench.report import at_most, beside, quantile, say
from topicast.topics.topic import NUM_TOPICS_DEFAULT

SEED: Final = 13
SIZES: Final = (0, 100_000)
DRIVERS: Final = 20
BUDGET: Final = "2GB"
MS_MAX, BYTES_MAX = 50.0, 4096
SETTLE_S: Final = 0.3  # what a start does besides: comparing, heartbeats
COUNTERS: Final = struct.Struct("=QQ")  # bytes acknowledged by the peer, and received
INFO_BYTES: Final = 256
COUNTERS_AT: Final = 120  # in Linux's struct tcp_info


def moved_bytes() -> int:
    """Return what all TCP connections of this process have sent and received."""
    total = 0
    for path in Path("/proc/self/fd").iterdir():
        number = int(path.name)
        if not path.is_socket():
            continue
        with socket.socket(fileno=os.dup(number)) as one:
            if one.family == socket.AF_INET and one.type == socket.SOCK_STREAM:
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
                total += sum(COUNTERS.unpack_from(info, COUNTERS_AT))
    return total


def follow(hub: str, reported: Connection) -> None:
    """Follow everything at minimal, again and again; send the cost of each time."""
    for _ in range(DRIVERS):
        with Subscriber(hub, levels="auto", budget=BUDGET, timeout_s=120) as catalog:
            threading.Event().wait(SETTLE_S)
            bytes_before, begin = moved_bytes(), time.monotonic()
            catalog.join(range(NUM_TOPICS_DEFAULT), "minimal")
            took_ms = (time.monotonic() - begin) * 1000
            reported.send((took_ms, moved_bytes() - bytes_before))
    reported.send(None)


def hold(hub: str, reported: Connection) -> None:
    """Take in everything at full; send its cost."""
    begin = time.monotonic()
    with Subscriber(hub, levels="full", budget=BUDGET, timeout_s=120):
        reported.send(((time.monotonic() - begin) * 1000, moved_bytes()))
    reported.send(None)


def run(
    lake: Lake, drive: Callable[[str, Connection], None], *, mode: str
) -> list[tuple[float, int]]:
    """Return what ``drive`` sends from its own process, in front of a hub that has ``lake``."""
    with Bench() as bench:
        hub, catalogd = leading(bench, lake, mode=Mode(mode))
        process = bench.enter_context(Process(drive, hub.address))
        found: list[tuple[float, int]] = []
        while True:
            while not process.answered:
                catalogd.turn(0.005)
            one = process.answer()
            if one is None:
                return found
            found.append(one)


def measure(tables: int) -> None:
    lake = Lake(tables, partitions=10 * tables, seed=SEED)
    found = run(lake, follow, mode=MINIMAL_MODE)
    times, sizes = zip(*found, strict=True)
    ((full_ms, full_bytes),) = run(lake, hold, mode=FULL_MODE)
    name, ms, moved = f"tables_{tables}", quantile(times, 0.5), int(quantile(sizes, 0.5))
    against = beside("all at full", ms, full_ms)
    say(f"{name}_ms", against, at_most(ms, MS_MAX), ms=ms, ms_most=max(times))
    against, reached = beside("all at full", moved, full_bytes), at_most(moved, BYTES_MAX)
    facts = {"bytes": moved, "bytes_least": min(sizes), "bytes_most": max(sizes)}
    say(f"{name}_bytes", facts, against, reached)


def main() -> None:
    for number in SIZES:
        measure(number)
