"""Faults in what becomes of reported writes: outbox, reports, leases, folders, their store."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from topicast.catalog.core import Catalog
from topicast.catalog.effects import Publish
from topicast.catalog.ingest.writes.folder_index import FolderIndex
from topicast.catalog.ingest.writes.reports import Reports, is_path
from topicast.catalog.model.tables import Tables
from topicast.catalog.model.versions import Commit, OpenTransaction, VersionLog, WriteRow
from topicast.subscriber.engine.write_outbox import WriteOutbox, WriteSender
from topicast.tests.sim.fault import BY_SEED, Fault
from topicast.topics.clock import Clock
from topicast.topics.objects.names import group_of, parse_table_name
from topicast.topics.topic import Entry
from topicast.topics.wire.messages.data import SOURCE_REPORTS
from topicast.topics.wire.messages.reports import ABANDONED, FAILED, Report, Write, WriteOutcome


class RepliesBeforeItCommits(Catalog):
    def flush(self, *, now: float, now_us: int) -> tuple[Any, ...]:
        effects = super().flush(now=now, now_us=now_us)
        return tuple(sorted(effects, key=lambda one: isinstance(one, Commit | Publish)))


class ForgetsIntents(Reports):
    def __init__(self, *held: Any, known: Iterable[WriteRow] = (), **rest: Any) -> None:
        super().__init__(*held, known=[row for row in known if not row.open], **rest)


class ForgetsWhatIsDone(Reports):
    def __init__(self, *held: Any, known: Iterable[WriteRow] = (), **rest: Any) -> None:
        super().__init__(*held, known=[row for row in known if row.open], **rest)


class AppliesTwice(Reports):
    def __init__(
        self, namespace: Any, tables: Tables, *topics: Any, clock: Clock, **rest: Any
    ) -> None:
        super().__init__(namespace, tables, *topics, clock=clock, **rest)
        self.tables, self.clock = tables, clock
        self.again: list[WriteRow] = []

    def apply(self, report: Report, **rest: Any) -> tuple[WriteOutcome, ...]:
        repeated = self.tally.reported_writes_repeated
        verdicts = super().apply(report, **rest)
        for write, verdict in zip(report.writes, verdicts, strict=True):
            if (
                self.tally.reported_writes_repeated > repeated
                and verdict.version
                and not is_path(write.object)
            ):
                self._apply_again(report.driver, write)
        return verdicts

    def _apply_again(self, driver: bytes, write: Write) -> None:
        table, parts = parse_table_name(write.object), write.partitions
        topic, version = self.tables.raise_data(table, partitions=parts, source=SOURCE_REPORTS)
        self.again.append(
            WriteRow(
                driver=driver,
                number=write.number,
                object=write.object,
                partitions=(),
                open=False,
                at_us=self.clock.now_us,
                topic=topic,
                version=version,
            )
        )

    def take(self) -> tuple[tuple[WriteRow, ...], Any, Any]:
        rows, gone, writers = super().take()
        again, self.again = self.again, []
        return (*rows, *again), gone, writers


class TakesLapsedForAbandoned(Reports):
    def lapse(self) -> None:
        """Do nothing."""

    @property
    def deadline(self) -> float | None:
        return None


class TakesFailedForAbandoned(Reports):
    def apply(self, report: Report, **rest: Any) -> tuple[WriteOutcome, ...]:
        writes = tuple(
            replace(one, state=ABANDONED) if one.state == FAILED else one for one in report.writes
        )
        return super().apply(replace(report, writes=writes), **rest)


class TakesDataBack(VersionLog):
    def write(self, one: OpenTransaction) -> None:
        def taken_back(entry: Entry) -> Entry:
            kept = entry.key == group_of(entry.key) and entry.data_version < one.version
            return entry._replace(data_version=entry.schema_version) if kept else entry

        one.entries = list(map(taken_back, one.entries))
        super().write(one)


class DiscardsWhatWaits(WriteSender):
    def retry_now(self) -> None:
        self.outbox.refuse("")
        super().retry_now()


class EndsWithItsBeginning(WriteOutbox):
    """The answer about an intent counts for the end of it that waits meanwhile."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.ends: dict[int, Write] = {}

    def end(self, write: Write) -> None:
        self.ends[write.number] = write
        super().end(write)

    def acknowledge(self, report: Report, verdicts: Iterable[WriteOutcome], *, now: float) -> None:
        writes = tuple(self.ends.get(one.number, one) for one in report.writes)
        super().acknowledge(replace(report, writes=writes), verdicts, now=now)


class KeepsFolders(FolderIndex):
    def end(self, group: bytes) -> None:
        """Do nothing."""


FAULTS = (
    Fault("a write is acknowledged once it is committed", BY_SEED, (RepliesBeforeItCommits,)),
    Fault("intents outlast a restart", BY_SEED, (ForgetsIntents,), likely_seed=280),
    Fault("a write that is reported again has no second effect", BY_SEED, (AppliesTwice,)),
    Fault("what was reported outlasts a restart", BY_SEED, (ForgetsWhatIsDone,), likely_seed=57),
    Fault("what waits to be reported outlasts a new connection", BY_SEED, (DiscardsWhatWaits,)),
    Fault(
        "an intent of a lost driver is taken for written",
        BY_SEED,
        (TakesLapsedForAbandoned,),
        likely_seed=73,
    ),
    Fault("the end of a write is reported after its beginning", BY_SEED, (EndsWithItsBeginning,)),
    Fault("a write that failed may have changed anything", BY_SEED, (TakesFailedForAbandoned,)),
    Fault("data version does not go back", BY_SEED, (TakesDataBack,)),
    Fault("the folders of a table end with it", BY_SEED, (KeepsFolders,)),
)
