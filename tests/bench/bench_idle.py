"""What 200 idle drivers cost the hub and themselves.

base     the hub's thread without a driver
hub      ms a second and driver of the hub's thread, and of the thread that ZeroMQ writes in
alone    of a core, all threads: one driver, in a process of its own
driver   the same of a driver beside others in a process

A real statestored and real subscribers that follow all 256 topics, 50 in each process. CPU is
that of threads, as the kernel counts it, so a busy machine changes times more than costs.
"""

import os
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Final

from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import TIMEOUT_S, Bench
from topicast.tests.bench.crowds import Crowd, Stand, Used
from topicast.tests.bench.report import at_most, reference, say
from topicast.topics.topic import NUM_TOPICS_DEFAULT

MEMBERS: Final = 200  # on two cores 1,000 take all of both: each is a real one
OF_A_PROCESS: Final = 50
BUDGET: Final = "16MB"
SETTLED_S: Final = 5.0  # the last reports of a join are sent by then
IDLE_S: Final = 10.0

HUB_MS_MAX: Final = 0.1
DRIVER_PERCENT_MAX: Final = 0.2


def _crowd(hub: str, members: int, pipe: Connection) -> None:
    catalogs = [
        Subscriber(hub, budget=BUDGET, timeout_s=TIMEOUT_S, levels="full") for _ in range(members)
    ]
    pipe.send("ready")
    pipe.recv()
    for catalog in catalogs:
        catalog.open()
    pipe.send("joined")
    pipe.recv()  # they stay until the process is ended


def idle(stand: Stand, crowds: Iterable[Crowd]) -> tuple[Used, list[Used], float]:
    """Return what the hub, and each crowd, uses while nothing happens, and in how long."""
    crowds = tuple(crowds)
    stand.catalogd.turn(SETTLED_S)
    began, hub, before = time.monotonic(), stand.hub_used, [one.used for one in crowds]
    stand.catalogd.turn(IDLE_S)
    after = [one.used.since(old) for one, old in zip(crowds, before, strict=True)]
    return stand.hub_used.since(hub), after, time.monotonic() - began


def measure(stand: Stand) -> None:
    facts = {"members": MEMBERS, "topics": NUM_TOPICS_DEFAULT, "cores": os.cpu_count()}
    base, _, base_s = idle(stand, ())
    base_cores = base.own_s / base_s
    say("base", reference("what the others are beyond"), cores=base_cores)

    alone = stand.add(1)
    stand.ask(alone, "join")
    _, (one,), took_s = idle(stand, alone)
    percent = (one.own_s + one.zmq_s) / took_s * 100
    reached = at_most(percent, DRIVER_PERCENT_MAX)
    say("alone", reached, percent_of_a_core=percent, wakes_per_s=one.wakes / took_s)

    crowds = stand.add(OF_A_PROCESS, processes=MEMBERS // OF_A_PROCESS)
    stand.ask(crowds, "join")
    hub, of_crowds, took_s = idle(stand, crowds)
    hub_ms = (hub.own_s / took_s - base_cores) / MEMBERS * 1000
    zmq_ms = hub.zmq_s / took_s / MEMBERS * 1000
    reached = at_most(hub_ms, HUB_MS_MAX)
    say("hub", facts, reached, ms_per_s=hub_ms, zmq_ms_per_s=zmq_ms)
    percent = sum(one.own_s + one.zmq_s for one in of_crowds) / took_s / MEMBERS * 100
    wakes = sum(one.wakes for one in of_crowds) / took_s / MEMBERS
    reached = at_most(percent, DRIVER_PERCENT_MAX)
    say("driver", facts, reached, percent_of_a_core=percent, wakes_per_s=wakes)


def main(bench: Bench) -> None:
    measure(Stand(bench, _crowd))
