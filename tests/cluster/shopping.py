"""One application at a cluster with a shop: what most tests of a subscriber need.

The application calls the public ``Subscriber``; hub and catalogd are the real cores, and the
metastore is the shop. Time is virtual: a call returns as soon as the virtual clock has gone far
enough, and nothing happens between two calls unless ``pass_time`` lets it.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from topicast.catalog.core import CatalogSettings
from topicast.catalog.metastore.port import Read
from topicast.catalog.model.modes import MODE_DEFAULT, Mode
from topicast.subscriber.client.subscriber import Subscriber
from topicast.subscriber.protocol import effects
from topicast.subscriber.protocol.effects import Change
from topicast.subscriber.protocol.status import Stats, TopicInfo
from topicast.tests.cluster.catalogd import SETTINGS
from topicast.tests.cluster.cluster import Cluster, NetworkOrder, Way
from topicast.tests.cluster.reader import ReaderProcess, Setup
from topicast.tests.cluster.shop import Shop
from topicast.tests.cluster.store import SimStore
from topicast.tests.cluster.workers import Worker
from topicast.topics.objects.names import parse_table_name, table_name
from topicast.topics.objects.selector import ALL, by_sql
from topicast.topics.objects.tables import Partition, Table
from topicast.topics.topic import table_topic
from topicast.topics.wire.messages.catalog import Pull
from topicast.topics.wire.messages.fields import Message

T = TypeVar("T")
M = TypeVar("M", bound=Message)
PATIENCE_S = 20.0  # virtual: the longest call
STEP_S = 0.01
LOADED_S = 2.0  # virtual: until catalogd has loaded a shop, and the hub has it


class Shopping:
    """A cluster, its shop, and the application of one reader."""

    def __init__(
        self,
        shop: Shop | None = None,
        *,
        num_topics: int = 4,
        hubs: int = 1,
        start: bool = True,
        late: bool = False,
        mode: Mode = MODE_DEFAULT,
        settings: CatalogSettings = SETTINGS,
        **setup: object,
    ) -> None:
        """Build the processes.

        Args:
            shop: The metastore.
            num_topics: Beside the namespace.
            hubs: How many statestoreds.
            start: Return once the subscriber is ready.
            late: The subscriber begins when the hub has all of the shop.
            mode: catalogd's, from the start.
            settings: catalogd's others.
            setup: The fields of a Setup.
        """
        self.shop = shop if shop is not None else Shop()
        made = Setup(**setup)  # type: ignore[arg-type]  # each test names its own
        self.cluster = Cluster(
            setups=() if late else (made,),
            hubs=hubs,
            metastore=self.shop,
            num_topics=num_topics,
            settings=settings,
        )
        self.num_topics = num_topics
        self.sent: list[tuple[Way, Message]] = self.cluster.record()
        self.cluster.catalogd.turn_mode(mode)
        if late:
            self.pass_time(LOADED_S)
            self.cluster.add_reader(made)
        self.reader: ReaderProcess = self.cluster.readers[0]
        self.changes: list[Change] = []
        self.reader.changed.append(self.changes.extend)
        if start:
            self.start()

    def start(self) -> None:
        """Return once the subscriber is ready, and knows the shop."""
        until = self.cluster.now + PATIENCE_S
        ready = self.reader.member.subscriptions.ready
        while not (ready() and self.call(lambda catalog: catalog.databases())):
            assert self.cluster.now < until, "the subscriber does not become ready"
            self.pass_time(0.1)
        self.pass_time(0.5)

    # what the application does

    def call(self, body: Callable[[Subscriber], T], *, wait_s: float = PATIENCE_S) -> T:
        """Return what ``body`` returns, or raise what it raises; time passes as it needs.

        Raises:
            AssertionError: it still waits after ``wait_s``.
        """
        results: list[T] = []
        worker = self.begin(lambda catalog: results.append(body(catalog)))
        until = self.cluster.now + wait_s
        while worker.alive and self.cluster.now < until:
            self.cluster.run(self.cluster.now + STEP_S)
        assert not worker.alive, f"the call still waits after {wait_s} s"
        return results[0]

    def begin(self, body: Callable[[Subscriber], None]) -> Worker:
        """Begin a call in a thread of its own, and return when it waits for the first time."""
        worker = Worker(self.reader, body)
        self.reader.workers.append(worker)
        worker.begin()
        return worker

    def table(self, name: str) -> Table:
        return self.call(lambda catalog: catalog.table(name))

    def columns(self, name: str) -> tuple[str, ...]:
        return tuple(column.name for column in self.table(name).columns)

    def partitions(self, name: str, text: str | None = None) -> tuple[Partition, ...]:
        return self.call(lambda catalog: catalog.partitions(name, text))

    def stats(self) -> Stats:
        return self.call(lambda catalog: catalog.stats())

    def topics(self) -> dict[int, TopicInfo]:
        return {one.id: one for one in self.call(lambda catalog: catalog.topics())}

    def memory(self, name: str) -> tuple[str, ...] | None:
        """Return the columns that memory has of a table; None if the table has to be pulled."""
        db, table = parse_table_name(name)
        content = self.reader.member.view.table(db, table)
        if content is None:
            return None
        return tuple(column.name for column in content.head_of(db, table).table.columns)

    def memory_of_partitions(self, name: str, text: str | None = None) -> tuple[str, ...] | None:
        """Return the partitions that memory has for a filter; None if they have to be pulled."""
        db, table = parse_table_name(name)
        selector = ALL if text is None else by_sql(text)
        content = self.reader.member.view.partitions(db, table, selector)
        return None if content is None else content.partition_names(db, table, selector)

    def pulls(self, name: str = "") -> list[Pull]:
        """Return what the subscriber has pulled, of all tables or of one table."""
        return [p for p in self.messages(Pull) if name in ("", table_name(p.db, p.table))]

    def watch(self) -> None:
        """Have changes collected from now on."""
        self.reader.handle(effects.Watching(on=True))
        self.take_changes()

    def take_changes(self) -> list[tuple[str, str, str]]:
        """Return (object, kind, origin) of the changes since the last call."""
        changes = [(one.object, one.kind, one.origin) for one in self.changes]
        self.changes.clear()
        return changes

    def join(self, *names: str, level: str = "full") -> None:
        self.call(lambda catalog: catalog.join([self.topic(name) for name in names], level))

    def leave(self, *names: str) -> None:
        self.call(lambda catalog: catalog.drop([self.topic(name) for name in names]))

    # what happens around it

    def pass_time(self, seconds: float) -> None:
        self.cluster.run(self.cluster.now + seconds)

    def reshape(self, name: str, *columns: str) -> None:
        """Give a table these columns, and let the change arrive."""
        self.shop.reshape(name, columns)
        self.settle()

    def restart_catalogd(self, store: SimStore | None = None) -> None:
        """Let catalogd start again, perhaps with another store."""
        self.cluster.catalogd.crash()
        if store is not None:
            self.cluster.catalogd.restore(store)
        self.cluster.catalogd.revive()

    def lose_store(self, num_topics: int | None = None) -> None:
        """Let catalogd start again with an empty store, of the next epoch."""
        epoch = self.cluster.catalogd.store.epoch + 1
        self.restart_catalogd(SimStore.of(num_topics or self.num_topics, epoch=epoch))

    def settle(self) -> None:
        """Let every change of the shop arrive."""
        self.pass_time(1.0)

    def topic(self, name: str) -> int:
        return table_topic(*parse_table_name(name), self.num_topics)

    def messages(self, kind: type[M], *, sender: str = "reader-0") -> list[M]:
        """Return the messages of one kind that a process has sent, in order."""
        return [m for (of, _), m in self.sent if of == sender and isinstance(m, kind)]

    def hold(self, sender: str, receiver: str, *kinds: type[Message], count: int = 1 << 30) -> None:
        """Hold messages back on a way until ``release``."""
        self._order(sender, receiver, kinds, hold=True, count=count)

    def lose(self, sender: str, receiver: str, *kinds: type[Message], count: int = 1 << 30) -> None:
        """Lose messages on a way until ``mend``."""
        self._order(sender, receiver, kinds, hold=False, count=count)

    def hold_reads_of(self, table: str) -> None:
        """Let the metastore answer no more reads in which a table of this name is."""
        self.cluster.catalogd.hold(
            Read, where=lambda read: any(one.table == table for one in read.requests)
        )

    def release(self) -> None:
        """Let what is held arrive, and hold nothing back any more."""
        self.cluster.mend(hold=True)
        self.pass_time(0.1)

    def mend(self) -> None:
        """Lose nothing any more."""
        self.cluster.mend(hold=False)

    def alter(
        self,
        kind: type[M],
        change: Callable[[M], Message | tuple[Message, ...]],
        *,
        count: int = 1 << 30,
    ) -> None:
        """Let ``change`` replace the next ``count`` messages of a kind; () loses a message."""
        left = iter(range(count))

        def tap(_way: Way, message: Message) -> Sequence[Message]:
            if not isinstance(message, kind) or next(left, None) is None:
                return (message,)
            changed = change(message)
            return changed if isinstance(changed, tuple) else (changed,)

        self.cluster.taps.append(tap)

    def _order(
        self, sender: str, receiver: str, kinds: Sequence[type], *, hold: bool, count: int
    ) -> None:
        for name in [kind.__name__ for kind in kinds] or ["*"]:
            self.cluster.orders.append(
                NetworkOrder((sender, receiver), name, None, hold=hold, left=count)
            )
