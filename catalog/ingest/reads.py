"""Reads: what is asked of the metastore, what came back, and what of it may be published."""

from dataclasses import dataclass, field
from typing import Final

from ...topics.objects.names import TableId

NEVER: Final = 1 << 62  # the arrival number of what no event asked for
REFUSED_TRIES_MAX: Final = 3  # then a table that cannot be read is withdrawn
RETRY_S: Final = 0.2  # after a failed read, doubled each time up to
RETRY_S_MAX: Final = 30.0


@dataclass(slots=True)
class Need:
    """What of one table must be read; ``seq`` is the arrival number of its first cause.

    ``obj``: the table itself; ``whole``: all partitions too; ``names``: these partitions;
    ``dropped``: an incarnation ended; ``data``: data changed; ``load``: nobody waits for it;
    ``alone``: a read together with others failed; ``tries``: reads that an event overtook;
    ``refused``: reads that failed; ``retry_at``: not before.
    """

    seq: int = NEVER
    obj: bool = False
    whole: bool = False
    dropped: bool = False
    data: bool = False
    load: bool = False
    alone: bool = False
    names: dict[str, None] = field(default_factory=dict)
    tries: int = 0
    refused: int = 0
    retry_at: float = 0.0

    def merge(self, other: "Need") -> None:
        """Need what ``other`` needs as well."""
        self.seq = min(self.seq, other.seq)
        self.obj |= other.obj
        self.whole |= other.whole
        self.dropped |= other.dropped
        self.data |= other.data
        self.load &= other.load
        self.alone |= other.alone
        self.names.update(other.names)
        self.tries = max(self.tries, other.tries)
        self.refused = max(self.refused, other.refused)
        self.retry_at = min(self.retry_at, other.retry_at)  # it changed: perhaps for the better

    def refuse(self, now: float) -> bool:
        """Learn that a read of it was refused; whether it was tried often enough.

        The first time it may have been for others that were read with it: it is tried alone.
        """
        self.refused += self.alone
        pause_s = min(RETRY_S * 2 ** min(self.refused, 16), RETRY_S_MAX)
        self.retry_at = now + pause_s if self.alone else now
        self.alone = True
        return self.refused >= REFUSED_TRIES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """What one read asks of one table. ``whole``: its partitions, if they are few, else names."""

    db: str
    table: str
    obj: bool
    whole: bool
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """What was read of one table. ``thrift`` None: there is none, or it was not asked for.

    ``names``: of all partitions, None if not asked for or the table is gone. ``partitions``:
    those read, by name; ``whole``: they are all.
    """

    thrift: bytes | None = None
    names: tuple[str, ...] | None = None
    partitions: dict[str, bytes] = field(default_factory=dict)
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Effect: ask the metastore; the answer is a ``ReadDone`` or ``ReadFailed`` of this id."""

    read: int
    databases: tuple[str, ...] = ()
    wants: tuple[TableRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Effect: these objects are so; a database of None, a table without ``thrift``, is gone."""

    databases: dict[str, bytes | None]
    tables: dict[TableId, TableRead]
    needs: dict[TableId, Need]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPartitions:
    """Effect: partitions of a table that is LOADING; ``gone`` were asked for and are no more."""

    db: str
    table: str
    partitions: dict[str, bytes]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteLoad:
    """Effect: every partition of the table was published, and they stand at one moment."""

    db: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Effect: the metastore cannot read this table; hold nothing of it, and go on trying."""

    db: str
    table: str
    error: str


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


Effect = Read | Publish | PublishPartitions | CompleteLoad | Withdraw
