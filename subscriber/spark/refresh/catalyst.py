"""The Py4J boundary to Spark's caches of relations, one cache for each session.

    SparkSession ─field─▶ SessionState ──▶ SessionCatalog ─field─▶ relations by table
         never made by us: its settings, such as the metastore's URI, are fixed when it is made

The calls take no lock of Spark's and need no metastore, but for ``recache``. The names are those of
3.5, 4.0, 4.1 and 4.3; ``probe`` finds out once which of them there are. Py4J is imported once there
is a session: the Python of ``topicast run`` may have none.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from .refresher import Existing

CATALOG: Final = "spark_catalog"  # the one that sessions keep relations of
VERSIONS: Final = ("3.5", "4.0", "4.1", "4.3")  # with these it was tried
FORMER_MAX: Final = 8  # relations of one table that DataFrames may still hold
HELD_MAX: Final = 1000  # tables of which they do: Spark caches as many relations of a session

_SESSION_CATALOG: Final = "org.apache.spark.sql.catalyst.catalog.SessionCatalog"
_METHODS: Final = ("getCachedTable", "invalidateCachedTable")
_KEY: Final = re.compile(r"\.getCachedTable\(([\w.]+)\)")  # how it names its parameter's class
_NAMES: Final = "(java.lang.String,java.lang.String,java.lang.String)"  # what such a key is made of


class Session(Protocol):
    """What is used of a pyspark.sql.SparkSession."""

    _jsparkSession: Any  # noqa: N815 - its name in PySpark
    _jvm: Any
    _sc: Any


@dataclass(slots=True)
class _Caches:
    """What was found of one session; ``relations`` is a live view of the keys of its cache."""

    id: str
    catalog: Any = None
    relations: Any = None


@dataclass(frozen=True, slots=True)
class _Former:
    """What lists the files of an invalidated relation, as long as a DataFrame holds it."""

    weak: Any
    shape: str


class Unsupported(Exception):
    """This Spark lacks what is needed; says what."""


class Catalyst:
    """Looks into the caches of sessions, and renews what is in them. For one thread."""

    def __init__(self, state_field: Any, relations_field: Any, qualified: Any) -> None:
        self._state_field = state_field
        self._relations_field = relations_field
        self._qualified = qualified
        self.primitives = "getCachedTable, invalidateCachedTable, refresh"
        self._caches: WeakKeyDictionary[Any, _Caches] = WeakKeyDictionary()
        self._former: dict[tuple[str, str], list[_Former]] = {}  # the newest in use last
        self._shapes: dict[tuple[str, str], str] = {}  # what DataFrames may go on reading by

    @staticmethod
    def probe(session: Session) -> "Catalyst":
        """Find the primitives of this Spark; nothing of the session's state is made by it.

        Raises:
            Unsupported: something is missing.
        """
        from py4j.protocol import Py4JError

        java = getattr(session, "_jsparkSession", None)
        if java is None:
            raise Unsupported("a Spark Connect session: it has no JVM here to refresh")
        try:
            kind = java.getClass()
            text = _in_one_text(session)
            state = _field(kind, "sessionState", text)
            loader = kind.getClassLoader()
            catalog = _class(loader, _SESSION_CATALOG)
            relations = _field(catalog, "tableRelationCache", text)
            key = _key_of(catalog, text)
            return Catalyst(state, relations, getattr(session._jvm, key))
        except Py4JError as exc:
            raise Unsupported(_reason(exc)) from exc

    def id_of(self, session: Session) -> str | None:
        """Return the id of a session, the same for all its Python objects; None if it ended."""
        if session._sc is None or session._sc._jsc is None:
            return None
        caches = self._caches.get(session)
        if caches is None:
            caches = self._caches[session] = _Caches(session._jsparkSession.sessionUUID())
        return caches.id

    def has_state(self, session: Session) -> bool:
        """Whether the state of ``session`` has been made; any thread may ask."""
        return self._state_field.get(session._jsparkSession) is not None

    def cached(self, session: Session) -> frozenset[str]:
        """Return the tables that ``session`` has relations of, as ``db.table``.

        Cost: one call, 0.15 ms, once there are any.
        """
        caches = self._found(session)
        if caches.relations is None:
            return frozenset()
        listed = caches.relations.toString().strip("[]")
        names = (name.strip() for name in listed.split(","))
        mine = f"{CATALOG}."
        return frozenset(name[len(mine) :] for name in names if name.startswith(mine))

    def held(self, session: Session) -> frozenset[str]:
        """Return the tables of which DataFrames may hold relations to be refreshed in place.

        ``renew`` finds out whether one is still held. Cost: no call.
        """
        mine = self.id_of(session)
        return frozenset(table for name, table in self._shapes if name == mine)

    def renew(self, session: Session, table: str, *, existing: Existing) -> None:
        """Invalidate the relation of ``table``, so that the next plan lists its files anew.

        DataFrames go on holding relations that were invalidated, now or before: these are refreshed
        in place as ``existing`` says, if they read the same columns and location as the newest.
        """
        caches = self._found(session)
        if caches.catalog is None:
            return
        key = self._key(table)
        relation = caches.catalog.getCachedTable(key)
        known = (caches.id, table)
        if existing is Existing.NEVER:  # its own shape may be of before or after the change
            self._shapes.pop(known, None)
        if relation is not None:
            caches.catalog.invalidateCachedTable(key)
            shape = self._remember(session, relation, known)
            if existing is not Existing.NEVER:
                self._shapes[known] = shape
        if known not in self._shapes:
            return
        for held in self._formers(known):
            if existing is Existing.ALWAYS or self._is_gone(session, held):
                held.refresh()

    def recache(self, session: Session, table: str, *, existing: Existing) -> None:
        """Invalidate it, then make cached data anew as REFRESH TABLE does. Needs the metastore.

        REFRESH TABLE alone refreshes cached data only once: it makes it of the relation that it was
        made of, and refreshes another one.
        """
        self.renew(session, table, existing=existing)
        session._jsparkSession.catalog().refreshTable(f"{CATALOG}.{_quoted(table)}")

    def renew_all(self, session: Session) -> None:
        """Invalidate every relation of ``session``."""
        caches = self._found(session)
        if caches.catalog is not None:
            caches.catalog.invalidateAllCachedTables()

    def keep(self, ids: set[str]) -> None:
        """Discard what was kept of every session but these."""
        self._former = {key: held for key, held in self._former.items() if key[0] in ids}
        self._shapes = {key: shape for key, shape in self._shapes.items() if key[0] in ids}

    def _found(self, session: Session) -> _Caches:
        self.id_of(session)
        caches = self._caches[session]
        if caches.relations is None:
            state = self._state_field.get(session._jsparkSession)
            if state is not None:
                caches.catalog = state.catalog()
                relations = self._relations_field.get(caches.catalog)
                caches.relations = relations.asMap().keySet()
        return caches

    def _key(self, table: str) -> Any:
        db, _, name = table.partition(".")
        return self._qualified(CATALOG, db, name)

    def _is_gone(self, session: Session, location: Any) -> bool:
        """Whether what lists all files of a table lists one that is not there."""
        if location.getClass().getSimpleName() != "InMemoryFileIndex":
            return False  # of a partitioned table: it lists files for each query
        from py4j.protocol import Py4JJavaError

        try:
            files = location.inputFiles()
            if not len(files):
                return False
            path = session._jvm.org.apache.hadoop.fs.Path(session._jvm.java.net.URI(files[0]))
            conf = session._sc._jsc.hadoopConfiguration()
            return not path.getFileSystem(conf).exists(path)
        except Py4JJavaError:
            return False  # a file system that does not answer: then new plans only

    def _formers(self, known: tuple[str, str]) -> list[Any]:
        """Return what lists files of held relations whose shape is the newest one's."""
        found = [(one, one.weak.get()) for one in self._former[known]]
        self._keep_former(known, [one for one, lister in found if lister is not None])
        shape = self._shapes[known]
        listers = [lister for one, lister in found if lister is not None and one.shape == shape]
        if not listers:
            del self._shapes[known]
        return listers

    def _keep_former(self, known: tuple[str, str], former: list[_Former]) -> None:
        """Keep the newest of ``former``; over HELD_MAX tables, discard the least recently used."""
        self._former.pop(known, None)
        if former:
            self._former[known] = former[-FORMER_MAX:]
        if len(self._former) > HELD_MAX:
            oldest = next(iter(self._former))
            del self._former[oldest]
            self._shapes.pop(oldest, None)

    def _remember(self, session: Session, relation: Any, known: tuple[str, str]) -> str:
        """Keep what lists the files of ``relation`` while somebody else does; return its shape.

        DataFrames over tables of Hive hold copies of a relation, which share this.
        """
        lister, shape = _read_by(relation)
        former = _Former(session._jvm.java.lang.ref.WeakReference(lister), shape)
        self._keep_former(known, [*self._former.get(known, ()), former])
        return shape


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
    return next((line for line in str(error).splitlines() if line.strip()), "no answer")
