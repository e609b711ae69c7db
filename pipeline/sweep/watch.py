"""FileWatch: sweeps a partition whose folder got or lost an entry, and all tables in between.

    times of folders ──changed──▶ its partition ─┐
    changes of the catalog ──▶ which folders     ├──▶ Sweeper
    sweep of all tables, paced ──▶ the next batch┘

One thread does all of this, so that two sweeps of one table never run at the same time. The watch
holds the paths and times of the folders of all tables that match.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from ...subscriber.client.subscriber import Subscriber
from ...subscriber.engine.watch import Watch
from ...topics.errors import NoSuchObject, SourceError, StaleMetadata, TopicastError
from ...topics.objects.tables import Table
from ..progress import OnProgress, RunProgress
from .listing import Lister
from .plan import SweepPlan
from .report import FilesReport
from .sweeper import Sweeper, has_files
from .times import FolderTimes

STEP: Final = "watch files"
CHECK_S: Final = 0.2  # between two looks at the times of folders
CHECK_SHARE: Final = 2  # the pause before the next look is so many times as long as a look takes
BATCH_MAX: Final = 500  # partitions that are read from the catalog together
RETRY_S: Final = 5.0  # after a failure that may pass
ABOVE: Final = None  # in place of a partition: the folder is above partitions


class FileWatch:
    """Watches the files of tables until ``stop``. For one thread."""

    def __init__(
        self,
        catalog: Subscriber,
        pattern: str,
        *,
        names: Callable[[], Sequence[str]],
        lister: Lister,
        plan: Callable[[], SweepPlan],
        checker: Sweeper,
        report: FilesReport,
        sweep_every_s: float,
        stop: threading.Event,
        on_progress: OnProgress,
    ) -> None:
        """Watch nothing yet.

        Args:
            catalog: The subscriber that tables and partitions are read from.
            pattern: A pattern of the full names of tables, whose changes are followed.
            names: Returns the tables that match now.
            lister: Reads the times of folders, without a limit of requests.
            plan: Returns the plan of a sweep of all tables.
            checker: Sweeps partitions whose folder has changed.
            report: The report that both sweepers write.
            sweep_every_s: The time between the end of a sweep of all tables and the next sweep.
            stop: Ends the watch.
            on_progress: Is called after each look and each batch.
        """
        self._catalog = catalog
        self._pattern = pattern
        self._names = names
        self._lister = lister
        self._plan = plan
        self._checker = checker
        self._report = report
        self._sweep_every_s = sweep_every_s
        self._stop = stop
        self._on_progress = on_progress
        self._folders: dict[str, dict[str, str | None]] = {}
        """By table and path of a folder: its partition; ABOVE: the folder is above partitions."""
        self._unread: set[str] = set()  # tables whose folders are to be read, first or again
        self._times = FolderTimes()
        self._progress = RunProgress(step=STEP, done=0, left=0)
        self._problem = ""  # why the watch waits; empty: it does not

    def show(self, progress: RunProgress) -> None:
        """Show the progress of the sweep of all tables, and how many folders are watched."""
        report = self._report
        detail = (
            f"{report.folders_watched} folders watched, {report.changed_count} changed, "
            f"{report.requests} LIST requests"
        )
        if report.no_partition_count:
            detail = f"{detail}, {report.no_partition_count} folders are not partitions"
        if self._problem:
            detail = f"{detail}, waits: {self._problem}"
        self._progress = replace(progress, step=STEP, detail=detail)
        self._on_progress(self._progress)

    def run(self, sweeper: Sweeper, sweeping: Lister) -> None:
        """Watch; ``sweeper`` sweeps all tables with ``sweeping``, which may have a limit.

        Raises:
            TopicastError: a failure that does not pass by itself.
        """
        with closing(self._catalog.watch(self._pattern)) as changes:
            self._unread = set(self._names())
            self._read_folders()
            times = self._lister.times(self._paths())
            self._times.begin(times, at_s=time.monotonic(), now_ms=time.time_ns() // 1_000_000)
            while not self._stop.is_set():
                self._go_on(changes, self._sweeps(sweeper), sweeping)

    def _go_on(self, changes: Watch, sweeps: Iterator[bool], sweeping: Lister) -> None:
        """Look at the times of folders and sweep, in turns, until ``stop`` or a failure."""
        check_at = time.monotonic()
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                if began >= check_at:
                    self._check(changes)
                    took_s = time.monotonic() - began
                    check_at = time.monotonic() + max(CHECK_S, CHECK_SHARE * took_s)
                elif sweeping.wait_s or not next(sweeps):
                    self._stop.wait(check_at - began)
        except TopicastError as error:
            if not error.retriable:
                raise
            self._problem = str(error)
            self.show(self._progress)
            self._stop.wait(RETRY_S)

    def _sweeps(self, sweeper: Sweeper) -> Iterator[bool]:
        """Sweep all tables, again and again, a batch for each True; yield False while it rests."""
        while True:
            self._report.begin_sweep()
            for _ in sweeper.steps(self._names(), self._plan()):
                yield True
            self._report.sweeps += 1
            end = time.monotonic() + self._sweep_every_s
            while time.monotonic() < end:
                yield False

    def _check(self, changes: Watch) -> None:
        """Sweep the partitions whose folders have changed."""
        try:
            self._unread.update(one.object for one in changes.all_within(0) if "." in one.object)
        except StaleMetadata:
            self._unread.update(self._folders, self._names())
        if self._unread:
            self._read_folders()
        at_s = time.monotonic()
        times = self._lister.times(self._paths())
        self._report.folders_watched = len(times)
        due = self._times.due(times, at_s=at_s)
        self._problem = ""
        for name, folders in tuple(self._folders.items()):
            if not folders.keys().isdisjoint(due):
                self._sweep(name, due)
        self.show(self._progress)

    def _sweep(self, name: str, due: Iterable[str]) -> None:
        """Sweep the partitions of a table that are in the folders ``due``."""
        folders = self._folders[name]
        paths = [path for path in due if path in folders]
        found = {folders[path] for path in paths}
        began = time.monotonic()
        try:
            partitions = sorted(one for one in found if one is not None)
            if partitions:
                self._checker.some(name, partitions)
            if ABOVE in found:
                self._checker.look_for_folders(name)
        except NoSuchObject:
            return  # the watch of the catalog will bring its drop
        except SourceError as error:
            self._report.note_unreadable(name, str(error))
        self._times.listed(paths, at_s=began)

    def _read_folders(self) -> None:
        """Read the folders of the tables that have changed in the catalog."""
        while self._unread:
            name = next(iter(self._unread))
            try:
                table = self._catalog.table(name)
                found = self._folders_of(name, table) if has_files(table) else {}
            except (NoSuchObject, SourceError):
                found = {}  # the sweep of all tables will report the problem
            self._folders.pop(name, None)
            if found:
                self._folders[name] = found
            self._unread.discard(name)
        self._times.keep(self._paths())

    def _folders_of(self, name: str, table: Table) -> dict[str, str | None]:
        if not table.partition_keys:
            return {table.data_location: ""}
        found: dict[str, str | None] = {}
        if table.data_location:
            found[table.data_location] = ABOVE
        partitions = self._catalog.partition_names(name)
        for at in range(0, len(partitions), BATCH_MAX):
            for one in self._catalog.partitions(name, names=partitions[at : at + BATCH_MAX]):
                if one.location:
                    found[one.location] = one.name
                    found |= dict.fromkeys(_between(table.data_location, one.location), ABOVE)
        return found

    def _paths(self) -> Iterable[str]:
        return dict.fromkeys(path for folders in self._folders.values() for path in folders)


def _between(table: str, partition: str) -> Iterator[str]:
    """Yield the folders between the location of a table and the location of a partition in it."""
    above = partition.rpartition("/")[0]
    while table and above.startswith(f"{table}/"):
        yield above
        above = above.rpartition("/")[0]
