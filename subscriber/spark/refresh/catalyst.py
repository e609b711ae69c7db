"""Catalyst: calls Spark's caches of relations, one cache for each session, through Py4J.

    SparkSession ─field─▶ SessionState ──▶ SessionCatalog ─field─▶ relations by table
                              └─ never created by us: its settings, such as the URI of the
                                 metastore, are fixed when it is created

A session is named by its id; `registry` finds the sessions. No call takes a lock of Spark's, or
waits for a file system or for the metastore. Fields and methods have the names that they have in
Spark 3.5, 4.0, 4.1 and 4.3; ``probe`` checks at the attach that this Spark has them. Py4J is
imported once there is a session: the Python of ``topicast run`` may have none.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..paths import Spellings, path_of, spellings_in
from ..sessions import Session, Unsupported, has_jvm
from .refresher import Existing, Invalidation, Looked
from .registry import registry_of

CATALOG: Final = "spark_catalog"  # the catalog of which Spark caches relations
VERSIONS: Final = ("3.5", "4.0", "4.1", "4.3")  # of Spark, with which Topicast was tried
HELD_MAX: Final = 1000  # tables of which DataFrames hold relations: as many as Spark caches

_SESSION_CATALOG: Final = "org.apache.spark.sql.catalyst.catalog.SessionCatalog"
_METHODS: Final = ("getCachedTable", "invalidateCachedTable")
_KEY: Final = re.compile(r"\.getCachedTable\(([\w.]+)\)")  # finds the class of its parameter
_NAMES: Final = "(java.lang.String,java.lang.String,java.lang.String)"  # of that constructor


class Catalyst:
    """Looks into the caches of sessions, and renews what is in them. For one thread."""

    def __init__(self, registry: Any, jvm: Any, *, state: Any) -> None:
        self.registry = registry  # a TopicastSessions; a Consumer of sessions that execute, too
        self.primitives = "getCachedTable, invalidateCachedTable, refresh"
        self.has_iceberg = False  # whether sessions may have catalogs of Iceberg, by the last look
        self._jvm = jvm
        self._state_field = state
        self._looks: dict[str, tuple[str, Looked]] = {}  # by session: its text at the last look
        self._failures: list[tuple[Invalidation, str]] = []  # that the JVM's threads have reported

    @staticmethod
    def probe(session: Session) -> "Catalyst":
        """Find what refreshes call in this Spark, without creating the session's state.

        Raises:
            Unsupported: this Spark lacks a field, a class or a method; says which.
        """
        from py4j.protocol import Py4JError

        has_jvm(session)
        java = session._jsparkSession
        try:
            kind = java.getClass()
            text = _in_one_text(session)
            state = _field(kind, "sessionState", text)
            catalog = _class(kind.getClassLoader(), _SESSION_CATALOG)
            relations = _field(catalog, "tableRelationCache", text)
            _check_keys(catalog, text)
            registry = registry_of(session._jvm, state=state, relations=relations)
            return Catalyst(registry, session._jvm, state=state)
        except (Py4JError, TypeError) as exc:  # TypeError: there is no such class in this Spark
            raise Unsupported(_reason(exc)) from exc

    def adopt(self, session: Session) -> None:
        """Register a session of Python, and those that Spark creates of it; for any thread."""
        self.registry.adopt(session._jsparkSession)

    def has_state(self, session: Session) -> bool:
        """Return whether Spark has created the state of ``session``; for any thread."""
        return self._state_field.get(session._jsparkSession) is not None

    def renew_late(self, *, renew: bool) -> None:
        """Set whether ``accept`` invalidates the relations that a session has by then."""
        self.registry.renew(renew)

    def look(self) -> Mapping[str, Looked]:
        """Return by session the tables of which it has relations, as ``db.table``.

        The call also notes which renewals have failed (``failures``). Cost: one call, 0.2 ms, and
        2 µs for a session.
        """
        before, self._looks = self._looks, {}
        for line in self.registry.look().splitlines():
            session, _, text = line.partition(" ")
            if session == "+":
                self.has_iceberg = True
                continue
            if session == "!":
                session, table, why = text.split(" ", 2)
                order = Invalidation(session=session, table=table, existing=Existing.NEVER)
                self._failures.append((order, why))
                continue
            seen = before.get(session)
            self._looks[session] = (
                seen if seen is not None and seen[0] == text else (text, _looked(text))
            )
        return {session: looked for session, (_, looked) in self._looks.items()}

    def renew(self, session: str, table: str, *, existing: Existing) -> None:
        """Invalidate the relation of ``table``, so that the next plan lists its files anew.

        DataFrames go on holding relations that were invalidated, now or before. The registry
        refreshes these in place as ``existing`` says, if they read the same columns and the same
        location as the newest relation.
        """
        self.registry.renew(session, table, existing.value, HELD_MAX)

    def recache(self, session: str, table: str, *, existing: Existing) -> None:
        """Do as ``renew``, then compute cached data again as REFRESH TABLE does, by the metastore.

        REFRESH TABLE alone would refresh cached data only once: it computes the data of the
        relation of which it was computed before, and refreshes another relation.
        """
        self.renew(session, table, existing=existing)
        self.registry.recache(session, table, f"{CATALOG}.{_quoted(table)}")

    def reload(self, names: Iterable[str]) -> None:
        """Have Iceberg's catalogs load tables again, later: what they cache may be out of date.

        ``names``: of tables, of databases for all tables in them, or ``*`` for every table.
        """
        self.registry.reload("\n".join(names))

    @property
    def has_paths(self) -> bool:
        """Whether somebody holds a relation over paths. Cost: one call, 0.1 ms."""
        return int(self.registry.paths()) > 0

    def renew_paths(self, table: str, location: str, *, always: bool) -> None:
        """Have relations over paths at, in or above ``location`` list their files anew, later.

        An empty location: all relations over paths. Those that a view names always do. The others
        do ``always``, else only if files of theirs are gone. ``table``: for ``unfinished``. For any
        thread.
        """
        if not location:
            self.registry.relistPaths(table, "", always)
            return
        session = self._jvm.SparkSession.getDefaultSession()
        spellings = Spellings()
        if session.isDefined():
            spellings = spellings_in(session.get().sparkContext().hadoopConfiguration())
        for path in {path_of(one) for one in spellings.of(location)}:
            self.registry.relistPaths(table, path, always)

    def accept(self, java: Any) -> None:
        """Register the JVM's session ``java``, which may have cached relations before.

        They are invalidated, if the last ``renew_late`` says so.
        """
        self.registry.accept(java)

    def settle(self, timeout_s: float) -> bool:
        """Wait until all files are listed anew, at most ``timeout_s``; return if they are.

        For any thread.
        """
        return bool(self.registry.settle(int(timeout_s * 1000)))

    def unfinished(self) -> tuple[str, ...]:
        """Return the names of tables whose files Spark is listing; ``*`` stands for every table."""
        return tuple(str(self.registry.unfinished()).split())

    def failures(self) -> list[tuple[Invalidation, str]]:
        """Return the renewals that have failed in threads of the JVM, and why; each once."""
        failures, self._failures = self._failures, []
        return failures

    def discard(self) -> None:
        """Discard the last look."""
        self._looks.clear()


def _looked(text: str) -> Looked:
    """Read a session's line of the registry, which is ``MANAGES [KEY, …]\\tTABLE,…``.

    MANAGES is the value of spark.sql.hive.manageFilesourcePartitions. A key is the name of a table
    whose relation is cached, with its catalog. Behind the tab are the tables of which DataFrames
    may hold relations.
    """
    manages, _, names = text.partition(" ")
    keys, _, held = names.partition("\t")
    mine = f"{CATALOG}."
    cached = (name.strip() for name in keys.strip("[]").split(","))
    return Looked(
        frozenset(name[len(mine) :] for name in cached if name.startswith(mine)),
        lists_partitions=manages.lower() == "false",
        held=frozenset(filter(None, held.split(","))),
    )


def _in_one_text(session: Session) -> Callable[[Any], str]:
    """Return a function that returns an array of Java's as one text, by one call."""
    text: Callable[[Any], str] = session._jvm.scala.runtime.ScalaRunTime.stringOf
    return text


