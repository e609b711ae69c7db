"""What tests of the store share: entries, transactions, opened stores, answers from them."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import Queue

from topicast.catalog.history.history_thread import HistoryRead, HistoryThread, ReadStore
from topicast.catalog.history.queries import StoreQuery
from topicast.catalog.model.versions import Commit, Transaction
from topicast.catalog.model.window_state import WindowState
from topicast.catalog.storage.database import FILE_NAME
from topicast.catalog.storage.store import Store
from topicast.tests.strategies import value
from topicast.topics.policy import Policy
from topicast.topics.topic import Entry, Topic, prefix_tombstone, stub, tombstone, topic_ids
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.catalog import Scanned
from topicast.topics.wire.messages.connection import Refused
from topicast.topics.wire.messages.data import SOURCE_EVENTS

NOW_US = 1_700_000_000_000_000
TOPICS = topic_ids(4)


def entry(kind: str, group: bytes, rest: bytes, version: int) -> Entry:
    """Return an entry of this kind at ``version``; a value is the text of that number."""
    if kind == "prefix":
        return prefix_tombstone(group, version)
    if kind == "tombstone":
        return tombstone(group + rest, version)
    made = value(group + rest, version, b"%d" % version)
    return stub(made) if kind == "stub" else made


def transaction(topic: int, version: int, *entries: Entry, **more: object) -> Transaction:
    fields = {"source": SOURCE_EVENTS, "at_us": NOW_US, **more}
    return Transaction(
        topic=topic, from_version=version - 1, to_version=version, entries=entries, **fields
    )


@contextmanager
def opened(folder: Path, *, new_id: int = 1, num_topics: int = 4, **bounds: int) -> Iterator[Store]:
    store = Store.open(folder, num_topics=num_topics, now_us=NOW_US, new_id=new_id, **bounds)
    try:
        yield store
    finally:
        store.close()


def commit(store: Store, *transactions: Transaction, event: int | None = 7) -> None:
    window = None if event is None else WindowState(last_id=event, stable_id=event)
    store.commit(Commit(transactions=transactions, window=window))


def entries_of(store: Store, topic: int) -> list[Entry]:
    ((_, _, _, entries, tombstones),) = store.load([topic])
    return sorted(entries + tombstones, key=lambda entry: entry.version)


def loaded(store: Store, number: int) -> Topic:
    ((_, version, floor, entries, tombstones),) = store.load([number])
    topic = Topic()
    topic.epoch = store.epoch
    topic.load(entries, tombstones)
    topic.version, topic.floor = version, floor
    topic.check()
    return topic


def rows(folder: Path, query: str) -> list[tuple[object, ...]]:
    db = sqlite3.connect(folder / FILE_NAME)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def read(query: StoreQuery, request: int, policy: Policy | None = None) -> ReadStore:
    return ReadStore(peer=b"p", request=request, query=query, policy=policy)


@contextmanager
def answering(path: Path) -> Iterator[Callable[[ReadStore], Inspected | Scanned | Refused]]:
    """Run the thread that reads the store's file; yield what has it answer one request."""
    answers: Queue[HistoryRead] = Queue()
    thread = HistoryThread(path, deliver=answers.put)
    thread.start()

    def answer(order: ReadStore) -> Inspected | Scanned | Refused:
        assert thread.order(order) is None
        found = answers.get(timeout=30)
        assert found.peer == order.peer
        return found.answer

    with closing(thread):
        yield answer
