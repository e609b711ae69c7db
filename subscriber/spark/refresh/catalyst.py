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
from dataclasses import dataclass
from typing import Any, Final

from ..paths import Spellings, path_of, spellings_in
from ..sessions import Session, Unsupported, has_jvm
from .refresher import Existing, Looked, Order
from .registry import registry_of

CATALOG: Final = "spark_catalog"  # the one that sessions keep relations of
VERSIONS: Final = ("3.5", "4.0", "4.1", "4.3")  # with these it was tried
FORMER_MAX: Final = 8  # relations of one table that DataFrames may still hold
HELD_MAX: Final = 1000  # tables of which they do: Spark caches as many relations of a session

_SESSION_CATALOG: Final = "org.apache.spark.sql.catalyst.catalog.SessionCatalog"
_METHODS: Final = ("getCachedTable", "invalidateCachedTable")
_KEY: Final = re.compile(r"\.getCachedTable\(([\w.]+)\)")  # how it names its parameter's class
_NAMES: Final = "(java.lang.String,java.lang.String,java.lang.String)"  # what such a key is made of


@dataclass(slots=True)
class _Held:
    """What DataFrames may hold of a table: what lists the files of relations that were invalidated.

    ``shape``: columns and location of the newest one; empty: DataFrames are not to be refreshed.
    """

    listers: list[tuple[Any, str]]  # a weak reference to each, and its relation's shape
    shape: str = ""


