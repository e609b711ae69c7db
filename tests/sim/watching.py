"""A watcher: an application that keeps what it has read for as long as its public watch is silent.

    read ──▶ believed ──notified, StaleMetadata, or its topic is left out──▶ doubted ──▶ read again

It reads nothing else again. So once nothing fails any more, what it believes is so only if it was
notified of each change: through kills of hubs and catalogd, and restarts of its engine. A topic is
left out if the application has dropped it, or there is no room for it. What is offered to watches
is held against versions: of one object they rise, and none comes twice.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from topicast.subscriber.client.subscriber import Subscriber
from topicast.subscriber.engine.core import Core
from topicast.subscriber.engine.watch import Watch
from topicast.subscriber.protocol.effects import BeginAnew, Change
from topicast.tests.cluster.metastore import State, TableId
from topicast.tests.cluster.reader import ReaderProcess
from topicast.tests.cluster.violation import Violation
from topicast.tests.cluster.workers import Worker
from topicast.topics.errors import LinkError, NoSuchObject, SourceError, StaleMetadata, UsageError
from topicast.topics.objects.changes import ChangeKind
from topicast.topics.streams.follower import Follower
from topicast.topics.topic import NAMESPACE, table_topic

LOOK_S = 0.05  # between two looks at its watch
RESTART_S = 1.5  # between two restarts of its engine, on average
OF_NAMES = (ChangeKind.CREATED, ChangeKind.DROPPED)


@dataclass(slots=True)
class Watcher:
    """One application of ``process``."""

    process: ReaderProcess
    rng: Random
    counts: Counter[str]
    _believed: dict[TableId, State] = field(default_factory=dict)
    _doubted: dict[TableId, None] = field(default_factory=dict)
    _left_out: set[int] = field(default_factory=set)
    """Topics that were not followed at some time since the last look, though others were."""
    _offered: dict[tuple[str, Follower], tuple[int, int]] = field(default_factory=dict)
    """By object, and the follower of the topic that named it: epoch and version of its change."""

    def begin(self) -> None:
        """Watch from now on, and restart the engine now and then."""
        process = self.process
        process.steps.append(self._stepped)
        process.changed.append(self._on_offered)
        process.began_anew.append(self._offered.clear)
        worker = Worker(process, self._watch)
        process.workers.append(worker)
        worker.begin()
        self._restart_later()

    def missing(self) -> str:
        """Say what it believes that is not so; empty: nothing."""
        process = self.process
        for table, history in process.world.metastore.history.items():
            if not process.sees(table[0]):
                continue
            if table not in self._believed:
                return f"{process.name} has not read {'.'.join(table)}"
            if self._believed[table] != history[-1][1]:
                text = f"{process.name} believes of {'.'.join(table)} {self._believed[table]}"
                return f"{text}, and it is {history[-1][1]}"
        return ""

    def _watch(self, subscriber: Subscriber) -> None:
        worker = next(one for one in self.process.workers if one.is_current)
        watch = self._opened(subscriber, worker)
        self._doubt_all()
        while True:
            self._take(watch)
            self._doubt_left_out()
            for table in [*self._doubted]:
                self._read(subscriber, table)
            worker.pause(LOOK_S)

    def _opened(self, subscriber: Subscriber, worker: Worker) -> Watch:
        """Return its watch; nobody has a subscriber before it is ready."""
        while True:
            with suppress(LinkError):
                if self.process.member.subscriptions.ready():
                    return subscriber.watch()
            worker.pause(LOOK_S)

    def _take(self, watch: Watch) -> None:
        """Doubt what the watch has waiting."""
        try:
            while (change := watch.next_within(0)) is not None:
                db, _, table = change.object.partition(".")
                if table:
                    self._doubted[db, table] = None
                    self.counts["watched changes"] += 1
        except StaleMetadata:
            self.counts["watches lost"] += 1
            self._doubt_all()

    def _doubt_all(self) -> None:
        self._doubted.update(dict.fromkeys(self.process.world.metastore.history))

    def _doubt_left_out(self) -> None:
        left_out, self._left_out = self._left_out, set()
        tables = self.process.world.metastore.history
        self._doubted |= {table: None for table in tables if self._topic(table) in left_out}

    def _read(self, subscriber: Subscriber, table: TableId) -> None:
        """Believe what is answered, unless nothing is."""
        name = ".".join(table)
        del self._doubted[table]
        state: State = None
        try:
            found = subscriber.table(name)
            parts = subscriber.partitions(name) if found.partition_columns else ()
            seen = sorted((one.name, int(one.parameters["rev"])) for one in parts)
            state = int(found.parameters["rev"]), tuple(seen)
        except NoSuchObject:
            pass
        except (LinkError, SourceError, StaleMetadata, UsageError):
            self._doubted[table] = None
            return
        self._believed[table] = state

    def _topic(self, table: TableId) -> int:
        return table_topic(*table, self.process.member.view.num_topics or 1)

    def _stepped(self, member: Core) -> None:
        if member.subscriptions.planned is not None:
            replicas = member.subscriptions.replicas
            self._left_out |= {one for one in range(member.view.num_topics) if one not in replicas}

    def _on_offered(self, changes: tuple[Change, ...]) -> None:
        """Hold versions against those of earlier changes of an object, by the same topic.

        Changes of one object that are offered together are one to whoever watches. A topic that is
        followed anew, or at another level, may begin with a change of all that is in it.
        """
        replicas = self.process.member.subscriptions.replicas
        found: dict[tuple[str, Follower], tuple[int, int]] = {}
        for one in changes:
            db, _, table = one.object.partition(".")
            is_name = one.kind in OF_NAMES or not table
            topic = NAMESPACE if is_name else self._topic((db, table))
            replica = replicas.get(topic)
            if replica is None:
                continue
            follower = replica.current
            at, key = (follower.epoch, one.version), (one.object, follower)
            before = self._offered.get(key, (0, 0))
            if at <= before:
                raise Violation(f"{one} in epoch {at[0]} after {before}")
            found[key] = max(at, found.get(key, at))
        self._offered.update(found)

    def _restart_later(self) -> None:
        def restart() -> None:
            if self.process.world.faults:
                self.counts["engines restarted"] += 1
                self.process.perform((BeginAnew("a test says so"),))
                self._restart_later()

        self.process.world.at(self.rng.expovariate(1 / RESTART_S), restart)
