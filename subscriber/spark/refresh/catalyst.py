"""The Py4J boundary to Spark's caches of relations, one cache for each session.

    SparkSession ─field─▶ SessionState ──▶ SessionCatalog ─field─▶ relations by table
         never made by us: its settings, such as the metastore's URI, are fixed when it is made

Sessions are known by their ids; `registry` finds them. No call takes a lock of Spark's or waits for
a file system or the metastore. The names are those of 3.5, 4.0, 4.1 and 4.3; ``probe`` finds out
once which of them there are. Py4J is imported once there is a session: the Python of
``topicast run`` may have none.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..paths import Spellings, path_of, spellings_in
from ..sessions import Session, Unsupported, has_jvm
from .refresher import Existing, Invalidation, Looked
from .registry import registry_of

CATALOG: Final = "spark_catalog"  # of which sessions keep relations
VERSIONS: Final = ("3.5", "4.0", "4.1", "4.3")  # with these it was tried
HELD_MAX: Final = 1000  # tables of which they do: Spark caches as many relations of a session

_SESSION_CATALOG: Final = "org.apache.spark.sql.catalyst.catalog.SessionCatalog"
_METHODS: Final = ("getCachedTable", "invalidateCachedTable")
_KEY: Final = re.compile(r"\.getCachedTable\(([\w.]+)\)")  # how it names its parameter's class
_NAMES: Final = "(java.lang.String,java.lang.String,java.lang.String)"  # what such a key is made of


class Catalyst:
    """Looks into the caches of sessions, and renews what is in them. For one thread."""

    def __init__(self, registry: Any, jvm: Any, *, state: Any) -> None:
        self.registry = registry  # a Consumer of Java's, too: of sessions that execute
        self.primitives = "getCachedTable, invalidateCachedTable, refresh"
        self.has_iceberg = False  # whether sessions may have catalogs of Iceberg, at the last look
        self._jvm = jvm
        self._state_field = state
        self._looks: dict[str, tuple[str, Looked]] = {}  # by id, the last look: as text, and read
        self._failures: list[tuple[Invalidation, str]] = []  # of renewals in the JVM's threads

    @staticmethod
    def probe(session: Session) -> "Catalyst":
        """Find the primitives of this Spark; nothing of the session's state is made by it.

        Raises:
            Unsupported: something is missing.
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
        except (Py4JError, TypeError) as exc:  # TypeError: what is a package to Py4J is called
            raise Unsupported(_reason(exc)) from exc

    def adopt(self, session: Session) -> None:
        """Register a session of Python, and those that Spark makes of it; for any thread."""
        self.registry.adopt(session._jsparkSession)

    def has_state(self, session: Session) -> bool:
        """Whether the state of ``session`` has been made; for any thread."""
        return self._state_field.get(session._jsparkSession) is not None

    def renew_late(self, *, renew: bool) -> None:
        """Invalidate from now on the relations of sessions that are known by their executions."""
        self.registry.renew(renew)

    def look(self) -> Mapping[str, Looked]:
        """Return what each session has relations of, as ``db.table``.

        Cost: one call, 0.2 ms, and 2 µs for a session.
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

        DataFrames go on holding relations that were invalidated, now or before: these are refreshed
        in place as ``existing`` says, if they read the same columns and location as the newest.
        """
        self.registry.renew(session, table, existing.value, HELD_MAX)

    def recache(self, session: str, table: str, *, existing: Existing) -> None:
        """Invalidate it, then make cached data anew as REFRESH TABLE does. Needs the metastore.

        REFRESH TABLE alone refreshes cached data only once: it makes it of the relation that it was
        made of, and refreshes another relation.
        """
        self.renew(session, table, existing=existing)
        self.registry.recache(session, table, f"{CATALOG}.{_quoted(table)}")

    def reload(self, names: Iterable[str]) -> None:
        """Let Iceberg's catalogs load tables anew, later: what they cache may be out of date.

        ``names`` are of tables, of databases for all in them, or ``*``.
        """
        self.registry.reload("\n".join(names))

    @property
    def has_paths(self) -> bool:
        """Whether somebody holds a relation over paths. Cost: one call, 0.1 ms."""
        return int(self.registry.paths()) > 0

    def renew_paths(self, table: str, location: str, *, always: bool) -> None:
        """List anew what relations over paths read at, in or above ``location``, later.

        Those that are read by a view's name always, others ``always``, else if files are gone. An
        empty location: all of them. For any thread.
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
        """Register a session that was made before; if that is on, its relations are invalidated."""
        self.registry.accept(java)

    def settle(self, timeout_s: float) -> bool:
        """Return within ``timeout_s`` whether files have been listed anew; for any thread."""
        return bool(self.registry.settle(int(timeout_s * 1000)))

    def unfinished(self) -> tuple[str, ...]:
        """Return the names of tables whose files Spark is listing; ``*`` stands for every table."""
        return tuple(str(self.registry.unfinished()).split())

    def failures(self) -> list[tuple[Invalidation, str]]:
        """Return which renewals had failed at the last look, in threads of the JVM, and why."""
        failures, self._failures = self._failures, []
        return failures

    def discard(self) -> None:
        """Discard what was seen at the last look."""
        self._looks.clear()


def _looked(text: str) -> Looked:
    """Read what the registry says of a session: a setting, a set of keys as Java prints it, held.

    Tables of which relations may be held are behind a tab.
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
    """Return a function that makes one text of an array of Java's, in one call."""
    text: Callable[[Any], str] = session._jvm.scala.runtime.ScalaRunTime.stringOf
    return text


def _field(of: Any, name: str, text: Callable[[Any], str]) -> Any:
    """Return a private field of a Java class, or of a class that it extends."""
    kind = of
    while kind is not None:
        if re.search(rf"\.{name}[,)]", text(kind.getDeclaredFields())):
            field = kind.getDeclaredField(name)
            field.setAccessible(True)
            return field
        kind = kind.getSuperclass()
    raise Unsupported(f"{of.getName()} has no field {name}")


def _class(loader: Any, name: str) -> Any:
    """Return a class of Java; nothing is thrown in the JVM: PySpark 4.1 then makes the state."""
    if loader.getResource(f"{name.replace('.', '/')}.class") is None:
        raise Unsupported(f"there is no class {name}")
    return loader.loadClass(name)


def _check_keys(catalog: Any, text: Callable[[Any], str]) -> None:
    """Check that ``catalog`` finds its relations by keys that are made of three names."""
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
