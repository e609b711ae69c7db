"""Converter: one pair of tables, and the passes over it.

    source, copy ──▶ what differs by version ──▶ written below a new folder ──▶ listed once more
                                                    ──▶ lease checked ──▶ the metastore changed

A pass computes everything from the present state of the two tables, and a stream is a series of
passes, one after each change of the source. So an interrupted run needs no repair: files that it
has written and the metastore does not name are deleted together with files that were replaced.
"""

import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, MISSING, dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from ...subscriber import arguments
from ...subscriber.client.subscriber import Subscriber
from ...subscriber.engine.watch import Watch
from ...topics.errors import SourceError, StaleMetadata, TopicastError, UsageError
from ...topics.flags import option
from ...topics.objects.names import TableId, table_name
from ...topics.objects.tables import Column, Partition, Table
from ..options import RunOptions, argument
from ..progress import RunProgress
from .columns import Conflict, drift
from .lease import TableLease
from .plan import (
    FOLDER,
    FORMATS,
    NOTES,
    REJECTED,
    SOURCE,
    VERSION,
    PartitionFile,
    PartitionJob,
    change_of,
    compare,
    in_batches,
    is_due,
    location_of,
    note_of,
    read_note,
    unneeded,
    version_of,
)
from .report import ConvertReport

if TYPE_CHECKING:
    from .warehouse import Warehouse

PASSES_MAX: Final = 3  # of a run that is not a stream: the next run takes later changes
PAUSE_S: Final = 60.0  # of a stream: the longest time without a pass
QUIET_S: Final = 0.2  # of a stream, after a change: to convert changes that belong together at once
RETRY_S: Final = 5.0  # of a stream, after a pass that failed for a passing reason
REFUSED_S: Final = 300.0  # of a stream: then a failed partition is tried again with the same files
OVERTAKEN: Final = "its files or the columns of the source have changed while it was converted"
STOP_S: Final = 1.0  # within which a stream that waits ends
CLOCK: Final = "clock"  # an empty file next to the notes, whose time is that of the storage


@dataclass(frozen=True, slots=True)
class ConvertOptions(RunOptions):
    """The options of a conversion."""

    source: str = option(
        "The table to convert: with partitions, of any format that Spark reads.",
        default=MISSING,
        name="from",
        metavar="TABLE",
    )
    target: str = option(
        "Its converted copy; created if it does not exist.",
        default=MISSING,
        name="to",
        metavar="TABLE",
    )
    _: KW_ONLY
    once: bool = option(
        "Convert the partitions that differ and end; else go on, and convert each change.",
        default=True,
    )
    where: str | None = option(
        "Convert only partitions that fulfil this condition.", default=None, metavar="SQL"
    )
    location: str | None = option(
        "The folder of a copy that is created; else a folder of its database.", default=None
    )
    file_format: str = option(
        "The format of a copy that is created.", default=FORMATS[0], choices=FORMATS, name="format"
    )
    target_file_mb: int = option("Size of the copy's files, roughly.", default=128, bounds=(1, inf))
    batch: int = option(
        "Partitions that one Spark job writes at most.",
        default=500,  # what a failure repeats
        bounds=(1, inf),
    )
    keep_s: float = option(
        "How long replaced files stay, for queries that were planned before.",
        default=3600.0,
        bounds=(0, inf),
    )
    stop: threading.Event | None = argument("Ends a run between two batches.", default=None)

    def __post_init__(self) -> None:
        """Check values, and that there are two tables."""
        RunOptions.__post_init__(self)
        source, target = self.tables
        if source == target:
            raise UsageError(f"{table_name(*source)} cannot be its own copy")

    @property
    def tables(self) -> tuple[TableId, TableId]:
        """The table to convert, and its copy."""
        return arguments.table(self.source), arguments.table(self.target)


@dataclass(frozen=True, slots=True)
class Pair:
    """Source and copy in one pass; ``base``: the copy's location, None before it is created."""

    table: Table
    data: tuple[Column, ...]  # of the source, with Spark's types
    keys: tuple[Column, ...]  # partition columns, with Spark's types
    columns: tuple[Column, ...]  # of the copy's files
    copies: Mapping[str, Partition]  # by name
    base: str | None
    file_format: str
    conflict: str = ""  # why the source does not fit into the copy


