"""Reporter: tells catalogd what this driver writes.

    wrapped method ──begin──▶ intent ──end──▶ written, or failed        in the user's thread
    listener ──▶ queue ──▶ one thread of ours: what was it? ──▶ written  what no wrapper saw

A wrapped write waits for catalogd, but for ACK_S at most: in the usual case whoever reads after
it is fresh, and the report has left before the user's next statement, which may hold Python's
lock for seconds. Told twice is told once; what can tell that it was told says nothing.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from ....topics.errors import TopicastError, UsageError
from ...client.subscriber import Subscriber
from ..guard import Guard
from ..sessions import Sessions
from .callbacks import Callbacks, Deaf
from .listener import FAILED, MISSED, PROGRESS, Listening
from .metastores import Metastore
from .plans import Plans, empty_bus, mark_of, sunk, written
from .statements import Target
from .unacknowledged import Begun, Untold, Wrote
from .wrappers import install

ACK_S: Final = 0.003  # that a write is held up for; of 5 ms that it may cost
FLUSH_S: Final = 2.0  # at the end of Spark, for what was written last
MARK_S: Final = 0.05  # for a wrapped statement to say which execution was its own
IDLE_S: Final = 0.2  # between two looks for another context
PROVE_S: Final = 10.0  # between two proofs that callbacks arrive: their server may be taken or end
QUEUE_MAX: Final = 10_000  # executions that wait to be looked at; each is held in the JVM
REPORTED: Final = "reported"
MARKS_MAX: Final = 1000

log = logging.getLogger(__name__)


class Reporter:
    """``begin``, ``end`` and ``flush`` are for any thread, and raise nothing."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        guard: Guard,
        live: Callable[[], Subscriber | None],
        metastore: Metastore,
        said: str,
        is_on: Callable[[], bool],
    ) -> None:
        """Make it; nothing is wrapped before ``start``.

        Args:
            sessions: Of the process; their context is listened to.
            guard: Where failures end.
            live: Who tells, at this moment.
            metastore: What ``live`` says that it writes to.
            said: The metastore that the settings name.
            is_on: Whether anything is to be reported.
        """
        self.reason = metastore.reason
        self.refusal = ""
        self.deaf = ""
        self.delay = ""
        self.untold = Untold(live)
        self.missed = 0
        self._sessions = sessions
        self._guard = guard
        self._live = live
        self._uris = metastore.uris
        self._said = said
        self._is_on = is_on
        self._pid = os.getpid()
        self._jvm: Any = None
        self._system: Any = None
        self._plans: WeakKeyDictionary[Any, Plans] = WeakKeyDictionary()
        self._undo: Callable[[], None] = _nothing
        self._context: Callable[[], Any] = _nothing  # that is listened to, or was to be
        self._listening: Listening | None = None
        self._queue: Queue[tuple[str, Any]] = Queue(QUEUE_MAX)
        self._open: dict[int, frozenset[str]] = {}  # what wrapped calls write at this moment
        self._marks: dict[int, frozenset[str]] = {}
        self._batches: dict[str, int] = {}
        self._callbacks = Callbacks()
        self._prove_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topicast-reports", daemon=True)

    def start(self, session: Any) -> None:
        """Wrap what writes, and start the thread."""
        self._jvm = session._jvm
        self._system = self._jvm.java.lang.System
        self._undo = install(self, session)
        self._thread.start()

    def stop(self) -> None:
        """Undo what was wrapped, and tell what was written until now."""
        self._undo()
        if self._pid != os.getpid() or not self._thread.is_alive():
            return
        self.flush()
        self._stopping.set()
        self._thread.join(FLUSH_S)
        self._listen_no_more()

    def begin(self, session: Any, found: tuple[Target, ...]) -> list[Begun]:
        """Tell that what was ``found`` is being written in ``session``."""
        begun: list[Begun] = []
        if not found or self._pid != os.getpid() or not self._is_on():
            return begun
        with self._guard("tell that a write begins"):
            plans = self._plans.get(session)
            if plans is None:
                plans = Plans(session._jsparkSession, self._jvm, said=self._said)
                self._plans[session] = plans
            if self._is_reported(plans):
                objects = plans.objects(found)
                self._open[id(begun)] = frozenset(objects)
                for name, touched in objects.items():
                    one = self.untold.begin(name, touched.partitions, overwrites=touched.overwrites)
                    begun.append(one)
        return begun

    def end(
        self, begun: list[Begun], *, failed: bool, overwritten: bool = False, frame: Any = None
    ) -> None:
        """Tell how it ended; ``frame`` is what a statement returned."""
        until = time.monotonic() + ACK_S
        for one in begun:
            with self._guard("tell what was written"):
                self.untold.end(one, failed=failed, overwritten=overwritten or one.overwrites)
        names = self._open.get(id(begun))
        if names and frame is not None:
            with self._guard("tell apart what was written"):
                self._mark(mark_of(frame._jdf.queryExecution().analyzed(), self._system), names)
        self._open.pop(id(begun), None)
        if begun:
            with self._guard("wait for catalogd"):
                self._await(begun[-1], max(until - time.monotonic(), 0.0))

    def standing(self) -> str:
        """Return ``reported``, and with what exception, or why writes are not."""
        why, lost = self.reason or self.refusal, self.missed + self.untold.lost
        if why:
            return f"not reported: {why}"
        but = self.deaf or self.delay or (f"{lost} were lost" if lost else "")
        return f"{REPORTED}, but {but}" if but else REPORTED

    def flush(self) -> None:
        """Tell what was written until now, before Spark ends; wait for it, but not for long."""
        if self._pid != os.getpid():
            return
        for context in self._contexts():
            with self._guard("hear of the last writes"):
                empty_bus(context)
        listening = self._listening
        if listening is not None:
            with self._guard("hear of the last writes", unless=lambda: not self._contexts()):
                listening.settle(FLUSH_S)
        done = threading.Event()
        self._take("", done)
        done.wait(FLUSH_S)
        live = self._live()
        if live is not None:
            with self._guard("tell of the last writes"):
                live.flush(FLUSH_S)

    def _mark(self, mark: int, names: frozenset[str]) -> None:
        """Note that an execution was told of."""
        self._marks[mark] = names
        if len(self._marks) > MARKS_MAX:
            self._marks.pop(next(iter(self._marks)), None)

    def _await(self, begun: Begun, timeout_s: float) -> None:
        """Wait for so long until catalogd has what ended."""
        try:
            if self.untold.wait(begun, timeout_s):
                self.refusal = ""
        except UsageError as error:
            if self.refusal != str(error):
                log.warning("writes are refused: reason=%s", error)
            self.refusal = str(error)

    def _is_reported(self, plans: Plans) -> bool:
        """Whether what that session writes is reported; if not, the status says why."""
        if not self._is_on():
            return False
        metastore = plans.metastore()
        if not metastore.reason and metastore.uris != self._uris:
            why = f"the metastore was {self._uris or 'not set'} at attach, and is {metastore.uris}"
            metastore = Metastore(reason=f"{why}: set it before, or spark.topicast.metastore")
        self._say(metastore.reason)
        return not metastore.reason

    def _say(self, reason: str) -> None:
        if reason and reason != self.reason:
            log.warning("writes are not reported: reason=%s", reason)
        self.reason = reason

    def _contexts(self) -> list[Any]:
        """Return the contexts of the JVM that have not been stopped: one, or none."""
        contexts = {id(one._sc): one._sc for one in self._sessions.alive() if one._sc is not None}
        return [one._jsc.sc() for one in contexts.values() if one._jsc is not None]

    def _take(self, what: str, of: Any) -> None:
        """Hand over; called by the JVM."""
        if what == MISSED:
            self.missed += int(of)
            return
        try:
            self._queue.put_nowait((what, of))
        except Full:
            self.missed += 1

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._queue.empty():
                with self._guard("listen to Spark"):
                    self._listen()
                with self._guard("tell what was written"):
                    self.untold.settle()
                    self._note_delay()
            what, of = self._next()
            if isinstance(of, threading.Event):
                of.set()
            elif of is not None:
                with self._guard("read what was written"):
                    self._hear(what, of)

    def _note_delay(self) -> None:
        """Note whether catalogd puts off what it is told."""
        live, why = self._live() if len(self.untold) else None, ""
        if live is not None:
            with suppress(TopicastError):  # it has just ended
                why = live.stats().writes_delay_reason
        if why and not self.delay:
            log.warning("writes are told later: reason=%s", why)
        self.delay = f"later: {why}" if why else ""

    def _next(self) -> tuple[str, Any]:
        try:
            return self._queue.get(timeout=IDLE_S)
        except Empty:
            return "", None

    def _hear(self, what: str, of: Any) -> None:
        """Tell what a listener heard was written, unless a wrapper has told it."""
        plan = None
        if what == PROGRESS:
            progress = of.progress()
            found = sunk(progress) if self._is_new(progress) else ()
            java = next((one._jsparkSession for one in self._sessions.alive()), None)
        else:
            plan, java = of.analyzed(), of.sparkSession()
            found = written(plan)
        if not found or java is None:
            return
        plans = Plans(java, self._jvm, said=self._said)
        if not self._is_reported(plans):
            return
        objects = plans.objects(found)
        told = (
            frozenset() if plan is None else self._told(mark_of(plan, self._system), set(objects))
        )
        self.untold.wrote(
            *(
                Wrote(
                    object=name,
                    partitions=touched.partitions,
                    failed=what == FAILED,
                    overwritten=touched.overwrites,
                )
                for name, touched in objects.items()
                if name not in told
            )
        )

    def _told(self, mark: int, names: set[str]) -> frozenset[str]:
        """Return what the wrapper of this execution has told; it may be about to say so."""
        until = time.monotonic() + MARK_S
        while mark not in self._marks and time.monotonic() < until:
            if not any(names & one for one in tuple(self._open.values())):
                break
            self._stopping.wait(MARK_S / 10)
        return self._marks.pop(mark, frozenset())

    def _is_new(self, progress: Any) -> bool:
        """Whether a batch was not heard of: a stream that rests tells of the last one again."""
        run, batch = str(progress.runId().toString()), int(progress.batchId())
        before = self._batches.pop(run, -1)
        self._batches[run] = batch
        if len(self._batches) > MARKS_MAX:
            del self._batches[next(iter(self._batches))]
        return batch > before

    def _listen(self) -> None:
        """Hear what the context of now executes, if callbacks arrive; look again now and then."""
        alive = (one for one in self._sessions.alive() if one._sc is not None)
        session = next((one for one in alive if one._sc._jsc is not None), None)
        if session is None:
            return
        now = time.monotonic()
        if self._context() is not session._sc:
            self._context, self._listening = ref(session._sc), None
        elif now < self._prove_at:
            return
        self._prove_at = now + PROVE_S
        try:
            self._callbacks.prove(session)
            if self._listening is None:
                self._listening = Listening(session, self._take)
            self.deaf = ""
        except Deaf as error:
            if not self.deaf:
                self._guard.failed("hear what the JVM executes", error)
            self.deaf = str(error)
            self._listen_no_more()

    def _listen_no_more(self) -> None:
        """Take the listener away: while callbacks do not arrive the JVM has none of ours."""
        listening, self._listening = self._listening, None
        if listening is not None:
            with self._guard("listen no more", unless=lambda: not self._contexts()):
                listening.stop()


def _nothing() -> None:
    """Do nothing; there is nothing."""
