"""MetastoreQuestions: requests of clients for objects of the metastore that no process holds.

    question ──its client's turn──▶ ReadFacts ──metastore──▶ FactsRead ──▶ Inspected | Refused

Invariants: RUNNING_MAX calls at once, so that reads for events have their threads; a question that
is sent again while it waits or runs is answered once.
"""

from collections.abc import Iterable
from itertools import count
from typing import Any, Final

from ...topics.errors import NoSuchObject
from ...topics.objects.metastore_facts import ColumnStatistics, Function
from ...topics.objects.names import table_name
from ...topics.turn import PartTurn
from ...topics.wire.codec import fitting
from ...topics.wire.messages.answers import (
    FunctionPage,
    FunctionRow,
    StatisticsPage,
    StatisticsRow,
)
from ...topics.wire.messages.questions import (
    STATISTICS_MAX,
    MetastoreQuestion,
    ReadFunctions,
    ReadStatistics,
)
from ...topics.wire.refusal import Refusal
from ..ingest.events.poller import Poller
from ..metastore.port import FactsRead, ReadFacts
from ..model.namespace import Namespace
from .pending import FairQueue, RequestId
from .replies import Replies

RUNNING_MAX: Final = 2  # of 8 threads that read
WAITING_MAX: Final = 1_000
WAITING_PER_PEER_MAX: Final = 32
BYTES_MAX: Final = 512 << 10  # of the functions in one answer
ROW_BYTES: Final = 40  # of a row, besides its texts


class MetastoreQuestions:
    """The questions that wait for the metastore, and those that are being read."""

    def __init__(
        self, namespace: Namespace, poller: Poller, replies: Replies, *, turn: PartTurn[ReadFacts]
    ) -> None:
        self._turn = turn
        self._namespace = namespace
        self._poller = poller
        self._replies = replies
        self._waiting: FairQueue[MetastoreQuestion[Any]] = FairQueue(
            items_max=WAITING_MAX, per_peer_max=WAITING_PER_PEER_MAX
        )
        self._running: dict[int, tuple[bytes, MetastoreQuestion[Any]]] = {}
        """The peer and its question that wait for each running read, by the number of the read."""
        self._jobs = count(1)  # the numbers of the reads

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def ask(self, peer: bytes, question: MetastoreQuestion[Any]) -> None:
        """Have a question answered once, however often it is sent."""
        request = question.request
        if any((one, q.request) == (peer, request) for one, q in self._running.values()):
            return
        if wrong := self._fault(question):
            code, why, about = wrong
            self._replies.refuse(peer, request, code, why=why, about=about)
        elif not self._waiting.put(peer, request, question):
            self._replies.refuse(peer, request, Refusal.BUSY, why="too many questions wait")

    def order(self) -> None:
        """Order reads for the next questions, while fewer than RUNNING_MAX run."""
        while len(self._running) < RUNNING_MAX and (one := self._waiting.take()) is not None:
            job = next(self._jobs)
            self._running[job] = one
            self._turn.add(_read(job, one[1]))

    def on_read(self, fact: FactsRead) -> None:
        """Answer, or refuse: later, if the metastore did not answer; else for good."""
        one = self._running.pop(fact.job, None)
        if one is None:
            return  # its client has left
        (peer, question), request = one, one[1].request
        if fact.error:
            code = Refusal.SOURCE if fact.away else Refusal.UNREADABLE
            self._replies.refuse(peer, request, code, why=fact.error)
            return
        if isinstance(question, ReadFunctions):
            functions = tuple(_function_rows(fact.functions, question.after))
            self._replies.add(peer, FunctionPage(request=request, rows=functions))
        else:
            statistics = tuple(map(_statistics_row, fact.statistics))
            self._replies.add(peer, StatisticsPage(request=request, rows=statistics))

    def remove_peer(self, peer: bytes) -> None:
        """Drop the questions of ``peer``, which has left, and the results of its running reads."""
        self._waiting.remove_peer(peer)
        self._running = {job: one for job, one in self._running.items() if one[0] != peer}

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._running) <= RUNNING_MAX
        asked: list[RequestId] = [(peer, one.request) for peer, one in self._running.values()]
        assert len(asked) == len(set(asked))

    def _fault(self, question: MetastoreQuestion[Any]) -> tuple[Refusal, str, str] | None:
        """Return why a question cannot be answered, and the object; None: it can."""
        db = question.db
        if not self._poller.reads:
            return Refusal.SOURCE, self._poller.paused, ""
        if isinstance(question, ReadStatistics):
            wanted = len(question.columns) * max(1, len(question.partitions))
            if not 0 < wanted <= STATISTICS_MAX:
                return Refusal.CLAIM, f"{wanted} statistics: 1 to {STATISTICS_MAX} at once", ""
            if self._namespace.find((db, question.table)) is None:
                return _missing(table_name(db, question.table))
        elif not self._namespace.has_database(db):
            return _missing(db)
        return None


def _missing(name: str) -> tuple[Refusal, str, str]:
    return Refusal.NO_OBJECT, str(NoSuchObject(name)), name


def _read(job: int, question: MetastoreQuestion[Any]) -> ReadFacts:
    if not isinstance(question, ReadStatistics):
        return ReadFacts(job=job, db=question.db)
    return ReadFacts(
        job=job,
        db=question.db,
        table=question.table,
        columns=question.columns,
        partitions=question.partitions,
    )


def _function_rows(functions: Iterable[Function], after: str) -> list[FunctionRow]:
    """Return the functions behind the name ``after``, as many as fit into an answer."""
    rows = (
        FunctionRow(one.name, one.class_name, one.owner, one.created_at_s, one.resources)
        for one in functions
        if one.name > after
    )
    return fitting(rows, _bytes_of, bytes_max=BYTES_MAX)


def _bytes_of(row: FunctionRow) -> int:
    texts = (row.name, row.class_name, row.owner, *row.resources)
    return ROW_BYTES + sum(len(text.encode()) for text in texts)


def _statistics_row(one: ColumnStatistics) -> StatisticsRow:
    return StatisticsRow(*(getattr(one, name) for name in StatisticsRow._fields))
