"""The writer: existence before content, and never content of what does not exist."""

import pytest

from topicast.catalog.ingest.loader import (
    Loader,
    Materializer,
    Need,
    PublishTables,
    Result,
    Withdraw,
)
from topicast.catalog.metastore.port import TableRead
from topicast.catalog.model.versions import Transaction
from topicast.tests.catalog.holding import NOW_US, Holding, T, parts, struct
from topicast.topics.objects.names import TableId
from topicast.topics.topic import NAMESPACE, STUB

KEYED = struct(T, "ds")
WHOLE = Need(1, obj=True, whole=True)
BACKGROUND = Need(obj=True, whole=True, load=True)
OBJECT = Need(1, obj=True)


class Desk:
    """A writer over a holding, and the loader that it tells of large tables."""

    def __init__(self) -> None:
        self.holding = Holding()
        self.loader = Loader(loaded=self.holding.tables.loaded)
        self.writer = Materializer(self.holding.namespace, self.holding.tables, self.loader)

    def perform(self, *effects: Result) -> tuple[Transaction, ...]:
        self.writer.apply(effects, NOW_US)
        return self.holding.written()

    def publish(
        self, read: TableRead, need: Need, *, table: TableId = T, **databases: bytes | None
    ) -> tuple[Transaction, ...]:
        return self.perform(
            PublishTables(databases=databases, tables={table: read}, needs={table: need})
        )


@pytest.fixture
def desk() -> Desk:
    """A writer that has published ``d.t`` with partition 1."""
    found = Desk()
    whole = TableRead(thrift=KEYED, names=("ds=1",), partitions=parts("1"), whole=True)
    found.publish(whole, BACKGROUND, d=b"struct")
    return found


def test_object_and_partitions_are_one_transaction(desk: Desk) -> None:
    need = Need(1, obj=True, names={"ds=2": None})
    read = TableRead(thrift=struct(T, "ds", a="b"), partitions=parts("2"))
    (one,) = desk.publish(read, need)
    assert len(one.entries) == 2
    assert desk.holding.names() == ["ds=1", "ds=2"]


def test_table_that_is_gone_loses_its_name_then_its_content(desk: Desk) -> None:
    desk.loader.load(T)
    names, content = desk.publish(TableRead(), OBJECT)
    assert names.topic == NAMESPACE
    assert content.topic != NAMESPACE
    assert desk.holding.namespace.find(T) is None
    assert desk.holding.tables.entry(T) is None
    assert desk.loader.tables_left == 0


def test_content_of_a_table_without_a_name_is_not_written(desk: Desk) -> None:
    """Given partitions that were read of a table that is gone by now, then nothing is left."""
    desk.publish(TableRead(), OBJECT)
    assert desk.publish(TableRead(partitions=parts("1")), Need(1, names={"ds=1": None})) == ()
    assert desk.holding.tables.entry(T) is None


def test_dropped_table_that_did_not_come_back_is_not_renewed(desk: Desk) -> None:
    desk.publish(TableRead(), Need(1, obj=True, whole=True, dropped=True))
    assert desk.holding.namespace.find(T) is None


def test_withdrawn_table_is_a_stub_that_is_told_of(desk: Desk) -> None:
    effect = Withdraw(table=T, error="corrupt")
    assert desk.writer.apply([effect], NOW_US) == (effect,)
    assert desk.holding.entry().kind == STUB
    assert desk.holding.namespace.find(T) is not None, "it exists"
