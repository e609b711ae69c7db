"""The port to the metastore: its events, the objects that they make dirty, reads, and calls.

    RawEvent ──decoded──▶ Dirty… ──ordered──▶ Read ──calls of a Metastore──▶ ReadDone | ReadFailed

Objects come back lossless: the Thrift struct's own bytes (binary protocol, up to and including
its STOP), sliced out of the reply, so that unknown fields survive. Implementations:
``hms.Hms`` on a real metastore, ``tests/cluster/fake_metastore.py`` in memory; the same behaviours
run on both (``tests/catalog/metastore/test_port.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final, Protocol

from ...topics.objects.metastore_facts import ColumnStatistics, Function
from ...topics.objects.names import TableId

TABLES_PER_CALL_MAX: Final = 100  # measured: 100 to 200 a call is where round trips stop mattering
EVENTS_OF_ID_MAX: Final = 16  # that concurrent writers of Hive 2.3 gave one id
LISTED_DATABASES_MAX: Final = 100  # in one listing of names: 0.3 s, with types 2 s
PARTITIONS_PER_CALL_MAX: Final = 1_000  # measured: 10,000 in 477 ms; 5,000 a call gain 6 % more
COMPARING: Final = 0  # the number of reads that are only compared; the loader's begin at 1
DIGEST_BYTES: Final = 16
TRIED: Final = ("2.3", "3.1", "4.0", "4.1", "4.2")  # releases of Hive that the tests run
SAYS_NOTHING: Final = "3.0"  # what every release before 4 says of itself


def untried(release: str) -> str:
    """Return what to say of a metastore of ``release``; empty if it was tried, or is not known."""
    if not release or release.startswith(tuple(f"{one}." for one in TRIED)) or release in TRIED:
        return ""
    return (
        f"the metastore is Hive {release}, which was not tried ({', '.join(TRIED)} were): events "
        "of types that are not known have what they name read again whole"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEvent:
    """One notification as the metastore sent it; its id alone does not identify it.

    ``digest``: 16 bytes that differ between events of one id. ``size``: the characters that were
    sent as its message. ``catalog``: empty if it is the catalog that is followed; the metastore's
    log has the events of all catalogs. ``at_s``: when, by the metastore's clock, in seconds since
    1970; nothing that follows events depends on it.
    """

    id: int
    type: str
    db: str
    table: str
    message: str
    message_format: str
    catalog: str = ""
    at_s: int = field(default=0, compare=False)
    digest: bytes = field(init=False, repr=False)
    size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        digest = blake2b(digest_size=DIGEST_BYTES)
        for part in (self.type, self.db, self.table, self.message):
            encoded = part.encode(errors="surrogatepass")
            digest.update(len(encoded).to_bytes(8, "big"))
            digest.update(encoded)
        object.__setattr__(self, "digest", digest.digest())
        object.__setattr__(self, "size", len(self.message))

    def with_message(self, message: str, message_format: str) -> "RawEvent":
        """Return the same event, of which so much is left to be decoded."""
        made = replace(self, message=message, message_format=message_format)
        object.__setattr__(made, "digest", self.digest)
        object.__setattr__(made, "size", self.size)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyDatabase:
    """A database was created, altered or dropped."""

    db: str
    degraded: bool = False


Said = Mapping[str, object] | str
"""An object as an event has it: Thrift's JSON, decoded or not."""
KEPT: Final = ""
"""Said of an object that the event has not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """An object in an event: as it is after the event, and as it was before.

    ``after`` None: it is gone. ``before`` None: the event does not say; else it may be of a
    partition that had another name, which is ``was``.
    """

    after: Said | None
    before: Said | None = None
    was: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyTable:
    """A table changed.

    ``whole``: its partitions must be read again, too. ``dropped``: an incarnation of it ended
    (it may exist again). ``data``: the data in its files changed. ``degraded``: not decoded.
    ``content``: of its own struct, if the event has it and nothing else of it changed.
    """

    db: str
    table: str
    whole: bool = False
    dropped: bool = False
    data: bool = False
    degraded: bool = False
    content: Content | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyPartitions:
    """Partitions of a table were added, altered or dropped.

    ``contents``: of each of ``names``, if the event has them; else empty.
    """

    db: str
    table: str
    names: tuple[str, ...]
    data: bool = False
    contents: tuple[Content, ...] = field(default=(), compare=False, repr=False)


Dirty = DirtyDatabase | DirtyTable | DirtyPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """The part of a read that concerns one table.

    ``obj``: the table's own struct. ``whole``: its partitions if they are few, else only their
    names. ``names``: these partitions. ``listed``: with ``whole`` only the names, however few.
    ``keys``: its partition columns, as its struct said when it was read; empty: not known.
    """

    db: str
    table: str
    obj: bool
    whole: bool
    names: tuple[str, ...]
    listed: bool = False
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """The result of a read of one table. ``thrift`` None: it is gone, or was not requested.

    ``names``: of all partitions; None if they were not requested or the table is gone.
    ``partitions``: those that were read, by name; ``whole``: they are all.
    """

    thrift: bytes | None = None
    names: tuple[str, ...] | None = None
    partitions: Mapping[str, bytes] = field(default_factory=dict)
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Effect: read these objects; answered by a ``ReadDone`` or ``ReadFailed`` of the same id."""

    read: int
    databases: tuple[str, ...] = ()
    requests: tuple[TableRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDone:
    """Fact: what a read found. A database of None does not exist."""

    read: int
    databases: dict[str, bytes | None]
    tables: dict[TableId, TableRead]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFailed:
    """Fact: a read failed; ``away``: the metastore was not reached, else it refused to answer."""

    read: int
    error: str
    away: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNames:
    """Effect: list databases of the metastore with their tables; those that are gone are left out.

    A ``job`` of an operator's lists all databases, or only ``db``. catalogd itself (``job`` 0)
    lists the next LISTED_DATABASES_MAX ``after`` one. ``typed``: with the types of tables.
    """

    job: int = 0
    db: str = ""
    after: str = ""
    typed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesRead:
    """Fact: by database, its Thrift struct and its tables' (name, type).

    The type is empty where it was not requested, or the metastore does not tell it. ``upto``: the
    last database of this portion, after which the next begins; empty: there are no more.
    ``total``: how many databases the metastore has.
    """

    databases: dict[str, tuple[bytes, tuple[tuple[str, str], ...]]]
    job: int = 0
    upto: str = ""
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesFailed:
    """Fact: the listing failed."""

    error: str
    job: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEvent:
    """Effect: read the events of one id, for an operator; answered by an EventRead of this job."""

    job: int
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRead:
    """Fact: the events of one id, all that have it; ``error``: why they could not be read."""

    job: int
    events: tuple[RawEvent, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """Effect: read the functions of a database, or the statistics of columns, for a client.

    ``table`` empty: functions. ``partitions``: whose statistics are read; empty: the table's own.
    Answered by a FactsRead.
    """

    job: int
    db: str
    table: str = ""
    columns: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsRead:
    """Fact: what a ReadFacts has found. ``error``: why it failed; ``away``: only for now."""

    job: int
    functions: tuple[Function, ...] = ()
    statistics: tuple[ColumnStatistics, ...] = ()
    error: str = ""
    away: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNames:
    """Effect: list every database, and the tables of the next LISTED_DATABASES_MAX ``after`` one.

    Answered by ``NamesListed`` or ``ListingFailed``.
    """

    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesListed:
    """Fact: the names of all databases, and by database those of the tables of some of them.

    There are fewer than LISTED_DATABASES_MAX of these if they are the last. ``sums``: ``names_sum``
    of the names in each.
    """

    databases: tuple[str, ...]
    tables: dict[str, tuple[str, ...]]
    sums: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingFailed:
    """Fact: a ListNames failed."""

    error: str


class Metastore(Protocol):
    """A metastore, used by one thread.

    Every method raises ``SourceError`` when the metastore does not answer (the next call connects
    again), and ``SourceRefused`` when it answers with an exception.
    """

    @property
    def connections(self) -> int:
        """How many connections were made so far; behind the next may be another metastore."""

    def uuid(self) -> str:
        """Return the UUID of the metastore's database; empty if it has none, as in Hive 2.3."""

    def release(self) -> str:
        """Return the release of the metastore, such as 4.2.0; empty if it does not say.

        Servers before Hive 4 answer 3.0, whatever they are, which counts as not saying.
        """

    def tells_all(self) -> bool:
        """Return whether its events have every parameter of an object, as far as it says."""

    def current_event_id(self) -> int:
        """Return the id of the newest event; 0 when there never was an event."""

    def records_events(self) -> bool | None:
        """Return whether its changes become events; None: it does not say."""

    def events_after(self, event_id: int, *, events_max: int) -> tuple[RawEvent, ...]:
        """Return at most ``events_max`` events with ids above ``event_id``, ascending by id."""

    def databases(self) -> tuple[str, ...]:
        """Return the names of all databases."""

    def database(self, name: str) -> bytes:
        """Return the ``Database`` struct.

        Raises:
            ObjectGone: there is no such database.
        """

    def table_names(self, db: str) -> tuple[tuple[str, str], ...]:
        """Return (name, type) of every table and view; nothing for a database that is gone.

        The type is empty when the metastore does not tell it.
        """

    def names(self, db: str) -> tuple[str, ...]:
        """Return the names that ``table_names`` does, by one call instead of five."""

    def tables(self, db: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return the ``Table`` structs of those of ``names`` that exist."""

    def partition_names(self, db: str, table: str) -> tuple[str, ...]:
        """Return the names of all partitions, as the metastore writes them.

        Raises:
            ObjectGone: there is no such table.
        """

    def all_partitions(
        self, db: str, table: str, keys: Sequence[str], *, partitions_max: int
    ) -> tuple[tuple[str, ...], Mapping[str, bytes] | None]:
        """Return the names of all partitions, and their ``Partition`` structs.

        None instead of structs: they are more than ``partitions_max``. ``keys``: the names of the
        table's partition columns. As a rule it is one call.

        Raises:
            ObjectGone: there is no such table.
        """

    def partitions(self, db: str, table: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return the ``Partition`` structs of those of ``names`` that exist.

        Raises:
            ObjectGone: there is no such table.
        """

    def functions(self, db: str) -> tuple[Function, ...]:
        """Return the permanent functions of ``db``, sorted by name."""

    def statistics(
        self, db: str, table: str, columns: Sequence[str], *, partitions: Sequence[str] = ()
    ) -> tuple[ColumnStatistics, ...]:
        """Return those statistics of ``columns`` that there are, by partition and column.

        ``partitions`` empty: of the table.

        Raises:
            ObjectGone: there is no such table.
        """

    def close(self) -> None:
        """Close the connection; a later call makes a new connection."""
