"""Files: lists the files of tables and partitions, and reports what changed without an event."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from ..subscriber.client.subscriber import Subscriber
from ..topics.errors import NotReady, SourceError, UsageError
from ..topics.objects.names import table_pattern
from .catalog import catalog_at
from .progress import OnProgress, ignore
from .sweep.known import KnownFiles, known_at
from .sweep.listing import Lister
from .sweep.plan import SMALL_MB, SWEEP_EVERY_S, SweepPlan
from .sweep.report import FilesReport
from .sweep.sweeper import BATCH_MAX, OnChange, Sweeper, ignore_change
from .sweep.watch import FileWatch

SYNC_S: Final = 30.0  # for the metastore to answer: else a run lists everything
BUDGET: Final = "64MB"  # of the catalog that is held; the rest is pulled
STEP_S: Final = 0.2  # that a batch may be held back while folders are watched
BATCH_S: Final = 1.0  # of requests that are held back: what a run that is killed has lost at most
WATCHED_BATCH_MAX: Final = 100  # partitions between two looks at the times of folders


def files(
    spark: SparkSession,
    pattern: str = "*",
    *,
    full: bool = False,
    add_partitions: bool = False,
    small_mb: int = SMALL_MB,
    max_requests_per_second: float | None = None,
    watch: bool = False,
    sweep_every_s: float = SWEEP_EVERY_S,
    dry_run: bool = False,
    statestores: str | None = None,
    key_file: str | None = None,
    on_progress: OnProgress = ignore,
    on_change: OnChange = ignore_change,
    stop: threading.Event | None = None,
) -> FilesReport:
    """List the files of the tables that match ``pattern``; return what was found.

    A table or partition whose files have changed, although readers were not notified, is reported
    to catalogd as a change of data, once. What no sweep has seen before counts as changed if it is
    newer than the last change that readers were notified of.

    Args:
        spark: Its file systems list; its metastore is that of catalogd.
        pattern: Of full names, as ``sales.*``.
        full: List everything, and not only what may have changed since the last run.
        add_partitions: Add folders that look like partitions to the metastore, which lacks them.
        small_mb: A file below it is counted as small.
        max_requests_per_second: LIST requests, at most; None: as fast as it goes.
        watch: Go on until ``stop``: list a partition when the time of its folder changes, and
            all of them again and again.
        sweep_every_s: In a watch the pause between two sweeps of all tables.
        dry_run: List nothing; return how many requests it would take.
        statestores: Addresses of hubs; else TOPICAST_STATESTORES, else this machine's.
        key_file: A driver's key file; found as every driver finds it.
        on_progress: Is called after each batch.
        on_change: Is called with each table or partition that was reported or added.
        stop: Ends a watch.

    Raises:
        UsageError: an argument is not allowed.
        LinkError: no hub or no catalogd answers, for a minute.

    Cost: one LIST for each folder above partitions, and for each partition that catalogd's log of
    changes names since the last run, whose folder has another time, or of which nothing is known
    yet. The run holds a batch of partitions with their files, the names and times of partitions of
    one table, what is known of 10,000 of them, and the names of what the log has since then.
    """
    if small_mb < 0:
        raise UsageError(f"small_mb {small_mb}: 0 or more")
    if max_requests_per_second is not None and max_requests_per_second <= 0:
        raise UsageError(f"max_requests_per_second {max_requests_per_second}: above 0")
    if sweep_every_s < 0:
        raise UsageError(f"sweep_every_s {sweep_every_s}: 0 or more")
    report = FilesReport(pattern=pattern, dry_run=dry_run)
    began = time.monotonic()
    with ExitStack() as stack:
        catalog = stack.enter_context(catalog_at(statestores, budget=BUDGET, key_file=key_file))
        known = stack.enter_context(known_at(statestores, key_file=key_file))
        paced = Lister(spark, requests_per_s=max_requests_per_second)
        stack.enter_context(closing(paced))
        sweeper = partial(
            Sweeper,
            spark,
            catalog,
            known=known,
            report=report,
            small_bytes=small_mb << 20,
            add_partitions=add_partitions,
            on_change=on_change,
        )
        if dry_run or not watch:
            plan, names = _plan_run(catalog, known, partial(tables_of, catalog, pattern), full=full)
            report.continued = full and not plan.lists_all
            rate = max_requests_per_second
            batch_max = BATCH_MAX if rate is None else min(BATCH_MAX, max(1, int(rate * BATCH_S)))
            one = sweeper(lister=paced, batch_max=batch_max, on_progress=on_progress)
            once(one, names, plan, dry_run=dry_run)
        else:
            quick = stack.enter_context(closing(Lister(spark)))
            watched = FileWatch(
                catalog,
                table_pattern(pattern),
                names=partial(tables_of, catalog, pattern),
                lister=quick,
                plan=partial(plan_all, catalog, known),
                checker=sweeper(lister=quick, batch_max=BATCH_MAX),
                report=report,
                sweep_every_s=sweep_every_s,
                stop=stop or threading.Event(),
                on_progress=on_progress,
            )
            rate = max_requests_per_second
            batch_max = WATCHED_BATCH_MAX if rate is None else max(1, int(rate * STEP_S))
            batch_max = min(batch_max, WATCHED_BATCH_MAX)
            watched.run(sweeper(lister=paced, batch_max=batch_max, on_progress=watched.show), paced)
    report.seconds = round(time.monotonic() - began, 3)
    return report


def once(sweeper: Sweeper, names: Sequence[str], plan: SweepPlan, *, dry_run: bool) -> None:
    """Sweep the tables ``names`` by ``plan``, or with ``dry_run`` predict the requests of that."""
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
    """Return what a run lists of the tables ``names``, and these.

    With ``full`` everything, or what a run with ``full`` that was interrupted has left.
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
    """Return the plan of a run that lists everything, and as of when."""
    try:
        catalog.sync(SYNC_S)  # the log has what the metastore has
        first, as_of = known.next_line()
        catalog.sync(SYNC_S)  # the catalog here has what the log has
    except (NotReady, SourceError):
        return SweepPlan(as_of=0, lists_all=True)  # and nobody knows what changes meanwhile
    return SweepPlan(as_of=as_of, first=first, lists_all=True)


def tables_of(catalog: Subscriber, pattern: str) -> list[str]:
    """Return the full names of the tables and views that match ``pattern``."""
    wanted = table_pattern(pattern)
    names = (f"{db}.{table}" for db in catalog.databases() for table in catalog.tables(db))
    return [name for name in names if fnmatchcase(name, wanted)]
