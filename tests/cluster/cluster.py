"""The world: the production cores of catalogd, two hubs and three readers on one virtual clock.

Shells here are as thin as the real ones; what is simulated is the network, the metastore, the
store and time. One seed, one trace.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

from topicast.catalog.core import Catalog
from topicast.catalog.publish.publisher import Publisher
from topicast.statestore.hub import Hub
from topicast.subscriber.engine.core import Core
from topicast.tests.cluster.frames import Frames
from topicast.tests.cluster.metastore import SimMetastore
from topicast.tests.cluster.processes import HUBS, CatalogProcess, HubProcess
from topicast.tests.cluster.reader import ReaderProcess, Setup
from topicast.tests.sim.drivers import DriverProcess
from topicast.topics.wire.header import CONTROL_KIND
from topicast.topics.wire.messages import (
    Announce,
    Compare,
    Compared,
    Drop,
    Dropped,
    Filed,
    Have,
    Hello,
    Join,
    Joined,
    Message,
    Pull,
    Report,
    Reported,
    Status,
    Sync,
    Synced,
    Validate,
    Validated,
    Welcome,
)

CHECK_EVERY = 11
SETUPS = (Setup(), Setup(automatic=True), Setup())
# What is asked, or said, again where a connection was lost, with its answers: it may come twice.
AGAIN = (
    Hello | Welcome | Announce | Have | Filed | Join | Joined | Drop | Dropped | Status | Pull
) | (Sync | Synced | Report | Reported | Compare | Compared | Validate | Validated)


@dataclass(slots=True)
class Order:
    """What a scenario orders for messages on a way: they are held, or lost.

    ``kind`` "*" means any, ``topic`` None any or none. ``left``: how many more.
    """

    way: tuple[str, str]
    kind: str
    topic: int | None
    hold: bool
    left: int

    def is_for(self, way: tuple[str, str], message: Message) -> bool:
        """Tell whether ``message`` on ``way`` is meant; counts it."""
        if way != self.way or not self.left:
            return False
        if self.kind not in ("*", type(message).__name__):
            return False
        if self.topic not in (None, getattr(message, "topic", None)):
            return False
        self.left -= 1
        return True


class Cluster:
    """The heap, the dice, the trace, the network and everybody on it."""

    def __init__(self, rng: Random, setups: Sequence[Setup] = SETUPS) -> None:
        self.rng = rng
        self.now = 1000.0
        self.faults = True
        self.healed = 0.0  # when the trouble ended
        self.counts: Counter[str] = Counter()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._steps = 0
        self._digest = blake2b(digest_size=16)
        self.trace: list[str] = []
        self._fifo: dict[tuple[object, ...], float] = {}
        self.cut: set[tuple[str, str]] = set()
        self.frames = Frames()
        self.orders: list[Order] = []
        self.held: list[Callable[[], None]] = []
        self.metastore = SimMetastore(self.rng)
        self.hubs = [HubProcess(self, number) for number in range(HUBS)]
        self.catalogd = CatalogProcess(self)
        self.readers = [ReaderProcess(self, *one) for one in enumerate(setups)]
        self.driver = DriverProcess(self)

    # -- time

    def at(self, delay_s: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now + delay_s, self._number, act))

    def run(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, act = heapq.heappop(self._heap)
            act()
        self.now = until

    def check(self, core: Catalog | Hub | Core | Publisher) -> None:
        """Have a core assert what always holds, now and then: it costs as much as a step."""
        self._steps += 1
        if self._steps % CHECK_EVERY == 0:
            core.check()

    @property
    def now_us(self) -> int:
        return int(self.now * 1e6)

    def note(self, said: str) -> None:
        """Add a line to the trace."""
        line = f"{self.now:.4f} {said}"
        self._digest.update(line.encode())
        self.trace.append(line)
        del self.trace[:-400]

    def digest(self) -> str:
        return self._digest.hexdigest()

    # -- the network

    def chance(self, probability: float) -> bool:
        return self.faults and self.rng.random() < probability

    def carry(
        self,
        way: tuple[str, str],
        line: object,
        frame: bytes,
        arrive: Callable[[bytes], None],
        *,
        slow_s: float = 0.0,
    ) -> None:
        """Carry ``frame`` on a connection: in order, late, and at times not at all."""
        if self.orders and self._is_ordered(way, frame, arrive):
            return
        if (way in self.cut or self.chance(0.01)) and self.faults:
            self.counts["lost messages"] += 1
            return
        due = self.now + slow_s + self.rng.uniform(0.001, 0.02)
        if self.chance(0.03):
            due += self.rng.uniform(0, 0.4)
        due = max(due, self._fifo.get((way, line), 0.0))
        self._fifo[way, line] = due
        self.at(due - self.now, lambda: arrive(frame))
        if frame[4] == CONTROL_KIND and self.chance(0.02) and self._is_asked_again(frame):
            self.counts["doubled messages"] += 1
            self.at(due - self.now, lambda: arrive(frame))

    def spread(self, way: tuple[str, str], frame: bytes, arrive: Callable[[bytes], None]) -> None:
        """Carry a broadcast: it may be lost, doubled and overtaken."""
        if self.orders and self._is_ordered(way, frame, arrive):
            return
        if way in self.cut or self.chance(0.04):
            self.counts["lost broadcasts"] += 1
            return
        for _ in range(1 + self.chance(0.03)):
            delay = self.rng.uniform(0.001, 0.01)
            if self.chance(0.05):
                delay += self.rng.uniform(0, 0.5)
            self.at(delay, lambda: arrive(frame))

    def mend(self, *, hold: bool) -> None:
        """Obey no order to hold, or to lose, any more; what was held arrives."""
        self.orders = [one for one in self.orders if one.hold is not hold]
        held, self.held = (self.held, []) if hold else ([], self.held)
        for arrive in held:
            self.at(0.01, arrive)

    def _is_ordered(
        self, way: tuple[str, str], frame: bytes, arrive: Callable[[bytes], None]
    ) -> bool:
        message = self.frames.read(frame)
        order = next((one for one in self.orders if one.is_for(way, message)), None)
        if order is not None and order.hold:
            self.held.append(lambda: arrive(frame))
        return order is not None

    def _is_asked_again(self, frame: bytes) -> bool:
        return isinstance(self.frames.read(frame), AGAIN)
