"""Planning: splits a snapshot version of the catalog into tasks of executors, and makes their key.

    hub ──▶ catalogd: versions ──▶ names as of then ──▶ ranges of keys ──▶ Work, Work, …

The planning runs in a process of Spark's next to the driver, with the driver's key file. Executors
get a key that is computed from the driver's key for the application, and that may only read;
``renewal`` keeps it admitted.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, TypeVar

from ...subscriber.client.conversation import Conversation, catalogd_behind, greet
from ...topics.errors import ConfigError, HistoryGone, LinkError
from ...topics.keys.clients import ClientRole
from ...topics.keys.credential import Credential, credential_text
from ...topics.keys.folder import DRIVER, find_credential
from ...topics.link import Link
from ...topics.objects.encoding.values import decode_names
from ...topics.objects.names import (
    NamesKey,
    TableId,
    group_of,
    key_before,
    names_group,
    parse_namespace_key,
    table_key,
)
from ...topics.topic import NAMESPACE, Entry, table_topic, value_of
from ...topics.wire.messages.answers import NamedFacts, Subscribers
from ...topics.wire.messages.connection import Welcome
from ...topics.wire.messages.questions import (
    A,
    Question,
    ReadCuts,
    ReadDriver,
    ReadHeldTopics,
    ReadLogBounds,
    ReadSubscribers,
    ReadVersions,
)
from .options import EARLIEST, LATEST, SourceOptions, read_options
from .renewal import ApplicationProcess, grant, this_application
from .scanning import (
    ANSWER_S,
    PATIENCE_S,
    FilesOf,
    KeyRange,
    LogRange,
    VersionRange,
    bounded,
    patiently,
    scan,
)
from .snapshot_versions import SnapshotVersion, oldest_version_of, snapshot_version_of
from .views import CHANGES, DATABASES, DRIVERS, EVENTS, FILES, PARTITIONS, SUBSCRIBERS, TOPICS

WORK_BYTES: Final = 4 << 20  # of entries, for one task: about a second
TOPICS_SHOWN_MAX: Final = 3  # in one message
CHANGE_BYTES: Final = 4 << 10  # of one transaction, roughly
LOG_BYTES: Final = 4 << 20  # of the log of changes, whose numbers count bytes, for one task
TABLES_OF_FILES: Final = 500  # for one task: each costs a request of a millisecond or two
TASKS_OF_TOPIC_MAX: Final = 64
TABLES_ALONE_MAX: Final = 16  # read alone: each costs a request, and saves the tables in between
OF_HUBS: Final = (DRIVERS.name, SUBSCRIBERS.name)  # views that a hub answers, and not catalogd
CONNECTED_S: Final = 60.0  # of a stream: then a hub is asked again where catalogd is
BEHIND_BLOCKS: Final = b"\xff"  # after a table's key: all keys of its blocks sort before it
END_OF_DATABASES: Final = b"e"  # keys of databases begin with "d"

P = TypeVar("P")
T = TypeVar("T")
Incarnations = Mapping[TableId, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of keys, and the tables that begin in it, with their incarnations.

    ``cut``: the table, with its incarnation, that begins in the piece before and goes on in this.
    """

    keys: KeyRange
    tables: Incarnations
    cut: tuple[TableId, int] | None = None


