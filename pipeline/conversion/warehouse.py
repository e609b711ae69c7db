"""Warehouse: reads, writes and changes the tables of a session for convert."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructType

from ...topics.errors import UsageError
from ...topics.objects.names import NULL_PARTITION, TableId, table_name
from ...topics.objects.tables import Column
from .jvm import CATALOG, CATALYST, SOURCES, TYPES, Files, JvmValues, answered
from .plan import FORMATS, PART, REJECTED, SOURCE, PartitionChange, PartitionJob

KEEPS_CORRUPT: Final = ("csv", "json")  # formats whose readers show rows that they cannot read
CORRUPT: Final = "topicast_corrupt_record"
SHOWN: Final = (("columnNameOfCorruptRecord", CORRUPT), ("mode", "PERMISSIVE"))
EVERY_COLUMN: Final = (("columnPruning", "false"),)  # with pruning, only selected columns count
ADVISORY: Final = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
NO_MARKER: Final = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
LISTING: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
LISTING_TASKS: Final = 4  # for each core; a task for each partition, as Spark has it, costs more
STRICT: Final = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
IGNORE: Final = False  # a partition that exists already is an error


@dataclass(frozen=True, slots=True)
class Written:
    """How many rows a batch has written, and how many it could not read and has kept aside."""

    rows: int
    rejected: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of partitions, each with its part; ``corrupt`` holds for rows that cannot be read."""

    frame: DataFrame
    corrupt: Expression


