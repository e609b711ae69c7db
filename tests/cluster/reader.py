"""A reader of the world: a subscriber's core and its connections."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from topicast.subscriber.config import Settings
from topicast.subscriber.engine.core import Core
from topicast.subscriber.engine.introspection import Facts
from topicast.subscriber.engine.watch import Watches
from topicast.subscriber.protocol import effects
from topicast.subscriber.protocol.commands import Command, Operation
from topicast.subscriber.protocol.effects import Change, Connection
from topicast.tests.cluster.holding import CheckedBudget, CheckedPlanner, check_credit
from topicast.tests.cluster.hub import TICK_S, HubProcess
from topicast.tests.cluster.reports import SimulatedOutbox
from topicast.tests.cluster.workers import Worker
from topicast.tests.keys import client
from topicast.topics.keys.clients import Client
from topicast.topics.policy import Policy
from topicast.topics.turn import Tick
from topicast.topics.wire.header import policy_number, prefixes_in
from topicast.topics.wire.messages.connection import Welcome
from topicast.topics.wire.messages.readers import CatchUp, Credit
from topicast.topics.wire.messages.reports import Write

if TYPE_CHECKING:
    from topicast.tests.cluster.cluster import Cluster

CHANNEL = {Connection.CONTROL: 1, Connection.BULK: 2}
CALL_S = 3.0  # how long a call of the application may wait for another process
LOOK_S = 0.02  # between two looks of a thread whether its write is acknowledged
AMPLE_BYTES = 10_000_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What an application chose for its subscriber."""

    budget_bytes: int = AMPLE_BYTES
    automatic: bool = False
    watching: bool = False
    always: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    max_staleness_s: float | None = None
    driver_facts: Callable[[], Facts] | None = None
    policy: Policy | None = None
    self_audit_s: float = 0.0


