"""Registry: every session of a JVM, and the relations that each has: TopicastSessions.java.

    session of Python ──adopt──▶ its extensions ──inherited──▶ newSession, cloneSession, streams …
                                      │ as its analyzer is created: it has cached nothing yet
    execution of any other ──accept──▶ known, weakly ──look──▶ the tables of each, in one call

A session that Spark creates of another inherits its extensions, and so calls the registry before
it has analysed a plan. A session that inherits none (one of another root, or older than the attach)
is found by its first execution; its analyzer gets our rule then.

The rule looks through each plan that a session analyses. It notes relations over paths, and
relations that were loaded after the registry had invalidated the former relations of their table:
a refresh of one of these refreshes the others, too.

The registry is of a JVM, and keeps no object of Spark's alive. Threads of its own, a few for each
table, do what may wait for a file system or for the metastore.

The files beside it have a class for each concern. TopicastRule is the rule, TopicastFamilies has
the relations of one table, TopicastFormer those that DataFrames still hold, TopicastPaths those
over paths, TopicastIceberg the catalogs of Iceberg. TopicastListing lists files, in threads of
TopicastTasks. TopicastSpark reaches the parts of Spark that have no public method, and
TopicastIdentity is a key that stands for one object.
"""

from typing import Any, Final

from ..java import java_singleton, java_source, java_unit

THREADS_MAX: Final = 32  # that list files at the same time
TABLE_THREADS_MAX: Final = 4  # of these for one table: seven tables that hang delay no other
FOLDERS_MAX: Final = 100  # in which a thread looks if files are gone: 3 s at 30 ms a call

_NAME: Final = "TopicastSessions"
_PARTS: Final = (  # of the registry, each a class of that name
    *("TopicastFamilies", "TopicastFormer", "TopicastIceberg", "TopicastIdentity"),
    *("TopicastListing", "TopicastPaths", "TopicastRule", "TopicastSpark", "TopicastTasks"),
)


def registry_of(jvm: Any, *, state: Any, relations: Any) -> Any:
    """Return the registry of a JVM, which the first call compiles and creates.

    Args:
        jvm: Py4J's view of the JVM.
        state: The field of SparkSession that has its state, as an accessible Field of Java.
        relations: The field of SessionCatalog that has its relations, likewise.

    Raises:
        Py4JError, TypeError: this Spark cannot have a registry.
    """
    bounds = (THREADS_MAX, TABLE_THREADS_MAX, FOLDERS_MAX)
    return java_singleton(jvm, _NAME, registry_source(), state, relations, *bounds)


def registry_source() -> str:
    """Return the Java source of the registry and of its parts."""
    return java_unit(*(java_source(__package__, one) for one in (_NAME, *_PARTS)))
