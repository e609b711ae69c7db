"""Scenarios: who does what at which second, with nothing left to chance, and what came of it.

    # why
    0.1 metastore create a.t ds=0 ds=1
    2.0 reader-0 read a.t
        pulled a.t whole: rev 2, ds=0 at 2, ds=1 at 2
    3.0 end

A line at the margin is the script, an indented one what came of it: ``run`` returns both, and
``pytest --rewrite`` writes them. Verbs: the methods of Script. The checkers of a run watch. With a
line ``# large values`` no frame holds a value that is a little longer than usual.
"""

from collections import Counter
from collections.abc import Callable

from topicast.catalog.ingest.events.poller import Poll
from topicast.catalog.metastore.port import Read
from topicast.catalog.model.modes import overrides_text, parse_mode
from topicast.catalog.model.versions import Transaction
from topicast.subscriber.client.read_view import ReadView
from topicast.subscriber.client.subscriber import Subscriber
from topicast.subscriber.protocol.commands import Command, Done
from topicast.subscriber.protocol.effects import Watching
from topicast.tests.cluster.catalogd import EPOCH_0, CatalogProcess
from topicast.tests.cluster.cluster import NetworkOrder, Steady
from topicast.tests.cluster.hub import HubProcess
from topicast.tests.cluster.metastore import DBS, State, TableId
from topicast.tests.cluster.reader import ReaderProcess
from topicast.tests.cluster.store import SimStore
from topicast.tests.cluster.violation import Violation
from topicast.tests.cluster.workers import Worker
from topicast.tests.sim.application import Application
from topicast.tests.sim.checkers import Epochs, Incarnations, Moments, Requested, Versions
from topicast.tests.sim.sizes import small
from topicast.tests.sim.world import World
from topicast.topics.errors import StaleMetadata
from topicast.topics.objects.encoding.values import LOADING
from topicast.topics.objects.names import parse_scope
from topicast.topics.topic import FULL, LEVELS, MINIMAL
from topicast.topics.wire.messages.questions import Order

EVER = 1 << 30
LARGE_VALUES = "\n# large values\n"


