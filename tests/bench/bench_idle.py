"""What 200 idle drivers cost the hub and themselves, and how they fare together.

base     the hub's thread without a driver
join     from the word until all are there, four at a time; what one takes of the hub's thread
hub      ms a second and driver of the hub's thread, and of the thread that ZeroMQ writes in
driver   of a core, all threads: beside others in a process; ``alone`` in one of its own
change   small changes, each committed -> seen by ``watch`` in every driver
restart  the hub is killed and started again: until every topic of every driver is current

A real statestored and real subscribers that follow all 256 topics, 50 in each process. CPU is
that of threads, as the kernel counts it, so a busy machine changes times more than costs.
Run: make bench ARGS=tests/bench/bench_idle.py
"""

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from topicast.subscriber import Subscriber
from topicast.tests.bench.catalogd import DB, SPAWN, BenchCatalogd
from topicast.tests.bench.report import percentiles, say, target
from topicast.tests.bench.source import Catalog
from topicast.tests.cli.processes import statestored, steady_port
from topicast.tests.waiting import until
from topicast.topics.topic import NUM_TOPICS_DEFAULT

MEMBERS: Final = 200  # on two cores 1,000 take all of both: each is a real one
OF_A_PROCESS: Final = 50
TABLES: Final = 100
TABLE: Final = "t0"
BUDGET: Final = "16MB"
CHANGES: Final = 10
EVERY_S: Final = 2.0
SETTLED_S: Final = 5.0  # the last reports of a join are sent by then
IDLE_S: Final = 10.0
LOOK_S: Final = 0.25
TIMEOUT_S: Final = 120.0

HUB_MS_MAX: Final = 0.1
DRIVER_PERCENT_MAX: Final = 0.2
JOIN_MS_MAX: Final = 50.0  # of the hub's thread, for all topics; drivers take far more
CHANGE_MS_MAX: Final = 1000.0
RESTART_S_MAX: Final = 5.0

NS: Final = 1e9
ZMQ: Final = "ZMQ"  # its threads are named so


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


class Crowd:
    """A process with ``members`` subscribers; ``ask`` lets it do something."""

    def __init__(self, hub: str, members: int) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_crowd, args=(hub, members, theirs), daemon=True)
        self._process.start()
        self.members = members

    @property
    def used(self) -> Used:
        assert self._process.pid is not None
        return used(self._process.pid)

    @property
    def answered(self) -> bool:
        return self._pipe.poll()

    def ask(self, *words: object) -> None:
        self._pipe.send(words)

    def answer(self) -> Any:
        return self._pipe.recv()

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _crowd(hub: str, members: int, pipe: Connection) -> None:
    catalogs = [
        Subscriber(hub, budget=BUDGET, timeout_s=TIMEOUT_S, levels="full") for _ in range(members)
    ]
    seen: list[tuple[int, float]] = []
    pipe.send("ready")
    while True:
        match pipe.recv():
            case ("join",):
                for catalog in catalogs:
                    catalog.open()
                pipe.send(time.monotonic())
                for catalog in catalogs:
                    threading.Thread(target=_watch, args=(catalog, seen), daemon=True).start()
            case ("seen",):
                pipe.send(seen)
            case ("current", since):
                _await_current(catalogs, since)
                pipe.send(time.monotonic())
            case other:
                raise AssertionError(other)


def _watch(catalog: Subscriber, seen: list[tuple[int, float]]) -> None:
    for change in catalog.watch(f"{DB}.{TABLE}"):
        seen.append((change.version, time.monotonic()))


def _await_current(catalogs: Iterable[Subscriber], since: float) -> None:
    """Return once every topic of each of ``catalogs`` was current after ``since``."""
    for catalog in catalogs:
        until(
            lambda one=catalog: all(
                topic.lag_s < time.monotonic() - since for topic in one.topics()
            ),
            timeout_s=TIMEOUT_S,
            what="every topic to be current",
            interval_s=LOOK_S,
        )


