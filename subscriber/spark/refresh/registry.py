"""All sessions of a JVM, also those not made by Python, and their relations: TopicastSessions.java.

A file beside it has the class of each concern: TopicastRule looks through plans, TopicastFamilies
has the relations of one table, TopicastFormer what DataFrames still hold, TopicastPaths relations
over paths, TopicastIceberg its catalogs. TopicastListing lists files, in threads of TopicastTasks;
TopicastSpark reaches what Spark does not offer.

    session of Python ──adopt──▶ its extensions ──inherited──▶ newSession, cloneSession, streams …
                                      │ each, when its analyzer is made: nothing of it is cached yet
    execution of any other ──accept──▶ known, weakly ──look──▶ the tables of each, in one call

A session that Spark makes of another one inherits its extensions, so it calls ours before it has
analysed anything. Then each plan that it analyses is looked through for relations over paths, and
for those that were loaded after we had invalidated the former relations of their table: what Spark
refreshes of one relation, it refreshes of the others. A session that inherits none (of another
root, or older than the attach) is found by what it executes; its analyzer is given the rule then.
The registry is of a JVM and keeps nothing alive. What may wait for a file system or the metastore
is done by threads of its own, a few for each table.
"""

from typing import Any, Final

from ..java import java_singleton, java_source, java_unit

THREADS_MAX: Final = 32  # that list files at the same time
TABLE_THREADS_MAX: Final = 4  # of them for one table: eight tables that hang delay no other
FOLDERS_MAX: Final = 100  # looked at for files that are gone: 3 s of one thread at 30 ms a call

_NAME: Final = "TopicastSessions"
_PARTS: Final = (  # of the registry, each a class of that name
    *("TopicastFamilies", "TopicastFormer", "TopicastIceberg", "TopicastIdentity"),
    *("TopicastListing", "TopicastPaths", "TopicastRule", "TopicastSpark", "TopicastTasks"),
)


def registry_of(jvm: Any, *, state: Any, relations: Any) -> Any:
    """Return the registry of a JVM.

    Args:
        jvm: Of Py4J.
        state: The field of SparkSession that has its state, accessible.
        relations: The field of SessionCatalog that has its relations, accessible.

    Raises:
        Py4JError, TypeError: it cannot be made in this Spark.
    """
    bounds = (THREADS_MAX, TABLE_THREADS_MAX, FOLDERS_MAX)
    return java_singleton(jvm, _NAME, registry_source(), state, relations, *bounds)


def registry_source() -> str:
    """Return the Java source of the registry and of its parts."""
    return java_unit(*(java_source(__package__, one) for one in (_NAME, *_PARTS)))
