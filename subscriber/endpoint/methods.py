"""Methods: the methods by which Spark's Hive client reads a metastore, answered by a subscriber.

    request ──▶ contents ──▶ bytes that the metastore returned, spliced into a reply

A request that the metastore might answer differently is refused, so that the client asks the
metastore: for an object that is not here (a list of objects by name is whole, or refused), for
tables whose readers the metastore examines or that have a catalog of their own, and for selections
that the metastore reads otherwise.
Source: hive_metastore.thrift of Hive 2.3; which methods Spark calls: docs/design/0021-endpoint.md.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from ...topics.errors import NoSuchObject, UsageError
from ...topics.objects.names import partition_name, table_name
from ...topics.objects.selector import ALL, Selector, by_filter, by_names, by_values
from ...topics.objects.tables import Table
from .. import arguments as checked
from ..client.contents import Contents
from ..store.table_snapshot import Head
from .replies import STOP, struct_field, structs_field, texts_field
from .requests import Arguments

SUCCESS: Final = 0

TRANSACTIONAL: Final = "transactional"  # a parameter of ACID and of insert-only tables
TABLE_FORMAT: Final = "table_type"  # a parameter of Iceberg's tables
ICEBERG: Final = "iceberg"
PRIVILEGES: Final = "partition_level_privilege"  # a parameter: each partition has its own

_PATTERN: Final = re.compile(r"[\w*|]*")  # of names: * stands for any text, | for or

Answer = Callable[[Contents, Arguments], Iterator[bytes]]


class NotServed(UsageError):
    """Only the metastore can answer for this object, or this selection."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the metastore.

    ``answer`` returns the pieces of the field of the result that has the value. ``error`` is the
    number of the field that has a MetaException.
    """

    answer: Answer
    error: int


def _get_database(contents: Contents, given: Arguments) -> Iterator[bytes]:
    found = contents.database(checked.database(given.text(1), "name"))
    return iter((struct_field(SUCCESS, found.thrift()),))


def _get_databases(contents: Contents, given: Arguments) -> Iterator[bytes]:
    matches = _like(given.text(1))
    return texts_field(SUCCESS, tuple(filter(matches, contents.databases())))


def _get_all_databases(contents: Contents, _given: Arguments) -> Iterator[bytes]:
    return texts_field(SUCCESS, contents.databases())


def _get_tables(contents: Contents, given: Arguments) -> Iterator[bytes]:
    return _tables(contents, given, _like(given.text(2)))


def _get_tables_by_type(contents: Contents, given: Arguments) -> Iterator[bytes]:
    return _tables(contents, given, _like(given.text(2)), kind=given.text(3))


def _get_all_tables(contents: Contents, given: Arguments) -> Iterator[bytes]:
    return _tables(contents, given, lambda _: True)


def _tables(
    contents: Contents, given: Arguments, matches: Callable[[str], object], *, kind: str = ""
) -> Iterator[bytes]:
    records = contents.records(checked.database(given.text(1), "db"))
    found = [one for one in records if matches(one.name)]
    if kind and not all(one.type for one in found):
        raise NotServed("the types of some of these tables are not known")
    return texts_field(SUCCESS, [one.name for one in found if kind in ("", one.type)])


def _get_table(contents: Contents, given: Arguments) -> Iterator[bytes]:
    return iter((struct_field(SUCCESS, _table(contents, given.text(1), given.text(2))),))


def _get_table_req(contents: Contents, given: Arguments) -> Iterator[bytes]:
    asked = given.struct(1)
    found = struct_field(1, _table(contents, asked.text(1), asked.text(2)))
    return iter((struct_field(SUCCESS, found + STOP),))


def _get_tables_by_name(contents: Contents, given: Arguments) -> Iterator[bytes]:
    found = _tables_of(contents, given.text(1), given.texts(2))
    return structs_field(SUCCESS, len(found), found)


def _get_tables_req(contents: Contents, given: Arguments) -> Iterator[bytes]:
    asked = given.struct(1)
    found = _tables_of(contents, asked.text(1), asked.texts(2))
    return chain((struct_field(SUCCESS, b""),), structs_field(1, len(found), found), (STOP,))


def _tables_of(contents: Contents, db: str, names: Sequence[str]) -> list[bytes]:
    """Return the structs of the tables ``names``, each once.

    Raises:
        NoSuchObject, NotServed: one of the tables is not here, or not served.
    """
    return [_table(contents, db, name) for name in dict.fromkeys(map(str.lower, names))]


def _table(contents: Contents, db: str, name: str) -> bytes:
    head = contents.head(*checked.table(table_name(db, name)))
    return _served(head.table).thrift()


def _get_partition(contents: Contents, given: Arguments) -> Iterator[bytes]:
    db, table = _name(given)
    keys = _partitioned(contents.head(db, table)).partition_keys
    values = given.texts(3)
    if not all(values):
        raise NotServed("a partition is requested by values of which one is empty")
    return _one(contents, (db, table), partition_name(keys, values))


def _get_partition_with_auth(contents: Contents, given: Arguments) -> Iterator[bytes]:
    _check_privileges(contents, given)
    return _get_partition(contents, given)


def _get_partition_by_name(contents: Contents, given: Arguments) -> Iterator[bytes]:
    return _one(contents, _name(given), given.text(3))


def _one(contents: Contents, table: tuple[str, str], name: str) -> Iterator[bytes]:
    """Return the field with the partition ``name``, which is there or refused."""
    count, structs = _structs(contents, table, by_names([name]))
    if count != 1:
        raise NoSuchObject(f"{table_name(*table)}/{name}")
    return iter((struct_field(SUCCESS, b"".join(structs)),))


def _get_partitions_by_names(contents: Contents, given: Arguments) -> Iterator[bytes]:
    selector = by_names(given.texts(3))
    count, structs = _structs(contents, _name(given), selector)
    if count != len(selector.names):
        raise NoSuchObject(f"one of {len(selector.names)} partitions of {given.text(2)}")
    return structs_field(SUCCESS, count, structs)


def _get_partitions(contents: Contents, given: Arguments) -> Iterator[bytes]:
    return _partitions(contents, given, ALL, limit=3)


def _get_partitions_with_auth(contents: Contents, given: Arguments) -> Iterator[bytes]:
    _check_privileges(contents, given)
    return _get_partitions(contents, given)


def _get_partitions_ps(contents: Contents, given: Arguments) -> Iterator[bytes]:
    return _partitions(contents, given, by_values(given.texts(3)), limit=4)


def _get_partitions_ps_with_auth(contents: Contents, given: Arguments) -> Iterator[bytes]:
    _check_privileges(contents, given)
    return _get_partitions_ps(contents, given)


def _get_partitions_by_filter(contents: Contents, given: Arguments) -> Iterator[bytes]:
    return _partitions(contents, given, by_filter(given.text(3)), limit=4)


def _partitions(
    contents: Contents, given: Arguments, selector: Selector, *, limit: int
) -> Iterator[bytes]:
    count, structs = _structs(contents, _name(given), selector, first=_limit(given, limit))
    return structs_field(SUCCESS, count, structs)


def _structs(
    contents: Contents, table: tuple[str, str], selector: Selector, *, first: int | None = None
) -> tuple[int, Iterator[bytes]]:
    """Return how many partitions are selected, and their structs; ``first``: at most so many."""
    snapshot = contents.partitions(*table, selector)
    _partitioned(snapshot.head_of(*table))
    return snapshot.structs(*table, selector, first=first)


def _get_partition_names(contents: Contents, given: Arguments) -> Iterator[bytes]:
    return _names(contents, given, ALL, limit=3)


def _get_partition_names_ps(contents: Contents, given: Arguments) -> Iterator[bytes]:
    return _names(contents, given, by_values(given.texts(3)), limit=4)


def _names(
    contents: Contents, given: Arguments, selector: Selector, *, limit: int
) -> Iterator[bytes]:
    db, table = _name(given)
    _partitioned(contents.head(db, table))
    names = contents.partition_names(db, table, selector)
    return texts_field(SUCCESS, names[: _limit(given, limit)])


def _name(given: Arguments) -> tuple[str, str]:
    return checked.table(table_name(given.text(1), given.text(2)))


def _limit(given: Arguments, field: int) -> int | None:
    """Return how many partitions the client wants at most, the first by name; None: all."""
    limit = given.number(field, default=-1)
    if limit == 0:
        raise NotServed("no partition is requested")
    return None if limit < 0 else limit


def _check_privileges(contents: Contents, given: Arguments) -> None:
    """Raise NotServed if partitions of the table have privileges, which a reply would carry."""
    table = contents.head(*_name(given)).table
    if any(key.lower() == PRIVILEGES for key in table.parameters):
        raise NotServed(f"partitions of {table.full_name} have privileges of their own")


def _partitioned(head: Head) -> Table:
    if not head.table.partition_columns:
        raise NotServed(f"{head.table.full_name} has no partitions")
    return _served(head.table)


def _served(table: Table) -> Table:
    """Return ``table``, unless the metastore's answer may depend on who reads it.

    Raises:
        NotServed: it may.
    """
    if table.parameters.get(TRANSACTIONAL, "").lower() == "true":
        raise NotServed(f"{table.full_name} is transactional: the metastore examines its readers")
    if table.parameters.get(TABLE_FORMAT, "").lower() == ICEBERG:
        raise NotServed(f"{table.full_name} is Iceberg's, whose catalog has its own client")
    return table


def _like(pattern: str) -> Callable[[str], object]:
    """Return the function that tests a name by a ``pattern`` of Hive's."""
    if not _PATTERN.fullmatch(pattern):
        raise NotServed(f"names like {pattern!r}: the metastore knows what that means")
    return re.compile(pattern.lower().replace("*", ".*")).fullmatch