class Conversion:
    """Converts what differs. For one thread."""

    def __init__(
        self,
        warehouse: "Warehouse",
        catalog: Subscriber,
        lease: TableLease,
        *,
        options: ConvertOptions,
    ) -> None:
        """``lease``: of the copy; the caller holds it, except for a dry run."""
        self._warehouse = warehouse
        self._catalog = catalog
        self._lease = lease
        self._options = options
        self._on_progress = options.on_progress
        self._stop = options.stop or threading.Event()
        self._from, self._to = options.tables
        self._source, self._target = table_name(*self._from), table_name(*self._to)
        self._report = ConvertReport(
            source=self._source, target=self._target, dry_run=options.dry_run
        )
        self._folder = f"{FOLDER}{secrets.token_hex(6)}"  # of this run; batches are counted
        self._batches = 0
        self._compared: dict[str, tuple[int, int, str]] = {}
        """The ``_state`` of partitions when their copies were last found, or made, as new."""
        self._refused: dict[str, tuple[str, str, float]] = {}
        """Partitions that failed: the version of their files, why, and when to try again."""
        self._overtaken = 0  # partitions of this pass that changed while they were converted
        self._left = 0
        self._lag_s: float | None = None
        self._skew_s: float | None = None  # by which the file system's clock is ahead of ours
        self._begun = time.monotonic()
        self._waited_s = 0.0  # in which it waited for changes, since ``_begun``

    def run_once(self) -> ConvertReport:
        """Convert until nothing differs, in at most PASSES_MAX passes; raises as ``convert``."""
        for _ in range(PASSES_MAX):
            if not self._pass() or self._options.dry_run or self._stop.is_set():
                break
        return self._ended()

    def run(self) -> ConvertReport:
        """Convert the partitions that differ, then each change, until ``stop`` is set."""
        with closing(self._catalog.watch(f"{self._source}*")) as watch:
            while not self._stop.is_set():
                self._await_change(watch, PAUSE_S if self._passed() else RETRY_S)
        return self._ended()

    def _passed(self) -> bool:
        """Do a pass; return False if it failed for a reason that may pass."""
        self._report.problem = ""
        try:
            self._pass()
        except TopicastError as error:
            if not error.retriable:
                raise
            self._report.problem = str(error)
            self._tell("waits")
        return not self._report.problem

    def _await_change(self, watch: Watch, pause_s: float) -> None:
        began = time.monotonic()
        self._wait(watch, until=began + pause_s)
        self._waited_s += time.monotonic() - began

    def _wait(self, watch: Watch, *, until: float) -> None:
        while not self._stop.is_set() and (left_s := until - time.monotonic()) > 0:
            try:
                if watch.all_within(min(left_s, STOP_S)):
                    self._stop.wait(QUIET_S)
                    return
            except StaleMetadata:
                return

    def _pass(self) -> int:
        """Convert all that differs now; return how many partitions were converted or overtaken.

        0: another pass has nothing to do.
        """
        report = self._report
        if not self._options.dry_run:
            self._lease.check()
        self._catalog.sync()
        pair = self._prepared()
        self._skew_s = None
        self._clean(pair)
        report.passes += 1
        report.quarantined = {}
        self._overtaken = 0
        found = self._catalog.partitions(self._source, self._options.where)
        due = [one for one in found if self._compared.get(one.name) != _state(one, pair)]
        report.unchanged, self._left = len(found) - len(due), len(due)
        before = report.converted
        for some in in_batches(due, self._options.batch):
            if self._stop.is_set():
                break
            jobs = self._differing(some, pair)
            self._left -= len(some)
            self._tell("compared")
            if self._options.dry_run:
                self._note_done(jobs)
            elif jobs:
                self._convert(jobs, pair)
        return report.converted - before + self._overtaken

    # -- what differs

    def _prepared(self) -> Pair:
        """Return source and copy; create the copy if it is missing, and give it new columns."""
        table = self._catalog.table(self._source)
        if not table.partition_columns:
            raise UsageError(
                f"{self._source} has no partitions: convert copies partitions, name another table"
            )
        columns = self._warehouse.columns(self._from)
        count = len(columns) - len(table.partition_columns)
        data, keys = columns[:count], columns[count:]
        if not self._warehouse.exists(self._to):
            if self._options.dry_run:
                return Pair(table, data, keys, data, {}, None, self._options.file_format)
            self._create(data, keys)
        copy = self._fitting_copy(table)
        base = self._warehouse.location_of(self._to)
        file_format = self._warehouse.format_of(self._to)
        found = self._catalog.partitions(self._target, self._options.where)
        copies = {one.name: one for one in found}
        have = self._warehouse.columns(self._to)[: -len(copy.partition_columns)]
        try:
            have = self._reshaped(copy, data, have)
        except Conflict as conflict:
            return Pair(table, data, keys, have, copies, base, file_format, str(conflict))
        return Pair(table, data, keys, have, copies, base, file_format)

    def _create(self, data: Sequence[Column], keys: Sequence[Column]) -> None:
        self._lease.check()
        self._warehouse.create(
            self._to,
            source=self._from,
            columns=data,
            keys=keys,
            file_format=self._options.file_format,
            location=self._options.location,
        )
        self._tell("created")
        self._catalog.sync()

    def _fitting_copy(self, table: Table) -> Table:
        copy = self._catalog.table(self._target)
        of = copy.parameters.get(SOURCE, self._source)
        if of != self._source:
            raise UsageError(f"{self._target} is the converted copy of {of}: name another one")
        if copy.partition_keys != table.partition_keys:
            theirs = ", ".join(copy.partition_keys) or "nothing"
            mine = ", ".join(table.partition_keys)
            text = f"{self._target} is partitioned by {theirs}, {self._source} by {mine}"
            raise UsageError(f"{text}: name another one")
        return copy

    def _reshaped(
        self, copy: Table, data: Sequence[Column], have: Sequence[Column]
    ) -> tuple[Column, ...]:
        """Add and widen columns of the copy if that is needed; return its columns.

        Raises:
            Conflict: the columns do not fit, or the copy to be changed was not made by convert.
        """
        wanted = drift(data, have)
        if wanted.changes and SOURCE not in copy.parameters:
            changed = ", ".join((*wanted.added, *wanted.widened))
            owned = f"ALTER TABLE {self._target} SET TBLPROPERTIES ('{SOURCE}' = '{self._source}')"
            text = f"columns of {self._source} are new or wider than in {self._target}: {changed}"
            raise Conflict(f"{text}; convert did not make it: change it, or allow it by {owned}")
        if wanted.changes and not self._options.dry_run:
            self._lease.check()
            self._warehouse.reshape(self._to, wanted.columns)
            self._tell("reshaped")
        self._report.columns_added += wanted.added
        self._report.columns_widened += wanted.widened
        return wanted.columns

    def _differing(self, some: Sequence[Partition], pair: Pair) -> list[PartitionJob]:
        """Return the jobs for ``some`` partitions; quarantine those that cannot be converted."""
        jobs = []
        for one, files in self._listed(some):
            try:
                job = compare(one, files, pair.copies.get(one.name))
                if job is not None:
                    self._check(job, pair)
                    jobs.append(job)
                    continue
            except UsageError as error:
                self._report.quarantined[one.name] = str(error)
                continue
            self._report.unchanged += 1
            self._compared[one.name] = _state(one, pair)
        return jobs

    def _listed(
        self, some: Sequence[Partition]
    ) -> Iterator[tuple[Partition, tuple[PartitionFile, ...]]]:
        """Yield partitions with their files; quarantine those that cannot be listed."""
        try:
            listed = self._warehouse.files.list([one.location for one in some])
        except SourceError as error:
            if len(some) == 1:
                self._report.quarantined[some[0].name] = str(error)
                return
            half = len(some) // 2
            yield from self._listed(some[:half])
            yield from self._listed(some[half:])
        else:
            yield from zip(some, listed, strict=True)

    def _check(self, job: PartitionJob, pair: Pair) -> None:
        """Raise UsageError if it is known that ``job`` cannot be done."""
        version, why, until = self._refused.get(job.name, ("", "", 0.0))
        if pair.conflict:
            raise UsageError(pair.conflict)
        if version == job.version and time.monotonic() < until:
            raise UsageError(why)
        if not job.files and not self._warehouse.files.exists(job.location):
            raise UsageError(f"{job.location} does not exist")

    # -- conversion of what differs

    def _convert(self, jobs: Sequence[PartitionJob], pair: Pair) -> None:
        """Convert ``jobs`` together; if that fails, each half, until a failing job is alone."""
        assert pair.base is not None
        self._batches += 1
        name = f"{self._folder}-{self._batches}"
        folder, place = f"{pair.base}/{name}", f"{pair.base}/{NOTES}/{name}.json"
        note = note_of(jobs, folder, now=self._now(pair.base))
        self._warehouse.files.write_text(place, note.text())
        self._tell("noted")
        try:
            written = self._warehouse.write(
                self._from,
                jobs,
                folder,
                keys=pair.keys,
                columns=pair.columns,
                file_format=pair.file_format,
            )
        except SourceError as error:
            if len(jobs) > 1:
                half = len(jobs) // 2
                self._convert(jobs[:half], pair)
                self._convert(jobs[half:], pair)
                return
            why = str(error)
            self._refused[jobs[0].name] = jobs[0].version, why, time.monotonic() + REFUSED_S
            self._report.quarantined[jobs[0].name] = why
            return
        self._tell("written")
        same = self._still_same(jobs, pair)
        changed = {job.name for job in jobs} - {job.name for job in same}
        self._overtaken += len(changed)
        self._report.quarantined |= dict.fromkeys(changed, OVERTAKEN)
        self._change(same, folder, pair)
        self._report.rows += written.rows
        if written.rejected:
            self._report.rows_rejected += written.rejected
            self._report.rejected_in.append(f"{folder}/{REJECTED}")
        self._note_done(same)
        for job in same:
            self._compared[job.name] = job.seen, pair.table.version, job.version
        self._tell("done")

    def _still_same(self, jobs: Sequence[PartitionJob], pair: Pair) -> list[PartitionJob]:
        """Return the jobs whose files have not changed since; none if the columns have."""
        if self._warehouse.columns(self._from) != (*pair.data, *pair.keys):
            return []
        listed = self._warehouse.files.list([job.location for job in jobs])
        both = zip(jobs, listed, strict=True)
        return [job for job, files in both if version_of(job.location, files) == job.version]

    def _change(self, jobs: Sequence[PartitionJob], folder: str, pair: Pair) -> None:
        """Change the metastore, so that readers see the new files, while the lease is ours."""
        assert pair.base is not None
        places = [location_of(job, folder) for job in jobs]
        self._warehouse.files.make_empty_folders(folder, places)
        now = self._now(pair.base)
        changes = [change_of(job, folder, now=now) for job in jobs]
        perform = self._warehouse.prepared(self._to, changes, keys=pair.keys)
        self._tell("ready")
        self._lease.check()
        perform()
        self._tell("changed")
        self._lease.check()
        newest = max((file.changed_ms for job in jobs for file in job.files), default=None)
        self._lag_s = None if newest is None else max(0.0, self._now(pair.base) - newest / 1000)

    def _note_done(self, jobs: Sequence[PartitionJob]) -> None:
        self._report.created += [job.name for job in jobs if not job.old]
        self._report.replaced += [job.name for job in jobs if job.old]

    def _clean(self, pair: Pair) -> None:
        """Delete old folders that were replaced, or that an interrupted run has left."""
        if pair.base is None or self._options.dry_run or self._options.where is not None:
            return  # with a condition, not all partitions of the copy are known
        files = self._warehouse.files
        texts = files.texts_in(f"{pair.base}/{NOTES}").items()
        notes = {place: note for place, text in texts if (note := read_note(text)) is not None}
        if not notes:
            return
        before = self._now(pair.base) - self._options.keep_s
        due = {at: note for at, note in notes.items() if is_due(note, pair.copies, before=before)}
        for location in sorted({it for note in due.values() for it in unneeded(note, pair.copies)}):
            folder, _, part = location.rpartition("/")
            files.delete(location)
            files.delete(f"{folder}/{REJECTED}/{part}")
            files.delete_if_empty(f"{folder}/{REJECTED}")
            files.delete_if_empty(folder)
            self._report.folders_deleted += 1
        for place in due:
            files.delete(place)

    def _now(self, base: str) -> float:
        """Return the time by the clock of the copy's file system, in seconds since 1970.

        Every run uses that clock, so that none deletes replaced files too early because the clock
        of its machine is ahead.
        """
        if self._skew_s is None:
            touched_s = self._warehouse.files.touch(f"{base}/{NOTES}/{CLOCK}")
            self._skew_s = touched_s - time.time()
        return time.time() + self._skew_s

    def _tell(self, step: str) -> None:
        report = self._report
        worked_s = max(time.monotonic() - self._begun - self._waited_s, 0.001)
        detail = f"{report.rows / worked_s:.0f} rows/s"
        if self._lag_s is not None:
            detail += f", {self._lag_s:.1f} s behind the files"
        left, failing = self._left, len(report.quarantined)
        at = RunProgress(
            step=step, done=report.converted, left=left, failing=failing, detail=detail
        )
        self._on_progress(at)

    def _ended(self) -> ConvertReport:
        self._report.seconds = round(time.monotonic() - self._begun, 3)
        return self._report


def _state(one: Partition, pair: Pair) -> tuple[int, int, str]:
    """Return what shows, without a look at files, whether a partition has to be compared again.

    That is its version, the table's version, and the version of the files that its copy has.
    """
    copy = pair.copies.get(one.name)
    made_of = "" if copy is None else copy.parameters.get(VERSION, "")
    return one.version, pair.table.version, made_of
