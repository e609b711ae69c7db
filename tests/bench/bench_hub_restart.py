"""The statestored is killed and starts again: what its readers receive until all is live again.

A real catalogd with a store (the metastore is away: nothing changes), readers that hold every
topic, 50,000 partitions among them. Bytes are those of all frames on all sockets of a reader, from
the kill until each topic is known to be current again; beside what a reader receives that joins.
"""

import signal
import time
from multiprocessing.connection import Connection

from topicast.subscriber import Subscriber
from topicast.tests.bench.bench import Bench
from topicast.tests.bench.frames import count_frames
from topicast.tests.bench.processes import Process
from topicast.tests.bench.report import at_most, beside, say
from topicast.tests.bench.stores import fill_store
from topicast.tests.cli.processes import steady_port
from topicast.tests.waiting import until
from topicast.topics.topic import NUM_TOPICS_DEFAULT

READERS = 5
TABLES = 2_000
PARTITIONED = 10  # tables that share the partitions
PARTITIONS = 50_000
NOBODY = "thrift://127.0.0.1:9"  # the discard port, on which no metastore listens
BYTES_MAX = 10_000
TIMEOUT_S = 60.0
IN_FLIGHT_S = 0.1  # what the old hub had sent arrives after its death; a new hub takes longer


def read(hub: str, pipe: Connection) -> None:
    """Hold every topic; when notified of a kill, report what came until all is current again."""
    frames = count_frames()
    with Subscriber(hub, budget="256MB", timeout_s=TIMEOUT_S) as catalog:
        for topic in range(NUM_TOPICS_DEFAULT):
            catalog.join(topic)
        pipe.send({"bytes": frames.total})
        while True:
            (killed_at,) = pipe.recv()
            frames.clear()

            def current(at: float = killed_at) -> bool:
                return all(topic.lag_s < time.monotonic() - at for topic in catalog.topics())

            until(current, timeout_s=TIMEOUT_S, what="every topic to be current")
            took_s, received = time.monotonic() - killed_at, {"bytes": frames.total}
            received |= {"heartbeat_bytes": frames.heartbeat_bytes, "frames": frames.frames}
            pipe.send({**received, "took_s": took_s})


def main(bench: Bench) -> None:
    size = {"tables": TABLES, "partitioned": PARTITIONED, "partitions": PARTITIONS}
    fill_store(bench.folder / "state", **size)
    port = f"--state_store_port={steady_port()}"
    first = bench.hub(port)
    bench.catalogd(NOBODY, first.address)
    readers = [bench.enter_context(Process(read, first.address)) for _ in range(READERS)]
    joined = [reader.answer() for reader in readers]
    first.end(signal.SIGKILL)
    killed_at = time.monotonic() + IN_FLIGHT_S
    for reader in readers:
        reader.order(killed_at)
    bench.hub(port)
    most = max((reader.answer() for reader in readers), key=lambda one: one["bytes"])
    join_bytes = sum(one["bytes"] for one in joined) / READERS
    facts = {"readers": READERS, "partitions": PARTITIONS, "topics": NUM_TOPICS_DEFAULT}
    against = beside("bytes of a join", most["bytes"], join_bytes)
    say("received_most", facts, most, against, at_most(most["bytes"], BYTES_MAX))
