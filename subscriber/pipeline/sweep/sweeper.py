"""Sweeper: compares the files of tables with what catalogd knows, and reports what changed.

    tables ──batches of partitions──▶ listed ──compared with what catalogd knows──▶ Sweep
                                                  └─changed, and nobody said so──▶ a data change

A batch is kept by catalogd before the next one is listed. So a run that is killed has lost its last
batch, and a run after it finds what is known, and reports no change twice.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyspark.sql import SparkSession

from ....topics.errors import NoSuchObject, SourceError, StaleMetadata
from ....topics.objects.names import partition_keys, partition_values
from ....topics.objects.tables import Table
from ....topics.wire.messages import FileFacts
from ...client.subscriber import Subscriber
from ..progress import OnProgress, Progress, ignore
from .facts import facts_of, is_first_change, is_unexplained, lacks_files
from .known import Known, KnownInOrder
from .listing import MISSING, Folder, Lister
from .report import FilesReport
from .strays import folders_above, strays

BATCH_MAX: Final = 500  # partitions that are listed and compared together
TRIES_MAX: Final = 3  # of a batch, while another sweep changes its table at the same time
STEP: Final = "list files"
VIEW: Final = "VIRTUAL_VIEW"

OnChange: TypeAlias = Callable[[str], None]
"""What is called with ``db.table/partition`` after its change was reported, or it was added."""


def ignore_change(_name: str) -> None:
    """Take the name of what has changed and show it nowhere."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What was found of a partition; ``facts`` None: its folder cannot be read."""

    folder: Folder
    facts: FileFacts | None


class _Overtaken(StaleMetadata):
    """Another sweep of the table has come in between; it is at ``revision`` now."""

    def __init__(self, name: str, revision: int) -> None:
        super().__init__(f"{name} is swept by another run at the same time: run it again")
        self.revision = revision


