"""Topicast's own Java classes, compiled by the compiler that Spark uses for its queries.

Their sources are files beside the modules that use them (``TopicastSessions.java``), so that a
driver needs no jar and no option of Spark. A class is compiled once for a JVM and its source: Py4J
keeps the methods that it has called by the name of their class, and would mix up two classes of a
name. Compiled classes are kept for this user's next JVM (`compiled`), which defines them in a class
loader like the compiler's.
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

_CLASSES: Final[WeakKeyDictionary[Any, dict[str, Any]]] = WeakKeyDictionary()
"""The classes of each JVM, by source."""
_VERSIONS: Final[WeakKeyDictionary[Any, str]] = WeakKeyDictionary()
"""Of each JVM the versions that its classes depend on (``_versions``)."""
_KEPT: Final[WeakKeyDictionary[Any, MutableMapping[str, Any]]] = WeakKeyDictionary()
"""The objects of each JVM that ``java_singleton`` has created, by name."""
_IMPORT: Final = "import "
_lock: Final = Lock()  # several threads of a driver compile classes

log = logging.getLogger(__name__)


def java_source(package: str, name: str) -> str:
    """Return the source of the class ``name``, which is a file of ``package``."""
    return files(package).joinpath(f"{name}.java").read_text(encoding="utf-8")


def java_unit(*sources: str) -> str:
    """Return one source of several classes, which are compiled together.

    Java allows imports only at its beginning, so they apply to each of the classes.
    """
    lines = [line for source in sources for line in source.splitlines()]
    imports = sorted({line for line in lines if line.startswith(_IMPORT)})
    return "\n".join([*imports, *(line for line in lines if not line.startswith(_IMPORT)), ""])


def keep_in(jvm: Any, kept: MutableMapping[str, Any]) -> None:
    """Have ``java_singleton`` keep its objects in ``kept``, a map of the JVM.

    The next agent of that JVM then finds the objects that this agent has created.
    """
    _KEPT[jvm] = kept


def java_singleton(jvm: Any, name: str, source: str, *arguments: Any) -> Any:
    """Return the JVM's one object of the class ``name``, which the first call creates.

    A class of another source, as of another release, has other methods, so it has its own object.

    Raises:
        Py4JError, TypeError: as `java_object`.
    """
    kept, key = _KEPT.setdefault(jvm, {}), f"{name} {sha256(source.encode()).hexdigest()}"
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
    """Run the block; log why it could not use, or keep, compiled classes: nothing is raised."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, TypeError) as error:  # TypeError: there is no such class in this Spark
        log.debug("compiled classes not used: class=%s reason=%s", name, error)


def _defined(jvm: Any, name: str, classes: dict[str, bytes]) -> Any:
    """Define ``classes`` in a class loader like the compiler's; return the class ``name``."""
    given = jvm.java.util.HashMap()
    for one, code in classes.items():
        given.put(one, code)
    of_bytes = jvm.org.codehaus.commons.compiler.util.reflect.ByteArrayClassLoader
    return jvm.java.lang.Class.forName(name, True, of_bytes(given, _loader(jvm)))  # noqa: FBT003 - Java's


def _loader(jvm: Any) -> Any:
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _versions(jvm: Any) -> str:
    """Return the versions by and against which classes are compiled: part of the key of each."""
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
