"""HistoryThread: reads answers from the store's file, so that no commit waits for it.

Inspect history@db.table | Inspect versions | Scan ──▶ one thread ──▶ an answer | Refused
"""

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from ...topics.backports import assert_never
from ...topics.errors import HistoryGone, UsageError
from ...topics.objects.names import TableId, table_name
from ...topics.policy import Policy
from ...topics.topic import table_topic
from ...topics.wire.messages import Inspected, Refused, Scan, Scanned
from ...topics.wire.refusal import Refusal
from ..storage import file_facts
from ..storage.history import HistoryReader
from . import change_log, scans, swept_files
from .table_history import (
    COLUMNS,
    Bound,
    ChangeRange,
    Newest,
    bounded,
    table_history,
    topic_changes,
)

WAITING_MAX: Final = 128  # orders that wait: the answers to all take 100 MB at most
BUSY_MS: Final = 200  # after that a refused order may be repeated: a page takes some milliseconds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory:
    """Effect: read the ``newest`` changes of a table; answered by ``HistoryRead``."""

    peer: bytes
    request: int
    newest: Newest

    @property
    def table(self) -> TableId:
        """The database and the name of the table that this order reads."""
        return self.newest.table


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadVersions:
    """Effect: read which versions can be scanned; answered by ``HistoryRead``."""

    peer: bytes
    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPage:
    """Effect: read the page that ``scan`` requests; answered by ``HistoryRead``."""

    peer: bytes
    scan: Scan
    policy: Policy | None = None  # of the client that scans

    @property
    def request(self) -> int:
        """The id of the request."""
        return self.scan.request


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChanges:
    """Effect: read the changes in ``change_range``; answered by ``HistoryRead``."""

    peer: bytes
    request: int
    change_range: ChangeRange
    policy: Policy | None = None  # of the client that sent the request


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBound:
    """Effect: find the version where ``bound`` ends; answered by ``HistoryRead``."""

    peer: bytes
    request: int
    bound: Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCuts:
    """Effect: find where ``topic`` can be cut into parts; answered by ``HistoryRead``."""

    peer: bytes
    request: int
    topic: int
    every_bytes: int
    policy: Policy | None = None  # of the client that sent the request


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFiles:
    """Effect: read what is known of the files of ``table``, behind the partition ``after``.

    Answered by ``HistoryRead``.
    """

    peer: bytes
    request: int
    table: TableId
    incarnation: int
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """Effect: read the log of changes; answered by ``HistoryRead``.

    ``after``: the number of a line, behind which lines are read; None: its bounds.
    """

    peer: bytes
    request: int
    after: int | None
    policy: Policy | None = None  # of the client that sent the request


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSweeps:
    """Effect: read how far ``tables``, each with its incarnation, are swept.

    Answered by ``HistoryRead``.
    """

    peer: bytes
    request: int
    tables: tuple[tuple[TableId, int], ...]


