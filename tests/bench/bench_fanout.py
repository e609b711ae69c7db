"""Fan-out of 1 KB deltas to ten readers: the hub, beside zmq.proxy and raw PUB/SUB, in one run.

The hub checks the CRC, files and acknowledges every delta, and catalogd's publisher keeps at most
900 of them unacknowledged. In all three ways the sender is at most WINDOW messages ahead of the
slowest reader: so nothing is lost, and each message counts.
Prints one JSON line a result: messages a second, summed over the readers; ratios are to the hub.
Run: PYTHONPATH=.venv/tree .venv/bin/python tests/bench/bench_fanout.py
"""

import json
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import zmq

from topicast.catalog import publishing
from topicast.catalog.deltas import UNACKED_MAX
from topicast.catalog.publisher import Publisher
from topicast.catalog.publishing import Standing
from topicast.catalog.starts import StartRecord
from topicast.tests.bench.report import beside, say
from topicast.tests.cli.processes import Running, running
from topicast.topics.entries import FULL, Entry
from topicast.topics.link import Link
from topicast.topics.sharding import topic_ids
from topicast.topics.topic import Topic
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import barrier_prefix, prefix
from topicast.topics.wire.messages import Delta

READERS = 10
WINDOW = 512
TOLD = 32  # messages between two words of a reader
MESSAGES = 20_000
RUNS = 3
TOPIC = 1
SOCKETS = {1: "control", 2: "bulk"}
Counts = Any  # an array of integers that processes share
SPAWN = multiprocessing.get_context("spawn")
WARM = prefix(TOPIC, FULL) + b"warm"


def read(address: str, hub: bool, ready: Barrier, *, place: int, counts: Counts) -> None:
    """Count messages, into ``counts`` at ``place``, from the moment that all readers are there."""
    context = zmq.Context()
    socket = context.socket(zmq.SUB)
    socket.set_hwm(0)
    socket.setsockopt(zmq.RCVTIMEO, 10_000)
    socket.connect(address)
    socket.setsockopt(zmq.SUBSCRIBE, prefix(TOPIC, FULL))
    if hub:
        barrier = barrier_prefix(random.randbytes(16))
        socket.setsockopt(zmq.SUBSCRIBE, barrier)
        while socket.recv() != barrier:
            pass
    else:
        socket.recv()
    ready.wait()
    got = 0
    while got < MESSAGES:
        got += socket.recv() != WARM
        if not got % TOLD or got == MESSAGES:
            counts[place] = got
    context.destroy(linger=0)


class Pace:
    """Keeps a sender near the slowest reader."""

    def __init__(self) -> None:
        self.counts = SPAWN.Array("q", READERS, lock=False)
        self._least = 0
        self.idle: Callable[[], object] = lambda: zmq.Poller().poll(1)  # while it waits

    def wait(self, sent: int) -> None:
        """Return once the slowest reader is less than WINDOW messages behind ``sent``."""
        while sent - self._least >= WINDOW:
            self._least = min(self.counts)
            if sent - self._least >= WINDOW:
                self.idle()


def timed(
    address: str, send: Callable[[Pace], None], warm: Callable[[], None] | None = None
) -> float:
    """Return messages a second over all readers; ``warm`` None: the address is a hub's."""
    ready, pace = SPAWN.Barrier(READERS + 1), Pace()
    readers = [
        SPAWN.Process(
            target=read,
            args=(address, warm is None, ready),
            kwargs={"place": place, "counts": pace.counts},
        )
        for place in range(READERS)
    ]
    for one in readers:
        one.start()
    while warm is not None and ready.n_waiting < READERS:
        warm()
        ready_soon = zmq.Poller()
        ready_soon.poll(5)
    ready.wait()
    begin = time.perf_counter()
    send(pace)
    pace.wait(MESSAGES + WINDOW - 1)
    took = time.perf_counter() - begin
    for one in readers:
        one.join()
    return MESSAGES * READERS / took


