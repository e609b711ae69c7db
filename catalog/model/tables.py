"""The databases, tables and partitions of catalogd, as entries of the version log's topics.

    namespace topic   d NUL db NUL          the database's Thrift struct
                      n NUL db NUL lower    up to 64 names with type and incarnation
                      c NUL drivers NUL     the operators' rules for drivers, no name
                      c NUL metastore NUL   why its changes do not arrive, no name
    a table's topic   its own entry, and its blocks of partitions

    nothing or LOADING ──whole──▶ COMPLETE | ABSENT ──partitions, object──▶ …  ──gone──▶ nothing

Each method that writes is one transaction of one topic; a table and its partitions have one
version. A table's incarnation is the version at which its name appeared: it changes with a drop and
a create, even within one second or one transaction.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Final

from ...topics.comparison import database_as_held
from ...topics.errors import UsageError, WireError
from ...topics.newest import Newest
from ...topics.objects.changes import ChangeKind
from ...topics.objects.edits import Leaves
from ...topics.objects.names import (
    TableId,
    block_key,
    database_key,
    is_database,
    name_of_database,
    names_group,
    names_key,
    pause_key,
    problem_key,
    rules_key,
    table_key,
    table_of,
)
from ...topics.objects.rules import Rule, decode_rules, encode_rules
from ...topics.objects.tables import Column, Table, read_table
from ...topics.objects.templates import Templates
from ...topics.objects.thrift import fields, read_int
from ...topics.objects.values import (
    ABSENT,
    COMPLETE,
    LOADING,
    NameRecord,
    PartitionRecord,
    Pause,
    TableValue,
    decode_block,
    decode_database_value,
    decode_names,
    decode_pause,
    decode_problem,
    decode_table_value,
    document_bytes,
    edit_names,
    edit_partitions,
    encode_database_value,
    encode_pause,
    encode_problem,
    encode_table_value,
)
from ...topics.topic import (
    NAMESPACE,
    STUB,
    TOMBSTONE,
    VALUE,
    Entry,
    Topic,
    entry_of,
    prefix_tombstone,
    table_topic,
    tombstone,
)
from ...topics.wire.messages.data import SOURCE_LOAD, SOURCE_ORDERS, SOURCE_OVERWRITES
from .versions import OpenTransaction, VersionLog

PARTITIONS_NAMED_MAX: Final = 100  # in the history, of one write
SPARK_SCHEMA: Final = "spark.sql.sources."  # Spark's own columns; HMS may have only one, col
CREATE_TIME: Final = 4  # its field in the Thrift struct of a table
LEAVES_MAX: Final = 4096  # tables whose lower bounds are kept sorted between two changes

CACHED_BYTES_MAX: Final = 64 << 10  # of what is kept decoded; what is larger is decoded each time

_names_of = lru_cache(maxsize=4096)(decode_names)
_cached_database = lru_cache(maxsize=1024)(decode_database_value)
_cached_value = lru_cache(maxsize=4096)(decode_table_value)


class GroupLeaves(Leaves):
    """The blocks of one group of one topic, by their lower bounds."""

    def __init__(self, topic: Topic, group: bytes, blocks: bytes) -> None:
        """``blocks`` is what the keys of the group's blocks begin with."""
        self._topic = topic
        self._blocks = blocks
        keys = (entry.key for entry in topic.heads(group))
        start = len(blocks)
        self.bounds = sorted(key[start:].decode() for key in keys if key.startswith(blocks))

    def floor(self, name: str) -> str | None:
        """Return the largest bound at or below ``name``; None if there are no blocks."""
        at = bisect_right(self.bounds, name)
        return self.bounds[at - 1] if at else None

    def after(self, lower: str) -> str | None:
        """Return the smallest bound above ``lower``; None if there is none."""
        at = bisect_right(self.bounds, lower)
        return self.bounds[at] if at < len(self.bounds) else None

    def read(self, lower: str) -> tuple[int, bytes]:
        """Return version and value of the block at the bound ``lower``."""
        entry = self._topic.get(self._blocks + lower.encode())
        assert entry is not None, lower
        assert entry.value is not None, lower
        return entry.version, entry.value

    def apply(self, entries: Iterable[Entry]) -> None:
        """Keep up with ``entries``, which were written to the topic."""
        start = len(self._blocks)
        for entry in entries:
            if not entry.key.startswith(self._blocks):
                continue
            lower = entry.key[start:].decode()
            at = bisect_left(self.bounds, lower)
            known = at < len(self.bounds) and self.bounds[at] == lower
            if entry.kind == TOMBSTONE:
                if known:
                    del self.bounds[at]
            elif not known:
                insort(self.bounds, lower)


