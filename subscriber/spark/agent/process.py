"""The agent of a driver: attaches it from a process of its own, through Py4J.

    TopicastBootstrap (JVM) ──port and token on stdin──▶ this process ──gateway──▶ its driver
    TopicastBoard ──what its Python asks──▶                   └── subscriber ──▶ statestored

It ends when the driver does, when the driver's context was stopped, and when its Python detaches
it. Whatever fails here leaves the driver plain Spark.
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

END_S: Final = 0.8  # for leaving once the driver has ended; then the process ends as it is
BEGIN_S: Final = 5.0  # that an attach which is under way may take to end, before it is undone
SWITCH_WAIT_S: Final = 1.0  # that such an attach may take to end, before the driver is switched
COLLECT_S: Final = 5.0  # Py4J's objects are cycles: until then they keep sessions alive in the JVM
SESSION_S: Final = 0.02  # between two looks for the first session, which is made now
LAST_S: Final = 0.2  # until a driver that has ended has closed all of its ends
STDIN: Final = 0
LINE_BYTES_MAX: Final = 1 << 20  # of the first line, which has the driver's settings
SWITCH_S: Final = 0.001  # at most, until a reader's request interrupts another thread
LOG_FORMAT: Final = (
    "topicast agent: %(levelname)s %(message)s"  # a driver's log has others' lines, too
)
DONE: Final = 0  # and no other agent is to be started
FAILED: Final = 1
NOT_A_DRIVER: Final = (
    "topicast agent: error: a driver starts it, with its port and token as input\n"
)
IMPORTS: Final = ("org.apache.spark.sql.*", "org.apache.spark.sql.classic.*")  # as PySpark's

log = logging.getLogger(__name__)


def main(driver: int | None = None) -> int:
    """Run the agent whose settings are the first line of standard input; return the exit code.

    They are an object of JSON with the port of the driver's ``gateway``, a ``token``, and what the
    driver's Python has given to ``attach``.
    ``driver``: its process, if another process has started this process.
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
    """Load what ``main`` needs, as far as it is there: a SPARK_HOME may have the rest."""
    with suppress(ImportError):
        import py4j.java_gateway  # noqa: F401


class _Context(SimpleNamespace):
    """What an attach uses of a context of PySpark's; unlike its base it can be held weakly."""


class _JvmSession:
    """What an attach uses of a session of PySpark's, for the JVM's session ``java``."""

    def __init__(self, java: Any, context: Any, gateway: Any) -> None:
        self._jsparkSession = java
        self._jvm = gateway.jvm
        self._sc = _Context(  # its _jsc is None once it was stopped
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
        self._is_begun = threading.Event()  # the driver is attached, or could not be
        self._is_detached = threading.Event()
        self._lock = threading.Lock()  # of the end

    def run(self) -> int:
        """Serve the driver until it ends, its context was stopped, or it is detached."""
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
        """Attach the first session of the driver."""
        try:
            keep_in(self._jvm, self._bootstrap.kept())
            os.environ.update(self._given.get("environment", {}))
            folder = self._given.get("folder") or self._jvm.java.lang.System.getProperty("user.dir")
            with suppress(OSError):
                os.chdir(str(folder))  # of paths in its settings
            context = self._bootstrap.context()
            java = self._first_session(context)
            if java is None:
                return
            self._session = _JvmSession(java, context, self._gateway)
            given = self._given.get("arguments", {})
            # The handle has asked before this agent was up, and was not answered within 1 s.
            control = str(self._bootstrap.control())
            if control:
                given = {**given, "control": control}
            self._driver.begin(self._session, given)
        except Exception as error:  # noqa: BLE001 - the driver is plain Spark
            if not _has_ended(LAST_S):
                log.error("the driver is not attached: %s", first_line(error))
        finally:
            gc.collect()
            gc.freeze()  # what was loaded stays: to collect costs a millisecond from now on
            self._is_begun.set()

    def _answer(self, number: int, question: dict[str, Any]) -> None:
        """Do what is asked, and say what came of it."""
        try:
            answer = self._done(question)
        except (NotReady, SourceError, UsageError) as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        except Exception as error:  # noqa: BLE001 - the handle waits for an answer
            answer = {"error": NotReady.__name__, "text": first_line(error)}
        with suppress(Exception):  # the driver has ended
            self._board.answer(number, json.dumps(answer))

    def _done(self, question: dict[str, Any]) -> Any:
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
        """Leave plain Spark, once; what was written last is reported."""
        with self._lock:
            if self._is_detached.is_set():
                return
            self._is_begun.wait(BEGIN_S)
            self._driver.detach()
            if self._session is not None:
                self._session.end()
            self._is_detached.set()

    def _first_session(self, context: Any) -> Any:
        """Return a session of ``context`` once it has a session; None: it has ended."""
        while not _has_ended(SESSION_S) and not self._bootstrap.isStopped():
            for java in self._bootstrap.sessions():
                return java
            found = self._jvm.SparkSession.getDefaultSession()
            if found.isDefined() and found.get().sparkContext().equals(context):
                return found.get()
        return None


def _log_until_the_end() -> None:
    """Write warnings to standard error while there is a driver: then calls of it fail."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=LOG_FORMAT)
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda _: not _has_ended(LAST_S))
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # the caller says what has failed


def _first_line() -> bytes:
    """Return the first line of standard input, behind which nothing comes; empty: it has ended."""
    line = b""
    while not line.endswith(b"\n") and len(line) < LINE_BYTES_MAX:
        part = os.read(STDIN, LINE_BYTES_MAX)
        if not part:
            return b""
        line += part
    return line


def _has_ended(within_s: float = 0.0) -> bool:
    """Return whether standard input has ended, at the latest after ``within_s``."""
    ready, _, _ = select.select([STDIN], [], [], within_s)
    return bool(ready) and not os.read(STDIN, 1)


if __name__ == "__main__":
    sys.exit(main())
