"""Tables: the tables and partitions of catalogd, as entries of the version log's topics.

    a table's topic   its own entry, and its blocks of partitions

    nothing or LOADING ──whole──▶ COMPLETE | ABSENT ──partitions, object──▶ …  ──gone──▶ nothing

Each method that writes is one transaction of one topic; a table and its partitions have one
version.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from ...topics.errors import UsageError, WireError
from ...topics.newest import Newest
from ...topics.objects.changes import ChangeKind
from ...topics.objects.encoding.templates import Templates
from ...topics.objects.encoding.values import (
    ABSENT,
    COMPLETE,
    LOADING,
    PartitionRecord,
    TableValue,
    decode_block,
    edit_partitions,
    encode_table_value,
)
from ...topics.objects.names import TableId, block_key, table_key, table_of
from ...topics.objects.tables import Column
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
from ...topics.wire.messages.data import SOURCE_LOAD, SOURCE_OVERWRITES
from .decoded import location, read_struct, read_value
from .group_leaves import GroupLeaves
from .versions import VersionLog

PARTITIONS_NAMED_MAX: Final = 100  # in the history, of one write
SPARK_SCHEMA: Final = "spark.sql.sources."  # Spark's own columns; HMS may have only one column, col
LEAVES_MAX: Final = 4096  # tables whose lower bounds are kept sorted between two changes


@dataclass(slots=True)
class FilesWritten:
    """The files that changes of a table have touched.

    ``names``: of partitions, as reports have them; ``anywhere``: others, too. ``folders``: where
    files lie, or lay, that the names do not tell. ``raised``: its own data version was raised.
    """

    source: int
    names: set[str] = field(default_factory=set)
    anywhere: bool = False
    folders: set[str] = field(default_factory=set)
    raised: bool = False

    def merge(self, other: "FilesWritten") -> None:
        """Know what ``other`` knows as well."""
        self.source = max(self.source, other.source, key=lambda one: one == SOURCE_OVERWRITES)
        self.names |= other.names
        self.anywhere |= other.anywhere or len(self.names) > PARTITIONS_NAMED_MAX
        self.folders |= other.folders
        self.raised |= other.raised


class Tables:
    """The tables that catalogd holds; their entries are in the topics of the version log."""

    def __init__(self, version_log: VersionLog, num_topics: int) -> None:
        self._version_log = version_log
        self._num_topics = num_topics
        self._leaves = Newest[TableId, GroupLeaves](LEAVES_MAX)
        self.rejected = 0  # times that a table was: it is too large for a value, or not text
        self.rejected_why: dict[TableId, str] = {}  # the tables that are rejected now
        self._written: dict[TableId, FilesWritten] = {}  # since ``take_written``

    def topic_of(self, table: TableId) -> tuple[int, Topic]:
        """Return the id and the topic of ``table``."""
        number = table_topic(*table, self._num_topics)
        return number, self._version_log.topics[number]

    def entry(self, table: TableId) -> Entry | None:
        """Return the own entry of ``table``, of any name; None if nothing is held."""
        try:
            key = table_key(*table)
        except UsageError:
            return None  # no key can hold the name
        return self.topic_of(table)[1].get(key)

    def holds(self, table: TableId) -> bool:
        """Return whether anything but a stub is held of ``table``."""
        entry = self.entry(table)
        return entry is not None and entry.value is not None

    def value(self, table: TableId) -> TableValue | None:
        """Return what is held of ``table`` itself; None if it is nothing or a stub."""
        entry = self.entry(table)
        return read_value(entry.value) if entry is not None and entry.value is not None else None

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

    def partition_names(self, table: TableId) -> set[str]:
        """Return the names of the partitions of ``table`` that are held. Cost: O(partitions)."""
        return set(chain.from_iterable(self.blocks(table)))

    def blocks(self, table: TableId) -> Iterator[tuple[str, ...]]:
        """Yield the names of each block of partitions of ``table``.

        The table may be written between two of them: later blocks are as they are then.
        """
        lower = next(iter(self._of(table).bounds), None)
        while lower is not None:
            version, value = self._of(table).read(lower)
            yield decode_block(value, version).names
            lower = self._of(table).after(lower)

    def structs(self, table: TableId, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield those of ``names`` that are held, which are sorted, each with its Thrift struct.

        Cost: each block that has any of them is decoded once.
        """
        value, leaves = self.value(table), self._of(table)
        templates = Templates(() if value is None else value.templates, "")
        decoded, records = None, dict[str, PartitionRecord]()
        for name in names:
            lower = leaves.floor(name)
            if lower is not None and lower != decoded:
                version, block = leaves.read(lower)
                decoded, records = (
                    lower,
                    {r.name: r for r in decode_block(block, version).records()},
                )
            if name in records:
                _, _, number, slots = records[name]
                yield name, templates.join(number, slots, name)

    def sample(self, table: TableId) -> bytes | None:
        """Return the struct of the last partition of ``table``; None: it has none."""
        bounds = self._of(table).bounds
        if not bounds:
            return None
        version, value = self._of(table).read(bounds[-1])
        last = decode_block(value, version).names[-1]
        return next((struct for _, struct in self.structs(table, [last])), None)

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
        data: bool,
    ) -> None:
        """Hold ``table`` with exactly ``partitions``; None: LOADING, with none of them yet.

        What stays the same is not written again, unless the incarnation is another.
        """
        old = self.value(table)
        anew = old is None or old.incarnation != incarnation or partitions is None
        value = TableValue(
            incarnation=incarnation,
            partitions=_state(thrift, known=partitions is not None),
            thrift=thrift,
            templates=() if anew or old is None else old.templates,
        )
        self._write(table, value, partitions or {}, whole=True, anew=anew, data=data, source=source)

    def write_partitions(
        self,
        table: TableId,
        changes: Mapping[str, bytes | None],
        *,
        thrift: bytes | None = None,
        complete: bool = False,
        source: int,
        data: bool = False,
    ) -> None:
        """Add, replace and (None) drop partitions of a table that is held.

        ``thrift`` replaces the table's own struct in the same transaction; ``complete`` ends
        its LOADING.
        """
        old = self.value(table)
        if old is None:
            return
        alone = changes and thrift is None and not complete
        if alone and not any(c or self.has_partition(table, n) for n, c in changes.items()):
            return  # they are nowhere, and were not
        value = replace(
            old,
            partitions=COMPLETE if complete else old.partitions,
            thrift=old.thrift if thrift is None else thrift,
        )
        self._write(table, value, changes, data=data, source=source)

    def take_written(self) -> dict[TableId, FilesWritten]:
        """Remove and return which files may have changed, by table; loads change none."""
        written, self._written = self._written, {}
        return written

    def raise_data(
        self, table: TableId, *, partitions: Sequence[str], source: int
    ) -> tuple[int, int]:
        """Raise the data version of ``table``: its data changed, and its struct does not show it.

        The table's own entry gets the version, so every holder of it is notified. ``partitions``
        are for the history. Returns topic and version.
        Caller: the reports of writes, the events, sweeps, orders of operators.
        Affects: as of ``raise_data_of_alias``; the aliases of the table (``take_written``).
        """
        self._note_written(table, partitions, source=source, raised=True)
        return self.raise_data_of_alias(table, partitions=partitions, source=source)

    def raise_data_of_alias(
        self, table: TableId, *, partitions: Sequence[str], source: int
    ) -> tuple[int, int]:
        """Raise the data version of ``table``, an alias: a table over the folder that was written.

        ``take_written`` does not return it. Returns topic and version.
        Caller: the aliases of a table that was written.
        Affects: drivers, whose Spark discards what it has cached of the files; the history.
        """
        number, topic = self.topic_of(table)
        have = self.entry(table)
        before = have.version if have is not None else 0
        named = [f"/{one}" for one in partitions[:PARTITIONS_NAMED_MAX]]
        if not named or len(partitions) > PARTITIONS_NAMED_MAX:
            named.append("")  # and others
        with self._version_log.transaction(number, source=source) as written:
            version = written.version
            if have is None:
                entry = Entry(table_key(*table), version, version, version, 0, None, STUB)
            else:
                entry = have._replace(version=version, data_version=version)
            written.add([entry])
            for one in named:
                written.note(".".join(table) + one, ChangeKind.DATA, before)
        return number, topic.version

    def raise_version(self, table: TableId, *, source: int) -> tuple[int, int]:
        """Notify every reader that ``table`` is about to differ; its data stays the same.

        No reader is notified of a table of which nothing is held. Returns topic and version.
        Caller: the events for column statistics, the reports for a driver's statement.
        Affects: readers, which drop the table from memory.
        """
        number, topic = self.topic_of(table)
        have = self.entry(table)
        if have is None:
            return 0, 0
        with self._version_log.transaction(number, source=source) as written:
            written.add([have._replace(version=written.version)])
        return number, topic.version

    def drop(self, table: TableId, *, source: int) -> None:
        """Hold nothing of ``table``.

        Caller: the materializer, for a table that the metastore has no more.
        Affects: readers, whose watches see the table go; its history, which ends.
        """
        if self.holds(table):
            self._note_written(table, (), source=source, raised=True)
        self.rejected_why.pop(table, None)
        number, _ = self.topic_of(table)
        with self._version_log.transaction(number, source=source) as written:
            written.add(self._end(table, written.version))

    def end_content(self, table: TableId, *, source: int) -> None:
        """Replace ``table`` by a stub: it changed, or may have, and cannot be read.

        Caller: the materializer for an unreadable table, an operator's order to invalidate.
        Affects: readers, which discard the content and pull it at the next read.
        """
        number, topic = self.topic_of(table)
        group = table_key(*table)
        self._leaves.pop(table, None)
        have = topic.get(group)
        if have is None or have.kind != VALUE:
            return
        with self._version_log.transaction(number, source=source) as written:
            version = written.version
            left = Entry(group, version, version, version, have.size, None, STUB)
            written.add([prefix_tombstone(group, version), left])
            written.note(".".join(table), ChangeKind.UNLOADED, 0)

    def unload(self, table: TableId) -> bool:
        """Replace ``table`` by a stub, until it is used; return whether it was loaded.

        Nothing of it has changed: its versions of schema and data stay.

        Caller: the unloading.
        Affects: hubs and readers, which discard the content; a pull loads the table again.
        """
        number, topic = self.topic_of(table)
        group = table_key(*table)
        have = topic.head(group)
        if have is None or have.kind != VALUE or not self.loaded(table):
            return False
        self._leaves.pop(table, None)
        with self._version_log.transaction(number, source=SOURCE_LOAD) as written:
            left = have._replace(version=written.version, value=None, kind=STUB)
            written.add([prefix_tombstone(group, written.version), left])
            written.note(".".join(table), ChangeKind.UNLOADED, have.version)
        return True

    def is_stub(self, table: TableId) -> bool:
        """Return whether ``table`` was unloaded, or could not be read."""
        head = self.topic_of(table)[1].head(table_key(*table))
        return head is not None and head.kind == STUB

    def raise_unloaded(self, table: TableId, *, source: int) -> None:
        """Notify every reader that ``table``, of which there is a stub, has changed in any way.

        Caller: the events, in place of a read: an unloaded table is read when it is used.
        Affects: readers, whose claims of the table are stale, and drivers, as of ``raise_data``.
        """
        number, topic = self.topic_of(table)
        have = topic.head(table_key(*table))
        assert have is not None
        assert have.kind == STUB
        self._note_written(table, (), source=source, raised=True)
        with self._version_log.transaction(number, source=source) as written:
            version = written.version
            written.add([Entry(have.key, version, version, version, have.size, None, STUB)])
            written.note(".".join(table), ChangeKind.SCHEMA, have.version)

    def every_table(self) -> Iterator[TableId]:
        """Yield every table of which something is held, or a stub. Cost: O(all tables)."""
        for number, topic in self._version_log.topics.items():
            if number != NAMESPACE:
                yield from map(table_of, topic.group_ids())

    def _write(
        self,
        table: TableId,
        value: TableValue,
        partitions: Mapping[str, bytes | None],
        *,
        whole: bool = False,
        anew: bool = False,
        data: bool,
        source: int,
    ) -> None:
        """Write ``value`` and ``partitions`` in one transaction, or a stub of what fits none.

        ``whole``: the table has no other partitions. ``anew``: nothing stays of what was held.
        """
        number, _ = self.topic_of(table)
        have, old = self.entry(table), self.value(table)
        touched = data or bool(partitions) or old is None
        if touched:
            self._note_written(table, partitions, source=source, raised=data)
        if old is None or source == SOURCE_LOAD:
            kind = ChangeKind.LOADED
        else:
            same = not anew and _same_schema(old.thrift, value.thrift)
            kind = ChangeKind.DATA if same else ChangeKind.SCHEMA
        try:
            with self._version_log.transaction(number, source=source) as written:
                written.note(".".join(table), kind, have.version if have else 0)
                changes = partitions
                if anew:
                    written.add(self._end(table, written.version))
                elif whole:
                    gone = self.partition_names(table).difference(partitions)
                    changes = {**partitions, **dict.fromkeys(gone)}
                version = written.version
                blocks, templates = self._blocks(table, value, changes, version=version, empty=anew)
                own = replace(value, templates=templates)
                written.add(self._own(table, own, version, data=data, anew=anew))
                written.add(blocks)
        except (UsageError, WireError) as exc:  # a pull of it is refused with the reason
            self.rejected += 1
            self.rejected_why[table] = str(exc)
            self.end_content(table, source=source)
            return
        self.rejected_why.pop(table, None)
        leaves = self._leaves.get(table)
        if leaves is not None:
            leaves.apply(written.entries)
        if touched:
            self._note_written(table, partitions, source=source, raised=data)

    def _end(self, table: TableId, version: int) -> list[Entry]:
        """Return what ends everything that is held of ``table``."""
        self._leaves.pop(table, None)
        group = table_key(*table)
        return [prefix_tombstone(group, version)] if self.topic_of(table)[1].heads(group) else []

    def _note_written(
        self, table: TableId, names: Collection[str], *, source: int, raised: bool
    ) -> None:
        """Note that files of ``table`` may have changed, or of its partitions ``names`` alone."""
        if source == SOURCE_LOAD:
            return
        few = 0 < len(names) <= PARTITIONS_NAMED_MAX
        one = FilesWritten(source, set(names if few else ()), anywhere=not few, raised=raised)
        value = self.value(table)
        if value is not None and not few:
            one.folders.add(read_struct(value.thrift).data_location)
        elif value is not None:
            one.folders.update(self._own_folders(table, value, one.names))
        known = self._written.setdefault(table, one)
        if known is not one:
            known.merge(one)

    def _own_folders(self, table: TableId, value: TableValue, names: set[str]) -> Iterator[str]:
        """Yield the locations of those of ``names`` that do not lie where their names say."""
        templates = Templates(value.templates, "")
        if all(base is not None for base in templates.bases()):
            return
        leaves = self._of(table)
        for lower in {found for name in names if (found := leaves.floor(name)) is not None}:
            version, block = leaves.read(lower)
            for name, _, number, slots in decode_block(block, version).records():
                if name in names:
                    yield location(templates, number, slots, name=name)

    def _own(
        self, table: TableId, value: TableValue, version: int, *, data: bool, anew: bool
    ) -> list[Entry]:
        key = table_key(*table)
        have = None if anew else self.entry(table)
        encoded = encode_table_value(value)
        if have is not None and have.value == encoded and not data:
            return []
        schema = version
        if have is not None and have.value is not None:
            old = read_value(have.value)
            schema = have.schema_version if _same_schema(old.thrift, value.thrift) else version
        changed = version if data or have is None else have.data_version
        return [Entry(key, version, schema, changed, len(encoded), encoded)]

    def _blocks(
        self,
        table: TableId,
        value: TableValue,
        changes: Mapping[str, bytes | None],
        *,
        version: int,
        empty: bool,
    ) -> tuple[list[Entry], tuple[bytes, ...]]:
        """Return the blocks that ``changes`` touch, and the templates that they need."""
        if not changes:
            return [], value.templates
        edited = edit_partitions(
            GroupLeaves(Topic(), b"", b"") if empty else self._of(table),
            changes,
            templates=value.templates,
            location=read_struct(value.thrift).location,
            version=version,
        )
        entries = [
            entry_of(block_key(*table, lower), version, block) for lower, block in edited.blocks
        ]
        return entries, edited.templates

    def _of(self, table: TableId) -> GroupLeaves:
        leaves = self._leaves.get(table)
        if leaves is None:
            topic = self.topic_of(table)[1]
            leaves = GroupLeaves(topic, table_key(*table), block_key(*table, ""))
            self._leaves.put(table, leaves)
        return leaves


def _schema_of(thrift: bytes) -> tuple[object, ...]:
    table = read_struct(thrift)
    of_spark = {key: v for key, v in table.parameters.items() if key.startswith(SPARK_SCHEMA)}
    columns = table.metastore_columns, table.metastore_partition_columns
    shape = *columns, table.location, table.storage
    return *shape, table.view_text, of_spark


def _same_schema(old: bytes, new: bytes) -> bool:
    return old == new or _schema_of(old) == _schema_of(new)


def _state(thrift: bytes, *, known: bool) -> int:
    """Return the state of a table's partitions, which are ``known`` or are to be loaded."""
    if not known:
        return LOADING
    return COMPLETE if read_struct(thrift).partition_columns else ABSENT
