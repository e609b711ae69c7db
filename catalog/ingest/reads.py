"""What the core requests of the metastore, and what the read threads answer."""

from dataclasses import dataclass, field

from ...topics.objects.names import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """The part of a read that concerns one table.

    ``obj``: the table's own struct. ``whole``: its partitions if they are few, else only their
    names. ``names``: these partitions.
    """

    db: str
    table: str
    obj: bool
    whole: bool
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """What a read found of one table. ``thrift`` None: it is gone, or was not requested.

    ``names``: of all partitions; None if they were not requested or the table is gone.
    ``partitions``: those that were read, by name; ``whole``: they are all.
    """

    thrift: bytes | None = None
    names: tuple[str, ...] | None = None
    partitions: dict[str, bytes] = field(default_factory=dict)
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
    """Effect: list every database and table of the metastore, or those of ``db``.

    ``job``: the operator's job that requested it; 0: catalogd itself.
    """

    job: int = 0
    db: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesRead:
    """Fact: by database, its Thrift struct and its tables' (name, type)."""

    databases: dict[str, tuple[bytes, tuple[tuple[str, str], ...]]]
    job: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesFailed:
    """Fact: the listing failed."""

    error: str
    job: int = 0