class Namespace:
    """The databases and names of one catalogd; their entries are in the version log's topic."""

    def __init__(self, version_log: VersionLog) -> None:
        self._version_log = version_log
        self._topic = version_log.topics[NAMESPACE]
        self._leaves: dict[str, GroupLeaves] = {}  # by database, of those that were looked at
        self.databases_count = len(self.databases())

    @property
    def version(self) -> int:
        """The namespace topic's version."""
        return self._topic.version

    def databases(self) -> tuple[str, ...]:
        """Return the names of all databases."""
        return tuple(sorted(map(name_of_database, filter(is_database, self._topic.group_ids()))))

    def check(self) -> None:
        """Assert every invariant."""
        assert self.databases_count == len(self.databases())

    def has_database(self, db: str) -> bool:
        """Return whether there is a database ``db``."""
        return self._topic.get(database_key(db)) is not None

    def database(self, db: str) -> bytes | None:
        """Return the Thrift struct of ``db`` as it is held; None if it is not."""
        entry = self._topic.get(database_key(db))
        return _cached_database(entry.value) if entry is not None and entry.value else None

    def tables(self, db: str) -> Iterator[NameRecord]:
        """Yield the tables of ``db``, sorted by name."""
        leaves = self._of(db)
        for lower in tuple(leaves.bounds):
            yield from _names_of(leaves.read(lower)[1])

    def every_table(self) -> Iterator[TableId]:
        """Yield every table; names may be written between two of them."""
        for db in self.databases():
            for record in tuple(self.tables(db)):
                yield db, record.name

    def find(self, table: TableId) -> NameRecord | None:
        """Return the record of ``table``; None if it does not exist."""
        leaves = self._of(table[0])
        lower = leaves.floor(table[1])
        if lower is None:
            return None
        records = _names_of(leaves.read(lower)[1])
        return next((record for record in records if record.name == table[1]), None)

    def rules(self) -> tuple[Rule, ...]:
        """Return the operators' rules for drivers, the newest last."""
        entry = self._topic.get(rules_key())
        return decode_rules(entry.value) if entry is not None and entry.value is not None else ()

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Replace the rules for drivers."""
        if tuple(rules) != self.rules():
            value = encode_rules(rules) if rules else None
            self._put(rules_key(), value, source=SOURCE_ORDERS)

    def metastore_problem(self) -> str:
        """Return why changes of the metastore do not arrive; empty if they do."""
        entry = self._topic.get(problem_key())
        return decode_problem(entry.value) if entry is not None and entry.value is not None else ""

    def set_metastore_problem(self, problem: str) -> None:
        """Say to every reader why changes of the metastore do not arrive; empty: they do."""
        if problem != self.metastore_problem():
            value = encode_problem(problem) if problem else None
            self._put(problem_key(), value, source=SOURCE_LOAD)

    def pause(self) -> Pause:
        """Return what is ordered of the metastore's events, and is not over."""
        entry = self._topic.get(pause_key())
        return Pause() if entry is None or entry.value is None else decode_pause(entry.value)

    def set_pause(self, pause: Pause) -> None:
        """Keep over restarts what is ordered of events, as long as that is not over."""
        value = encode_pause(pause) if pause != Pause() else None
        self._put(pause_key(), value, source=SOURCE_ORDERS)

    def raise_version(self, db: str, *, source: int) -> None:
        """Notify every reader that names in ``db``, if it exists, are about to differ."""
        entry = self._topic.get(database_key(db))
        if entry is not None:
            self._put(entry.key, entry.value, source=source)

    def _put(self, key: bytes, value: bytes | None, *, source: int) -> None:
        with self._version_log.transaction(NAMESPACE, source=source) as written:
            written.add([entry_of(key, written.version, value)])

    def write(
        self,
        databases: Mapping[str, bytes | None],
        tables: Mapping[TableId, str | None],
        *,
        renewed: Sequence[TableId] = (),
        source: int,
    ) -> None:
        """Create, change and drop databases and names in one transaction.

        Args:
            databases: By name, the Thrift struct; None drops it with all its tables.
            tables: By (db, table), the type; None drops it.
            renewed: Those of ``tables`` that are another incarnation than the one known.
            source: SOURCE_* of the wire.
        """
        by_db: dict[str, dict[str, str | None]] = {}
        for (db, table), kind in tables.items():
            if databases.get(db, b"") is not None:
                by_db.setdefault(db, {})[table] = kind
        with self._version_log.transaction(NAMESPACE, source=source) as written:
            for db, thrift in databases.items():
                self._write_database(written, db, thrift)
            for db, changes in by_db.items():
                self._write_names(written, db, changes, renewed=renewed)

    def _write_database(self, written: OpenTransaction, db: str, thrift: bytes | None) -> None:
        key = database_key(db)
        have = self._topic.get(key)
        before = have.version if have else 0
        if thrift is None:
            self._drop_database(written, db)
            return
        value = encode_database_value(database_as_held(thrift))
        if have is not None and have.value == value:
            return
        self.databases_count += have is None
        written.note(db, ChangeKind.SCHEMA if have else ChangeKind.CREATED, before)
        written.add([entry_of(key, written.version, value)])

    def _drop_database(self, written: OpenTransaction, db: str) -> None:
        have = self._topic.get(database_key(db))
        before = have.version if have else 0
        names = [record.name for record in self.tables(db)]
        if have is None and not names:
            return
        for name in names:
            written.note(f"{db}.{name}", ChangeKind.DROPPED, before)
        written.note(db, ChangeKind.DROPPED, before)
        if have is not None:
            self.databases_count -= 1
            written.add([tombstone(database_key(db), written.version)])
        if names:
            self._leaves.pop(db, None)
            written.add([prefix_tombstone(names_group(db), written.version)])

    def _write_names(
        self,
        written: OpenTransaction,
        db: str,
        changes: Mapping[str, str | None],
        *,
        renewed: Sequence[TableId],
    ) -> None:
        leaves = self._of(db)
        wanted: dict[str, NameRecord | None] = {}
        for name, kind in changes.items():
            have = self.find((db, name))
            same = None if (db, name) in renewed else have  # the record of this incarnation
            if same is not None and kind in ("", same.type):
                continue
            born = written.version if same is None else same.incarnation
            wanted[name] = None if kind is None else NameRecord(name, kind, born, written.version)
            before = have.version if have else 0
            if have is not None and (kind is None or same is None):
                written.note(f"{db}.{name}", ChangeKind.DROPPED, before)
            if kind is not None and same is None:
                written.note(f"{db}.{name}", ChangeKind.CREATED, before)
        if not wanted:
            return
        blocks = edit_names(leaves, wanted).blocks
        entries = [entry_of(names_key(db, low), written.version, value) for low, value in blocks]
        leaves.apply(entries)
        written.add(entries)

    def _of(self, db: str) -> GroupLeaves:
        leaves = self._leaves.get(db)
        if leaves is None:
            group = names_group(db)
            leaves = self._leaves[db] = GroupLeaves(self._topic, group, group)
        return leaves


