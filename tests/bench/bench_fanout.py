"""Fan-out of 1 KB deltas to ten readers: the hub, beside zmq.proxy and raw PUB/SUB, in one run.

    hub        catalogd's publisher ──DEALER──▶ statestored ──XPUB──▶ ten SUB
    zmq.proxy  a bare PUB ──▶ XSUB, zmq.proxy in a process of its own, XPUB ──▶ ten SUB
    pub_sub    a bare PUB ──▶ ten SUB

All have keys on every socket, send the same frames and have the same readers: processes that
count and do not decode. In all three the sender is at most WINDOW messages ahead of the slowest
reader, so nothing is lost, and each message counts; the clock stops when every reader has the last
one.
Only the hub's sender files each delta, notes it as unacknowledged (at most 900 are) and receives
acknowledgements; only the hub checks the CRC and the rows, files and acknowledges. What encodes
a delta is not measured: the frames are made before.
Prints one JSON line a result: messages a second, summed over the readers; the ratio is the median
of those of the rounds, in each of which all ways run. ``middle_us`` and ``sender_us`` are the CPU
time of a message in hub or proxy and in the sender, all threads: a busy machine changes rates more.
"""

import functools
import json
import multiprocessing
import random
import statistics
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any, NamedTuple

import zmq

from topicast.catalog.model.lineage import StartRecord
from topicast.catalog.publish import publisher
from topicast.catalog.publish.publisher import UNACKED_MAX, PublishedState
from topicast.tests.bench.bench import Bench
from topicast.tests.bench.catalogd import Publishing
from topicast.tests.bench.report import at_least, beside, reference, say
from topicast.tests.cli.processes import Running
from topicast.tests.keys import CREDENTIAL, PAIR, user_keys
from topicast.topics.keys.credential import Credential, KeyPair
from topicast.topics.keys.folder import CATALOGD, DRIVER
from topicast.topics.link import Link
from topicast.topics.link.curve import join, serve
from topicast.topics.topic import FULL, Entry, Topic, topic_ids
from topicast.topics.turn import Tick
from topicast.topics.wire import encode
from topicast.topics.wire.header import barrier_prefix, prefix
from topicast.topics.wire.messages.data import Delta

READERS = 10
RATIO_MIN = 0.9  # of the rate of zmq.proxy
WINDOW = 512
TOLD = 32  # messages between two words of a reader
MESSAGES = 40_000
ROUNDS = 5
TOPIC = 1
Counts = Any  # an array of integers that processes share
SERVER = multiprocessing.get_context("forkserver")  # readers are forked from what holds no socket
WARM = prefix(TOPIC, FULL) + b"warm"


def read(
    address: str, own: Credential, *, hub: bool, ready: Barrier, place: int, counts: Counts
) -> None:
    """Count messages, into ``counts`` at ``place``, from the moment that all readers are there."""
    context = zmq.Context()
    socket = context.socket(zmq.SUB)
    socket.set_hwm(0)
    socket.setsockopt(zmq.RCVTIMEO, 10_000)
    join(socket, own.pair, own.hub_key(address))
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


class Sent(NamedTuple):
    """A delta that was made before the clock runs."""

    version: int
    entry: Entry
    frame: bytes


class Found(NamedTuple):
    """What one way reached: messages a second over all readers, and µs of CPU a message."""

    per_s: float
    middle_us: float
    sender_us: float


STILL_S = 30.0  # a reader that does not move for so long is dead


class Pace:
    """Keeps a sender near the slowest reader."""

    def __init__(self) -> None:
        self.counts = SERVER.Array("q", READERS, lock=False)
        self._least = 0
        self.idle: Callable[[], object] = lambda: zmq.Poller().poll(1)  # while it waits

    def wait(self, sent: int) -> None:
        """Return once the slowest reader is less than WINDOW messages behind ``sent``.

        Raises:
            TimeoutError: it has not moved for STILL_S.
        """
        give_up_at = time.monotonic() + STILL_S
        while sent - self._least >= WINDOW:
            self._least = min(self.counts)
            if sent - self._least >= WINDOW:
                self.idle()
                if time.monotonic() > give_up_at:
                    raise TimeoutError(f"a reader has read {self._least} of {sent} messages")


