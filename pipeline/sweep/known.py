"""KnownFiles: reads catalogd's facts about the files of tables, and sends it those of a sweep."""

import os
from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from threading import Lock
from typing import Any, Final, TypeVar

from ...subscriber.client.conversation import Conversation, catalogd_named_by
from ...topics.errors import HistoryGone, NotReady, UsageError
from ...topics.keys.credential import Credential
from ...topics.keys.folder import DRIVER, find_credential
from ...topics.objects.changes import ChangeKind
from ...topics.objects.names import parse_table_name
from ...topics.settings import Address, parse_addresses
from ...topics.wire.messages.answers import FilePage
from ...topics.wire.messages.data import ORIGINS, Source
from ...topics.wire.messages.questions import (
    A,
    Question,
    ReadHistory,
    ReadLogBounds,
    ReadVersions,
)
from ...topics.wire.messages.reports import FileFacts, Sweep, Swept
from ..datasource.scanning import (
    ANSWER_S,
    LogRange,
    VersionRange,
    changes,
    file_pages,
    log_lines,
    patiently,
    sweeps,
)
from ..datasource.snapshot_versions import snapshot_version_of
from .plan import ALL, NAMED_ONLY, Point, SweepPlan, SweptTable, note_history

UNSEEN: Final = (ChangeKind.LOADED, ChangeKind.DROPPED)  # these change no file that exists
NEWEST_MAX: Final = (2, 20, 1000)  # changes that are read to find the last; catalogd has no more
LOADS: Final = (ChangeKind.LOADED, ChangeKind.UNLOADED)  # readers are not notified of these
PAGES_AHEAD: Final = 3  # of facts, 1 MB each, that are read before they are wanted

T = TypeVar("T")


class CatalogdClient:
    """Sends requests to the catalogd of the first hub that answers; finds it anew after a silence.

    The first request connects. Threads may share it, and wait for each other; ``close`` it.
    """

    def __init__(self, hubs: Sequence[Address], credential: Credential) -> None:
        self._hubs = hubs
        self._credential = credential
        self._lock = Lock()
        self._connection = ExitStack()
        self._conversation: Conversation | None = None  # None: not connected
        self._is_closed = False

    def answer(self, call: Callable[[Conversation], T]) -> T:
        """Return what ``call`` returns; raises LinkError, too, if no hub or catalogd answers."""
        with self._lock:
            try:
                return call(self._connected())
            except NotReady:
                self._disconnect()
                raise

    def inspect(self, question: Question[A], *, timeout_s: float) -> A:
        """As ``Conversation.inspect``; raises as ``answer``."""
        return self.answer(lambda catalogd: catalogd.inspect(question, timeout_s=timeout_s))

    def connect(self) -> None:
        """Connect before the first request; raises as ``greet``."""
        with self._lock:
            self._connected()

    def close(self) -> None:
        """Disconnect; later requests raise UsageError."""
        with self._lock:
            self._is_closed = True
            self._disconnect()

    def _connected(self) -> Conversation:
        if self._is_closed:
            raise UsageError("the connection to catalogd is closed: make another one")
        if self._conversation is None:
            connecting = catalogd_named_by(self._hubs, self._credential, timeout_s=ANSWER_S)
            self._conversation = self._connection.enter_context(connecting)
        return self._conversation

    def _disconnect(self) -> None:
        self._conversation = None
        self._connection.close()