METHODS: Final = {
    "get_database": Method(_get_database, 2),
    "get_databases": Method(_get_databases, 1),
    "get_all_databases": Method(_get_all_databases, 1),
    "get_tables": Method(_get_tables, 1),
    "get_tables_by_type": Method(_get_tables_by_type, 1),
    "get_all_tables": Method(_get_all_tables, 1),
    "get_table": Method(_get_table, 1),
    "get_table_req": Method(_get_table_req, 1),
    "get_table_objects_by_name": Method(_get_tables_by_name, 1),
    "get_table_objects_by_name_req": Method(_get_tables_req, 1),
    "get_partition": Method(_get_partition, 1),
    "get_partition_with_auth": Method(_get_partition_with_auth, 1),
    "get_partition_by_name": Method(_get_partition_by_name, 1),
    "get_partitions_by_names": Method(_get_partitions_by_names, 1),
    "get_partitions": Method(_get_partitions, 2),
    "get_partitions_with_auth": Method(_get_partitions_with_auth, 2),
    "get_partitions_ps": Method(_get_partitions_ps, 1),
    "get_partitions_ps_with_auth": Method(_get_partitions_ps_with_auth, 2),
    "get_partitions_by_filter": Method(_get_partitions_by_filter, 1),
    "get_partition_names": Method(_get_partition_names, 1),
    "get_partition_names_ps": Method(_get_partition_names_ps, 1),
}
