"""Namespace: which databases and tables exist, as entries of the namespace topic.

    d NUL db NUL          the database's Thrift struct
    n NUL db NUL lower    up to 64 names with type and incarnation
    c NUL drivers NUL     the operators' rules for drivers: no name, but every driver follows it

A table's incarnation is the version at which its name appeared, so a drop and a create within
one second, or within one transaction, are told apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from ...topics.objects.names import (
    DatabaseKey,
    TableId,
    database_key,
    names_group,
    names_key,
    parse_namespace_key,
    rules_key,
)
from ...topics.objects.rules import Rule, decode_rules, encode_rules
from ...topics.objects.values import (
    NameRecord,
    decode_names,
    edit_names,
    encode_database_value,
)
from ...topics.topic import NAMESPACE, Entry, entry_of, prefix_tombstone, tombstone
from ...topics.wire.messages import SOURCE_ORDERS
from .versions import ChangeKind, ChangeRow, GroupLeaves, VersionLog

_decoded = lru_cache(maxsize=4096)(decode_names)


class Namespace:
    """The databases and names of one catalogd; their entries are in the version log's topic."""

    def __init__(self, version_log: VersionLog) -> None:
        self._version_log = version_log
        self._topic = version_log.topics[NAMESPACE]
        self._leaves: dict[str, GroupLeaves] = {}  # by database, of those that were looked at

    @property
    def version(self) -> int:
        """The namespace topic's version."""
        return self._topic.version

    def databases(self) -> tuple[str, ...]:
        """Return the names of all databases."""
        keys = map(parse_namespace_key, self._topic.group_ids())
        return tuple(sorted(key.db for key in keys if isinstance(key, DatabaseKey)))

    def has_database(self, db: str) -> bool:
        """Return whether there is a database ``db``."""
        return self._topic.get(database_key(db)) is not None

    def tables(self, db: str) -> Iterator[NameRecord]:
        """Yield the tables of ``db``, sorted by name."""
        leaves = self._of(db)
        for lower in tuple(leaves.bounds):
            yield from _decoded(leaves.read(lower)[1])

    def find(self, table: TableId) -> NameRecord | None:
        """Return the record of ``table``; None if it does not exist."""
        leaves = self._of(table[0])
        lower = leaves.floor(table[1])
        if lower is None:
            return None
        records = _decoded(leaves.read(lower)[1])
        return next((record for record in records if record.name == table[1]), None)

    def rules(self) -> tuple[Rule, ...]:
        """Return the operators' rules for drivers, the newest last."""
        entry = self._topic.get(rules_key())
        return decode_rules(entry.value) if entry is not None and entry.value is not None else ()

    def set_rules(self, rules: Sequence[Rule], *, at_us: int) -> None:
        """Replace the rules for drivers."""
        if tuple(rules) == self.rules():
            return

        def build(version: int) -> list[Entry]:
            return [entry_of(rules_key(), version, encode_rules(rules) if rules else None)]

        self._version_log.write(NAMESPACE, build, source=SOURCE_ORDERS, at_us=at_us)

    def write(
        self,
        databases: Mapping[str, bytes | None],
        tables: Mapping[TableId, str | None],
        *,
        renewed: Sequence[TableId] = (),
        source: int,
        at_us: int,
    ) -> None:
        """Create, change and drop databases and names in one transaction.

        Args:
            databases: By name, the Thrift struct; None drops it with all its tables.
            tables: By (db, table), the type; None drops it.
            renewed: Those of ``tables`` that are another incarnation than the one known.
            source: SOURCE_* of the wire.
            at_us: Now.
        """
        rows: list[ChangeRow] = []

        def build(version: int) -> list[Entry]:
            entries: list[Entry] = []
            for db, thrift in databases.items():
                entries += self._database(db, thrift, version, rows=rows)
            by_db: dict[str, dict[str, str | None]] = {}
            for (db, table), kind in tables.items():
                if databases.get(db, b"") is not None:
                    by_db.setdefault(db, {})[table] = kind
            for db, changes in by_db.items():
                entries += self._names(db, changes, version, rows=rows, renewed=renewed)
            return entries

        # ``rows`` is filled by ``build`` before the transaction is made of both
        self._version_log.write(NAMESPACE, build, source=source, at_us=at_us, changes=rows)

    def _database(
        self, db: str, thrift: bytes | None, version: int, *, rows: list[ChangeRow]
    ) -> list[Entry]:
        key = database_key(db)
        have = self._topic.get(key)
        before = have.version if have else 0
        if thrift is None:
            names = [record.name for record in self.tables(db)]
            rows += [_row(f"{db}.{n}", ChangeKind.DROPPED, before) for n in names]
            if names:
                self._leaves.pop(db, None)
            if have is None and not names:
                return []
            rows.append(_row(db, ChangeKind.DROPPED, before))
            gone = [tombstone(key, version)] if have else []
            return [*gone, *([prefix_tombstone(names_group(db), version)] if names else [])]
        value = encode_database_value(thrift)
        if have is not None and have.value == value:
            return []
        rows.append(_row(db, ChangeKind.SCHEMA if have else ChangeKind.CREATED, before))
        return [entry_of(key, version, value)]

    def _names(
        self,
        db: str,
        changes: Mapping[str, str | None],
        version: int,
        *,
        rows: list[ChangeRow],
        renewed: Sequence[TableId],
    ) -> list[Entry]:
        leaves = self._of(db)
        wanted: dict[str, NameRecord | None] = {}
        for name, kind in changes.items():
            have = self.find((db, name))
            before = have.version if have else 0
            anew = have is None or (db, name) in renewed
            if kind is None:
                wanted[name] = None
            elif anew or (have is not None and kind and kind != have.type):
                born = version if anew or have is None else have.incarnation
                wanted[name] = NameRecord(name, kind, born, version)
            else:
                continue
            if have is not None and (kind is None or anew):
                rows.append(_row(f"{db}.{name}", ChangeKind.DROPPED, before))
            if kind is not None and anew:
                rows.append(_row(f"{db}.{name}", ChangeKind.CREATED, before))
        if not wanted:
            return []
        blocks = edit_names(leaves, wanted).blocks
        entries = [entry_of(names_key(db, lower), version, value) for lower, value in blocks]
        leaves.apply(entries)
        return entries

    def _of(self, db: str) -> GroupLeaves:
        leaves = self._leaves.get(db)
        if leaves is None:
            group = names_group(db)
            leaves = self._leaves[db] = GroupLeaves(self._topic, group, group)
        return leaves


def _row(name: str, kind: ChangeKind, before: int) -> ChangeRow:
    return ChangeRow(object=name, kind=kind, before=before)
