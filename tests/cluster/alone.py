"""catalogd without readers: its metastore is in memory, and peers send what a test orders."""

from dataclasses import replace
from typing import Any, TypeVar

from hmsclient.genthrift.hive_metastore.ttypes import Database, Partition, Table

from topicast.catalog.core import Catalog, CatalogSettings
from topicast.catalog.effects import Effect, Publish, Requested
from topicast.catalog.metastore.port import Read, ReadNames
from topicast.catalog.model.modes import ModeState
from topicast.catalog.model.versions import Commit, OrderRow, Transaction
from topicast.catalog.status import verdict
from topicast.tests.cluster.cluster import Cluster
from topicast.tests.cluster.fake_metastore import FakeMetastore, make_partition, make_table
from topicast.tests.keys import client_for
from topicast.topics.keys.clients import Client
from topicast.topics.objects.encoding.values import decode_block
from topicast.topics.objects.names import table_key
from topicast.topics.streams.sender import SendTo
from topicast.topics.topic import Topic
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import Order

NUM_TOPICS = 4
PEER = b"peer"
M = TypeVar("M")
TURN_S = 0.1  # catalogd takes a turn in that time, if it has anything to do


class Alone(Cluster):
    """One catalogd over a metastore in memory, everything that left its core, and its hubs.

    ``ask`` puts a request of a peer into catalogd's next turn, ``replies`` returns its answers.
    """

    name = "peers"

    def __init__(
        self,
        *,
        hubs: int = 0,
        source: FakeMetastore | None = None,
        num_topics: int = NUM_TOPICS,
        limited: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(
            setups=(),
            hubs=hubs,
            metastore=source or FakeMetastore(),
            num_topics=num_topics,
            settings=CatalogSettings(**{"reads_max": 16, **settings}),
            limited=limited,
        )
        self.clients[b"p/"] = self
        self.effects: list[Effect] = []
        self.answers: list[tuple[bytes, Message]] = []  # with their peers, as they arrived
        self._requests: list[Requested] = []
        self.catalogd.performing.append(self.effects.append)

    @property
    def reasons(self) -> dict[str, str]:
        """What is wrong, by the code of each reason of catalogd's verdict."""
        return {one.code: one.what for one in verdict(self.catalog.status()).reasons}

    # -- time and messages

    def turn(self, times: int = 1) -> None:
        """Let catalogd take in the requests at once, and time pass."""
        for _ in range(times):
            self.wait(TURN_S)

    def step(self) -> None:
        """Let catalogd take one turn, with the requests; no time passes."""
        requests, self._requests = self._requests, []
        self.catalogd.turn(requests)

    def wait(self, seconds: float) -> None:
        """Let catalogd take in the requests, and so much time pass."""
        if self._requests:
            self.step()
        else:
            self.catalogd.wake()
        self.run(self.now + seconds)

    def ask(self, message: Message, peer: bytes = PEER, *, client: Client | None = None) -> None:
        """Let ``peer`` send ``message``; ``client`` None: with a key that may."""
        place = b"p/%s/%d" % (peer, self.catalogd.life)
        sender = client or client_for(message)
        self._requests.append(Requested(peer=place, message=message, client=sender))

    def take_service(self, place: bytes, frame: bytes) -> None:
        """Take an answer of catalogd."""
        self.answers.append((place.split(b"/")[1], self.frames.read(frame)))

    def replies(self, peer: bytes = PEER) -> list[Message]:
        """Take what ``peer`` was answered so far."""
        found = [message for one, message in self.answers if one == peer]
        self.answers = [one for one in self.answers if one[0] != peer]
        return found

    def reply(self, kind: type[M], peer: bytes = PEER) -> M:
        """Take the one answer of ``peer``, which is of this kind."""
        (answer,) = self.replies(peer)
        assert isinstance(answer, kind), answer
        return answer

    def answer_to(
        self, message: Message, kind: type[M], *, turns: int = 1, peer: bytes = PEER
    ) -> M:
        """Ask, let so many turns pass, and take the one answer, which is of this kind."""
        self.ask(message, peer)
        self.turn(turns)
        return self.reply(kind, peer)

    def restart(self, **settings: Any) -> None:
        """End catalogd and start it again over what it has stored, some ``settings`` changed."""
        self.catalogd.crash()
        self.catalogd.settings = replace(self.catalogd.settings, **settings)
        self.catalogd.revive()

    def order(self, order: str, *arguments: str, turns: int = 6) -> dict[str, Any] | Refused:
        """Order something as an operator does, and return the answer."""
        self.ask(Order(request=9, sender="ann@host", order=order, arguments=arguments))
        self.turn(turns)
        (answer,) = self.replies()
        assert isinstance(answer, Inspected | Refused)
        assert answer.request == 9
        return dict(answer.rows) if isinstance(answer, Inspected) else answer  # type: ignore[arg-type]  # of two columns

    # -- what the metastore's users do

    def create_database(self, db: str) -> None:
        self.metastore.create_database(Database(db, "", f"file:/w/{db}", {}))

    def create(self, db: str, name: str, *keys: str) -> Table:
        table = make_table(db, name, location=f"file:/w/{db}/{name}", keys=keys)
        self.metastore.create_table(table)
        return table

    def add(self, table: Table, *values: str, **parameters: str) -> None:
        self.metastore.add_partitions([part(table, value, **parameters) for value in values])

    # -- what catalogd holds, and what has left it

    @property
    def catalog(self) -> Catalog:
        assert self.catalogd.catalog is not None
        return self.catalogd.catalog

    @property
    def topics(self) -> dict[int, Topic]:
        return dict(self.catalogd.published.topics)

    @property
    def commits(self) -> list[Commit]:
        return [effect for effect in self.effects if isinstance(effect, Commit)]

    @property
    def committed(self) -> list[Transaction]:
        return [one for commit in self.commits for one in commit.transactions]

    @property
    def published(self) -> list[Transaction]:
        found = (effect for effect in self.effects if isinstance(effect, Publish))
        return [one for publish in found for one in publish.transactions]

    @property
    def replied(self) -> list[tuple[bytes, Message]]:
        """The answers that have left, and to whom; they may not have arrived."""
        found = (effect for effect in self.effects if isinstance(effect, SendTo))
        return [(reply.peer.split(b"/")[1], reply.message) for reply in found]

    @property
    def mode_states(self) -> list[ModeState]:
        return [commit.mode_state for commit in self.commits if commit.mode_state is not None]

    @property
    def orders_given(self) -> list[OrderRow]:
        return [row for commit in self.commits for row in commit.orders]

    @property
    def reads(self) -> list[Read | ReadNames]:
        """Everything that was requested of the metastore but events."""
        return [effect for effect in self.effects if isinstance(effect, Read | ReadNames)]

    def tables(self, db: str = "d") -> list[str]:
        return [record.name for record in self.catalog.namespace.tables(db)]

    def partitions(self, db: str = "d", name: str = "t") -> list[str]:
        """Return the partition names that are held of a table."""
        _, topic = self.catalog.tables.topic_of((db, name))
        rows = [e for e in topic.rows(table_key(db, name)) if e.key != table_key(db, name)]
        return sorted(n for e in rows for n in decode_block(e.value or b"", e.version).names)

    def is_loaded(self, table: str = "t") -> bool:
        return self.catalog.tables.loaded(("d", table))


def loaded(*tables: str, hubs: int = 0, **settings: object) -> Alone:
    """Return a catalogd that has read ``tables`` of database ``d``, else ``d.t``: ds=1 and ds=2."""
    found = Alone(hubs=hubs, **settings)
    _create(found, tables or ("t",))
    found.turn(20)
    return found


def cold(*tables: str) -> Alone:
    """Return a catalogd that knows the names of these tables, and nothing of their content."""
    found = Alone(load_in_background=False)
    _create(found, tables or ("t",))
    found.metastore.clean_log(found.metastore.current_event_id())
    found.turn(4)
    found.metastore.calls.clear()
    return found


def _create(alone: Alone, tables: tuple[str, ...]) -> None:
    alone.create_database("d")
    for name in tables:
        alone.add(alone.create("d", name, "ds"), "1", "2")


def part(table: Table, value: str, **parameters: str) -> Partition:
    made = make_partition(table, [value])
    made.parameters = dict(parameters)
    return made
