"""Held: compares the databases, tables and partitions that catalogd holds with the metastore's.

    every_table ──next_tables──▶ Read ──metastore──▶ ReadDone ──compare, in slices──▶ Difference

It changes nothing. ``topics/comparison.py`` says whether two objects are equal.
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

from ...topics.comparison import (
    DATABASE,
    PARTITION,
    TABLE,
    Shape,
    database_as_held,
    differences,
    digest,
    same_struct,
)
from ...topics.errors import WireError
from ...topics.objects.encoding.values import COMPLETE
from ...topics.objects.names import TableId
from ..ingest.loads.chunked_comparison import OTHER_BYTES_COST
from ..ingest.loads.follow_rules import FollowRules
from ..metastore.port import NamesListed, ReadDone, TableRead
from ..model.namespace import Namespace
from ..model.tables import Tables

LOOKED_AT_MAX: Final = 200  # tables in one call of ``next_tables``: 1 ms
TABLES_PER_SLICE: Final = 100  # compared in one turn, if their bytes are those held: 0.9 ms
PARTITIONS_PER_SLICE: Final = 96  # likewise, three blocks: 0.6 ms
DATABASES_PER_SLICE: Final = 50
BLOCKS_PER_SLICE: Final = 16  # of names only: 1,000 tables, or 500 partitions
VALUES_SAID_MAX: Final = 3  # of an object that differs
VALUE_CHARS_MAX: Final = 60  # of each

Name = tuple[str, str, str]
"""Database, table and partition; the last are empty in the name of a table or a database."""


class Difference(NamedTuple):
    """An object that catalogd holds otherwise than the metastore, or that only one of them has."""

    name: Name
    content: bool  # both have it, with other content
    what: str = ""  # differs, with what is held and what is there; of the first object of a read


class Held:
    """The objects that catalogd holds, by name."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        follows: Callable[[str], bool],
        every_table: Callable[[], Iterator[TableId]],
        pending: Callable[[TableId], bool],
        rules: FollowRules,
    ) -> None:
        """Take the parts that hold the objects.

        Args:
            namespace: The databases and names.
            tables: The tables and partitions.
            follows: Whether a database is not left out.
            every_table: The tables known, in the order of their names.
            pending: Whether an object is being read again already, so that it is not compared.
            rules: Which tables are not followed: only whether they are followed again is compared.
        """
        self._rules = rules
        self._is_said = False  # it was said what differs of an object of the present answer
        self._namespace = namespace
        self._tables = tables
        self._follows = follows
        self._every_table = every_table
        self._pending = pending

    def has(self, name: Name) -> bool:
        """Return whether what has ``name`` is held."""
        db, table, part = name
        if part:
            return self._tables.has_partition((db, table), part)
        if table:
            return self._namespace.find((db, table)) is not None
        return self._namespace.has_database(db)

    def mark(self, name: Name) -> bytes | None:
        """Return a value that changes with the content of an object; None: it is not held."""
        db, table, part = name
        value = self._tables.value((db, table)) if table else None
        if part:
            found = next(self._tables.structs((db, table), [part]), (part, None))[1]
        elif table:
            found = None if value is None else value.thrift
        else:
            found = self._namespace.database(db)
        return None if found is None else digest(found)

    def databases(self) -> tuple[str, ...]:
        """Return the names of the databases that are held."""
        return self._namespace.databases()

    def tables(self) -> Iterator[TableId]:
        """Return the tables that are known, in the order of their names."""
        return self._every_table()

    def next_tables(
        self, left: Iterator[TableId], count: int
    ) -> tuple[tuple[TableId, ...], tuple[TableId, ...], bool]:
        """Take the next tables of ``left``; return those that are held, at most ``count``.

        Returns:
            The tables, those of them of which all partitions are held, and whether ``left`` may
            have more, because a call looks at LOOKED_AT_MAX.
        """
        found: list[TableId] = []
        partitioned: list[TableId] = []
        looked_at = 0
        for table in islice(left, LOOKED_AT_MAX):
            looked_at += 1
            value = self._tables.value(table)
            if value is not None:
                found.append(table)
                partitioned += [table] if value.partitions == COMPLETE else []
            if len(found) == count:
                break
        more = looked_at == LOOKED_AT_MAX or len(found) == count
        return tuple(found), tuple(partitioned), more

    def compare_names(self, listed: NamesListed) -> Iterator[list[Difference]]:
        """Yield the databases and tables that only one side has, slice by slice."""
        held, there = set(self._namespace.databases()), set(filter(self._follows, listed.databases))
        found = [_alone(db) for db in sorted(held ^ there)]
        for db in filter(self._follows, listed.tables):
            while (held_sum := self._namespace.sum_names(db)) is None:
                yield []
            if held_sum == listed.sums[db]:
                continue
            names, seen = frozenset(listed.tables[db]), set[str]()
            for some in _several(self._namespace.names(db)):
                seen.update(some)
                yield []
            alone = [_alone(db, table) for table in sorted(names ^ seen)]
            found += [one for one in alone if self.has(one.name) != (one.name[1] in names)]
        yield [
            one
            for one in found
            if not (self._pending(one.name[:2]) or self._rules.is_left(one.name[:2]))
        ]

    def compare(self, read: ReadDone) -> Iterator[list[Difference]]:
        """Yield the objects that differ, slice by slice, without those that are pending by then."""
        self._is_said = False
        databases = list(read.databases.items())
        for at in range(0, len(databases), DATABASES_PER_SLICE):
            some = databases[at : at + DATABASES_PER_SLICE]
            yield [one for db, struct in some for one in self._database(db, struct)]
        found, cost = list[Difference](), 0
        for table, of in read.tables.items():
            differing = self._table(table, of)
            found += differing or ()
            cost += 1 if differing is None else OTHER_BYTES_COST
            if cost >= TABLES_PER_SLICE:
                yield found
                found, cost = [], 0
        if cost:
            yield found
        for table, of in read.tables.items():
            if of.names is not None or of.partitions:
                yield from self._partitions(table, of)

    def _database(self, db: str, struct: bytes | None) -> Iterator[Difference]:
        held = self._namespace.database(db)
        if held is None or self._pending((db, "")):
            return
        if struct is None:
            yield _alone(db)
        else:
            yield from self._differing((db, "", ""), database_as_held(struct), held, shape=DATABASE)

    def _table(self, table: TableId, read: TableRead) -> list[Difference] | None:
        """Return the differences; None: the bytes are equal, so that nothing was decoded."""
        value = self._tables.value(table)
        if read.thrift is None or value is None or read.thrift == value.thrift:
            return None
        if self._pending(table) or self._rules.stays_off(table, read.thrift):
            return []
        return [*self._differing((*table, ""), read.thrift, value.thrift, shape=TABLE)]

    def _partitions(self, table: TableId, read: TableRead) -> Iterator[list[Difference]]:
        """Yield an empty list after each slice, and at last the partitions that differ."""
        found: list[Difference] = []
        if read.names is not None and self._has_partitions(table):
            there, seen = frozenset(read.names), set[str]()
            for some in _several(self._tables.blocks(table)):
                seen.update(some)
                yield []
            found += [_alone(*table, one) for one in sorted(there ^ seen)]
        names = sorted(read.partitions)
        at = 0
        while at < len(names):
            here, cost = names[at : at + PARTITIONS_PER_SLICE], 0
            held = dict(self._tables.structs(table, here))
            for name in here:
                at += 1
                if name in held:
                    struct = read.partitions[name]
                    found += self._differing((*table, name), struct, held[name], shape=PARTITION)
                    cost += 1 if struct == held[name] else OTHER_BYTES_COST
                if cost >= PARTITIONS_PER_SLICE:
                    break
            yield []
        yield found if found and self._is_compared(table) else []

    def _differing(
        self, name: Name, there: bytes, held: bytes, *, shape: Shape
    ) -> Iterator[Difference]:
        """Yield the object if it differs, or cannot be read: the read that follows says why."""
        what = ""
        try:
            if same_struct(there, held):
                return
            if not self._is_said:  # said of few: it takes 0.5 ms
                self._is_said, what = True, _what(there, held, shape)
        except WireError as error:
            what = str(error)
        yield Difference(name, content=True, what=what)

    def _has_partitions(self, table: TableId) -> bool:
        """Return whether all partitions of ``table`` are held."""
        value = self._tables.value(table)
        return value is not None and value.partitions == COMPLETE

    def _is_compared(self, table: TableId) -> bool:
        return self._has_partitions(table) and not (
            self._pending(table) or self._rules.is_off(table)
        )


def _several(blocks: Iterator[tuple[str, ...]]) -> Iterator[Iterator[str]]:
    """Yield the names of each BLOCKS_PER_SLICE of ``blocks``."""
    while some := tuple(islice(blocks, BLOCKS_PER_SLICE)):
        yield chain.from_iterable(some)


def _what(there: bytes, held: bytes, shape: Shape) -> str:
    """Return as text the beginnings of some values that differ, before and after."""
    said = [
        f"{path}: {_short(kept)} -> {_short(here)}"
        for path, here, kept in islice(differences(there, held, shape), VALUES_SAID_MAX)
    ]
    return "; ".join(said)


def _short(value: str | None) -> str:
    return "none" if value is None else repr(value[:VALUE_CHARS_MAX])


def _alone(db: str, table: str = "", part: str = "") -> Difference:
    """Return the difference of an object that only one side has."""
    return Difference((db, table, part), content=False)