def timed(
    address: str,
    send: Callable[[Pace], None],
    warm: Callable[[], None] | None,
    *,
    own: Credential,
    middle: int,
) -> Found:
    """Time one way; ``warm`` None: the address is a hub's. ``middle``: its process, 0 for none.

    Its readers join with ``own``.
    """
    ready, pace = SERVER.Barrier(READERS + 1), Pace()
    readers = [
        SERVER.Process(
            target=read,
            args=(address, own),
            kwargs={"hub": warm is None, "ready": ready, "place": place, "counts": pace.counts},
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
    cpu_s, own_s, begin = cpu_of(middle), time.process_time(), time.perf_counter()
    send(pace)
    pace.wait(MESSAGES + WINDOW - 1)
    took = time.perf_counter() - begin
    cpu_s, own_s = cpu_of(middle) - cpu_s, time.process_time() - own_s
    for one in readers:
        one.join()
    return Found(MESSAGES * READERS / took, cpu_s / MESSAGES * 1e6, own_s / MESSAGES * 1e6)


def cpu_of(process: int) -> float:
    """Return the seconds that all threads of ``process`` have used: clock_getcpuclockid(3)."""
    return time.clock_gettime(~process << 3 | 2) if process else 0.0


def made() -> list[Sent]:
    """Return the deltas from version 1 on, of 500 tables in turn."""
    value, found = random.Random(2).randbytes(900), []
    for version in range(1, MESSAGES + 1):
        key = b"db\0t%03d\0" % (version % 500)
        entry = Entry(key, version, version, version, len(value), value)
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
        found.append(Sent(version, entry, encode(delta)))
    return found


class Writer:
    """catalogd's publisher, sending deltas of one topic as fast as the hub acknowledges them."""

    def __init__(self, hub: Running) -> None:
        self.topics = {number: Topic() for number in topic_ids(16)}
        for topic in self.topics.values():
            topic.reset(5)
        starts = (StartRecord(start=6, epoch=5, versions=(0,) * 17),)
        published = PublishedState(
            topics=self.topics, starts=starts, catalog_address="tcp://x:1", catalog_name="hive"
        )
        self.link = Link(user_keys(CATALOGD).credential.pair)
        self.publishing = Publishing(published, hub.address, self.link)
        while not self.publishing.is_leading:
            self.turn(0.05)

    def turn(self, timeout_s: float) -> None:
        """Exchange messages with the hub."""
        for one in self.link.poll(timeout_s):
            self.publishing.receive(one)
        self.publishing.handle(Tick())
        self.publishing.send()

    def send(self, deltas: list[Sent], pace: Pace) -> None:
        """Send them, each filed here first, as catalogd does."""
        pace.idle = lambda: self.turn(0.0001)
        for version, entry, frame in deltas:
            pace.wait(version)
            while version - self.publishing.filed.get(TOPIC, 0) >= UNACKED_MAX:
                self.turn(0.05)
            self.topics[TOPIC].file((entry,))
            self.topics[TOPIC].version = version
            self.publishing.handle(publisher.Committed(TOPIC, version, frame))
            if version % 64 == 0:
                self.turn(0.0)


def through_hub(deltas: list[Sent]) -> Found:
    with Bench() as bench:
        hub = bench.hub()
        writer = Writer(hub)
        status = json.loads(hub.page("/?json"))
        # What came before it serves would be one stub.
        while status["verdict"] != "serving" or status["topics_behind"]:
            writer.turn(0.05)
            status = json.loads(hub.page("/?json"))
        address = status["data_address"]
        send = functools.partial(writer.send, deltas)
        own = user_keys(DRIVER).credential
        found = timed(address, send, None, own=own, middle=hub.process.pid)
        writer.link.close()
        return found


def proxy(front: str, back: str, pair: KeyPair) -> None:
    context = zmq.Context()
    inner, outer = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
    for socket, address in ((inner, front), (outer, back)):
        socket.set_hwm(0)
        serve(socket, "proxy", pair)
        socket.bind(address)
    zmq.proxy(inner, outer)


def through_zmq(deltas: list[Sent], *, with_proxy: bool) -> Found:
    context = zmq.Context()
    out = context.socket(zmq.PUB)
    out.set_hwm(0)
    front, back = "tcp://127.0.0.1:39817", "tcp://127.0.0.1:39818"
    middle = SERVER.Process(target=proxy, args=(front, back, PAIR), daemon=True)
    if with_proxy:
        middle.start()
        join(out, PAIR, PAIR.public)
        out.connect(front)
    else:
        serve(out, "pub", PAIR)
        out.bind(back)

    def send(pace: Pace) -> None:
        for version, _, frame in deltas:
            pace.wait(version)
            out.send(frame)

    try:
        return timed(back, send, lambda: out.send(WARM), own=CREDENTIAL, middle=middle.pid or 0)
    finally:
        context.destroy(linger=0)
        if with_proxy:
            middle.terminate()
            middle.join()


def main() -> None:
    deltas = made()
    ways: dict[str, Callable[[], Found]] = {
        "hub": lambda: through_hub(deltas),
        "zmq.proxy": lambda: through_zmq(deltas, with_proxy=True),
        "pub_sub": lambda: through_zmq(deltas, with_proxy=False),
    }
    rounds: list[dict[str, Found]] = []
    for number in range(ROUNDS):
        names = list(ways) if number % 2 else list(reversed(ways))
        rounds.append({name: ways[name]() for name in names})
    medians = {
        name: Found(*map(statistics.median, zip(*(one[name] for one in rounds), strict=True)))
        for name in ways
    }
    ours = medians["hub"]
    for name in ("zmq.proxy", "pub_sub"):
        its = medians[name]
        ratio = statistics.median(one["hub"].per_s / one[name].per_s for one in rounds)
        against = {**beside(name, ours.per_s, its.per_s), "ratio": ratio}
        facts = {"per_s": ours.per_s, "readers": READERS, "middle_us": ours.middle_us}
        facts |= {"sender_us": ours.sender_us, "its_middle_us": its.middle_us}
        facts["its_sender_us"] = its.sender_us
        reached = reference("nobody in the middle: no hub is as fast")
        if name == "zmq.proxy":  # which has a process in the middle, too
            reached = at_least(ratio, RATIO_MIN)
        say(f"beside {name}", facts, against, reached)
