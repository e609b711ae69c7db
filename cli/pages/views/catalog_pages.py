"""The pages of catalogd: its hubs and topics, and the content of its store.

A connection of their own reads the store, so that no page takes a turn of catalogd's loop. One page
reads at most PAGE_BYTES, or SEARCH_NAMES names if it looks for a pattern.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from fnmatch import translate
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from ....catalog.ingest.events.event_batches import BYTES_MAX as HISTORY_BYTES_MAX
from ....catalog.ingest.events.event_log import BYTES_MAX as LOG_BYTES_MAX
from ....catalog.status import CatalogStatus
from ....catalog.storage.history import HistoryReader
from ....topics.errors import NoSuchObject, UsageError
from ....topics.objects.encoding.values import (
    decode_database_value,
    decode_names,
    decode_table_value,
    names_in_block,
)
from ....topics.objects.names import (
    TableId,
    block_lead,
    database_key,
    key_before,
    name_of_database,
    names_group,
    parse_namespace_key,
    table_key,
    table_name,
)
from ....topics.objects.tables import Table, read_database, read_table
from ....topics.topic import NAMESPACE, Entry, table_topic
from ....topics.wire.messages.fields import Cell
from ...client.sync_words import AS_OF, why_not
from ...records.overview import place
from ..parts.grid import ROWS_MAX, Grid, Query
from ..parts.page import Page, grid_page
from .memory_page import MemoryUse

PAGE_BYTES: Final = 64 << 10  # of keys and values: some 2,000 names
SEARCH_NAMES: Final = 60_000  # that one page looks at, in 100 ms
HUBS_MAX: Final = 8  # with a link on a table's page: a line
KEY_MAX: Final = 8192  # digits of a key in an address
TOPIC: Final = ("topic", "entries", "held_bytes", "version", "floor")
HUB: Final = ("address", "connected", "since_s", "unacknowledged", "reason", "pages")
DATABASES_END: Final = database_key("").split(b"\0")[0] + b"\x01"  # after the last key of them
NAMES_END: Final = names_group("").split(b"\0")[0] + b"\x01"
STATES: Final = ("not read yet", "being read", "all read")  # of a table's partitions


def catalog_pages(status: Callable[[], CatalogStatus], store: Path) -> dict[str, Page]:
    """Return the pages; ``status``: returns catalogd's last; ``store``: the file of its store."""

    def hubs() -> Mapping[str, str]:
        return peers_of_catalogd(status())

    return {
        "hubs": grid_page(
            "Hubs", "Is every statestored connected, and up to date?", lambda *_: _hubs(status())
        ),
        "catalog": Page(
            title="Catalog",
            answers="What does the catalog hold of a database, table or partition?",
            read=lambda _, query: _catalog(
                store, query, hubs=hubs(), off_by_default=status().sync_off_by_default
            ),
            is_private=True,
        ),
        "topics": grid_page(
            "Topics", "Which topics are the largest?", lambda *_: _topics(status())
        ),
        "loading": grid_page(
            "Loading",
            "What is being read from the metastore, and what cannot be?",
            lambda *_: _loading(status()),
            is_private=True,
        ),
    }


def peers_of_catalogd(status: CatalogStatus) -> dict[str, str]:
    """Return the addresses of the pages of hubs that have announced them."""
    return {f"statestored {place(one.address)}": one.pages for one in status.hubs if one.pages}


def held_by_catalogd(
    status: CatalogStatus, store: Path, *, history_bytes_max: int
) -> Iterator[MemoryUse]:
    """Yield the bytes of the parts of catalogd, in memory and on disk."""
    yield MemoryUse("entries of all topics", status.held_bytes, None)
    if status.memory is not None:
        yield MemoryUse("only on disk: content that is not in use", status.cold_bytes, None)
    yield MemoryUse("outcomes of events", None, HISTORY_BYTES_MAX + LOG_BYTES_MAX)
    files = (store, *(store.with_name(f"{store.name}{end}") for end in ("-wal", "-shm")))
    on_disk = sum(one.stat().st_size for one in files if one.exists())
    yield MemoryUse("on disk: the store", on_disk, None)
    yield MemoryUse("on disk: the change history, in the store", None, history_bytes_max)


def _hubs(status: CatalogStatus) -> Grid:
    rows = sorted(status.hubs, key=lambda one: (one.connected, one.address))
    return Grid(
        about="Each statestored that catalogd publishes to.",
        columns=HUB,
        rows=tuple(tuple(getattr(one, name) for name in HUB) for one in rows),
        links=dict.fromkeys(("address", "pages"), lambda row: str(row["pages"] or "")),
        empty="catalogd has none: --statestores names them",
    )


