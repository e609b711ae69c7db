"""The agent of a driver of the JVM: attaches it from a process of its own, through Py4J.

    TopicastBootstrap (JVM) ──port and token on stdin──▶ this process ──gateway──▶ its driver
                                                              └── subscriber ──▶ statestored

It ends when its standard input does, which its driver holds open, and when the driver's context was
stopped. The driver is what it would be if its own Python had attached it, but that nothing is
wrapped: writes are reported by the listener alone.
"""

import json
import logging
import os
import select
import sys
import threading
from types import SimpleNamespace
from typing import Any, Final

from ....topics.objects.drivers import UNSUPPORTED
from ..config import Arguments
from ..driver.handle import Handle
from ..driver.launch import ATTACHED, LOADED, NOTES, note
from ..driver.launch import FAILED as FAILED_NOTE
from ..java import keep_in
from .spark_home import add_py4j

END_S: Final = 0.8  # for leaving once the driver has ended; then the process ends as it is
LOOK_S: Final = 1.0  # between two looks whether the context was stopped
SESSION_S: Final = 0.02  # between two looks for the first session, which is made now
LAST_S: Final = 0.2  # until a driver that has ended has closed all of its ends
STDIN: Final = 0
LINE_BYTES_MAX: Final = 1 << 10  # of the first line
SWITCH_S: Final = 0.001  # at most, until a reader's request interrupts another thread
LOG_FORMAT: Final = "%(levelname)s topicast agent: %(message)s"
DONE: Final = 0  # and no other agent is to be started
FAILED: Final = 1
NOT_A_DRIVER: Final = (
    "topicast agent: error: a driver starts it, with its port and token as input\n"
)
IMPORTS: Final = ("org.apache.spark.sql.*", "org.apache.spark.sql.classic.*")  # as PySpark's

log = logging.getLogger(__name__)


def main() -> int:
    """Run the agent whose settings are the first line of standard input; return the exit code.

    They are an object of JSON with the port of the driver's ``gateway``, and a ``token``.
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
        return _attach(gateway)
    except Py4JError as error:
        if _has_ended():
            return DONE
        log.error("the driver does not answer: %s", error)
        return FAILED


class _Context(SimpleNamespace):
    """What an attach uses of a context of PySpark's; unlike its base it can be held weakly."""


class Session:
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
        """Count as a session whose context was stopped."""
        self._sc._jsc = None


def _attach(gateway: Any) -> int:
    """Attach the driver until it ends, or its context was stopped."""
    entry = gateway.entry_point
    keep_in(gateway.jvm, entry.kept())
    os.chdir(str(gateway.jvm.java.lang.System.getProperty("user.dir")))  # of paths in its settings
    context = entry.context()
    java = _first_session(gateway.jvm, context)
    if java is None:
        return DONE
    session = Session(java, context, gateway)
    handle = Handle(jvm_pid=os.getppid())
    handle.begin(session, Arguments())
    handle.add(session)
    status = handle.status()
    kind = FAILED_NOTE if status.state == UNSUPPORTED else ATTACHED
    for one in (LOADED, kind):
        note(os.environ.get(NOTES, ""), one, status.reason)
    try:
        while not _has_ended(LOOK_S) and not context.isStopped():
            pass
    finally:
        timer = threading.Timer(END_S, os._exit, [FAILED])
        timer.daemon = True
        timer.start()
        session.end()
        handle.detach()
    return DONE


def _first_session(jvm: Any, context: Any) -> Any:
    """Return the session that is the default of ``context``, once it is; None: it has ended."""
    while not _has_ended(SESSION_S) and not context.isStopped():
        found = jvm.SparkSession.getDefaultSession()
        if found.isDefined() and found.get().sparkContext().equals(context):
            return found.get()
    return None


def _log_until_the_end() -> None:
    """Write warnings to standard error while there is a driver: then calls of it fail."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format=LOG_FORMAT)
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda _: not _has_ended(LAST_S))
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # whoever calls says what has failed


def _first_line() -> bytes:
    """Return the first line of standard input; nothing is read beyond it."""
    line = b""
    while not line.endswith(b"\n") and len(line) < LINE_BYTES_MAX:
        byte = os.read(STDIN, 1)
        if not byte:
            return b""
        line += byte
    return line


def _has_ended(within_s: float = 0.0) -> bool:
    """Return whether standard input has ended, at the latest after ``within_s``."""
    ready, _, _ = select.select([STDIN], [], [], within_s)
    return bool(ready) and not os.read(STDIN, LINE_BYTES_MAX)


if __name__ == "__main__":
    sys.exit(main())
