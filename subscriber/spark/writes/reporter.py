"""Reporter: reports the writes of this driver to catalogd.

    listener ──began──▶ intent ──ended──▶ written, or failed

All reports go into the outbox, which keeps them until catalogd has acknowledged them. The JVM's
queue keeps the last writes as well, for the next agent, if this agent is killed. After each write
the thread waits for catalogd, ACK_S at most, and the application's Python for the thread, so that
as a rule the next reader sees the write.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from ....topics.errors import UsageError
from ...client.write_reports import WriteIntent, report_statement, report_write
from ...engine.write_outbox import WriteOutbox
from ..guard import Guard
from ..refresh.control import Control
from ..sessions import Sessions
from .listener import (
    BEGAN,
    ENDED,
    FAILED,
    INNER_EXECUTED,
    INNER_FAILED,
    MISSED,
    PATH_REFRESHED,
    PROGRESS,
    STARTED,
    TABLE_REFRESHED,
    TERMINATED,
    Execution,
    Queue,
)
from .metastores import ReportedMetastore, WriteTarget
from .plans import Plans, Touched, refreshed, sink_of, sunk, written

ACK_S: Final = 0.003  # that a write waits for catalogd; a write may cost 5 ms in all
FLUSH_S: Final = 2.0  # at the end, for the last writes
# For one ``take`` of the queue, between two looks at the state. No longer than the pause before the
# next agent: in the JVM the call of a killed agent waits on, and takes the next execution.
TAKE_S: Final = 1.0
LOOK_S: Final = 10.0  # between two looks to which metastore the driver writes
REPORTED: Final = "reported"
NOT_REPORTED: Final = "not reported"
NO_CONTACT: Final = "not known yet: catalogd has not answered"  # the outbox keeps writes meanwhile
BEGUN_MAX: Final = 1000  # executions that write at the same time; and as many streams

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A write to one object that has begun."""

    name: str  # of the object
    intent: WriteIntent
    overwrites: bool  # if it succeeds, files that were there are gone

    def end(self, *, failed: bool) -> None:
        """Report how the write ended."""
        self.intent.end(failed=failed, overwritten=self.overwrites)


@dataclass(frozen=True, slots=True)
class _Execution:
    """An execution that writes now: its ``objects`` by name, and the intent of each."""

    objects: dict[str, Touched]
    intents: list[_Begun]


@dataclass(frozen=True, slots=True)
class _Stream:
    """A streaming query: the number of its last batch, and the intents of its next batch."""

    batch: int
    intents: list[_Begun]


