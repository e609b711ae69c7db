"""Questions of operators and pipelines to any process, their orders, and the answers."""

from dataclasses import dataclass
from typing import Annotated, Any

from ...backports import StrEnum
from .fields import U16, U64, Bounds, Cell, Message


class OrderKind(StrEnum):
    """What an operator orders catalogd to do."""

    DRIVERS = "drivers"
    EVENTS = "events"
    MODE = "mode"
    INVALIDATE = "invalidate"
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(Message):
    """An operator's command to catalogd; answered by Inspected when it is done.

    ``sender``: an operator, by its own account, for the history. Orders: docs/protocol.md.
    """

    request: U64
    sender: str
    order: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect(Message):
    """Request the table of facts ``what`` about a process.

    ``member``: the registration of the hub's member that it is about; empty: about the process
    that receives this.
    """

    request: U64 = 0
    what: str
    member: Annotated[bytes, Bounds(0, 16)] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest(Message):
    """Request something of catalogd's store beside its entries, which a thread of its own reads."""

    request: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadVersions(StoreRequest):
    """Request of catalogd which versions of each topic can be scanned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCuts(StoreRequest):
    """Request keys between which about ``every_bytes`` of the values of ``topic`` lie."""

    topic: U16
    every_bytes: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChanges(StoreRequest):
    """Request the changes of a topic's tables in ``(after, until]``, but for ``skip`` rows.

    The oldest are the first, as many as a frame holds.
    """

    topic: U16
    epoch: U64
    after: U64
    until: U64
    skip: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBound(StoreRequest):
    """Request the version up to which the transactions behind ``after`` replace ``count`` entries.

    It is that of one transaction at least.
    """

    topic: U16
    epoch: U64
    after: U64
    count: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory(StoreRequest):
    """Request the newest ``count`` changes of a table behind a version; 0: what a frame holds."""

    db: str
    table: str
    after: U64 = 0
    count: U64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLogBounds(StoreRequest):
    """Request the numbers of the first and the last line of catalogd's log of changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog(StoreRequest):
    """Request the next lines of the log of changes behind the number ``after``."""

    after: U64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecent(StoreRequest):
    """Request the newest ``count`` lines of the log since a time, of objects of ``pattern``.

    All orders are among them. ``pattern`` empty: all objects.
    """

    since_us: U64
    count: U64
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFiles(StoreRequest):
    """Request what sweeps have found of the files of a table, by partition.

    ``behind``: the partition behind which the page begins; none: it is the first page.
    """

    db: str
    table: str
    behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSweeps(StoreRequest):
    """Request how far each table is swept, and what was found; ``behind`` (db.table): the last one.

    Empty: from the first.
    """

    behind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected(Message):
    """The answer to Inspect, Order and Read…: rows of text, integers, floats, booleans or None."""

    request: U64
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows, each by column; the reader knows of which type a column's cells are."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]
