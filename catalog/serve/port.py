"""What serving needs of the core and of ingest, and what it gives back: answers, and counts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ...topics.objects.names import TableId
from ...topics.wire.messages import Inspected, Message, Report, Verdict
from ..metastore.port import Dirty
from ..model.lineage import Claim
from ..model.versions import WriteId, WriteRow
from ..publish.modes import Mode


class Core(Protocol):
    """catalogd's core, as those who serve requests see it."""

    @property
    def serving(self) -> bool:
        """Whether the names are known; until then most requests are refused."""

    @property
    def position(self) -> tuple[int, int]:
        """The current epoch and start."""

    def accepts(self, claim: Claim) -> bool:
        """Return whether what a peer holds can be continued; raise WireError if it cannot be."""

    def inspect(self, what: str) -> Inspected:
        """Return the status table ``what``; raise UsageError if there is none."""

    def change_mode(self, mode: Mode) -> bool:
        """Publish under ``mode`` from now on; return False if that is so already."""

    def follows(self, db: str) -> bool:
        """Return whether ``db`` is not left out by the operator."""

    def load_in_background(self, table: TableId) -> None:
        """Load ``table`` if the mode has its content published."""


class Loader(Protocol):
    """The part of ingest that reads tables: what serving requests of it, and looks up."""

    polls_begun: int

    def oldest_unpublished(self) -> int:
        """Return the arrival number of the oldest event that is not published."""

    def error(self, table: TableId) -> str:
        """Return why ``table`` cannot be read; empty if it can, or that is not known."""

    def is_loading(self, table: TableId) -> bool:
        """Return whether ``table`` is LOADING."""

    def partitions_left(self, table: TableId) -> int:
        """Return how many partitions of ``table`` are still to be read, if that is known."""

    def load(self, table: TableId, *, urgent: bool = False) -> None:
        """Load ``table`` in the background, or ``urgent``: now."""

    def invalidate(self, table: TableId) -> None:
        """Publish nothing of ``table`` that was read so far."""

    def mark_dirty(self, objects: Iterable[Dirty], *, seq: int) -> None:
        """Read ``objects`` again, as if an event of arrival number ``seq`` had changed them."""


class Poller(Protocol):
    """The part of ingest that polls for events. ``error``: of the last poll, empty if none.

    ``polled``: the newest poll that brought everything, and up to which arrival number.
    """

    error: str
    polled: tuple[int, int]

    @property
    def enabled(self) -> bool:
        """Whether there are polls at all."""

    @property
    def seq(self) -> int:
        """The arrival number of the newest event."""

    @property
    def watermark(self) -> int:
        """The event id up to which everything is published."""


class Reports(Protocol):
    """The part of ingest that applies reported writes."""

    @property
    def deadline(self) -> float | None:
        """When ``lapse`` may have something to do."""

    def knows(self, report: Report) -> bool:
        """Return whether every object of ``report`` is known."""

    def names_path(self, report: Report) -> bool:
        """Return whether ``report`` names an object by its path."""

    def find_locations(self) -> bool:
        """Look through some tables for their locations; return whether all are known."""

    def apply(self, report: Report, *, now: float, at_us: int) -> tuple[Verdict, ...]:
        """Apply ``report``; return a verdict for each of its writes."""

    def lapse(self, *, now: float, at_us: int) -> None:
        """Take for written the intents of drivers that have stopped reporting."""

    def take(self) -> tuple[tuple[WriteRow, ...], tuple[WriteId, ...]]:
        """Hand over the writes to store, and the ids of those to delete from the store."""

    def counts(self) -> dict[str, int]:
        """Return what happened since the start, and how many intents are open."""

    def check(self) -> None:
        """Assert every invariant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Effect: answer a peer of the catalog service."""

    peer: bytes
    message: Message


@dataclass(slots=True)
class RequestCounts:
    """The requests since the start, and how many were refused."""

    pulls: int = 0
    syncs: int = 0
    orders: int = 0
    reports: int = 0
    refused: int = 0
