"""The writes of this process that catalogd has not acknowledged yet, and their reports.

    add ──▶ intent ──acknowledged──▶ open, reported again every RENEW_S
    end ──▶ written | failed | abandoned ──acknowledged──▶ removed

The outbox outlives subscribers: the attached subscriber sends its writes, and the next subscriber
sends those that are left. With ``probe`` the first report has no writes, so that the driver learns
whether catalogd follows its metastore. Each write has a number, so that catalogd applies it once,
even if it is reported many times. The write that begins first is reported first, because one report
is in flight at a time (WriteSender).
"""

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from ...topics.clock import Clock
from ...topics.errors import UsageError
from ...topics.requests import RETRY_S, Requests
from ...topics.settings import metastore_hosts
from ...topics.wire.codec import fitting
from ...topics.wire.messages.connection import Refused
from ...topics.wire.messages.reports import (
    ABANDONED,
    ALTERED,
    INTENT,
    NAMED,
    OVERWRITTEN,
    WRITTEN,
    Report,
    Reported,
    Write,
    WriteOutcome,
    WriteProblem,
    WriteState,
)
from ...topics.wire.refusal import Refusal

BATCH_MAX: Final = 256  # writes in a report; catalogd remembers as many of a driver
WRITES_MAX: Final = 10_000  # that wait while catalogd is away; with more, those of a table merge
BYTES_MAX: Final = 16 << 20  # of their names and partitions: 1.6 KB each; with more, they merge
WRITE_CHARS_MAX: Final = 128 << 10  # of one write; a write with more is reported without partitions
REPORT_CHARS_MAX: Final = 192 << 10  # of a report, whose frame has at most 1 MiB
NAME_CHARS: Final = 4  # counted for each name in a report beyond its own; each may take 4 bytes
RENEW_S: Final = 10.0  # catalogd takes an intent for written after 30 s without a report
EVERY: Final = 0  # in place of a write's number
DONE: Final = (WRITTEN, OVERWRITTEN)


