"""An application at a subscriber: it requests, and compares each answer with what was so."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from topicast.subscriber.fetch.fetcher import PartitionRequest
from topicast.subscriber.protocol.commands import Command, Done, Operation
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.cluster.metastore import PARTS, State, TableId
from topicast.tests.cluster.reader import ReaderProcess
from topicast.tests.cluster.store import NUM_TOPICS
from topicast.tests.cluster.violation import Violation
from topicast.tests.sim.checkers import Moments, Place, Requested, Versions, state_of
from topicast.tests.sim.sessions import TABLES_MAX, Session
from topicast.tests.sim.world import World
from topicast.topics.errors import NoSuchObject, NotVisible, UsageError
from topicast.topics.objects.names import EVERYTHING, Scope
from topicast.topics.topic import FULL, MINIMAL, NONE, table_topic

PATIENCE_S = 3.0


@dataclass(slots=True)
class Application:
    """One thread of it: one question after the other. Threads of one process share checkers."""

    world: World
    process: ReaderProcess
    moments: Moments
    versions: Versions
    counts: Counter[str]
    current: dict[TableId, float]  # when an answer was last as the metastore is
    places: dict[TableId, Place]  # the data version of the last answer
    said: Callable[[Requested, State], None] = lambda _requested, _seen: None
    session: Callable[[], Session] | None = None
    talks: Session | None = None
    requested: Requested | None = None
    asking: bool = False
    waiting: Command[object] | None = None
    sight: object = None  # what the subscriber might see when it was requested

    def act(self, *, calm: bool) -> None:
        """Ask for something, unless an answer is still to come; ``calm``: for what is oldest."""
        rng = self.world.rng
        self.counts["changes received"] += self.world.mirrors[self.process.number].listen()
        if self.requested is not None or (self.talks is not None and not self.talks.over):
            return
        if calm:
            self.calm()
        elif rng.random() < (0.01 if self.process.setup.automatic else 0.1):
            self.turn(rng.randrange(NUM_TOPICS))
        elif rng.random() < 0.15:
            self.sync(self._scope())
        elif self.session is not None and rng.random() < 0.4:
            self.talk()
        else:
            table = rng.choice(list(self.world.metastore.history))
            whole = rng.random() < 0.7
            part = rng.choice(PARTS) if whole and rng.random() < 0.4 else None
            self.read(table, whole=whole, part=part)

    def calm(self) -> None:
        """Read what was as it is the longest time ago; seldom what has been since all is calm."""
        tables = self.world.metastore.history
        oldest = min(tables, key=lambda table: self.current.get(table, 0.0))
        if self.current.get(oldest, 0.0) <= self.world.healed or self.world.rng.random() < 0.2:
            self.read(oldest, whole=True)

    def talk(self) -> None:
        """Use the public class for a while."""
        rng = self.world.rng
        assert self.session is not None
        self.talks = self.session()
        tables = list(self.world.metastore.history)
        self.talks.tables = tuple(rng.sample(tables, rng.randint(1, TABLES_MAX)))
        self.talks.pause_s = rng.uniform(0, 0.3)
        self.talks.begin(
            rng.choice(("reading", "reading", "reading", "validate", "names", "parts", "writing"))
        )

    def turn(self, topic: int) -> None:
        """Join a topic, or drop it, and perhaps think better of it a moment later."""
        rng = self.world.rng
        if not self.process.member.subscriptions.ready():
            return  # nobody has a subscriber before it is
        acts = [partial(self.drop, topic), partial(self.join, topic, rng.choice((MINIMAL, FULL)))]
        rng.shuffle(acts)
        acts[0]()
        if rng.random() < 0.4:
            self.counts["thought better of"] += 1
            self.world.at(rng.uniform(0, 0.1), acts[1])

    def join(self, topic: int, level: int) -> None:
        """Set a topic to a level; nobody waits for it."""
        self.process.dropped.pop(topic, None)
        self._call(partial(self.process.member.join, (topic,), level))

    def drop(self, topic: int) -> None:
        """Follow a topic no longer."""
        self.process.dropped[topic] = None
        self._call(partial(self.process.member.join, (topic,), NONE))

    def sync(self, scope: Scope = EVERYTHING) -> None:
        """Wait for what is committed by now in ``scope``."""
        self._await("sync", scope, whole=False)
        operation = partial(self.process.member.sync, scope, within_s=PATIENCE_S)
        self._call(operation, waiting=True)

    def _scope(self) -> Scope:
        """Return everything, a database or a table; without dice, so that seeds stay the same."""
        moment, tables = self.world.metastore.moment, list(self.world.metastore.history)
        db, table = tables[moment % len(tables)]
        return (EVERYTHING, Scope(db), Scope(db, table))[moment % 3]

    def read(self, table: TableId, *, whole: bool, part: str | None = None) -> None:
        """Read a table: ``whole`` with its partitions, or with ``part`` alone of them."""
        db, name = table
        requested = self._await("table", table, whole=whole, part=part)
        self.process.member.note_read(db, name, whole=whole)
        self.asking = True
        request = PartitionRequest(db, name, requested.selector)
        self._call(partial(self.process.member.read, request), waiting=True)
        self.asking = False

    def answered(self, command: Command[object]) -> bool:
        """Take a completed command, if it is ours, and check its result."""
        if command is not self.waiting or self.requested is None:
            return False
        outcome = command.outcome
        requested, self.requested = self.requested, None
        if requested.kind == "sync":
            if isinstance(outcome, Done):
                self.moments.synced(Scope(*requested.table), requested.moment)
                self.counts["syncs"] += 1
            return True
        if type(outcome) is UsageError:
            return True  # a filter on a table that has no partition columns, by now
        sight = self.process.sees(requested.table[0])
        if sight is not True or self.sight is not True:
            self._unseen(requested, outcome, sight)
            return True
        if isinstance(outcome, NotVisible):
            raise Violation(f"{requested}: {outcome}")
        if not isinstance(outcome, Done | NoSuchObject):
            self.counts["reads that failed"] += 1
            return True
        self.counts["reads checked"] += 1
        self.counts["filters checked"] += requested.part is not None
        seen: State = None
        place = 0, 0
        if isinstance(outcome, Done):
            assert isinstance(outcome.result, TableSnapshot)
            self._look(requested)
            seen = state_of(requested, outcome.result)
            place = self.versions.answered(self.process.member, outcome.result)
            self.places[requested.table] = place
        self.said(requested, seen)
        self.world.mirrors[self.process.number].answered(requested, seen, place)
        if self.moments.answered(requested, seen):
            self.current[requested.table] = self.world.now
        return True

    def _unseen(self, requested: Requested, outcome: object, sight: bool | None) -> None:
        """Take an answer about what may not be seen, or might not a moment ago."""
        if sight is False and self.sight is False:
            if isinstance(outcome, Done):
                raise Violation(f"{requested} is answered, and may not be seen")
            self.counts["not visible"] += isinstance(outcome, NotVisible)
            if isinstance(outcome, NoSuchObject):
                self.current[requested.table] = self.world.now

    def _look(self, requested: Requested) -> None:
        """An answer that comes at once is memory's, which has nothing of what was dropped."""
        topic = table_topic(*requested.table, NUM_TOPICS)
        self.counts["from memory"] += self.asking
        if self.asking and topic in self.process.dropped:
            raise Violation(f"{requested} is answered from topic {topic}, which was dropped")

    def _await(
        self, kind: str, table: TableId, *, whole: bool, part: str | None = None
    ) -> Requested:
        self.requested = Requested(kind, table, whole, self.world.metastore.moment, part)
        self.sight = self.process.sees(table[0])
        return self.requested

    def _call(self, operation: Operation[object], *, waiting: bool = False) -> None:
        command = self.process.command(operation, PATIENCE_S)
        if waiting:
            self.waiting = command
        self.process.handle(command)
