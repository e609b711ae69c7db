"""Scanning: the entries of a topic as of a version, or of one table as it is now, from catalogd.

    Scan, page after page ──▶ entries by key          Pull, part after part ──▶ entries of a table

A request that is not answered in time, or refused for a passing reason, is repeated for a minute.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

from ...subscriber.client.conversation import Conversation
from ...topics.errors import LinkError, WireError
from ...topics.objects.names import TableId, parse_table_name
from ...topics.objects.selector import ALL
from ...topics.streams.sender import CREDIT_MAX
from ...topics.topic import Entry, value_of
from ...topics.wire.messages.answers import FilePage, SweepPage
from ...topics.wire.messages.catalog import Pull, Pulled, Scan, Scanned
from ...topics.wire.messages.fields import Cell
from ...topics.wire.messages.questions import (
    A,
    Question,
    ReadBound,
    ReadChanges,
    ReadFiles,
    ReadLog,
    ReadSweeps,
)

ANSWER_S: Final = 5.0  # then a request is sent again
PATIENCE_S: Final = 60.0  # then the task fails, and Spark tries it again
PAUSE_S: Final = 0.2  # before a request that was refused is sent again
PULL_BYTES: Final = 16 << 20  # of one answer: even with its last block far below the credit

T = TypeVar("T")


class Inspects(Protocol):
    """Answers questions: a conversation with catalogd, or an object that opens conversations."""

    def inspect(self, question: Question[A], *, timeout_s: float) -> A:
        """As ``Conversation.inspect``."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys of one topic between ``after`` and ``until``, both excluded; empty: no bound."""

    topic: int
    version: int
    after: bytes = b""
    until: bytes = b""


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The transactions of one topic in ``(after, until]``."""

    topic: int
    after: int
    until: int


@dataclass(frozen=True, slots=True)
class LogRange:
    """The lines of catalogd's log of changes with numbers in ``(after, until]``."""

    after: int
    until: int


@dataclass(frozen=True, slots=True)
class FilesOf:
    """The files of these tables, as sweeps have found them."""

    tables: tuple[TableId, ...]


