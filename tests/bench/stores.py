"""Stores: state folders of catalogd, filled in bulk with what it would have written itself."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Final

from topicast.catalog.model.folders import Folder, FolderChanges
from topicast.catalog.model.versions import Commit, Transaction
from topicast.catalog.model.window_state import WindowState
from topicast.catalog.storage.store import Store
from topicast.tests.bench.bench_representation import KEYS, LOCATION, NoBlocks, structs
from topicast.tests.subscriber.structs import database_struct, table_struct
from topicast.topics.objects.encoding.values import (
    ABSENT,
    COMPLETE,
    NAMES_MAX,
    NameRecord,
    TableValue,
    edit_partitions,
    encode_database_value,
    encode_names,
    encode_table_value,
)
from topicast.topics.objects.names import block_key, database_key, names_key, table_key
from topicast.topics.topic import NAMESPACE, NUM_TOPICS_DEFAULT, Entry, table_topic

DATABASES_MAX: Final = 1000
TURN: Final = 500  # transactions in one commit
PIECE_BLOCKS: Final = 50  # in one transaction: below 64 KB
NOW_US: Final = 1_700_000_000_000_000
COLUMNS: Final = tuple(f"column_{number:02d}" for number in range(20))
Rows = list[tuple[bytes, bytes]]
Write = tuple[int, Rows]  # the topic, and what one transaction writes into it
Blocks = Sequence[tuple[str, bytes]]  # by their lower bounds
NEW: Final = WindowState(last_id=0, stable_id=0)  # of a metastore without an event


def fill_store(
    folder: Path, *, tables: int, partitioned: int, partitions: int, window: WindowState = NEW
) -> None:
    """Write a store of ``tables``, of which ``partitioned`` share ``partitions``.

    ``window`` says by which events its metastore is known again.
    """
    with closing(opened(folder)) as store:
        write(store, _writes(tables, partitioned, partitions), window)
        store.commit(Commit(transactions=(), window=window, folders=_folders(tables)))


def opened(folder: Path) -> Store:
    """Return the store in ``folder``, a new store if there is none."""
    return Store.open(folder, num_topics=NUM_TOPICS_DEFAULT, now_us=NOW_US, new_id=1)


def write(store: Store, writes: Iterable[Write], window: WindowState = NEW) -> None:
    """Commit ``writes`` as transactions, many of them at once."""
    versions, waiting = store.versions, iter(writes)
    while turn := tuple(islice(waiting, TURN)):
        transactions = []
        for topic, rows in turn:
            version = versions[topic] = versions[topic] + 1
            entries = [Entry(key, version, version, version, len(v), v) for key, v in rows]
            transactions.append(transaction(topic, version, entries))
        store.commit(Commit(transactions=tuple(transactions), window=window))


def transaction(
    topic: int, version: int, entries: Iterable[Entry] = (), **more: Any
) -> Transaction:
    """Return the transaction that takes ``topic`` to ``version``."""
    given = {"source": 0, "at_us": NOW_US, "entries": tuple(entries), **more}
    return Transaction(topic=topic, from_version=version - 1, to_version=version, **given)


def table_of(number: int, tables: int) -> tuple[str, str]:
    """Return database and name of one of ``tables``."""
    databases = min(tables, DATABASES_MAX)
    return f"db{number % databases:03d}", f"table{number:06d}"


def _folders(tables: int) -> FolderChanges:
    """Return where the data of each table lies."""
    found = (table_of(number, tables) for number in range(tables))
    rows = {table_key(*one): (Folder(f"file:///w/{one[0]}/{one[1]}", ""),) for one in found}
    return FolderChanges(ended=(), rows=rows)


def _writes(tables: int, partitioned: int, partitions: int) -> Iterator[Write]:
    """Yield the transactions: topic and rows."""
    databases = min(tables, DATABASES_MAX)
    for number in range(databases):
        names = sorted(table_of(n, tables)[1] for n in range(number, tables, databases))
        yield NAMESPACE, list(names_of(f"db{number:03d}", names, version=number + 1))
    blocks, templates = blocks_of(partitions // partitioned if partitioned else 0)
    for number in range(tables):
        db, name = table_of(number, tables)
        topic = table_topic(db, name, NUM_TOPICS_DEFAULT)
        content = (blocks, templates) if number < partitioned else ((), ())
        first, *rows = table_rows(db, name, *content, incarnation=number % databases + 1)
        yield topic, [first]
        for begin in range(0, len(rows), PIECE_BLOCKS):
            yield topic, rows[begin : begin + PIECE_BLOCKS]


def _string(raw: bytes) -> bytes:
    """Return a string as Thrift writes it."""
    return len(raw).to_bytes(4, "big") + raw


def table_rows(
    db: str, name: str, blocks: Blocks, templates: tuple[bytes, ...], *, incarnation: int
) -> Rows:
    """Return the row of a table, and those of its blocks; without any it has no partition keys.

    The ``templates`` of its partitions become those of its own folder: tables that share a folder
    change together.
    """
    own = _string(f"file:/w/{db}/{name}".encode())  # where its struct says that it lies
    value = TableValue(
        incarnation=incarnation,
        partitions=COMPLETE if blocks else ABSENT,
        thrift=table_struct(db, name, columns=COLUMNS, keys=KEYS if blocks else ()),
        templates=tuple(one.replace(_string(LOCATION.encode()), own) for one in templates),
    )
    rows = [(table_key(db, name), encode_table_value(value))]
    return rows + [(block_key(db, name, lower), block) for lower, block in blocks]


def names_of(db: str, names: Iterable[str], *, version: int) -> Iterator[tuple[bytes, bytes]]:
    yield database_key(db), encode_database_value(database_struct(db))
    records = iter([NameRecord(name, "MANAGED_TABLE", version, version) for name in names])
    first = True
    while block := tuple(islice(records, NAMES_MAX)):
        yield names_key(db, "" if first else block[0].name), encode_names(block)
        first = False


def blocks_of(count: int) -> tuple[list[tuple[str, bytes]], tuple[bytes, ...]]:
    """Return the blocks of ``count`` partitions, the same for every table, and their templates."""
    edited = edit_partitions(
        NoBlocks(), dict(structs(count)), templates=(), location=LOCATION, version=1
    )
    blocks = [(lower, block) for lower, block in edited.blocks if block is not None]
    return blocks, edited.templates
