"""A version log with namespace and tables, and Thrift structs to write into them."""

from topicast.catalog.model.namespace import Namespace
from topicast.catalog.model.tables import Tables
from topicast.catalog.model.versions import Transaction, VersionLog
from topicast.tests.cluster.fake_metastore import make_partition, make_table, thrift_bytes
from topicast.topics.objects.encoding.values import decode_block
from topicast.topics.objects.names import TableId, table_key
from topicast.topics.topic import Entry, Topic, topic_ids
from topicast.topics.turn import Turn
from topicast.topics.wire.messages.data import SOURCE_EVENTS

NUM_TOPICS = 4
NOW_US = 1_700_000_000_000_000
T = ("d", "t")


def struct(table: TableId = T, *keys: str, columns: int = 2, **parameters: str) -> bytes:
    """Return the Thrift struct of a table, without partition keys unless they are given."""
    made = make_table(*table, location=f"file:/w/{table[0]}/{table[1]}", keys=keys)
    made.sd.cols = made.sd.cols[:columns]
    made.parameters = dict(parameters)
    return thrift_bytes(made)


def parts(*values: str, table: TableId = T, **parameters: str) -> dict[str, bytes]:
    """Return partitions by name, with ``parameters``."""
    made = make_table(*table, location=f"file:/w/{table[0]}/{table[1]}", keys=("ds",))
    found = {}
    for value in values:
        partition = make_partition(made, [value])
        partition.parameters = dict(parameters)
        found[f"ds={value}"] = thrift_bytes(partition)
    return found


class Holding:
    """What a catalogd holds, and each transaction that was written."""

    def __init__(self) -> None:
        self.topics = {number: Topic() for number in topic_ids(NUM_TOPICS)}
        self.turn = Turn[object]()
        self.turn.now_us = NOW_US
        self.version_log = VersionLog(self.topics, self.turn)
        self.namespace = Namespace(self.version_log)
        self.tables = Tables(self.version_log, NUM_TOPICS)

    def written(self) -> tuple[Transaction, ...]:
        """Take what was written since."""
        self.version_log.check()
        return self.version_log.take()

    def one(self) -> Transaction:
        """Take the one transaction that was written since."""
        (transaction,) = self.written()
        return transaction

    def whole(
        self,
        thrift: bytes,
        partitions: dict[str, bytes] | None,
        *,
        table: TableId = T,
        incarnation: int = 1,
        source: int = SOURCE_EVENTS,
        data: bool = False,
    ) -> None:
        self.tables.write_whole(
            table,
            thrift,
            partitions,
            incarnation=incarnation,
            source=source,
            data=data,
        )

    def change(self, changes: dict[str, bytes | None], **more: object) -> None:
        """Write partitions of ``d.t``."""
        fields = {"source": SOURCE_EVENTS, **more}
        self.tables.write_partitions(T, changes, **fields)

    def rows(self, table: TableId = T) -> list[Entry]:
        """Return the entries of ``table``."""
        return list(self.tables.topic_of(table)[1].rows(table_key(*table)))

    def entry(self, table: TableId = T) -> Entry:
        found = self.tables.entry(table)
        assert found is not None
        return found

    def names(self, table: TableId = T) -> list[str]:
        """Return the partitions that are held of a table."""
        _, topic = self.tables.topic_of(table)
        rows = [row for row in topic.rows(table_key(*table)) if row.key != table_key(*table)]
        return sorted(n for row in rows for n in decode_block(row.value or b"", row.version).names)
