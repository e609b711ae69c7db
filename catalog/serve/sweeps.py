"""Sweeps: the known facts about the files of tables; a change of them counts once.

    Sweep of the present revision ──▶ kept, the next revision ──▶ data version raised if changed
    Sweep of another revision ──▶ nothing: its sender compares again

A sweep lists files, compares them with what is known here, and sends what differs with the revision
that it has compared with. So catalogd keeps the first of two sweeps that see the same change, and
ignores a sweep that is sent again because its answer was lost.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from sortedcontainers import SortedDict

from ...topics.clock import Clock
from ...topics.errors import NoSuchObject, UsageError
from ...topics.objects.names import TableId, table_name
from ...topics.policy import Policy
from ...topics.wire.messages.data import SOURCE_OVERWRITES, SOURCE_REPORTS
from ...topics.wire.messages.reports import Sweep, Swept
from ..history.queries import NUMBER_MAX
from ..model.namespace import Namespace
from ..model.tables import Tables
from ..model.versions import SweepRow
from ..storage.file_facts import numbers_of

TABLES_MAX: Final = 200  # of an answer


class Sweeps:
    """The revisions of all tables that were swept; ``take`` returns what the store lacks."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        clock: Clock,
        known: Iterable[SweepRow] = (),
    ) -> None:
        """``known``: as stored."""
        self._namespace = namespace
        self._tables = tables
        self._clock = clock
        self._known: SortedDict[TableId, tuple[int, int]] = SortedDict(
            {row.table: (row.incarnation, row.revision) for row in known}
        )
        self._unstored: list[SweepRow] = []

    def apply(self, sweep: Sweep) -> Swept:
        """Keep what ``sweep`` has found, and raise the data version of its table if it changed.

        Raises:
            NoSuchObject: there is no such table (any more).
            UsageError: a number is too large.
        """
        table = (sweep.db, sweep.table)
        incarnation = self.incarnation(table)
        if not incarnation:
            raise NoSuchObject(table_name(*table))
        known, revision = self._known.get(table, (0, 0))
        revision = revision if known == incarnation else 0
        if sweep.revision != revision:
            return Swept(request=sweep.request, revision=revision, version=0, kept=False)
        numbers = [sweep.as_of, *(number for one in sweep.facts for number in numbers_of(one))]
        if max(numbers) > NUMBER_MAX:
            raise UsageError(f"a fact about files is above {NUMBER_MAX}")
        version = 0
        if sweep.changed:
            source = SOURCE_OVERWRITES if sweep.overwritten else SOURCE_REPORTS
            named = () if "" in sweep.changed else sweep.changed
            _, version = self._tables.raise_data(table, partitions=named, source=source)
        row = SweepRow(
            table=table,
            incarnation=incarnation,
            revision=revision + 1,
            anew=not revision,
            facts=sweep.facts,
            removed=sweep.removed,
            as_of=sweep.as_of,
            until=sweep.until,
            last=sweep.last,
            whole=sweep.whole,
            at_us=self._clock.now_us,
        )
        self._known[table] = (incarnation, revision + 1)
        self._unstored.append(row)
        return Swept(request=sweep.request, revision=revision + 1, version=version, kept=True)

    def incarnation(self, table: TableId) -> int:
        """Return the present incarnation of ``table``; 0 if there is no such table."""
        record = self._namespace.find(table)
        return record.incarnation if record is not None else 0

    def page(
        self, after: TableId | None, *, policy: Policy | None = None
    ) -> tuple[tuple[TableId, int], ...]:
        """Return the next tables behind ``after`` that were swept, each with its incarnation.

        Nothing if there are no more. A ``policy`` leaves out the tables that it does not see.
        """
        return tuple(islice(self._swept(after, policy), TABLES_MAX))

    def _swept(self, after: TableId | None, policy: Policy | None) -> Iterator[tuple[TableId, int]]:
        for table in self._known.irange(after, None, inclusive=(False, False)):
            incarnation = self._known[table][0]
            if self.incarnation(table) == incarnation and (policy is None or policy.sees(table[0])):
                yield table, incarnation

    def take(self) -> tuple[SweepRow, ...]:
        """Remove and return the rows that the store lacks."""
        unstored, self._unstored = tuple(self._unstored), []
        return unstored
