"""HistoryThread: reads answers from the store's file, so that no commit waits for it.

ReadHistory | ReadVersions | Scan | … ──▶ one thread ──▶ an answer | Refused
"""

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from ...topics.errors import HistoryGone, UsageError
from ...topics.policy import Policy
from ...topics.wire.messages.answers import Inspected
from ...topics.wire.messages.catalog import Scanned
from ...topics.wire.messages.connection import Refused
from ...topics.wire.refusal import Refusal, refuse
from ..storage.history import HistoryReader
from .queries import StoreQuery

WAITING_MAX: Final = 128  # orders that wait: the answers to all take 100 MB at most
BUSY_MS: Final = 200  # after that a refused order may be repeated: a page takes some milliseconds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStore:
    """Effect: read the answer to ``query`` from the store; answered by ``HistoryRead``."""

    peer: bytes
    request: int
    query: StoreQuery
    policy: Policy | None = None  # of the client that sent the request


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRead:
    """Fact: the answer to a ``ReadStore``."""

    peer: bytes
    answer: Inspected | Scanned | Refused


class HistoryThread:
    """One thread that reads the store's file; orders in, facts to ``deliver``."""

    def __init__(self, path: Path, *, deliver: Callable[[HistoryRead], None]) -> None:
        self._path = path
        self._deliver = deliver
        self._orders: SimpleQueue[ReadStore | None] = SimpleQueue()  # None ends the thread
        self._thread = threading.Thread(target=self._work, name="history", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def order(self, order: ReadStore) -> HistoryRead | None:
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

    def _read(self, order: ReadStore) -> HistoryRead:
        try:
            with closing(HistoryReader(self._path)) as reader, reader.moment():
                answer = order.query.answer(reader, order.request, order.policy)
                return HistoryRead(peer=order.peer, answer=answer)
        except HistoryGone as error:
            return _refused(order, Refusal.GONE, str(error))
        except UsageError as error:
            return _refused(order, Refusal.CLAIM, str(error))
        except Exception as error:  # noqa: BLE001 - the thread goes on, whatever a store holds
            subject = order.query.subject
            log.warning("store not read: what=%s error=%s", subject, error)
            why = f"{subject} cannot be read: {error}"
            return _refused(order, Refusal.UNREADABLE, why)


def _refused(order: ReadStore, code: Refusal, why: str, *, retry_ms: int = 0) -> HistoryRead:
    refused = refuse(code, why, request=order.request, retry_ms=retry_ms)
    return HistoryRead(peer=order.peer, answer=refused)