class Writer:
    """catalogd's publisher, sending deltas of one topic as fast as the hub acknowledges them."""

    def __init__(self, hub: Running) -> None:
        self.topics = {number: Topic() for number in topic_ids(16)}
        for topic in self.topics.values():
            topic.reset(5)
        starts = (StartRecord(start=6, epoch=5, versions=(0,) * 17),)
        standing = Standing(
            topics=self.topics, starts=starts, catalog_address="tcp://x:1", catalog_name="hive"
        )
        self.address = hub.ready["address"]
        self.link = Link()
        self.publisher = Publisher(
            standing, name="bench", registration=bytes(16), rng=random.Random(1)
        )
        self.value = random.Random(2).randbytes(900)
        while self.publisher.state != publishing.LEADING:
            self.turn(0.05)

    def turn(self, timeout_s: float) -> None:
        """Hear the hub, and say what is due."""
        for one in self.link.poll(timeout_s):
            channel = next(number for number, name in SOCKETS.items() if name == one.name)
            self.tell(publishing.Heard(channel, decode(one.frame)))
        self.tell(publishing.Tick())

    def tell(self, fact: publishing.Fact) -> None:
        now = time.monotonic()
        for effect in self.publisher.handle(fact, now=now, now_us=int(now * 1e6)):
            match effect:
                case publishing.Put(frame=frame):
                    self.link.send("bulk", frame)
                case publishing.Send(channel=channel, message=message):
                    self.link.send(SOCKETS[channel], encode(message))
                case publishing.Reconnect():
                    for name in SOCKETS.values():
                        self.link.connect_dealer(name, self.address)
                case _:
                    pass

    def frames(self) -> list[tuple[int, Entry, bytes]]:
        """Return version, entry and frame of the next deltas."""
        topic, made = self.topics[TOPIC], []
        for version in range(topic.version + 1, topic.version + MESSAGES + 1):
            key = b"db\0t%03d\0" % (version % 500)
            entry = Entry(key, version, version, version, len(self.value), self.value)
            delta = Delta(
                topic=TOPIC,
                level=FULL,
                epoch=5,
                start=6,
                from_version=version - 1,
                to_version=version,
                floor=0,
                sent_us=1,
                source=1,
                entries=(entry,),
            )
            made.append((version, entry, encode(delta)))
        return made

    def send(self, frames: list[tuple[int, Entry, bytes]], pace: Pace) -> None:
        """Send them, each filed here first, as catalogd does."""
        pace.idle = lambda: self.turn(0.0001)
        for version, entry, frame in frames:
            pace.wait(version)
            while len(self.publisher._unacked) >= UNACKED_MAX - 1:
                self.turn(0.05)
            self.topics[TOPIC].file((entry,))
            self.topics[TOPIC].version = version
            self.tell(publishing.Committed(TOPIC, version, frame))
            if version % 64 == 0:
                self.turn(0.0)


def through_hub() -> float:
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--state_store_port=0", "--webserver_port=0")
        with running(Path(folder) / "log", "daemons", "statestored", *flags) as hub:
            writer = Writer(hub)
            frames = writer.frames()
            status = json.loads(hub.page("/?json"))
            while status["problem"] or status["topics_behind"]:  # what comes now would be one stub
                writer.turn(0.05)
                status = json.loads(hub.page("/?json"))
            address = status["data_address"]
            rate = timed(address, lambda pace: writer.send(frames, pace))
            writer.link.close()
            return rate


def proxy(front: str, back: str) -> None:
    context = zmq.Context()
    inner, outer = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
    for socket, address in ((inner, front), (outer, back)):
        socket.set_hwm(0)
        socket.bind(address)
    zmq.proxy(inner, outer)


def through_zmq(*, with_proxy: bool) -> float:
    context = zmq.Context()
    out = context.socket(zmq.PUB)
    out.set_hwm(0)
    front, back = "tcp://127.0.0.1:39817", "tcp://127.0.0.1:39818"
    middle = SPAWN.Process(target=proxy, args=(front, back), daemon=True)
    if with_proxy:
        middle.start()
        out.connect(front)
    else:
        out.bind(back)
    message = prefix(TOPIC, FULL) + random.Random(2).randbytes(1010)

    def send(pace: Pace) -> None:
        for number in range(MESSAGES):
            pace.wait(number)
            out.send(message)

    try:
        return timed(back, send, lambda: out.send(WARM))
    finally:
        context.destroy(linger=0)
        if with_proxy:
            middle.terminate()
            middle.join()


def main() -> None:
    ways = {
        "hub": through_hub,
        "zmq.proxy": lambda: through_zmq(with_proxy=True),
        "pub_sub": lambda: through_zmq(with_proxy=False),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(RUNS):
        for name, way in ways.items():
            rates[name].append(way())
    median = {name: statistics.median(found) for name, found in rates.items()}
    for name in ("zmq.proxy", "pub_sub"):
        against = beside(name, ours=median["hub"], its=median[name])
        say("fanout", f"beside {name}", per_s=median["hub"], readers=READERS, **against)


if __name__ == "__main__":
    main()