def _topics(status: CatalogStatus) -> Grid:
    rows = sorted(status.topics, key=lambda one: (-(one.held_bytes or 0), one.topic))
    return Grid(
        about=f"Each topic, the largest first. {NAMESPACE} has the names of databases and tables.",
        columns=TOPIC,
        rows=tuple(tuple(getattr(one, name) for name in TOPIC) for one in rows),
    )


def _loading(status: CatalogStatus) -> Grid:
    left, read = status.tables_to_load, status.load_read
    facts: dict[str, Cell] = {
        "tables": f"{read:,} of {read + left:,} read, {100 * read // (read + left)} %"
        if left
        else "all read",
        "time left_s": status.load_left_s,
        "being read, a part at a time": status.loading,
        "cannot be read": status.tables_unreadable,
        "why": status.unreadable,
        "requests that wait": status.waiting_requests,
    }
    return Grid(
        about="Tables that are being read from the metastore, and tables that cannot be read. The "
        "time left is at the pace of the last minute.",
        columns=("name", "value"),
        rows=tuple(facts.items()),
    )


def _catalog(
    store: Path, query: Query, *, hubs: Mapping[str, str], off_by_default: bool
) -> Mapping[str, Grid]:
    with _reading(store, off_by_default=off_by_default) as content:
        if table := query.get("table"):
            db, dot, name = table.partition(".")
            if not dot:
                raise UsageError(f"{table[:80]} is not database.table")
            return content.table((db, name), after=_key(query), hubs=hubs)
        if wanted := query.get("db"):
            return content.database(wanted, after=_key(query))
        if match := query.get("match"):
            return {"": content.search(match, after=_key(query))}
        return {"": content.databases(after=_key(query))}


@contextmanager
def _reading(store: Path, *, off_by_default: bool) -> Iterator["_Content"]:
    with closing(HistoryReader(store)) as reader, reader.moment():
        yield _Content(reader, off_by_default=off_by_default)


