"""Equality: what a subscriber holds beside what the metastore has, object by object.

Every Thrift field that hmsclient knows is compared; the order of a map or of partitions means
nothing.
"""

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

from hmsclient.genthrift.hive_metastore.ttypes import Database, Partition, Table
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAcceleratedFactory
from thrift.TSerialization import deserialize

from topicast.subscriber import Subscriber
from topicast.topics.objects.names import partition_name


def differing(
    catalog: Subscriber,
    client: Any,
    databases: Iterable[str],
    *,
    is_left_out: Callable[[Table], bool] = lambda _table: False,
    may_be_held: frozenset[tuple[str, str]] = frozenset(),
) -> list[str]:
    """Return what the metastore itself has damaged; all else of ``databases`` is equal.

    Args:
        catalog: Who holds it.
        client: Of the metastore.
        databases: Names; those that are not there must not be held either.
        is_left_out: Whether a table is not followed: nothing of it is compared.
        may_be_held: Tables that the metastore does not have any more.
    """
    damaged: list[str] = []
    wanted = set(databases)
    mine = sorted(set(client.get_all_databases()) & wanted)
    assert [db for db in catalog.databases() if db in wanted] == mine
    for db in mine:
        held, there = read(Database, catalog.database(db).thrift()), client.get_database(db)
        assert held == there, f"{db} is held with {_difference(held, there)}"
        names = client.get_all_tables(db)
        tables = {name: client.get_table(db, name) for name in names}
        followed = {name for name, table in tables.items() if not is_left_out(table)}
        listed = set(catalog.tables(db))
        lacking, more = followed - listed, listed - set(tables)
        assert not lacking, f"{db}: {sorted(lacking)} not held"
        assert more <= {name for of, name in may_be_held if of == db}, f"{db}: {sorted(more)} held"
        damaged += [
            f"{db}.{name}"
            for name in sorted(followed)
            if not _is_equal(catalog, client, tables[name])
        ]
    return damaged


def _is_equal(catalog: Subscriber, client: Any, table: Table) -> bool:
    """Compare one table; False: it is damaged in the metastore."""
    db, name = table.dbName, table.tableName
    partitions = client.get_partitions(db, name, -1) if table.partitionKeys else []
    names = client.get_partition_names(db, name, -1) if table.partitionKeys else []
    if not _is_whole(table, partitions, names):
        return False
    held = [read(Partition, one.thrift()) for one in catalog.partitions(f"{db}.{name}")]
    if any(one.sd is None for one in held):
        return False
    found = read(Table, catalog.table(f"{db}.{name}").thrift())
    assert found == table, f"{db}.{name} is held with {_difference(found, table)}"
    pairs = zip_longest(_sorted(held), _sorted(partitions))
    for mine, theirs in pairs:
        said = _difference(mine, theirs)
        assert mine == theirs, f"{db}.{name}: a partition is held with {said}"
    return True


def _difference(held: Any, there: Any) -> str:
    """Return which fields of two structs differ, and how."""
    if held is None or there is None:
        return f"{held}, and there is {there}"
    pairs = ((name, vars(held).get(name), value) for name, value in vars(there).items())
    return "; ".join(f"{name} {ours}, not {its}" for name, ours, its in pairs if ours != its)


def _is_whole(table: Table, partitions: list[Partition], names: list[str]) -> bool:
    """Return whether the metastore still has all of ``table``, and agrees with itself on it.

    Hive 2.3 deletes the columns that a table shares with another one or with a partition if both
    are altered at once, and records no event: the last event of such a table has its columns.
    Its whole storage descriptor may go in the same way, and that of a partition: such a one was
    once told of by events, and not among those that were read.
    Partitions that are made while their table is dropped may stay behind without values. One that
    is renamed while columns are added to its table, or while another renames it, may get the new
    name and keep the old values: ``names`` are those that the metastore lists.
    """
    keys = [key.name for key in table.partitionKeys]
    if table.sd is None or table.sd.cols is None:
        return False
    if any(len(one.values or ()) != len(keys) for one in partitions):
        return False
    return sorted(names) == sorted(partition_name(keys, one.values) for one in partitions)


def read(kind: type, struct: bytes) -> Any:
    """Return the Thrift struct in ``struct``."""
    return deserialize(kind(), struct, TBinaryProtocolAcceleratedFactory())


def _sorted(partitions: list[Partition]) -> list[Partition]:
    return sorted(partitions, key=lambda partition: partition.values)