class Warehouse:
    """The tables of a session, used with settings of our own; the session keeps its settings."""

    def __init__(self, spark: SparkSession, *, file_bytes: int) -> None:
        """``file_bytes``: the size of written files, roughly."""
        self._spark = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        self._spark.conf.set(ADVISORY, str(file_bytes))
        for name in STRICT:
            self._spark.conf.set(name, "false")
        tasks = LISTING_TASKS * spark.sparkContext.defaultParallelism
        self._spark.conf.set(LISTING, str(tasks))
        self._file_bytes = file_bytes
        self._jvm = JvmValues(self._spark)
        self._catalog: Any = self._jvm.session.sessionState().catalog()
        self.files = Files(self._jvm)

    # -- tables

    def exists(self, table: TableId) -> bool:
        """Return whether the metastore has ``table``."""
        with answered("the metastore"):
            return bool(self._catalog.tableExists(self._identifier(table)))

    def columns(self, table: TableId) -> tuple[Column, ...]:
        """Return the columns of ``table`` as Spark knows them now, partition columns last."""
        with answered("the metastore"):
            self._catalog.refreshTable(self._identifier(table))
            fields = self._spark.table(_quoted(table)).schema.fields
        return tuple(Column(one.name, one.dataType.simpleString()) for one in fields)

    def create(
        self,
        table: TableId,
        *,
        source: TableId,
        columns: Sequence[Column],
        keys: Sequence[Column],
        file_format: str,
        location: str | None,
    ) -> None:
        """Create the copy of ``source`` at ``location``, or in the folder of its database."""
        at = f" LOCATION {_text(location)}" if location else ""
        with answered(f"{table_name(*table)} cannot be created"):
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {_quoted(table)} ({_ddl(columns)}) "
                f"PARTITIONED BY ({_ddl(keys)}) STORED AS {file_format}{at} "
                f"TBLPROPERTIES ({_text(SOURCE)} = {_text(table_name(*source))})"
            )

    def reshape(self, table: TableId, columns: Sequence[Column]) -> None:
        """Give ``table`` these data columns, by one change of the metastore."""
        schema = self._jvm.named(f"{TYPES}.StructType.fromDDL")(_ddl(columns))
        with answered(f"the columns of {table_name(*table)} cannot be changed"):
            self._catalog.alterTableDataSchema(self._identifier(table), schema)

    def format_of(self, table: TableId) -> str:
        """Return the format of the files of ``table``: one of FORMATS.

        Raises:
            UsageError: the table has another format.
        """
        found = self._metadata(table)
        text = f"{_option(found.provider())} {_option(found.storage().inputFormat())}".lower()
        for one in FORMATS:
            if one in text:
                return one
        raise UsageError(f"{table_name(*table)} is neither Parquet nor ORC: name another copy")

    def location_of(self, table: TableId) -> str:
        """Return the folder of ``table``."""
        return str(self._jvm.path(self._metadata(table).location()).toString())

    # -- partitions

    @answered("Spark")
    def write(
        self,
        source: TableId,
        jobs: Sequence[PartitionJob],
        folder: str,
        *,
        keys: Sequence[Column],
        columns: Sequence[Column],
        file_format: str,
    ) -> Written:
        """Write the partitions of ``jobs`` below ``folder``, each into a folder of its part.

        This is one Spark job. If there are rows that cannot be read, another job keeps them aside.

        Raises:
            SourceError: a job failed; says why.
        """
        rows = self._rows_of(source, jobs, keys)
        counts = Observation(f"convert-{uuid.uuid4().hex}")
        rejected = sql.count(sql.when(rows.corrupt, sql.lit(1))).alias("rejected")
        seen = rows.frame.observe(counts, sql.count(sql.lit(1)).alias("all"), rejected)
        by_name = {name.lower(): name for name in rows.frame.columns}
        wanted = [_as(by_name.get(one.name.lower()), one) for one in columns]
        good = seen.where(~rows.corrupt).select(*wanted, PART)
        if any(len(job.files) > 1 or job.size > self._file_bytes for job in jobs):
            hint = f"SELECT /*+ REBALANCE({PART}) */ * FROM {{good}}"
            good = self._spark.sql(hint, good=good)
        good.write.option(NO_MARKER, "false").partitionBy(PART).format(file_format).save(folder)
        found = counts.get
        if found["rejected"]:
            self._keep_aside(rows, jobs, folder)
        return Written(rows=found["all"] - found["rejected"], rejected=found["rejected"])

    def prepared(
        self, table: TableId, changes: Sequence[PartitionChange], *, keys: Sequence[Column]
    ) -> Callable[[], None]:
        """Return the function that performs ``changes`` in the metastore.

        One change of the metastore makes all new partitions, a second replaces the others.
        """
        identifier, found = self._identifier(table), self._metadata(table).storage()
        storage = [found.productElement(at) for at in range(1, found.productArity())]
        new = [self._partition(one, keys, storage) for one in changes if one.new]
        old = [self._partition(one, keys, storage) for one in changes if not one.new]
        new_seq, old_seq = self._jvm.seq(new), self._jvm.seq(old)

        def perform() -> None:
            with answered(f"partitions of {table_name(*table)} cannot be changed"):
                if new:
                    self._catalog.createPartitions(identifier, new_seq, IGNORE)
                if old:
                    # An attached driver may refuse to alter partitions that it read from memory. A
                    # command reads the metastore, so that none counts as read from memory.
                    self._spark.sql(f"DESCRIBE TABLE {_quoted(table)}")
                    self._catalog.alterPartitions(identifier, old_seq)

        return perform

    def _rows_of(
        self, source: TableId, jobs: Sequence[PartitionJob], keys: Sequence[Column]
    ) -> Rows:
        """Return the rows of the partitions of ``jobs``, each with its part in a column."""
        frame = self._spark.table(_quoted(source))
        plan: Any = frame._jdf.queryExecution().analyzed().collectLeaves().head()
        if plan.getClass().getSimpleName() == "LogicalRelation":
            return self._rows_of_files(plan.relation(), jobs)
        return Rows(self._rows_of_hive(frame, jobs, keys), sql.expr("false"))

    def _rows_of_files(self, relation: Any, jobs: Sequence[PartitionJob]) -> Rows:
        """Return the rows of a table that Spark reads itself, from the folders of ``jobs`` only."""
        jvm = self._jvm
        text = jvm.named("org.apache.spark.unsafe.types.UTF8String.fromString")
        row = jvm.named(f"{CATALYST}.InternalRow.fromSeq")
        partition = jvm.named(f"{SOURCES}.PartitionPath")
        paths = [self.files.qualified(job.location) for job in jobs]
        parts = [
            partition(row(jvm.seq([text(job.part)])), path)
            for job, path in zip(jobs, paths, strict=True)
        ]
        keys = self._schema(StructType().add(PART, StringType()))
        spec = jvm.named(f"{SOURCES}.PartitionSpec")(keys, jvm.seq(parts))
        index = self.files.index(paths, spec)
        schema, options = relation.dataSchema(), relation.options()
        file_format = str(relation.fileFormat().toString()).lower()
        if file_format in KEEPS_CORRUPT:
            schema = schema.add(CORRUPT, "string")
            for name, value in (*SHOWN, *EVERY_COLUMN):
                options = options.updated(name, value)
        of = (index, keys, schema, jvm.none, relation.fileFormat(), options, jvm.session)
        made = jvm.session.baseRelationToDataFrame(jvm.named(f"{SOURCES}.HadoopFsRelation")(*of))
        frame, corrupt = DataFrame(made, self._spark), sql.expr("false")
        if file_format in KEEPS_CORRUPT:
            corrupt = sql.col(CORRUPT).isNotNull()
        if file_format == "csv":
            names = [name for name in frame.columns if name not in (CORRUPT, PART)]
            corrupt = corrupt & ~_is_short(names, _dict(relation.options()))
        return Rows(frame, corrupt)

    def _rows_of_hive(
        self, frame: DataFrame, jobs: Sequence[PartitionJob], keys: Sequence[Column]
    ) -> DataFrame:
        """Return the rows of a table that Spark reads through Hive's classes."""
        own = [f"topicast_key_{at}" for at in range(len(keys))]
        rows = [(job.part, *map(_value, job.values)) for job in jobs]
        schema = ", ".join(f"{name} string" for name in (PART, *own))
        pairs = list(zip(own, keys, strict=True))
        typed = [sql.col(name).cast(key.type).alias(name) for name, key in pairs]
        parts = self._spark.createDataFrame(rows, schema).select(PART, *typed)
        same = [sql.col(_name(key.name)).eqNullSafe(sql.col(name)) for name, key in pairs]
        pruned = frame.where(_any_of([_is(job, keys) for job in jobs]))
        return pruned.join(sql.broadcast(parts), reduce(and_, same)).drop(*own)

    def _keep_aside(self, rows: Rows, jobs: Sequence[PartitionJob], folder: str) -> None:
        """Write rows that could not be read as JSON: partition, file, text, and read columns."""
        names = sql.create_map(*(sql.lit(text) for job in jobs for text in (job.part, job.name)))
        names_of = rows.frame.columns
        data = [sql.col(_name(name)) for name in names_of if name not in (CORRUPT, PART)]
        aside = rows.frame.where(rows.corrupt).select(
            names[sql.col(PART)].alias("partition"),
            sql.col("_metadata.file_path").alias("file"),
            sql.col(CORRUPT).alias("record"),
            sql.struct(*data).alias("parsed"),
            PART,
        )
        aside.write.option(NO_MARKER, "false").partitionBy(PART).json(f"{folder}/{REJECTED}")

    def _partition(
        self, change: PartitionChange, keys: Sequence[Column], storage: Sequence[Any]
    ) -> Any:
        """Return the partition as Spark's catalog takes it.

        ``storage``: the table's storage properties behind the location.
        """
        jvm = self._jvm
        place = jvm.some(jvm.path(change.location).toUri())
        names = [key.name for key in keys]
        return jvm.named(f"{CATALOG}.CatalogTablePartition")(
            jvm.map(dict(zip(names, change.values, strict=True))),
            jvm.named(f"{CATALOG}.CatalogStorageFormat")(place, *storage),
            jvm.map(change.parameters),
            int(time.time() * 1000),
            0,
            jvm.none,
        )

    def _identifier(self, table: TableId) -> Any:
        db, name = table
        return self._jvm.named(f"{CATALYST}.TableIdentifier")(name, self._jvm.some(db))

    def _metadata(self, table: TableId) -> Any:
        with answered("the metastore"):
            return self._catalog.getTableMetadata(self._identifier(table))

    def _schema(self, schema: StructType) -> Any:
        return self._jvm.named(f"{TYPES}.DataType.fromJson")(schema.json())