def _field(of: Any, name: str, text: Callable[[Any], str]) -> Any:
    """Return the private field ``name`` of the Java class ``of``, or of a class that it extends."""
    kind = of
    while kind is not None:
        if re.search(rf"\.{name}[,)]", text(kind.getDeclaredFields())):
            field = kind.getDeclaredField(name)
            field.setAccessible(True)
            return field
        kind = kind.getSuperclass()
    raise Unsupported(f"{of.getName()} has no field {name}")


def _class(loader: Any, name: str) -> Any:
    """Return the class ``name`` of Java, and have the JVM throw nothing if there is none.

    PySpark 4.1 would create a session's state for an exception of the JVM.
    """
    if loader.getResource(f"{name.replace('.', '/')}.class") is None:
        raise Unsupported(f"there is no class {name}")
    return loader.loadClass(name)


def _check_keys(catalog: Any, text: Callable[[Any], str]) -> None:
    """Check that ``catalog`` finds relations by keys that are constructed from three names.

    Raises:
        Unsupported: it does not.
    """
    methods = text(catalog.getMethods())
    for name in _METHODS:
        if f".{name}(" not in methods:
            raise Unsupported(f"{catalog.getName()} has no method {name}")
    found = _KEY.search(methods)
    kind = found[1] if found is not None else ""
    loader = catalog.getClassLoader()
    if not kind or _NAMES not in text(_class(loader, kind).getConstructors()):
        raise Unsupported(f"{catalog.getName()} does not find relations by three names")


def _quoted(table: str) -> str:
    db, _, name = table.partition(".")
    return f"`{db}`.`{name}`"


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) or "no answer"
