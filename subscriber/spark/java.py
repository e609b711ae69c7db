"""Topicast's own Java classes, compiled by the compiler that Spark uses for its queries.

Their sources are files beside the modules that use them (``TopicastSessions.java``). Nothing is
installed: no jar, no option. A class is made once for a JVM and its source, because Py4J keeps the
methods that it has called by a class's name. What was compiled is kept for this user's next JVM
(`compiled`), which defines the same classes as the compiler would, in the same class loader.
"""

import logging
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from hashlib import sha256
from importlib.resources import files
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from .compiled import CompiledClasses

# by JVM, and by source
_CLASSES: Final[WeakKeyDictionary[Any, dict[str, Any]]] = WeakKeyDictionary()
_VERSIONS: Final[WeakKeyDictionary[Any, str]] = WeakKeyDictionary()  # by JVM
_KEPT: Final[WeakKeyDictionary[Any, MutableMapping[str, Any]]] = WeakKeyDictionary()  # by JVM
_IMPORT: Final = "import "
_lock: Final = Lock()  # threads of a driver make its classes

log = logging.getLogger(__name__)


def java_source(package: str, name: str) -> str:
    """Return the source of the class ``name``, which is a file of ``package``."""
    return files(package).joinpath(f"{name}.java").read_text(encoding="utf-8")


def java_unit(*sources: str) -> str:
    """Return one source of several classes, which are compiled together.

    The imports of each are those of all.
    """
    lines = [line for source in sources for line in source.splitlines()]
    imports = sorted({line for line in lines if line.startswith(_IMPORT)})
    return "\n".join([*imports, *(line for line in lines if not line.startswith(_IMPORT)), ""])


def keep_in(jvm: Any, kept: MutableMapping[str, Any]) -> None:
    """Keep a JVM's objects in ``kept``: a map in it, which the next process finds again."""
    _KEPT[jvm] = kept


def _kept_objects(jvm: Any) -> MutableMapping[str, Any]:
    """Return the objects that a JVM is to have once, by names that ``_kept_name`` makes."""
    return _KEPT.setdefault(jvm, {})


def _kept_name(name: str, source: str, of: str = "") -> str:
    """Return the name of an object of the class ``name`` with this source; ``of``: what it serves.

    A class of another source has other methods, so its objects have other names.
    """
    return f"{name} {sha256(source.encode()).hexdigest()} {of}"


def java_singleton(jvm: Any, name: str, source: str, *arguments: Any) -> Any:
    """Return the JVM's one object of a class, which is made at the first call.

    Raises:
        Py4JError, TypeError: as `java_object`.
    """
    kept, key = _kept_objects(jvm), _kept_name(name, source)
    found = kept.get(key)
    if found is None:
        found = kept[key] = java_object(jvm, name, source, *arguments)
    return found


def java_object(jvm: Any, name: str, source: str, *arguments: Any) -> Any:
    """Return a new object of the class ``name``, which ``source`` defines with one constructor.

    Raises:
        Py4JError, TypeError: this Spark has no such compiler, or lacks what the source uses.
    """
    given = jvm.java.util.ArrayList()
    for argument in arguments:
        given.add(argument)
    return java_class(jvm, name, source).getConstructors()[0].newInstance(given.toArray())


def java_class(jvm: Any, name: str, source: str) -> Any:
    """Return the class ``name`` that ``source`` defines, the same class at each call.

    Raises:
        Py4JError, TypeError: as `java_object`.
    """
    with _lock:
        classes = _CLASSES.setdefault(jvm, {})
        if source not in classes:
            classes[source] = _kept_or_compiled(jvm, name, source)
        return classes[source]


def _kept_or_compiled(jvm: Any, name: str, source: str) -> Any:
    """Return a class that a former JVM has compiled, else compile it, and keep it."""
    kept, key = CompiledClasses.of_user(os.environ), ""
    with _no_harm(name):
        key = f"{_versions(jvm)}\n{source}"
        found = kept.find(key) if kept is not None else None
        if found is not None:
            return _defined(jvm, name, found)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(_loader(jvm))
    compiler.cook(source)
    compiled = compiler.getClassLoader().loadClass(name)
    with _no_harm(name):
        if kept is not None and key:
            classes = compiler.getBytecodes()
            kept.put(key, {str(one): classes[one] for one in classes})
    return compiled


@contextmanager
def _no_harm(name: str) -> Iterator[None]:
    """Let a class that cannot be kept, or used again, be compiled."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, TypeError) as error:  # TypeError: what is a package to Py4J is called
        log.debug("compiled classes not used: class=%s reason=%s", name, error)


def _defined(jvm: Any, name: str, classes: dict[str, bytes]) -> Any:
    """Return the class ``name``, one of ``classes``, in a class loader as the compiler's."""
    given = jvm.java.util.HashMap()
    for one, code in classes.items():
        given.put(one, code)
    of_bytes = jvm.org.codehaus.commons.compiler.util.reflect.ByteArrayClassLoader
    return jvm.java.lang.Class.forName(name, True, of_bytes(given, _loader(jvm)))  # noqa: FBT003 - Java's


def _loader(jvm: Any) -> Any:
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _versions(jvm: Any) -> str:
    """Return what classes are compiled by and against, so that others are not used with it."""
    if jvm in _VERSIONS:
        return _VERSIONS[jvm]
    spark = jvm.org.apache.spark
    build = getattr(spark, "package")  # noqa: B009 - it is a word of Java
    facts = (
        jvm.java.lang.System.getProperty("java.runtime.version"),
        build.SPARK_VERSION(),
        build.SPARK_REVISION(),
        build.SPARK_BUILD_DATE(),
        jvm.scala.util.Properties.versionNumberString(),
        jvm.org.apache.hadoop.util.VersionInfo.getVersion(),
    )
    _VERSIONS[jvm] = "\n".join(map(str, facts))
    return _VERSIONS[jvm]
