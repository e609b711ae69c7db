"""The agent: a process beside a driver's JVM, which attaches the driver through Py4J.

    TopicastBootstrap (JVM) ──port and token on stdin──▶ agent ──gateway──▶ the driver's JVM
    TopicastBoard ──questions of the driver's Python──▶    └─── subscriber ──▶ statestored

The agent ends when the driver ends, when the driver's SparkContext was stopped, and when the
driver's Python detaches it. Any failure of the agent leaves the driver plain Spark.
"""

import gc
import json
import logging
import os
import select
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, Final

from ....topics.errors import NotReady, SourceError, UsageError
from ..guard import first_line
from ..jar.spark_home import add_py4j
from ..java import keep_in
from .driver import Driver

END_S: Final = 0.8  # for detaching once the driver has ended; then the process exits at once
BEGIN_S: Final = 5.0  # that ``_detach`` waits for an attach which is under way
SWITCH_WAIT_S: Final = 1.0  # that a change of ``control`` waits for such an attach
COLLECT_S: Final = 5.0  # between collections: Py4J's cycles keep sessions alive in the JVM
SESSION_S: Final = 0.02  # between two looks for the first session, which the driver creates now
LAST_S: Final = 0.2  # until a driver that has ended has closed its end of standard input
STDIN: Final = 0
LINE_BYTES_MAX: Final = 1 << 20  # of the first line, which has the driver's settings
SWITCH_S: Final = 0.001  # that a running thread delays one that answers a read of Spark
LOG_FORMAT: Final = (
    "topicast agent: %(levelname)s %(message)s"  # the driver's log has lines of others, too
)
DONE: Final = 0  # the JVM starts no other agent
FAILED: Final = 1  # the JVM starts another agent
NOT_A_DRIVER: Final = (
    "topicast agent: error: a driver starts it, with its port and token as input\n"
)
IMPORTS: Final = ("org.apache.spark.sql.*", "org.apache.spark.sql.classic.*")  # as PySpark's

log = logging.getLogger(__name__)


def main(driver: int | None = None) -> int:
    """Run the agent whose settings are the first line of standard input; return the exit code.

    The line is an object of JSON: the port of the driver's ``gateway``, its ``token``, and in
    ``attach`` what the driver's Python passes on. ``driver``: the process id of the driver, if
    another process than the driver has started this one; None: the parent is the driver.
    """
    line = _first_line()
    if not line:
        return DONE
    try:
        settings = json.loads(line)
        to = int(settings["gateway"]), str(settings["token"])
    except (ValueError, TypeError, KeyError):
        sys.stderr.write(NOT_A_DRIVER)
        return FAILED
    _log_until_the_end()
    sys.setswitchinterval(SWITCH_S)
    add_py4j(os.environ)
    try:
        from py4j.java_gateway import GatewayParameters, JavaGateway, java_import
        from py4j.protocol import Py4JError
    except ImportError as error:
        log.error("%s: pip install py4j, or set SPARK_HOME", error)
        return FAILED
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=to[0], auth_token=to[1]))
    try:
        for name in IMPORTS:
            java_import(gateway.jvm, name)
        return _Agent(gateway, settings, driver=driver or os.getppid()).run()
    except Py4JError as error:
        if _has_ended(LAST_S):
            return DONE
        log.error("the driver does not answer: %s", error)
        return FAILED


def prepare() -> None:
    """Import what ``main`` needs; without Py4J here, ``main`` takes it from SPARK_HOME."""
    with suppress(ImportError):
        import py4j.java_gateway  # noqa: F401


class _Context(SimpleNamespace):
    """The part of PySpark's SparkContext that an attach uses; it can be held weakly."""


class _JvmSession:
    """The part of PySpark's SparkSession that an attach uses, for the JVM's session ``java``."""

    def __init__(self, java: Any, context: Any, gateway: Any) -> None:
        self._jsparkSession = java
        self._jvm = gateway.jvm
        self._sc = _Context(  # its _jsc is None once the context was stopped
            _jsc=SimpleNamespace(sc=lambda: context),
            _gateway=gateway,
            _conf=context.getConf(),
            appName=context.appName(),
            applicationId=context.applicationId(),
            version=context.version(),
            sparkUser=context.sparkUser,
        )

    def end(self) -> None:
        """Let this session count as ended, as if its context had been stopped."""
        self._sc._jsc = None