@dataclass(slots=True)
class FilesWritten:
    """What is known of the files that a table's changes have touched.

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
    """What catalogd holds of tables; their entries are in the version log's topics."""

    def __init__(self, version_log: VersionLog, num_topics: int) -> None:
        self._version_log = version_log
        self._num_topics = num_topics
        self._leaves = Newest[TableId, GroupLeaves](LEAVES_MAX)
        self.unfit = 0  # times that an object could not be held: too large for a value, or not text
        self.unfit_why: dict[TableId, str] = {}  # the tables that are unfit now
        self._written: dict[TableId, FilesWritten] = {}  # since it was taken

    def topic_of(self, table: TableId) -> tuple[int, Topic]:
        """Return the id and the topic of ``table``."""
        number = table_topic(*table, self._num_topics)
        return number, self._version_log.topics[number]

    def entry(self, table: TableId) -> Entry | None:
        """Return the table's own entry; None if nothing is held."""
        return self.topic_of(table)[1].get(table_key(*table))

    def holds(self, table: TableId) -> bool:
        """Return whether anything but a stub is held of ``table``."""
        entry = self.entry(table)
        return entry is not None and entry.value is not None

    def value(self, table: TableId) -> TableValue | None:
        """Return what is held of ``table`` itself; None if it is nothing or a stub."""
        entry = self.entry(table)
        return _value_of(entry.value) if entry is not None and entry.value is not None else None

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

        Cost: each block that has one of them is decoded once.
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
        self,
        table: TableId,
        *,
        partitions: Sequence[str],
        source: int,
        noted: bool = True,
    ) -> tuple[int, int]:
        """Raise the data version of ``table``: its data changed, and its struct does not show it.

        The table's own entry gets the version, so every holder of it is notified. ``partitions``
        are for the history. ``noted``: ``take_written`` returns it. Returns topic and version.
        """
        if noted:
            self._note_written(table, partitions, source=source, raised=True)
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

        Of a table of which nothing is held nobody is notified. Returns topic and version.
        """
        number, topic = self.topic_of(table)
        have = self.entry(table)
        if have is None:
            return 0, 0
        with self._version_log.transaction(number, source=source) as written:
            written.add([have._replace(version=written.version)])
        return number, topic.version

    def drop(self, table: TableId, *, source: int) -> None:
        """Hold nothing of ``table``."""
        if self.holds(table):
            self._note_written(table, (), source=source, raised=True)
        self.unfit_why.pop(table, None)
        number, _ = self.topic_of(table)
        with self._version_log.transaction(number, source=source) as written:
            written.add(self._end(table, written.version))

    def withdraw(self, table: TableId, *, source: int) -> None:
        """Replace ``table`` by a stub: it changed, or may have, and cannot be read."""
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
        """Notify every reader that ``table``, of which there is a stub, has changed in any way."""
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
        """Write ``value`` and ``partitions`` in one transaction; withdraw what fits no value.

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
                changes = dict(partitions)
                if anew:
                    written.add(self._end(table, written.version))
                elif whole:
                    changes |= dict.fromkeys(self.partition_names(table).difference(changes))
                version = written.version
                blocks, templates = self._blocks(table, value, changes, version=version, empty=anew)
                own = replace(value, templates=templates)
                written.add(self._own(table, own, version, data=data, anew=anew))
                written.add(blocks)
        except (UsageError, WireError) as exc:  # a pull of it is refused with the reason
            self.unfit += 1
            self.unfit_why[table] = str(exc)
            self.withdraw(table, source=source)
            return
        self.unfit_why.pop(table, None)
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
                    yield templates.location(number, slots, name)

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
            old = _value_of(have.value)
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


def read_struct(thrift: bytes) -> Table:
    """Return the table in ``thrift``, read once for all who look at the same bytes."""
    return _cached_table(thrift) if len(thrift) <= CACHED_BYTES_MAX else read_table(thrift, 0)


@lru_cache(maxsize=4096)
def _cached_table(thrift: bytes) -> Table:
    return read_table(thrift, 0)


def _value_of(value: bytes) -> TableValue:
    """Return what is in a table's entry, decoded once unless it is large."""
    small = document_bytes(value) <= CACHED_BYTES_MAX
    return _cached_value(value) if small else decode_table_value(value)


def forget_decoded() -> None:
    """Keep nothing decoded: a process whose memory is short decodes it again."""
    for cache in (_names_of, _cached_database, _cached_value, _cached_table):
        cache.cache_clear()


def created_at(thrift: bytes) -> int | None:
    """Return when the table in ``thrift`` was created, s since 1970; None if it does not say."""
    found = (read_int(thrift, one) for one in fields(thrift) if one.id == CREATE_TIME)
    return next(found, None)


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