Part = Piece | VersionRange | LogRange | FilesOf
"""A part of the work of a view. The view ``changes`` reads the changes of a topic (VersionRange),
or all objects of the topic (Piece) if its changes are not kept any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The input of one task: pieces to read, or ``rows`` that the planning has read."""

    address: str = ""
    credential: str = field(default="", repr=False)
    epoch: int = 0
    pieces: tuple[Part, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()


class ReadPlanner:
    """Plans reads over the connections to a hub and its catalogd that ``planning`` has opened."""

    def __init__(
        self,
        hub: Conversation,
        catalogd: Conversation,
        *,
        welcome: Welcome,
        credential: Credential,
        application: ApplicationProcess,
        patience_s: float,
    ) -> None:
        """``patience_s``: how long a request that fails for a passing reason is repeated."""
        self._hub = hub
        self._catalogd = catalogd
        self._welcome = welcome
        self._credential = credential
        self._application = application
        self._patience_s = patience_s

    def snapshot_version(self) -> SnapshotVersion:
        """Return the present snapshot version."""
        return snapshot_version_of(self._facts(ReadVersions()))

    def entries(self, keys: KeyRange, *, epoch: int) -> Iterator[Entry]:
        """Yield the values in ``keys`` of catalogd's store, sorted by key; raises as ``scan``."""
        return scan(self._catalogd, keys, epoch=epoch)

    def starting(self, options: SourceOptions, usual: str) -> SnapshotVersion:
        """Return the version after which changes are read; ``usual``: if no option says it."""
        if isinstance(options.starting, SnapshotVersion):
            return options.starting
        latest = (options.starting or usual) == LATEST
        versions = self._facts(ReadVersions())
        found = snapshot_version_of(versions) if latest else oldest_version_of(versions)
        return found.beginning if options.latest_state else found

    def bounded(
        self, after: SnapshotVersion, until: SnapshotVersion, entries_max: int
    ) -> SnapshotVersion:
        """Return a version between the two, about ``entries_max`` entries after ``after``.

        Each topic with changes has an equal share, and advances by one transaction at least. A
        topic whose changes are gone advances to ``until``: its present objects are read instead.
        """
        if not _of_one_catalog(after, until):
            return until
        start, end = after.by_topic(), until.by_topic()
        changed = [topic for topic in start if topic != NAMESPACE and start[topic] < end[topic]]
        share = max(1, entries_max // max(1, len(changed)))
        for topic in changed:
            span = VersionRange(topic, start[topic], end[topic])
            with suppress(HistoryGone):
                end[topic] = self._patiently(
                    lambda: bounded(self._catalogd, span, epoch=until.epoch, entries_max=share)  # noqa: B023 - called at once
                )
        return SnapshotVersion(until.epoch, tuple(end.values()))

    def changes(
        self, after: SnapshotVersion, until: SnapshotVersion, options: SourceOptions
    ) -> list[Work]:
        """Return the work of reading all changes after ``after``, up to ``until``.

        If changes of a topic are gone, and ``options`` allow that, all its objects as of ``until``
        are read instead. If ``until`` is gone, too, nothing is read: the next batch begins there.

        Raises:
            HistoryGone: changes are not kept any more; says of which topics and versions.
        """
        oldest = oldest_version_of(self._facts(ReadVersions()))
        if options.fail_on_data_loss:
            self._demand(after, until, oldest)
        if not _of_one_catalog(until, oldest):
            return []
        same = _of_one_catalog(after, until) and not (
            options.latest_state and not any(after.versions)
        )
        start, end = (after if same else until.beginning).by_topic(), until.by_topic()
        named = options.conditions.tables()
        if named is not None:
            topics = {table_topic(*table, until.num_topics) for table in named}
            start = {topic: version for topic, version in start.items() if topic in topics}
        known = oldest.by_topic()
        spans, whole = [], []
        for topic, version in start.items():
            if topic == NAMESPACE or (same and version == end[topic]):
                continue
            if same and known[topic] <= version < end[topic]:
                count = end[topic] - version
                spans.append((VersionRange(topic, version, end[topic]), CHANGE_BYTES * count))
            elif end[topic] >= known[topic]:
                whole.append(KeyRange(topic, end[topic]))
        held = self._held_bytes() if whole else {}
        tables = self._tables_by_topic(self.snapshot_version(), options) if whole else {}
        sized = [
            (Piece(one, tables.get(one.topic, {})), held.get(one.topic, 0))
            for one in whole
            if one.version or one.topic in tables
        ]
        return self._works(until, [*_bundles(spans), *_bundles(sized)])

    def _demand(
        self, after: SnapshotVersion, until: SnapshotVersion, oldest: SnapshotVersion
    ) -> None:
        """Raise HistoryGone unless all changes in ``(after, until]`` are kept."""
        anew = "begin anew with another checkpoint, or go on with failOnDataLoss=false"
        for as_of in (after, until):
            if not _of_one_catalog(as_of, oldest):
                gone, here = _catalog_of(as_of), _catalog_of(oldest)
                raise HistoryGone(f"changes of {gone} are not known: this is {here}; {anew}")
        known, end = oldest.by_topic(), until.by_topic()
        gone_of = [
            f"{topic} (from version {version}, kept from {known[topic]})"
            if version < known[topic]
            else f"{topic} (from version {version}, catalogd is at {end[topic]})"
            for topic, version in after.by_topic().items()
            if topic != NAMESPACE
            and (version < min(known[topic], end[topic]) or version > end[topic])
        ]
        if gone_of:
            shown = ", ".join(gone_of[:TOPICS_SHOWN_MAX])
            more = f" and {more} more" if (more := len(gone_of) - TOPICS_SHOWN_MAX) > 0 else ""
            raise HistoryGone(f"changes of topics {shown}{more} are gone; {anew}")

    def works(self, options: SourceOptions, columns: Sequence[str]) -> list[Work]:
        """Return the work of a view; ``columns``: of rows that the planning itself reads."""
        match options.view:
            case TOPICS.name:
                held = {row["topic"]: row for row in self._facts(ReadHeldTopics()).records()}
                found = self._facts(ReadVersions()).records()
                return [_of_rows([held.get(row["topic"], {}) | row for row in found], columns)]
            case SUBSCRIBERS.name:
                return [_of_rows(self._members().records(), columns)]
            case DRIVERS.name:
                return [_of_rows(self._drivers(), columns)]
            case EVENTS.name:
                ((first, last),) = self._facts(ReadLogBounds()).rows
                bounds = [*range(int(first or 1) - 1, int(last or 0), LOG_BYTES), int(last or 0)]
                spans = ([LogRange(after, until)] for after, until in pairwise(bounds))
                return self._works(self.snapshot_version(), spans)
            case DATABASES.name:
                as_of = self._as_of(options)
                version = as_of.by_topic()[NAMESPACE]
                keys = KeyRange(NAMESPACE, version, until=END_OF_DATABASES)
                return self._works(as_of, [[Piece(keys, {})]])
            case FILES.name:
                as_of = self.snapshot_version()
                names = (table for table, _ in self._names(as_of, options))
                tables = [table for table in names if options.selects(table)]
                size = TABLES_OF_FILES
                some = (tables[at : at + size] for at in range(0, len(tables), size))
                return self._works(as_of, ([FilesOf(tuple(one))] for one in some))
            case CHANGES.name:
                after = self.starting(options, EARLIEST)
                return self.changes(after, self._as_of(options), options)
            case _:
                as_of = self._as_of(options)
                return self._works(as_of, _bundles(self._pieces(as_of, options)))

    def _members(self) -> Subscribers:
        """Return the subscribers that are registered with the connected hub."""
        wanted = ReadSubscribers()
        return self._patiently(lambda: self._hub.inspect(wanted, timeout_s=ANSWER_S))

    def _drivers(self) -> list[dict[str, Any]]:
        """Return the facts of each attached driver that is registered with the connected hub."""
        members = self._members().rows
        readers = [
            one.registration for one in members if one.role == "reader" and one.state != "LOST"
        ]
        answers = self._hub.inspect_readers(ReadDriver, readers, timeout_s=ANSWER_S)
        return [
            {"registration": registration, **dict(answer.rows)}
            for registration, answer in answers.items()
            if isinstance(answer, NamedFacts)
        ]

    def _pieces(
        self, as_of: SnapshotVersion, options: SourceOptions
    ) -> Iterator[tuple[Piece, int]]:
        """Yield the pieces with the selected tables, and roughly how many bytes each holds now."""
        by_topic = self._tables_by_topic(as_of, options)
        held, versions = self._held_bytes(), as_of.by_topic()
        for topic, tables in sorted(by_topic.items()):
            size = held.get(topic, 0)
            cuts = self._cuts(topic, size) if size > 2 * WORK_BYTES else []
            of_table = size // (len(cuts) + 1) // len(tables)
            for piece in _cut(topic, versions[topic], tables, cuts=cuts, narrow=options.narrow):
                if piece.tables or options.view == PARTITIONS.name:
                    yield piece, of_table * len(piece.tables) if not cuts else WORK_BYTES

    def _tables_by_topic(
        self, as_of: SnapshotVersion, options: SourceOptions
    ) -> dict[int, dict[TableId, int]]:
        """Return the selected tables of each topic, with their incarnations."""
        by_topic: dict[int, dict[TableId, int]] = {}
        for table, incarnation in self._names(as_of, options):
            if options.selects(table):
                topic = table_topic(*table, as_of.num_topics)
                by_topic.setdefault(topic, {})[table] = incarnation
        return by_topic

    def _cuts(self, topic: int, size: int) -> list[bytes]:
        """Return the keys at which ``topic``, of ``size`` bytes, is cut for several tasks."""
        every = max(WORK_BYTES, size // TASKS_OF_TOPIC_MAX)
        cuts = ReadCuts(topic=topic, every_bytes=every)
        return [one.key for one in self._facts(cuts).rows]

    def _held_bytes(self) -> dict[int, int]:
        """Return roughly how many bytes each topic holds now."""
        return {one.topic: one.held_bytes or 0 for one in self._facts(ReadHeldTopics()).rows}

    def _as_of(self, options: SourceOptions) -> SnapshotVersion:
        return self.snapshot_version() if options.as_of is None else self._checked(options.as_of)

    def _checked(self, as_of: SnapshotVersion) -> SnapshotVersion:
        if as_of.num_topics != self._welcome.num_topics:
            allowed = f"a snapshot version of a catalog with {self._welcome.num_topics} topics"
            raise ConfigError("snapshot version", str(as_of)[:40], allowed)
        return as_of

    def _names(
        self, as_of: SnapshotVersion, options: SourceOptions
    ) -> Iterator[tuple[TableId, int]]:
        """Yield the tables of databases that may be wanted, with their incarnations."""
        for entry in self._entries_of_names(as_of, options):
            key = parse_namespace_key(entry.key)
            if isinstance(key, NamesKey):
                for record in decode_names(value_of(entry)):
                    yield (key.db, record.name), record.incarnation

    def _entries_of_names(self, as_of: SnapshotVersion, options: SourceOptions) -> Iterator[Entry]:
        for after, until in _name_ranges(options):
            names = KeyRange(NAMESPACE, as_of.by_topic()[NAMESPACE], after, until)
            yield from scan(self._catalogd, names, epoch=as_of.epoch)

    def _works(self, as_of: SnapshotVersion, each: Iterable[Sequence[Part]]) -> list[Work]:
        address, credential = self._welcome.catalog_address, self._executors_credential()
        return [
            Work(address=address, credential=credential, epoch=as_of.epoch, pieces=tuple(pieces))
            for pieces in each
        ]

    def _executors_credential(self) -> str:
        """Have catalogd admit a key for executors; return the credential that has it, as text."""
        own = self._credential
        pair = self._application.pair_of(own)
        self._patiently(lambda: grant(self._catalogd, pair.public))
        observer = ClientRole.OBSERVER
        granted = replace(own, role=observer, pair=pair, hubs=(), policy=None)
        return credential_text(granted)

    def _facts(self, question: Question[A]) -> A:
        return self._patiently(lambda: self._catalogd.inspect(question, timeout_s=ANSWER_S))

    def _patiently(self, call: Callable[[], T]) -> T:
        return patiently(call, patience_s=self._patience_s)


@contextmanager
def planning(
    options: SourceOptions,
    application: ApplicationProcess | None = None,
    *,
    patience_s: float = PATIENCE_S,
) -> Iterator[ReadPlanner]:
    """Connect to the first hub that answers, and to its catalogd, with the driver's key.

    ``application``: the application whose executors read; None: that of this process.
    ``patience_s``: as of ``ReadPlanner``.

    Raises:
        LinkError: no hub answers, or the hub that answers has no catalogd.
        AuthRefused: a server does not admit the key.
        ConfigError: there is no key file.
    """
    credential = find_credential(DRIVER, key_file=options.key_file, environ=os.environ)
    with closing(Link(credential.pair)) as link, ExitStack() as leaving:
        address, hub, welcome = greet(link, options.statestores, credential, timeout_s=ANSWER_S)
        if options.view in OF_HUBS:
            leaving.callback(hub.leave)
        else:
            hub.leave()
        with catalogd_behind(link, welcome, credential, hub=address) as catalogd:
            yield ReadPlanner(
                hub,
                catalogd,
                welcome=welcome,
                credential=credential,
                application=application or this_application(),
                patience_s=patience_s,
            )


class StreamPlanner:
    """Plans the batches of a stream over one connection, and connects anew if that is lost.

    The first call connects. For one thread; ``close`` it.
    """

    def __init__(self, options: SourceOptions, application: ApplicationProcess) -> None:
        """As the arguments of ``planning``."""
        self._options = options
        self._application = application
        self._connection = ExitStack()
        self._planner: ReadPlanner | None = None  # None: not connected
        self._connected_until = 0.0  # in monotonic time

    def plan(self, call: Callable[[ReadPlanner], T]) -> T:
        """Return what ``call`` returns for the planner of a connection that works.

        Raises:
            LinkError: no connection has worked for PATIENCE_S.
            TopicastError: as ``planning`` and ``call``.
        """
        return patiently(lambda: self._call(call))

    def close(self) -> None:
        """Disconnect; the next call connects again."""
        self._planner = None
        self._connection.close()

    def _call(self, call: Callable[[ReadPlanner], T]) -> T:
        if self._planner is None or time.monotonic() >= self._connected_until:
            self.close()
            connecting = planning(self._options, self._application, patience_s=0.0)
            self._planner = self._connection.enter_context(connecting)
            self._connected_until = time.monotonic() + CONNECTED_S
        try:
            return call(self._planner)
        except LinkError:
            self.close()
            raise


def snapshot_version(statestores: str | None = None, *, key_file: str | None = None) -> str:
    """Return the present snapshot version, so that several reads with it as ``asOf`` agree.

    ``statestores``: addresses of hubs; None: TOPICAST_STATESTORES, else this machine's.

    Raises:
        TopicastError: as ``planning``.
    """
    given = {"view": "topics", "statestores": statestores, "keyFile": key_file}
    with planning(read_options(given)) as planner:
        return str(planner.snapshot_version())


def _of_one_catalog(one: SnapshotVersion, other: SnapshotVersion) -> bool:
    """Return whether versions of the two can be compared."""
    return (one.epoch, one.num_topics) == (other.epoch, other.num_topics)


def _catalog_of(as_of: SnapshotVersion) -> str:
    return f"epoch {as_of.epoch} with {as_of.num_topics} topics"


def _of_rows(records: Iterable[Mapping[str, object]], columns: Sequence[str]) -> Work:
    """Return work whose rows are the values of ``columns`` in ``records``."""
    return Work(rows=tuple(tuple(record.get(name) for name in columns) for record in records))


def _name_ranges(options: SourceOptions) -> Iterator[tuple[bytes, bytes]]:
    """Yield bounds, both excluded, of the keys with names of databases that may be wanted."""
    wanted = options.conditions.databases()
    if wanted is None:
        yield names_group(""), b""
        return
    for name in sorted(set(wanted.names)):
        first = names_group(name)
        if wanted.prefix:
            first = first[:-1]
        yield key_before(first), first + b"\xff"


def _cut(
    topic: int, version: int, tables: Incarnations, *, cuts: Sequence[bytes], narrow: bool
) -> Iterator[Piece]:
    """Yield the pieces of a topic that hold ``tables``, cut after each of ``cuts``.

    ``narrow``: tables that are not wanted lie in between, so a few tables get a piece each.
    """
    by_key = sorted((table_key(*table), table) for table in tables)
    alone = narrow and len(by_key) <= TABLES_ALONE_MAX
    for some in [[one] for one in by_key] if alone else [by_key]:
        bounds = [key_before(some[0][0]), some[-1][0] + BEHIND_BLOCKS]
        bounds[1:1] = [key for key in cuts if bounds[0] < key < bounds[1]]
        for after, until in pairwise(bounds):
            begun = {table: tables[table] for key, table in some if after < key <= until}
            group = group_of(after)
            cut = next(((table, tables[table]) for key, table in some if key == group), None)
            if begun or cut:
                last = until + b"\0"  # a range ends before its last key, and ``until`` is in it
                yield Piece(KeyRange(topic, version, after, last), begun, cut)


def _bundles(pieces: Iterable[tuple[P, int]]) -> Iterator[list[P]]:
    """Yield lists of ``pieces``, which come with their bytes, of about WORK_BYTES each."""
    some: list[P] = []
    size = 0
    for piece, takes in pieces:
        if some and size + takes > WORK_BYTES:
            yield some
            some, size = [], 0
        some.append(piece)
        size += takes
    if some:
        yield some