def patiently(call: Callable[[], T], *, patience_s: float = PATIENCE_S) -> T:
    """Return what ``call`` returns; repeat it for ``patience_s`` if it fails for a passing reason.

    Raises:
        LinkError: the last error of ``call``.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return call()
        except LinkError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_S * (1 + random.random()))


def scan(catalogd: Conversation, keys: KeyRange, *, epoch: int) -> Iterator[Entry]:
    """Yield the values in ``keys``, sorted by key.

    Raises:
        HistoryGone: the version cannot be read any more.
        LinkError: catalogd does not answer.
    """
    wanted = Scan(
        request=0,
        epoch=epoch,
        topic=keys.topic,
        version=keys.version,
        after=keys.after,
        until=keys.until,
    )
    pieces: list[Entry] = []
    while True:
        page = patiently(lambda: catalogd.request(wanted, Scanned, timeout_s=ANSWER_S))  # noqa: B023 - called at once
        for entry in page.entries:
            pieces.append(entry)
            if sum(len(value_of(piece)) for piece in pieces) >= entry.size:
                yield _joined(pieces)
                pieces.clear()
        if not page.after and not page.offset:
            return
        wanted = replace(wanted, after=page.after, offset=page.offset)


def changes(catalogd: Inspects, span: VersionRange, *, epoch: int) -> Iterator[dict[str, Cell]]:
    """Yield the changes of the tables of a topic in ``span``, in order, as catalogd's columns.

    Raises:
        HistoryGone: the kept changes begin later than ``span``, or are of another epoch.
        LinkError: catalogd does not answer.
    """
    after, skip = span.after, 0
    while True:
        asked = ReadChanges(topic=span.topic, epoch=epoch, after=after, until=span.until, skip=skip)
        answer = patiently(lambda: catalogd.inspect(asked, timeout_s=ANSWER_S))  # noqa: B023
        if not answer.rows:
            return
        yield from answer.records()
        last = answer.rows[-1].version
        same = sum(row.version == last for row in answer.rows)
        skip = skip + same if last == after + 1 else same
        after = last - 1


def bounded(catalogd: Conversation, span: VersionRange, *, epoch: int, entries_max: int) -> int:
    """Return the version within ``span`` up to which ``entries_max`` entries were replaced.

    A transaction counts whole, and the first transaction counts in any case.

    Raises:
        HistoryGone: the kept changes begin later than ``span``, or are of another epoch.
        LinkError: catalogd does not answer.
    """
    asked = ReadBound(topic=span.topic, epoch=epoch, after=span.after, count=entries_max)
    answer = catalogd.inspect(asked, timeout_s=ANSWER_S)
    return min(answer.rows[0].version, span.until)


def log_lines(catalogd: Inspects, span: LogRange) -> Iterator[dict[str, Cell]]:
    """Yield the lines of catalogd's log of changes in ``span``, in order, as its columns.

    Raises:
        LinkError: catalogd does not answer.
    """
    after = span.after
    while after < span.until:
        asked = ReadLog(after=after)
        answer = patiently(lambda: catalogd.inspect(asked, timeout_s=ANSWER_S))  # noqa: B023
        for line in answer.records():
            after = int(line["number"] or 0)
            if after > span.until:
                return
            yield line
        if not answer.rows:
            return


def file_pages(catalogd: Inspects, table: str, *, behind: str | None = None) -> Iterator[FilePage]:
    """Yield pages of the facts that sweeps have found about the files of ``table``, by partition.

    ``behind``: the partition after which the first page begins; None: with the first partition.
    There is no page if the table is gone, or no sweep has found a file of it. A table without
    partitions has one row, with an empty partition.

    Raises:
        LinkError: catalogd does not answer.
    """
    db, name = parse_table_name(table)
    asked = ReadFiles(db=db, table=name, behind=() if behind is None else (behind,))
    while True:
        page = patiently(lambda: catalogd.inspect(asked, timeout_s=ANSWER_S))  # noqa: B023
        if not page.rows:
            return
        yield page
        asked = replace(asked, behind=(page.rows[-1].partition,))


def sweeps(inspect: Callable[[ReadSweeps], SweepPage]) -> Iterator[dict[str, Any]]:
    """Yield how far each table is swept, and the counts of its files, as catalogd's columns.

    ``inspect``: requests one page from catalogd.
    """
    behind = ""
    while True:
        page = inspect(ReadSweeps(behind=behind))
        yield from page.records()
        if not page.rows:
            return
        behind = page.rows[-1].table


def pull(catalogd: Conversation, table: TableId) -> tuple[int, list[Entry]] | None:
    """Return the present version and entries of ``table``, sorted by key; None: no such table.

    Raises:
        LinkError: catalogd does not answer, or the table changes all the time.
        SourceRefused: the metastore cannot read the table; says why.
    """
    return patiently(lambda: _pulled(catalogd, table))


def _pulled(catalogd: Conversation, table: TableId) -> tuple[int, list[Entry]] | None:
    wanted = Pull(
        request=0,
        db=table[0],
        table=table[1],
        selector=ALL,
        credit=CREDIT_MAX,
        bytes_max=PULL_BYTES,
    )
    found: list[Entry] = []
    while True:
        parts = _parts(catalogd, wanted)
        last = parts[-1]
        if not last.found:
            return None
        if last.moved:
            raise LinkError(f"{'.'.join(table)} has changed while it was read")
        found += [entry for part in parts for entry in part.entries]
        if not last.cursor:
            by_key = groupby(sorted(found, key=itemgetter(0)), key=itemgetter(0))
            return last.topic_version, [_joined(list(pieces)) for _, pieces in by_key]
        version, epoch = last.topic_version, last.epoch
        wanted = replace(wanted, after=last.cursor, version=version, epoch=epoch)


def _parts(catalogd: Conversation, wanted: Pull) -> list[Pulled]:
    """Return the parts of one answer."""
    parts = [catalogd.request(wanted, Pulled, timeout_s=ANSWER_S)]
    while not parts[-1].last:
        parts.append(catalogd.receive(Pulled, timeout_s=ANSWER_S))
        if parts[-1].sequence != len(parts) - 1:
            raise LinkError("a part of an answer was lost")
    return parts


def _joined(pieces: list[Entry]) -> Entry:
    """Return the entry whose value was sent in ``pieces``."""
    value = b"".join(map(value_of, pieces))
    if len(value) != pieces[0].size or len({piece.key for piece in pieces}) != 1:
        raise WireError(f"the pieces of {pieces[0].key[:64]!r} do not make up its value")
    return pieces[0]._replace(value=value)
