"""Topicast's own Java classes, compiled by the compiler that Spark uses for its queries.

Their sources are files beside the modules that use them (``TopicastSessions.java``). Nothing is
installed: no jar, no option. A class is made once for a JVM and its source, because Py4J keeps the
methods that it has called by a class's name.
"""

from importlib.resources import files
from typing import Any, Final
from weakref import WeakKeyDictionary

# by JVM, and by source
_CLASSES: Final[WeakKeyDictionary[Any, dict[str, Any]]] = WeakKeyDictionary()


def java_source(package: str, name: str) -> str:
    """Return the source of the class ``name``, which is a file of ``package``."""
    return files(package).joinpath(f"{name}.java").read_text(encoding="utf-8")


def java_object(jvm: Any, name: str, source: str, *arguments: Any) -> Any:
    """Return a new object of the class ``name``, which ``source`` defines with one constructor.

    Raises:
        Py4JError, TypeError: this Spark has no such compiler, or lacks what the source uses.
    """
    classes = _CLASSES.setdefault(jvm, {})
    if source not in classes:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(source)
        classes[source] = compiler.getClassLoader().loadClass(name)
    given = jvm.java.util.ArrayList()
    for argument in arguments:
        given.add(argument)
    return classes[source].getConstructors()[0].newInstance(given.toArray())
