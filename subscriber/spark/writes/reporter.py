"""Reports the writes of this driver to catalogd.

    wrapped method ──begin──▶ intent ──end──▶ written, or failed     in the user's thread
    listener ──began──▶ intent ──ended──▶ written, or failed            in a thread of ours

All go into the outbox, which keeps them until catalogd has them. A wrapped write waits for that,
but for ACK_S at most: in the usual case a reader after it is fresh, and the report has left
before the user's next statement, which may hold Python's lock for seconds. An
execution that a wrapper has reported, the listener does not report again.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final
from weakref import WeakKeyDictionary

from ....topics.errors import UsageError
from ...client.write_reports import WriteIntent, report_statement, report_write
from ...engine.write_outbox import Outbox
from ..guard import Guard
from ..refresh.control import Control
from ..sessions import Sessions
from .listener import (
    BEGAN,
    FAILED,
    INNER_EXECUTED,
    INNER_FAILED,
    MISSED,
    PROGRESS,
    STARTED,
    TERMINATED,
    ContextListener,
    Execution,
    Listener,
)
from .metastores import Metastore
from .plans import Plans, Touched, mark_of, sink_of, sunk, written
from .statements import Target
from .wrappers import install

ACK_S: Final = 0.003  # that a write is held up for; of 5 ms that it may cost
FLUSH_S: Final = 2.0  # at the end of Spark, for what was written last
MARK_S: Final = 0.05  # for a wrapped statement to note which execution was its own
IDLE_S: Final = 0.2  # between two looks for another context, while there is none
TAKE_S: Final = 1.0  # that an execution is waited for, between two looks at the state
LOOK_S: Final = 10.0  # between two looks which metastore it is
REPORTED: Final = "reported"
NOT_REPORTED: Final = "not reported"
NO_CONTACT: Final = "not known yet: catalogd has not answered"  # what is written meanwhile waits
MARKS_MAX: Final = 1000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Begun:
    """A write that has begun; ``overwrites``: if it succeeds, files that were there are gone."""

    name: str  # what is written
    intent: WriteIntent
    overwrites: bool

    def end(self, *, failed: bool, overwritten: bool = False) -> None:
        """Report how it ended."""
        self.intent.end(failed=failed, overwritten=overwritten or self.overwrites)


@dataclass(frozen=True, slots=True)
class _Execution:
    """What the JVM writes now: its ``objects``, and the intents of those no wrapper reports."""

    objects: dict[str, Touched]
    intents: list[Begun]


@dataclass(frozen=True, slots=True)
class _Stream:
    """A streaming query: the number of its last batch, and the intents of its next one."""

    batch: int
    intents: list[Begun]


class Reporter:
    """``begin``, ``end`` and ``flush`` are for any thread, and raise nothing."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        outbox: Outbox,
        guard: Guard,
        control: Control,
        metastore_of: Callable[[Any], Metastore],
        configured: str,
        found: Any,
    ) -> None:
        """Make it; nothing is wrapped before ``start``.

        Args:
            sessions: Of the process; their context is listened to.
            outbox: Takes the reports.
            guard: Where failures end.
            control: Whether anything is to be reported.
            metastore_of: Returns the metastore that a session writes to, if it has a state or not.
            configured: The metastore that the settings name; empty: none.
            found: A Consumer of Java's, of the sessions that execute anything.
        """
        self.reason = ""  # why writes are not reported
        self.missed = 0  # executions that were dropped before they were taken
        self._sessions = sessions
        self._outbox = outbox
        self._guard = guard
        self._control = control
        self._metastore_of = metastore_of
        self._configured = configured
        self._look_at = 0.0  # when the metastore is looked at again
        self._pid = os.getpid()
        self._jvm: Any = None
        self._identity: Any = None  # System.identityHashCode, which is looked up once
        self._plans: WeakKeyDictionary[Any, Plans] = WeakKeyDictionary()  # by session
        self._undo: Callable[[], None] | None = None  # takes the wrappers away
        self._open: dict[int, frozenset[str]] = {}  # what wrapped calls write now, by id of begun
        self._marks: dict[int, frozenset[str]] = {}  # what they have written, by execution
        self._begun: dict[int, _Execution] = {}  # what the JVM writes now, by execution
        self._streams: dict[str, _Stream] = {}  # by the id of a run
        self._listener = ContextListener(
            sessions, guard=guard, listen=partial(Listener, found=found)
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topicast-reports", daemon=True)

    def start(self, session: Any, *, wraps: bool) -> None:
        """Wrap what writes, if it ``wraps`` the methods of this Python, and start the thread."""
        self._jvm = session._jvm
        self._identity = self._jvm.java.lang.System.identityHashCode
        self._is_reported(self._metastore_of(session))
        if wraps:
            self._undo = install(self, session)
        self._thread.start()

    def stop(self) -> None:
        """Take the wrappers away, and report what was written until now."""
        if self._undo is not None:
            self._undo()
        if self._pid != os.getpid() or not self._thread.is_alive():
            return
        self.flush()
        self._stopping.set()
        self._listener.stop()
        self._thread.join(FLUSH_S)

    def begin(self, session: Any, found: tuple[Target, ...]) -> list[Begun]:
        """Report that ``session`` begins to write what was ``found``."""
        begun: list[Begun] = []
        if not found or self._pid != os.getpid() or not self._control.is_on:
            return begun
        with self._guard("report that a write begins"):
            plans = self._plans.get(session)
            if plans is None:
                plans = Plans(session._jsparkSession, self._jvm, configured=self._configured)
                self._plans[session] = plans
            if not plans.knows_formats:  # what writes is reported once it is known of what format
                found = tuple(one for one in found if one.refreshes)
            if self._is_reported(plans.metastore) and found:
                objects = plans.objects(found)
                self._open[id(begun)] = frozenset(objects)
                begun.extend(self._intents(objects))
        return begun

    def end(
        self, begun: list[Begun], *, failed: bool, overwritten: bool = False, frame: Any = None
    ) -> None:
        """Report how it ended; ``frame`` is what a statement returned."""
        if self._pid != os.getpid():
            return
        until = time.monotonic() + ACK_S
        for one in begun:
            with self._guard("report a write"):
                one.end(failed=failed, overwritten=overwritten)
        names = self._open.get(id(begun))
        if names and frame is not None:
            with self._guard("note what was written"):
                self._mark(mark_of(frame._jdf.queryExecution().analyzed(), self._identity), names)
        self._open.pop(id(begun), None)
        if begun:
            with self._guard("wait for catalogd"):
                self._await(begun[-1].intent, max(until - time.monotonic(), 0.0))

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
        but = self._listener.problem or (f"later: {outbox.delay}" if outbox.delay else "")
        but = but or outbox.not_visible or (f"{lost} were lost" if lost else "")
        return f"{REPORTED}, but {but}" if but else REPORTED

    def flush(self) -> None:
        """Report what was written until now, before Spark ends; wait for it, but not for long."""
        if self._pid != os.getpid():
            return
        self._listener.settle(FLUSH_S)
        with self._guard("wait for catalogd"):
            self._outbox.flush(FLUSH_S)

    def take(self, execution: Execution) -> None:
        """Report what the JVM executes, unless a wrapper has."""
        what = execution.what
        with self._guard("read what was written"):
            if what == MISSED:
                self.missed += execution.missed
                self._end_all()
            elif what in {STARTED, PROGRESS, TERMINATED}:
                self._follow_stream(what, execution.of())
            elif what == BEGAN:
                self._begin_execution(execution)
            elif what in {INNER_EXECUTED, INNER_FAILED}:
                self._end_begun(execution.mark, failed=what == INNER_FAILED)
            else:
                self._report_execution(execution)

    def _begin_execution(self, execution: Execution) -> None:
        """Report that the JVM writes, unless a wrapper has; keep what it is until it ends."""
        mark = execution.mark
        if mark in self._marks:
            return
        objects = self._objects(execution.of())
        open_ = frozenset().union(*tuple(self._open.values()))
        if mark in self._marks or not objects:
            return
        unreported = {name: touched for name, touched in objects.items() if name not in open_}
        self._begun[mark] = _Execution(objects, self._intents(unreported))
        if len(self._begun) > MARKS_MAX:
            self._end_all()

    def _report_execution(self, execution: Execution) -> None:
        mark, failed = execution.mark, execution.what == FAILED
        began = self._end_begun(mark, failed=failed)
        objects = self._objects(execution.of()) if began is None else began.objects
        ended = set() if began is None else {one.name for one in began.intents}
        if ended == objects.keys():
            return
        reported = ended | self._reported(mark, set(objects))
        for name, touched in objects.items():
            if name not in reported:
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

    def _intents(self, objects: Mapping[str, Touched]) -> list[Begun]:
        """Report that these are about to be written."""
        return [
            Begun(name, WriteIntent(self._outbox, name, touched.partitions), touched.overwrites)
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
        """Report the batches of a stream into files; while it is active, its next one is begun."""
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
        if batch > stream.batch or what == STARTED:  # one that is idle repeats its last one
            objects = self._objects_of_stream(found)
            for one in intents or self._intents(objects if what == PROGRESS else {}):
                one.end(failed=False)
            intents = self._intents(objects)
        self._streams[run] = _Stream(batch, intents)
        if len(self._streams) > MARKS_MAX:
            self._end_all()

    def _sink_of(self, event: Any) -> tuple[Target, ...]:
        """Return what a stream that has started writes."""
        session = self._sessions.current()
        return () if session is None else sink_of(session._jsparkSession, event.id())

    def _objects_of_stream(self, found: tuple[Target, ...]) -> dict[str, Touched]:
        session = self._sessions.current()
        if not found or session is None or not self._control.is_on:
            return {}
        plans = Plans(session._jsparkSession, self._jvm, configured=self._configured)
        return plans.objects(found) if self._is_reported(plans.metastore) else {}

    def _mark(self, mark: int, names: frozenset[str]) -> None:
        """Note that an execution was reported."""
        self._marks[mark] = names
        if len(self._marks) > MARKS_MAX:
            self._marks.pop(next(iter(self._marks)), None)

    def _await(self, intent: WriteIntent, timeout_s: float) -> None:
        with suppress(UsageError):  # catalogd follows another metastore: the status says so
            intent.wait(timeout_s)

    def _is_reported(self, metastore: Metastore) -> bool:
        """Return whether what is written to ``metastore`` is reported; the status says why not."""
        reason = metastore.reason
        if not reason and not self._outbox.follow(metastore.uris):
            reason = f"it writes to {metastore.uris}, reports are about {self._outbox.metastore}"
        self.reason = reason
        return not reason

    def _reported(self, mark: int, names: set[str]) -> frozenset[str]:
        """Return what the wrapper of this execution has reported; it may be about to note it."""
        until = time.monotonic() + MARK_S
        while mark not in self._marks and time.monotonic() < until:
            if not any(names & one for one in tuple(self._open.values())):
                break
            self._stopping.wait(MARK_S / 10)
        return self._marks.pop(mark, frozenset())

    def _run(self) -> None:
        logged = ""
        while not self._stopping.is_set():
            now, can_take = time.monotonic(), False
            with self._guard("listen to Spark's JVM"):
                can_take = self._listener.check(now=now)
            with self._guard("look which metastore it is"):
                self._look(now)
            state = self.reason or self._outbox.refusal or self._outbox.delay
            if state and state != logged:
                log.warning("writes: %s", self.status())
            logged = state
            if can_take:
                self._take_all(now + TAKE_S)
            else:
                self._stopping.wait(IDLE_S)
        self._listener.stop()  # a slow check may have begun to listen after ``stop`` timed out

    def _take_all(self, until: float) -> None:
        """Report what is executed, until there is nothing more, or it is time to look around."""
        while not self._stopping.is_set() and (left_s := until - time.monotonic()) > 0:
            execution = self._listener.take(left_s)
            if execution is None:
                return
            self.take(execution)

    def _look(self, now: float) -> None:
        """Look now and then which metastore it is: another context may have another one."""
        session = self._sessions.current()
        if session is not None and now >= self._look_at:
            self._look_at = now + LOOK_S
            self._is_reported(self._metastore_of(session))
