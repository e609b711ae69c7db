"""Sweeper: compares the files of tables with catalogd's facts, and reports changes.

    tables ──batches of partitions──▶ listed ──compared with catalogd's facts──▶ Sweep
                                                  └─changed, and readers not notified──▶ data change

catalogd stores a batch before the next batch is listed. So a run that is killed loses only its last
batch, and the next run continues from the stored facts and reports no change twice.
"""

import contextlib
import time
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from ...subscriber.client.subscriber import Subscriber
from ...topics.errors import NoSuchObject, SourceError, StaleMetadata
from ...topics.objects.names import partition_keys, partition_values
from ...topics.objects.tables import VIEW, Table
from ...topics.wire.messages.reports import FileFacts
from ..conversion.jvm import answered
from ..conversion.plan import FOLDER as RUN_FOLDER
from ..conversion.plan import SOURCE
from ..progress import OnProgress, RunProgress, ignore
from .facts import facts_of, is_first_change, is_unexplained, lacks_files
from .known import PAGES_AHEAD, KnownFiles, KnownInOrder
from .listing import MISSING, ListedFolder, Lister
from .plan import AGAIN_MS, NAMED_ONLY, Point, SweepPlan
from .report import FilesReport
from .times import GRAIN_S
from .unknown_folders import as_written, folders_above, unknown_folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_MAX: Final = 500  # partitions that are listed and compared together
RANGE_MAX: Final = 10_000  # partitions from which a batch is chosen: their facts take 5 MB
TRIES_MAX: Final = 3  # of a batch, if another sweep of its table is faster
STEP: Final = "list files"

NOTHING: Final[Mapping[str, FileFacts]] = MappingProxyType({})

OnChange: TypeAlias = Callable[[str], None]
"""The function that is called with ``db.table/partition`` once that was reported or added."""


def ignore_change(_name: str) -> None:
    """Do nothing about a change."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The files that were found of a partition; ``facts`` None: its folder cannot be read."""

    folder: ListedFolder
    facts: FileFacts | None


@dataclass(slots=True)
class _SeenTimes:
    """When the folders of partitions last changed, as the listing of the folders above shows."""

    at_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    by_partition: dict[str, int] = field(default_factory=dict)

    def final_ms(self, partition: str) -> int:
        """Return the time of a folder if no later change can have the same time; else 0."""
        time_ms = self.by_partition.get(partition, 0)
        return time_ms if time_ms < self.at_ms - GRAIN_S * 1000 else 0


@dataclass(frozen=True, slots=True)
class _SweepTarget:
    """A table that is swept; ``plan`` None: the given partitions are listed in any case."""

    name: str
    table: Table
    plan: SweepPlan | None = None
    seen: _SeenTimes = field(default_factory=_SeenTimes)


@dataclass(slots=True)
class _PartitionBatch:
    """Partitions that are listed together, from a range of a table's sorted partitions."""

    due: list[str] = field(default_factory=list)
    before: dict[str, FileFacts] = field(default_factory=dict)
    """The known facts of the ``due`` partitions, and of partitions in the range that are gone."""
    others: dict[str, FileFacts] = field(default_factory=dict)
    """The known facts of the rest of the range."""
    size: int = 0  # of the range, in partitions
    until: str | None = None  # the last of the range; None: it ends with the table

    def known(self, partition: str) -> FileFacts | None:
        """Return the known facts of a partition; None: there are none."""
        return self.before.get(partition) or self.others.get(partition)


class _Overtaken(StaleMetadata):
    """Another sweep has changed the facts of the table, which are at ``revision`` now.

    ``unanswered``: changes that were sent twice; catalogd may have kept the first message.
    """

    def __init__(
        self, name: str, revision: int, unanswered: Mapping[str, FileFacts] = NOTHING
    ) -> None:
        super().__init__(f"{name} is swept by another run at the same time: run it again")
        self.revision = revision
        self.unanswered = unanswered