class _Agent:
    """Attaches the driver in a thread, and answers its questions meanwhile."""

    def __init__(self, gateway: Any, settings: dict[str, Any], *, driver: int) -> None:
        self._jvm = gateway.jvm
        self._gateway = gateway
        self._bootstrap = gateway.entry_point
        self._board = self._bootstrap.board()
        self._given = settings.get("attach", {})
        self._driver = Driver(self._bootstrap, pid=self._given.get("pid") or driver)
        self._session: _JvmSession | None = None
        self._is_begun = threading.Event()  # set once the driver is attached, or could not be
        self._is_detached = threading.Event()
        self._lock = threading.Lock()  # one thread detaches

    def run(self) -> int:
        """Answer questions until the driver ends, its context is stopped, or it is detached."""
        threading.Thread(target=self._attach, name="topicast-attach", daemon=True).start()
        collect_at = time.monotonic() + COLLECT_S
        try:
            while (question := str(self._board.request(int(COLLECT_S * 1000)))) != "end":
                if time.monotonic() >= collect_at:
                    gc.collect()
                    collect_at = time.monotonic() + COLLECT_S
                if question:
                    number, _, text = question.partition(" ")
                    target, args = self._answer, (int(number), json.loads(text))
                    threading.Thread(target=target, args=args, daemon=True).start()
        finally:
            timer = threading.Timer(END_S, os._exit, [DONE])
            timer.daemon = True
            timer.start()
            self._detach()
        return DONE

    def _attach(self) -> None:
        """Attach the driver by its first session."""
        try:
            keep_in(self._jvm, self._bootstrap.kept())
            os.environ.update(self._given.get("environment", {}))
            folder = self._given.get("folder") or self._jvm.java.lang.System.getProperty("user.dir")
            with suppress(OSError):
                os.chdir(str(folder))  # to which paths in the driver's settings are relative
            context = self._bootstrap.context()
            java = self._first_session(context)
            if java is None:
                return
            self._session = _JvmSession(java, context, self._gateway)
            given = self._given.get("arguments", {})
            # The application may have called ``control`` before this agent could answer.
            control = str(self._bootstrap.control())
            if control:
                given = {**given, "control": control}
            self._driver.begin(self._session, given)
        except Exception as error:  # noqa: BLE001 - the driver is plain Spark
            if not _has_ended(LAST_S):
                log.error("the driver is not attached: %s", first_line(error))
        finally:
            gc.collect()
            gc.freeze()  # a collection costs a millisecond from now on: it skips what exists
            self._is_begun.set()

    def _answer(self, number: int, question: dict[str, Any]) -> None:
        """Do what ``question`` demands, and put the answer on the board, or the error."""
        try:
            answer = self._done(question)
        except (NotReady, SourceError, UsageError) as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        except Exception as error:  # noqa: BLE001 - the handle waits for an answer
            answer = {"error": NotReady.__name__, "text": first_line(error)}
        with suppress(Exception):  # the driver may have ended
            self._board.answer(number, json.dumps(answer))

    def _done(self, question: dict[str, Any]) -> Any:
        """Do what ``question`` demands; return the status, {}, or None: it is not known yet."""
        what = question["do"]
        if what == "detach":
            self._detach()
        elif what == "sync":
            self._is_begun.wait(max(question["until"] - time.monotonic(), 0.0))
            limit_s, until, scope = question["timeout_s"], question["until"], question["scope"]
            self._driver.sync(limit_s, until=until, scope=scope)
            return {}
        elif what == "control":
            self._is_begun.wait(SWITCH_WAIT_S)
            self._driver.control(question["control"])
            return {}
        elif not self._is_begun.is_set():
            return None
        return asdict(self._driver.status())

    def _detach(self) -> None:
        """Report the last writes, and make the driver plain Spark; a second call does nothing."""
        with self._lock:
            if self._is_detached.is_set():
                return
            self._is_begun.wait(BEGIN_S)
            self._driver.detach()
            if self._session is not None:
                self._session.end()
            self._is_detached.set()

    def _first_session(self, context: Any) -> Any:
        """Wait for a session of ``context``, and return it; None: the driver has ended."""
        while not _has_ended(SESSION_S) and not self._bootstrap.isStopped():
            for java in self._bootstrap.sessions():
                return java
            found = self._jvm.SparkSession.getDefaultSession()
            if found.isDefined() and found.get().sparkContext().equals(context):
                return found.get()
        return None


def _log_until_the_end() -> None:
    """Log warnings to standard error until the driver ends, after which all calls fail."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=LOG_FORMAT)
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda _: not _has_ended(LAST_S))
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # the caller says what has failed


def _first_line() -> bytes:
    """Return the first line of standard input, its only line; empty: the driver has ended."""
    line = b""
    while not line.endswith(b"\n") and len(line) < LINE_BYTES_MAX:
        part = os.read(STDIN, LINE_BYTES_MAX)
        if not part:
            return b""
        line += part
    return line


def _has_ended(within_s: float = 0.0) -> bool:
    """Return whether the driver has ended, which ends standard input; wait at most ``within_s``."""
    ready, _, _ = select.select([STDIN], [], [], within_s)
    return bool(ready) and not os.read(STDIN, 1)


if __name__ == "__main__":
    sys.exit(main())
