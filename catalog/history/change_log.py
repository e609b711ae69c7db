"""The log of changes and orders, a line each, with the ids of the metastore's events around it.

The history thread reads it from the store's file. It reaches back further than former entries do.
"""

from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Final

from ...topics.policy import Policy
from ...topics.wire.header import FRAME_BYTES_MAX
from ...topics.wire.messages.answers import Inspected, LogEnds, LogLine, LogPage, LogSpan
from ...topics.wire.messages.data import ORIGINS
from ..storage.history import HistoryReader, LogRow

LINES_MAX: Final = FRAME_BYTES_MAX // 4096  # an object's name takes 1 KB at most, an order's 4 KB


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The numbers of the first and the last line; 0 if there is none."""

    table: ClassVar[None] = None
    subject: ClassVar[str] = "the log of changes"

    def answer(self, reader: HistoryReader, request: int, _policy: Policy | None) -> Inspected:
        """Return both numbers."""
        return LogSpan(request=request, rows=(LogEnds(*reader.log_bounds()),))


@dataclass(frozen=True, slots=True)
class LogLines:
    """The next lines behind the number ``after``, none if there are no more."""

    after: int
    table: ClassVar[None] = None
    subject: ClassVar[str] = "the log of changes"

    def answer(self, reader: HistoryReader, request: int, policy: Policy | None) -> Inspected:
        """Return the lines; with a ``policy`` what it sees, without orders."""
        seen = (row for row in reader.log(self.after) if policy is None or _sees(policy, row))
        rows = tuple(_line(row) for row in islice(seen, LINES_MAX))
        return LogPage(request=request, rows=rows)


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

        ``driver``: the writer whose report has made a change.
        """
        found = reader.recent(self.since_us, self.pattern)
        seen = (row for row in found if policy is None or _sees(policy, row))
        rows = tuple(
            _line(row)._replace(driver=reader.writer(row[3], row[7]))
            for row in islice(seen, min(self.count, LINES_MAX))
        )
        return LogPage(request=request, rows=rows)


def _line(row: LogRow) -> LogLine:
    number, at_us, source, *rest = row
    return LogLine(number, at_us, ORIGINS[source], *rest)  # type: ignore[arg-type]  # as LogRow


def _sees(policy: Policy, row: LogRow) -> bool:
    who, name = row[-1], row[4]
    return who is None and policy.sees(name.partition(".")[0])
