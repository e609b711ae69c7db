"""Subscribers: compares a driver's memory with catalogd's store as of the same version.

    join a topic at full ──▶ its version ──▶ each table: read from the subscriber and from the store
      ▲                                                   │ what differs is compared again
      └──────── the next topic; this topic is dropped ◀─────┘

The subscriber runs in this process, as the subscriber of an attached driver does, and is read by
its public methods. It holds one topic at a time, so that any catalog fits its budget.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from ...subscriber.client.subscriber import Subscriber
from ...topics.comparison import DATABASE, TABLE
from ...topics.errors import (
    HistoryGone,
    NoSuchObject,
    NotReady,
    OverBudget,
    SourceError,
    UsageError,
    WireError,
)
from ...topics.objects.encoding.values import (
    LOADING,
    decode_database_value,
    decode_names,
    decode_table_value,
)
from ...topics.objects.names import group_of, is_database, table_name, table_of
from ...topics.topic import FULL, LEVELS, MINIMAL, NAMESPACE, Entry, value_of
from ..datasource.planning import ReadPlanner
from ..datasource.scanning import KeyRange
from ..progress import OnProgress, RunProgress
from .entries import compare_partitions, table_or_database
from .selection import ObjectSelection
from .verdict import SUBSCRIBER, SideResult, TableVerdict

PATIENCE_S: Final = 20.0  # for a subscriber that is behind catalogd
PAUSE_S: Final = 0.05
ROUNDS_MAX: Final = 5  # then a topic that has changed in each round counts as not compared


class SubscriberSide:
    """Compares a subscriber of this process with catalogd's store, which ``planner`` reads."""

    def __init__(self, catalog: Subscriber, *, planner: ReadPlanner) -> None:
        self.name = SUBSCRIBER
        self._catalog = catalog
        self._planner = planner

    def compare(self, wanted: ObjectSelection, on_progress: OnProgress) -> SideResult:
        """Compare the objects of ``wanted``.

        Raises:
            LinkError: catalogd does not answer, or no hub does.
        """
        found = SideResult(side=self.name)
        as_of = self._planner.snapshot_version()
        topics = wanted.topics(as_of)
        for done, topic in enumerate(topics):
            on_progress(
                RunProgress(step=f"topics of the {self.name}", done=done, left=len(topics) - done)
            )
            try:
                self._join(topic, at_least=as_of.by_topic()[topic])
            except NotReady as error:
                self._planner.snapshot_version()  # raises NotReady if catalogd does not answer
                found.unread[f"topic {topic} and those behind it"] = str(error)
                break
            except OverBudget as error:
                found.unread[f"topic {topic}"] = f"its memory is too small: {error}"
                continue
            self._settle(topic, as_of.epoch, wanted, into=found)
            if topic != NAMESPACE:
                self._catalog.drop(topic)
        return found

    def _join(self, topic: int, *, at_least: int) -> None:
        """Follow ``topic`` at full; if full is not offered, at minimal, so that tables are pulled.

        Raises:
            OverBudget: the topic does not fit.
            NotReady: the topic does not arrive, or stays below version ``at_least``.
        """
        try:
            if topic != NAMESPACE:
                self._catalog.join(topic, LEVELS[FULL])
        except OverBudget:
            raise
        except UsageError:
            self._catalog.join(topic, LEVELS[MINIMAL])
        deadline = time.monotonic() + PATIENCE_S
        while (version := self._version(topic)) < at_least:
            if time.monotonic() > deadline:
                raise NotReady(f"it is at version {version}, and catalogd at {at_least}")
            time.sleep(PAUSE_S)

    def _settle(self, topic: int, epoch: int, wanted: ObjectSelection, *, into: SideResult) -> None:
        """Compare ``topic`` until it is equal, or differs in the same way twice."""
        before: dict[str, bytes] | None = None
        for _ in range(ROUNDS_MAX):
            version = self._version(topic)
            keys = KeyRange(topic, version)
            stored = self._planner.entries(keys, epoch=epoch)
            try:
                found = self._verdicts(topic, stored, wanted)
            except HistoryGone:  # the topic changes faster than it is read
                continue
            wrong = {one.name: one.digest for one in found if one.differences}
            if not wrong or (wrong == before and version == self._version(topic)):
                into.tables += len(found) if topic != NAMESPACE else 0
                into.verdicts += [one for one in found if one.differences or one.unreadable]
                return
            before = wrong
        into.unread[f"topic {topic}"] = "it changed in each round: compare it again"

    def _version(self, topic: int) -> int:
        return self._catalog.topics(topic)[0].version

    def _verdicts(
        self, topic: int, stored: Iterator[Entry], wanted: ObjectSelection
    ) -> list[TableVerdict]:
        if topic == NAMESPACE:
            return self._databases(stored, wanted)
        found = []
        for group, entries in groupby(stored, lambda entry: group_of(entry.key)):
            table = table_of(group)
            if wanted.has(table):
                verdict = TableVerdict(table_name(*table), self.name)
                self._compare_table(verdict, group, entries)
                found.append(verdict)
        return found

    def _compare_table(self, verdict: TableVerdict, group: bytes, stored: Iterator[Entry]) -> None:
        own = next(stored)
        try:
            value = decode_table_value(value_of(own))
            if own.key != group or value.partitions == LOADING:
                verdict.not_loaded = True
                return
            table = self._catalog.table(verdict.name)
            verdict.compare(verdict.name, table.thrift(), value.thrift, shape=TABLE)
            names = self._catalog.partition_names(verdict.name) if table.partition_columns else ()
            read = partial(self._partitions, verdict.name)
            compare_partitions(verdict, value, stored, names=names, read=read)
        except NoSuchObject:
            verdict.note_existence(verdict.name, there=False)
        except (SourceError, WireError) as error:
            verdict.unreadable = str(error)

    def _partitions(self, table: str, names: Sequence[str]) -> dict[str, bytes]:
        found = self._catalog.partitions(table, names=names)
        return {one.name: one.thrift() for one in found}

    def _databases(self, stored: Iterator[Entry], wanted: ObjectSelection) -> list[TableVerdict]:
        """Compare the databases, and the names of their tables."""
        structs: dict[str, bytes] = {}
        tables: dict[str, set[str]] = {}
        for entry in stored:
            of = table_or_database(NAMESPACE, group_of(entry.key))
            if of is not None and is_database(entry.key):
                structs[of[0]] = decode_database_value(value_of(entry))
            elif of is not None:
                names = (one.name for one in decode_names(value_of(entry)))
                tables.setdefault(of[0], set()).update(names)
        found = []
        for db in sorted({*structs, *self._catalog.databases()}):
            if wanted.has((db, "")):
                found.append(self._database(db, structs, tables=tables.get(db, set())))
        return found

    def _database(self, db: str, structs: Mapping[str, bytes], *, tables: set[str]) -> TableVerdict:
        verdict = TableVerdict(db, self.name)
        try:
            there, listed = self._catalog.database(db).thrift(), set(self._catalog.tables(db))
        except NoSuchObject:
            verdict.note_existence(db, there=False)
            return verdict
        if db not in structs:
            verdict.note_existence(db, there=True)
            return verdict
        verdict.compare(db, there, structs[db], shape=DATABASE)
        for name in sorted(listed ^ tables):
            verdict.note_existence(table_name(db, name), there=name in listed)
        return verdict