class Reporter:
    """Reports the writes of one context, in a thread of its own."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        outbox: WriteOutbox,
        guard: Guard,
        control: Control,
        metastore_of: Callable[[Any], ReportedMetastore],
        configured: str,
        queue: Queue,
    ) -> None:
        """Take nothing from the queue before ``start``.

        Args:
            sessions: The driver's.
            outbox: Takes the reports.
            guard: Logs and counts failures.
            control: Says whether anything is to be reported.
            metastore_of: Returns the metastore to which a session writes, whether it has a state
                or not.
            configured: The metastore that the settings name; empty: none.
            queue: Has what the context executes.
        """
        self.reason = ""  # why writes are not reported; empty: they are
        self.missed = 0  # executions that the queue has dropped
        self._sessions = sessions
        self._outbox = outbox
        self._guard = guard
        self._control = control
        self._metastore_of = metastore_of
        self._configured = configured
        self._queue = queue
        self._look_at = 0.0  # monotonic: when the thread looks again to which metastore it writes
        self._jvm: Any = None
        self._begun: dict[int, _Execution] = {}  # executions that write now, by mark
        self._streams: dict[str, _Stream] = {}  # active streaming queries, by the id of their run
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topicast-reports", daemon=True)

    def start(self, session: Any) -> None:
        """Start the thread; ``session``: one of the driver's."""
        self._jvm = session._jvm
        self._take_metastore(self._metastore_of(session))
        self._thread.start()

    def stop(self) -> None:
        """Report the writes that have ended by now, and end the thread."""
        if not self._thread.is_alive():
            return
        with self._guard("wait for the last executions", unless=self._is_stopped):
            self._queue.settle(FLUSH_S)
        self._stopping.set()
        with self._guard("stop listening", unless=self._is_stopped):
            self._queue.stop()
        with self._guard("wait for catalogd"):
            self._outbox.flush(FLUSH_S)
        self._thread.join(TAKE_S)

    def report_statement(self, table: str, *, named: bool) -> None:
        """Report that a statement has changed ``table``, but no data of it; for any thread.

        ``named``: the table was created, dropped or renamed.
        """
        if self._control.is_on and not self.reason:
            with suppress(UsageError):  # Spark allows names that no table of a metastore has
                report_statement(self._outbox, table, named=named)

    def status(self) -> str:
        """Return REPORTED, with what is an exception to it; or why writes are not reported."""
        outbox, lost = self._outbox, self.missed + self._outbox.discarded
        why = "" if self._control.is_on else "control is off"
        why = why or self.reason or outbox.refusal
        if why:
            return f"{NOT_REPORTED}: {why}"
        if not outbox.accepted:
            return NO_CONTACT
        but = f"later: {outbox.delay}" if outbox.delay else ""
        but = but or outbox.not_visible or (f"{lost} were lost" if lost else "")
        return f"{REPORTED}, but {but}" if but else REPORTED

    def take(self, execution: Execution) -> None:
        """Report what ``execution`` has written, or is about to write."""
        what = execution.what
        with self._guard("read what was written", unless=self._is_stopped):
            if what == MISSED:
                self.missed += execution.missed
                self._end_all()
            elif what in {STARTED, PROGRESS, TERMINATED}:
                self._follow_stream(what, execution.of())
            elif what in {TABLE_REFRESHED, PATH_REFRESHED}:
                self._report_refresh(what, *execution.of())
            elif what == BEGAN:
                self._begin_execution(execution)
            elif what in {INNER_EXECUTED, INNER_FAILED}:
                self._end_begun(execution.mark, failed=what == INNER_FAILED)
            else:
                self._report_execution(execution)

    def _begin_execution(self, execution: Execution) -> None:
        """Report the intents of an execution that writes, and keep them until it ends."""
        objects = self._objects(execution.of())
        if not objects:
            return
        self._begun[execution.mark] = _Execution(objects, self._intents(objects))
        if len(self._begun) > BEGUN_MAX:
            self._end_all()

    def _report_execution(self, execution: Execution) -> None:
        failed = execution.what == FAILED
        began = self._end_begun(execution.mark, failed=failed)
        objects = self._objects(execution.of()) if began is None else began.objects
        ended = set() if began is None else {one.name for one in began.intents}
        self._report({name: objects[name] for name in objects.keys() - ended}, failed=failed)
        if objects:
            self._await()

    def _report_refresh(self, what: str, session: Any, name: str) -> None:
        if not self._control.is_on:
            return
        objects = self._touched(
            session, refreshed(session, str(name), is_path=what == PATH_REFRESHED)
        )
        if objects:
            self._report(objects)
            self._await()

    def _report(self, objects: Mapping[str, Touched], *, failed: bool = False) -> None:
        """Report writes that have ended."""
        for name, touched in objects.items():
            report_write(
                self._outbox,
                name,
                touched.partitions,
                failed=failed,
                overwritten=touched.overwrites,
            )

    def _end_begun(self, mark: int, *, failed: bool) -> _Execution | None:
        """End the intents of an execution; return it, or None: the queue had no begin of it."""
        began = self._begun.pop(mark, None)
        for one in began.intents if began is not None else ():
            one.end(failed=failed)
        return began

    def _objects(self, execution: Any) -> dict[str, Touched]:
        """Return the objects that a QueryExecution writes, as far as they are reported."""
        found = written(execution.analyzed()) if self._control.is_on else ()
        return self._touched(execution.sparkSession(), found) if found else {}

    def _touched(self, java: Any, found: tuple[WriteTarget, ...]) -> dict[str, Touched]:
        """Return the objects that ``found`` means in the JVM's session ``java``, by name.

        There are none if the session writes to another metastore than catalogd follows.
        """
        plans = Plans(java, self._jvm, configured=self._configured)
        return plans.objects(found) if self._take_metastore(plans.metastore) else {}

    def _intents(self, objects: Mapping[str, Touched]) -> list[_Begun]:
        """Report that ``objects`` are about to be written."""
        return [
            _Begun(name, WriteIntent(self._outbox, name, touched.partitions), touched.overwrites)
            for name, touched in objects.items()
        ]

    def _end_all(self) -> None:
        """End all writes of the JVM as failed: the queue may have dropped their ends."""
        begun = [one.intents for one in self._begun.values()]
        begun += [one.intents for one in self._streams.values()]
        self._begun, self._streams = {}, {}
        for one in chain.from_iterable(begun):
            one.end(failed=True)

    def _follow_stream(self, what: str, event: Any) -> None:
        """Report the batches of a streaming query into files.

        A query has begun its next batch as soon as the batch before has ended.
        """
        if what == PROGRESS:
            progress = event.progress()
            run, batch = str(progress.runId().toString()), int(progress.batchId())
            found = sunk(str(progress.sink().description()))
        else:
            run, batch = str(event.runId().toString()), -1
            found = self._sink_of(event) if what == STARTED else ()
        stream = self._streams.pop(run, None) or _Stream(-1, [])
        if what == TERMINATED:
            for one in stream.intents:
                if event.exception().isDefined():
                    one.end(failed=True)
                else:
                    one.intent.abandon()
            return
        intents = stream.intents
        if batch > stream.batch or what == STARTED:  # an idle query reports its last batch again
            objects = self._objects_of_stream(found)
            for one in intents or self._intents(objects if what == PROGRESS else {}):
                one.end(failed=False)
            intents = self._intents(objects)
        self._streams[run] = _Stream(batch, intents)
        if len(self._streams) > BEGUN_MAX:
            self._end_all()

    def _sink_of(self, event: Any) -> tuple[WriteTarget, ...]:
        """Return what a streaming query writes that has started."""
        session = self._sessions.current()
        return () if session is None else sink_of(session._jsparkSession, event.id())

    def _objects_of_stream(self, found: tuple[WriteTarget, ...]) -> dict[str, Touched]:
        session = self._sessions.current()
        if not found or session is None or not self._control.is_on:
            return {}
        return self._touched(session._jsparkSession, found)

    def _await(self) -> None:
        """Wait, ACK_S at most, until catalogd has acknowledged what was reported."""
        self._outbox.flush(ACK_S)

    def _take_metastore(self, metastore: ReportedMetastore) -> bool:
        """Report writes to ``metastore`` from now on, if catalogd may follow it; else note why not.

        Returns:
            Whether writes to it are reported.
        """
        reason = metastore.reason
        if not reason and not self._outbox.follow(metastore.uris):
            reason = f"it writes to {metastore.uris}, reports are about {self._outbox.metastore}"
        self.reason = reason
        return not reason

    def _run(self) -> None:
        logged = ""
        while not self._stopping.is_set():
            now, is_taken = time.monotonic(), False
            with self._guard("look to which metastore the driver writes", unless=self._is_stopped):
                self._look(now)
            state = self.reason or self._outbox.refusal or self._outbox.delay
            if state and state != logged:
                log.warning("writes: %s", self.status())
            logged = state
            with self._guard("take what Spark's JVM executes", unless=self._is_stopped):
                is_taken = self._take_next(TAKE_S)
            if not is_taken:
                self._stopping.wait(TAKE_S)

    def _take_next(self, timeout_s: float) -> bool:
        """Report the next execution, if it comes in time; False: the listener was stopped."""
        execution = self._queue.take(timeout_s, handled=not self._outbox.pending)
        if execution is None:
            return True
        if execution.what == ENDED:
            return False
        self.take(execution)
        return True

    def _is_stopped(self) -> bool:
        """Return whether calls into the JVM may fail: it ends, or the driver is being detached."""
        return self._stopping.is_set() or self._sessions.current() is None

    def _look(self, now: float) -> None:
        """Look every LOOK_S to which metastore the driver writes: a new context may change it."""
        session = self._sessions.current()
        if session is not None and now >= self._look_at:
            self._look_at = now + LOOK_S
            self._take_metastore(self._metastore_of(session))