@dataclass(slots=True)
class _Noticed:
    """When readers were last notified of a change of a table, as of ``version`` of its history.

    A new epoch begins its versions anew, so the time may be too old: then the sweep reports a
    change that readers know already.
    """

    version: int = 0
    at_ms: int | None = None  # None: not known
    or_loaded_ms: int | None = None
    """When readers were notified or catalogd has loaded the table, whichever was later."""
    own: set[int] = field(default_factory=set)
    """Later versions that ``send`` has made."""

    def leave_out(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Look from now on only at changes after ``rows``, which begin with the newest."""
        if rows:
            self.version = rows[0]["version"]
        self.own.clear()


class KnownFiles:
    """A conversation with catalogd about files; repeats requests while catalogd is away."""

    def __init__(self, catalogd: CatalogdClient, reads: Executor) -> None:
        """``reads``: has one thread, which reads pages before they are wanted."""
        self._catalogd = catalogd
        self._reads = reads
        self._noticed: dict[str, _Noticed] = {}  # by table
        self.was_repeated = False  # whether the last Sweep was sent more than once

    def facts(
        self, table: str, *, behind: str | None = None, ahead: int = 0
    ) -> Iterator[tuple[int, list[FileFacts]]]:
        """Yield pages of the facts about the files of ``table``, by partition, with the revision.

        ``behind``: the partition after which the first page begins; None: with the first partition.
        ``ahead``: how many pages are read before they are wanted.

        Raises:
            LinkError: catalogd does not answer.
        """
        pages = map(_facts_of, file_pages(self._catalogd, table, behind=behind))
        return _read_ahead(pages, self._reads, count=ahead) if ahead else pages

    def next_line(self) -> tuple[int, int]:
        """Return the number of the first line of the log of changes, and of its next line."""
        ((first, last),) = self._inspect(ReadLogBounds()).rows
        return (first, last + 1) if last else (1, 1)

    def swept(self) -> dict[str, SweptTable]:
        """Return how far each table is swept; a table that never was is left out."""
        found: dict[str, SweptTable] = {}
        for row in sweeps(self._inspect):
            found[row["table"]] = SweptTable(
                revision=row["revision"],
                as_of=row["as_of"],
                open_as_of=row["open_as_of"],
                open_until=row["open_until"],
                whole=bool(row["whole"]),
            )
        return found

    def note_changes(self, plan: SweepPlan) -> None:
        """Note in ``plan`` the changes of its tables since they were swept, and when that was.

        The log names the partitions of reported writes. For other changes of a table, the history
        names the partitions.
        """
        wanted: dict[tuple[str, int], dict[int, int]] = {}
        """By table and topic: the versions to look for in the history, with their lines."""
        begin, points = plan.reads_from(), plan.points()
        for line in log_lines(self._catalogd, LogRange(max(begin - 2, 0), plan.as_of - 1)):
            name, _, partition = str(line["object"]).partition("/")
            number, change = int(line["number"] or 0), line["change"]
            if number + 1 in points:
                plan.times_ms[number + 1] = int(line["time_us"] or 0) // 1000
            if plan.lists_all or number < begin or name not in plan.tables:
                continue
            if line["who"] is not None or change in UNSEEN:
                continue
            unloaded = change == ChangeKind.UNLOADED
            by_others = unloaded and line["source"] != ORIGINS[Source.LOAD]
            if partition or change == ChangeKind.CREATED or by_others:
                plan.note(name, partition, number)
            elif not unloaded:
                versions = wanted.setdefault((name, int(line["topic"] or 0)), {})
                versions[int(line["version_after"] or 0)] = number
        if not wanted:
            return
        epoch = snapshot_version_of(self._inspect(ReadVersions())).epoch
        for (name, topic), versions in wanted.items():
            span = VersionRange(topic, min(versions) - 1, max(versions))
            try:
                rows = changes(self._catalogd, span, epoch=epoch)
                note_history(plan, name, rows, lines=versions)
            except HistoryGone:
                plan.note(name, ALL, max(versions.values()))

    def noticed_ms(self, table: str, *, loads: bool) -> int | None:
        """Return when readers were last notified of a change of ``table``; None: it is not known.

        Changes that ``send`` has reported do not count: they named the partitions of one batch,
        and partitions of the next batch may have changed before them.

        ``loads``: count the loads of catalogd, too: newer files did not exist then.
        """
        noticed = self._noticed.setdefault(table, _Noticed())
        for count in NEWEST_MAX:
            rows = self._history(table, after=noticed.version, count=count)
            others = [row for row in rows if row["version"] not in noticed.own]
            notified = [row for row in others if row["change"] not in LOADS]
            if notified or len(rows) < count:
                break
        if others:
            noticed.or_loaded_ms = int(others[0]["time_us"]) // 1000
        if notified:
            noticed.at_ms = int(notified[0]["time_us"]) // 1000
        noticed.leave_out(rows)
        return noticed.or_loaded_ms if loads else noticed.at_ms

    def send(
        self,
        table: str,
        revision: int,
        facts: Sequence[FileFacts],
        *,
        changed: Mapping[str, bool],
        removed: Sequence[str],
        point: Point = NAMED_ONLY,
    ) -> Swept:
        """Send facts that were compared with ``revision``; return catalogd's answer.

        ``changed``: by partition, whether files may be gone.

        Raises:
            NoSuchObject: the table was dropped.
            LinkError: catalogd does not answer.
        """
        db, name = parse_table_name(table)
        sweep = Sweep(
            request=0,
            db=db,
            table=name,
            revision=revision,
            facts=tuple(facts),
            changed=tuple(changed),
            overwritten=any(changed.values()),
            removed=tuple(removed),
            as_of=point.as_of,
            until=point.until,
            last=point.last and bool(point.as_of),
            whole=point.whole,
        )
        tries = 0

        def request(catalogd: Conversation) -> Swept:
            nonlocal tries
            tries += 1
            return catalogd.request(sweep, Swept, timeout_s=ANSWER_S)

        swept = patiently(lambda: self._catalogd.answer(request))
        self.was_repeated = tries > 1
        noticed = self._noticed.setdefault(table, _Noticed())
        if swept.version:
            noticed.own.add(swept.version)
        elif self.was_repeated:  # catalogd may have kept the first message; its answer was lost
            noticed.leave_out(self._history(table, after=noticed.version, count=1))
        return swept

    def _history(self, table: str, *, after: int, count: int) -> list[dict[str, Any]]:
        """Return the newest ``count`` changes of ``table`` after a version, the newest first."""
        db, name = parse_table_name(table)
        asked = ReadHistory(db=db, table=name, after=after, count=count)
        return self._inspect(asked).records()

    def _inspect(self, question: Question[A]) -> A:
        return patiently(lambda: self._catalogd.inspect(question, timeout_s=ANSWER_S))


class KnownInOrder:
    """The known files of one table, read in the order of its partitions."""

    def __init__(
        self, known: KnownFiles, table: str, *, behind: str | None = None, pages_ahead: int = 0
    ) -> None:
        """``behind``, ``pages_ahead``: as of ``KnownFiles.facts``."""
        self._known, self._table = known, table
        self._pages_ahead = pages_ahead
        self._pages: Iterator[tuple[int, list[FileFacts]]]
        self._page: list[FileFacts]  # the present page
        self._at = 0  # how many facts of the page were returned
        self._behind = behind  # the partition after which the range begins; None: the first
        self._next = behind  # the partition up to which the range is read
        self.revision = 0
        """The revision of the facts; updated after each Sweep of this reader."""
        self._read()

    def begin(self) -> None:
        """Let the next range begin after the last range that was read."""
        self._behind = self._next

    def up_to(self, last: str | None, *, facts_max: int) -> tuple[dict[str, FileFacts], str | None]:
        """Return the next facts of the range, and the partition with which they end.

        They end with ``last`` (None: with the table), or earlier, with ``facts_max`` facts.
        """
        found: dict[str, FileFacts] = {}
        while self._page and len(found) < facts_max:
            size = len(self._page)
            end = size if last is None else bisect(self._page, last, key=attrgetter("partition"))
            end = min(end, self._at + facts_max - len(found))
            found |= {one.partition: one for one in self._page[self._at : end]}
            self._at = end
            if end < size:
                break
            _, self._page = next(self._pages, (0, []))
            self._at = 0
        self._next = next(reversed(found)) if len(found) >= facts_max else last
        return found, self._next

    def of(self, partitions: Sequence[str], *, facts_max: int) -> dict[str, FileFacts]:
        """Return the facts of the next, sorted ``partitions``, without those of others in between.

        ``facts_max``: how many are read together.
        """
        wanted, found = set(partitions), dict[str, FileFacts]()
        reached: str | None = None
        while partitions and reached != partitions[-1]:
            facts, reached = self.up_to(partitions[-1], facts_max=facts_max)
            found |= {one: facts[one] for one in wanted & facts.keys()}
        return found

    def go_back(self, revision: int) -> None:
        """Go back to the beginning of the range, because the table is at ``revision`` now."""
        self._next, self.revision = self._behind, revision
        self._read()

    def _read(self) -> None:
        """Read the pages after ``_next``; the first page has the revision."""
        self._pages = self._known.facts(self._table, behind=self._next, ahead=self._pages_ahead)
        revision, self._page = next(self._pages, (0, []))
        self._at = 0
        self.revision = revision or self.revision


@contextmanager
def known_at(statestores: str, *, key_file: str | None = None) -> Iterator[KnownFiles]:
    """Connect to the catalogd behind the first hub that answers.

    Raises:
        LinkError: no hub answers, or the hub that answers has no catalogd.
        ConfigError: there is no key file.
    """
    hubs = parse_addresses(statestores, setting="statestores")
    credential = find_credential(DRIVER, key_file=key_file, environ=os.environ)
    with closing(CatalogdClient(hubs, credential)) as catalogd:
        catalogd.connect()  # so that an error is raised at once
        reads = ThreadPoolExecutor(1, thread_name_prefix="topicast-facts")
        try:
            yield KnownFiles(catalogd, reads)
        finally:
            reads.shutdown(wait=False, cancel_futures=True)


def _read_ahead(pages: Iterator[T], reads: Executor, *, count: int) -> Iterator[T]:
    """Yield ``pages``, while the one thread of ``reads`` reads the next ``count`` of them."""
    waiting = deque(reads.submit(next, pages, None) for _ in range(count))
    while (page := waiting.popleft().result()) is not None:
        waiting.append(reads.submit(next, pages, None))
        yield page


def _facts_of(page: FilePage) -> tuple[int, list[FileFacts]]:
    """Return the facts of a page that is not empty, and their revision."""
    found = [
        FileFacts(
            partition=one.partition,
            fingerprint=one.fingerprint,
            files=one.files,
            bytes=one.bytes,
            small=one.small,
            newest_ms=one.newest_ms,
            folder_ms=one.folder_ms,
        )
        for one in page.rows
    ]
    return page.rows[0].revision, found
