"""The log of changes and orders, a line each, with the ids of the metastore's events around it.

Read from the store's file, by the history thread. It reaches back further than what entries were.
"""

from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Final

from ...topics.policy import Policy
from ...topics.wire.header import FRAME_BYTES_MAX
from ...topics.wire.messages.data import ORIGINS
from ...topics.wire.messages.questions import Inspected
from ..storage.history import HistoryReader, LogRow

BOUNDS_COLUMNS: Final = ("first", "last")
COLUMNS: Final = (
    "number",
    "time_us",
    "source",
    "topic",
    "object",
    "change",
    "version_before",
    "version_after",
    "event_before",
    "event_after",
    "who",
)
LINES_MAX: Final = FRAME_BYTES_MAX // 4096  # an object's name takes 1 KB at most, an order's 4 KB


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The numbers of the first and the last line; 0 if there is none."""

    table: ClassVar[None] = None
    subject: ClassVar[str] = "the log of changes"

    def answer(self, reader: HistoryReader, request: int, _policy: Policy | None) -> Inspected:
        """Return both numbers."""
        return Inspected(request=request, columns=BOUNDS_COLUMNS, rows=(reader.log_bounds(),))


@dataclass(frozen=True, slots=True)
class LogLines:
    """The next lines behind the number ``after``, none if there are no more."""

    after: int
    table: ClassVar[None] = None
    subject: ClassVar[str] = "the log of changes"

    def answer(self, reader: HistoryReader, request: int, policy: Policy | None) -> Inspected:
        """Return the lines; with a ``policy`` what it sees, without orders."""
        seen = (row for row in reader.log(self.after) if policy is None or _sees(policy, row))
        rows = tuple((*row[:2], ORIGINS[row[2]], *row[3:]) for row in islice(seen, LINES_MAX))
        return Inspected(request=request, columns=COLUMNS, rows=rows)


@dataclass(frozen=True, slots=True)
class Recent:
    """The newest ``count`` lines since ``since_us``: objects that ``pattern`` names, and orders.

    ``pattern``: a table, with its partitions; a database, with its tables; or one of names, as
    ``sales.*``; empty: all.
    """

    since_us: int
    count: int
    pattern: str
    table: ClassVar[None] = None
    subject: ClassVar[str] = "the log of changes"

    def answer(self, reader: HistoryReader, request: int, policy: Policy | None) -> Inspected:
        """Return the lines, the newest first; with a ``policy`` what it sees, without orders.

        ``driver``: the writer that a change was reported by, while its report is remembered.
        """
        writers = reader.writers()
        found = reader.recent(self.since_us, self.pattern)
        seen = (row for row in found if policy is None or _sees(policy, row))
        rows = tuple(
            (*row[:2], ORIGINS[row[2]], *row[3:], writers.get((row[3], row[7])))
            for row in islice(seen, min(self.count, LINES_MAX))
        )
        return Inspected(request=request, columns=(*COLUMNS, "driver"), rows=rows)


def _sees(policy: Policy, row: LogRow) -> bool:
    who, name = row[-1], row[4]
    return who is None and policy.sees(name.partition(".")[0])