def _is_short(names: Sequence[str], options: Mapping[str, str]) -> Expression:
    """Return the condition that a CSV row could be read, and lacks only its last columns.

    Spark counts such a row as corrupt, and reads null for these columns. Files that were written
    before a column was added have such rows.
    """
    texts = [f"c{at}" for at in range(len(names) + 1)]  # the last is null unless a row is too long
    read = sql.from_csv(sql.col(CORRUPT), ", ".join(f"{one} string" for one in texts), options)
    pairs = zip(texts, names, strict=False)
    fits = [read[text].isNull() | sql.col(_name(name)).isNotNull() for text, name in pairs]
    return reduce(and_, [*fits, read[texts[-1]].isNull()])


def _dict(items: Any) -> dict[str, str]:
    """Return a Map of Scala as a dict."""
    pairs = items.toSeq()
    found = (pairs.apply(at) for at in range(pairs.length()))
    return {str(pair._1()): str(pair._2()) for pair in found}


def _option(value: Any) -> str:
    return str(value.get()) if value.isDefined() else ""


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _quoted(table: TableId) -> str:
    return ".".join(map(_name, table))


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _ddl(columns: Sequence[Column]) -> str:
    return ", ".join(f"{_name(one.name)} {one.type}" for one in columns)


def _as(name: str | None, column: Column) -> Expression:
    """Return the column ``name`` of a frame as the copy's ``column``; null if there is none."""
    value = sql.lit(None) if name is None else sql.col(_name(name))
    return value.cast(column.type).alias(column.name)


def _is(job: PartitionJob, keys: Sequence[Column]) -> Expression:
    pairs = zip(keys, job.values, strict=True)
    each = [(sql.col(_name(key.name)), _value(value)) for key, value in pairs]
    return reduce(and_, [sql.isnull(it) if text is None else it == text for it, text in each])


def _value(text: str) -> str | None:
    return None if text == NULL_PARTITION else text


def _any_of(conditions: Sequence[Expression]) -> Expression:
    """Return ``or`` of all, balanced: Spark recurses into it."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return _any_of(conditions[:half]) | _any_of(conditions[half:])
