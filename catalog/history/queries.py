"""StoreQuery: the questions of requests that the store's file answers."""

from typing import Any, Final, Protocol

from ...topics.objects.names import TableId
from ...topics.policy import Policy
from ...topics.wire.messages.answers import Inspected
from ...topics.wire.messages.catalog import Scan, Scanned
from ...topics.wire.messages.questions import (
    ReadBound,
    ReadChanges,
    ReadCuts,
    ReadHistory,
    ReadLog,
    ReadLogBounds,
    ReadRecent,
    ReadVersions,
    StoreQuestion,
)
from ..storage.history import HistoryReader
from .change_log import LogBounds, LogLines, Recent
from .scans import Cuts, ScanPage, Versions
from .table_history import ROWS_MAX, Bound, ChangeRange, NewestChanges

NUMBER_MAX: Final = (1 << 63) - 1  # SQLite takes no larger number


class StoreQuery(Protocol):
    """A question that the store's file answers."""

    @property
    def table(self) -> TableId | None:
        """The one table that it is about; None: it is about no one table."""

    @property
    def subject(self) -> str:
        """The objects that it is about, for the log."""

    def answer(
        self, reader: HistoryReader, request: int, policy: Policy | None, /
    ) -> Inspected | Scanned:
        """Return the answer to ``request``, of what ``policy`` sees."""


def query_of(asked: Scan | StoreQuestion[Any]) -> StoreQuery:
    """Return what ``asked`` reads; what is asked of sweeps needs more than the store."""
    match asked:
        case Scan():
            return ScanPage(asked)
        case ReadVersions():
            return Versions()
        case ReadCuts(topic=topic, every_bytes=every_bytes):
            return Cuts(topic, _within(every_bytes))
        case ReadChanges(topic=topic, epoch=epoch, skip=skip):
            after, until = _within(asked.after), _within(asked.until)
            return ChangeRange(topic, epoch, after, until, skip)
        case ReadBound(topic=topic, epoch=epoch):
            return Bound(topic, epoch, _within(asked.after), _within(asked.count))
        case ReadHistory(db=db, table=table, count=count):
            return NewestChanges((db, table), _within(asked.after), _within(count) or ROWS_MAX)
        case ReadLogBounds():
            return LogBounds()
        case ReadLog(after=after):
            return LogLines(_within(after))
        case ReadRecent(since_us=since_us, count=count, pattern=pattern):
            return Recent(_within(since_us), _within(count), pattern.lower())
        case _:
            raise AssertionError(f"{type(asked).__name__} is asked of others")


def _within(number: int) -> int:
    return min(number, NUMBER_MAX)
