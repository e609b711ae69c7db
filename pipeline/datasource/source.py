"""The data source ``topicast`` as Spark calls it: ``spark.read`` and ``spark.readStream``.

    driver      TopicastSource ──reader──▶ partitions(): ReadPlanner ──▶ Split, Split, …
    executors                              read(Split): TaskReader ──▶ batches of Arrow

Spark runs all of this in Python processes of its own, in which there is no SparkSession.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import pyarrow as pa

from ...topics.errors import ConfigError
from ...topics.keys.folder import KEY

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
    )
except ImportError as missing:
    from pyspark import __version__ as found

    needed = "Spark 4.0 or newer: older ones have no data sources in Python"
    raise ConfigError("pyspark", found, needed) from missing
try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark before 4.2 gives such a query one batch

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]  # stands for Spark's
        """Stands for Spark's class, which this Spark lacks."""


from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from .conditions import Conditions, condition_of
from .options import LATEST, SourceOptions, read_options
from .planning import ReadPlanner, StreamPlanner, Work, planning
from .reading import TaskReader
from .renewal import ApplicationProcess, application_of, start_renewal, this_application
from .snapshot_versions import SnapshotVersion, offset_of, snapshot_version_at
from .views import CHANGES, VIEWS, SourceView

T = TypeVar("T")

PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class Split(InputPartition):
    """The input of one task; its repr does not show the key."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __repr__(self) -> str:
        return f"Split({self.work!r})"


class _Reads:
    """The methods that both readers have in executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """``schema``: the columns that are wanted.

        Raises:
            ConfigError: the view has no such column, or it has another type.
        """
        self._options = options
        self._schema = schema
        _check_columns(VIEWS[options.view], schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``partition``."""
        assert isinstance(partition, Split)
        reader = TaskReader(self._options, self._schema.fieldNames())
        schema = _arrow(self._schema)
        for rows in reader.batches(partition.work):
            columns = list(zip(*rows, strict=True)) or [()] * len(schema)
            arrays = [
                pa.array(column, type=field.type)
                for column, field in zip(columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class TopicastReader(_Reads, DataSourceReader):
    """Reads one view of the catalog, as of one snapshot version."""

    def partitions(self) -> list[Split]:
        """Return the splits of the view, all of one snapshot version."""
        with planning(self._options) as planner:
            works = planner.works(self._options, self._schema.fieldNames())
        return _splits(works or [Work()], self._options, this_application())


class TopicastFilteringReader(TopicastReader):
    """Reads only databases and tables that Spark's filters on names let through."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        """Take the conditions on names; return the other filters, for Spark to apply."""
        conditions = [condition_of(one) for one in filters]
        taken = tuple(one for one in conditions if one is not None)
        self._options = replace(self._options, conditions=Conditions(taken))
        return [one for one, made in zip(filters, conditions, strict=True) if made is None]


class TopicastStreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of the catalog after an offset: the epoch, and a version of each topic."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """As ``_Reads``."""
        super().__init__(options, schema)
        self._planner: StreamPlanner | None = None  # in the process that plans; None: not yet
        self._reached: dict[str, int] | None = None  # for Spark before 4.2, which gives no start
        self._last: SnapshotVersion | None = None  # where a query ends that reads what is available

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset at which a new query begins."""
        found = self._planned(lambda planner: planner.starting(self._options, LATEST))
        self._reached = offset_of(found)
        return self._reached

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name, from 4.2 on
        """Return the limit of entries of a batch."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        entries_max = self._options.entries_max
        return ReadAllAvailable() if entries_max is None else ReadMaxRows(entries_max)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, int] | None = None, limit: object = None
    ) -> dict[str, int]:
        """Return where the batch after ``start`` ends; ``limit``: as Spark 4.2 gives it."""
        after = start or self._reached
        entries_max = self._options.entries_max if limit is None else _rows_max(limit)

        def latest(planner: ReadPlanner) -> SnapshotVersion:
            until = self._last or planner.snapshot_version()
            if after is None or entries_max is None:
                return until
            return planner.bounded(snapshot_version_at(after), until, entries_max)

        self._reached = offset_of(self._planned(latest))
        return self._reached

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name, from 4.2 on
        """Let the query end at the present snapshot version."""
        self._last = self._planned(ReadPlanner.snapshot_version)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Split]:
        """Return the splits of the changes after ``start``, up to ``end``."""
        after, until = snapshot_version_at(start), snapshot_version_at(end)
        self._reached = end
        if after == until:
            return []
        works = self._planned(lambda planner: planner.changes(after, until, self._options))
        return _splits(works, self._options, application_of(os.getpid()))

    def stop(self) -> None:
        """Disconnect, at the end of the query."""
        if self._planner is not None:
            self._planner.close()

    def _planned(self, call: Callable[[ReadPlanner], T]) -> T:
        """Return what ``call`` returns; as ``StreamPlanner.plan``."""
        if self._planner is None:  # this process plans one query, and lives as long as the query
            self._planner = StreamPlanner(self._options, application_of(os.getpid()))
        return self._planner.plan(call)


class TopicastSource(DataSource):
    """The data source; its options are those of ``SourceOptions``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "topicast"

    def schema(self) -> str:
        """Return the columns of the view."""
        return VIEWS[self._read_options().view].schema

    def reader(self, schema: StructType) -> TopicastReader:
        """Return a reader of the columns in ``schema``."""
        reader = TopicastFilteringReader if _pushes_filters() else TopicastReader
        return reader(self._read_options(), schema)

    def streamReader(self, schema: StructType) -> TopicastStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of the stream of changes; raises ConfigError for another view."""
        options = self._read_options()
        if options.view != CHANGES.name:
            raise ConfigError("view", options.view, f"{CHANGES.name}, in a stream")
        if options.as_of is not None:
            raise ConfigError("asOf", str(options.as_of)[:40], "startingVersion, in a stream")
        return TopicastStreamReader(options, schema)

    def _read_options(self) -> SourceOptions:
        return read_options(self.options)


def register(spark: SparkSession) -> None:
    """Let ``spark`` know the format ``topicast``, also if Spark has found it by its name.

    In that case Spark 4.0 refuses the registration, and newer releases do not. The process that
    plans a read needs the key that `attach` hides from Python workers, so the registration is made
    while it is not hidden.
    """
    environment = spark.sparkContext.environment
    hidden = {KEY: environment.pop(KEY)} if KEY in environment else {}
    try:
        spark.dataSource.register(TopicastSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    finally:
        environment.update(hidden)


def _splits(
    works: Sequence[Work], options: SourceOptions, application: ApplicationProcess
) -> list[Split]:
    """Return the splits of ``works``; their key stays admitted until ``application`` ends."""
    if any(work.credential for work in works):
        start_renewal(options.statestores, options.key_file, application)
    return [Split(work) for work in works]


def _pushes_filters() -> bool:
    """Return whether this process of Spark's plans a read with filters.

    Spark refuses a reader that takes filters, unless spark.sql.python.filterPushdown.enabled is
    set. Here only the module that Spark runs in this process shows whether it is.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return PUSHING in sys.modules or getattr(main, "name", "") == PUSHING


def _rows_max(limit: object) -> int | None:
    """Return how many rows a ReadLimit of Spark's allows; None: all."""
    found = getattr(limit, "max_rows", None)
    return found if isinstance(found, int) else None


def _arrow(schema: StructType) -> pa.Schema:
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        return to_arrow_schema(schema)  # Spark before 4.2: times are in UTC by themselves


def _check_columns(view: SourceView, schema: StructType) -> None:
    """Raise ConfigError unless each column of ``schema`` is a column of ``view``, with its type."""
    for field in schema.fields:
        kind, _ = view.columns.get(field.name, ("", None))
        if field.dataType.simpleString() != kind:
            wanted = f"{field.name} {field.dataType.simpleString()}"
            raise ConfigError("schema", wanted, f"columns of {view.name}: {view.schema}")