class Script:
    """One scenario as it runs; each method that does not begin with _ is a verb."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.world = World(Steady(), faults=False)
        for db in DBS:
            self.world.metastore.set_database(db, True)
        incarnations, epochs = Incarnations(), Epochs()

        def committed(transactions: tuple[Transaction, ...]) -> None:
            incarnations.committed(transactions)
            epochs.committed(self.world.catalogd.store.epoch, transactions)

        self.world.catalogd.committed = committed
        self.world.catalogd.restored = incarnations.discard
        self._threads: dict[str, Application] = {}
        self._asking = False
        for process in self.world.readers:
            self._watch(process)

    # -- metastore

    def create(self, _who: str, table: str, *parts: str) -> None:
        """Create a table with partitions; "plain": it has no partition columns."""
        self.world.metastore.create(*_table(table), None if parts == ("plain",) else parts)

    def alter(self, _who: str, table: str) -> None:
        """Change columns, with CASCADE."""
        self.world.metastore.alter(*_table(table))

    def set(self, _who: str, table: str) -> None:
        """Set a parameter."""
        self.world.metastore.set_parameter(*_table(table))

    def delete(self, _who: str, table: str) -> None:
        """Drop a table."""
        self.world.metastore.drop(*_table(table))

    def add(self, _who: str, table: str, *parts: str) -> None:
        """Add partitions."""
        self._partitions(table, parts, "ADD_PARTITION")

    def change(self, _who: str, table: str, *parts: str) -> None:
        """Change partitions."""
        self._partitions(table, parts, "ALTER_PARTITION")

    def remove(self, _who: str, table: str, *parts: str) -> None:
        """Drop partitions."""
        self._partitions(table, parts, "DROP_PARTITION")

    def away(self, _who: str) -> None:
        """Answer nobody."""
        self.world.metastore.away = True

    def back(self, _who: str) -> None:
        """Answer again."""
        self.world.metastore.away = False

    def replace(self, _who: str, last_id: str, *tables: str) -> None:
        """Let another metastore be there, with so many events and these tables."""
        self.world.metastore.replace(int(last_id), [_table(table) for table in tables])

    def name(self, _who: str, uuid: str) -> None:
        """Let what is there have this UUID, from the next connection on."""
        self.world.metastore.known_as = uuid

    def clean(self, _who: str) -> None:
        """Discard every event, and end the connections."""
        self.world.metastore.clean_log()

    def cut(self, _who: str) -> None:
        """Discard the newest event, whose id stays given."""
        self.world.metastore.lose_newest()

    def silent(self, _who: str) -> None:
        """Record no event of what changes from now on."""
        self.world.metastore.logs = False

    def fails(self, _who: str) -> None:
        """Fail from now on at whatever is to send the newest event."""
        self.world.metastore.unsendable.add(self.world.metastore.last_id)

    def spoil(self, _who: str, table: str, *parts: str) -> None:
        """Be unable to read partitions from now on."""
        self.world.metastore.unreadable |= {(_table(table), part) for part in parts}

    def repair(self, _who: str) -> None:
        """Be able to read everything again."""
        self.world.metastore.unreadable.clear()

    def says(self, _who: str) -> None:
        """Let the metastore say whether it records events: a sync compares no names then."""
        self.world.metastore.says = True

    def tells(self, _who: str) -> None:
        """Say that events have all of an object, from the next connection on."""
        self.world.metastore.tells = True

    def records(self, _who: str) -> None:
        """Record events again, and end the connections."""
        self.world.metastore.logs = True
        self.world.metastore.connections += 1

    # -- catalogd and hubs

    def crash(self, who: str) -> None:
        """Die."""
        self._process(who).crash()

    def start(self, who: str) -> None:
        """Start again."""
        self._process(who).start()

    def stall(self, _who: str, table: str) -> None:
        """Send no read of a table to the metastore, from now on."""
        wanted = _table(table)
        self.world.catalogd.hold(
            Read, where=lambda read: any((r.db, r.table) == wanted for r in read.requests)
        )

    def late(self, _who: str) -> None:
        """Send no poll for events to the metastore, from now on."""
        self.world.catalogd.hold(Poll)

    def resume(self, _who: str) -> None:
        """Send what was not sent: the metastore looks now."""
        self.world.catalogd.resume()

    def finds(self, _who: str) -> None:
        """Say what the last check of a connection found, and how many epochs began for it."""
        catalog = self.world.catalogd.catalog
        assert catalog is not None
        self._say(f"catalogd: {catalog.status().metastore_found}")
        self._say(f"epochs begun anew: {self.world.counts['begun anew']}")

    def problem(self, _who: str) -> None:
        """Say why changes of the metastore do not arrive."""
        catalog = self.world.catalogd.catalog
        assert catalog is not None
        problem = catalog.namespace.source_problem()
        self._say(f"problem: {'' if problem is None else problem.text.partition(':')[0]}")

    def passed(self, _who: str) -> None:
        """Say how many events catalogd has passed, and the newest whose effect is published."""
        catalog = self.world.catalogd.catalog
        assert catalog is not None
        counts = catalog.counts
        self._say(f"passed: {counts.events_passed}, gaps: {counts.event_gaps}")
        self._say(f"published up to {catalog.watermark}")

    def save(self, who: str) -> None:
        """Keep a copy of the store, or of the metastore's database."""
        if who == "metastore":
            self.world.metastore.save()
            return
        self.world.catalogd.old = self.world.catalogd.store.copy()

    def restore(self, who: str) -> None:
        """Put the copy in place of it; of the store: before the next start."""
        if who == "metastore":
            self.world.metastore.restore()
            return
        self.world.catalogd.restore(self.world.catalogd.old.copy())

    def wipe(self, _who: str) -> None:
        """Lose the store: the next start begins with an empty store."""
        world = self.world
        world.catalogd.restore(SimStore(epoch=world.now_us + EPOCH_0))

    def forget(self, _who: str, left: str) -> None:
        """Raise the floors, so that so many tombstones of a topic are left."""
        self.world.catalogd.discard_tombstones(int(left))

    def holds(self, _who: str, table: str) -> None:
        """Say what catalogd holds of a table."""
        catalog = self.world.catalogd.catalog
        assert catalog is not None
        value = catalog.tables.value(_table(table))
        state = "nothing" if value is None else "all"
        loading = value is not None and value.partitions == LOADING
        self._say(f"catalogd holds {'a part' if loading else state} of {table}")

    def mode(self, _who: str, name: str = "", overrides: str = "") -> None:
        """Turn the mode; without a name: say which holds."""
        catalogd = self.world.catalogd
        if name:
            catalogd.turn_mode(parse_mode(name, overrides))
        else:
            self._say(f"mode {catalogd.mode.name} {overrides_text(catalogd.mode)}".rstrip())

    def order(self, _who: str, order: str, *arguments: str) -> None:
        """Take what an operator orders."""
        self.world.catalogd.order(Order(request=1, sender="ann", order=order, arguments=arguments))

    def members(self, who: str) -> None:
        """Say what a hub knows of its readers."""
        status = self.world.hubs[int(who.removeprefix("hub-"))].hub.status(now=self.world.now)
        for one in status.subscribers:
            if one.role == "reader":
                known = f"{one.topics} topics, {one.lag_versions} versions behind"
                self._say(f"{who} has {one.name} as {one.state}: {known}")

    # -- readers, as threads: reader-0, reader-0/2

    def read(self, who: str, table: str, part: str = "") -> None:
        """Read a table: whole, its "head" alone, or with one partition."""
        thread = self._thread(who)
        named = part not in ("", "head")
        self._asking = True
        thread.read(_table(table), whole=part != "head", part=part if named else None)
        self._asking = False

    def sync(self, who: str, scope: str = "") -> None:
        """Wait for what is committed by now, of a table, a database, or everything."""
        self._thread(who).sync(parse_scope(scope))

    def join(self, who: str, topic: str, level: str) -> None:
        """Set a topic to a level."""
        self._thread(who).join(int(topic), FULL if level == "full" else MINIMAL)

    def drop(self, who: str, topic: str) -> None:
        """Follow a topic no longer."""
        self._thread(who).drop(int(topic))

    def budget(self, who: str, size: str) -> None:
        """Have so many bytes; said at the start."""
        process = self._thread(who).process
        process.member.subscriptions.replicas.budget.limit_bytes = int(size)

    def prefer(self, who: str, *topics: str) -> None:
        """Follow these topics first, where not all fit that are watched."""
        wanted = frozenset(map(int, topics))
        self._thread(who).process.member.prefer(wanted)

    def unfollowed(self, who: str) -> None:
        """Say of which topics no change arrives, and why."""
        member = self._thread(who).process.member
        topics = sorted(member.view.unfollowed().topics)
        shortage = member.shortage()
        assert isinstance(shortage, Done)
        self._say(f"{who} does not follow {topics}: {shortage.result.reason}".rstrip(": "))

    def plan(self, who: str, *tables: str) -> None:
        """Read several tables as of one moment."""
        process = self._thread(who).process

        def body(subscriber: Subscriber) -> None:
            with subscriber.read_view(*tables) as snapshot:
                for table in tables:
                    self._say(f"{who} plans with {table}: {self._state(snapshot, table)}")
                worker.halt()
                try:
                    snapshot.confirm()
                except StaleMetadata as error:
                    self._say(f"{who} {error}")
                else:
                    self._say(f"{who} all is as it was")

        worker = Worker(process, body)
        process.workers.append(worker)
        worker.begin()

    def confirm(self, who: str) -> None:
        """Look whether what was read last is still so."""
        self._thread(who).process.workers[-1].go()

    def watch(self, who: str) -> None:
        """Listen to changes, from now on."""
        self._thread(who).process.handle(Watching(on=True))

    def notified(self, who: str) -> None:
        """Say which changes wait."""
        watch = self.world.mirrors[self._thread(who).process.number].watch
        while (change := watch.next_within(0)) is not None:
            self._say(f"{who} is notified of {change.object}: {change.kind} ({change.origin})")

    def holds_bytes(self, who: str) -> None:
        """Say what is held, of how much, and what had to go."""
        member = self._thread(who).process.member
        stats = member.stats().result
        held = f"{stats.held_bytes} of {stats.budget_bytes} bytes"
        self._say(f"{who} holds {held}, {stats.evictions} had to go")

    def follows(self, who: str, topic: str) -> None:
        """Say where a topic stands, and whether memory answers for it."""
        member = self._thread(who).process.member
        replica = member.subscriptions.replicas.get(int(topic))
        follower = replica.current if replica is not None else None
        held = member.view.topics.get(int(topic))
        is_open = "open" if held is not None and held.opening is not None else "shut"
        stands = f"{LEVELS[follower.level]} {follower.version}" if follower is not None else "none"
        self._say(f"{who} has topic {topic} at {stands}, {is_open}")

    # -- the network: SRC>DST, the kind of a message or *, and perhaps its topic

    def lose(self, _who: str, way: str, kind: str, topic: str = "", count: str = "") -> None:
        """Lose messages, from now on, or the next ``count`` of them."""
        self._order(way, kind, topic, count, hold=False)

    def hold(self, _who: str, way: str, kind: str, topic: str = "", count: str = "") -> None:
        """Hold messages back, from now on, or the next ``count`` of them."""
        self._order(way, kind, topic, count, hold=True)

    def release(self, _who: str) -> None:
        """Let what is held arrive, and hold nothing more."""
        self.world.mend(hold=True)

    def mend(self, _who: str) -> None:
        """Lose nothing more."""
        self.world.mend(hold=False)

    def end(self) -> None:
        """End here."""

    # -- inside

    def _say(self, text: str) -> None:
        self.said.append(f"    {text}")

    def _process(self, who: str) -> CatalogProcess | HubProcess:
        if who == "catalogd":
            return self.world.catalogd
        return self.world.hubs[int(who.removeprefix("hub-"))]

    def _partitions(self, table: str, parts: tuple[str, ...], event: str) -> None:
        kept = dict.fromkeys(parts, int(event != "DROP_PARTITION"))
        self.world.metastore.set_partitions(event, _table(table), kept, event)

    def _order(self, way: str, kind: str, topic: str, count: str, *, hold: bool) -> None:
        source, _, target = way.partition(">")
        number = int(topic) if topic not in ("", "*") else None
        left = int(count or EVER)
        self.world.orders.append(NetworkOrder((source, target), kind, number, hold=hold, left=left))

    def _watch(self, process: ReaderProcess) -> None:
        """Give an application two threads at a subscriber."""
        moments, versions = Moments(self.world.metastore.history), Versions()
        threads = []
        for number in ("", "/2"):
            name = process.name + number
            counts: Counter[str] = Counter()
            one = Application(self.world, process, moments, versions, counts, {}, {})
            one.said = lambda requested, seen, name=name: self._show(name, requested, seen)
            self._threads[name] = one
            threads.append((name, one))

        def answered(command: Command[object]) -> None:
            for name, thread in threads:
                kind = thread.requested.kind if thread.requested is not None else ""
                if thread.answered(command):
                    if kind == "sync" or thread.counts["reads that failed"]:
                        self._tell(name, command, kind)
                    thread.counts.clear()
                    return

        process.answered = answered
        process.steps.append(versions.stepped)

    def _state(self, snapshot: ReadView, table: str) -> str:
        parts = [f"{p.name} of {p.parameters['rev']}" for p in snapshot.partitions(table)]
        return ", ".join([snapshot.table(table).parameters["rev"], *parts])

    def _thread(self, who: str) -> Application:
        return self._threads[who]

    def _tell(self, name: str, command: Command[object], kind: str) -> None:
        if not isinstance(command.outcome, Done):
            self._say(f"{name} {kind}: {command.outcome}")
        else:
            self._say(f"{name} {kind} is done")

    def _show(self, name: str, requested: Requested, seen: State) -> None:
        source = "from memory" if self._asking else "pulled"
        if seen is None:
            self._say(f"{name} {source} {requested}: there is none")
            return
        parts = "".join(f", {part} of {moment}" for part, moment in seen[1])
        self._say(f"{name} {source} {requested}: {seen[0]}{parts}")


def run(text: str) -> str:
    """Return ``text`` with what comes of it.

    Raises:
        Violation: a checker found something.
    """
    script = Script()
    with small(lambda: script.world.now, large_values=LARGE_VALUES in text):
        began = script.world.now
        for line in text.splitlines():
            if line.startswith(" "):
                continue
            if line and not line.startswith("#"):
                at, *words = line.split()
                script.world.run(began + float(at))
            script.said.append(line)
            if line and not line.startswith("#"):
                _verb(script, words)()
    return "\n".join(script.said) + "\n"


def _verb(script: Script, words: list[str]) -> Callable[[], None]:
    who, verb, rest = (words[0], words[1], words[2:]) if len(words) > 1 else ("", words[0], [])
    act = getattr(script, verb)
    return (lambda: act(who, *rest)) if who else act


def _table(name: str) -> TableId:
    db, _, table = name.partition(".")
    return db, table


__all__ = ["Script", "Violation", "run"]
