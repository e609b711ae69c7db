"""The log of changes and orders, a line each, with the ids of the metastore's events around it.

Read from the store's file, by the history thread. It reaches back further than what entries were.
"""

from itertools import islice
from typing import Final

from ...topics.policy import Policy
from ...topics.wire.header import FRAME_BYTES_MAX
from ...topics.wire.messages import Inspected
from ..storage.history import HistoryReader, LogRow
from .table_history import SOURCES, numbers

LOG: Final = "log"
AFTER: Final = "log@"  # then the number of a line
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


def parse_log(what: str) -> int | None:
    """Return the number of ``log@number``; None for another ``what``.

    Raises:
        UsageError: a number is expected there.
    """
    return numbers(what, AFTER, "NUMBER")[0] if what.startswith(AFTER) else None


def bounds(reader: HistoryReader, request: int) -> Inspected:
    """Return the numbers of the first and the last line; 0 if there is none."""
    return Inspected(request=request, columns=BOUNDS_COLUMNS, rows=(reader.log_bounds(),))


def lines(
    reader: HistoryReader, request: int, *, after: int, policy: Policy | None = None
) -> Inspected:
    """Return the next lines behind the number ``after``, none if there are no more.

    With a ``policy`` they are what it sees, without orders.
    """
    seen = (row for row in reader.log(after) if policy is None or _sees(policy, row))
    rows = tuple((*row[:2], SOURCES[row[2]], *row[3:]) for row in islice(seen, LINES_MAX))
    return Inspected(request=request, columns=COLUMNS, rows=rows)


def _sees(policy: Policy, row: LogRow) -> bool:
    who, name = row[-1], row[4]
    return who is None and policy.sees(name.partition(".")[0])
