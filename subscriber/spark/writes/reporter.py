"""Reports the writes of this driver to catalogd.

    listener ──began──▶ intent ──ended──▶ written, or failed

All go into the outbox, which keeps them until catalogd has them; the queue keeps the last writes as
well, for the next agent, if this agent is killed. A driver's Python waits until what it has written
was worked on, ACK_S at most, so that in the usual case a reader after it is fresh.
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

ACK_S: Final = 0.003  # that catalogd is waited for; of 5 ms that a write may cost
FLUSH_S: Final = 2.0  # at the end, for what was written last
# That an execution is waited for, between two looks at the state. No longer than the pause before
# the next agent: in the JVM the call of a killed agent waits on, and takes what is executed.
TAKE_S: Final = 1.0
LOOK_S: Final = 10.0  # between two looks which metastore it is
REPORTED: Final = "reported"
NOT_REPORTED: Final = "not reported"
NO_CONTACT: Final = "not known yet: catalogd has not answered"  # what is written meanwhile waits
BEGUN_MAX: Final = 1000  # executions, and streams, that write at the same time

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A write that has begun; ``overwrites``: if it succeeds, files that were there are gone."""

    name: str  # what is written
    intent: WriteIntent
    overwrites: bool

    def end(self, *, failed: bool, overwritten: bool = False) -> None:
        """Report how it ended."""
        self.intent.end(failed=failed, overwritten=overwritten or self.overwrites)


@dataclass(frozen=True, slots=True)
class _Execution:
    """What is written now: its ``objects``, and the intents of them."""

    objects: dict[str, Touched]
    intents: list[_Begun]


@dataclass(frozen=True, slots=True)
class _Stream:
    """A streaming query: the number of its last batch, and the intents of its next batch."""

    batch: int
    intents: list[_Begun]


class Reporter:
    """Reports what one context executes, in a thread of its own."""

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
        """Make it; nothing is taken before ``start``.

        Args:
            sessions: Of the driver.
            outbox: Takes the reports.
            guard: Where failures end.
            control: Whether anything is to be reported.
            metastore_of: Returns the metastore that a session writes to, if it has a state or not.
            configured: The metastore that the settings name; empty: none.
            queue: What is executed.
        """
        self.reason = ""  # why writes are not reported
        self.missed = 0  # executions that were dropped before they were taken
        self._sessions = sessions
        self._outbox = outbox
        self._guard = guard
        self._control = control
        self._metastore_of = metastore_of
        self._configured = configured
        self._queue = queue
        self._look_at = 0.0  # when the metastore is looked at again
        self._jvm: Any = None
        self._begun: dict[int, _Execution] = {}  # what is written now, by execution
        self._streams: dict[str, _Stream] = {}  # by the id of a run
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topicast-reports", daemon=True)

    def start(self, session: Any) -> None:
        """Start the thread; ``session``: one of the driver's."""
        self._jvm = session._jvm
        self._is_reported(self._metastore_of(session))
        self._thread.start()

    def stop(self) -> None:
        """Report what was written until now, and end the thread."""
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
        """Report that a statement has changed ``table``, and no data; ``named``: its name, too."""
        if self._control.is_on and not self.reason:
            with suppress(UsageError):  # Spark has names that no table can have
                report_statement(self._outbox, table, named=named)

    def status(self) -> str:
        """Return ``reported``, with any exception to that, or why writes are not reported."""
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
        """Report what was executed."""
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
        """Report that something is written; keep what it is until it ends."""
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
        plans = Plans(session, self._jvm, configured=self._configured)
        if self._is_reported(plans.metastore):
            is_path = what == PATH_REFRESHED
            self._report(plans.objects(refreshed(session, str(name), is_path=is_path)))
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
        """End the intents of an execution; return what it was, None if its begin was missed."""
        began = self._begun.pop(mark, None)
        for one in began.intents if began is not None else ():
            one.end(failed=failed)
        return began

    def _objects(self, execution: Any) -> dict[str, Touched]:
        """Return what an execution writes that is reported, by name."""
        found = written(execution.analyzed()) if self._control.is_on else ()
        if not found:
            return {}
        plans = Plans(execution.sparkSession(), self._jvm, configured=self._configured)
        return plans.objects(found) if self._is_reported(plans.metastore) else {}

    def _intents(self, objects: Mapping[str, Touched]) -> list[_Begun]:
        """Report that these are about to be written."""
        return [
            _Begun(name, WriteIntent(self._outbox, name, touched.partitions), touched.overwrites)
            for name, touched in objects.items()
        ]

    def _end_all(self) -> None:
        """End all writes of the JVM as failed: their ends may have been missed, or will be."""
        begun = [one.intents for one in self._begun.values()]
        begun += [one.intents for one in self._streams.values()]
        self._begun, self._streams = {}, {}
        for one in chain.from_iterable(begun):
            one.end(failed=True)

    def _follow_stream(self, what: str, event: Any) -> None:
        """Report the batches of a stream into files; an active stream has begun its next batch."""
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
        if batch > stream.batch or what == STARTED:  # an idle query repeats its last batch
            objects = self._objects_of_stream(found)
            for one in intents or self._intents(objects if what == PROGRESS else {}):
                one.end(failed=False)
            intents = self._intents(objects)
        self._streams[run] = _Stream(batch, intents)
        if len(self._streams) > BEGUN_MAX:
            self._end_all()

    def _sink_of(self, event: Any) -> tuple[WriteTarget, ...]:
        """Return what a stream that has started writes."""
        session = self._sessions.current()
        return () if session is None else sink_of(session._jsparkSession, event.id())

    def _objects_of_stream(self, found: tuple[WriteTarget, ...]) -> dict[str, Touched]:
        session = self._sessions.current()
        if not found or session is None or not self._control.is_on:
            return {}
        plans = Plans(session._jsparkSession, self._jvm, configured=self._configured)
        return plans.objects(found) if self._is_reported(plans.metastore) else {}

    def _await(self) -> None:
        """Let catalogd have what was reported, if it takes no longer than usual."""
        self._outbox.flush(ACK_S)

    def _is_reported(self, metastore: ReportedMetastore) -> bool:
        """Return whether what is written to ``metastore`` is reported; the status says why not."""
        reason = metastore.reason
        if not reason and not self._outbox.follow(metastore.uris):
            reason = f"it writes to {metastore.uris}, reports are about {self._outbox.metastore}"
        self.reason = reason
        return not reason

    def _run(self) -> None:
        logged = ""
        while not self._stopping.is_set():
            now, is_taken = time.monotonic(), False
            with self._guard("look which metastore it is", unless=self._is_stopped):
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
        """Report what is executed next, if it comes in time; False: no more will come."""
        execution = self._queue.take(timeout_s, handled=not self._outbox.pending)
        if execution is None:
            return True
        if execution.what == ENDED:
            return False
        self.take(execution)
        return True

    def _is_stopped(self) -> bool:
        """Whether calls into the JVM may fail: it ends, or the driver is detached."""
        return self._stopping.is_set() or self._sessions.current() is None

    def _look(self, now: float) -> None:
        """Look now and then which metastore it is: another context may have another metastore."""
        session = self._sessions.current()
        if session is not None and now >= self._look_at:
            self._look_at = now + LOOK_S
            self._is_reported(self._metastore_of(session))
