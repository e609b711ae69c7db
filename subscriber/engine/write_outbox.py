"""Outbox: what this driver wrote and has to tell, until catalogd has it in its store.

    begin ──▶ intent ──told──▶ open: told again every RENEW_S
      end ──▶ written | failed | abandoned ──told──▶ verdict: done

One report is under way at a time, so what was begun first is known first. What is told twice has
one effect: each write has a number, and catalogd knows it by that.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...topics.requests import RETRY_S, Requests
from ...topics.wire.messages import (
    ABANDONED,
    INTENT,
    OVERWRITTEN,
    WRITTEN,
    Refused,
    Report,
    Reported,
    Write,
)
from ...topics.wire.refusal import Refusal

BATCH_MAX: Final = 256  # writes in a report; catalogd remembers as many of a driver
QUEUE_MAX: Final = 10_000  # that wait while catalogd is away; then those of a table are one
RENEW_S: Final = 10.0  # catalogd takes an intent for written after 30 s without a word
DONE: Final = (WRITTEN, OVERWRITTEN)
HOPELESS: Final = (Refusal.METASTORE,)  # refusals that no time mends


class Outbox:
    """The writes of one driver, by number, from 1 in the order in which they begin."""

    def __init__(self, next_id: Callable[[], int], *, driver: bytes, metastore: str) -> None:
        """``driver`` is the registration, ``metastore`` the URIs that this process writes to."""
        self._driver = driver
        self._metastore = metastore
        self._last = 0
        self._queue: dict[int, Write] = {}  # to be told, oldest first
        self._open: dict[int, Write] = {}  # intents that were told
        self._renew_at: float | None = None
        self._requests: Requests[Report] = Requests(next_id)
        self.refusal = ""  # why nothing is told any more
        self.delay = ""  # why what waits is told later
        self.told = 0
        self.unknown = 0
        self.merged = 0
        self.lost = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def deadline(self) -> float | None:
        """When ``due`` has something."""
        if len(self._requests):
            return self._requests.deadline
        return 0.0 if self._queue else self._renew_at

    def note(self, write: Write) -> None:
        """Note that a write begins (an intent), or how it ended, begun or not.

        What ended in an error may have changed anything; a second end changes nothing.
        """
        self._last = max(self._last, write.number)
        begun = self._queue.get(write.number) or self._open.pop(write.number, None)
        if begun is not None and begun.state != INTENT:
            return
        self._queue.pop(write.number, None)
        self._put(write if write.state in (INTENT, *DONE) else replace(write, partitions=()))

    def is_told(self, number: int) -> bool:
        """Whether catalogd has the write ``number``, 0: all, as it is now, or never will."""
        return number not in self._queue if number else not self._queue

    def due(self, *, now: float) -> tuple[Report, ...]:
        """Return what is to be told now."""
        if not len(self._requests):
            self._begin_report(now)
        return tuple(replace(one, request=request) for request, one in self._requests.due(now))

    def on_reported(self, reported: Reported, *, now: float) -> None:
        """Learn what catalogd has."""
        report = self._requests.close(reported.request)
        if report is None:
            return
        self.delay = ""
        verdicts = {one.number: one for one in reported.verdicts}
        for write in report.writes:
            verdict = verdicts.get(write.number)
            if write.state != INTENT:
                has = verdict is not None and not verdict.problem
                self.told, self.unknown = self.told + has, self.unknown + (not has)
            if self._queue.get(write.number) is write:
                del self._queue[write.number]
                if write.state == INTENT:
                    self._open[write.number] = write
        self._renew_at = now + RENEW_S if self._open else None

    def on_refused(self, refused: Refused, *, now: float) -> None:
        """Tell again later, or never if no time mends it."""
        if self._requests.get(refused.request) is None:
            return
        if refused.code in HOPELESS:
            self._requests.clear()
            self._queue.clear()
            self._open.clear()
            self._renew_at, self.refusal, self.delay = None, refused.message, ""
            return
        self.delay = refused.message
        pause_s = max(refused.retry_ms / 1000, RETRY_S)
        self._requests.put_off(refused.request, until=now + pause_s)

    def hasten(self, *, now: float) -> None:
        """Tell again at once: catalogd is another one."""
        self._requests.hasten(now=now)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._requests) <= 1
        assert not self._queue.keys() & self._open.keys()
        assert all(write.state == INTENT for write in self._open.values())
        assert all(number == write.number for number, write in self._queue.items())

    def _put(self, write: Write) -> None:
        if self.refusal:
            return
        self._queue[write.number] = write
        if len(self._queue) > QUEUE_MAX:
            self._merge()
        while len(self._queue) > QUEUE_MAX:  # so many tables: the oldest is told no more
            del self._queue[next(iter(self._queue))]
            self.lost += 1

    def _merge(self) -> None:
        """Make the ended writes of each object one, of anything in it."""
        last: dict[str, int] = {}
        overwritten: set[str] = set()
        for number, write in tuple(self._queue.items()):
            if write.state in (INTENT, ABANDONED):
                continue
            if write.state == OVERWRITTEN:
                overwritten.add(write.object)
            before = last.get(write.object)
            if before is not None:
                del self._queue[before]
                self.merged += 1
            last[write.object] = number
        for name, number in last.items():
            write = self._queue[number]
            state = OVERWRITTEN if name in overwritten else write.state
            self._queue[number] = replace(write, partitions=(), state=state)

    def _begin_report(self, now: float) -> None:
        writes = tuple(self._queue.values())[:BATCH_MAX]
        if self._renew_at is not None and now >= self._renew_at:
            writes += tuple(self._open.values())[: BATCH_MAX - len(writes)]
            self._renew_at = now + RENEW_S
        if not writes:
            return
        unsettled = min((*self._queue, *self._open), default=self._last + 1)
        report = Report(
            request=0,
            driver=self._driver,
            metastore=self._metastore,
            settled=unsettled,
            writes=writes,
        )
        self._requests.open(report, now=now)
