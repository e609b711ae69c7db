"""What many drivers do to one hub: all join at once, all see a change, the hub dies and is back.

join     from the word, which all get at once, until the last member is ready
change   small changes, each committed -> notified to every driver's watches
restart  the hub is killed and started again: until every topic of every driver is current

A real statestored and real cores of subscribers on real sockets, all topics followed, 200 cores in
a thread: what a driver does beside its core (threads, Spark) is that of its own machine. A
broadcast is decoded once in a thread. Targets are for two cores, which hub and drivers share.
Run: make bench ARGS=tests/bench/bench_members.py; MEMBERS=1000 of as many
"""

import gc
import os
import secrets
import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from multiprocessing.connection import Connection as Pipe
from operator import eq
from typing import Any, Final

from topicast.subscriber.config import Settings
from topicast.subscriber.engine.core import Core
from topicast.subscriber.protocol.effects import (
    AnswerDiffers,
    BeginAnew,
    Complete,
    ConnectCatalog,
    ConnectData,
    ConnectHub,
    Connection,
    Effect,
    Notify,
    PinsNotHeld,
    Received,
    Registration,
    Send,
    Subscribe,
    Trust,
    Unsubscribe,
    Watching,
)
from topicast.tests.bench.bench import DB, Bench
from topicast.tests.bench.crowds import TABLE, Crowd, Stand
from topicast.tests.bench.report import at_most, percentiles, say
from topicast.tests.keys import user_keys
from topicast.topics.backports import assert_never
from topicast.topics.keys.folder import DRIVER
from topicast.topics.link import Link
from topicast.topics.topic import NUM_TOPICS_DEFAULT
from topicast.topics.turn import Tick
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.data import Heartbeat
from topicast.topics.wire.messages.fields import Message

MEMBERS: Final = int(os.environ.get("MEMBERS", "200"))  # each join: 30 to 50 ms of the two cores
OF_A_PROCESS: Final = 200  # five sockets each: ZeroMQ allows a process about 1,000
BUDGET_BYTES: Final = 16_000_000
EVERY_S: Final = 1.0
TURN_S: Final = 0.05
CHUNKS: Final = 4  # of a member in a turn: heartbeats wait for no more
ORDERS_S: Final = 0.02  # between two looks at what the bench orders

JOIN_S_MAX: Final = 60.0
CHANGE_MS_MAX: Final = 1000.0
RESTART_S_MAX: Final = 5.0


@lru_cache(maxsize=8)
def decoded(frame: bytes) -> Message:
    """Decode a broadcast, which all members of a thread receive."""
    return decode(frame)


class Members:
    """The cores of some drivers, and the shell that they share."""

    def __init__(self, hub: str, count: int) -> None:
        self.seen: list[tuple[int, float]] = []  # versions of changes, and when
        self.hubs = [0] * count  # by driver: the id in the last heartbeat
        self._own = user_keys(DRIVER).credential
        self._link = Link(self._own.pair)
        self._hub = hub
        self._cores = [_core(hub, f"driver-{number}") for number in range(count)]
        self._due_at = [0.0] * count  # each core's deadline
        self._chunks: dict[int, deque[bytes]] = {}  # by number: frames that wait for their turn
        self._connected: set[str] = set()
        self._late = list(self._cores)  # those that were not ready when last looked at

    def watch(self) -> None:
        """Let every driver collect changes from now on."""
        for number, core in enumerate(self._cores):
            self._perform(number, core.handle(Watching(on=True), now=time.monotonic()))

    def ready(self) -> bool:
        """Return whether every driver is ready."""
        self._late = [core for core in self._late if not core.subscriptions.ready()]
        return not self._late

    def current(self, since: float, old: Iterable[int]) -> bool:
        """Return whether each topic of every driver was current after ``since``, at no old hub."""
        if any(map(eq, self.hubs, old)):
            return False
        return all(
            core.subscriptions.replicas.agreement.lag_max_s() < core.turn.now - since
            for core in self._cores
        )

    def turn(self, timeout_s: float) -> None:
        """Let the cores handle what has arrived, or is due."""
        wait_s = min(timeout_s, max(min(self._due_at) - time.monotonic(), 0.0))
        facts: dict[int, list[Received | Tick]] = {}
        for name, _, frame, _ in self._link.poll(0.0 if self._chunks else wait_s):
            channel, _, digits = name.partition(" ")
            number = int(digits)
            if channel == Connection.BULK:
                self._chunks.setdefault(number, deque()).append(frame)
                continue
            message = decoded(frame) if channel == Connection.DATA else decode(frame)
            if isinstance(message, Heartbeat):
                self.hubs[number] = message.hub
            facts.setdefault(number, []).append(Received(Connection(channel), message))
        for number, chunks in list(self._chunks.items()):
            frames = [chunks.popleft() for _ in range(min(CHUNKS, len(chunks)))]
            news = facts.setdefault(number, [])
            news += [Received(Connection.BULK, decode(frame)) for frame in frames]
            if not chunks:
                del self._chunks[number]
        now = time.monotonic()
        for number, due_at in enumerate(self._due_at):
            if now >= due_at:
                facts.setdefault(number, []).append(Tick())
        for number, some in facts.items():
            self._handle(number, some)

    def _handle(self, number: int, facts: Sequence[Received | Tick]) -> None:
        core = self._cores[number]
        self._perform(number, core.handle_all(facts, now=time.monotonic()))
        self._due_at[number] = core.deadline

    def _perform(self, number: int, effects: Iterable[Effect]) -> None:  # noqa: C901 - by match
        for effect in effects:
            match effect:
                case Send(connection=channel, message=message):
                    if f"{channel} {number}" in self._connected:
                        self._link.send(f"{channel} {number}", encode(message))
                case Subscribe(prefix=prefix):
                    self._link.subscribe(f"{Connection.DATA} {number}", prefix)
                case Unsubscribe(prefix=prefix):
                    self._link.unsubscribe(f"{Connection.DATA} {number}", prefix)
                case ConnectHub(address=address):
                    self._connect(number, address, Connection.CONTROL, Connection.BULK)
                case ConnectData(address=address):
                    self._connect(number, address, Connection.DATA)
                case ConnectCatalog(address=address):
                    self._connect(number, address, Connection.SERVICE, Connection.PULLS)
                case Notify(changes=changes):
                    now = time.monotonic()
                    self.seen += [
                        (one.version, now) for one in changes if one.object == f"{DB}.{TABLE}"
                    ]
                case Trust():
                    pass  # the servers' keys are not rotated here
                case AnswerDiffers() | BeginAnew() | Complete() | PinsNotHeld() | Registration():
                    raise AssertionError(effect)
                case _:
                    assert_never(effect)

    def _connect(self, number: int, address: str, *channels: Connection) -> None:
        for channel in channels:
            name = f"{channel} {number}"
            if name in self._connected:
                self._link.disconnect(name)
            self._connected.add(name)
            connect = self._link.connect_dealer
            if channel is Connection.DATA:
                connect = self._link.connect_xsub
            is_hub = channel not in (Connection.SERVICE, Connection.PULLS)
            connect(name, address, self._own.hub_key(self._hub) if is_hub else self._own.catalogd)


