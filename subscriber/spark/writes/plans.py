"""Plans: finds the tables and paths that a plan of Spark writes, and the objects that they mean.

An adapter: it calls the JVM through Py4J, 0.1 ms a call. All but ``metastore_in_use`` need the
session's state, which a session that writes has, or is about to create.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ....topics.objects.names import partition_name
from ... import arguments
from ...client.write_reports import object_name
from ..paths import Spellings, spellings_in
from .metastores import (
    CATALOG,
    IMPLEMENTATION,
    URIS,
    ReportedMetastore,
    WriteTarget,
    metastore_of,
    object_of,
)

_SINK: Final = "FileSink["
_TABLE_OF: Final = {  # by the command: the method that returns its table
    "InsertIntoHadoopFsRelationCommand": "catalogTable",
    "InsertIntoHiveTable": "table",
    "CreateDataSourceTableAsSelectCommand": "table",
    "CreateHiveTableAsSelectCommand": "tableDesc",
    "OptimizedCreateHiveTableAsSelectCommand": "tableDesc",
    "LoadDataCommand": "table",
    "TruncateTableCommand": "tableName",
    "RepairTableCommand": "tableName",
    "AlterTableAddColumnsCommand": "table",
    "AlterTableChangeColumnCommand": "tableName",
    "AlterTableSetLocationCommand": "tableName",
    "AlterTableSerDePropertiesCommand": "tableName",
    "RefreshTableCommand": "tableIdent",
}
_SPEC_OF: Final = {  # by the command: the method that returns the partition that it names, if any
    "InsertIntoHadoopFsRelationCommand": "staticPartitions",
    "InsertIntoHiveTable": "partition",
    "LoadDataCommand": "partition",
    "TruncateTableCommand": "partitionSpec",
}
_REFRESHES: Final = frozenset({"RefreshTableCommand", "RefreshTable", "RefreshResource"})
WRITES: Final = frozenset({*_TABLE_OF, *_REFRESHES, "InsertIntoHiveDirCommand"})
"""The classes of plans that the listener takes for writes: its WRITES are the same."""
_OVERWRITES: Final = {  # by the command: a method, and what it returns if the write removes files
    "InsertIntoHadoopFsRelationCommand": ("mode", "Overwrite"),
    "InsertIntoHiveTable": ("overwrite", "True"),
    "InsertIntoHiveDirCommand": ("overwrite", "True"),
    "LoadDataCommand": ("isOverwrite", "True"),
}


@dataclass(frozen=True, slots=True)
class Touched:
    """The effect of a write on one object: in which ``partitions``, and whether it removes files.

    Without ``partitions`` it may be any of the object's.
    """

    partitions: tuple[str, ...] = ()
    overwrites: bool = False


class Plans:
    """Resolves names as one session does, whose state exists; for one write."""

    def __init__(self, java: Any, jvm: Any, *, configured: str) -> None:
        """``java``: the JVM's session. ``configured``: ``spark.topicast.metastore``, or empty."""
        self.metastore = metastore_in_use(java, made=True, configured=configured)
        self._jvm = jvm
        self._settings = java.conf()
        self._catalog = java.catalog()
        self._hadoop = java.sparkContext().hadoopConfiguration()
        self._paths: Spellings | None = None  # read from Hadoop's configuration for the first path

    def objects(self, targets: tuple[WriteTarget, ...]) -> dict[str, Touched]:
        """Return the objects that reports of ``targets`` name, with what the write does to each.

        Targets in other catalogs are left out; a path has an object for each of its spellings.

        Raises:
            UsageError: a table has a name that cannot be reported.
        """
        found: dict[str, Touched] = {}
        for target in targets:
            catalog = database = ""
            if len(target.name) in {1, 2}:
                catalog = str(self._catalog.currentCatalog())
            if len(target.name) == 1:
                database = str(self._catalog.currentDatabase())
            reported = object_of(target, catalog=catalog, database=database, conf=self._conf)
            if reported is None:
                continue
            is_path = "/" in reported or target.path
            for name in self._spellings(reported) if is_path else (reported,):
                before = found.get(name)
                partitions: tuple[str, ...] = ()
                if before is None:
                    partitions = arguments.partition_names(target.partitions, "partitions")
                overwrites = target.overwrites or (before is not None and before.overwrites)
                found[object_name(name)] = Touched(partitions, overwrites)
        return found

    def _conf(self, key: str) -> str:
        return str(self._settings.get(key, None) or "")  # Spark would check any other default

    def _spellings(self, path: str) -> tuple[str, ...]:
        """Return ``path``, with the file system by which Spark reads it, in each spelling."""
        found = self._jvm.org.apache.hadoop.fs.Path(path)
        whole = str(found.getFileSystem(self._hadoop).makeQualified(found).toString())
        if self._paths is None:
            self._paths = spellings_in(self._hadoop)
        return self._paths.of(whole)


def metastore_in_use(java: Any, *, made: bool, configured: str) -> ReportedMetastore:
    """Return the metastore that Spark's client in the session ``java`` uses, or is going to use.

    Spark takes its settings from the context, else from the options of the session's builder, else
    from Hadoop's configuration, which has those of hive-site.xml, ``spark.hadoop.*`` and
    ``spark.hive.*``. ``made``: the session's state exists, which fixes them. This call does not
    create it.
    """
    options: dict[str, str] = {}
    if made:
        shared = java.sharedState()
        conf, hadoop = shared.conf(), shared.hadoopConf()
    else:
        given = java.initialSessionOptions()
        options = {key: str(_of(given.get(key)) or "") for key in (IMPLEMENTATION, URIS)}
        conf, hadoop = java.sparkContext().conf(), java.sparkContext().hadoopConfiguration()
    uris = conf.get(URIS, "") or options.get(URIS) or hadoop.get(URIS)
    return metastore_of(
        implementation=str(options.get(IMPLEMENTATION) or conf.get(IMPLEMENTATION, "")),
        uris=str(uris or ""),
        configured=configured,
    )


