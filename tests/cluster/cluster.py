"""A cluster: the production cores of catalogd, hubs and readers on one virtual clock.

Shells here are as thin as the real ones; what is simulated is the network, the metastore, the
store and time. The simulator gives it dice (``rng``, ``faults``): one seed, one trace. Without dice
nothing is left to chance: every delay is its mean, and no message is lost unless a test says so.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any, Protocol

from topicast.catalog.core import Catalog, CatalogSettings
from topicast.catalog.publish.publisher import Publisher
from topicast.statestore.hub import Hub
from topicast.subscriber.engine.core import Core
from topicast.tests.cluster.catalogd import EPOCH_0, SETTINGS, CatalogProcess
from topicast.tests.cluster.frames import Frames
from topicast.tests.cluster.hub import HubProcess
from topicast.tests.cluster.metastore import SimMetastore
from topicast.tests.cluster.reader import ReaderProcess, Setup
from topicast.tests.cluster.store import NUM_TOPICS, SimStore
from topicast.tests.keys import client
from topicast.topics.keys.clients import ClientRole, Clients, clients_text
from topicast.topics.memory.memory_limit import MemoryLimit
from topicast.topics.policy import Policy
from topicast.topics.wire.header import CONTROL_KIND
from topicast.topics.wire.messages.catalog import (
    Compare,
    Compared,
    Pull,
    Sync,
    Synced,
    Validate,
    Validated,
)
from topicast.topics.wire.messages.connection import Hello, KeepAlive, Welcome
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.publishers import Announce, Filed, Have
from topicast.topics.wire.messages.readers import Drop, Dropped, Join, Joined, ReaderStatus
from topicast.topics.wire.messages.reports import Report, Reported

HUBS = 2
CONTENT_BYTES_MAX = 6000  # of a limited process: about what it has of a few tables
CHECK_EVERY = 5  # steps of cores: an assertion of all invariants costs as much as a step,
ENTRIES_OF_A_STEP = 20  # if a core has no more entries than that; else so many times as much
SETUPS = (Setup(), Setup(automatic=True), Setup())
# Requests that are repeated where a connection was lost, and their answers: they may come twice.
REPEATED = (
    (Hello | Welcome | Announce | Have | Filed | Join | Joined | Drop | Dropped)
    | (ReaderStatus | KeepAlive | Pull | Sync | Synced | Report | Reported)
    | (Compare | Compared | Validate | Validated)
)

Way = tuple[str, str]  # the names of the sender and of the receiver
Arrive = Callable[[bytes], None]
Tap = Callable[[Way, Message], Iterable[Message]]  # sees each message, returns what goes on


class Client(Protocol):
    """A process that is connected to catalogd's own port."""

    name: str

    def take_service(self, place: bytes, frame: bytes) -> None:
        """Take a frame of catalogd on the connection ``place``."""


@dataclass(slots=True)
class NetworkOrder:
    """What a scenario orders for the next ``left`` messages on a way: they are held, or lost.

    ``kind`` "*" means any, ``topic`` None any or none.
    """

    way: Way
    kind: str
    topic: int | None
    hold: bool
    left: int

    def is_for(self, way: Way, message: Message) -> bool:
        """Return whether ``message`` on ``way`` is meant, and count it if so."""
        meant = (
            way == self.way
            and self.left > 0
            and self.kind in ("*", type(message).__name__)
            and self.topic in (None, getattr(message, "topic", None))
        )
        self.left -= meant
        return meant


class Steady(Random):
    """No dice: every delay is its mean, and nothing that is unlikely happens."""

    def __init__(self) -> None:
        super().__init__(0)
        self._last = 0

    def random(self) -> float:
        return 0.5

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2

    def getrandbits(self, k: int, /) -> int:
        self._last += 1
        return self._last

    def randbytes(self, n: int) -> bytes:
        self._last += 1
        return self._last.to_bytes(n, "big")


