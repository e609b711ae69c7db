"""Namespace: the databases and names of catalogd, and what it says to all of its drivers.

    namespace topic   d NUL db NUL          the database's Thrift struct
                      n NUL db NUL lower    up to 64 names with type and incarnation
                      c NUL drivers NUL     the operators' rules for drivers, no name
                      c NUL metastore NUL   why its changes do not arrive, no name

Each method that writes is one transaction. A table's incarnation is the version at which its name
appeared: it changes with a drop and a create, even within one second or one transaction.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from ...topics.comparison import database_as_held
from ...topics.errors import UsageError
from ...topics.objects.changes import ChangeKind
from ...topics.objects.encoding.values import (
    NameRecord,
    Pause,
    decode_pause,
    decode_problem,
    edit_names,
    encode_database_value,
    encode_pause,
    encode_problem,
)
from ...topics.objects.names import (
    NamesKey,
    TableId,
    database_key,
    is_database,
    name_of_database,
    names_group,
    names_key,
    parse_namespace_key,
    pause_key,
    problem_key,
    rules_key,
)
from ...topics.objects.rules import Rule, decode_rules, encode_rules
from ...topics.objects.source_problem import SourceProblem
from ...topics.topic import NAMESPACE, entry_of, prefix_tombstone, tombstone
from ...topics.wire.messages.data import SOURCE_LOAD, SOURCE_ORDERS
from .decoded import database_of, names_of
from .group_leaves import GroupLeaves
from .versions import OpenTransaction, VersionLog

BLOCKS_SUMMED_MAX: Final = 16  # in one call of ``sum_names``: 1,000 names, 0.7 ms


@dataclass(slots=True)
class _Sum:
    """``names_sum`` of the tables of a database up to the name ``upto``; None: of all."""

    value: int = 0
    upto: str | None = ""

    def covers(self, name: str) -> bool:
        return self.upto is None or name <= self.upto


class Namespace:
    """The databases and names of one catalogd; their entries are in the version log's topic."""

    def __init__(self, version_log: VersionLog) -> None:
        self._version_log = version_log
        self._topic = version_log.topics[NAMESPACE]
        self._leaves: dict[str, GroupLeaves] = {}  # by database that has names and was looked at
        self._sums: dict[str, _Sum] = {}  # of the names in a database, once the comparison wants it
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
        for db, held in self._sums.items():
            names = chain.from_iterable(self.names(db))
            assert held.value == names_sum(filter(held.covers, names)), db

    def has_database(self, db: str) -> bool:
        """Return whether there is a database ``db``, of any name."""
        with suppress(UsageError):  # else no key can hold the name
            return self._topic.get(database_key(db)) is not None
        return False

    def database(self, db: str) -> bytes | None:
        """Return the Thrift struct of ``db`` as it is held; None if it is not."""
        entry = self._topic.get(database_key(db))
        return database_of(entry.value) if entry is not None and entry.value else None

    def tables(self, db: str) -> Iterator[NameRecord]:
        """Yield the tables of ``db``, sorted by name."""
        leaves = self._of(db)
        for lower in tuple(leaves.bounds):
            yield from names_of(leaves.read(lower)[1])

    def names(self, db: str, after: str = "") -> Iterator[tuple[str, ...]]:
        """Yield the names of the tables of ``db`` ``after`` one, sorted, those of a block at once.

        Names may be written between two blocks: later blocks are as they are then.
        """
        last, lower = after, self._of(db).floor(after)
        while lower is not None:
            block = names_of(self._of(db).read(lower)[1])
            names = tuple([record.name for record in block if record.name > last])
            if names:
                last = names[-1]
                yield names
            lower = self._of(db).after(lower)

    def sum_names(self, db: str) -> int | None:
        """Return ``names_sum`` of the tables of ``db``; None: call again, it is not whole yet.

        Names may be written between two calls. Cost: O(1) once it is whole.
        """
        if not self._of(db).bounds:
            return 0
        held = self._sums.setdefault(db, _Sum())
        if held.upto is not None:
            some = tuple(islice(self.names(db, held.upto), BLOCKS_SUMMED_MAX))
            held.value += names_sum(chain.from_iterable(some))
            held.upto = some[-1][-1] if len(some) == BLOCKS_SUMMED_MAX else None
        return held.value if held.upto is None else None

    def every_table(self) -> Iterator[TableId]:
        """Yield every table, also of a database that is still being read.

        Names may be written between two tables.
        """
        keys = map(parse_namespace_key, tuple(self._topic.group_ids()))
        for db in sorted(key.db for key in keys if isinstance(key, NamesKey)):
            for names in self.names(db):
                yield from ((db, name) for name in names)

    def find(self, table: TableId) -> NameRecord | None:
        """Return the record of ``table``, of any name; None if it does not exist."""
        try:
            leaves = self._of(table[0])
        except UsageError:
            return None  # no key can hold the name
        lower = leaves.floor(table[1])
        if lower is None:
            return None
        records = names_of(leaves.read(lower)[1])
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

    def source_problem(self) -> SourceProblem | None:
        """Return why changes of the metastore do not arrive; None if they do."""
        entry = self._topic.get(problem_key())
        if entry is None or entry.value is None:
            return None
        return decode_problem(entry.value)

    def set_source_problem(self, problem: SourceProblem | None) -> None:
        """Notify every reader why changes of the metastore do not arrive; None: they do."""
        if problem != self.source_problem():
            value = encode_problem(problem) if problem is not None else None
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
            renewed: Those of ``tables`` that are another incarnation than the known table.
            source: SOURCE_* of the wire.

        Caller: the listing of names for what it has found, the materializer for what was read.
        Affects: readers, which learn the names, and whose watches see tables come and go.
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
        self._sums.pop(db, None)
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
        held, change = self._sums.get(db, _Sum()), 0  # of the sum of names
        for name, kind in changes.items():
            have = self.find((db, name))
            same = None if (db, name) in renewed else have  # the record of this incarnation
            if same is not None and kind in ("", same.type):
                continue
            born = written.version if same is None else same.incarnation
            wanted[name] = None if kind is None else NameRecord(name, kind, born, written.version)
            if held.covers(name):
                change += names_sum([name]) * ((kind is not None) - (have is not None))
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
        self._leaves[db] = leaves
        held.value += change
        written.add(entries)

    def _of(self, db: str) -> GroupLeaves:
        """Return the blocks of names of ``db``, and keep them if there are any.

        A peer may ask for any name: what does not exist is not kept, or memory would grow.
        """
        leaves = self._leaves.get(db)
        if leaves is None:
            group = names_group(db)
            leaves = GroupLeaves(self._topic, group, group)
            if leaves.bounds:
                self._leaves[db] = leaves
        return leaves


def names_sum(names: Iterable[str]) -> int:
    """Return the sum of the hashes of ``names``, in any order: another one for other names.

    A sum follows each change of a name in O(1). Two lists of names have the same sum by chance once
    in 2^64 times; it holds in one process only, as Python's hashes do.
    """
    return sum(map(hash, names))
