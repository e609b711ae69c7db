"""statestored in the cluster: the core of a hub, in the thinnest of shells."""

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from topicast.statestore.effects import (
    Admit,
    Broadcast,
    Fact,
    MessageReceived,
    Subscription,
    TurnEnd,
)
from topicast.statestore.hub import Hub
from topicast.tests.keys import client
from topicast.topics.keys.clients import Client, ClientRole, Clients
from topicast.topics.wire import encode
from topicast.topics.wire.header import DELTA_KIND, prefixes_in
from topicast.topics.wire.messages.connection import KeepAlive

if TYPE_CHECKING:
    from topicast.tests.cluster.cluster import Cluster
    from topicast.tests.cluster.reader import ReaderProcess

KEPT_ALIVE = encode(KeepAlive())
TICK_S = 0.09  # below what liveness takes for a stall
BATCH_MAX = 32  # frames of a turn, if they take time: as the link of a real one reads them


class HubProcess:
    """A statestored; soft state, so a restart begins with nothing but the list of clients.

    ``frame_s``: what each frame but a KeepAlive takes of its one thread; heartbeats wait for the
    end of a turn.
    """

    def __init__(self, world: "Cluster", number: int) -> None:
        self.world = world
        self.number = number
        self.name = f"hub-{number}"
        self.life = 0
        self.alive = False
        self.subscriptions: dict[bytes, dict[bytes, tuple[bytes, ...]]] = {}
        """By connection: what it subscribed to, and the prefixes of what it is sent for that."""
        self.clients = Clients()  # the last list from catalogd; none is sent without policies
        self.frame_s = 0.0
        self._waiting: deque[tuple[bytes, bytes]] = deque()  # frames, with their connections
        self._busy = False
        self.start()

    def start(self) -> None:
        self.life += 1
        self.alive = True
        self.subscriptions = {}
        self._waiting.clear()
        self._busy = False
        self.hub = Hub(
            hub_id=self.world.rng.getrandbits(48) | 1,
            data_address=f"data-{self.number}",
            memory=self.world.memory(),
        )
        self.hub.admit(self.clients)
        self.world.note(f"{self.name} starts: life {self.life}")
        self._tick(self.life)
        for reader in getattr(self.world, "readers", ()):
            reader.hub_is_back(self)

    def crash(self) -> None:
        self.alive = False
        self.world.note(f"{self.name} dies")

    def revive(self) -> None:
        if not self.alive:
            self.start()

    def _tick(self, life: int) -> None:
        if self.alive and life == self.life:
            if not self._busy:
                self._handle(TurnEnd(self.world.now_us))
            self.world.hold(self.hub.memory)
            self.world.at(TICK_S, lambda: self._tick(life))

    def take(self, place: bytes, frame: bytes) -> None:
        """Take a frame of the connection ``place``, now or when it has time."""
        if not self.frame_s:
            self._take(place, frame)
            return
        self._waiting.append((place, frame))
        if not self._busy:
            self._turn(self.life)

    def _turn(self, life: int) -> None:
        """Take what waits, at most a batch; the next turn begins when that is done."""
        if not self.alive or life != self.life:
            return
        self._busy, took_s = bool(self._waiting), 0.0
        for _ in range(min(len(self._waiting), BATCH_MAX)):
            place, frame = self._waiting.popleft()
            took_s += self.frame_s * (frame != KEPT_ALIVE)
            self._take(place, frame)
        if self._busy:
            self.world.at(took_s, lambda: self._turn(life))

    def _take(self, place: bytes, frame: bytes) -> None:
        if not self._is_connected(place):
            return
        if frame[4] == DELTA_KIND:
            self._perform(map(Broadcast, self.hub.take_delta(place, frame, now=self.world.now)))
        else:
            sender = self._client(place)
            if sender is not None:
                self._handle(MessageReceived(place, self.world.frames.read(frame), sender))
        self._handle(TurnEnd(self.world.now_us))
        self.world.check(self.hub)

    def subscribe(self, place: bytes, frame: bytes) -> None:
        if not self._is_connected(place):
            return
        of_one = self.subscriptions.setdefault(place, {})
        asked, reader = frame[1:], self._client(place)
        if frame[:1] == b"\0":
            of_one.pop(asked, None)
        elif reader is not None and reader.policy is not None:
            of_one[asked] = self.hub.prefixes_for(reader.public, asked)
            self._handle(Subscription(frame, reader.policy))
            return
        else:
            of_one[asked] = prefixes_in(asked)
        self._handle(Subscription(frame))

    def end(self, place: bytes) -> None:
        """End the connection ``place``, and with it its subscriptions."""
        for asked in self.subscriptions.pop(place, ()):
            self._handle(Subscription(b"\0" + asked))

    def _client(self, place: bytes) -> Client | None:
        """Return whose key the connection ``place`` has; None: it is not in the list."""
        if place.startswith(b"c/"):
            return client(ClientRole.CATALOGD)
        one = self._reader(place).client
        return one if not one.policy else self.clients.with_key(one.public)

    def _admit(self, clients: Clients) -> None:
        """Take the list of clients; connections end of those that have changed."""
        changed, self.clients = clients.changed_since(self.clients), clients
        for reader in self.world.readers:
            if reader.client.public in changed:
                reader.lose_hub(self)

    def _is_connected(self, place: bytes) -> bool:
        """Return whether the connection ``place``, whose name ends with a life, is to this life."""
        return self.alive and place.endswith(b"/%d" % self.life)

    def _handle(self, fact: Fact) -> None:
        self._perform(self.hub.handle(fact, now=self.world.now))

    def _perform(self, effects: Iterable[object]) -> None:
        for effect in (*effects, *self.hub.send_some(1 << 20)):
            if isinstance(effect, Broadcast):
                self._broadcast(effect.frame)
            elif isinstance(effect, Admit):
                self._admit(effect.clients)
            else:
                self._send(effect.peer, self.world.frames.write(effect.message))

    def _broadcast(self, frame: bytes) -> None:
        for place, asked in self.subscriptions.items():
            if any(map(frame.startswith, asked.values())):
                reader = self._reader(place)
                self.world.spread((self.name, reader.name), frame, partial(reader.take_data, place))

    def _send(self, place: bytes, frame: bytes) -> None:
        to = self.world.catalogd if place.startswith(b"c/") else self._reader(place)
        self.world.carry((self.name, to.name), place, frame, partial(to.take_hub, place))

    def _reader(self, place: bytes) -> "ReaderProcess":
        return self.world.readers[int(place.split(b"/")[1])]
