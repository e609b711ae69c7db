"""A catalog's core over a metastore in memory, in virtual time; nothing commits but in a list."""

from collections.abc import Callable

from hmsclient.genthrift.hive_metastore.ttypes import Database, Partition, Table

from topicast.catalog.core import Catalog, Settings
from topicast.catalog.facts import Commit, Effect, Fact, MintEpoch, Publish, Requested
from topicast.catalog.ingest.event_window import EventWindow, WindowState
from topicast.catalog.ingest.poller import Poll
from topicast.catalog.ingest.read_threads import perform
from topicast.catalog.ingest.reads import Read, ReadNames
from topicast.catalog.model.lineage import StartRecord
from topicast.catalog.model.versions import Transaction
from topicast.catalog.publish.modes import Policy
from topicast.catalog.serve.port import Reply
from topicast.tests.catalog.fake_metastore import FakeMetastore, make_partition, make_table
from topicast.topics.objects.blocks import decode_block
from topicast.topics.objects.names import table_key
from topicast.topics.sharding import topic_ids
from topicast.topics.topic import Topic
from topicast.topics.wire.messages import Message

NUM_TOPICS = 4
PEER = b"peer"
TURN_S = 0.05


def loaded() -> "Core":
    """Return a core that has read database ``d`` with table ``d.t`` of two partitions."""
    core = Core()
    core.create_database("d")
    core.add(core.create("d", "t", "ds"), "1", "2")
    core.turn(20)
    return core


class Core:
    """The core, the metastore behind it, and everything that left the core."""

    def __init__(
        self,
        metastore: FakeMetastore | None = None,
        *,
        topics: dict[int, Topic] | None = None,
        place: WindowState | None = None,
        uris: str = "",
        **settings: object,
    ) -> None:
        self.metastore = metastore or FakeMetastore()
        self.now = 100.0
        if topics is None:
            topics = {number: Topic() for number in topic_ids(NUM_TOPICS)}
            for topic in topics.values():
                topic.reset(1)
        self.topics = topics
        window = EventWindow(place, now=self.now) if place is not None else None
        record = StartRecord(start=7, epoch=1, versions=(0,) * len(topics))
        self.catalog = Catalog(
            topics,
            starts=(record,),
            window=window,
            settings=Settings(metastore=uris, **settings),
        )
        self.effects: list[Effect] = []
        self.committed: list[Transaction] = []
        self.place: WindowState | None = place
        self.policies: list[Policy] = []
        self.hold: Callable[[Effect], bool] = lambda _effect: False
        self.held: list[Read | Poll | ReadNames] = []

    def turn(self, times: int = 1) -> None:
        """Let time pass and the core decide; orders that are not held are performed at once."""
        for _ in range(times):
            self.now += TURN_S
            for effect in self.catalog.flush(now=self.now, now_us=int(self.now * 1e6)):
                self.effects.append(effect)
                if isinstance(effect, Commit):
                    self.committed += effect.transactions
                    self.place = effect.window
                    self.policies += [effect.policy] if effect.policy else []
                if isinstance(effect, Read | Poll | ReadNames):
                    self.order(effect)
            self.catalog.check()

    def order(self, order: Read | Poll | ReadNames) -> None:
        """Perform ``order`` at once, unless it is to be held."""
        if self.hold(order):
            self.held.append(order)
        else:
            self.tell(perform(self.metastore, order))

    def release(self) -> None:
        """Perform what was held."""
        held, self.held = self.held, []
        for order in held:
            self.tell(perform(self.metastore, order))

    def tell(self, fact: Fact) -> None:
        self.catalog.handle(fact, now=self.now, now_us=int(self.now * 1e6))

    def ask(self, message: Message, peer: bytes = PEER) -> None:
        self.tell(Requested(peer=peer, message=message))

    def replies(self, peer: bytes = PEER) -> list[Message]:
        """Take what was answered so far."""
        found = [e.message for e in self.effects if isinstance(e, Reply) and e.peer == peer]
        self.effects = [e for e in self.effects if not isinstance(e, Reply) or e.peer != peer]
        return found

    def published(self) -> list[Transaction]:
        return [t for e in self.effects if isinstance(e, Publish) for t in e.transactions]

    def minted(self) -> list[int]:
        return [e.at_least for e in self.effects if isinstance(e, MintEpoch)]

    # -- what the metastore's users do

    def create_database(self, db: str) -> None:
        self.metastore.create_database(Database(db, "", f"file:/w/{db}", {}))

    def create(self, db: str, name: str, *keys: str) -> Table:
        table = make_table(db, name, location=f"file:/w/{db}/{name}", keys=keys)
        self.metastore.create_table(table)
        return table

    def add(self, table: Table, *values: str, **parameters: str) -> None:
        self.metastore.add_partitions([part(table, value, **parameters) for value in values])

    # -- what the core holds

    def tables(self, db: str) -> list[str]:
        return [record.name for record in self.catalog.namespace.tables(db)]

    def partitions(self, db: str, name: str) -> list[str]:
        """Return the partition names that are held of a table."""
        _, topic = self.catalog.tables.topic_of((db, name))
        rows = [e for e in topic.rows(table_key(db, name)) if e.key != table_key(db, name)]
        names = [n for e in rows for n in decode_block(e.value or b"", e.version).names]
        return sorted(names)


def part(table: Table, value: str, **parameters: str) -> Partition:
    made = make_partition(table, [value])
    made.parameters = dict(parameters)
    return made
