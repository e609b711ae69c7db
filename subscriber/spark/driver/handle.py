"""Handle: attaches this process's driver, by an agent that does the work; the handle asks it.

    attach ──▶ settings, checked ──▶ TopicastBootstrap in the JVM ──starts──▶ the agent
    status, control, sync, detach ──▶ TopicastBoard ◀──takes, answers── the agent

A process has one handle. Without an answer of the agent, the handle itself says what it knows.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ....topics.backports import Self
from ....topics.errors import NotReady, SourceError, UsageError
from ....topics.keys.folder import KEY
from ....topics.objects.drivers import CONNECTING, DETACHED, PLAIN, UNSUPPORTED
from ....topics.objects.rules import ON
from ...arguments import scope as checked_scope
from ...arguments import timeout_s as checked_timeout_s
from ..config import SparkSettings, conf_of, read_control, settings_of
from ..guard import Guard, first_line
from ..jar.bootstrap import AGENT, AGENT_SETTING, bootstrap_of
from ..sessions import existing, has_jvm, reason_of
from ..status import AttachStatus
from ..writes.wrappers import install
from .hook import on_construction, once, release

SYNC_S: Final = 10.0  # for a sync whose caller names no time
STATUS_S: Final = 1.0  # for the agent to answer; then ``status`` returns its last answer
CONTROL_S: Final = 1.0  # for the agent to answer; an agent that is late takes the order later
DETACH_S: Final = 10.0  # for the agent to detach: it first reports the last writes
LATE_S: Final = 0.5  # for the agent's answer to arrive, beyond the time that the agent was given
REPORTED_MS: Final = 3  # that a write waits until it is reported; a write may cost 5 ms in all
STARTING: Final = "its agent is starting"
STOPPED: Final = "its SparkContext was stopped"
SILENT: Final = "its agent does not answer"
_ERRORS: Final = {one.__name__: one for one in (NotReady, SourceError, UsageError)}


@dataclass(slots=True)
class _Attached:
    """A driver that could be attached."""

    settings: SparkSettings
    given: Mapping[str, object]  # the arguments of ``attach``, and what ``control`` has set since
    command: str | None  # that starts an agent; None: this Python does
    bootstrap: Any  # the TopicastBootstrap that serves the present SparkContext
    unhook: Callable[[], None]  # unwraps the methods of PySpark


class Handle:
    """An attached driver; its methods never harm the application."""

    def __init__(self) -> None:
        """Begin as plain Spark."""
        self._pid = os.getpid()
        self._guard = Guard()
        self._attached: _Attached | None = None  # None: the driver could not be attached
        self._is_detached = False
        self._lock = threading.Lock()  # held while another context gets its bootstrap
        self._last: AttachStatus | None = None  # the agent's last answer
        self._reason = ""  # why the driver could not be attached

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        now = self.status()
        facts = (f"state={now.state!r}", f"reason={now.reason!r}", f"control={now.control!r}")
        return f"Handle({', '.join(facts)}, statestores={now.statestores!r})"

    def status(self) -> AttachStatus:
        """Return the state and the counters, as the agent has them; in a notebook a table.

        If the agent does not answer within a second, the counters are those of its last answer,
        and the reason says so.
        """
        attached = self._in_use()
        if attached is None:
            return self._status(*self._condition())
        with self._guard("ask the agent", unless=self._has_ended):
            is_read = attached.bootstrap.board().isRead()  # false: the agent is starting
            answer = self._ask(attached.bootstrap, {"do": "status"}, STATUS_S) if is_read else None
            if answer is not None:
                self._last = AttachStatus(**answer)
                return replace(self._last, errors=self._last.errors + self._guard.errors)
        return self._status(*self._condition())

    def control(self, control: str) -> None:
        """Turn the driver ``off`` (plain Spark), ``on``, or to a ``dry-run`` that only counts.

        Raises:
            ConfigError: ``control`` is none of these.
        """
        control = read_control(control, "control")
        attached = self._in_use()
        if attached is None:
            return
        with self._guard("switch the driver"):
            attached.settings = replace(attached.settings, control=control)
            attached.given = {**attached.given, "control": control}
            attached.bootstrap.control(control)
            self._ask(attached.bootstrap, {"do": "control", "control": control}, CONTROL_S)

    def sync(self, timeout_s: float = SYNC_S, *, scope: str = "") -> None:
        """Return once all that the metastore had committed before the call is refreshed here.

        ``scope``: a table (``db.table``), or a database with its tables (``db``), of which alone
        changes are waited for. A driver that is still connecting waits for all changes even so: it
        goes live for all tables at once, because Spark may have cached any of them before.

        Raises:
            UsageError: ``timeout_s`` is not a number of seconds, or more than a day; or ``scope``
                is neither a database nor a table.
            NotReady: it took longer, or the driver is not attached; says who lags.
            SourceError: changes of the metastore do not reach catalogd at all; says why.
        """
        timeout_s = checked_timeout_s(timeout_s)
        wanted = str(checked_scope(scope))
        attached = self._in_use()
        if attached is None:
            state, reason = self._condition()
            raise NotReady(f"the driver is {state}: {reason}")
        until = time.monotonic() + timeout_s
        question = {"do": "sync", "timeout_s": timeout_s, "until": until, "scope": wanted}
        try:
            answer = self._ask(attached.bootstrap, question, timeout_s + LATE_S)
        except Exception as error:
            raise NotReady(f"Spark's JVM does not answer: {first_line(error)}") from error
        if answer is None:
            text = f"no contact with {attached.settings.statestores} within {timeout_s} s"
            raise NotReady(f"{text}: {self._condition()[1]}")
        if "error" in answer:
            raise _ERRORS[answer["error"]](answer["text"])

    def detach(self) -> None:
        """Make the driver plain Spark again; a second time, or in a forked child, do nothing."""
        if self._pid != os.getpid():
            return
        with self._guard("detach", unless=self._has_ended):
            release(self)
            attached = self._attached
            if attached is None or self._is_detached:
                return
            self._is_detached = True
            attached.unhook()
            if attached.bootstrap.board().isRead():
                answer = self._ask(attached.bootstrap, {"do": "detach"}, DETACH_S)
                self._last = AttachStatus(**answer) if answer is not None else self._last
            attached.bootstrap.stop()

    def begin(self, session: Any, given: Mapping[str, object]) -> None:
        """Have the JVM start the agent, or note why that is not possible.

        Caller: ``attach``. ``given``: its arguments.
        """
        with self._guard("attach"):
            try:
                self._start(session, given)
            except Exception as error:
                self._reason = reason_of(error)
                raise

    def add(self, session: Any) -> None:
        """Refresh ``session``, too, and keep this driver's key from its Python workers.

        Caller: ``attach``, and the hook for each new session of PySpark's.
        """
        with self._guard("hide the key"):
            _hide_key(session)
        with self._guard("track a session"):
            attached = self._in_use()
            if attached is None:
                return
            with self._lock:
                if attached.bootstrap.isStopped():  # ``session`` is of another context
                    attached.bootstrap = bootstrap_of(session, attached.given, attached.command)
            attached.bootstrap.add(session._jsparkSession)

    def settle(self) -> None:
        """Wait, REPORTED_MS at most, until the agent has reported what Spark has executed.

        Caller: the wrapped methods of PySpark that write.
        """
        attached = self._in_use()
        if attached is not None:
            with self._guard("wait for a report", unless=self._has_ended):
                attached.bootstrap.settle(REPORTED_MS)

    def refreshed(self, session: Any, name: str, *, is_path: bool) -> None:
        """Report that the application has refreshed a table, or a path; then as ``settle``.

        Caller: the wrapped methods of PySpark that refresh.
        """
        attached = self._in_use()
        if attached is not None:
            with self._guard("report a refresh", unless=self._has_ended):
                what = "path refreshed" if is_path else "table refreshed"
                attached.bootstrap.report(what, session._jsparkSession, name)
                attached.bootstrap.settle(REPORTED_MS)

    def _start(self, session: Any, given: Mapping[str, object]) -> None:
        has_jvm(session)
        conf = conf_of(session)
        settings = settings_of(given, conf=conf, environ=os.environ)
        command = conf(AGENT_SETTING) or os.environ.get(AGENT)
        attached = _Attached(
            settings=settings,
            given=given,
            command=command,
            bootstrap=bootstrap_of(session, given, command),
            unhook=lambda: None,
        )
        self._attached, kind = attached, type(session)
        attached.unhook = self._hook(kind)
        for found in (session, *existing(kind)):
            self.add(found)

    def _in_use(self) -> _Attached | None:
        """Return the attached driver; None: there is none, or not in this process."""
        return None if self._is_detached or self._pid != os.getpid() else self._attached

    def _hook(self, kind: type) -> Callable[[], None]:
        """Have new sessions of ``kind`` call ``add``, writes ``settle``; return what undoes it."""
        undo_sessions, undo_writes = on_construction(kind, self.add), install(self, kind)

        def undo() -> None:
            undo_sessions()
            undo_writes()

        return undo

    @staticmethod
    def _ask(bootstrap: Any, question: dict[str, Any], timeout_s: float) -> Any:
        """Return the agent's answer; None: it has given none within ``timeout_s``."""
        answer = bootstrap.board().ask(json.dumps(question), int(timeout_s * 1000))
        return None if answer is None else json.loads(answer)

    def _has_ended(self) -> bool:
        """Return whether calls into the JVM may fail: Spark was stopped, or the JVM has ended."""
        try:
            return self._attached is None or bool(self._attached.bootstrap.isStopped())
        except Exception:  # noqa: BLE001 - Py4J's errors, as of a JVM that has ended
            return True

    def _condition(self) -> tuple[str, str]:
        """Return the state of the driver, and the reason, as far as the handle itself knows."""
        if self._pid != os.getpid():
            return DETACHED, "this process was forked: attach in its parent"
        attached = self._attached
        if attached is None:
            return UNSUPPORTED, self._reason
        if self._is_detached:
            return DETACHED, ""
        with self._guard("look after the agent", unless=self._has_ended):
            if attached.bootstrap.isStopped():
                return PLAIN, STOPPED
            problem = str(attached.bootstrap.problem())
            if problem:
                return PLAIN, problem
            if not attached.bootstrap.board().isRead():
                return CONNECTING, STARTING
        return (CONNECTING if self._last is None else self._last.state), SILENT

    def _status(self, state: str, reason: str) -> AttachStatus:
        """Return the status with the counters of the agent's last answer."""
        settings = self._attached.settings if self._attached is not None else None
        last = self._last or AttachStatus.unknown(
            control=settings.control if settings is not None else ON,
            statestores=settings.statestores if settings is not None else "",
        )
        return replace(
            last,
            state=state,
            reason=reason,
            errors=last.errors + self._guard.errors,
            last_error=self._guard.last_error or last.last_error,
        )