def _core(hub: str, name: str) -> Core:
    settings = Settings(
        statestores=(hub,),
        budget_bytes=BUDGET_BYTES,
        name=name,
        automatic=False,
        self_audit_s=0.0,
    )
    return Core(settings, new_id=lambda: secrets.token_bytes(16))


def _crowd(hub: str, count: int, pipe: Pipe) -> None:
    members = Members(hub, count)
    pipe.send("made")
    assert pipe.recv() == ("join",)
    members.watch()
    waiting: Any = ("join",)
    old: tuple[int, ...] = ()
    look_at = 0.0
    while True:
        members.turn(TURN_S)
        if time.monotonic() < look_at:
            continue
        look_at = time.monotonic() + ORDERS_S
        waiting = pipe.recv() if pipe.poll() else waiting
        match waiting:
            case ("join",) if members.ready():
                pipe.send(time.monotonic())
            case ("seen", changes) if len(members.seen) >= changes * count:
                pipe.send(members.seen)
            case ("hubs",):
                gc.freeze()  # a driver's own heap is a hundredth of theirs
                old = tuple(members.hubs)
                pipe.send("noted")
            case ("current", since) if members.current(since, old):
                pipe.send(time.monotonic())
            case _:
                continue
        waiting = None


def used_s(stand: Stand, crowds: Iterable[Crowd]) -> dict[str, float]:
    """Return the CPU seconds so far: of the hub's threads, and of all drivers."""
    hub, drivers = stand.hub_used, [crowd.used for crowd in crowds]
    drivers_s = sum(one.own_s + one.zmq_s for one in drivers)
    return {"hub_s": hub.own_s, "hub_zmq_s": hub.zmq_s, "drivers_s": drivers_s}


def measure(stand: Stand) -> None:
    facts = {"members": MEMBERS, "topics": NUM_TOPICS_DEFAULT, "cores": os.cpu_count()}
    crowds = stand.add(OF_A_PROCESS, processes=MEMBERS // OF_A_PROCESS)
    before, began = used_s(stand, crowds), time.monotonic()
    joined_s = max(stand.ask(crowds, "join")) - began
    spent = {name: at - before[name] for name, at in used_s(stand, crowds).items()}
    say("join", facts, spent, at_most(joined_s, JOIN_S_MAX), took_s=joined_s)

    delays = percentiles(stand.delays_ms(crowds, every_s=EVERY_S))
    say("change", facts, delays, at_most(delays["p99_ms"], CHANGE_MS_MAX))

    stand.ask(crowds, "hubs")
    killed_at = time.monotonic()
    drivers_s = used_s(stand, crowds)["drivers_s"]
    stand.kill_hub()
    restarted_s = max(stand.ask(crowds, "current", killed_at)) - killed_at
    after = used_s(stand, crowds)
    after["drivers_s"] -= drivers_s
    reached = at_most(restarted_s, RESTART_S_MAX)
    say("restart", facts, after, reached, all_current_s=restarted_s)


def main(bench: Bench) -> None:
    measure(Stand(bench, _crowd))