OfTable = ReadFiles | ReadHistory
HistoryOrder = (
    OfTable | ReadSweeps | ReadVersions | ReadChanges | ReadBound | ReadCuts | ReadLog | ReadPage
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRead:
    """Fact: the answer to a ``HistoryOrder``."""

    peer: bytes
    answer: Inspected | Scanned | Refused


class HistoryThread:
    """One thread that reads the store's file; orders in, facts to ``deliver``."""

    def __init__(self, path: Path, *, num_topics: int, deliver: Callable[[HistoryRead], None]):
        self._path = path
        self._num_topics = num_topics
        self._deliver = deliver
        self._orders: SimpleQueue[HistoryOrder | None] = SimpleQueue()  # None ends the thread
        self._thread = threading.Thread(target=self._work, name="history", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def order(self, order: HistoryOrder) -> HistoryRead | None:
        """Have the thread perform ``order``; return the refusal if too many wait, else None."""
        if self._orders.qsize() < WAITING_MAX:
            self._orders.put(order)
            return None
        why = f"{WAITING_MAX} reads of the store are to be done before this one"
        return _refused(order, Refusal.BUSY, why, retry_ms=BUSY_MS)

    def close(self) -> None:
        """Take no more orders; return when the thread has ended."""
        self._orders.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            self._deliver(self._read(order))

    def _read(self, order: HistoryOrder) -> HistoryRead:
        try:
            with closing(HistoryReader(self._path)) as reader, reader.moment():
                return HistoryRead(peer=order.peer, answer=self._answer(reader, order))
        except HistoryGone as error:
            return _refused(order, Refusal.GONE, str(error))
        except UsageError as error:
            return _refused(order, Refusal.CLAIM, str(error))
        except Exception as error:  # noqa: BLE001 - the thread goes on, whatever a store holds
            log.warning("store not read: what=%s error=%s", _what(order), error)
            why = f"{_what(order)} cannot be read: {error}"
            return _refused(order, Refusal.UNREADABLE, why)

    def _answer(self, reader: HistoryReader, order: HistoryOrder) -> Inspected | Scanned:
        match order:
            case ReadHistory(request=request, newest=newest):
                topic = table_topic(*newest.table, self._num_topics)
                rows = table_history(reader, topic, newest)
                return Inspected(request=request, columns=COLUMNS, rows=tuple(rows))
            case ReadFiles() | ReadSweeps():
                return _of_sweeps(reader, order)
            case ReadChanges(request=request, change_range=change_range, policy=policy):
                changes = tuple(topic_changes(reader, change_range, policy=policy))
                return Inspected(request=request, columns=COLUMNS, rows=changes)
            case ReadBound(request=request, bound=bound):
                rows_of = ((bounded(reader, bound),),)
                return Inspected(request=request, columns=("version",), rows=rows_of)
            case ReadCuts(request=request, topic=topic, every_bytes=every_bytes, policy=policy):
                return scans.cuts_table(
                    reader, request, topic=topic, every_bytes=every_bytes, policy=policy
                )
            case ReadLog(request=request, after=after, policy=policy):
                if after is None:
                    return change_log.bounds(reader, request)
                return change_log.lines(reader, request, after=after, policy=policy)
            case ReadVersions(request=request):
                return scans.versions_table(reader, request, num_topics=self._num_topics)
            case ReadPage(scan=scan, policy=policy):
                return scans.page(reader, scan, num_topics=self._num_topics, policy=policy)
            case _:
                assert_never(order)


def _of_sweeps(reader: HistoryReader, order: ReadFiles | ReadSweeps) -> Inspected:
    match order:
        case ReadFiles(table=table, incarnation=incarnation, after=after):
            found = reader.files(table, incarnation, after=after, count=swept_files.ROWS_MAX)
            return Inspected(request=order.request, columns=file_facts.COLUMNS, rows=tuple(found))
        case ReadSweeps(tables=tables):
            rows = tuple(reader.sweeps(tables))
            return Inspected(request=order.request, columns=swept_files.SWEEPS_COLUMNS, rows=rows)
        case _:
            assert_never(order)


def _what(order: HistoryOrder) -> str:
    match order:
        case ReadHistory(table=table):
            return f"the history of {table_name(*table)}"
        case ReadFiles(table=table):
            return f"the files of {table_name(*table)}"
        case ReadSweeps():
            return "the sweeps of tables"
        case ReadChanges(change_range=change_range):
            return f"the changes of topic {change_range.topic}"
        case ReadBound(bound=bound):
            return f"the transactions of topic {bound.topic}"
        case ReadCuts(topic=topic):
            return f"the sizes in topic {topic}"
        case ReadLog():
            return "the log of changes"
        case ReadVersions():
            return "the versions of the topics"
        case ReadPage(scan=scan):
            return f"topic {scan.topic}"


def _refused(order: HistoryOrder, code: Refusal, why: str, *, retry_ms: int = 0) -> HistoryRead:
    answer = Refused(request=order.request, code=code, message=why, retry_ms=retry_ms)
    return HistoryRead(peer=order.peer, answer=answer)
