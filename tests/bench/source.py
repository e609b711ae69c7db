"""A source of truth for benches: topics as catalogd would fill them, and their deltas.

What a bench writes into them is in no metastore: a core over them compares no names with one.
"""

from typing import Final

from topicast.catalog.core import CatalogSettings
from topicast.tests.bench.stores import Blocks, table_rows
from topicast.tests.subscriber.structs import database_struct, table_struct
from topicast.topics.objects.encoding.values import (
    ABSENT,
    COMPLETE,
    NameRecord,
    TableValue,
    encode_database_value,
    encode_names,
    encode_table_value,
)
from topicast.topics.objects.names import (
    database_key,
    group_of,
    names_key,
    table_key,
)
from topicast.topics.topic import FULL, NAMESPACE, Entry, Topic, table_topic, tombstone, topic_ids
from topicast.topics.wire.messages.data import SOURCE_EVENTS, Delta

SETTINGS: Final = CatalogSettings(
    reads_max=4, reconcile_calls_per_s=0
)  # else its tables are dropped


class Catalog:
    """The source of truth: topics, and transactions that make deltas."""

    def __init__(self, num_topics: int = 4, *, epoch: int = 10, start: int = 1) -> None:
        self.num_topics = num_topics
        self.epoch = epoch
        self.start = start
        self.topics = {topic: Topic() for topic in topic_ids(num_topics)}
        self.names: dict[str, dict[str, NameRecord]] = {}
        for topic in self.topics.values():
            topic.reset(epoch)

    def topic(self, db: str, table: str) -> int:
        return table_topic(db, table, self.num_topics)

    def commit(self, topic: int, entries: list[Entry], source: int = SOURCE_EVENTS) -> Delta:
        """File ``entries``, which have the topic's next version, and return their delta."""
        held = self.topics[topic]
        held.file(entries)
        before, held.version = held.version, held.version + 1
        return Delta(
            topic=topic,
            level=FULL,
            epoch=self.epoch,
            start=self.start,
            from_version=before,
            to_version=held.version,
            floor=held.floor,
            sent_us=0,
            source=source,
            entries=tuple(entries),
        )

    def value(self, key: bytes, version: int, value: bytes) -> Entry:
        return Entry(key, version, version, version, len(value), value)

    def next(self, topic: int) -> int:
        return self.topics[topic].version + 1

    def create_database(self, db: str) -> list[Delta]:
        self.names[db] = {}
        value = encode_database_value(database_struct(db))
        entry = self.value(database_key(db), self.next(NAMESPACE), value)
        return [self.commit(NAMESPACE, [entry])]

    def create_table(self, db: str, name: str, *, keys: tuple[str, ...] = ()) -> list[Delta]:
        version = self.next(NAMESPACE)
        self.names[db][name] = NameRecord(name, "MANAGED_TABLE", version, version)
        return [self._name_delta(db, version), self.put_table(db, name, keys=keys)]

    def put_table(
        self,
        db: str,
        name: str,
        *,
        columns: tuple[str, ...] = ("id",),
        keys: tuple[str, ...] = (),
    ) -> Delta:
        topic = self.topic(db, name)
        value = TableValue(
            incarnation=self.names[db][name].incarnation,
            partitions=COMPLETE if keys else ABSENT,
            thrift=table_struct(db, name, columns=columns, keys=keys),
            templates=(),
        )
        entry = self.value(table_key(db, name), self.next(topic), encode_table_value(value))
        return self.commit(topic, [entry])

    def fill(self, db: str, name: str, blocks: Blocks, templates: tuple[bytes, ...]) -> Delta:
        """Give a table the columns of a store's tables, and ``blocks``, in one transaction."""
        topic = self.topic(db, name)
        incarnation = self.names[db][name].incarnation
        rows = table_rows(db, name, blocks, templates, incarnation=incarnation)
        version = self.next(topic)
        return self.commit(topic, [self.value(key, version, value) for key, value in rows])

    def _name_delta(self, db: str, version: int) -> Delta:
        """Write all names of ``db`` in blocks of three: small, so that there are many."""
        names = sorted(self.names[db])
        blocks = [names[at : at + 3] for at in range(0, len(names), 3)]
        entries = []
        for at, block in enumerate(blocks):
            key = names_key(db, block[0] if at else "")
            value = encode_names([self.names[db][name] for name in block])
            entries.append(self.value(key, version, value))
        keys = {entry.key for entry in entries}
        old = self.topics[NAMESPACE].rows(group_of(names_key(db, "")))
        entries += [tombstone(row.key, version) for row in old if row.key not in keys]
        entries.sort(key=lambda entry: entry.key)
        return self.commit(NAMESPACE, entries)
