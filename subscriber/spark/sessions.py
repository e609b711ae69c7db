"""Sessions: the PySpark sessions of this process, held weakly; each gives access to the JVM."""

import gc
import os
import threading
from typing import Any, Protocol
from weakref import ref

from ...topics.errors import ConfigError
from .guard import first_line


class Session(Protocol):
    """The part of a pyspark.sql.SparkSession that Topicast uses."""

    _jsparkSession: Any  # noqa: N815 - its name in PySpark
    _jvm: Any
    _sc: Any


class Unsupported(Exception):
    """This Spark lacks what a driver needs to be attached; the text says what."""


def reason_of(error: Exception) -> str:
    """Return why a driver stays plain Spark, in one line: the ``error`` that its attach raised."""
    if isinstance(error, ConfigError | Unsupported):
        return str(error)
    return f"{type(error).__name__}: {first_line(error)}"


def has_jvm(session: object) -> None:
    """Raise Unsupported unless ``session`` is a classic session."""
    if getattr(session, "_jsparkSession", None) is None:
        raise Unsupported("a Spark Connect session: it has no JVM here to refresh")


class Sessions:
    """Weak references to sessions, for any thread."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._refs: list[ref[Any]] = []  # in the order in which they were added, each once

    def add(self, session: object) -> None:
        """Track ``session``, at once and without a call to it; in a forked child do nothing."""
        if self._pid != os.getpid():
            return  # before the lock, which may stay locked for ever after a fork
        with self._lock:
            self._refs = [one for one in self._refs if one() is not None]
            if not any(one() is session for one in self._refs):
                self._refs.append(ref(session))

    def alive(self) -> list[Any]:
        """Return the sessions that the application still holds, in the order of ``add``."""
        with self._lock:
            return [session for one in self._refs if (session := one()) is not None]

    def current(self) -> Any:
        """Return a session whose context has not been stopped; None if there is none."""
        for session in self.alive():
            if session._sc is not None and session._sc._jsc is not None:
                return session
        return None


def existing(kind: type) -> list[Any]:
    """Return all objects of ``kind``. Cost: 20 ms if this process has a million objects."""
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]