class Stand:
    """The hub, catalogd and the crowds."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._folder = Path(stack.enter_context(TemporaryDirectory()))
        self._port = steady_port()
        self.hub = self._start_hub()
        self.catalog = Catalog(NUM_TOPICS_DEFAULT)
        self.catalog.create_database(DB)
        for number in range(TABLES):
            self.catalog.create_table(DB, f"t{number}")
        made = BenchCatalogd(self.catalog, self.hub.ready["address"])
        self.catalogd = stack.enter_context(closing(made))
        self.catalogd.settle()

    def add(self, members: int) -> Crowd:
        """Start a process; its subscribers wait for the word."""
        crowd = Crowd(self.hub.ready["address"], members)
        self._stack.callback(crowd.end)
        self.answers([crowd])
        return crowd

    def answers(self, crowds: Iterable[Crowd]) -> list[Any]:
        """Turn until all crowds have answered."""
        return [self._answer(crowd) for crowd in crowds]

    def idle(self, crowds: Iterable[Crowd]) -> tuple[Used, list[Used], float]:
        """Return what the hub, and each crowd, uses while nothing happens, and in how long."""
        crowds = tuple(crowds)
        self.catalogd.turn(SETTLED_S)
        began, hub, before = time.monotonic(), self.hub_used, [one.used for one in crowds]
        self.catalogd.turn(IDLE_S)
        after = [one.used.since(old) for one, old in zip(crowds, before, strict=True)]
        return self.hub_used.since(hub), after, time.monotonic() - began

    @property
    def hub_used(self) -> Used:
        return used(self.hub.process.pid)

    def kill_hub(self) -> None:
        """Kill the hub and start it again at its port."""
        self.hub.end(signal.SIGKILL)
        self.hub = self._start_hub()

    def _answer(self, crowd: Crowd) -> Any:
        while not crowd.answered:
            self.catalogd.turn(LOOK_S / 10)
        return crowd.answer()

    def _start_hub(self) -> Any:
        flags = (f"--state_store_port={self._port}",)
        return self._stack.enter_context(statestored(self._folder, *flags))


def measure(stand: Stand) -> None:
    facts = {"members": MEMBERS, "topics": NUM_TOPICS_DEFAULT, "cores": os.cpu_count()}
    base, _, base_s = stand.idle(())
    base_cores = base.own_s / base_s
    say("idle", "base", cores=base_cores)

    alone = stand.add(1)
    alone.ask("join")
    stand.answers([alone])
    _, (one,), took_s = stand.idle([alone])
    alone_percent = (one.own_s + one.zmq_s) / took_s * 100

    crowds = [stand.add(OF_A_PROCESS) for _ in range(MEMBERS // OF_A_PROCESS)]
    before, began = stand.hub_used, time.monotonic()
    for crowd in crowds:
        crowd.ask("join")
    joined_s = max(stand.answers(crowds)) - began
    spent = stand.hub_used.since(before).own_s - base_cores * joined_s
    each_ms = spent / MEMBERS * 1000
    reached = target(each_ms, at_most=JOIN_MS_MAX)
    say("idle", "join", **facts, took_s=joined_s, hub_ms_each=each_ms, **reached)

    hub, of_crowds, took_s = stand.idle(crowds)
    hub_ms = (hub.own_s / took_s - base_cores) / MEMBERS * 1000
    zmq_ms = hub.zmq_s / took_s / MEMBERS * 1000
    reached = target(hub_ms, at_most=HUB_MS_MAX)
    say("idle", "hub", **facts, ms_per_s=hub_ms, zmq_ms_per_s=zmq_ms, **reached)
    percent = sum(one.own_s + one.zmq_s for one in of_crowds) / took_s / MEMBERS * 100
    wakes = sum(one.wakes for one in of_crowds) / took_s / MEMBERS
    reached = target(percent, at_most=DRIVER_PERCENT_MAX)
    shares = {"percent_of_a_core": percent, "wakes_per_s": wakes, "alone_percent": alone_percent}
    say("idle", "driver", **facts, **shares, **reached)

    delays = percentiles(_delays_ms(stand, crowds))
    reached = target(float(str(delays["p99_ms"])), at_most=CHANGE_MS_MAX)
    say("idle", "change", **facts, **delays, **reached)

    killed_at = time.monotonic()
    stand.kill_hub()
    for crowd in crowds:
        crowd.ask("current", killed_at)
    restarted_s = max(stand.answers(crowds)) - killed_at
    reached = target(restarted_s, at_most=RESTART_S_MAX)
    say("idle", "restart", **facts, all_current_s=restarted_s, **reached)


def _delays_ms(stand: Stand, crowds: list[Crowd]) -> Iterator[float]:
    """Yield how long each driver waits for each change, of some that come one after the other."""
    catalog, catalogd = stand.catalog, stand.catalogd
    topic = catalog.topic(DB, TABLE)
    for number in range(CHANGES):
        catalogd.commit(catalog.put_table(DB, TABLE, columns=(f"c{number}",)))
        catalogd.turn(EVERY_S)
    for crowd in crowds:
        crowd.ask("seen")
    for crowd, seen in zip(crowds, stand.answers(crowds), strict=True):
        versions = [version for version, _ in seen]
        assert len(versions) == CHANGES * crowd.members, "a driver has missed a change"
        yield from ((at - catalogd.at[topic, version]) * 1000 for version, at in seen)


def main() -> None:
    with ExitStack() as stack:
        measure(Stand(stack))


if __name__ == "__main__":
    main()
