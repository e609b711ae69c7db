"""Metastores: compares the metastore with catalogd's store, object by object, in tasks of Spark.

    sync ──▶ a snapshot version of the store ──▶ both sides, table by table ──▶ what differs
      ▲                                                                  │ compared again
      └──────────────────────────────────────────────────────────────────┘

The catalog changes while it is compared. So a difference counts only if it is found again, with the
same state of the metastore, after catalogd has caught up with everything that was committed before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ...subscriber.client.subscriber import Subscriber
from ...topics.comparison import DATABASE, database_as_held
from ...topics.errors import LinkError, NoSuchObject, ObjectGone, SourceRefused
from ...topics.objects.names import TableId, table_name
from ...topics.policy import Policy
from ..datasource.options import SourceOptions
from ..datasource.planning import Piece, ReadPlanner, Work
from ..progress import OnProgress, RunProgress
from .selection import ObjectSelection
from .tables import ComparedTable, MakeMetastore, MetastoreReads, compare_tables
from .verdict import METASTORE, SideResult, TableVerdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SYNC_S: Final = 60.0
TABLES_OF_TASK: Final = 100
ROUNDS_MAX: Final = 5  # then a table that has changed in each round counts as not compared


class MetastoreSide:
    """Compares the metastore with catalogd's store: all objects, then those that differ again."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: Subscriber,
        here: MetastoreReads,
        *,
        make_metastore: MakeMetastore,
        planner: ReadPlanner,
        options: SourceOptions,
        left_out: Collection[str],
        policy: Policy | None,
    ) -> None:
        """``here``: connects this process to the metastore; ``make_metastore``: the tasks."""
        self.name = METASTORE
        self._spark = spark
        self._catalog = catalog
        self._here = here
        self._make_metastore = make_metastore
        self._planner = planner
        self._options = options
        self._left_out = frozenset(left_out)
        self._policy = policy

    def compare(self, wanted: ObjectSelection, on_progress: OnProgress) -> SideResult:
        """Compare the objects of ``wanted``; each difference was found twice.

        Raises:
            LinkError: catalogd does not answer, or a task ended early.
            SourceError: the metastore does not answer here, or does not list its tables.
        """
        databases = len(self._databases(wanted))
        on_progress(RunProgress(step="compare databases", done=0, left=databases))
        found = self._round(wanted)
        found.databases = databases
        open_, found.verdicts = {one.name: one for one in found.verdicts}, []
        for number in range(2, ROUNDS_MAX + 1):
            if not open_:
                break
            step = f"compare again, round {number}"
            on_progress(RunProgress(step=step, done=found.tables, left=len(open_)))
            some = replace(wanted, only=frozenset(open_))
            again = {one.name: one for one in self._round(some).verdicts}
            same = {name for name, one in again.items() if one.digest == open_[name].digest}
            found.verdicts += [again[name] for name in sorted(same)]
            open_ = {name: one for name, one in again.items() if name not in same}
        why = "it changed in each round: compare it again"
        found.unread |= dict.fromkeys(sorted(open_), why)
        return found

    def _round(self, wanted: ObjectSelection) -> SideResult:
        """Compare the objects of ``wanted`` once, as of now."""
        self._catalog.sync(timeout_s=SYNC_S)
        found = SideResult(side=self.name)
        work, targets = self._targets(wanted)
        if work is None:  # catalogd has no table of the pattern
            for one in targets:
                verdict = TableVerdict(table_name(*one.table))
                verdict.note_existence(verdict.name, there=True)
                found.add(verdict)
        else:
            self._compare_tables(work, targets, into=found)
        found.verdicts += filter(None, map(self._database, self._databases(wanted)))
        return found

    def _compare_tables(
        self, work: Work, targets: Sequence[ComparedTable], *, into: SideResult
    ) -> None:
        count = -(-len(targets) // TABLES_OF_TASK)
        # Large tables are often neighbours, so neighbours go to different tasks.
        tasks = [targets[number::count] for number in range(count)]
        if not tasks:
            return
        compare = partial(compare_tables, work=work, make_metastore=self._make_metastore)
        rows = self._spark.sparkContext.parallelize(tasks, len(tasks)).map(compare).collect()
        for found in rows:
            if isinstance(found, str):
                raise LinkError(f"the comparison has ended: {found}")
            into.tables += found.tables
            into.partitions += found.partitions
            into.not_loaded += found.not_loaded
            into.verdicts += found.verdicts

    def _targets(self, wanted: ObjectSelection) -> tuple[Work | None, list[ComparedTable]]:
        """Return the tables of either side, as of now, and how a task reads them from catalogd."""
        as_of = self._planner.snapshot_version()
        works = self._planner.works(replace(self._options, as_of=as_of), ())
        found: dict[TableId, ComparedTable] = {}
        for piece in (one for work in works for one in work.pieces if isinstance(one, Piece)):
            for table, incarnation in piece.tables.items():
                at = piece.keys
                found[table] = ComparedTable(table, at.topic, at.version, incarnation)
        for db in (db for db in self._listed() if wanted.has((db, ""))):
            for name in self._here.names(db):
                found.setdefault((db, name), ComparedTable((db, name)))
        targets = [one for table, one in sorted(found.items()) if wanted.has(table)]
        return (works[0] if works else None), targets

    def _listed(self) -> list[str]:
        """Return the databases of the metastore that are compared."""
        names = (db for db in self._here.databases() if db not in self._left_out)
        return [db for db in names if self._policy is None or self._policy.sees(db)]

    def _databases(self, wanted: ObjectSelection) -> list[str]:
        """Return the wanted databases of either side."""
        names = {*self._listed(), *self._catalog.databases()}
        return sorted(db for db in names if wanted.has((db, "")))

    def _database(self, db: str) -> TableVerdict | None:
        """Compare the database ``db``; None: it is equal."""
        verdict = TableVerdict(db)
        thrift = stored = None
        try:
            with suppress(ObjectGone):
                thrift = self._here.database(db)
        except SourceRefused as error:
            verdict.unreadable = str(error)
            return verdict
        with suppress(NoSuchObject):
            stored = self._catalog.database(db).thrift()
        if thrift is not None and stored is not None:
            verdict.compare(db, database_as_held(thrift), stored, shape=DATABASE)
        elif (thrift is None) != (stored is None):
            verdict.note_existence(db, there=thrift is not None)
        return verdict if verdict.differences else None
