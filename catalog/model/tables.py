"""Tables: what catalogd holds of tables and partitions, as entries of the table topics.

    nothing or LOADING ──whole──▶ COMPLETE | ABSENT ──partitions, object──▶ …  ──gone──▶ nothing

Every write is one transaction of one topic; a table and its partitions have one version.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from ...topics.errors import UsageError, WireError
from ...topics.objects.blocks import decode_block, edit_partitions
from ...topics.objects.names import TableId, block_key, table_key
from ...topics.objects.tables import Column, Table, read_table
from ...topics.objects.values import (
    ABSENT,
    COMPLETE,
    LOADING,
    TableValue,
    decode_table_value,
    encode_table_value,
)
from ...topics.topic import (
    NAMESPACE,
    STUB,
    VALUE,
    Entry,
    Topic,
    entry_of,
    prefix_tombstone,
    table_topic,
)
from ...topics.wire.header import VALUE_BYTES_MAX
from ...topics.wire.messages import SOURCE_LOAD
from .versions import ChangeKind, ChangeRow, GroupLeaves, VersionLog

PARTITIONS_NAMED_MAX: Final = 100  # in the history, of one write
SPARK_SCHEMA: Final = "spark.sql.sources."  # for csv and json, HMS has only one column, col
LEAVES_MAX: Final = 4096  # tables whose lower bounds are kept sorted between two changes

_decoded = lru_cache(maxsize=4096)(decode_table_value)


class Tables:
    """What catalogd holds of tables; their entries are in the version log's topics."""

    def __init__(self, version_log: VersionLog, num_topics: int) -> None:
        self._version_log = version_log
        self._num_topics = num_topics
        self._leaves: dict[TableId, GroupLeaves] = {}  # a cache, LEAVES_MAX at most
        self.unfit = 0  # objects that no value can hold, so far: over its limit, or not text
        self.unfit_why: dict[TableId, str] = {}  # the tables that are unfit now

    def topic_of(self, table: TableId) -> tuple[int, Topic]:
        """Return the id and the topic of ``table``."""
        number = table_topic(*table, self._num_topics)
        return number, self._version_log.topics[number]

    def entry(self, table: TableId) -> Entry | None:
        """Return the table's own entry; None if nothing is held."""
        return self.topic_of(table)[1].get(table_key(*table))

    def value(self, table: TableId) -> TableValue | None:
        """Return what is held of ``table`` itself; None if it is nothing or a stub."""
        entry = self.entry(table)
        return _decoded(entry.value) if entry is not None and entry.value is not None else None

    def partition_columns(self, table: TableId) -> tuple[Column, ...]:
        """Return the partition columns of ``table``; none if nothing is held of it."""
        value = self.value(table)
        return () if value is None else read_struct(value.thrift).partition_columns

    def bounds(self, table: TableId) -> Sequence[str]:
        """Return the sorted lower bounds of the blocks of ``table``; they change with it."""
        return self._of(table).bounds

    def has_partition(self, table: TableId, name: str) -> bool:
        """Return whether partition ``name`` of ``table`` is held. Cost: one block is decoded."""
        leaves = self._of(table)
        lower = leaves.floor(name)
        if lower is None:
            return False
        version, value = leaves.read(lower)
        return name in decode_block(value, version).names

    def of_database(self, db: str) -> tuple[TableId, ...]:
        """Return the tables of ``db`` of which something is held. Cost: O(all tables)."""
        begin = db.encode() + b"\0"
        topics = (topic for n, topic in self._version_log.topics.items() if n != NAMESPACE)
        groups = (group for topic in topics for group in topic.group_ids())
        return tuple((db, g[len(begin) : -1].decode()) for g in groups if g.startswith(begin))

    def loaded(self, table: TableId) -> bool:
        """Return whether ``table`` is held with all its partitions."""
        value = self.value(table)
        return value is not None and value.partitions != LOADING

    def write_whole(
        self,
        table: TableId,
        thrift: bytes,
        partitions: Mapping[str, bytes] | None,
        *,
        incarnation: int,
        source: int,
        at_us: int,
        data: bool,
    ) -> None:
        """Hold ``table`` with exactly ``partitions``; None: LOADING, with none of them yet.

        What stays the same is not written again, unless the incarnation is another.
        """
        number, topic = self.topic_of(table)
        old = self.value(table)
        fresh = old is None or old.incarnation != incarnation or partitions is None
        row = self._row(table, old, thrift, source=source)

        def build(version: int) -> list[Entry]:
            entries: list[Entry] = []
            if fresh:
                if topic.rows(table_key(*table)):
                    entries.append(prefix_tombstone(table_key(*table), version))
                self._leaves.pop(table, None)
            templates: tuple[bytes, ...] = () if fresh or old is None else old.templates
            changes: dict[str, bytes | None] = dict(partitions or {})
            if not fresh:
                changes |= dict.fromkeys(self._names(table).difference(changes))
            blocks, templates = self._blocks(
                table, thrift, changes, templates=templates, version=version, empty=fresh
            )
            state = (
                LOADING if partitions is None else (COMPLETE if _partitioned(thrift) else ABSENT)
            )
            value = TableValue(
                incarnation=incarnation, partitions=state, thrift=thrift, templates=templates
            )
            entries += self._table(table, value, version, data=data, anew=fresh)
            return entries + blocks

        self._write(number, table, build, source=source, at_us=at_us, row=row)

    def write_partitions(
        self,
        table: TableId,
        changes: Mapping[str, bytes | None],
        *,
        thrift: bytes | None = None,
        complete: bool = False,
        source: int,
        at_us: int,
        data: bool = False,
    ) -> None:
        """Add, replace and (None) drop partitions of a table that is held.

        ``thrift`` replaces the table's own struct in the same transaction; ``complete`` ends
        its LOADING.
        """
        number, _ = self.topic_of(table)
        old = self.value(table)
        if old is None:
            return
        alone = changes and thrift is None and not complete
        if alone and not any(c or self.has_partition(table, n) for n, c in changes.items()):
            return  # they are nowhere, and were not
        struct = old.thrift if thrift is None else thrift
        row = self._row(table, old, struct, source=source, data=bool(changes))

        def build(version: int) -> list[Entry]:
            blocks, templates = self._blocks(
                table, struct, changes, templates=old.templates, version=version, empty=False
            )
            value = TableValue(
                incarnation=old.incarnation,
                partitions=COMPLETE if complete else old.partitions,
                thrift=struct,
                templates=templates,
            )
            return self._table(table, value, version, data=data, anew=False) + blocks

        self._write(number, table, build, source=source, at_us=at_us, row=row)

    def raise_data(
        self, table: TableId, *, partitions: Sequence[str], source: int, at_us: int
    ) -> tuple[int, int]:
        """Raise the data version of ``table``: its data changed, and its struct does not show it.

        The table's own entry gets the version, so every holder of it is notified. ``partitions``
        are for the history. Returns topic and version.
        """
        number, topic = self.topic_of(table)
        key = table_key(*table)

        def build(version: int) -> list[Entry]:
            have = topic.get(key)
            if have is None:
                return [Entry(key, version, version, version, 0, None, STUB)]
            return [have._replace(version=version, data_version=version)]

        have = topic.get(key)
        before = have.version if have is not None else 0
        of = [f"/{one}" for one in partitions[:PARTITIONS_NAMED_MAX]] or [""]
        rows = [
            ChangeRow(object=".".join(table) + one, kind=ChangeKind.DATA, before=before)
            for one in of
        ]
        self._version_log.write(number, build, source=source, at_us=at_us, changes=rows)
        return number, topic.version

    def drop(self, table: TableId, *, source: int, at_us: int) -> None:
        """Hold nothing of ``table``."""
        number, topic = self.topic_of(table)
        group = table_key(*table)
        self._leaves.pop(table, None)
        self.unfit_why.pop(table, None)

        def build(version: int) -> list[Entry]:
            return [prefix_tombstone(group, version)] if topic.rows(group) else []

        self._version_log.write(number, build, source=source, at_us=at_us)

    def withdraw(self, table: TableId, *, source: int, at_us: int) -> None:
        """Replace ``table`` by a stub: it changed, or may have, and cannot be read."""
        number, topic = self.topic_of(table)
        group = table_key(*table)
        self._leaves.pop(table, None)

        def build(version: int) -> list[Entry]:
            have = topic.get(group)
            if have is None or have.kind != VALUE:
                return []
            left = Entry(group, version, version, version, have.size, None, STUB)
            return [prefix_tombstone(group, version), left]

        row = ChangeRow(object=".".join(table), kind=ChangeKind.UNLOADED, before=0)
        self._version_log.write(number, build, source=source, at_us=at_us, changes=[row])

    def _write(
        self,
        number: int,
        table: TableId,
        build: Callable[[int], list[Entry]],
        *,
        source: int,
        at_us: int,
        row: ChangeRow,
    ) -> None:
        try:
            entries = self._version_log.write(
                number, build, source=source, at_us=at_us, changes=[row]
            )
        except (UsageError, WireError) as exc:  # a pull of it is refused with the reason
            self.unfit += 1
            self.unfit_why[table] = str(exc)
            self.withdraw(table, source=source, at_us=at_us)
            return
        self.unfit_why.pop(table, None)
        leaves = self._leaves.get(table)
        if leaves is not None:
            leaves.apply(entries)

    def _row(
        self,
        table: TableId,
        old: TableValue | None,
        thrift: bytes,
        *,
        source: int,
        data: bool = False,
    ) -> ChangeRow:
        entry = self.entry(table)
        if old is None or source == SOURCE_LOAD:
            kind = ChangeKind.LOADED
        else:
            same = old.thrift == thrift or data
            kind = ChangeKind.DATA if same else ChangeKind.SCHEMA
        return ChangeRow(object=".".join(table), kind=kind, before=entry.version if entry else 0)

    def _table(
        self, table: TableId, value: TableValue, version: int, *, data: bool, anew: bool
    ) -> list[Entry]:
        key = table_key(*table)
        have = None if anew else self.entry(table)
        encoded = _bounded(encode_table_value(value))
        if have is not None and have.value == encoded and not data:
            return []
        schema = version
        if have is not None and have.value is not None:
            old = _decoded(have.value)
            schema = have.schema_version if _same_schema(old.thrift, value.thrift) else version
        changed = version if data or have is None else have.data_version
        return [Entry(key, version, schema, changed, len(encoded), encoded)]

    def _blocks(
        self,
        table: TableId,
        thrift: bytes,
        changes: Mapping[str, bytes | None],
        *,
        templates: tuple[bytes, ...],
        version: int,
        empty: bool,
    ) -> tuple[list[Entry], tuple[bytes, ...]]:
        if not changes:
            return [], templates
        leaves = GroupLeaves(Topic(), b"", b"") if empty else self._of(table)
        edited = edit_partitions(
            leaves,
            changes,
            templates=templates,
            location=read_struct(thrift).location,
            version=version,
        )
        entries = [
            entry_of(block_key(*table, lower), version, value and _bounded(value))
            for lower, value in edited.blocks
        ]
        return entries, edited.templates

    def _names(self, table: TableId) -> set[str]:
        leaves = self._of(table)
        names: set[str] = set()
        for lower in leaves.bounds:
            version, value = leaves.read(lower)
            names.update(decode_block(value, version).names)
        return names

    def _of(self, table: TableId) -> GroupLeaves:
        leaves = self._leaves.get(table)
        if leaves is None:
            if len(self._leaves) >= LEAVES_MAX:
                del self._leaves[next(iter(self._leaves))]
            group = table_key(*table)
            topic = self.topic_of(table)[1]
            leaves = self._leaves[table] = GroupLeaves(topic, group, block_key(*table, ""))
        return leaves


@lru_cache(maxsize=4096)
def read_struct(thrift: bytes) -> Table:
    """Return the table in ``thrift``, read once for all who look at the same bytes."""
    return read_table(thrift, 0)


def _schema_of(thrift: bytes) -> tuple[object, ...]:
    table = read_struct(thrift)
    of_spark = {key: v for key, v in table.parameters.items() if key.startswith(SPARK_SCHEMA)}
    shape = table.columns, table.partition_columns, table.location, table.storage
    return *shape, table.view_text, of_spark


def _same_schema(old: bytes, new: bytes) -> bool:
    return old == new or _schema_of(old) == _schema_of(new)


def _bounded(value: bytes) -> bytes:
    if len(value) > VALUE_BYTES_MAX:
        raise UsageError(f"value of {len(value)} bytes, {VALUE_BYTES_MAX} allowed")
    return value


def _partitioned(thrift: bytes) -> bool:
    return bool(read_struct(thrift).partition_columns)