class WriteOutbox:
    """The writes of one driver, by number, from 1 in the order in which they begin.

    Any thread adds writes and waits; the thread of the attached subscriber takes reports.
    """

    def __init__(
        self,
        *,
        driver: bytes,
        metastore: str,
        probe: bool = False,
        writes_max: int = WRITES_MAX,
        bytes_max: int = BYTES_MAX,
        batch_max: int = BATCH_MAX,
    ) -> None:
        """Begin empty and detached.

        Args:
            driver: 16 bytes by which catalogd knows these writes; no other outbox has them.
            metastore: The URIs of the metastore that this process writes to.
            probe: Whether to report at once that there are no writes, so that ``accepted`` or
                ``refusal`` is known before the first write.
            writes_max: How many writes may wait.
            bytes_max: How many bytes of names they may have.
            batch_max: How many writes a report may have.
        """
        self.driver = driver
        self.metastore = metastore
        self.accepted = False  # whether catalogd has taken a report about this metastore
        self.refusal = ""  # why catalogd takes no report, until another subscriber attaches
        self.delay = ""  # why catalogd has postponed the last report; empty: it has not
        self.ended = 0  # writes that have ended, since the start
        self.acknowledged = 0  # ended writes that catalogd has recorded
        self.unknown = 0  # ended writes that it did not: no such object, or our key may not see it
        self.discarded = 0  # writes that were removed for want of room
        self.not_visible = ""  # why the last write to a table that our key may not see was refused
        self._probes = probe
        self._probing = False  # whether a report without writes is due
        self._writes_max, self._bytes_max, self._batch_max = writes_max, bytes_max, batch_max
        self._pid = os.getpid()
        self._changed = threading.Condition()  # guards everything here; waiters wait on it
        self._wake: Callable[[], None] | None = None  # of the attached subscriber
        self._closed = False
        self._waiters = 0  # threads
        self._unsent = False  # whether a write was added since the last report was made
        self._last = 0  # number of the newest write
        self._queue: dict[int, Write] = {}  # to be reported, oldest first
        self._queue_bytes = 0  # sum of their sizes
        self._open: dict[int, Write] = {}  # intents that catalogd has; none of them is in the queue
        self._renew_at: float | None = None  # when the open intents are reported again

    def __repr__(self) -> str:
        return f"<WriteOutbox of {self.metastore or 'no metastore'}: {self.pending} writes pending>"

    @property
    def pending(self) -> int:
        """How many writes wait to be reported, or for catalogd's answer."""
        return len(self._queue)

    @property
    def deadline(self) -> float | None:
        """When ``next_report`` has something; None: nothing waits."""
        return 0.0 if self._queue or self._probing else self._renew_at

    @property
    def urgent(self) -> bool:
        """Whether a thread waits, or a write was added since the last report was made."""
        return self._unsent or self._waiters > 0

    # for any thread

    def add(self, wanted: str, partitions: tuple[str, ...] = (), *, state: WriteState) -> int:
        """Add a write that begins (INTENT) or has ended; return its number.

        A write gets its number and its position in the queue in one step: catalogd would take a
        lower number that is reported later for a finished write, and ignore it.

        Raises:
            UsageError: the outbox is closed, or belongs to another process.
        """
        self._check_process()
        with self._changed:
            self._check_open()
            self._last += 1
            self._put(Write(number=self._last, state=state, object=wanted, partitions=partitions))
            wake, number = self._wake, self._last
        if wake is not None:
            wake()
        return number

    def end(self, write: Write) -> None:
        """Report how a write that has begun has ended. A second end changes nothing.

        Raises:
            UsageError: the outbox is closed, or belongs to another process.
        """
        self._check_process()
        with self._changed:
            self._check_open()
            begun = self._queue.get(write.number) or self._open.pop(write.number, None)
            if begun is not None and begun.state != INTENT:
                return
            self._remove(write.number)
            self._put(write)
            wake = self._wake
        if wake is not None:
            wake()

    def has_finished(self, number: int = EVERY) -> bool:
        """Whether catalogd has answered write ``number``, or all, or will never get it."""
        return number not in self._queue if number else not self._queue

    def wait(self, number: int = EVERY, *, timeout_s: float) -> bool:
        """Return within ``timeout_s`` whether catalogd has the write ``number``, or all.

        While no subscriber is attached it returns at once.

        Raises:
            UsageError: catalogd takes no report, for the reason in ``refusal``.
        """
        self._check_process()
        with self._changed:
            self._waiters += 1
            try:
                self._changed.wait_for(lambda: self._is_over(number), timeout_s)
            finally:
                self._waiters -= 1
            if self.refusal:
                raise UsageError(self.refusal)
            return self.has_finished(number)

    def flush(self, timeout_s: float) -> bool:
        """Return within ``timeout_s`` whether catalogd has all writes; at once if it refuses."""
        try:
            return self.wait(timeout_s=timeout_s)
        except UsageError:
            return False

    def follow(self, metastore: str) -> bool:
        """Report the writes to ``metastore``; return False if those to another are reported.

        Reports are about one metastore: the first about which catalogd has taken a report.
        """
        with self._changed:
            if metastore == self.metastore or (
                self.accepted and metastore_hosts(metastore) & metastore_hosts(self.metastore)
            ):
                return True
            if self.accepted or self._queue:
                return False
            self.metastore, self.refusal = metastore, ""
            self._probing = self._probes and bool(metastore)
            wake = self._wake
        if wake is not None:
            wake()
        return True

    def attach(self, wake: Callable[[], None]) -> None:
        """Let a subscriber send the writes; the outbox calls ``wake`` when a write is added."""
        with self._changed:
            self._wake = wake
            self.refusal = self.delay = ""
            self._probing = self._probes and bool(self.metastore)

    def detach(self, wake: Callable[[], None]) -> None:
        """Keep unacknowledged writes for the next subscriber, which may be attached already."""
        with self._changed:
            if self._wake == wake:
                self._wake = None
                self._changed.notify_all()

    def close(self) -> None:
        """Take no more writes."""
        self._closed = True

    # for the thread of the attached subscriber

    def next_report(self, *, now: float) -> Report | None:
        """Return a report of the writes that are due, with request 0; None: nothing is due."""
        with self._changed:
            self._unsent = False
            due = chain(self._queue.values())
            if self._renew_at is not None and now >= self._renew_at:
                due = chain(self._queue.values(), self._open.values())
                self._renew_at = now + RENEW_S
            first = islice(due, self._batch_max)
            writes = tuple(fitting(first, _chars, bytes_max=REPORT_CHARS_MAX))
            if not writes and not self._probing:
                return None
            return Report(
                request=0,
                driver=self.driver,
                metastore=self.metastore,
                finished=min((*self._queue, *self._open), default=self._last + 1),
                writes=writes,
            )

    def acknowledge(self, report: Report, outcomes: Iterable[WriteOutcome], *, now: float) -> None:
        """Remove the writes of ``report``, which catalogd has stored."""
        found = {one.number: one for one in outcomes}
        with self._changed:
            self.delay = ""
            if report.metastore == self.metastore:
                self.accepted, self._probing = True, False
            for write in report.writes:
                self._settle(write, found.get(write.number))
            self._renew_at = now + RENEW_S if self._open else None
            self._changed.notify_all()

    def refuse(self, reason: str) -> None:
        """Discard all writes: catalogd takes no report, however often it is sent."""
        with self._changed:
            self._queue.clear()
            self._open.clear()
            self._queue_bytes, self._renew_at = 0, None
            self.accepted = self._probing = False
            self.refusal, self.delay = reason, ""
            self._changed.notify_all()

    def back_off(self, reason: str) -> None:
        """Note why catalogd has postponed the report."""
        self.delay = reason

    def check(self) -> None:
        """Assert every invariant."""
        assert not self._queue.keys() & self._open.keys()
        assert all(write.state == INTENT for write in self._open.values())
        assert all(number == write.number for number, write in self._queue.items())
        assert self._queue_bytes == sum(map(_size, self._queue.values()))

    def _check_process(self) -> None:
        """Refuse a forked child before it takes the lock, which may stay locked there for ever."""
        if self._pid != os.getpid():
            raise UsageError("these reports belong to the process that began them")

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the subscriber is closed")

    def _is_over(self, number: int) -> bool:
        return self.has_finished(number) or self._wake is None or bool(self.refusal)

    def _put(self, write: Write) -> None:
        """Queue ``write``, without its partitions if it may have changed any partition.

        A write that failed may have. A write of more partitions than a report can hold is reported
        likewise.
        """
        self.ended += write.state != INTENT
        if self.refusal:
            return
        if write.state not in (INTENT, *DONE) or _chars(write) > WRITE_CHARS_MAX:
            write = replace(write, partitions=())
        self._queue[write.number] = write
        self._queue_bytes += _size(write)
        self._unsent = True
        if self._is_full():
            self._merge()
        while self._is_full() and len(self._queue) > 1:  # too many tables: discard the oldest write
            self._remove(next(iter(self._queue)))
            self.discarded += 1

    def _settle(self, write: Write, outcome: WriteOutcome | None) -> None:
        if write.state != INTENT:
            has = outcome is not None and not outcome.code
            self.acknowledged += has
            self.unknown += not has
        if outcome is not None and outcome.code == WriteProblem.NOT_VISIBLE:
            self.not_visible = outcome.problem
        if self._queue.get(write.number) is write:  # it has not ended meanwhile
            self._remove(write.number)
            if write.state == INTENT:
                self._open[write.number] = write

    def _remove(self, number: int) -> None:
        write = self._queue.pop(number, None)
        if write is not None:
            self._queue_bytes -= _size(write)

    def _is_full(self) -> bool:
        return len(self._queue) > self._writes_max or self._queue_bytes > self._bytes_max

    def _merge(self) -> None:
        """Merge the ended writes of each object into its last write, without partitions.

        Statements that change no data are merged likewise, apart from writes of data.
        """
        last: dict[tuple[str, bool], int] = {}
        strongest: dict[tuple[str, bool], int] = {}
        for number, write in tuple(self._queue.items()):
            if write.state in (INTENT, ABANDONED):
                continue
            key = write.object, write.state in (ALTERED, NAMED)
            if write.state in (OVERWRITTEN, NAMED):
                strongest[key] = write.state
            before = last.get(key)
            if before is not None:
                self._remove(before)
            last[key] = number
        for key, number in last.items():
            write = self._queue[number]
            merged = replace(write, partitions=(), state=strongest.get(key, write.state))
            self._queue[number] = merged
            self._queue_bytes += _size(merged) - _size(write)