class ReaderProcess:
    """A subscriber; ``answered`` is called with each completed command."""

    def __init__(self, world: "Cluster", number: int, setup: Setup) -> None:
        self.world = world
        self.number = number
        self.setup = setup
        self.name = f"reader-{number}"
        self.answered: Callable[[Command[object]], None] = lambda _: None
        self.steps: list[Callable[[Core], None]] = []  # called after each fact
        self.changed: list[Callable[[tuple[Change, ...]], None]] = []
        self.watches = Watches()  # those that its threads have opened
        self.pins_not_held: list[effects.PinsNotHeld] = []
        self.differing: list[effects.AnswerDiffers] = []
        self.refusals: list[effects.Registration] = []
        self.hub = -1
        self.lines = {"hub": 0, "data": 0, "catalog": 0}
        self.data = -1
        self.prefixes: dict[bytes, None] = {}
        self.slow = 0.0
        self.slept_s = 0.0  # by which its clock is ahead of the world's: see ``sleep``
        self.policy = setup.policy  # of its key, as catalogd has it
        self.welcomed_by: int | None = None  # the digest of the policy that the hub has named
        self.arrived: list[Callable[[str, bytes], None]] = []  # called with each frame
        self.began_anew: list[Callable[[], None]] = []
        self.commands: dict[Command[object], None] = {}  # that are not completed
        hubs = len(world.hubs)
        self.settings = Settings(
            statestores=tuple(f"hub-{(number + n) % hubs}" for n in range(hubs)),
            budget_bytes=setup.budget_bytes,
            name=self.name,
            timeout_s=CALL_S,
            max_staleness_s=setup.max_staleness_s,
            automatic=setup.automatic,
            always=setup.always,
            never=setup.never,
            self_audit_s=setup.self_audit_s,
        )
        outbox = SimulatedOutbox(
            driver=b"reader" + number.to_bytes(10, "big"),
            noted=self._note,
            wait=self._wait_in_thread,
        )
        outbox.attach(lambda: self.handle(Tick()))
        self.budget = self._new_budget()
        self.member = Core(
            self.settings,
            new_id=lambda: world.rng.randbytes(16),
            outbox=outbox,
            driver_facts=setup.driver_facts,
            new_budget=lambda _limit, _inbox: self._new_budget(),
            new_planner=partial(CheckedPlanner, counts=world.counts),
        )
        self.member.restrict(setup.policy)
        self.dropped: dict[int, None] = {}  # topics, by hand
        self.workers: list[Worker] = []
        self.noted: Callable[[bytes, Write], None] = lambda _driver, _write: None
        if setup.watching:
            world.at(0.0, lambda: self.handle(effects.Watching(on=True)))
        world.clients[b"s/%d" % number] = self
        world.at(0.0, self._tick)

    def command(self, operation: Operation[T], timeout_s: float) -> Command[T]:
        """Return a command that ``handle`` takes as a fact."""
        command = Command(operation, deadline=self.now + timeout_s)
        self.commands[command] = None
        return command

    @property
    def now(self) -> float:
        """The time by its own clock."""
        return self.world.now + self.slept_s

    def suspend(self, seconds: float) -> None:
        """Be as its machine is when it wakes up: what was under way has been lost long ago."""
        self.slept_s += seconds
        for hub in self.world.hubs:
            self.lose_hub(hub)
        self.lines["catalog"] += 1

    @property
    def client(self) -> Client:
        """Its entry in the list of clients; readers without a policy have one entry in common."""
        if self.policy is None:
            return client()
        return replace(client(), name=self.name, public=f"{self.name:.<40}", policy=self.policy)

    def sees(self, db: str) -> bool | None:
        """Return whether it may see ``db``; None while hubs or it know of another policy."""
        if self.policy is None:
            return True
        is_settled = self.welcomed_by == self.policy.digest
        return self.policy.sees(db) if is_settled else None

    def _new_budget(self) -> CheckedBudget:
        """Return the budget of a core that begins."""
        self.budget = CheckedBudget(self.setup.budget_bytes, counts=self.world.counts)
        return self.budget

    @property
    def subscribed(self) -> set[bytes]:
        """The prefixes that it has subscribed to, those in topic sets included."""
        return {one for subscribed in self.prefixes for one in prefixes_in(subscribed)}

    @property
    def driver(self) -> bytes:
        """What its writes are known by."""
        return self.member.outbox.driver

    def _note(self, driver: bytes, write: Write) -> None:
        self.noted(driver, write)

    def _wait_in_thread(self, is_over: Callable[[], bool], timeout_s: float) -> None:
        """Let the worker that calls this wait."""
        worker = next(one for one in self.workers if one.is_current)
        until = self.world.now + timeout_s
        while not is_over() and self.world.now < until:
            worker.pause(LOOK_S)

    def handle(self, fact: object) -> None:
        self.perform(self.member.handle(fact, now=self.now))
        for step in self.steps:
            step(self.member)
        self.world.check(self.member)

    def perform(self, decided: Iterable[object]) -> None:
        """Perform what the core has decided, or a test."""
        for effect in decided:
            self._perform(effect)

    def _tick(self) -> None:
        if self.member.deadline <= self.now:
            self.handle(Tick())
        self.world.at(TICK_S, self._tick)

    def _perform(self, effect: object) -> None:  # noqa: C901 - dispatch
        match effect:
            case effects.Send(connection=connection, message=message):
                self._look(message)
                self._send(connection, self.world.frames.write(message))
            case effects.Subscribe(prefix=prefix):
                self.prefixes[prefix] = None
                self._subscribe(b"\1" + prefix)
            case effects.Unsubscribe(prefix=prefix):
                self.prefixes.pop(prefix, None)
                self._subscribe(b"\0" + prefix)
            case effects.ConnectHub(address=address):
                self.lines["hub"] += 1
                self.lines["data"] += 1
                self.hub = int(address.removeprefix("hub-"))
                self.data, self.prefixes = -1, {}
            case effects.ConnectData(address=address):
                self.lines["data"] += 1
                self.data, self.prefixes = int(address.removeprefix("data-")), {}
            case effects.ConnectCatalog():
                self.lines["catalog"] += 1
            case effects.Complete(command=command):
                self.commands.pop(command, None)
                command.release()
                self._hand_over(command)
            case effects.Notify(changes=changes):
                self._notify(changes)
            case effects.BeginAnew():
                self._begin_anew()
            case effects.PinsNotHeld():
                self.pins_not_held.append(effect)
            case effects.AnswerDiffers():
                self.differing.append(effect)
            case effects.Registration():
                self.refusals.append(effect)

    def _begin_anew(self) -> None:
        """Restart the core on connections of its own, as the engine's loop does."""
        self.world.note(f"{self.name} begins anew")
        self.world.counts["policies noticed"] += 1
        self.lines = {name: line + 1 for name, line in self.lines.items()}
        self.hub, self.data, self.prefixes = -1, -1, {}
        self.member.restart()
        if self.setup.watching or self.watches:
            self.world.at(0.0, lambda: self.handle(effects.Watching(on=True)))
        for began_anew in self.began_anew:
            began_anew()
        self.watches.lose()
        commands, self.commands = self.commands, {}
        for command in commands:
            command.abort(effects.EngineRestarted("another policy"))
            self._hand_over(command)

    def _notify(self, changes: tuple[Change, ...]) -> None:
        for changed in self.changed:
            changed(changes)
        self.watches.offer(changes)

    def _hand_over(self, command: Command[object]) -> None:
        self.workers = [worker for worker in self.workers if worker.alive]
        if not any(worker.answered(command) for worker in self.workers):
            self.answered(command)

    def _look(self, message: object) -> None:
        if isinstance(message, CatchUp | Credit):
            self.world.counts["credits"] += isinstance(message, Credit)
            check_credit(self.member.subscriptions.replicas, message.stream)

    def _send(self, connection: str, frame: bytes) -> None:
        world = self.world
        if connection in CHANNEL:
            if self.hub < 0:
                return
            hub = world.hubs[self.hub]
            place = (
                f"r/{self.number}/{connection}/{self.lines['hub']}/{hub.number}/{hub.life}".encode()
            )
            world.carry((self.name, hub.name), place, frame, partial(hub.take, place))
            return
        catalogd = world.catalogd
        place = f"s/{self.number}/{connection}/{self.lines['catalog']}/{catalogd.life}".encode()
        way = (self.name, catalogd.name)
        world.carry(way, place, frame, partial(catalogd.take_request, place))

    def _subscribe(self, frame: bytes) -> None:
        if self.data < 0:
            return
        hub = self.world.hubs[self.data]
        place = f"d/{self.number}/{self.lines['data']}/{hub.number}/{hub.life}".encode()
        line = ("subscribe", self.number, self.lines["data"])
        due = self.world.in_order(line, self.world.now + self.world.rng.uniform(0.001, 0.02))
        self.world.at(due - self.world.now, lambda: hub.subscribe(place, frame))

    def hub_is_back(self, hub: HubProcess) -> None:
        """Subscribe again, as ZeroMQ does by itself when it has connected again."""
        if self.data == hub.number:
            for prefix in self.prefixes:
                self._subscribe(b"\1" + prefix)

    def lose_hub(self, hub: HubProcess) -> None:
        """Connect to ``hub`` again, which has ended our connections, as ZeroMQ does by itself."""
        if self.hub == hub.number:
            self.lines["hub"] += 1
        if self.data == hub.number:
            hub.end(f"d/{self.number}/{self.lines['data']}/{hub.number}/{hub.life}".encode())
            self.lines["data"] += 1
            for prefix in self.prefixes:
                self._subscribe(b"\1" + prefix)

    def take_data(self, place: bytes, frame: bytes) -> None:
        _, _, line, number, life = place.decode().split("/")
        hub = self.world.hubs[int(number)]
        if int(line) == self.lines["data"] and int(life) == hub.life:
            self._received(Connection.DATA, frame)

    def take_hub(self, place: bytes, frame: bytes) -> None:
        _, _, connection, line, _, _ = place.decode().split("/")
        if int(line) == self.lines["hub"]:
            self._received(connection, frame)

    def take_service(self, place: bytes, frame: bytes) -> None:
        _, _, connection, line, _ = place.decode().split("/")
        if int(line) == self.lines["catalog"]:
            self._received(connection, frame)

    def _received(self, connection: str, frame: bytes) -> None:
        for look in self.arrived:
            look(connection, frame)
        fact = effects.Received(connection, self.world.frames.read(frame), policy_number(frame))
        if self.slow:
            self.world.at(self.slow, lambda: self._take(fact))
        else:
            self._take(fact)

    def _take(self, fact: effects.Received) -> None:
        if fact.connection == Connection.CONTROL and isinstance(fact.message, Welcome):
            self.welcomed_by = fact.message.policy_digest
        self.handle(fact)
