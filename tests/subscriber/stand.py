"""A stand: a real statestored, and a catalogd that publishes what a test commits. Real sockets."""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from topicast.statestore.config import StatestoredConfig
from topicast.statestore.statestored import Statestored, build
from topicast.tests.subscriber.desk import serve
from topicast.tests.subscriber.source import Catalog
from topicast.topics.bulk import Sender, chunks
from topicast.topics.link import Inbox, Link
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages import (
    BULK_CHANNEL,
    CONTROL_CHANNEL,
    PUBLISHER,
    Announce,
    Cancel,
    CatchUp,
    Credit,
    Delta,
    Have,
    Heartbeat,
    Hello,
    Message,
)

HEARTBEAT_S = 0.05
HUB = b"hub"


def free_ports() -> int:
    """Return a port that is free, with the next one, and that no outgoing connection takes."""
    for port in random.Random().sample(range(20_000, 30_000), 1000):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no two ports are free")


class Hub:
    """A real statestored in a thread; it can be stopped and started again at its address."""

    def __init__(self, port: int = 0) -> None:
        config = StatestoredConfig(state_store_port=port, statestore_heartbeat_frequency_ms=50)
        self._daemon: Statestored
        self._daemon, self.address = build(config)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._daemon.stop()
        self._thread.join()

    def _run(self) -> None:
        self._daemon.run()
        self._daemon.close()


class Publisher:
    """A catalogd in a thread, for one catalog and any hubs."""

    def __init__(self, catalog: Catalog, hubs: list[str]) -> None:
        self.catalog = catalog
        self.serving = True
        self._link = Link()
        self._address = self._link.bind_router("service", "tcp://127.0.0.1:0")
        self._hubs = hubs
        self._senders = {hub: Sender() for hub in hubs}
        self._leading: set[str] = set()
        self._inbox: Inbox[Callable[[], None]] = Inbox(self._link.wake)
        for hub in hubs:
            self._link.connect_dealer(f"control {hub}", hub)
            self._link.connect_dealer(f"bulk {hub}", hub)
        self._heartbeat_at = 0.0
        self._hello_at = 0.0
        self._stopping = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def commit(self, make: Callable[[Catalog], Delta | list[Delta]]) -> None:
        """Let ``make`` change the catalog, publish its deltas, and return."""
        done = threading.Event()

        def work() -> None:
            made = make(self.catalog)
            for delta in made if isinstance(made, list) else [made]:
                for hub in self._leading:
                    self._link.send(f"bulk {hub}", encode(delta))
            done.set()

        self._inbox.put(work, timeout_s=5)
        assert done.wait(30)

    def stop(self) -> None:
        self._stopping = True
        self._link.wake()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            for one in self._link.poll(HEARTBEAT_S / 2):
                self._take(one.name, one.peer, decode(one.frame))
            for work in self._inbox.take():
                work()
            for hub, sender in self._senders.items():
                for part in sender.turn(1 << 20):
                    self._link.send(f"bulk {hub}", encode(part.message))
            self._speak(time.monotonic())
        self._link.close()

    def _take(self, name: str, peer: bytes, message: Message) -> None:
        if name == "service":
            answer = serve(self.catalog, message) if self.serving else None
            if answer is not None:
                self._link.send("service", encode(answer), peer)
            return
        hub = name.split()[1]
        sender = self._senders[hub]
        match message:
            case Have():
                self._link.send(f"control {hub}", encode(self._announce()))
                self._leading.add(hub)
            case CatchUp(stream=stream, credit=credit, wanted=wanted):
                parts = chunks(
                    stream,
                    wanted,
                    find=lambda one: self.catalog.topics[one.topic],
                    stamp=lambda: (self.catalog.start, 0),
                )
                sender.open(HUB, stream, credit=credit, parts=parts)
            case Credit(stream=stream, amount=amount):
                sender.credit(HUB, stream, amount)
            case Cancel(stream=stream):
                sender.cancel(HUB, stream)

    def _speak(self, now: float) -> None:
        if now >= self._hello_at:
            self._hello_at = now + 0.3
            for hub in self._hubs:
                for kind, channel in (("control", CONTROL_CHANNEL), ("bulk", BULK_CHANNEL)):
                    self._link.send(f"{kind} {hub}", encode(self._hello(channel)))
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + HEARTBEAT_S
            for hub in self._leading:
                self._link.send(f"control {hub}", encode(self._heartbeat()))

    def _hello(self, channel: int) -> Hello:
        return Hello(
            role=PUBLISHER,
            channel=channel,
            name="catalogd",
            registration=b"p" * 16,
            protocol_min=1,
            protocol_max=1,
            features=0,
        )

    def _announce(self) -> Announce:
        return Announce(
            epoch=self.catalog.epoch,
            start=self.catalog.start,
            num_topics=self.catalog.num_topics,
            catalog_address=self._address,
            catalog_name="hive",
        )

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            hub=1,
            epoch=self.catalog.epoch,
            start=self.catalog.start,
            sequence=1,
            interval_ms=int(HEARTBEAT_S * 1000),
            sent_us=0,
            watermark=1,
            age_ms=0,
            catalog_address=self._address,
            versions=self.catalog.versions(),
            floors=tuple(topic.floor for topic in self.catalog.topics.values()),
        )


@contextmanager
def stand(
    catalog: Catalog, hubs: int = 1, *, port: int = 0
) -> Iterator[tuple[Publisher, list[Hub]]]:
    """Run ``hubs`` statestoreds, the first at ``port``, and a catalogd for ``catalog``."""
    running = [Hub(0 if number else port) for number in range(hubs)]
    publisher = Publisher(catalog, [hub.address for hub in running])
    try:
        yield publisher, running
    finally:
        publisher.stop()
        for hub in running:
            hub.stop()
