"""A run: one seed's workload, faults, reads and what they are held against."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from topicast.catalog.model.modes import MODE_STATE_DEFAULT
from topicast.catalog.model.versions import Transaction
from topicast.catalog.publish.publisher import stub_if_large
from topicast.subscriber.engine.core import Core
from topicast.subscriber.protocol.commands import Command
from topicast.tests.cluster.holding import count_held
from topicast.tests.cluster.metastore import TableId
from topicast.tests.cluster.reader import ReaderProcess, Setup
from topicast.tests.cluster.store import NUM_TOPICS
from topicast.tests.cluster.violation import Violation
from topicast.tests.sim.application import Application
from topicast.tests.sim.checkers import Epochs, Incarnations, Moments, Place, Versions
from topicast.tests.sim.drivers import registration
from topicast.tests.sim.leaks import POLICIES, Leaks, change_now_and_then, is_restricted
from topicast.tests.sim.operator import Operator
from topicast.tests.sim.sessions import Session
from topicast.tests.sim.sizes import small
from topicast.tests.sim.trouble import Trouble
from topicast.tests.sim.verdicts import Commits
from topicast.tests.sim.watching import Watcher
from topicast.tests.sim.world import World
from topicast.tests.sim.writes import Written, reported
from topicast.topics.streams.follower import LIVE
from topicast.topics.topic import Entry, Topic
from topicast.topics.wire.messages.reports import Reported

FAULTS_S = 2.0  # of trouble
HEALED_S = 14.0  # until everything must be as the metastore is
STEP_S = 0.1  # between two looks whether it is
OPERATIONS = 18
READS_S = 0.06, 0.4  # between two reads of a thread, at least and at most
CALM_READS_S = 0.03, 0.1
NAMES_BYTES = 3000  # the namespace takes 2809 of them at most, while it says what is wrong
READERS = 2  # of a run
LARGE_EVERY = 4  # runs: in one of them many values are too large for a frame
UNSENDABLE_EVERY, UNSENDABLE_AT_S = 10, 0.5  # runs: in one of them an event cannot be sent
PASSED_S = 30.0  # likewise; until such an event is passed, and everything is read again
UNREADABLE_EVERY, UNREADABLE_AT_S = 10, 0.5  # runs: in one of them a partition cannot be read
SAYS_EVERY = 3  # runs: in one of them a sync compares no names, which would mend what was missed
TELLS_EVERY = 2  # runs: in one of them what events say is applied, else all is read
AUDITS_EVERY, AUDIT_S = 4, 0.2  # runs: in one of them subscribers audit themselves so often
LIMITED_EVERY = 5  # runs: in one of them memory is limited, and content leaves it
THREADS = 2  # of an application: their reads overlap


class Run:
    """One seed from the start to the last comparison."""

    def __init__(self, seed: int, *, watched: bool = False) -> None:
        """``watched``: each subscriber has a watcher, too, and its engine restarts now and then."""
        self.seed = seed
        rng = Random(seed)
        setups = _setups(rng, is_restricted(seed))
        if seed % AUDITS_EVERY == AUDITS_EVERY // 2:
            setups = tuple([replace(one, self_audit_s=AUDIT_S) for one in setups])
        limited = seed % LIMITED_EVERY == LIMITED_EVERY - 1
        self.world = World(rng, setups, limited=limited)
        self.counts: Counter[str] = Counter()
        self.current: dict[int, dict[TableId, float]] = {}
        self.done = False
        self.places: list[dict[TableId, Place]] = []
        self.commits = Commits(self.world.catalogd)
        self.written = Written(self.world, self.counts)
        self._record()
        self.world.metastore.says = seed % SAYS_EVERY == 0
        self.world.metastore.tells = seed % TELLS_EVERY == 0
        self.trouble = Trouble(self.world, self.counts)
        for reader in self.world.readers:
            if reader.policy is not None:
                Leaks(self.world, reader)
        self.threads = [one for process in self.world.readers for one in self._threads(process)]
        watching = self.world.readers if watched else ()
        self.watchers = [Watcher(one, Random(seed), self.counts) for one in watching]
        for watcher in self.watchers:
            self.world.at(0.3, watcher.begin)
        self.world.metastore.race = self._race
        for _ in range(6):
            self.world.metastore.random_write()

    def go(self) -> "Run":
        """Run it.

        Raises:
            Violation: a checker found something; names the seed.
        """
        try:
            with small(lambda: self.world.now, large_values=self.seed % LARGE_EVERY == 1):
                self._go()
        except Exception as exc:
            raise Violation(f"make sim SEED={self.seed}: {type(exc).__name__} {exc}") from exc
        finally:
            for reader in self.world.readers:
                for worker in reader.workers:
                    worker.end()
        return self

    def _go(self) -> None:
        world = self.world
        world.at(0.05, self._write)
        world.at(0.3, world.driver.begin)
        world.at(0.4, self.trouble.begin)
        if self.seed % UNSENDABLE_EVERY == UNSENDABLE_EVERY - 1:
            world.at(UNSENDABLE_AT_S, self._spoil_event)
        if self.seed % UNREADABLE_EVERY == UNREADABLE_EVERY // 2:
            world.at(UNREADABLE_AT_S, self._spoil_partitions)
        world.at(0.6, Operator(world, self.counts).begin)
        for reader in [one for one in world.readers if one.policy is not None]:
            change = partial(change_now_and_then, world, reader, Random(self.seed))
            world.at(0.9, change)
        for thread in self.threads:
            world.at(world.rng.uniform(0.2, 0.5), lambda thread=thread: self._read(thread))
        world.run(world.now + FAULTS_S)
        self.done = True
        self.trouble.heal()
        ends = world.healed + HEALED_S + (PASSED_S if world.metastore.unsendable else 0)
        while (missing := self._missing()) and world.now < ends:
            world.run(world.now + STEP_S)
        assert not missing, missing
        for mirror, reader in zip(world.mirrors, world.readers, strict=True):
            if reader.setup.watching:
                mirror.calm(world.metastore.history, NUM_TOPICS, reader.sees)
        self.counts["operations"] = sum(world.metastore.counts.values())
        for reader in world.readers:
            assert reader.differing == [], "an audit found something, and no checker did"
            audits = reader.member.stats().result
            self.counts["audits"] += audits.answers_audited
            count_held(reader.member, world.counts, now=world.now)
        self.counts += world.counts
        if world.catalogd.catalog is not None:
            self.counts["unloaded"] += world.catalogd.catalog.unloading.unloaded

    def _spoil_event(self) -> None:
        """Let the metastore fail from now on at whatever is to send the newest event."""
        self.world.metastore.unsendable.add(self.world.metastore.last_id)
        self.counts["unsendable"] += 1

    def _spoil_partitions(self) -> None:
        """Let the metastore fail at the first partition of each table, until all is healed."""
        held = self.world.metastore.held.items()
        spoiled = {(table, min(one.parts)) for table, one in held if one.parts}
        self.world.metastore.unreadable |= spoiled
        self.counts["unreadable"] += bool(spoiled)

    def _race(self) -> None:
        if not self.done and self.world.rng.random() < 0.1:
            self.world.metastore.random_write()

    def _write(self) -> None:
        if self.done:
            return
        self.world.metastore.random_write()
        self.world.at(self.world.rng.expovariate(OPERATIONS / FAULTS_S), self._write)

    def _threads(self, process: ReaderProcess) -> list[Application]:
        """Return the threads of an application at a subscriber."""
        metastore = self.world.metastore
        moments, versions = Moments(metastore.history), Versions()
        databases = Moments(metastore.databases_history)
        current, places = {}, {}
        self.current[process.number] = current
        self.places.append(places)
        threads = [
            Application(self.world, process, moments, versions, self.counts, current, places)
            for _ in range(THREADS)
        ]

        def session() -> Session:
            return Session(process, moments, databases, self.commits, self.counts, ())

        for thread in threads:
            thread.session = session

        def answered(command: Command[object]) -> None:
            any(thread.answered(command) for thread in threads)

        def stepped(member: Core) -> None:
            versions.stepped(member)
            self.trouble.stepped(process)
            if asleep := member.answerable():
                raise Violation(f"{len(asleep)} commands have an answer, and nothing woke them")

        process.answered = answered
        process.began_anew.append(versions.begun_anew)
        process.began_anew.append(self.world.mirrors[process.number].begun_anew)
        process.steps.append(stepped)
        return threads

    def _record(self) -> None:
        """Have everything that becomes durable looked at."""
        incarnations, epochs, commits = Incarnations(), Epochs(), self.commits

        def committed(transactions: tuple[Transaction, ...]) -> None:
            incarnations.committed(transactions)
            epochs.committed(self.world.catalogd.store.epoch, transactions)
            commits.committed(transactions)
            for table, version in reported(transactions):
                for mirror in self.world.mirrors:
                    mirror.raised(table, (self.world.catalogd.store.epoch, version))

        def restored() -> None:
            incarnations.discard()
            epochs.discard()
            commits.discard()
            self.written.restored()
            for mirror in self.world.mirrors:
                mirror.restored()

        self.world.catalogd.committed, self.world.catalogd.restored = committed, restored
        self._record_writes()

    def _record_writes(self) -> None:
        """Have everything that is reported of writes looked at."""
        world, written = self.world, self.written

        def answered(peer: bytes, report: Reported) -> None:
            kind, number, *_ = peer.split(b"/")
            life = int(number)
            if kind == b"w":
                written.answered(registration(life), report)
            else:
                written.answered(world.readers[life].driver, report)

        world.catalogd.wrote, world.catalogd.reported = written.committed, answered
        world.driver.noted = written.noted
        for reader in world.readers:
            reader.noted = written.noted
        world.driver.died = written.died

    def _read(self, thread: Application) -> None:
        thread.act(calm=self.done)
        pause_s = self.world.rng.uniform(*(CALM_READS_S if self.done else READS_S))
        self.world.at(pause_s, lambda: self._read(thread))

    def _missing(self) -> str:
        """Say who has not come to what the metastore holds since the trouble ended."""
        world = self.world
        for reader in world.readers:
            for table in world.metastore.history:
                if self.current[reader.number].get(table, 0.0) <= world.healed:
                    return f"{reader.name} has not converged on {'.'.join(table)}"
        if missing := self.written.missing(self.places):
            return missing
        if world.catalogd.store.mode_state != MODE_STATE_DEFAULT:
            return "something that was withheld is not touched yet"
        if missing := next(filter(None, (one.missing() for one in self.watchers)), ""):
            return missing
        return self._unfollowed() or self._unruled() or self._unlike()

    def _unfollowed(self) -> str:
        """Say whose followers are not where catalogd is."""
        catalogd = self.world.catalogd
        for reader in self.world.readers:
            for replica in reader.member.subscriptions.replicas:
                topic, one = replica.topic, replica.current
                place = (catalogd.store.epoch, catalogd.published.topics[topic].version)
                if one.state is not LIVE or (one.epoch, one.version) != place:
                    return f"{reader.name} has not converged in topic {topic}"
        return ""

    def _unruled(self) -> str:
        """Say which driver does not know what operators want."""
        catalog = self.world.catalogd.catalog
        rules = catalog.namespace.rules() if catalog is not None else ()
        unlike = [one.name for one in self.world.readers if one.member.view.rules() != rules]
        return f"{unlike} have not received {rules}" if unlike else ""

    def _unlike(self) -> str:
        """Say which hub does not hold what catalogd does."""
        for hub in self.world.hubs:
            for number, topic in self.world.catalogd.published.topics.items():
                followed = hub.hub.ingest.followed.get(number)
                if followed is None or followed.topic.version != topic.version:
                    return f"{hub.name} has not converged"
                held, theirs = _rows(followed.topic), _rows(topic, large=stub_if_large)
                if self.world.limited:  # then a hub may have stubs
                    stubs = {key: (one[0], None) for key, one in theirs.items()}
                    theirs = {
                        key: stubs[key] if held.get(key) == stubs[key] else one
                        for key, one in theirs.items()
                    }
                if held != theirs:
                    return f"{hub.name} topic {number} differs"
        return ""


def _setups(rng: Random, restricted: bool) -> tuple[Setup, ...]:
    """Return two of: a reader with room for all, one that chooses by use, and one that may.

    ``restricted``: the first of them has a policy.
    """
    found = Setup(), _tight(rng, automatic=True), _tight(rng, automatic=rng.random() < 0.5)
    first, *others = rng.sample(found, READERS)
    return replace(first, policy=POLICIES[0]) if restricted else first, *others


def _tight(rng: Random, *, automatic: bool) -> Setup:
    return Setup(
        budget_bytes=NAMES_BYTES + rng.randrange(4000),
        automatic=automatic,
        watching=rng.random() < 0.5,
        always=rng.choice(((), (), ("a.t", "b.*"), ("*.u",))),
        never=rng.choice(((), (), (), ("*.v",))),
    )


def _same(entry: Entry) -> Entry:
    return entry


def _rows(
    topic: Topic, large: Callable[[Entry], Entry] = _same
) -> dict[bytes, tuple[int, bytes | None]]:
    entries = (large(entry) for group in topic.group_ids() for entry in topic.rows(group))
    return {entry.key: (entry.version, entry.value) for entry in entries}
