"""What serving needs of catalogd's core, and what it gives back: answers, and counts."""

from dataclasses import dataclass
from typing import Protocol

from ...topics.objects.names import TableId
from ...topics.wire.messages import Inspected, Message
from ..model.lineage import Claim
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