class Sweeper:
    """Sweeps tables, batch by batch, into a report. For one thread."""

    def __init__(
        self,
        spark: "SparkSession",
        catalog: Subscriber,
        *,
        known: KnownFiles,
        lister: Lister,
        report: FilesReport,
        small_bytes: int,
        add_partitions: bool = False,
        batch_max: int = BATCH_MAX,
        on_progress: OnProgress = ignore,
        on_change: OnChange = ignore_change,
    ) -> None:
        """``batch_max``: how many partitions, or folders above them, are listed together."""
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

    def predict(self, names: Sequence[str], plan: SweepPlan) -> None:
        """Count the LIST requests that ``steps`` will make.

        It does not count the folders that ``steps`` lists because their times have changed.
        """
        for name in names:
            try:
                table = self._catalog.table(name)
                if not has_files(table):
                    continue
                partitions = self._names(name, table)
            except (NoSuchObject, SourceError):
                continue
            self._report.tables += 1
            self._count_planned(table, partitions)
            known, target = KnownInOrder(self._known, name), _SweepTarget(name, table, plan)
            for at in range(0, len(partitions), self._batch_max):
                batch = partitions[at : at + self._batch_max]
                before = known.of(batch, facts_max=self._batch_max)
                self._report.requests_predicted += len(self._due_anyhow(target, batch, before))

    def steps(self, names: Sequence[str], plan: SweepPlan) -> Iterator[None]:
        """Sweep the tables ``names``, a batch of partitions or folders for each step.

        A table that cannot be read is noted, and the others are swept.
        """
        self._done, self._left = 0, len(names)
        for name in names:
            try:
                table = self._catalog.table(name)
                if has_files(table):
                    self._report.tables += 1
                    yield from self._table(_SweepTarget(name, table, plan))
            except NoSuchObject:
                pass  # it was dropped meanwhile, and has no files any more
            except SourceError as error:
                self._report.note_unreadable(name, str(error))
                self._discard_mark(name, plan)
            self._done, self._left = self._done + 1, self._left - 1
            self._show()

    def some(self, name: str, partitions: Sequence[str]) -> dict[str, Listed]:
        """Sweep some sorted ``partitions`` of a table; return the files that were found of each.

        The report counts the changes, but not the files.

        Raises:
            NoSuchObject, SourceError, LinkError: as ``Subscriber.table``.
        """
        table = self._catalog.table(name)
        found: dict[str, Listed] = {}
        for at in range(0, len(partitions), self._batch_max):
            batch = partitions[at : at + self._batch_max]
            before_first = batch[0][:-1] if batch[0] else None  # a name that sorts before the first
            known = KnownInOrder(self._known, name, behind=before_first)
            found |= self._batch(_SweepTarget(name, table), batch, known=known)[1]
        return found

    def look_for_folders(self, name: str) -> None:
        """Report folders of a table that are not partitions, or add partitions for them.

        Raises:
            NoSuchObject, SourceError, LinkError: as ``Subscriber.table``.
        """
        partitions = self._catalog.partition_names(name)
        for _ in self._unknown_folders(_SweepTarget(name, self._catalog.table(name)), partitions):
            pass

    def mark(self, names: Sequence[str], plan: SweepPlan) -> None:
        """Have catalogd mark the tables, so that this run or a later run lists them whole."""
        for name in names:
            try:
                if has_files(self._catalog.table(name)):
                    self._mark(name, plan, whole=True)
            except (NoSuchObject, SourceError):
                continue  # the sweep will report the problem

    def _mark(self, name: str, plan: SweepPlan, *, whole: bool) -> None:
        revision = plan.swept(name).revision
        for _ in range(TRIES_MAX):
            point = Point(plan.as_of, whole=whole)
            swept = self._known.send(name, revision, (), changed={}, removed=(), point=point)
            if swept.kept:
                return
            revision = swept.revision
        raise _Overtaken(name, revision)

    def _discard_mark(self, name: str, plan: SweepPlan) -> None:
        """Remove the mark of a table that cannot be read, so that no later run continues it."""
        if plan.is_whole(name) and plan.as_of:
            with contextlib.suppress(NoSuchObject, StaleMetadata):
                self._mark(name, plan, whole=False)

    def _names(self, name: str, table: Table) -> list[str]:
        return sorted(self._catalog.partition_names(name)) if table.partition_keys else [""]

    def _table(self, target: _SweepTarget) -> Iterator[None]:
        name, table = target.name, target.table
        known = KnownInOrder(self._known, name, pages_ahead=PAGES_AHEAD)
        partitions = self._names(name, table)
        self._count_planned(table, partitions)
        for _ in self._unknown_folders(target, partitions):
            self._show()
            yield
        if not self._lister.is_timed(table.data_location):
            target.seen.by_partition.clear()
        at, last = 0, False
        while not last:
            batch, listed = self._batch(target, partitions, at, known=known)
            at, last = at + batch.size, batch.until is None
            for partition, one in listed.items():
                self._count(_full(name, partition), one)
            self._show()
            yield

    def _unknown_folders(self, target: _SweepTarget, partitions: Sequence[str]) -> Iterator[None]:
        name, table = target.name, target.table
        if not table.partition_keys or not table.data_location:
            return
        known, adds = set(partitions), self._add_partitions
        is_copy = SOURCE in table.parameters
        for found in unknown_folders(
            self._lister,
            table.data_location,
            table.partition_columns,
            known=known,
            batch_max=self._batch_max,
            times=target.seen.by_partition,
        ):
            for folder, partition in found:
                if is_copy and folder.rpartition("/")[2].startswith(RUN_FOLDER):
                    continue  # a run of convert has its partitions there
                if not (adds and partition):
                    self._report.note_no_partition(folder)
            if adds:
                self._add(name, {one: folder for folder, one in found if one})
            yield

    def _batch(
        self, target: _SweepTarget, partitions: Sequence[str], at: int = 0, *, known: KnownInOrder
    ) -> tuple[_PartitionBatch, dict[str, Listed]]:
        """List, compare and report the next batch of ``known``; return it and the files found.

        ``at``: the index in ``partitions`` at which the batch begins.
        """
        name, plan = target.name, target.plan
        unanswered = NOTHING
        for left in reversed(range(TRIES_MAX)):
            batch = self._chosen(target, partitions, at, known=known)
            kept = [one for one, facts in unanswered.items() if batch.known(one) == facts]
            self._note_changed(name, kept)
            point, last = NAMED_ONLY, batch.until
            if plan is not None and (last is None or batch.due):
                as_of = plan.as_of if last is None else plan.point_after(name, last)
                whole = plan.is_whole(name)
                point = Point(as_of, until=last or "", last=last is None, whole=whole)
            listed = self._listed(target, batch.due)
            try:
                known.revision = self._compare(
                    name,
                    listed,
                    before=batch.before,
                    revision=known.revision,
                    plan=plan,
                    point=point,
                )
                break
            except _Overtaken as overtaken:
                if not left:
                    raise
                known.go_back(overtaken.revision)
                unanswered = overtaken.unanswered
        for one in batch.others.values():
            self._report.count(one)
        return batch, listed

    def _chosen(
        self, target: _SweepTarget, partitions: Sequence[str], at: int, *, known: KnownInOrder
    ) -> _PartitionBatch:
        """Return the next batch, with a plan from as many partitions as it takes to fill it.

        Without a plan the batch is all of ``partitions``.
        """
        known.begin()
        if target.plan is None:
            before = known.of(partitions, facts_max=self._batch_max)
            return _PartitionBatch(list(partitions), before, until=partitions[-1])
        batch, left = _PartitionBatch(), len(partitions) - at
        while True:
            begin = at + batch.size
            some = partitions[begin : begin + self._batch_max - len(batch.due)]
            last = some[-1] if batch.size + len(some) < left else None
            facts, batch.until = known.up_to(last, facts_max=self._batch_max)
            if batch.until is not None:  # it is before ``last`` if many partitions are gone
                some = some[: bisect(some, batch.until)]
            batch.size += len(some)
            due = self._due(target, some, before=facts)
            batch.others |= {one: facts.pop(one) for one in set(some).difference(due)}
            batch.due += due
            batch.before |= facts
            full = len(batch.due) + len(batch.before) >= self._batch_max
            if full or batch.size >= RANGE_MAX or batch.until is None:
                return batch

    def _due_anyhow(
        self, target: _SweepTarget, batch: Sequence[str], before: Mapping[str, FileFacts]
    ) -> set[str]:
        """Return the partitions of ``batch`` that are listed whatever the times of folders are."""
        table, plan = target.table, target.plan
        of_folder = not table.partition_keys and self._lister.is_timed(table.data_location)
        if plan is None or of_folder:
            return set(batch)
        return set(plan.due(target.name, batch, before))

    def _due(
        self, target: _SweepTarget, batch: Sequence[str], *, before: Mapping[str, FileFacts]
    ) -> list[str]:
        """Return the partitions of ``batch`` to list; predict the requests that are sure."""
        due = self._due_anyhow(target, batch, before)
        self._report.requests_predicted += len(due)
        unseen = []
        for one in batch:
            if one not in due:
                time_ms = target.seen.by_partition.get(one)
                if time_ms is None:
                    unseen.append(one)
                elif time_ms != before[one].folder_ms:
                    due.add(one)
        if unseen and target.table.partition_keys:
            where = self._locations(target.name, target.table, unseen)
            due.update(one for one in unseen if self._lister.is_timed(where.get(one, "")))
        return [one for one in batch if one in due]

    def _listed(self, target: _SweepTarget, batch: Sequence[str]) -> dict[str, Listed]:
        """Return the files of each partition of ``batch`` that exists."""
        folders = self._locations(target.name, target.table, batch)
        found = {}
        for one, folder in zip(folders, self._lister.files(list(folders.values())), strict=True):
            facts = None
            if folder.problem in ("", MISSING):
                facts = facts_of(one, folder.entries, small_bytes=self._small_bytes)
                if one and _is_inside(folder.path, one, target.table):
                    facts = replace(facts, folder_ms=target.seen.final_ms(one))
            found[one] = Listed(folder, facts)
        return found

    def _compare(
        self,
        name: str,
        listed: Mapping[str, Listed],
        *,
        before: Mapping[str, FileFacts],
        revision: int,
        plan: SweepPlan | None,
        point: Point,
    ) -> int:
        """Send catalogd the facts that differ from ``before``; return the new revision."""
        removed = [one for one in before if one not in listed]
        differing = {
            partition: one.facts
            for partition, one in listed.items()
            if one.facts is not None and before.get(partition) != one.facts
        }
        differing |= {
            partition: replace(before[partition], folder_ms=AGAIN_MS)
            for partition, one in listed.items()
            if one.facts is None and partition in before
        }
        if not differing and not removed and not point.as_of:
            return revision
        folders = {one: listed[one].folder.path for one in differing}
        changed = self._changed(name, differing, before=before, folders=folders, plan=plan)
        facts = list(differing.values())
        swept = self._known.send(
            name,
            revision,
            facts,
            changed=changed,
            removed=removed,
            point=point,
        )
        if not swept.kept:
            sent = {one: differing[one] for one in changed} if self._known.was_repeated else {}
            raise _Overtaken(name, swept.revision, sent)
        self._note_changed(name, changed)
        return swept.revision

    def _note_changed(self, name: str, partitions: Iterable[str]) -> None:
        """Note changes of a table that catalogd has kept, and notify the caller."""
        for partition in partitions:
            self._report.note_changed(_full(name, partition))
            self._on_change(_full(name, partition))

    def _locations(self, name: str, table: Table, batch: Sequence[str]) -> dict[str, str]:
        """Return the folders of the partitions of ``batch``, without dropped partitions.

        A table without partitions has one folder, under an empty name.
        """
        if not table.partition_keys:
            return {"": table.data_location}
        found = self._catalog.partitions(name, names=batch) if batch else ()
        return {one.name: one.location for one in found if one.location}

    def _changed(
        self,
        name: str,
        found: Mapping[str, FileFacts],
        *,
        before: Mapping[str, FileFacts],
        folders: Mapping[str, str],
        plan: SweepPlan | None,
    ) -> dict[str, bool]:
        """Return the partitions that have changed although readers were not notified.

        The value of each says whether a file of it may be gone.
        """
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
                swept_ms = 0 if plan is None else plan.swept_ms(name, one)
                if is_unexplained(
                    old, new_facts, folder_ms=folder_ms, noticed_ms=noticed_ms, swept_ms=swept_ms
                ):
                    changed[one] = lacks_files(old, new_facts)
        return changed

    def _add(self, name: str, folders: Mapping[str, str]) -> None:
        """Add partitions to the metastore, each at its folder; report each once.

        A watch may find a folder again before the subscriber has its partition.
        """
        reported = set(self._report.added)
        for at in range(0, len(folders), BATCH_MAX):
            for partition in self._added(name, list(folders.items())[at : at + BATCH_MAX]):
                one = _full(name, partition)
                if one not in reported:
                    self._report.added.append(one)
                    self._on_change(one)

    def _added(self, name: str, some: Sequence[tuple[str, str]]) -> list[str]:
        """Add partitions, each with its folder; return those that the metastore has now."""
        db, table = name.split(".")
        specs = (f"PARTITION ({_spec(one)}) LOCATION '{_quoted(folder)}'" for one, folder in some)
        try:
            with answered("it cannot be added"):
                self._spark.sql(f"ALTER TABLE `{db}`.`{table}` ADD IF NOT EXISTS {' '.join(specs)}")
        except SourceError as error:
            if len(some) == 1:
                self._report.note_unreadable(some[0][1], str(error))
                return []
            half = len(some) // 2
            return self._added(name, some[:half]) + self._added(name, some[half:])
        return [partition for partition, _ in some]

    def _count_planned(self, table: Table, partitions: Sequence[str]) -> None:
        """Add ``partitions`` to the report, and the requests for the folders above them."""
        report = self._report
        if table.partition_keys:
            report.partitions += len(partitions)
            report.requests_predicted += folders_above(partitions) if table.data_location else 0

    def _count(self, name: str, listed: Listed) -> None:
        """Add the files of a partition to the report."""
        report, folder, one = self._report, listed.folder, listed.facts
        report.listed += 1
        if one is None:
            report.note_unreadable(name, f"{folder.path}: {folder.problem}")
            return
        if folder.problem:
            report.note_missing(name)
        report.count(one)

    def _show(self) -> None:
        self._report.requests = self._lister.requests
        rate = self._report.files / max(time.monotonic() - self._began, 1e-3)
        self._on_progress(
            RunProgress(
                step=STEP,
                done=self._done,
                left=self._left,
                failing=self._report.unreadable_count,
                detail=f"{self._report.files} files, {rate:.0f}/s",
            )
        )


def has_files(table: Table) -> bool:
    """Return whether ``table`` has folders; a view has none."""
    return table.type != VIEW and bool(table.data_location or table.partition_keys)


def _is_inside(path: str, partition: str, table: Table) -> bool:
    """Return whether listing the folders above shows the folder ``path`` of ``partition``."""
    above = table.data_location.rstrip("/")
    inside, columns = path[len(above) + 1 :], table.partition_columns
    return path.startswith(f"{above}/") and as_written(inside, columns) == partition


def _full(name: str, partition: str) -> str:
    return f"{name}/{partition}" if partition else name


def _spec(partition: str) -> str:
    """Return a partition's name as SQL has it: `ds`='1' for ``ds=1``."""
    pairs = zip(partition_keys(partition), partition_values(partition), strict=True)
    return ", ".join(f"`{key}`='{_quoted(value)}'" for key, value in pairs)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
