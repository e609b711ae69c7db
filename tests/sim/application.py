"""An application at a subscriber: it asks, and holds each answer against what was so."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from topicast.subscriber.protocol.facts import Answer, AskDrop, AskJoin, AskSync, AskTable, Fail
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.tests.cluster.metastore import PARTS, State, TableId
from topicast.tests.cluster.reader import ReaderProcess
from topicast.tests.cluster.store import NUM_TOPICS
from topicast.tests.cluster.violation import Violation
from topicast.tests.sim.checkers import Asked, Moments, Place, Versions, state_of
from topicast.tests.sim.sessions import TABLES_MAX, Session
from topicast.tests.sim.world import World
from topicast.topics.entries import FULL, MINIMAL
from topicast.topics.errors import NoSuchObject, UsageError
from topicast.topics.sharding import table_topic

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
    said: Callable[[Asked, State], None] = lambda _asked, _seen: None
    session: Callable[[], Session] | None = None
    talks: Session | None = None
    asked: Asked | None = None
    asking: bool = False
    waiting: int = 0

    def act(self, *, calm: bool) -> None:
        """Ask for something, unless an answer is still to come; ``calm``: for what is oldest."""
        rng = self.world.rng
        self.counts["changes heard"] += self.world.mirrors[self.process.number].listen()
        if self.asked is not None or (self.talks is not None and not self.talks.over):
            return
        if calm:
            self.calm()
        elif rng.random() < (0.01 if self.process.setup.automatic else 0.1):
            self.turn(rng.randrange(NUM_TOPICS))
        elif rng.random() < 0.15:
            self.sync()
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
        if not self.process.member._subscriptions.ready():
            return  # nobody has a subscriber before it is
        acts = [partial(self.drop, topic), partial(self.join, topic, rng.choice((MINIMAL, FULL)))]
        rng.shuffle(acts)
        acts[0]()
        if rng.random() < 0.4:
            self.counts["thought better of"] += 1
            self.world.at(rng.uniform(0, 0.1), acts[1])

    def join(self, topic: int, level: int) -> None:
        """Set a topic to a level; nobody waits for it."""
        give_up_at = self.world.now + PATIENCE_S
        self.process.dropped.pop(topic, None)
        self.process.ask(
            lambda n: AskJoin(id=n, topics=(topic,), level=level, give_up_at=give_up_at)
        )

    def drop(self, topic: int) -> None:
        """Follow a topic no longer."""
        self.process.dropped[topic] = None
        self.process.ask(lambda n: AskDrop(id=n, topics=(topic,)))

    def sync(self) -> None:
        """Wait for everything that is committed by now."""
        give_up_at = self.world.now + PATIENCE_S
        self._await("sync", ("", ""), whole=False)
        self.process.ask(lambda n: AskSync(id=n, give_up_at=give_up_at))

    def read(self, table: TableId, *, whole: bool, part: str | None = None) -> None:
        """Read a table: ``whole`` with its partitions, or with ``part`` alone of them."""
        db, name = table
        give_up_at = self.world.now + PATIENCE_S
        asked = self._await("table", table, whole=whole, part=part)
        self.process.member.placement.reads.append((db, name, whole))
        self.asking = True
        self.process.ask(
            lambda n: AskTable(
                id=n, db=db, table=name, selector=asked.selector, give_up_at=give_up_at
            )
        )
        self.asking = False

    def answered(self, effect: Answer | Fail) -> bool:
        """Take an answer, if it is ours, and check it."""
        if effect.id != self.waiting or self.asked is None:
            return False
        asked, self.asked = self.asked, None
        if asked.kind == "sync":
            if isinstance(effect, Answer):
                self.moments.floor = max(self.moments.floor, asked.moment)
                self.counts["syncs"] += 1
            return True
        if isinstance(effect, Fail) and type(effect.error) is UsageError:
            return True  # a filter on a table that has no partition columns, by now
        if isinstance(effect, Fail) and not isinstance(effect.error, NoSuchObject):
            self.counts["reads that failed"] += 1
            return True
        self.counts["reads checked"] += 1
        self.counts["filters checked"] += asked.part is not None
        seen: State = None
        place = 0, 0
        if isinstance(effect, Answer):
            assert isinstance(effect.result, TableSnapshot)
            self._look(asked)
            seen = state_of(asked, effect.result)
            place = self.versions.answered(self.process.member, effect.result)
            self.places[asked.table] = place
        self.said(asked, seen)
        self.world.mirrors[self.process.number].answered(asked, seen, place)
        if self.moments.shown(asked, seen):
            self.current[asked.table] = self.world.now
        return True

    def _look(self, asked: Asked) -> None:
        """An answer that comes at once is memory's, which has nothing of what was dropped."""
        topic = table_topic(*asked.table, NUM_TOPICS)
        self.counts["from memory"] += self.asking
        if self.asking and topic in self.process.dropped:
            raise Violation(f"{asked} is answered from topic {topic}, which was dropped")

    def _await(self, kind: str, table: TableId, *, whole: bool, part: str | None = None) -> Asked:
        self.waiting = self.process.next_id + 1
        self.asked = Asked(kind, table, whole, self.world.metastore.moment, part)
        return self.asked
