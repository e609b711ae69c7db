"""VersionLog: catalogd's topics, the versions that it assigns, and what the store makes durable.

    transaction ──▶ topics (in memory) ──▶ pending ──take──▶ the store's Commit ──▶ publish

Invariant: a topic's version grows by one with each transaction; exactly the pending transactions
are not in the store. None of them leaves the process before the commit has returned.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...topics.clock import Clock
from ...topics.objects.changes import ChangeKind
from ...topics.objects.names import TableId, group_of
from ...topics.topic import Entry, Topic
from ...topics.wire.messages.reports import FileFacts
from .folders import FolderChanges
from .modes import ModeState
from .window_state import WindowState


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """A line of the history: what became of one object.

    ``object`` is ``db``, ``db.table`` or ``db.table/partition name``; ``before`` the version it
    had, 0 if there was none. The store adds the rest from the transaction and its commit.
    """

    object: str
    kind: ChangeKind
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """A line of the history: an operator's order. ``object``: what it is for, or the new mode.

    ``sender`` is what the client says of itself, ``key`` the name of the key that it has proved;
    the key is for the log alone.
    """

    sender: str
    key: str
    order: str
    object: str
    at_us: int


WriteId = tuple[bytes, int]  # a driver, and the number that it gave to its write


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRow:
    """A write that a driver reported: an intent while ``open``, else done as of ``version``.

    ``driver`` and ``number`` are its key. ``object``: a table or a path.
    """

    driver: bytes
    number: int
    object: str
    partitions: tuple[str, ...]
    open: bool
    at_us: int
    topic: int = 0
    version: int = 0


class WriterRow(NamedTuple):
    """A version of a topic, and the driver whose report has raised the topic to it."""

    topic: int
    version: int
    driver: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """Who holds the lease of ``table``: an id of 16 bytes, and ``owner``, its name for people."""

    table: TableId
    holder: bytes
    owner: str
    lease_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """The known files of ``table`` in one incarnation, as of ``revision``.

    ``facts`` replace those of the same partition, then the ``removed`` are deleted. With ``anew``
    everything that was known before is deleted first. ``as_of``, ``until``, ``last`` and ``whole``
    are those of the message Sweep, which came at ``at_us``.
    """

    table: TableId
    incarnation: int
    revision: int
    anew: bool = False
    facts: tuple[FileFacts, ...] = ()
    removed: tuple[str, ...] = ()
    as_of: int = 0
    until: str = ""
    last: bool = False
    whole: bool = False
    at_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The changes of one topic in ``(from_version, to_version]``, all or none of them.

    All ``entries`` have ``to_version``; a PREFIX deletes what was there before, and nothing of
    its own transaction. ``source``: SOURCE_* of topics/wire/messages/data.
    """

    topic: int
    from_version: int
    to_version: int
    entries: tuple[Entry, ...]
    source: int
    at_us: int
    changes: tuple[ChangeRow, ...] = ()

    def check(self) -> None:
        """Assert that the versions of the transaction and of its entries agree."""
        assert 0 <= self.from_version < self.to_version
        for entry in self.entries:
            assert entry.version == self.to_version, entry.key
            assert max(entry.schema_version, entry.data_version) <= entry.version, entry.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Effect: make this durable; what depends on it leaves only afterwards.

    Attributes:
        window: The events that are covered; None: there are none.
        transactions: Those of a topic follow each other, and follow what is stored, without a gap.
        orders: Lines of the history.
        mode_state: Takes the place of the stored mode; None: it stays.
        writes: Reported by drivers; they replace those of the same driver and number.
        finished: The writes to delete then.
        writers: The drivers whose reports have raised versions of ``transactions``.
        leases: Take the place of all that are stored; None: they stay.
        sweeps: What was found of files.
        folders: Where the data of what the transactions write lies; None: where it lay.
    """

    window: WindowState | None
    transactions: tuple[Transaction, ...] = ()
    orders: tuple[OrderRow, ...] = ()
    mode_state: ModeState | None = None
    writes: tuple[WriteRow, ...] = ()
    finished: tuple[WriteId, ...] = ()
    writers: tuple[WriterRow, ...] = ()
    leases: tuple[LeaseRow, ...] | None = None
    sweeps: tuple[SweepRow, ...] = ()
    folders: FolderChanges | None = None

    @property
    def touched(self) -> tuple[int, ...]:
        """The topics that it changes, for a trace."""
        return tuple(dict.fromkeys(one.topic for one in self.transactions))


class OpenTransaction:
    """The next transaction of one topic: written as its ``with`` ends, unless that raises.

    No entries, no transaction.
    """

    __slots__ = ("_log", "changes", "entries", "source", "topic", "version")

    def __init__(self, log: "VersionLog", topic: int, source: int) -> None:
        self.topic = topic
        self.version = log.topics[topic].version + 1  # of all its entries
        self.source = source
        self.entries: list[Entry] = []
        self.changes: list[ChangeRow] = []  # for the history
        self._log = log

    def __enter__(self) -> "OpenTransaction":
        return self

    def __exit__(self, raised: object, *_: object) -> None:
        if self.entries and raised is None:
            self._log.write(self)

    def add(self, entries: Iterable[Entry]) -> None:
        """Write ``entries``, which have ``version``, behind those that were added."""
        self.entries += entries

    def note(self, name: str, kind: ChangeKind, before: int) -> None:
        """Write a line of the history: what becomes of the object ``name``."""
        self.changes.append(ChangeRow(object=name, kind=kind, before=before))


class VersionLog:
    """The topics of one catalogd, and the transactions that the store does not have yet."""

    def __init__(self, topics: dict[int, Topic], clock: Clock) -> None:
        """``clock``: as of when transactions are written."""
        self.topics = topics  # by ``topic_ids``
        self._clock = clock
        self._pending: list[Transaction] = []  # in the order of their writes

    def versions(self) -> tuple[int, ...]:
        """Return the version of each topic, by ``topic_ids``."""
        return tuple(topic.version for topic in self.topics.values())

    def transaction(self, topic: int, *, source: int) -> OpenTransaction:
        """Begin the next transaction of ``topic``; no two of one topic are open at once."""
        return OpenTransaction(self, topic, source)

    def write(self, one: OpenTransaction) -> None:
        """Write what ``one`` has."""
        topic, entries = self.topics[one.topic], tuple(one.entries)
        assert one.version == topic.version + 1, "another transaction of this topic was open"
        topic.file(entries)
        topic.version = one.version
        self._pending.append(
            Transaction(
                topic=one.topic,
                from_version=one.version - 1,
                to_version=one.version,
                entries=entries,
                source=one.source,
                at_us=self._clock.now_us,
                changes=tuple(one.changes),
            )
        )

    @property
    def pending(self) -> Sequence[Transaction]:
        """The transactions to be committed, in the order in which they were written."""
        return self._pending

    def take(self) -> tuple[Transaction, ...]:
        """Remove and return what is to be committed."""
        pending, self._pending = tuple(self._pending), []
        return pending

    def check(self) -> None:
        """Assert every invariant."""
        for topic in self.topics.values():
            topic.check()
        for transaction in self._pending:
            transaction.check()
            assert transaction.to_version <= self.topics[transaction.topic].version
            assert all(group_of(entry.key) for entry in transaction.entries)
