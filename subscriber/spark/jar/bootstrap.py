"""Bootstrap: finds or creates the TopicastBootstrap that serves a driver's context in its JVM.

    the jar is on the class path ──▶ its class ──┐
    else compiled, once for a JVM ─▶ its class ──┴▶ attach ──▶ the TopicastBootstrap of the context

An adapter: it calls the JVM through Py4J. The JVM passes the settings to the agent by standard
input alone, so that no argument and no environment of a process contains a key.
"""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .... import __version__
from ..java import java_singleton, java_source, java_unit, keep_in
from ..sessions import Unsupported

NAME: Final = "TopicastBootstrap"
AGENT_SETTING: Final = "spark.topicast.agent"
AGENT: Final = "TOPICAST_AGENT"
OURS: Final = "TOPICAST_"  # how the names of our variables begin
OWN: Final = (sys.executable, "-m", "topicast.cli.start", "agent")  # starts an agent by this Python
_LISTENER: Final = "TopicastListener"
_OTHERS: Final = ("TopicastBoard", "TopicastErrors")
_RELEASE: Final = "@RELEASE@"  # stands for the version in the source
_WRITES: Final = f"{__package__.rpartition('.')[0]}.writes"


def bootstrap_source() -> str:
    """Return the source of all classes that a driver's JVM has before it has an agent."""
    return java_unit(
        java_source(__package__, NAME).replace(_RELEASE, __version__),
        *(java_source(__package__, other) for other in _OTHERS),
        java_source(_WRITES, _LISTENER),
    )


def bootstrap_of(session: Any, given: Mapping[str, object], command: str | None) -> Any:
    """Return the TopicastBootstrap of the context of ``session``, which starts its agent.

    Args:
        session: A session of PySpark.
        given: The arguments of ``attach``; without effect if the context is served already.
        command: The command that starts an agent; None: this Python does.

    Raises:
        Py4JError, TypeError: this Spark cannot have it.
        Unsupported: the JVM has the jar of another release.
    """
    jvm, words = session._jvm, session._jvm.java.util.ArrayList()
    for word in shlex.split(command) if command else OWN:
        words.add(word)
    path = "" if command else os.environ.get("PYTHONPATH", "")
    settings = _settings_text(given, os.environ)
    bootstrap = _any_bootstrap(session)
    check_release(bootstrap)
    found = bootstrap.attach(session._sc._jsc.sc(), words, path, settings)
    keep_in(jvm, found.kept())
    return found


def check_release(bootstrap: Any) -> None:
    """Raise Unsupported if ``bootstrap``, an object of the JVM, is of another release than we."""
    from py4j.protocol import Py4JError

    try:
        its = str(bootstrap.release())
    except Py4JError:  # a release whose class has no such method
        its = "another release"
    if its != __version__:
        raise Unsupported(
            f"the jar on the class path is of Topicast {its}, and this is {__version__}: "
            f"write it anew, by topicast jar --out FILE"
        )


def has_jar(jvm: Any) -> bool:
    """Return whether the jar is on the class path of ``jvm``."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(f"{NAME}.class") is not None


def _settings_text(given: Mapping[str, object], environ: Mapping[str, str]) -> str:
    """Return as JSON what the agent has to know of this Python."""
    settings = {
        "arguments": {key: value for key, value in given.items() if value is not None},
        "environment": {key: environ[key] for key in environ if key.startswith(OURS)},
        "folder": str(Path.cwd()),
        "pid": os.getpid(),
    }
    return json.dumps(settings)


def _any_bootstrap(session: Any) -> Any:
    """Return an object of the JVM's class TopicastBootstrap, whose static state has all contexts.

    Another Python of this JVM, such as that before a restart of a notebook's, may have defined the
    class: the listener on the context's bus is then of the same class loader.
    """
    jvm, context = session._jvm, session._sc._jsc.sc()
    kinds = [listener.getClass() for listener in context.listenerBus().listeners()]
    own = next((kind for kind in kinds if kind.getName() == _LISTENER), None)
    if own is None and not has_jar(jvm):
        return java_singleton(jvm, NAME, bootstrap_source())
    thread = jvm.java.lang.Thread.currentThread()
    loader = own.getClassLoader() if own is not None else thread.getContextClassLoader()
    none = jvm.java.util.ArrayList().toArray()
    return loader.loadClass(NAME).getConstructors()[0].newInstance(none)