class _Content:
    """The content of the store at one moment."""

    def __init__(self, reader: HistoryReader, *, off_by_default: bool) -> None:
        self._reader = reader
        self._off_by_default = off_by_default
        self._versions = reader.versions()

    def databases(self, *, after: bytes) -> Grid:
        entries, end = self._page(NAMESPACE, after or key_before(database_key("")), DATABASES_END)
        rows = []
        for entry in entries:
            name = name_of_database(entry.key)
            found = read_database(decode_database_value(_value(entry)), entry.version)
            rows.append((name, found.owner, found.location, found.description))
        return Grid(
            about="Each database that catalogd follows. /catalog?match=*orders* finds tables.",
            columns=("database", "owner", "location", "description"),
            rows=rows,
            links={"database": lambda row: _address(db=row["database"])},
            empty="there is none, or the names have not been read yet",
            after=_after(end),
        )

    def database(self, db: str, *, after: bytes) -> Mapping[str, Grid]:
        entry = self._reader.present(NAMESPACE, database_key(db))
        if entry is None:
            raise NoSuchObject(db[:80])
        group = names_group(db)
        first, last = key_before(group), group[:-1] + b"\x01"
        entries, end = self._page(NAMESPACE, max(after, first), last)
        names = [one for block in entries for one in decode_names(_value(block))]
        return {
            "": Grid(
                about=f"The tables and views of {db}.",
                columns=("table", "type"),
                rows=[(one.name, one.type) for one in names],
                links={"table": lambda row: _address(table=f"{db}.{row['table']}")},
                more={"all databases": "/catalog"},
                empty="it has none",
                after=_after(end),
            )
        }

    def search(self, pattern: str, *, after: bytes) -> Grid:
        at = after or key_before(names_group(""))
        left, rows = SEARCH_NAMES, list[tuple[Cell, ...]]()
        matches = re.compile(translate(pattern)).match  # fnmatchcase would look it up each time
        while at and left > 0 and len(rows) < ROWS_MAX:
            entries, at = self._page(NAMESPACE, at, NAMES_END)
            for block in entries:
                db = parse_namespace_key(block.key).db  # type: ignore[union-attr]  # of names
                names = [table_name(db, one.name) for one in decode_names(_value(block))]
                left -= len(names)
                rows += [(name,) for name in names if matches(name)]
        return Grid(
            about=f"Tables and views whose database.table matches {pattern}.",
            columns=("table",),
            rows=rows,
            links={"table": lambda row: _address(table=row["table"])},
            more={"all databases": "/catalog"},
            empty="none so far" if at else "there is none",
            after=_after(at, match=pattern),
        )

    def table(self, of: TableId, *, after: bytes, hubs: Mapping[str, str]) -> Mapping[str, Grid]:
        topic = table_topic(*of, self._reader.num_topics())
        key = table_key(*of)
        entry = self._reader.present(topic, key)
        if entry is None or entry.value is None:
            raise NoSuchObject(f"{table_name(*of)[:160]}: it is not there, or was not read yet")
        value = decode_table_value(entry.value)
        table = read_table(value.thrift, entry.version)
        partitions = STATES[value.partitions]
        why = self._why_not(table.db, table.parameters)
        facts = {"followed": f"no, {why}: {AS_OF}" if why else "", "partitions": partitions}
        about = {"": _facts(table, entry, topic=topic, facts=facts, hubs=hubs)}
        if not after:
            about["Columns"] = _columns(table)
        if not table.partition_columns:
            return about
        lead = block_lead(key)
        first, last = key_before(lead), lead[:-1] + b"\x02"
        blocks, end = self._page(topic, max(after, first), last)
        names = [name for one in blocks for name in names_in_block(_value(one))]
        about["Partitions"] = Grid(
            about="By name.",
            columns=("partition",),
            rows=[(name,) for name in names],
            empty="it has none, or they have not been read yet",
            after=_after(end),
        )
        return about

    def _why_not(self, db: str, parameters: Mapping[str, str]) -> str:
        """Return why a table of ``db`` is not followed; empty: it is followed."""
        entry = self._reader.present(NAMESPACE, database_key(db))
        of_database: Mapping[str, str] = {}
        if entry is not None:
            struct = decode_database_value(_value(entry))
            of_database = read_database(struct, entry.version).parameters
        return why_not(parameters, of_database, off_by_default=self._off_by_default)

    def _page(self, topic: int, after: bytes, until: bytes) -> tuple[list[Entry], bytes]:
        version = self._versions.get(topic, 0)
        entries, end = self._reader.page_at(
            topic, version, after=after, until=until, bytes_max=PAGE_BYTES
        )
        return [one for one in entries if one.value is not None], end


def _facts(
    table: Table, entry: Entry, *, topic: int, facts: Mapping[str, str], hubs: Mapping[str, str]
) -> Grid:
    shown: dict[str, Cell] = {
        "followed": facts["followed"],
        "type": table.type,
        "owner": table.owner,
        "location": table.data_location,
        "provider": table.parameters.get("spark.sql.sources.provider", ""),
        "comment": table.parameters.get("comment", ""),
        "view": table.view_text,
        "partitions": facts["partitions"] if table.partition_columns else "",
        "topic": topic,
        "version": entry.version,
        "schema_version": entry.schema_version,
        "data_version": entry.data_version,
    }
    return Grid(
        about=table.full_name,
        columns=("name", "value"),
        rows=tuple((name, value) for name, value in shown.items() if value != ""),
        more={
            f"all of {table.db}": _address(db=table.db),
            "its changes": f"/history?{urlencode({'object': table.full_name})}",
            **{
                f"its topic at {hub}": f"{pages}/topics/{topic}"
                for hub, pages in islice(hubs.items(), HUBS_MAX)
            },
        },
    )


def _columns(table: Table) -> Grid:
    known = ((table.columns, False), (table.partition_columns, True))
    rows = [
        (one.name, one.type, is_key, one.comment) for columns, is_key in known for one in columns
    ]
    return Grid(
        about="In their order.", columns=("column", "type", "partition key", "comment"), rows=rows
    )


def _value(entry: Entry) -> bytes:
    assert entry.value is not None, "stubs are left out"
    return entry.value


def _key(query: Query) -> bytes:
    """Return the key after which a page begins; empty: it begins with the first."""
    text = query.get("after", "")
    try:
        return bytes.fromhex(text[:KEY_MAX])
    except ValueError:
        raise UsageError("the address is not one that a page links to: begin at /catalog") from None


def _after(end: bytes, **query: str) -> dict[str, str]:
    return {**query, "after": end.hex()} if end else {}


def _address(**query: Cell) -> str:
    return f"/catalog?{urlencode(query)}"
