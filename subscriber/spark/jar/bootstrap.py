"""Finds what serves a driver in its JVM, or makes it, from the jar or by Spark's compiler.

    the jar is on the class path ──▶ its class ──┐
    else compiled, once for a JVM ─▶ its class ──┴▶ attach ──▶ what serves this context

An adapter: everything in it is a call through Py4J. The settings reach the agent by its standard
input alone, so that a key is in no argument and no environment of a process.
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
OURS: Final = "TOPICAST_"  # how variables of settings begin
OWN: Final = (sys.executable, "-m", "topicast.cli.start", "agent")
_LISTENER: Final = "TopicastListener"
_OTHERS: Final = ("TopicastBoard", "TopicastErrors")
_RELEASE: Final = "@RELEASE@"  # in the source
_WRITES: Final = f"{__package__.rpartition('.')[0]}.writes"


def bootstrap_source() -> str:
    """Return the source of all classes that a driver has before it has an agent."""
    return java_unit(
        java_source(__package__, NAME).replace(_RELEASE, __version__),
        *(java_source(__package__, other) for other in _OTHERS),
        java_source(_WRITES, _LISTENER),
    )


def bootstrap_of(session: Any, given: Mapping[str, object], command: str | None) -> Any:
    """Return what serves the context of ``session`` from now on, or has served it before.

    Args:
        session: Of PySpark.
        given: Arguments of attach; they count if it is not served yet.
        command: What starts an agent; None: this Python.

    Raises:
        Py4JError, TypeError: it cannot be made in this Spark.
        Unsupported: the JVM has the jar of another release.
    """
    jvm, words = session._jvm, session._jvm.java.util.ArrayList()
    for word in shlex.split(command) if command else OWN:
        words.add(word)
    path = "" if command else os.environ.get("PYTHONPATH", "")
    settings = _settings_text(given, os.environ)
    any_ = _any(session)
    check_release(any_)
    found = any_.attach(session._sc._jsc.sc(), words, path, settings)
    keep_in(jvm, found.kept())
    return found


def check_release(bootstrap: Any) -> None:
    """Raise Unsupported if what serves a driver in its JVM is of another release than we are."""
    from py4j.protocol import Py4JError

    try:
        its = str(bootstrap.release())
    except Py4JError:
        its = "another release"
    if its != __version__:
        raise Unsupported(
            f"the jar on the class path is of Topicast {its}, and this is {__version__}: "
            f"write it anew, by topicast jar --out FILE"
        )


def has_jar(jvm: Any) -> bool:
    """Whether the jar is on the class path of ``jvm``."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(f"{NAME}.class") is not None


def _settings_text(given: Mapping[str, object], environ: Mapping[str, str]) -> str:
    """Return what an agent gets of this Python, as JSON."""
    settings = {
        "arguments": {key: value for key, value in given.items() if value is not None},
        "environment": {key: environ[key] for key in environ if key.startswith(OURS)},
        "folder": str(Path.cwd()),
        "pid": os.getpid(),
    }
    return json.dumps(settings)


def _any(session: Any) -> Any:
    """Return an object of the TopicastBootstrap of a JVM; all of them share the state that it has.

    It may have been made by another Python of this JVM.
    """
    jvm, context = session._jvm, session._sc._jsc.sc()
    kinds = [one.getClass() for one in context.listenerBus().listeners()]
    own = next((kind for kind in kinds if kind.getName() == _LISTENER), None)
    if own is None and not has_jar(jvm):
        return java_singleton(jvm, NAME, bootstrap_source())
    thread = jvm.java.lang.Thread.currentThread()
    loader = own.getClassLoader() if own is not None else thread.getContextClassLoader()
    none = jvm.java.util.ArrayList().toArray()
    return loader.loadClass(NAME).getConstructors()[0].newInstance(none)