class Sweeper:
    """Sweeps tables, batch by batch, into a report. For one thread."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: Subscriber,
        *,
        known: Known,
        lister: Lister,
        report: FilesReport,
        small_bytes: int,
        add_partitions: bool = False,
        batch_max: int = BATCH_MAX,
        on_progress: OnProgress = ignore,
        on_change: OnChange = ignore_change,
    ) -> None:
        """``batch_max``: partitions, or folders above them, that are listed together."""
        self._spark = spark
        self._catalog = catalog
        self._known = known
        self._lister = lister
        self._report = report
        self._small_bytes = small_bytes
        self._add_partitions = add_partitions
        self._batch_max = batch_max
        self._on_progress = on_progress
        self._on_change = on_change
        self._done = self._left = 0  # tables
        self._began = time.monotonic()

    def predict(self, names: Sequence[str]) -> None:
        """Count the requests that ``steps`` makes."""
        for name in names:
            try:
                table = self._catalog.table(name)
                if not has_files(table):
                    continue
                partitions = self._catalog.partition_names(name) if table.partition_keys else ("",)
            except (NoSuchObject, SourceError):
                continue
            self._report.tables += 1
            self._count_planned(table, partitions)

    def steps(self, names: Sequence[str]) -> Iterator[None]:
        """Sweep the tables ``names``, a batch of partitions or folders for each step.

        What cannot be read is noted, and the others are swept.
        """
        self._done, self._left = 0, len(names)
        for name in names:
            try:
                table = self._catalog.table(name)
                if has_files(table):
                    self._report.tables += 1
                    yield from self._table(name, table)
            except NoSuchObject:
                pass  # dropped meanwhile: it has no files any more
            except SourceError as error:
                self._report.note_unreadable(name, str(error))
            self._done, self._left = self._done + 1, self._left - 1
            self._show()

    def some(self, name: str, partitions: Sequence[str]) -> dict[str, Listed]:
        """Sweep some sorted ``partitions`` of a table; return what was found of each.

        The report counts what has changed, and not what they hold.

        Raises:
            NoSuchObject, SourceError, LinkError: as ``Subscriber.table``.
        """
        table = self._catalog.table(name)
        found: dict[str, Listed] = {}
        for at in range(0, len(partitions), self._batch_max):
            batch = partitions[at : at + self._batch_max]
            before_first = batch[0][:-1] if batch[0] else None  # what sorts before it
            known = KnownInOrder(self._known, name, behind=before_first)
            found |= self._batch(name, table, batch, known=known, last=batch[-1], only=True)
        return found

    def strays(self, name: str) -> None:
        """Look for folders of a table that are no partitions, and add them if that is wanted.

        Raises:
            NoSuchObject, SourceError, LinkError: as ``Subscriber.table``.
        """
        partitions = self._catalog.partition_names(name)
        for _ in self._strays(name, self._catalog.table(name), partitions):
            pass

    def _table(self, name: str, table: Table) -> Iterator[None]:
        partitions = sorted(self._catalog.partition_names(name)) if table.partition_keys else [""]
        self._count_planned(table, partitions)
        known = KnownInOrder(self._known, name)
        for at in range(0, max(len(partitions), 1), self._batch_max):
            batch = partitions[at : at + self._batch_max]
            last = batch[-1] if at + self._batch_max < len(partitions) else None
            listed = self._batch(name, table, batch, known=known, last=last)
            for partition, one in listed.items():
                self._count(_full(name, partition), one)
            self._show()
            yield
        for _ in self._strays(name, table, partitions):
            self._show()
            yield

    def _strays(self, name: str, table: Table, partitions: Sequence[str]) -> Iterator[None]:
        depth = len(table.partition_keys)
        if not depth or not table.location:
            return
        known, adds = set(partitions), self._add_partitions
        for found in strays(
            self._lister, table.location, depth, known=known, batch_max=self._batch_max
        ):
            for folder, partition in found:
                if not (adds and partition):
                    self._report.note_no_partition(folder)
            if adds:
                self._add(name, {one: folder for folder, one in found if one})
            yield

    def _batch(
        self,
        name: str,
        table: Table,
        batch: Sequence[str],
        *,
        known: KnownInOrder,
        last: str | None,
        only: bool = False,
    ) -> dict[str, Listed]:
        """List, compare and report the next batch of ``known``; return what was found.

        ``last``: where its range ends, None: with the table. ``only``: what is known of other
        partitions in the range is left as it is; else these are gone.
        """
        for left in reversed(range(TRIES_MAX)):
            listed = self._listed(name, table, batch)
            before = known.up_to(last)
            if only:
                before = {one: before[one] for one in batch if one in before}
            try:
                known.revision = self._compare(name, listed, before=before, revision=known.revision)
                break
            except _Overtaken as overtaken:
                if not left:
                    raise
                known.go_back(overtaken.revision)
        return listed

    def _listed(self, name: str, table: Table, batch: Sequence[str]) -> dict[str, Listed]:
        """Return what is in the folders of each partition of ``batch`` that exists."""
        folders = self._locations(name, table, batch)
        found = {}
        for one, folder in zip(folders, self._lister.files(list(folders.values())), strict=True):
            facts = None
            if folder.problem in ("", MISSING):
                facts = facts_of(one, folder.entries, small_bytes=self._small_bytes)
            found[one] = Listed(folder, facts)
        return found

    def _compare(
        self,
        name: str,
        listed: Mapping[str, Listed],
        *,
        before: Mapping[str, FileFacts],
        revision: int,
    ) -> int:
        """Report what of ``listed`` differs from ``before``; return the revision after it."""
        removed = [one for one in before if one not in listed]
        differing = {
            partition: one.facts
            for partition, one in listed.items()
            if one.facts is not None and before.get(partition) != one.facts
        }
        if not differing and not removed:
            return revision
        folders = {one: listed[one].folder.path for one in differing}
        changed = self._changed(name, differing, before=before, folders=folders)
        facts = list(differing.values())
        swept = self._known.send(name, revision, facts, changed=changed, removed=removed)
        if not swept.kept:
            raise _Overtaken(name, swept.revision)
        for partition in changed:
            self._report.note_changed(_full(name, partition))
            self._on_change(_full(name, partition))
        return swept.revision

    def _locations(self, name: str, table: Table, batch: Sequence[str]) -> dict[str, str]:
        """Return where the files of each partition of ``batch`` are; those that are gone are not.

        A table without partitions has one of an empty name.
        """
        if not table.partition_keys:
            return {"": table.location}
        found = self._catalog.partitions(name, names=batch) if batch else ()
        return {one.name: one.location for one in found if one.location}

    def _changed(
        self,
        name: str,
        found: Mapping[str, FileFacts],
        *,
        before: Mapping[str, FileFacts],
        folders: Mapping[str, str],
    ) -> dict[str, bool]:
        """Return what has changed without that readers were notified; and if files may be gone."""
        changed: dict[str, bool] = {}
        first = {one: facts for one, facts in found.items() if one not in before}
        if first:
            noticed_ms = self._known.noticed_ms(name, loads=True)
            new = (
                one for one, fact in first.items() if is_first_change(fact, noticed_ms=noticed_ms)
            )
            changed |= dict.fromkeys(new, True)
        again = [one for one in found if one in before]
        if again:
            noticed_ms = self._known.noticed_ms(name, loads=False)
            times = self._lister.modified_ms([folders[one] for one in again])
            for one, folder_ms in zip(again, times, strict=True):
                old, new_facts = before[one], found[one]
                if is_unexplained(old, new_facts, folder_ms=folder_ms, noticed_ms=noticed_ms):
                    changed[one] = lacks_files(old, new_facts)
        return changed

    def _add(self, name: str, folders: Mapping[str, str]) -> None:
        """Add partitions to the metastore, each at its folder; report each once.

        A watch may find a folder again before the catalog has its partition.
        """
        db, table = name.split(".")
        specs = [
            f"PARTITION ({_spec(partition)}) LOCATION '{_quoted(folder)}'"
            for partition, folder in folders.items()
        ]
        for at in range(0, len(specs), BATCH_MAX):
            some = " ".join(specs[at : at + BATCH_MAX])
            self._spark.sql(f"ALTER TABLE `{db}`.`{table}` ADD IF NOT EXISTS {some}")
        reported = set(self._report.added)
        added = [one for one in (_full(name, key) for key in folders) if one not in reported]
        self._report.added += added
        for one in added:
            self._on_change(one)

    def _count_planned(self, table: Table, partitions: Sequence[str]) -> None:
        """Add ``partitions`` to the report, and the requests that they and their folders take."""
        report = self._report
        report.requests_predicted += len(partitions)
        if table.partition_keys:
            report.partitions += len(partitions)
            report.requests_predicted += folders_above(partitions) if table.location else 0

    def _count(self, name: str, listed: Listed) -> None:
        """Add what is in the folders of a partition to the report."""
        report, folder, one = self._report, listed.folder, listed.facts
        if one is None:
            report.note_unreadable(name, f"{folder.path}: {folder.problem}")
            return
        if folder.problem:
            report.note_missing(name)
        report.files += one.files
        report.bytes += one.bytes
        report.small += one.small
        report.newest_ms = max(report.newest_ms, one.newest_ms)

    def _show(self) -> None:
        self._report.requests = self._lister.requests
        rate = self._report.files / max(time.monotonic() - self._began, 1e-3)
        self._on_progress(
            Progress(
                step=STEP,
                done=self._done,
                left=self._left,
                failing=self._report.unreadable_count,
                detail=f"{self._report.files} files, {rate:.0f}/s",
            )
        )


def has_files(table: Table) -> bool:
    """Return whether ``table`` is one that has folders, as a view has not."""
    return table.type != VIEW and bool(table.location or table.partition_keys)


def _full(name: str, partition: str) -> str:
    return f"{name}/{partition}" if partition else name


def _spec(partition: str) -> str:
    """Return a partition's name as SQL has it: ``ds=1`` is `ds`='1'."""
    pairs = zip(partition_keys(partition), partition_values(partition), strict=True)
    return ", ".join(f"`{key}`='{_quoted(value)}'" for key, value in pairs)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
