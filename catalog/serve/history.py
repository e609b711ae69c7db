"""The change history of a table as operators read it: when, what, by which way, before and after.

    Inspect history@db.table ──▶ HistoryThread ──▶ Inspected | Refused

It is read from the store's file in a thread of its own, so that no commit waits for it.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from ...topics.errors import WireError
from ...topics.objects.names import TableId, name_of, parse_table_name, table_key, table_name
from ...topics.objects.tables import Partition, PartitionReader, Table, read_table
from ...topics.objects.values import LOADING, TableValue, decode_block, decode_table_value
from ...topics.topic import Entry, table_topic
from ...topics.wire.messages import SOURCE_LOAD, Inspected, Refused, Source
from ...topics.wire.refusal import Refusal
from ..model.versions import ChangeKind
from ..storage.history import HistoryReader, Replacement

PREFIX: Final = "history@"
COLUMNS: Final = ("time_us", "object", "change", "source", "version", "before", "after")
ENTRIES_MAX: Final = 4000  # of a table, that one request reads: each names up to 64 partitions
ROWS_MAX: Final = 1000  # of an answer
TEXT_CHARS_MAX: Final = 500  # of what was there before and after: an answer takes 1 MB at most
WAITING_MAX: Final = 16  # orders that wait for the thread
BUSY_MS: Final = 1000  # then an order beyond them may come again
NAMED_MAX: Final = 100  # partitions of one transaction
SOURCES: Final[Mapping[int, str]] = {
    Source.LOAD: "load",
    Source.EVENTS: "event",
    Source.REPORTS: "report",
    Source.RECONCILE: "listing",
    Source.ORDERS: "order",
    Source.CATCH_UP: "hub",
    Source.OVERWRITES: "overwrite",
}

Row = tuple[int, str, str, str, int, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory:
    """Effect: read the history of ``table`` for this request; answered by ``HistoryRead``."""

    peer: bytes
    request: int
    table: TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRead:
    """Fact: the answer to ``ReadHistory``."""

    peer: bytes
    answer: Inspected | Refused


class HistoryThread:
    """One thread that reads the store's file; orders in, facts to ``deliver``."""

    def __init__(self, path: Path, *, num_topics: int, deliver: Callable[[HistoryRead], None]):
        self._path = path
        self._num_topics = num_topics
        self._deliver = deliver
        self._orders: SimpleQueue[ReadHistory | None] = SimpleQueue()  # None ends the thread
        self._thread = threading.Thread(target=self._work, name="history", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def order(self, order: ReadHistory) -> None:
        """Have the thread perform ``order``, or refuse it at once if too many wait."""
        if self._orders.qsize() < WAITING_MAX:
            self._orders.put(order)
            return
        why = f"{WAITING_MAX} histories are to be read before this one"
        self._deliver(_refused(order, Refusal.BUSY, why, retry_ms=BUSY_MS))

    def close(self) -> None:
        """Take no more orders; return when the thread has ended."""
        self._orders.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            self._deliver(self._read(order))

    def _read(self, order: ReadHistory) -> HistoryRead:
        topic = table_topic(*order.table, self._num_topics)
        try:
            with closing(HistoryReader(self._path)) as reader, reader.moment():
                rows = table_history(reader, topic, order.table)
        except (sqlite3.Error, WireError) as error:
            why = f"the history of {table_name(*order.table)} cannot be read: {error}"
            return _refused(order, Refusal.UNREADABLE, why)
        found = Inspected(request=order.request, columns=COLUMNS, rows=tuple(rows))
        return HistoryRead(peer=order.peer, answer=found)


def _refused(order: ReadHistory, code: Refusal, why: str, *, retry_ms: int = 0) -> HistoryRead:
    answer = Refused(request=order.request, code=code, message=why, retry_ms=retry_ms)
    return HistoryRead(peer=order.peer, answer=answer)


def table_history(reader: HistoryReader, topic: int, table: TableId) -> list[Row]:
    """Return what has become of ``table`` and its partitions, the newest first.

    Raises:
        WireError: the store holds what is no table.
    """
    group = table_key(*table)
    own = reader.present(topic, group)
    rows: list[Row] = []
    found = reader.replacements(topic, group, count=ENTRIES_MAX)
    for _, some in groupby(found, key=attrgetter("version")):
        step = _Step(group, list(some), own)
        rows += step.rows()
        own = step.before
        if len(rows) >= ROWS_MAX:
            break
    return rows[:ROWS_MAX]


class _Step:
    """What one transaction did to a table."""

    def __init__(self, group: bytes, replaced: Sequence[Replacement], own: Entry | None) -> None:
        """``own``: the table's own entry after it."""
        self._name = name_of(group)
        self._first = replaced[0]
        self._own = next((one for one in replaced if one.key == group), None)
        self._blocks = [one for one in replaced if one.key != group]
        self.before = own if self._own is None else self._own.before
        self._values = _decoded(self.before), _decoded(own)

    def rows(self) -> list[Row]:
        """Return a row for each object that was changed."""
        if self._first.lost:
            return [self._row(self._name, ChangeKind.DROPPED, ("more than is kept", ""))]
        before, after = self._values
        if self._first.source == SOURCE_LOAD:
            kind = ChangeKind.LOADED if after is not None else ChangeKind.UNLOADED
            return [self._row(self._name, kind, ("", ""))] if self._own is not None else []
        whole = self._own is not None and (self._own.before is None or self._own.after is None)
        rows = [] if self._own is None else self._table_rows(self._own)
        loaded = after is not None and before is not None and before.partitions == LOADING
        partitions = [] if whole or loaded else self._partition_rows()
        if partitions and rows and rows[0][2] == ChangeKind.DATA and not any(rows[0][-2:]):
            return partitions  # the table's own entry says no more than these
        return rows + partitions

    def _table_rows(self, own: Replacement) -> list[Row]:
        old, new = (None if value is None else _table(value) for value in self._values)
        texts = _different(_properties(old), _properties(new))
        if own.before is None:
            kind = ChangeKind.CREATED
        elif own.after is None:
            kind = ChangeKind.DROPPED
        elif old is not None and new is not None and not any(texts):
            if own.after.data_version <= own.before.data_version:
                return []  # of its partitions
            kind = ChangeKind.DATA
        else:
            again = own.after.schema_version > own.before.schema_version
            kind = ChangeKind.SCHEMA if again else ChangeKind.DATA
        return [self._row(self._name, kind, texts)]

    def _partition_rows(self) -> list[Row]:
        old = self._partitions(self._values[0], [one.before for one in self._blocks])
        new = self._partitions(self._values[1], [one.after for one in self._blocks])
        rows = []
        changed = [
            name
            for name in sorted(old.keys() | new.keys())
            if name not in new or name not in old or new[name].version != old[name].version
        ]
        for name in changed[:NAMED_MAX]:
            before, after = old.get(name), new.get(name)
            kind = ChangeKind.DATA if before else ChangeKind.CREATED
            kind = kind if after else ChangeKind.DROPPED
            texts = _different(_facts(before), _facts(after))
            rows.append(self._row(f"{self._name}/{name}", kind, texts))
        if len(changed) > NAMED_MAX:
            text = f"and {len(changed) - NAMED_MAX} more partitions"
            rows.append(self._row(self._name, ChangeKind.DATA, ("", text)))
        return rows

    def _partitions(
        self, value: TableValue | None, blocks: Sequence[Entry | None]
    ) -> dict[str, Partition]:
        if value is None:
            return {}
        read = PartitionReader(value.templates).read
        return {
            record.name: read(record)
            for block in blocks
            if block is not None and block.value is not None
            for record in decode_block(block.value, block.version).records()
        }

    def _row(self, name: str, kind: ChangeKind, texts: tuple[str, str]) -> Row:
        one = self._first
        return (one.at_us, name, str(kind), SOURCES[one.source], one.version, *texts)


def _decoded(own: Entry | None) -> TableValue | None:
    return None if own is None or own.value is None else decode_table_value(own.value)


def _table(value: TableValue) -> Table:
    return read_table(value.thrift, 0)


def _properties(table: Table | None) -> dict[str, str]:
    if table is None:
        return {}
    columns = {f"column {one.name}": one.type for one in table.columns}
    keys = {f"partition column {one.name}": one.type for one in table.partition_columns}
    order = {"columns": ", ".join(one.name for one in table.columns)}
    facts = {
        "type": table.type,
        "owner": table.owner,
        "location": table.location,
        "serde": table.storage.serde,
        "view": table.view_text,
    }
    return columns | keys | order | facts | _parameters(table.parameters)


def _facts(partition: Partition | None) -> dict[str, str]:
    if partition is None:
        return {}
    return {"location": partition.location} | _parameters(partition.parameters)


def _parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    return {f"parameter {key}": value for key, value in parameters.items()}


def _different(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, str]:
    """Return what differs of two sets of properties, as texts: that before, and that after."""
    return _text(before, after), _text(after, before)


def _text(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    def parts() -> Iterator[str]:
        for name, value in one.items():
            if value and other.get(name) != value:
                yield f"{name}={value}"

    text = "; ".join(parts())
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"


def parse_history(what: str) -> TableId | None:
    """Return the table whose history the inspection ``what`` names; None: it names another table.

    Raises:
        UsageError: it names no table.
    """
    return parse_table_name(what.removeprefix(PREFIX)) if what.startswith(PREFIX) else None
