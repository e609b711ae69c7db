"""A shop: a metastore of the cluster with a database of a few tables, and what writers do to it."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from hmsclient.genthrift.hive_metastore.ttypes import Database, FieldSchema, Partition, Table

from topicast.catalog.metastore.port import Metastore
from topicast.catalog.model.window_state import KNOWN_MAX, WindowState
from topicast.tests.cluster.fake_metastore import FakeMetastore, make_partition, make_table
from topicast.topics.objects.names import parse_table_name, partition_values

ALL_EVENTS = 1000


def followed(metastore: Metastore) -> WindowState:
    """Return what a store keeps that has read all events of ``metastore``, up to ALL_EVENTS.

    By the events catalogd knows this metastore again, whatever else is in the store.
    """
    events = metastore.events_after(0, events_max=ALL_EVENTS)
    last_id = metastore.current_event_id()
    known = tuple((event.id, event.digest) for event in events[-KNOWN_MAX:])
    return WindowState(last_id=last_id, stable_id=last_id, known=known)


NAMES = ("items", "orders", "people", "sales", "stock", "visits")


class Shop(FakeMetastore):
    """A fake metastore whose writers are called by table name; ``shop.sales`` has partitions."""

    def __init__(self, names: Sequence[str] = NAMES, *, partitions: int = 100) -> None:
        super().__init__()
        if names:
            self.begin_as(_stocked(tuple(names), partitions))
        else:
            self.create_database(Database("shop", "", "file:/w/shop", {}))

    def create(
        self, name: str, *, columns: Sequence[str] = ("id",), keys: Sequence[str] = ()
    ) -> None:
        """Create the table ``name``, which is ``db.table``."""
        db, table = parse_table_name(name)
        new = make_table(db, table, location=f"file:/w/{db}/{table}", keys=keys)
        new.sd.cols = _fields(columns)
        self.create_table(new)

    def reshape(self, name: str, columns: Sequence[str]) -> None:
        """Give the table ``name`` other columns, and with it all of its partitions."""
        table = self._table(name)
        table.sd.cols = _fields(columns)
        self.alter_table_with_cascade(table.dbName, table.tableName, table, cascade=True)

    def remark(self, name: str, parameters: Mapping[str, str]) -> None:
        """Give the table ``name`` other parameters."""
        table = self._table(name)
        table.parameters = {**table.parameters, **parameters}
        self.alter_table(table.dbName, table.tableName, table)

    def add(
        self, name: str, partitions: Mapping[str, Mapping[str, str]], *, location: str = ""
    ) -> None:
        """Add partitions, as ``{"ds=1": parameters}``, to the table ``name``, else elsewhere."""
        made = list(self._partitions_of(name, partitions))
        for one in made:
            one.sd.location = location or one.sd.location
        self.add_partitions(made)

    def change(self, name: str, partitions: Mapping[str, Mapping[str, str]]) -> None:
        """Give partitions of the table ``name`` other parameters."""
        table = self._table(name)
        new = list(self._partitions_of(name, partitions))
        with self._lock:  # for it is one transaction
            self.alter_partitions(table.dbName, table.tableName, new)

    def remove(self, name: str, partition: str) -> None:
        """Drop one partition of the table ``name``."""
        db, table = parse_table_name(name)
        self.drop_partition(db, table, partition_values(partition), delete_data=False)

    def drop(self, name: str) -> None:
        """Drop the table ``name``."""
        db, table = parse_table_name(name)
        self.drop_table(db, table, delete_data=False)

    def _table(self, name: str) -> Table:
        return self.get_table(*parse_table_name(name))

    def _partitions_of(
        self, name: str, partitions: Mapping[str, Mapping[str, str]]
    ) -> Iterator[Partition]:
        table = self._table(name)
        for one, parameters in partitions.items():
            made = make_partition(table, partition_values(one))
            made.parameters = dict(parameters)
            yield made


@cache
def _stocked(names: tuple[str, ...], partitions: int) -> Shop:
    """Return the shop from which those with these tables begin."""
    found = Shop(())
    for name in names:
        found.create(f"shop.{name}", keys=("ds",) if name == "sales" else ())
    if "sales" in names and partitions:
        found.add("shop.sales", {f"ds={i:03}": {"n": str(i)} for i in range(partitions)})
    return found


def _fields(columns: Sequence[str]) -> list[FieldSchema]:
    return [FieldSchema(column, "string", "") for column in columns]
