"""The results of sweeps of the files of tables, as the rows that operators are sent."""

from dataclasses import dataclass
from typing import ClassVar, Final

from ...topics.objects.names import TableId, table_name
from ...topics.policy import Policy
from ...topics.wire.messages.answers import (
    FilePage,
    Inspected,
    PartitionFiles,
    SweepPage,
    SweepState,
)
from ..storage.history import HistoryReader

ROWS_MAX: Final = 2000  # of an answer: their numbers take 100 KB


@dataclass(frozen=True, slots=True)
class SweptFiles:
    """Asks for the known facts of the files of ``table``, behind the partition ``after``."""

    table: TableId
    incarnation: int
    after: str | None

    @property
    def subject(self) -> str:
        """The objects that it is about, for the log."""
        return f"the files of {table_name(*self.table)}"

    def answer(self, reader: HistoryReader, request: int, _policy: Policy | None) -> Inspected:
        """Return the facts about the next partitions."""
        found = reader.files(self.table, self.incarnation, after=self.after, count=ROWS_MAX)
        return FilePage(request=request, rows=tuple(map(PartitionFiles._make, found)))


@dataclass(frozen=True, slots=True)
class SweptTables:
    """Asks how far ``tables``, each with its incarnation, are swept."""

    tables: tuple[tuple[TableId, int], ...]
    table: ClassVar[None] = None
    subject: ClassVar[str] = "the sweeps of tables"

    def answer(self, reader: HistoryReader, request: int, _policy: Policy | None) -> Inspected:
        """Return a row of each table."""
        rows = tuple(map(SweepState._make, reader.sweeps(self.tables)))
        return SweepPage(request=request, rows=rows)
