"""The change history of a table as operators read it: time, change, source, before and after.

The history thread reads it from the store's file.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import ClassVar, Final, NamedTuple

from ...topics.errors import UsageError
from ...topics.objects.changes import ChangeKind
from ...topics.objects.encoding.values import (
    LOADING,
    PartitionRecord,
    TableValue,
    decode_block,
    decode_table_value,
)
from ...topics.objects.names import TableId, group_of, name_of, table_key, table_name
from ...topics.objects.properties import different, partition_properties, table_properties
from ...topics.objects.tables import Partition, PartitionReader, Table, read_table
from ...topics.policy import Policy
from ...topics.topic import NAMESPACE, Entry, table_topic
from ...topics.wire.codec import fitting
from ...topics.wire.header import FRAME_BYTES_MAX
from ...topics.wire.messages.answers import (
    HistoryLine,
    HistoryPage,
    Inspected,
    VersionBound,
    VersionBounds,
)
from ...topics.wire.messages.data import ORIGINS, SOURCE_LOAD
from ..storage.history import HistoryReader, Replacement

ENTRIES_MAX: Final = 4000  # of a table, that one request reads: each names up to 64 partitions
ROWS_MAX: Final = 1000  # of an answer
CHANGES_MAX: Final = 5000  # rows of an answer about a topic: their numbers take 200 KB
ROWS_BYTES_MAX: Final = FRAME_BYTES_MAX // 2  # their texts; the rest of a frame is for numbers
NAMED_MAX: Final = 100  # partitions of one transaction


@dataclass(frozen=True, slots=True)
class NewestChanges:
    """The newest ``count`` changes of ``table`` in the versions behind ``after``."""

    table: TableId
    after: int = 0
    count: int = ROWS_MAX

    @property
    def subject(self) -> str:
        """The objects that it is about, for the log."""
        return f"the history of {table_name(*self.table)}"

    def answer(self, reader: HistoryReader, request: int, _policy: Policy | None) -> Inspected:
        """Return what has become of the table and its partitions, the newest first.

        Raises:
            WireError: the store holds a value that is not a table.
        """
        rows = islice(self._rows(reader), min(self.count, ROWS_MAX))
        return _fitting(rows, request)

    def _rows(self, reader: HistoryReader) -> Iterator[HistoryLine]:
        group, topic = table_key(*self.table), table_topic(*self.table, reader.num_topics())
        own = reader.present(topic, group)
        found = reader.replacements(topic, group, count=ENTRIES_MAX, after=self.after)
        for _, some in groupby(found, key=attrgetter("version")):
            step = _Step(group, list(some), own)
            own = step.before
            yield from map(step.row, step.changes())


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """The transactions of ``topic`` in ``(after, until]``, but for the first ``skip`` rows."""

    topic: int
    epoch: int
    after: int
    until: int
    skip: int
    table: ClassVar[None] = None

    @property
    def subject(self) -> str:
        """The objects that it is about, for the log."""
        return f"the changes of topic {self.topic}"

    def answer(self, reader: HistoryReader, request: int, policy: Policy | None) -> Inspected:
        """Return what has become of the tables that ``policy`` sees, the oldest first.

        They are as many as a frame holds.

        Every partition is named. A reader that continues requests the rows after the version before
        the last version received, and skips the rows of that version: they are the same each time.

        Raises:
            UsageError: it is the topic of the names.
            HistoryGone: the history begins later, or is of another epoch.
            WireError: the store holds a value that is not a table.
        """
        if self.topic == NAMESPACE:
            raise UsageError("names change with their tables: request the changes of table topics")
        reader.demand_epoch(self.epoch)
        return _fitting(islice(self._rows(reader, policy), CHANGES_MAX), request)

    def _rows(self, reader: HistoryReader, policy: Policy | None) -> Iterator[HistoryLine]:
        skip = self.skip
        for replaced in reader.steps(self.topic, after=self.after, until=self.until):
            group, version = group_of(replaced[0].key), replaced[0].version
            if policy is not None and not policy.sees_group(self.topic, group):
                continue
            own = reader.entry_at(self.topic, group, version)
            step = _Step(group, replaced, own, named_max=None)
            changes = step.changes()
            wanted, skip = changes[skip:], max(0, skip - len(changes))
            yield from map(step.row, wanted)


@dataclass(frozen=True, slots=True)
class Bound:
    """The first transactions of ``topic`` behind ``after``, of ``count`` entries together."""

    topic: int
    epoch: int
    after: int
    count: int
    table: ClassVar[None] = None

    @property
    def subject(self) -> str:
        """The objects that it is about, for the log."""
        return f"the transactions of topic {self.topic}"

    def answer(self, reader: HistoryReader, request: int, _policy: Policy | None) -> Inspected:
        """Return the version of the last of these transactions; the first counts, however large.

        Raises:
            HistoryGone: the history begins later, or is of another epoch.
        """
        reader.demand_epoch(self.epoch)
        last, left = self.after, self.count
        for version, entries in reader.sizes(self.topic, after=self.after):
            left -= entries
            if left < 0 and last > self.after:
                break
            last = version
        return VersionBounds(request=request, rows=(VersionBound(last),))


def _fitting(rows: Iterable[HistoryLine], request: int) -> Inspected:
    """Return the first of ``rows``, as many as a frame holds."""
    some = fitting(rows, _text_bytes, bytes_max=ROWS_BYTES_MAX)
    return HistoryPage(request=request, rows=tuple(some))


def _text_bytes(row: HistoryLine) -> int:
    return sum(len(cell.encode()) for cell in row if isinstance(cell, str))


class _Changed(NamedTuple):
    """An object that a transaction changed; ``texts`` returns what differs, which takes longer."""

    name: str
    kind: ChangeKind
    texts: Callable[[], tuple[str, str]]


class _Step:
    """The change of a table by one transaction."""

    def __init__(
        self,
        group: bytes,
        replaced: Sequence[Replacement],
        own: Entry | None,
        *,
        named_max: int | None = NAMED_MAX,
    ) -> None:
        """``own``: the table's own entry after it. ``named_max``: partitions; None: all."""
        self._named_max = named_max
        self._name = name_of(group)
        self._first = replaced[0]
        self._own = next((one for one in replaced if one.key == group), None)
        self._blocks = [one for one in replaced if one.key != group]
        self.before = own if self._own is None else self._own.before
        self._values = _decoded(self.before), _decoded(own)

    def changes(self) -> list[_Changed]:
        """Return the objects that were changed.

        A table that is created, or dropped, stands for its partitions, too.
        Partitions that are only loaded, or unloaded, have not changed.
        """
        if self._first.lost:
            return [self._of_table(ChangeKind.DROPPED, ("more than is kept", ""))]
        own = [] if self._own is None else self._table_changes(self._own)
        if self._first.source == SOURCE_LOAD or not self._knows_partitions():
            return own
        partitions = self._partition_changes()
        if partitions and own and own[0].kind == ChangeKind.DATA and not any(own[0].texts()):
            return partitions  # the table's own entry says no more than these
        return own + partitions

    def row(self, changed: _Changed) -> HistoryLine:
        """Return the row of a change."""
        one = self._first
        before, after = changed.texts()
        source = ORIGINS[one.source]
        return HistoryLine(
            time_us=one.at_us,
            object=changed.name,
            change=str(changed.kind),
            source=source,
            version=one.version,
            before=before,
            after=after,
        )

    def _knows_partitions(self) -> bool:
        """Return whether the partitions that came and went with this step are all that changed."""
        if self._own is not None and self._own.before is None:
            return True
        return all(one is not None and one.partitions != LOADING for one in self._values)

    def _table_changes(self, own: Replacement) -> list[_Changed]:
        before, after = self._values
        if after is None and own.after is not None:
            return [self._of_table(ChangeKind.UNLOADED)]
        if self._first.source == SOURCE_LOAD or (before is None and own.before is not None):
            return [self._of_table(ChangeKind.LOADED)]
        old, new = (None if value is None else _table(value) for value in self._values)
        texts = different(table_properties(old), table_properties(new))
        if own.before is None:
            kind = ChangeKind.CREATED
        elif own.after is None:
            kind = ChangeKind.DROPPED
        elif old is not None and new is not None and not any(texts):
            if before is not None and before.partitions == LOADING:
                kind = ChangeKind.LOADED
            elif after is not None and after.partitions == LOADING:
                kind = ChangeKind.UNLOADED
            elif own.after.data_version > own.before.data_version:
                kind = ChangeKind.DATA
            else:
                return []  # of its partitions
        else:
            again = own.after.schema_version > own.before.schema_version
            kind = ChangeKind.SCHEMA if again else ChangeKind.DATA
        return [self._of_table(kind, texts)]

    def _partition_changes(self) -> list[_Changed]:
        old, read_old = self._partitions(self._values[0], [one.before for one in self._blocks])
        new, read_new = self._partitions(self._values[1], [one.after for one in self._blocks])
        changed = [
            name
            for name in sorted(old.keys() | new.keys())
            if name not in new or name not in old or new[name].version != old[name].version
        ]

        def texts(name: str) -> tuple[str, str]:
            before = read_old(old[name]) if name in old else None
            after = read_new(new[name]) if name in new else None
            return different(partition_properties(before), partition_properties(after))

        named = changed[: self._named_max]
        found = []
        for name in named:
            kind = ChangeKind.DATA if name in old else ChangeKind.CREATED
            kind = kind if name in new else ChangeKind.DROPPED
            found.append(_Changed(f"{self._name}/{name}", kind, partial(texts, name)))
        if len(changed) > len(named):
            text = f"and {len(changed) - len(named)} more partitions"
            found.append(self._of_table(ChangeKind.DATA, ("", text)))
        return found

    def _partitions(
        self, value: TableValue | None, blocks: Sequence[Entry | None]
    ) -> tuple[dict[str, PartitionRecord], Callable[[PartitionRecord], Partition]]:
        """Return the records in ``blocks`` by name, and what makes a partition of a record."""
        found = {
            record.name: record
            for block in blocks
            if value is not None and block is not None and block.value is not None
            for record in decode_block(block.value, block.version).records()
        }
        return found, PartitionReader(() if value is None else value.templates).read

    def _of_table(self, kind: ChangeKind, texts: tuple[str, str] = ("", "")) -> _Changed:
        return _Changed(self._name, kind, lambda: texts)


def _decoded(own: Entry | None) -> TableValue | None:
    return None if own is None or own.value is None else decode_table_value(own.value)


def _table(value: TableValue) -> Table:
    return read_table(value.thrift, 0)
