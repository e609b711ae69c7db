"""Plan: which partitions a run lists, by how far catalogd has their tables swept. Pure.

    how far each table is swept ─┐
    the log of changes since     ├──▶ due(table, partition)? ──▶ listed
    times of folders ────────────┘

A point is the number that the next line of catalogd's log had when a run began: changes in the log
from this line on may be missing in the facts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...topics.wire.messages.reports import FileFacts

AGAIN_MS: Final = 1
"""In place of a folder's time: the folder could not be read, so the next run lists it again."""

ALL: Final = ""  # in place of a partition: any of them may have changed, or the table has none


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptTable:
    """How far a table is swept: all as of a point, and up to ``open_until`` as of a later point.

    ``as_of`` 0: it was never swept to its end. ``open_as_of`` 0: no run of it was interrupted.
    ``whole``: all partitions after ``open_until`` are to be listed, whatever has changed.
    """

    revision: int = 0
    as_of: int = 0
    open_as_of: int = 0
    open_until: str = ""
    whole: bool = False

    def known_since(self, partition: str) -> int:
        """Return the point as of which ``partition`` is known; 0: it is to be listed."""
        if self.open_as_of and self.open_until and partition <= self.open_until:
            return self.open_as_of
        return 0 if self.whole else self.as_of


NEVER: Final = SweptTable()


@dataclass(frozen=True, slots=True)
class Point:
    """The line of catalogd's log as of which a Sweep knows all partitions up to ``until``.

    The fields are those of the message. ``as_of`` 0: only the partitions that it names are known.
    """

    as_of: int = 0
    until: str = ""
    last: bool = False
    whole: bool = False


NAMED_ONLY: Final = Point()


@dataclass(slots=True, kw_only=True)
class SweepPlan:
    """Which partitions a run lists, and the point at which it begins.

    The plan holds the names of changed objects: as much as catalogd's log, 64 MB at most.
    """

    as_of: int
    """The point of this run; 0: not known, so that catalogd notes no point for its tables."""
    first: int = 0
    """The number of the oldest line of the log, or of the next line if the log is empty."""
    tables: dict[str, SweptTable] = field(default_factory=dict)
    changed: dict[str, dict[str, int]] = field(default_factory=dict)
    """By table and partition, or ALL: the last line of the log about it."""
    times_ms: dict[int, int] = field(default_factory=dict)
    """When the line before a point was written, by the number of the point."""
    lists_all: bool = False
    is_marked: bool = False
    """All tables are marked at catalogd as to be listed, so that a later run continues this run."""

    def swept(self, table: str) -> SweptTable:
        """Return how far ``table`` was swept before this run."""
        return self.tables.get(table, NEVER)

    def is_whole(self, table: str) -> bool:
        """Return whether a later run has to list all of ``table`` that this run does not."""
        return self.is_marked or self.swept(table).whole

    def reads_from(self) -> int:
        """Return the number of the first line of the log that may name a change."""
        return min(self.points(), default=self.as_of)

    def points(self) -> frozenset[int]:
        """Return the points of earlier runs, as far back as the log reaches."""
        runs = (point for one in self.tables.values() for point in (one.as_of, one.open_as_of))
        return frozenset(point for point in runs if self._in_log(point))

    def swept_ms(self, table: str, partition: str) -> int:
        """Return a time before ``partition`` was listed last; 0: it is not known."""
        return self.times_ms.get(self.swept(table).known_since(partition), 0)

    def note(self, table: str, partition: str, number: int) -> None:
        """Note that the line ``number`` of the log names ``partition`` of ``table``, or ALL."""
        lines = self.changed.setdefault(table, {})
        lines[partition] = max(number, lines.get(partition, 0))

    def due(
        self, table: str, partitions: Iterable[str], before: Mapping[str, FileFacts]
    ) -> Iterator[str]:
        """Yield the ``partitions`` that are to be listed, whatever the times of their folders.

        ``before``: the known facts about the files of the table.
        """
        swept, lines = self.swept(table), self.changed.get(table, {})
        of_any = lines.get(ALL, 0)
        for partition in partitions:
            known = before.get(partition)
            since = swept.known_since(partition)
            if (
                self.lists_all
                or known is None
                or known.folder_ms == AGAIN_MS
                or not self._in_log(since)  # not known, or before the log begins
                or max(lines.get(partition, 0), of_any) >= since
            ):
                yield partition

    def _in_log(self, point: int) -> bool:
        return self.first <= point <= self.as_of

    def point_after(self, table: str, last: str) -> int:
        """Return the point as of which the partitions up to ``last`` are known now.

        0: the point stays, because an interrupted run has come further than this run.
        """
        swept = self.swept(table)
        is_behind = swept.open_as_of and last <= swept.open_until and not self.lists_all
        return 0 if is_behind else self.as_of


def note_history(
    plan: SweepPlan, table: str, rows: Iterable[Mapping[str, Any]], *, lines: Mapping[int, int]
) -> None:
    """Note the partitions of ``table`` that some lines of the log have changed.

    ``rows``: the changes in the history. ``lines``: the number of the line of each version. A
    change of the table's own properties does not change files; a change without properties and
    without a partition may change any file.
    """
    for row in rows:
        name, _, partition = str(row["object"]).partition("/")
        number = lines.get(row["version"])
        if name == table and number and (partition or not (row["before"] or row["after"])):
            plan.note(table, partition or ALL, number)