def _size(write: Write) -> int:
    return len(write.object) + sum(map(len, write.partitions))


def _chars(write: Write) -> int:
    return _size(write) + NAME_CHARS * (1 + len(write.partitions))


class WriteSender:
    """Sends the reports of an outbox over one subscriber's connection, each until it is answered.

    Invariant: at most one report is in flight.
    """

    def __init__(
        self,
        outbox: WriteOutbox,
        next_id: Callable[[], int],
        *,
        clock: Clock,
        retry_s: float = RETRY_S,
    ) -> None:
        self.outbox = outbox
        self._clock = clock
        self._requests: Requests[Report] = Requests(next_id, clock, retry_s=retry_s)

    @property
    def deadline(self) -> float | None:
        """When ``due`` has something; None: nothing waits."""
        return self._requests.deadline if len(self._requests) else self.outbox.deadline

    def due(self) -> tuple[Report, ...]:
        """Return the reports to send now."""
        if not len(self._requests):
            report = self.outbox.next_report(now=self._clock.now)
            if report is not None:
                self._requests.open(report)
        return tuple(replace(one, request=request) for request, one in self._requests.due())

    def on_reported(self, reported: Reported) -> None:
        """Remove the writes that catalogd has answered."""
        report = self._requests.close(reported.request)
        if report is not None:
            self.outbox.acknowledge(report, reported.outcomes, now=self._clock.now)

    def on_refused(self, refused: Refused) -> None:
        """Send the report again later, or never if waiting does not help."""
        report = self._requests.get(refused.request)
        if report is None:
            return
        if refused.code in (Refusal.METASTORE, Refusal.ROLE):
            self._requests.clear()
            if report.metastore == self.outbox.metastore:
                self.outbox.refuse(refused.message)
            return
        self.outbox.back_off(refused.message)
        self._requests.back_off(refused.request, for_s=max(refused.retry_ms / 1000, RETRY_S))

    def retry_now(self) -> None:
        """Send the report again now: the connection, or catalogd, has changed."""
        self._requests.retry_now()

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._requests) <= 1
        self.outbox.check()
