"""A world for one member: a hub and a catalogd that do as they are told, in virtual time.

The topics, the streams and all bytes are real; only sockets and clock are not. What travels can
be looked at, lost and held back.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

from topicast.statestore.stub_deltas import minimal
from topicast.subscriber.engine.core import Core, Fact
from topicast.subscriber.fetch.fetcher import TableRequest
from topicast.subscriber.protocol import shell
from topicast.subscriber.protocol.pending import Command, Done
from topicast.subscriber.protocol.shell import Change, Channel
from topicast.subscriber.protocol.status import Stats, TopicInfo
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.subscriber.desk import pulled, serve
from topicast.tests.subscriber.source import Catalog, shop
from topicast.topics.bulk import CREDIT_DEFAULT, Sender, chunks
from topicast.topics.objects.names import table_key
from topicast.topics.objects.selector import ALL, TABLE_ONLY, Selector, by_filter
from topicast.topics.offers import ALL_OFFERED, offered
from topicast.topics.topic import FULL, NAMESPACE, Entry, Topic, group_of, stub
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages import (
    CURRENT,
    DENIED,
    Barrier,
    Cancel,
    CatchUp,
    Credit,
    Delta,
    Heartbeat,
    Hello,
    Join,
    Joined,
    Message,
    Position,
    Pull,
    Pulled,
    TopicState,
    Wanted,
    Welcome,
)

BARRIER_LEAD = encode(Barrier(nonce=bytes(16)))[:4]
CATALOG = "tcp://catalog:26000"


class World:
    """One member, its hubs and its catalogd."""

    def __init__(
        self,
        catalog: Catalog | None = None,
        *,
        hubs: tuple[str, ...] = ("hub-0",),
        budget_bytes: int = 10_000_000,
        max_staleness_s: float | None = None,
        dead: tuple[int, ...] = (),
        catalog_address: str = CATALOG,
        automatic: bool = False,
        **rules: tuple[str, ...],
    ) -> None:
        self.now = 100.0
        self.catalog = catalog if catalog is not None else Catalog()
        ids = count(1)
        self.member = Core(
            hubs,
            budget_bytes=budget_bytes,
            name="test",
            new_id=lambda: next(ids).to_bytes(16, "big"),
            max_staleness_s=max_staleness_s,
            automatic=automatic,
            **rules,
        )
        self.view = self.member.view
        self.hub = -1
        self.hub_id = 77
        self.dead = set(dead)  # hubs that do not answer
        self.seeding: set[int] = set()
        self.prefixes: set[bytes] = set()
        self.sent: list[tuple[str, Message]] = []
        self.answers: dict[int, object] = {}
        self.errors: dict[int, Exception] = {}
        self.settled: list[int] = []  # asks, in the order in which they were answered or failed
        self.changes: list[Change] = []
        self.warnings: list[shell.PinsNotHeld] = []
        self.sizes: dict[int, int] = {}  # what Joined says instead of the truth
        self.deaf: set[str] = set()  # channels whose requests nobody answers
        self.held_back: Callable[[str, Message], bool] = lambda channel, message: False
        self.kept: list[tuple[str, Message]] = []
        self.catalog_address = catalog_address
        self.catalog_at = ""
        self.accepting: bool | None = None  # what catalogd answers to Compare; None: by epoch
        self.age_ms = 0
        self.offers = ALL_OFFERED
        self.withheld: set[str] = set()  # tables of the shop of which only stubs are sent
        self._asks = count(1)
        self._numbers: dict[Command[object], int] = {}
        self._sender = Sender()
        self._inbox: deque[tuple[str, Message]] = deque()
        self.handle(shell.Tick())

    # What a test does

    def ask(self, kind: str, *, give_up_at: float | None = None, **fields: object) -> int:
        """Call an operation of the core; the result is found under the id that is returned."""
        number = next(self._asks)
        if kind == "read":
            fields = {"request": TableRequest(**fields)}
        if kind == "join":
            fields.setdefault("level", FULL)
        operation = partial(getattr(self.member, kind), *fields.values())
        command = Command(operation, deadline=give_up_at or self.now + 10)
        self._numbers[command] = number
        self.handle(command)
        self.run()
        return number

    def table(self, name: str, *, whole: bool = False) -> int:
        db, table = name.split(".")
        return self.ask("read", db=db, table=table, selector=ALL if whole else TABLE_ONLY)

    def partitions(self, name: str, text: str | None = None) -> int:
        db, table = name.split(".")
        return self.ask("read", db=db, table=table, selector=selecting(text))

    def start(self) -> None:
        """Bring the member to readiness."""
        self.pass_time(0.3)
        number = self.ask("ready")
        self.pass_time(0.6)
        assert number in self.answers, (self.errors, self.member._subscriptions.missing())

    def publish(self, *deltas: Delta) -> None:
        for one in deltas:
            full = replace(one, entries=self._shown(one.topic, one.entries))
            for delta in (full, minimal(full)):
                if encode(delta)[:4] in self.prefixes:
                    self.say(Channel.DATA, delta)
        self.run()

    def say(self, channel: str, message: Message) -> None:
        self._inbox.append((channel, message))

    def hear(self, channel: str, message: Message) -> None:
        self.say(channel, message)
        self.run()

    def heartbeat(self) -> None:
        if self.hub in self.dead or encode(self._heartbeat())[:4] not in self.prefixes:
            return
        self.hear(Channel.DATA, self._heartbeat())

    def pass_time(self, seconds: float) -> None:
        """Let time pass in steps of 50 ms, with a heartbeat each 250 ms."""
        for step in range(round(seconds / 0.05)):
            self.now += 0.05
            self.run()
            if step % 5 == 4:
                self.heartbeat()

    def run(self) -> None:
        """Deliver what is under way, and ticks that are due, until nothing moves."""
        for _ in range(10_000):
            if self._inbox:
                channel, message = self._inbox.popleft()
                if self.held_back(channel, message):
                    self.kept.append((channel, message))
                    continue
                self.handle(shell.Received(channel, decode(encode(message))))
            elif self.member.deadline <= self.now:
                self.handle(shell.Tick())
            else:
                sends = self._sender.turn(1 << 20)
                self._inbox.extend((Channel.BULK, send.message) for send in sends)
                if not sends:
                    return
        raise AssertionError("the member never comes to rest")

    def release(self) -> None:
        """Deliver what was held back."""
        self.held_back = lambda channel, message: False
        self._inbox.extend(self.kept)
        self.kept.clear()
        self.run()

    def said(self, kind: type) -> list[Message]:
        return [message for _, message in self.sent if isinstance(message, kind)]

    # What a test looks at

    def columns(self, name: str) -> tuple[str, ...] | None:
        """Return the columns that memory answers for ``shop.name``; None if it does not."""
        content = self.view.table("shop", name)
        return None if content is None else columns_of(content, name)

    def stats(self) -> Stats:
        answer = self.answers[self.ask("stats")]
        assert isinstance(answer, Stats)
        return answer

    def topics(self) -> dict[int, TopicInfo]:
        answer = self.answers[self.ask("topics")]
        assert isinstance(answer, tuple)
        return {info.id: info for info in answer}

    def without(self, name: str) -> int:
        """Drop the topic of ``shop.name``, so that it is pulled."""
        topic = self.catalog.topic("shop", name)
        self.ask("drop", topics=(topic,))
        return topic

    def last_pull(self) -> Pull:
        pull = self.said(Pull)[-1]
        assert isinstance(pull, Pull)
        return pull

    def pulled(self, pull: Pull) -> Pulled:
        """Return what catalogd would answer to ``pull`` now."""
        return pulled(self.catalog, pull)

    # What the world does

    def handle(self, fact: Fact) -> None:
        for effect in self.member.handle(fact, now=self.now):
            self._perform(effect)
        self.member.check()
        assert self.member.view.held_bytes <= self.member._subscriptions.replicas.budget.limit_bytes

    def _perform(self, effect: shell.Effect) -> None:  # noqa: C901 - one branch an effect
        match effect:
            case shell.Send(channel=channel, message=message):
                self.sent.append((channel, message))
                if channel not in self.deaf:
                    self._receive(channel, decode(encode(message)))
            case shell.Subscribe(prefix=prefix):
                assert prefix not in self.prefixes
                self.prefixes.add(prefix)
                if prefix[:4] == BARRIER_LEAD and self.hub not in self.dead:
                    self.say(Channel.DATA, Barrier(nonce=prefix[4:]))
            case shell.Unsubscribe(prefix=prefix):
                self.prefixes.remove(prefix)
            case shell.ConnectHub(index=index):
                self.hub = index
                self.prefixes.clear()
                self._sender = Sender()
            case shell.ConnectData():
                self.prefixes.clear()
            case shell.ConnectCatalog(address=address):
                self.catalog_at = address
            case shell.Complete(command=command):
                number = self._numbers.pop(command)
                self.settled.append(number)
                if isinstance(command.outcome, Done):
                    self.answers[number] = command.outcome.result
                else:
                    self.errors[number] = command.outcome
            case shell.Notify(changes=changes):
                self.changes += changes
            case shell.PinsNotHeld():
                self.warnings.append(effect)

    def _receive(self, channel: str, message: Message) -> None:
        if channel in (Channel.SERVICE, Channel.PULLS):
            if self.catalog_at == self.catalog_address:
                answer = serve(self.catalog, message, accepting=self.accepting)
                if answer is not None:
                    self.say(channel, answer)
        elif self.hub not in self.dead:
            self._serve_hub(channel, message)

    def _serve_hub(self, channel: str, message: Message) -> None:
        match message:
            case Hello():
                self.say(channel, self._welcome())
            case Join(request=request, positions=positions):
                states = tuple(self._state(one) for one in positions)
                epoch, start = self.catalog.epoch, self.catalog.start
                joined = Joined(request=request, epoch=epoch, start=start, topics=states)
                self.say(channel, joined)
            case CatchUp(stream=stream, credit=credit, wanted=wanted):
                assert 0 < credit <= CREDIT_DEFAULT
                catalog = self.catalog
                parts = chunks(
                    stream,
                    wanted,
                    find=self._find,
                    stamp=lambda: (catalog.start, 0),
                    visible=self._shown,
                )
                refused = self._sender.open(b"m", stream, credit=credit, parts=parts)
                if refused is not None:
                    self.say(channel, refused.message)
            case Credit(stream=stream, amount=amount):
                self._sender.credit(b"m", stream, amount)
            case Cancel(stream=stream):
                self._sender.cancel(b"m", stream)

    def _shown(self, topic: int, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """Return what leaves: stubs for tables that are withheld."""
        groups = {table_key("shop", name) for name in self.withheld}
        return tuple(stub(one) if group_of(one.key) in groups else one for one in entries)

    def _find(self, wanted: Wanted) -> Topic:
        return self.catalog.topics[wanted.topic]

    def _state(self, asked: Position) -> TopicState:
        held = self.catalog.topics[asked.topic]
        return TopicState(
            topic=asked.topic,
            level=asked.level,
            answer=CURRENT if offered(self.offers, asked.topic, asked.level) else DENIED,
            version=held.version,
            full_bytes=self.sizes.get(asked.topic, held.held_bytes),
        )

    def _welcome(self) -> Welcome:
        return Welcome(
            protocol=1,
            features=0,
            hub=self.hub_id + self.hub,
            epoch=self.catalog.epoch,
            start=self.catalog.start,
            num_topics=self.catalog.num_topics,
            data_address=f"tcp://hub-{self.hub}:24001",
            catalog_address=self.catalog_address,
            catalog_name="hive",
            heartbeat_ms=250,
            lost_ms=8000,
        )

    def _heartbeat(self) -> Heartbeat:
        catalog = self.catalog
        seeding = self.hub in self.seeding
        return Heartbeat(
            hub=self.hub_id + self.hub,
            epoch=catalog.epoch,
            start=catalog.start,
            sequence=1,
            interval_ms=250,
            sent_us=0,
            watermark=0,
            age_ms=self.age_ms,
            catalog_address=self.catalog_address,
            offers=self.offers,
            versions=() if seeding else catalog.versions(),
            floors=() if seeding else tuple(t.floor for t in catalog.topics.values()),
        )


def started(**settings: object) -> World:
    """Return a world whose member follows the shop."""
    world = World(shop(), **settings)  # type: ignore[arg-type]  # each test names its own
    world.start()
    return world


def large(tables: int = 40) -> Catalog:
    """Return a catalog with strangers in each topic."""
    catalog = shop()
    for number in range(tables):
        catalog.create_table("shop", f"t{number}")
    return catalog


def chooser(catalog: Catalog | None = None, *, room: int = 12_000, **settings: object) -> World:
    """Return a world whose member chooses its levels, with ``room`` beside the names."""
    catalog = catalog or large()
    budget = catalog.live_bytes(NAMESPACE) + room
    world = World(catalog, automatic=True, budget_bytes=budget, **settings)  # type: ignore[arg-type]  # as above
    world.start()
    return world


def read(world: World, name: str, *, times: int = 1, text: str | None = None) -> None:
    """Read a table, or what a filter selects of it, as an application does; pull it if need be."""
    selector = TABLE_ONLY if text is None else by_filter(text)
    world.member.placement.reads.extend([("shop", name, text is not None)] * times)
    if world.view.partitions("shop", name, selector) is None:
        world.ask("read", db="shop", table=name, selector=selector)


def selecting(text: str | None) -> Selector:
    """Return the selector of the partitions that match ``text``, or of all."""
    return ALL if text is None else by_filter(text)


def pulls(world: World, name: str = "") -> list[Pull]:
    """Return what was pulled, of all tables or of one."""
    found = [one for one in world.said(Pull) if isinstance(one, Pull)]
    return [one for one in found if not name or one.table == name]


def columns_of(content: object, name: str) -> tuple[str, ...]:
    """Return the columns of ``shop.name`` in an answer."""
    assert isinstance(content, TableSnapshot)
    head = content.head(table_key("shop", name))
    assert head is not None
    return tuple(column.name for column in head.table.columns)
