"""A source of truth for subscribers: topics as catalogd would fill them, and their deltas."""

from collections.abc import Mapping

from topicast.tests.subscriber.structs import database_struct, partition_struct, table_struct
from topicast.topics.objects.names import (
    block_key,
    database_key,
    names_key,
    rules_key,
    table_key,
)
from topicast.topics.objects.rules import Rule, encode_rules
from topicast.topics.objects.values import (
    ABSENT,
    COMPLETE,
    NameRecord,
    TableValue,
    decode_table_value,
    edit_partitions,
    encode_database_value,
    encode_names,
    encode_table_value,
)
from topicast.topics.topic import (
    FULL,
    NAMESPACE,
    STUB,
    VALUE,
    Entry,
    Topic,
    accounted_bytes,
    group_of,
    prefix_tombstone,
    table_topic,
    tombstone,
    topic_ids,
)
from topicast.topics.wire.messages import (
    SOURCE_EVENTS,
    Delta,
)


class _Leaves:
    def __init__(self, topic: Topic, db: str, table: str) -> None:
        self._lead = block_key(db, table, "")
        rows = topic.rows(table_key(db, table))
        self._blocks = {
            row.key[len(self._lead) :].decode(): row
            for row in rows
            if row.key.startswith(self._lead)
        }

    def floor(self, name: str) -> str | None:
        return max((lower for lower in self._blocks if lower <= name), default=None)

    def after(self, lower: str) -> str | None:
        return min((one for one in self._blocks if one > lower), default=None)

    def read(self, lower: str) -> tuple[int, bytes]:
        row = self._blocks[lower]
        assert row.value is not None
        return row.version, row.value


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

    def value(self, key: bytes, version: int, value: bytes, *, schema: int | None = None) -> Entry:
        return Entry(
            key, version, version if schema is None else schema, version, len(value), value
        )

    def next(self, topic: int) -> int:
        return self.topics[topic].version + 1

    def create_database(self, db: str) -> list[Delta]:
        self.names[db] = {}
        value = encode_database_value(database_struct(db))
        entry = self.value(database_key(db), self.next(NAMESPACE), value)
        return [self.commit(NAMESPACE, [entry])]

    def create_table(
        self, db: str, name: str, *, keys: tuple[str, ...] = (), source: int = SOURCE_EVENTS
    ) -> list[Delta]:
        version = self.next(NAMESPACE)
        self.names[db][name] = NameRecord(name, "MANAGED_TABLE", version, version)
        return [self._name_delta(db, version), self.put_table(db, name, keys=keys, source=source)]

    def put_table(
        self,
        db: str,
        name: str,
        *,
        columns: tuple[str, ...] = ("id",),
        keys: tuple[str, ...] = (),
        state: int | None = None,
        source: int = SOURCE_EVENTS,
    ) -> Delta:
        topic = self.topic(db, name)
        value = TableValue(
            incarnation=self.names[db][name].incarnation,
            partitions=(COMPLETE if keys else ABSENT) if state is None else state,
            thrift=table_struct(db, name, columns=columns, keys=keys),
            templates=self._templates(db, name),
        )
        entry = self.value(table_key(db, name), self.next(topic), encode_table_value(value))
        return self.commit(topic, [entry], source)

    def put_partitions(
        self, db: str, name: str, changes: Mapping[str, Mapping[str, str] | None]
    ) -> Delta:
        topic = self.topic(db, name)
        version = self.next(topic)
        own = self.topics[topic].get(table_key(db, name))
        assert own is not None
        assert own.value is not None
        old = decode_table_value(own.value)
        edited = edit_partitions(
            _Leaves(self.topics[topic], db, name),
            {
                part: None if of is None else partition_struct(db, name, part, of)
                for part, of in changes.items()
            },
            templates=old.templates,
            location=f"file:/w/{db}/{name}",
            version=version,
        )
        entries = []
        if edited.templates != old.templates:
            value = TableValue(
                incarnation=old.incarnation,
                partitions=old.partitions,
                thrift=old.thrift,
                templates=edited.templates,
            )
            encoded = encode_table_value(value)
            entries.append(self.value(own.key, version, encoded, schema=own.schema_version))
        for lower, block in edited.blocks:
            key = block_key(db, name, lower)
            entries.append(
                tombstone(key, version) if block is None else self.value(key, version, block)
            )
        return self.commit(topic, entries)

    def drop_table(self, db: str, name: str) -> list[Delta]:
        topic = self.topic(db, name)
        del self.names[db][name]
        gone = prefix_tombstone(table_key(db, name), self.next(topic))
        return [self._name_delta(db, self.next(NAMESPACE)), self.commit(topic, [gone])]

    def rule(self, *rules: Rule) -> Delta:
        """Let ``rules`` hold for drivers."""
        version, value = self.next(NAMESPACE), encode_rules(rules)
        entry = self.value(rules_key(), version, value) if rules else None
        return self.commit(NAMESPACE, [entry or tombstone(rules_key(), version)])

    def size(self, topic: int) -> int:
        return self.topics[topic].held_bytes

    def live_bytes(self, topic: int) -> int:
        """Return what a reader holds of ``topic``: all but tombstones."""
        rows = list(self.topics[topic].since(0))
        return sum(accounted_bytes(row) for row in rows if row.kind in (VALUE, STUB))

    def versions(self) -> tuple[int, ...]:
        return tuple(topic.version for topic in self.topics.values())

    def new_epoch(self, start: int) -> None:
        """Lose everything and begin again."""
        self.__init__(self.num_topics, epoch=self.epoch + 1, start=start)  # type: ignore[misc]

    def _templates(self, db: str, name: str) -> tuple[bytes, ...]:
        entry = self.topics[self.topic(db, name)].get(table_key(db, name))
        return decode_table_value(entry.value).templates if entry and entry.value else ()

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


NAMES = ("items", "orders", "people", "sales", "stock", "visits")


def shop() -> Catalog:
    """Return a source with a database of six tables, one of them with 100 partitions."""
    catalog = Catalog()
    catalog.create_database("shop")
    for name in NAMES:
        if name != "sales":
            catalog.create_table("shop", name)
    catalog.create_table("shop", "sales", keys=("ds",))
    catalog.put_partitions("shop", "sales", {f"ds={i:03}": {"n": str(i)} for i in range(100)})
    return catalog
