"""Crowds: many drivers in processes of their own, at one hub that a bench kills and starts again.

Stand ── a real statestored ◀──▶ Crowd: a process that works on the orders from its pipe
  └───── BenchCatalogd, which turns while the bench waits for answers
"""

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from topicast.tests.bench.bench import DB, TIMEOUT_S, Bench
from topicast.tests.bench.catalogd import BenchCatalogd
from topicast.tests.bench.processes import Process
from topicast.tests.bench.source import Catalog
from topicast.tests.cli.processes import steady_port
from topicast.topics.topic import NUM_TOPICS_DEFAULT

TABLES: Final = 100
TABLE: Final = "t0"  # the table that changes
CHANGES: Final = 10
TURN_S: Final = 0.005  # of catalogd, between two looks for answers

NS: Final = 1e9
ZMQ: Final = "ZMQ"  # its threads are named so

Work = Callable[[str, int, Connection], None]
"""What the process of a crowd does: with a hub's address, a number of drivers, and its pipe.

It sends one answer once it is there, and one to each order, a tuple.
"""


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds and wake-ups of a process: of our threads, and of ZeroMQ's."""

    own_s: float
    zmq_s: float
    wakes: int

    def since(self, before: "Used") -> "Used":
        """Return what was used after ``before``."""
        return Used(self.own_s - before.own_s, self.zmq_s - before.zmq_s, self.wakes - before.wakes)


def used(pid: int) -> Used:
    """Return what a process has used until now."""
    own_s, zmq_s, wakes = 0.0, 0.0, 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            cpu_s = int((task / "schedstat").read_text().split()[0]) / NS
        except FileNotFoundError:
            continue  # it has ended
        if (task / "comm").read_text().startswith(ZMQ):
            zmq_s += cpu_s
        else:
            own_s += cpu_s
        status = (task / "status").read_text()
        wakes += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return Used(own_s, zmq_s, wakes)


class Crowd(Process):
    """A process with ``members`` drivers."""

    def __init__(self, work: Work, hub: str, members: int) -> None:
        super().__init__(work, hub, members)
        self.members = members

    @property
    def used(self) -> Used:
        return used(self.pid)


class Stand:
    """The hub, catalogd with its tables, and the crowds."""

    def __init__(self, bench: Bench, work: Work) -> None:
        self._bench = bench
        self._work = work
        self._port = f"--state_store_port={steady_port()}"
        self.hub = bench.hub(self._port)
        self.catalog = Catalog(NUM_TOPICS_DEFAULT)
        self.catalog.create_database(DB)
        for number in range(TABLES):
            self.catalog.create_table(DB, f"t{number}")
        made = BenchCatalogd(self.catalog, self.hub.address)
        self.catalogd = bench.enter_context(closing(made))
        self.catalogd.settle()

    def add(self, members: int, *, processes: int = 1) -> list[Crowd]:
        """Start processes of so many drivers each; they wait for an order."""
        started = (Crowd(self._work, self.hub.address, members) for _ in range(processes))
        crowds = [self._bench.enter_context(crowd) for crowd in started]
        self._answers(crowds)
        return crowds

    def ask(self, crowds: Iterable[Crowd], *words: object) -> list[Any]:
        """Let ``crowds`` do something; turn until all have answered, and return the answers."""
        crowds = tuple(crowds)
        for crowd in crowds:
            crowd.order(*words)
        return self._answers(crowds)

    def delays_ms(self, crowds: Iterable[Crowd], *, every_s: float) -> Iterator[float]:
        """Yield how long each driver waits for each of CHANGES, one ``every_s``.

        The answer to ``("seen", CHANGES)`` is the version of each change and when it was seen.
        """
        crowds = tuple(crowds)
        topic = self.catalog.topic(DB, TABLE)
        for number in range(CHANGES):
            columns = (f"c{number}",)
            self.catalogd.commit(self.catalog.put_table(DB, TABLE, columns=columns))
            self.catalogd.turn(every_s)
        for crowd, seen in zip(crowds, self.ask(crowds, "seen", CHANGES), strict=True):
            assert len(seen) >= CHANGES * crowd.members, "a driver has missed a change"
            yield from ((at - self.catalogd.at[topic, version]) * 1000 for version, at in seen)

    @property
    def hub_used(self) -> Used:
        return used(self.hub.process.pid)

    def kill_hub(self) -> None:
        """Kill the hub and start it again at its port."""
        self.hub.end(signal.SIGKILL)
        self.hub = self._bench.hub(self._port)

    def _answers(self, crowds: Iterable[Crowd]) -> list[Any]:
        crowds, until = tuple(crowds), time.monotonic() + TIMEOUT_S
        while not all(crowd.answered for crowd in crowds):
            self.catalogd.turn(TURN_S)
            assert time.monotonic() < until, "the drivers do not settle, or have missed a change"
        return [crowd.answer() for crowd in crowds]
