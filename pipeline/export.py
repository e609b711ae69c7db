"""Export: the catalog as Parquet, as of one snapshot version, and the changes since the last run.

    PATH/v1/databases/exported_at=2026-11-22T20-00-…Z/part-…      a folder for each view and run
    PATH/v1/tables, columns, partitions, changes/…
    PATH/v1/runs/part-…                                           a row for each run, written last

A run counts once its row is there: readers join ``runs``, because a run that was interrupted leaves
files that no row names. The columns are those of the views (docs/pipelines.md). A change of the
columns that readers must know of gets a new ``v``.
"""

from dataclasses import KW_ONLY, MISSING, asdict, dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from ..topics.errors import ConfigError, HistoryGone, SourceError, UsageError
from ..topics.flags import option
from .conversion.jvm import Files, JvmValues
from .datasource import snapshot_version
from .datasource.views import CATALOG, CHANGES
from .options import RunOptions, called_with
from .progress import RunProgress, RunReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAYOUT: Final = "v1"
RUNS: Final = "runs"
CHECK: Final = ".writable"  # a file that Spark does not read
RUN_SCHEMA: Final = (
    "exported_at string, snapshot_version string, since string, rows map<string,bigint>"
)
OLDEST_SPARK: Final = (4, 0)


@dataclass(slots=True, kw_only=True)
class ExportReport(RunReport):
    """The results of a run: ``rows`` by view as of ``snapshot_version``; changes since ``since``.

    ``since``: empty if no changes are written. ``history_gone``: why catalogd does not have them
    any more; empty: it has them.
    """

    path: str
    exported_at: str
    snapshot_version: str
    since: str = ""
    dry_run: bool = False
    rows: dict[str, int] = field(default_factory=dict)
    history_gone: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold, with the time of the run as ISO 8601 has it, too.

        ``exported_at`` is part of the names of folders, which must not have colons.
        """
        date, _, time = self.exported_at.partition("T")
        return {**asdict(self), "at": f"{date}T{time.replace('-', ':')}"}

    @property
    def problems(self) -> tuple[str, ...]:
        """Why changes are left out, if they are."""
        why = self.history_gone
        return (f"changes since the last run are left out: {why}",) if why else ()

    def summary(self) -> str:
        """Return what was written in one line."""
        counts = ", ".join(f"{rows:,} {view}" for view, rows in self.rows.items()) or "nothing"
        return f"{'would write' if self.dry_run else 'wrote'} {counts} below {self.path}"


@dataclass(frozen=True, slots=True)
class ExportOptions(RunOptions):
    """The options of an export."""

    path: str = option("A folder of any file system that Spark knows.", default=MISSING)
    _: KW_ONLY
    tables: str = option(
        "Only rows about tables such as 'sales.*'.", default="*", metavar="PATTERN"
    )
    changes_only: bool = option(
        "Write only changes, and not the catalog itself, once a run has written it.", default=False
    )


@called_with(ExportOptions)
def export(spark: "SparkSession", options: ExportOptions) -> ExportReport:
    """Write the catalog below ``path``, and its changes since the last run.

    ``spark``: a session of Spark 4.0 or newer, whose Python has this package.

    Raises:
        UsageError: Spark is too old.
        ConfigError: ``path`` cannot be written.
        TopicastError: as ``topicast.pipeline.datasource.snapshot_version``.
    """
    if tuple(map(int, spark.version.split(".")[:2])) < OLDEST_SPARK:
        raise UsageError(f"Spark {spark.version} has no data sources in Python: use 4.0 or newer")
    path, dry_run, on_progress = options.path, options.dry_run, options.on_progress
    folder = f"{path.rstrip('/')}/{LAYOUT}"
    files = Files(JvmValues(spark))
    if not dry_run:
        _check_writable(files, path, folder)
    last = _last_run(spark, files, folder)
    report = ExportReport(
        path=path,
        exported_at=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H-%M-%S.%fZ"),
        snapshot_version=snapshot_version(options.hubs, key_file=options.key_file),
        since=last,
        dry_run=dry_run,
    )

    def source(view: str, **more: str) -> "DataFrame":
        where = {"tables": options.tables, "statestores": options.hubs}
        if options.key_file is not None:
            where["keyFile"] = options.key_file
        found = spark.read.format("topicast").options(view=view, **where, **more)
        return found.options(asOf=report.snapshot_version, notLoaded="pull").load()

    views = (
        *(() if options.changes_only and last else CATALOG),
        *((CHANGES.name,) if last else ()),
    )
    for number, view in enumerate(views):
        on_progress(RunProgress(step=f"writing {view}", done=number, left=len(views) - number))
        since = {"startingVersion": last} if view == CHANGES.name else {}
        try:
            rows = source(view, **since)
            report.rows[view] = (
                rows.count() if dry_run else _write(rows, f"{folder}/{view}", report)
            )
        except Exception as error:
            if view != CHANGES.name or HistoryGone.__name__ not in str(error):
                raise
            report.since, report.history_gone = "", _reason(error)
    on_progress(RunProgress(step="counted" if dry_run else "written", done=len(views), left=0))
    if not dry_run:
        run = (report.exported_at, report.snapshot_version, report.since, report.rows)
        row = spark.createDataFrame([run], RUN_SCHEMA).coalesce(1)
        row.write.mode("append").parquet(f"{folder}/{RUNS}")
    return report


def _write(rows: "DataFrame", folder: str, report: ExportReport) -> int:
    """Write ``rows`` into the folder of this run; return their number."""
    target = f"{folder}/exported_at={report.exported_at}"
    rows.write.mode("error").parquet(target)
    return rows.sparkSession.read.parquet(target).count()  # reads the footers only


def _check_writable(files: Files, path: str, folder: str) -> None:
    """Write a file into ``folder``, and delete it.

    Raises:
        ConfigError: no file can be written there; says why.
    """
    try:
        files.touch(f"{folder}/{CHECK}")
        files.delete(f"{folder}/{CHECK}")
    except SourceError as error:
        raise ConfigError("path", path, f"a folder that can be written ({error})") from error


def _last_run(spark: "SparkSession", files: Files, folder: str) -> str:
    """Return the snapshot version of the last run; empty: there was none."""
    if not files.exists(f"{folder}/{RUNS}"):  # Spark would log a stack trace
        return ""
    runs = spark.read.schema(RUN_SCHEMA).parquet(f"{folder}/{RUNS}")
    found = runs.orderBy("exported_at", ascending=False).select("snapshot_version").first()
    return found[0] if found is not None else ""


def _reason(error: Exception) -> str:
    """Return the line of ``error`` that says why changes are not kept any more."""
    name = HistoryGone.__name__
    lines = (line.partition(f"{name}: ")[2] for line in str(error).splitlines() if name in line)
    return next(filter(None, lines), name)