class Catalyst:
    """Looks into the caches of sessions, and renews what is in them. For one thread."""

    def __init__(self, registry: Any, jvm: Any, *, state: Any, qualified: Any) -> None:
        self.registry = registry  # a Consumer of Java's, too: of sessions that execute
        self.primitives = "getCachedTable, invalidateCachedTable, refresh"
        self.has_iceberg = False  # whether sessions may have catalogs of Iceberg, at the last look
        self._jvm = jvm
        self._weak = jvm.java.lang.ref.WeakReference  # found once: that takes four calls
        self._state_field = state
        self._qualified = qualified
        self._looks: dict[str, tuple[str, Looked]] = {}  # by id, the last one: as text, and read
        self._failures: list[tuple[Order, str]] = []  # of renewals in the JVM's threads
        self._held: dict[str, dict[str, _Held]] = {}  # by session and table, the newest in use last

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
            qualified = getattr(session._jvm, _key_of(catalog, text))
            registry = registry_of(session._jvm, state=state, relations=relations)
            return Catalyst(registry, session._jvm, state=state, qualified=qualified)
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
                order = Order(session=session, table=table, existing=Existing.NEVER)
                self._failures.append((order, why))
                continue
            seen = before.get(session)
            self._looks[session] = (
                seen if seen is not None and seen[0] == text else (text, _looked(text))
            )
        self._held = {one: held for one, held in self._held.items() if one in self._looks}
        return {session: looked for session, (_, looked) in self._looks.items()}

    def held(self, session: str) -> frozenset[str]:
        """Return the tables of which DataFrames may hold relations to be refreshed in place.

        ``renew`` finds out whether one is still held. Cost: no call.
        """
        held = self._held.get(session)
        return frozenset(table for table, one in held.items() if one.shape) if held else frozenset()

    def renew(self, session: str, table: str, *, existing: Existing) -> None:
        """Invalidate the relation of ``table``, so that the next plan lists its files anew.

        DataFrames go on holding relations that were invalidated, now or before: these are refreshed
        in place as ``existing`` says, if they read the same columns and location as the newest.
        """
        catalog = self.registry.catalog(session)
        if catalog is None:
            return
        db, _, name = table.partition(".")
        key = self._qualified(CATALOG, db, name)
        held = self._held.get(session, {}).get(table, _Held([]))
        if existing is Existing.NEVER:  # its own shape may be of before or after the change
            held.shape = ""
        before = self.registry.superseded(session, f"{CATALOG}.{table}")  # by a plan from memory
        if before is not None:
            self._hold(held, before, existing)
        relation = catalog.getCachedTable(key)
        if relation is not None:
            lister = self._hold(held, relation, existing)
            self.registry.discarded(session, table, lister)
            catalog.invalidateCachedTable(key)
        if held.shape:
            self._relist(session, table, held, always=existing is Existing.ALWAYS)
        self._keep(session, table, held)

    def recache(self, session: str, table: str, *, existing: Existing) -> None:
        """Invalidate it, then make cached data anew as REFRESH TABLE does. Needs the metastore.

        REFRESH TABLE alone refreshes cached data only once: it makes it of the relation that it was
        made of, and refreshes another one.
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

    def failures(self) -> list[tuple[Order, str]]:
        """Return which renewals had failed at the last look, in threads of the JVM, and why."""
        failures, self._failures = self._failures, []
        return failures

    def discard(self) -> None:
        """Discard all that is kept of sessions."""
        self._held.clear()
        self._looks.clear()

    def _hold(self, held: _Held, relation: Any, existing: Existing) -> Any:
        """Track what lists the files of a relation that is invalidated, and return it.

        DataFrames over tables of Hive hold copies of a relation, which share what lists files.
        """
        lister, shape = _read_by(relation)
        held.listers.append((self._weak(lister), shape))
        if existing is not Existing.NEVER:
            held.shape = shape
        return lister

    def _relist(self, session: str, table: str, held: _Held, *, always: bool) -> None:
        """Have what lists files of the newest shape do so again; drop what nobody holds."""
        alive = [(weak, shape, weak.get()) for weak, shape in held.listers]
        held.listers = [(weak, shape) for weak, shape, lister in alive if lister is not None]
        found = [one for _, shape, one in alive if one is not None and shape == held.shape]
        for lister in found:
            self.registry.relist(session, table, lister, always)
        if not found:
            held.shape = ""

    def _keep(self, session: str, table: str, held: _Held) -> None:
        """Keep the newest of ``held``; over HELD_MAX tables, discard the least recently used."""
        mine = self._held.setdefault(session, {})
        mine.pop(table, None)
        if held.listers:
            held.listers = held.listers[-FORMER_MAX:]
            mine[table] = held
        if len(mine) > HELD_MAX:
            del mine[next(iter(mine))]


def _looked(text: str) -> Looked:
    """Read what the registry says of a session: a setting, and a set of keys as Java prints it."""
    manages, _, keys = text.partition(" ")
    names = (name.strip() for name in keys.strip("[]").split(","))
    mine = f"{CATALOG}."
    tables = frozenset(name[len(mine) :] for name in names if name.startswith(mine))
    return Looked(tables, lists_partitions=manages.lower() == "false")


def _read_by(relation: Any) -> tuple[Any, str]:
    """Return what lists the files of a relation, else itself; and its columns and location."""
    lister, where = relation, ""
    if relation.getClass().getSimpleName() == "LogicalRelation":
        base = relation.relation()
        if base.getClass().getSimpleName() == "HadoopFsRelation":
            lister = base.location()
            where = str(lister.rootPaths().toString())
    return lister, f"{relation.schema().json()} {where}"


def _in_one_text(session: Session) -> Callable[[Any], str]:
    """Return a function that makes one text of an array of Java's, in one call."""
    text: Callable[[Any], str] = session._jvm.scala.runtime.ScalaRunTime.stringOf
    return text


def _field(of: Any, name: str, text: Callable[[Any], str]) -> Any:
    """Return a private field of a Java class, or of one that it extends."""
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


def _key_of(catalog: Any, text: Callable[[Any], str]) -> str:
    """Return the class of the keys of ``catalog``'s relations, made of three names."""
    methods = text(catalog.getMethods())
    for name in _METHODS:
        if f".{name}(" not in methods:
            raise Unsupported(f"{catalog.getName()} has no method {name}")
    found = _KEY.search(methods)
    kind = found[1] if found is not None else ""
    loader = catalog.getClassLoader()
    if not kind or _NAMES not in text(_class(loader, kind).getConstructors()):
        raise Unsupported(f"{catalog.getName()} does not find relations by three names")
    return kind


def _quoted(table: str) -> str:
    db, _, name = table.partition(".")
    return f"`{db}`.`{name}`"


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) or "no answer"
