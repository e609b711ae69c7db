"""A random walk: a world that loses, delays and restarts, and a reader that never looks away.

Each state of a table has a number of its own, so what a reader sees says when it was true. Seen
states of one table never go back, nor behind what was seen of another table of its topic, and
once nothing is lost any more the last one is seen.
"""

import random

from topicast.subscriber.protocol.channels import Channel
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.subscriber.source import Catalog
from topicast.tests.subscriber.world import World, columns_of
from topicast.topics.entries import FULL, MINIMAL
from topicast.topics.errors import NoSuchObject
from topicast.topics.objects.names import table_key
from topicast.topics.sharding import NAMESPACE
from topicast.topics.wire.messages import Message

TABLES = ("a", "b", "c", "d")
CHANNELS = (Channel.DATA, Channel.CONTROL, Channel.BULK, Channel.SERVICE, Channel.PULLS)


class Walk:
    """One seed's walk."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        catalog = Catalog(2)
        catalog.create_database("shop")
        self.world = World(
            catalog,
            hubs=("hub-0", "hub-1"),
            budget_bytes=20_000,
            automatic=seed % 2 == 1,
            always=("shop.a", "shop.d") if seed % 3 else (),
            never=("shop.d",) if seed % 5 == 0 else (),
        )
        if seed % 4 == 0:
            self.world.withheld.add("a")
        self.world.held_back = self._held_back
        self._history: dict[str, list[str | None]] = {name: [None] for name in TABLES}
        self._since: dict[str, list[int]] = {name: [0] for name in TABLES}  # in order, of all
        self._shown = dict.fromkeys(range(catalog.num_topics), 0)  # by topic, of what was seen
        self._seen = dict.fromkeys(TABLES, 0)
        self._number = 0
        self._loss = 0.0
        self._paused: set[str] = set()
        self._asked: dict[int, str] = {}
        self.reads = 0

    def run(self, steps: int) -> None:
        """Walk, then let the world heal, and look whether the end is seen."""
        for _ in range(steps):
            self._step()
            self._read()
        self._heal()
        for name in TABLES:
            self._see(name, self._history[name][-1], "end")
            if not self._is_pulled(name):
                assert self._look(name) == (self._history[name][-1],), name

    def _step(self) -> None:
        what = self._dice.random()
        world = self.world
        if what < 0.45:
            self._change()
        elif what < 0.65:
            world.pass_time(self._dice.choice([0.05, 0.1, 0.3, 1.0]))
        elif what < 0.72:
            self._loss = self._dice.choice([0.0, 0.0, 0.2, 0.6])
        elif what < 0.82:
            self._paused = {c for c in CHANNELS if self._dice.random() < 0.25}
            self._release()
        elif what < 0.86:
            world.dead = {self._dice.choice([0, 1])} if self._dice.random() < 0.5 else set()
        elif what < 0.89:
            world.catalog.start += 1
        elif what < 0.93:
            kind = self._dice.choice(["pin", "unpin"])
            world.ask(kind, db="shop", table=self._dice.choice(TABLES))
        elif what < 0.94:
            world.ask("drop", topics=(self._dice.randrange(2),))
        elif what < 0.98:
            level = self._dice.choice([MINIMAL, MINIMAL, FULL])
            world.ask("join", topics=(self._dice.randrange(2),), level=level)
        else:
            world.ask("sync")

    def _change(self) -> None:
        catalog, name = self.world.catalog, self._dice.choice(TABLES)
        exists = name in catalog.names["shop"]
        if exists and self._dice.random() < 0.25:
            self._becomes(name, None)
            self.world.publish(*catalog.drop_table("shop", name))
            return
        self._number += 1
        column = f"c{self._number}"
        if not exists:
            deltas = catalog.create_table("shop", name)
            self._becomes(name, "id", column)
            self.world.publish(*deltas, catalog.put_table("shop", name, columns=(column,)))
            return
        self._becomes(name, column)
        self.world.publish(catalog.put_table("shop", name, columns=(column,)))

    def _becomes(self, name: str, *states: str | None) -> None:
        for state in states:
            self._history[name].append(state)
            self._since[name].append(sum(map(len, self._since.values())))

    def _read(self) -> None:
        if self._dice.random() < 0.5:
            name = self._dice.choice(TABLES)
            self.world.member.placement.reads.append(("shop", name, False))
            self._asked[self.world.table(f"shop.{name}")] = name
        for number in self.world.settled:
            if number in self._asked:
                self._see_answer(number, self._asked.pop(number))
        self.world.settled.clear()
        for name in TABLES:
            for value in self._look(name):
                self._see(name, value, "memory")

    def _see_answer(self, number: int, name: str) -> None:
        content = self.world.answers.get(number)
        if isinstance(content, TableSnapshot) and len(content):
            (column,) = columns_of(content, name)
            self._see(name, column, "answer")
        elif isinstance(self.world.errors.get(number), NoSuchObject):
            self._see(name, None, "answer")

    def _look(self, name: str) -> tuple[str | None, ...]:
        """Return what memory says of a table; nothing if it does not answer."""
        try:
            columns = self.world.columns(name)
        except NoSuchObject:
            return (None,)
        return () if columns is None else columns

    def _see(self, name: str, value: str | None, where: str) -> None:
        self.reads += 1
        history, seen = self._history[name], self._seen[name]
        later = [at for at in range(seen, len(history)) if history[at] == value]
        assert later, f"{name}: {where} says {value} after {history[seen]}: {history}"
        self._seen[name] = later[0]
        if value is not None:  # that there is none, the names say
            self._see_beside(name, later, where)

    def _see_beside(self, name: str, places: list[int], where: str) -> None:
        """Look whether a state was true when the newest was that was seen of its topic."""
        since, topic = self._since[name], self.world.catalog.topic("shop", name)
        shown = self._shown[topic]
        fit = [at for at in places if at + 1 == len(since) or since[at + 1] > shown]
        assert fit, f"{name}: {where} says what was over when others were as they were seen"
        self._shown[topic] = max(shown, since[fit[0]])

    def _held_back(self, channel: str, message: Message) -> bool:
        if self._dice.random() < self._loss:
            return True
        return channel in self._paused

    def _release(self) -> None:
        """Deliver what waits on channels that are not paused; what was lost stays lost."""
        kept, self.world.kept = self.world.kept, []
        for channel, message in kept:
            if self._dice.random() >= self._loss:
                self.world.say(channel, message)
        self.world.run()

    def _see_pins(self) -> None:
        """Look whether what is pinned is held, as new as it can be, though nobody has asked."""
        world = self.world
        for name in TABLES:
            exists = name in world.catalog.names["shop"]
            followed = world.member._subscriptions.replicas.level(world.catalog.topic("shop", name))
            settled = followed and world.view.databases() is not None
            if exists and settled and world.member.prefetcher.pins.rules.pinned("shop", name):
                assert world.view.partitions("shop", name) is not None, name
                assert self._look(name) == (self._history[name][-1],), name

    def _is_pulled(self, name: str) -> bool:
        """Tell whether a table that exists need not be held at full: banned, or withheld."""
        rules = self.world.member.prefetcher.pins.rules
        exists = name in self.world.catalog.names["shop"]
        elsewhere = name in self.world.withheld and not rules.pinned("shop", name)
        return exists and (elsewhere or rules.banned(table_key("shop", name)))

    def _heal(self) -> None:
        self._loss, self._paused = 0.0, set()
        self.world.dead.clear()
        self._release()
        self.world.pass_time(8)
        self._see_pins()
        for topic in (0, 1, NAMESPACE):
            self.world.ask("join", topics=(topic,))
        self.world.pass_time(4)
        self.world.member.check()
