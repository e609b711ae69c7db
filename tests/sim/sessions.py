"""Sessions: what an application does with the public class, each in a thread of its own."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from topicast.subscriber.client.read_view import ReadView
from topicast.subscriber.client.reader import Reader
from topicast.subscriber.client.subscriber import Subscriber
from topicast.tests.cluster.metastore import DBS, PARTS, State, TableId
from topicast.tests.cluster.reader import ReaderProcess
from topicast.tests.cluster.workers import Worker
from topicast.tests.sim.checkers import Moments, Requested
from topicast.tests.sim.drivers import what
from topicast.tests.sim.verdicts import Commits, Verdicts
from topicast.topics.errors import LinkError, NoSuchObject, SourceError, StaleMetadata, UsageError
from topicast.topics.topic import NAMESPACE, Version
from topicast.topics.wire.messages.catalog import Claimed

TABLES_MAX = 3
PATIENCE_S = 3.0


@dataclass(slots=True)
class Session:
    """One conversation; ``moments`` is what the other threads of the application check, too."""

    process: ReaderProcess
    moments: Moments
    databases: Moments
    commits: Commits
    counts: Counter[str]
    tables: tuple[TableId, ...]
    pause_s: float = 0.0
    worker: Worker | None = None
    verdicts: Verdicts | None = None
    least: dict[TableId, int] = field(default_factory=dict)

    def begin(self, kind: str) -> None:
        """Begin to read, to validate, or to list names."""
        body = {
            "reading": self._reading,
            "validate": self._validate,
            "names": self._names,
            "parts": self._parts,
            "writing": self._writing,
        }[kind]

        def talk(subscriber: Subscriber) -> None:
            try:
                body(subscriber)
                self.counts[kind] += 1
            except (NoSuchObject, UsageError):  # or it has no partition columns
                self.counts["read what is not there"] += 1
            except (LinkError, SourceError):
                self.counts["reads that failed"] += 1

        self.worker = Worker(self.process, talk, reader=self._watched_reader())
        self.worker.arrived = self._arrived
        if kind == "names" and self.process.member.view.databases() is not None:
            talk(self.worker.subscriber())  # nothing of it waits
            self.worker.alive = False
            return
        self.process.workers.append(self.worker)
        self.worker.begin()

    @property
    def over(self) -> bool:
        """Whether it has come to its end."""
        return self.worker is None or not self.worker.alive

    def _arrived(self) -> None:
        """Note what is known now: the thread goes on a little later, and so may others."""
        self.least = {table: self.moments.least(table) for table in self.tables}

    def _watched_reader(self) -> type[Reader]:
        """Return a reader whose validations are checked."""
        session = self

        class WatchedReader(Reader):
            def validate(
                self, epoch: int, claims: tuple[Claimed, ...], *, timeout_s: float | None = None
            ) -> Mapping[int, Version]:
                session.verdicts = Verdicts(session.commits, epoch, claims, session.process.sees)
                stale = super().validate(epoch, claims, timeout_s=timeout_s)
                session.counts["claims checked"] += len(claims)
                session.verdicts.answered(stale)
                return stale

        return WatchedReader

    def _reading(self, subscriber: Subscriber) -> None:
        least = {table: self.moments.least(table) for table in self.tables}
        snapshot = subscriber.read_view(*map(".".join, self.tables))
        seen = {table: _seen(snapshot, ".".join(table)) for table in self.tables}
        self._confirmed(seen, least)
        self._pause()
        least = {table: self.moments.least(table) for table in self.tables}
        try:
            snapshot.confirm()
        except StaleMetadata:
            self.counts["moved since"] += 1
        else:
            self._confirmed(seen, least)
            self.counts["confirmed"] += 1

    def _confirmed(self, seen: dict[TableId, State], least: dict[TableId, int]) -> None:
        assert self.verdicts is not None
        self.verdicts.agrees(seen)
        for table, state in seen.items():
            requested = Requested("reading", table, whole=True, moment=0)
            self.moments.answered(requested, state, least=least[table])

    def _validate(self, subscriber: Subscriber) -> None:
        seen: dict[TableId, State] = {}
        known: list[tuple[str, int]] = []
        epoch = self.process.member.view.topics[NAMESPACE].reached[0]
        for table in self.tables:
            self._arrived()
            found = subscriber.table(".".join(table))
            seen[table] = int(found.parameters["rev"]), ()
            requested = Requested("table", table, whole=False, moment=0)
            self.moments.answered(requested, seen[table], least=self.least[table])
            known.append((found.full_name, found.version))
        self._pause()
        bounds = {table: self.moments.least(table) for table in self.tables}
        stale = subscriber.validate(known)
        self.counts["stale claims"] += len(stale)
        assert self.verdicts is not None
        for table, state in seen.items():  # of another epoch versions mean nothing
            if ".".join(table) not in stale and self.verdicts.epoch == epoch:
                requested = Requested("table", table, whole=False, moment=0)
                self.moments.answered(requested, state, least=bounds[table])

    def _names(self, subscriber: Subscriber) -> None:
        before = {db: self.process.sees(db) for db in DBS}
        known = subscriber.databases()
        for db in [one for one in DBS if before[one] and self.process.sees(one)]:
            seen: State = (0, ()) if db in known else None
            self.databases.answered(Requested("exists", (db, ""), whole=False, moment=0), seen)
        for db in known:
            try:
                tables = subscriber.tables(db)
                subscriber.database(db)
            except NoSuchObject:
                continue
            for table in self.tables:
                if table[0] == db:
                    seen = (0, ()) if table[1] in tables else None
                    self.moments.answered(Requested("exists", table, whole=False, moment=0), seen)

    def _parts(self, subscriber: Subscriber) -> None:
        for table in self.tables:
            name = ".".join(table)
            self._arrived()
            listed = subscriber.partition_names(name)
            seen: State = (0, tuple((one, 0) for one in listed))
            requested = Requested("listed", table, whole=True, moment=0)
            self.moments.answered(requested, seen, least=self.least[table])
            self._pause()
            picked = sorted(listed[:1] + PARTS[2:4])
            self._arrived()
            found = subscriber.partitions(name, names=picked)
            seen = (0, tuple((p.name, int(p.parameters["rev"])) for p in found))
            requested = Requested("picked", table, whole=True, moment=0, part=" ".join(picked))
            self.moments.answered(requested, seen, least=self.least[table])

    def _writing(self, subscriber: Subscriber) -> None:
        wanted, rng = what(self.process.world), self.process.world.rng
        if rng.random() < 0.3:
            reported = subscriber.report_write(
                wanted, overwritten=rng.random() < 0.3, wait_s=PATIENCE_S
            )
        else:
            writing = subscriber.write_intent(wanted, [rng.choice(PARTS)])
            self._pause()
            writing.end(failed=rng.random() < 0.2)
            reported = writing.wait(PATIENCE_S)
        self.counts["writes waited for"] += reported

    def _pause(self) -> None:
        assert self.worker is not None
        self.worker.pause(self.pause_s)


def _seen(snapshot: ReadView, name: str) -> State:
    parts = snapshot.partitions(name)
    some = snapshot.partitions(name, f"ds = '{PARTS[0][3:]}'") if parts else ()
    assert some == tuple(p for p in parts if p.name == PARTS[0])
    found = sorted((p.name, int(p.parameters["rev"])) for p in parts)
    return int(snapshot.table(name).parameters["rev"]), tuple(found)