def attach(
    spark: Any,
    statestores: str | None = None,
    *,
    budget: str | int | None = None,
    control: str | None = None,
    refresh_existing: bool | None = None,
    refresh_cached: bool | None = None,
    metastore: str | None = None,
    key_file: str | None = None,
    planning: str | None = None,
    max_staleness: str | None = None,
    validate: str | None = None,
    endpoint: str | None = None,
) -> Handle:
    """Return the handle of this process, whose sessions are refreshed by push from now on.

    The call returns at once: an agent, a process beside the JVM, does the work, and the driver's
    state is connecting until the agent has it live. The call never raises, and needs no metastore:
    where Topicast cannot work, the driver is plain Spark, and ``status()`` says why. An argument
    that is not given is taken from Spark's configuration (``spark.topicast.*``), else from the
    environment (``TOPICAST_*``). Until the driver is detached, a second call changes no setting.

    Args:
        spark: A classic session. The other sessions of the process are found.
        statestores: Addresses, separated by commas.
        budget: Bytes that the driver may hold, as 1000, "64MB" or "5%" of the container's memory.
        control: on, off, or dry-run.
        refresh_existing: Let DataFrames that exist see what others append, too.
        refresh_cached: Compute cached data (CACHE TABLE, ``df.cache()``) of a changed table again.
        metastore: The name that catalogd has for the metastore to which this driver writes; else
            the value of hive.metastore.uris.
        key_file: The file with this driver's key; else TOPICAST_KEY, the content of such a file,
            else TOPICAST_KEY_FILE, else driver.key of this user's keys.
        planning: on: Spark plans from memory as long as it is current; off: by the metastore.
        max_staleness: How long the hub or catalogd may be silent, as "10s", until Spark asks the
            metastore again.
        validate: hms: the driver compares each table of a plan with the metastore's; catalogd:
            catalogd confirms each read of a table, which costs a round trip; none: neither.
        endpoint: on: the subscriber answers, if it can, what Spark reads for the first time; off:
            the metastore does.

    Cost: 0.1 s, and seconds of a processor in the first driver of a user, which compiles our Java.
    """
    given = {
        "statestores": statestores,
        "budget": budget,
        "control": control,
        "refresh_existing": refresh_existing,
        "refresh_cached": refresh_cached,
        "metastore": metastore,
        "key_file": key_file,
        "planning": planning,
        "max_staleness": max_staleness,
        "validate": validate,
        "endpoint": endpoint,
    }

    def make() -> Handle:
        handle = Handle()
        handle.begin(spark, given)
        return handle

    handle = once(make)
    handle.add(spark)
    return handle


def _hide_key(session: Any) -> None:
    """Have Python workers of functions that are created from now on see an empty TOPICAST_KEY.

    Where the driver runs tasks itself, its Python workers inherit the environment of the JVM, and
    with it the content of the key.
    """
    if os.environ.get(KEY) and session._sc is not None:
        session._sc.environment[KEY] = ""