class Cluster:
    """The heap, the dice, the trace, the network and every process on it.

    ``store``: what catalogd holds from the start, else nothing for ``num_topics``.
    ``limited``: whether catalogd and hubs keep content out of memory, more or less of it.
    ``check_every``: how many steps pass between two assertions of a core's invariants.
    """

    def __init__(
        self,
        rng: Random | None = None,
        setups: Sequence[Setup] = SETUPS,
        *,
        hubs: int = HUBS,
        faults: bool = False,
        metastore: Any = None,
        num_topics: int = NUM_TOPICS,
        settings: CatalogSettings = SETTINGS,
        store: SimStore | None = None,
        check_every: int = CHECK_EVERY,
        limited: bool = False,
    ) -> None:
        self.rng = rng if rng is not None else Steady()
        self.now = 1000.0
        self.wall_s = 0.0  # by which the wall clock is ahead of that
        self.faults = faults
        self.limited = limited
        self.healed = 0.0  # when the trouble ended
        self.counts: Counter[str] = Counter()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._steps = 0
        self._check_every = check_every
        self._digest = blake2b(digest_size=16)
        self.trace: list[str] = []
        self._fifo: dict[tuple[object, ...], float] = {}
        self.cut: set[tuple[str, str]] = set()
        self.frames = Frames()
        self.orders: list[NetworkOrder] = []
        self.held: list[Callable[[], None]] = []
        self.taps: list[Tap] = []
        self.clients: dict[bytes, Client] = {}  # of catalogd, by how their connections begin
        self.readers: list[ReaderProcess] = []
        self.metastore = SimMetastore(self.rng) if metastore is None else metastore
        self.hubs = [HubProcess(self, number) for number in range(hubs)]
        store = store or SimStore.of(num_topics, epoch=EPOCH_0)
        self.catalogd = CatalogProcess(self, store=store, settings=settings)
        for setup in setups:
            self.add_reader(setup)

    def add_reader(self, setup: Setup) -> ReaderProcess:
        """Add a reader, which begins now."""
        reader = ReaderProcess(self, len(self.readers), setup)
        self.readers.append(reader)
        self.renew_clients()
        return reader

    def clients_text(self) -> bytes:
        """Return the list of clients as catalogd keeps it; empty if nobody has a policy."""
        restricted = [one.client for one in self.readers if one.policy is not None]
        if not restricted:
            return b""
        found = Clients((client(ClientRole.CATALOGD), client(), *restricted))
        return clients_text(found).encode("ascii")

    def renew_clients(self) -> None:
        """Let catalogd have the list of clients as it is now."""
        self.catalogd.published.clients = self.clients_text()

    def restrict(self, reader: ReaderProcess, policy: Policy) -> None:
        """Let a reader with a policy have another policy: catalogd ends its connections."""
        self.note(f"{reader.name} may see {policy}")
        reader.policy = policy
        reader.lines["catalog"] += 1
        self.renew_clients()

    def client(self, place: bytes) -> Client:
        """Return the process at the other end of a connection to catalogd: "kind/number/…"."""
        kind, number, _ = place.split(b"/", 2)
        return self.clients.get(kind + b"/") or self.clients[kind + b"/" + number]

    # -- time

    def at(self, delay_s: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now + delay_s, self._number, act))

    def run(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, act = heapq.heappop(self._heap)
            act()
        self.now = until

    def check(self, core: Catalog | Hub | Core | Publisher, *, entries: int = 0) -> None:
        """Have a core assert what always holds, now and then: a fifth of what steps cost.

        ``entries``: how many it has, if that is what an assertion costs.
        """
        self._steps += 1
        if self._steps % (self._check_every * max(1, entries // ENTRIES_OF_A_STEP)) == 0:
            core.check()

    def memory(self) -> MemoryLimit | None:
        """Return the limit of memory of a process that starts."""
        return MemoryLimit(CONTENT_BYTES_MAX) if self.limited else None

    def hold(self, memory: MemoryLimit | None) -> None:
        """Have a process keep some of its content in memory, and count what leaves it."""
        if memory is not None:
            before = memory.warm.cooled
            memory.warm.limit_bytes = self.rng.randrange(CONTENT_BYTES_MAX)
            memory.hold()
            self.counts["cooled"] += memory.warm.cooled - before

    @property
    def now_us(self) -> int:
        return int((self.now + self.wall_s) * 1e6)

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        line = f"{self.now:.4f} {text}"
        self._digest.update(line.encode())
        self.trace.append(line)
        del self.trace[:-400]

    def digest(self) -> str:
        return self._digest.hexdigest()

    # -- the network

    def chance(self, probability: float) -> bool:
        return self.faults and self.rng.random() < probability

    def carry(
        self, way: Way, line: object, frame: bytes, arrive: Arrive, *, slow_s: float = 0.0
    ) -> None:
        """Carry ``frame`` on a connection: in order, late, and at times not at all."""
        for passed in self._passing(way, frame, arrive):
            if way in self.cut or self.chance(0.01):
                self.counts["lost messages"] += 1
                continue
            due = self.now + slow_s + self.rng.uniform(0.001, 0.02)
            if self.chance(0.03):
                due += self.rng.uniform(0, 0.4)
            due = self.in_order((way, line), due)
            self.at(due - self.now, partial(arrive, passed))
            if passed[4] == CONTROL_KIND and self.chance(0.02) and self._may_repeat(passed):
                self.counts["doubled messages"] += 1
                self.at(due - self.now, partial(arrive, passed))

    def in_order(self, line: tuple[object, ...], due: float) -> float:
        """Return when what is sent now on ``line`` arrives: not before what was sent earlier."""
        due = self._fifo[line] = max(due, self._fifo.get(line, 0.0))
        return due

    def spread(self, way: Way, frame: bytes, arrive: Arrive) -> None:
        """Carry a broadcast: it may be lost, doubled and overtaken."""
        for passed in self._passing(way, frame, arrive):
            if way in self.cut or self.chance(0.04):
                self.counts["lost broadcasts"] += 1
                continue
            for _ in range(1 + self.chance(0.03)):
                delay = self.rng.uniform(0.001, 0.01)
                if self.chance(0.05):
                    delay += self.rng.uniform(0, 0.5)
                self.at(delay, partial(arrive, passed))

    def record(self) -> list[tuple[Way, Message]]:
        """Return a list to which every message is added from now on, with its way."""
        seen: list[tuple[Way, Message]] = []

        def tap(way: Way, message: Message) -> tuple[Message, ...]:
            seen.append((way, message))
            return (message,)

        self.taps.append(tap)
        return seen

    def mend(self, *, hold: bool) -> None:
        """Drop all orders to hold, or all to lose; what was held arrives."""
        self.orders = [one for one in self.orders if one.hold is not hold]
        held, self.held = (self.held, []) if hold else ([], self.held)
        for arrive in held:
            self.at(0.01, arrive)

    def _passing(self, way: Way, frame: bytes, arrive: Arrive) -> Iterable[bytes]:
        """Return the frames that go on: ``frame``, unless a tap or an order changes that."""
        frames = [frame]
        for tap in self.taps:
            passed = [tap(way, self.frames.read(one)) for one in frames]
            frames = [self.frames.write(message) for some in passed for message in some]
        if self.orders:
            frames = [one for one in frames if not self._is_ordered(way, one, arrive)]
        return frames

    def _is_ordered(self, way: Way, frame: bytes, arrive: Arrive) -> bool:
        message = self.frames.read(frame)
        order = next((one for one in self.orders if one.is_for(way, message)), None)
        if order is not None and order.hold:
            self.held.append(lambda: arrive(frame))
        return order is not None

    def _may_repeat(self, frame: bytes) -> bool:
        return isinstance(self.frames.read(frame), REPEATED)
