"""Files: lists the files of tables and partitions, and reports what changed without an event."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, dataclass
from fnmatch import fnmatchcase
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from ..subscriber.client.subscriber import Subscriber
from ..topics.errors import NotReady, SourceError
from ..topics.flags import ABOVE_0, option
from ..topics.objects.names import table_pattern
from .catalog import catalog_at
from .options import RunOptions, argument, called_with
from .sweep.known import KnownFiles, known_at
from .sweep.listing import Lister
from .sweep.plan import SweepPlan
from .sweep.report import FilesReport
from .sweep.sweeper import BATCH_MAX, OnChange, Sweeper, ignore_change
from .sweep.watch import FileWatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SYNC_S: Final = 30.0  # for the metastore to answer: else a run lists everything
BUDGET: Final = "64MB"  # of the subscriber, which pulls what does not fit
STEP_S: Final = 0.2  # of a batch at the limit of requests, while folders are watched
BATCH_S: Final = 1.0  # of a batch at the limit of requests: a run that is killed loses no more
WATCHED_BATCH_MAX: Final = 100  # partitions between two looks at the times of folders


@dataclass(frozen=True, slots=True)
class FilesOptions(RunOptions):
    """The tables that are swept, and how."""

    pattern: str = option("A database, or a pattern of full names such as 'sales.*'.", default="*")
    _: KW_ONLY
    full: bool = option(
        "List everything, and not only what may have changed since the last run.", default=False
    )
    add_partitions: bool = option(
        "Add partitions to the metastore for folders that look like partitions.", default=False
    )
    small_mb: int = option(
        "A file below this size counts as small.",
        default=32,  # reading such a file costs more than its bytes
        bounds=(0, inf),
    )
    max_requests_per_second: float | None = option(
        "The most LIST requests in a second; without it there is no limit.",
        default=None,
        bounds=(ABOVE_0, inf),
    )
    watch: bool = option(
        "Go on until the run is stopped: list a partition when the time of its folder changes, and "
        "sweep all tables again and again.",
        default=False,
    )
    sweep_every_s: float = option(
        "With a watch, the pause between two sweeps of all tables.",
        default=600,  # a change that no time of a folder shows is found after this
        bounds=(0, inf),
    )
    on_change: OnChange = argument(
        "Is called with the name of each table or partition that was reported or added.",
        default=ignore_change,
    )
    stop: threading.Event | None = argument("Ends a watch.", default=None)

    def __post_init__(self) -> None:
        """Check values, and the pattern."""
        RunOptions.__post_init__(self)
        table_pattern(self.pattern)

    def batch_max(self, most: int, seconds: float) -> int:
        """Return how many partitions make a batch of ``seconds`` at the limit of requests."""
        rate = self.max_requests_per_second
        return most if rate is None else min(most, max(1, int(rate * seconds)))


@called_with(FilesOptions)
def files(spark: "SparkSession", options: FilesOptions) -> FilesReport:
    """List the files of the tables that match ``pattern``; return what was found.

    A table or partition whose files have changed, although readers were not notified, is reported
    to catalogd as a change of data, once. Files that no sweep has seen before count as a change if
    they are newer than the last change that readers were notified of. The file systems of ``spark``
    list the files; its metastore must be that of catalogd.

    Raises:
        ConfigError: an argument is not allowed.
        LinkError: no hub or no catalogd has answered for a minute.

    Cost: one LIST for each folder above partitions, and for each partition that catalogd's log of
    changes has named since the last run, whose folder has another time, or that no run has listed.
    The run holds a batch of partitions with their files, the names and times of the partitions of
    one table, the known facts of 10,000 of them, and the names in the log since the last run.
    """
    report = FilesReport(pattern=options.pattern, dry_run=options.dry_run)
    began = time.monotonic()
    with ExitStack() as stack:
        catalog = stack.enter_context(catalog_at(options, budget=BUDGET))
        known = stack.enter_context(known_at(options.hubs, key_file=options.key_file))
        paced = Lister(spark, requests_per_s=options.max_requests_per_second)
        stack.enter_context(closing(paced))
        names = partial(tables_of, catalog, options.pattern)
        sweeper = partial(
            Sweeper,
            spark,
            catalog,
            known=known,
            report=report,
            small_bytes=options.small_mb << 20,
            add_partitions=options.add_partitions,
            on_change=options.on_change,
        )
        if options.dry_run or not options.watch:
            plan, wanted = _plan_run(catalog, known, names, full=options.full)
            report.continued = options.full and not plan.lists_all
            batch_max = options.batch_max(BATCH_MAX, BATCH_S)
            one = sweeper(lister=paced, batch_max=batch_max, on_progress=options.on_progress)
            once(one, wanted, plan, dry_run=options.dry_run)
        else:
            quick = stack.enter_context(closing(Lister(spark)))
            watched = FileWatch(
                catalog,
                table_pattern(options.pattern),
                names=names,
                lister=quick,
                plan=partial(plan_all, catalog, known),
                checker=sweeper(lister=quick, batch_max=BATCH_MAX),
                report=report,
                sweep_every_s=options.sweep_every_s,
                stop=options.stop or threading.Event(),
                on_progress=options.on_progress,
            )
            batch_max = options.batch_max(WATCHED_BATCH_MAX, STEP_S)
            watched.run(sweeper(lister=paced, batch_max=batch_max, on_progress=watched.show), paced)
    report.seconds = round(time.monotonic() - began, 3)
    return report


def once(sweeper: Sweeper, names: Sequence[str], plan: SweepPlan, *, dry_run: bool) -> None:
    """Sweep the tables ``names`` by ``plan``, or with ``dry_run`` predict its requests."""
    if dry_run:
        sweeper.predict(names, plan)
        return
    if plan.is_marked:
        sweeper.mark(names, plan)
    for _ in sweeper.steps(names, plan):
        pass


def _plan_run(
    catalog: Subscriber, known: KnownFiles, names: Callable[[], Sequence[str]], *, full: bool
) -> tuple[SweepPlan, Sequence[str]]:
    """Return the plan of a run, and the names of the tables that it sweeps.

    With ``full`` the run lists everything, or, if a run with ``full`` was interrupted, the rest.
    """
    plan = plan_all(catalog, known)
    wanted = names()
    if not plan.as_of:
        return plan, wanted
    swept = known.swept()
    plan.tables = {name: swept[name] for name in wanted if name in swept}
    plan.lists_all = full and not any(one.whole for one in plan.tables.values())
    plan.is_marked = plan.lists_all
    known.note_changes(plan)
    return plan, wanted


def plan_all(catalog: Subscriber, known: KnownFiles) -> SweepPlan:
    """Return the plan of a run that lists everything, as of the present end of the log."""
    try:
        catalog.sync(SYNC_S)  # the log has what the metastore has
        first, as_of = known.next_line()
        catalog.sync(SYNC_S)  # the catalog here has what the log has
    except (NotReady, SourceError):
        return SweepPlan(as_of=0, lists_all=True)  # changes in the meantime will not be known
    return SweepPlan(as_of=as_of, first=first, lists_all=True)


def tables_of(catalog: Subscriber, pattern: str) -> list[str]:
    """Return the full names of the tables and views that match ``pattern``."""
    wanted = table_pattern(pattern)
    names = (f"{db}.{table}" for db in catalog.databases() for table in catalog.tables(db))
    return [name for name in names if fnmatchcase(name, wanted)]