def written(plan: Any) -> tuple[WriteTarget, ...]:
    """Return what a statement writes whose analysed plan is ``plan``; empty: it writes nothing."""
    of = plan.children() if plan.getClass().getSimpleName() == "Union" else None
    commands = [plan] if of is None else [of.apply(at) for at in range(of.size())]
    return tuple(found for one in commands if (found := _target(one)) is not None)


def refreshed(java: Any, name: str, *, is_path: bool) -> tuple[WriteTarget, ...]:
    """Return the table, or the path, that a call of the session ``java`` has refreshed."""
    if is_path:
        return (WriteTarget(path=name),)
    parts = _each(java.sessionState().sqlParser().parseMultipartIdentifier(name))
    return (WriteTarget(name=tuple(map(str, parts))),)


def sink_of(java: Any, query: Any) -> tuple[WriteTarget, ...]:
    """Return what an active streaming query of the session ``java`` writes; ``query``: its id."""
    active = java.sharedState().activeStreamingQueries().get(query)
    return () if active is None else sunk(str(active.sink().toString()))


def sunk(description: str) -> tuple[WriteTarget, ...]:
    """Return the path that a streaming query writes, from the ``description`` of its sink.

    Empty: the sink is no file sink, so that another write reports it, or nothing is to be reported.
    """
    if not description.startswith(_SINK):
        return ()
    return (WriteTarget(path=description[len(_SINK) : -1]),)


def partitions_of(columns: list[str], spec: dict[str, str]) -> tuple[str, ...]:
    """Return the partitions that a write with the static values ``spec`` may touch.

    If each of ``columns`` has a static value, it is one partition; else all whose names begin with
    the values of the first columns. Without ``columns``, which then are not known, only the first
    value of ``spec`` is used, as a beginning.
    """
    keys: list[str] = []
    for column in columns or list(spec)[:1]:
        if column not in spec:
            break
        keys.append(column)
    if not keys:
        return ()
    name = partition_name(keys, [spec[key] for key in keys])
    return (name if len(keys) == len(columns) else f"{name}/",)


def _target(command: Any) -> WriteTarget | None:
    """Return what a command of Spark writes or refreshes; None: it is no such command."""
    kind = str(command.getClass().getSimpleName())
    if kind == "InsertIntoHiveDirCommand":
        location = _of(command.storage().locationUri())
        if location is None:
            return None
        return WriteTarget(path=str(location.toString()), overwrites=_overwrites(command, kind))
    if kind == "RefreshResource":
        return WriteTarget(path=str(command.path()))
    if kind == "RefreshTable":
        return _refreshed(command.child())
    if kind not in _TABLE_OF:
        return None
    table = _of(getattr(command, _TABLE_OF[kind])())
    if table is None:
        path = str(command.outputPath().toString())
        return WriteTarget(path=path, overwrites=_overwrites(command, kind))
    columns: list[str] = []
    identifier = table
    if table.getClass().getSimpleName() == "CatalogTable":
        identifier = table.identifier()
        columns = [str(one) for one in _each(table.partitionColumnNames())]
    name = tuple(
        str(part)
        for part in (_of(identifier.catalog()), _of(identifier.database()), identifier.table())
        if part is not None
    )
    if len(name) == 2:
        name = (CATALOG, *name)  # Spark has these commands for tables of this catalog alone
    spec = _spec(_of(getattr(command, _SPEC_OF[kind])())) if kind in _SPEC_OF else {}
    return WriteTarget(
        name=name,
        partitions=partitions_of(columns, spec),
        overwrites=_overwrites(command, kind),
    )


def _refreshed(resolved: Any) -> WriteTarget | None:
    """Return the table of a REFRESH TABLE where a plugin replaces the catalog; None: it is none."""
    if resolved.getClass().getSimpleName() != "ResolvedTable":
        return None
    identifier = resolved.identifier()
    name = (resolved.catalog().name(), *identifier.namespace(), identifier.name())
    return WriteTarget(name=tuple(map(str, name)))


def _overwrites(command: Any, kind: str) -> bool:
    """Return whether ``command``, of the class ``kind``, removes files that are there."""
    if kind not in _OVERWRITES:
        return kind == "TruncateTableCommand"
    method, answer = _OVERWRITES[kind]
    return str(getattr(command, method)()) == answer


def _spec(of: Any) -> dict[str, str]:
    """Read Scala's map of columns to values, or to Options; leave columns without a value out."""
    found = {}
    for pair in _each(of) if of is not None else ():
        value = _of(pair._2())
        if value is not None:
            found[str(pair._1())] = str(value)
    return found


def _each(collection: Any) -> Iterator[Any]:
    """Iterate a collection of Scala."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _of(option: Any) -> Any:
    """Return what an Option of Scala holds, or the object itself; None for an empty Option."""
    if isinstance(option, str) or option is None:
        return option
    if option.getClass().getSimpleName() == "None$":
        return None
    return option.get() if option.getClass().getSimpleName() == "Some" else option
