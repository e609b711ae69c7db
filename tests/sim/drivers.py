"""Drivers that write, and die: the outbox and the numbers of a driver, and its way to catalogd."""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from topicast.subscriber.client.write_reports import WriteIntent, report_write
from topicast.subscriber.engine.write_outbox import WriteSender
from topicast.subscriber.protocol.effects import Effect
from topicast.tests.cluster.hub import TICK_S
from topicast.tests.cluster.metastore import DBS, NAMES, PARTS, TableId
from topicast.tests.cluster.reports import SimulatedOutbox
from topicast.topics.turn import Turn
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.reports import Reported, Write

if TYPE_CHECKING:
    from topicast.tests.sim.world import World

RETRY_S = 0.2
PAUSE_S = 0.6  # between two writes, on average


class DriverProcess:
    """A driver of which nothing is looked at but its writes; each life is another driver."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.name = "driver"
        self.life = 0
        self.alive = False
        self.noted: Callable[[bytes, Write], None] = lambda _driver, _write: None
        self.died: Callable[[bytes], None] = lambda _driver: None
        self._connections = count(1)
        self._place = b""
        self.start()

    def start(self) -> None:
        """Begin as a driver that nobody knows."""
        self.life += 1
        self.alive = True
        self.registration = registration(self.life)
        self.outbox = SimulatedOutbox(driver=self.registration, noted=self._note)
        self.outbox.attach(self._send)
        self._turn = Turn[Effect]()
        self.sender = WriteSender(self.outbox, count(1).__next__, clock=self._turn, retry_s=RETRY_S)
        self._tick(self.life)

    def crash(self) -> None:
        """Die, whatever is not reported."""
        self.alive = False
        self.world.note("driver dies")
        self.died(self.registration)

    def revive(self) -> None:
        if not self.alive:
            self.start()
            self.begin()

    def begin(self) -> None:
        """Write something, and more after it."""
        self._act(self.life)

    def take_service(self, place: bytes, frame: bytes) -> None:
        """Take what catalogd says."""
        if not self.alive or not place.startswith(b"w/%d/" % self.life):
            return
        message = self.world.frames.read(frame)
        self._turn.now = self.world.now
        if isinstance(message, Reported):
            self.sender.on_reported(message)
        elif isinstance(message, Refused):
            self.sender.on_refused(message)
        self._send()
        self.sender.check()

    def _note(self, driver: bytes, write: Write) -> None:
        self.noted(driver, write)

    def _tick(self, life: int) -> None:
        if self.alive and life == self.life:
            if self.world.chance(0.03):
                self._turn.now = self.world.now
                self.sender.retry_now()  # it has connected again
            self._send()
            self.world.at(TICK_S, lambda: self._tick(life))

    def _send(self) -> None:
        catalogd = self.world.catalogd
        self._turn.now = self.world.now
        for report in self.sender.due():
            place = b"w/%d/%d" % (self.life, catalogd.life)
            frame = self.world.frames.write(report)
            way = (self.name, catalogd.name)
            self.world.carry(way, place, frame, lambda got, p=place: catalogd.take_request(p, got))

    def _act(self, life: int) -> None:
        """Write something now and then: reported before and after, or afterwards alone."""
        world = self.world
        if not world.faults or not self.alive or life != self.life:
            return
        rng = world.rng
        wanted, parts = what(world), rng.sample(PARTS, rng.randint(0, 2))
        if rng.random() < 0.3:
            report_write(self.outbox, wanted, parts, failed=rng.random() < 0.2)
        else:
            writing = WriteIntent(self.outbox, wanted, parts)
            world.at(rng.uniform(0.02, 1.0), lambda: self._end(life, writing))
        world.at(rng.expovariate(1 / PAUSE_S), lambda: self._act(life))

    def _end(self, life: int, writing: WriteIntent) -> None:
        if not self.alive or life != self.life:
            return
        dice = self.world.rng.random()
        if dice < 0.1:
            writing.abandon()
        else:
            writing.end(failed=dice < 0.25, overwritten=dice > 0.8)


def registration(life: int) -> bytes:
    """Return what the driver is known by in its life number ``life``."""
    return b"driver" + life.to_bytes(10, "big")


def what(world: "World") -> str:
    """Return the name of a table, which may not be there, or a path of a table that is."""
    table = world.rng.choice([(db, name) for db in DBS for name in NAMES])
    found = world.metastore.held.get(table)
    if found is not None and world.rng.random() < 0.3:
        return f"/{'/'.join(table)}/{found.shape}/ds=1/file"
    return ".".join(table)


def table_of(wanted: str) -> TableId:
    """Return the table that ``what`` has named."""
    _, db, name, *_ = wanted.split("/") if "/" in wanted else ("", *wanted.split("."))
    return db, name
