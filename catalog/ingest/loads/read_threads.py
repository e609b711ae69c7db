"""ReadThreads: the threads that call the metastore, so that catalogd's main thread never waits.

Polls have a thread of their own, so that an event never waits behind a load. Each order ends in one
fact that is delivered to the owner, also if the metastore fails.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Final

from ....topics.backports import assert_never
from ....topics.errors import ObjectGone, SourceError, SourceRefused, WireError
from ....topics.objects.names import TableId
from ...metastore.port import (
    COMPARING,
    EVENTS_OF_ID_MAX,
    LISTED_DATABASES_MAX,
    EventRead,
    FactsRead,
    ListingFailed,
    ListNames,
    Metastore,
    NamesFailed,
    NamesListed,
    NamesRead,
    RawEvent,
    Read,
    ReadDone,
    ReadEvent,
    ReadFacts,
    ReadFailed,
    ReadNames,
    TableRead,
    TableRequest,
)
from ...model.decoded import created_at, read_struct
from ...model.namespace import names_sum
from ..events.identity import Identified, Identify
from ..events.poller import Poll, Polled, PollFailed, behind_max, is_behind
from .light import lightened

WHOLE_PARTITIONS_MAX: Final = 1_000  # read at once; a larger table has only its names read
SAMPLED_MAX: Final = 64  # of the newest events, whose size says how many events fit in a poll
CLOSE_S: Final = 0.2  # for each thread; timeouts of calls end a thread that hangs

ReadOrder = Poll | Identify | Read | ReadNames | ListNames | ReadEvent | ReadFacts
Answer = (
    Polled
    | Identified
    | PollFailed
    | ReadDone
    | ReadFailed
    | NamesRead
    | NamesFailed
    | NamesListed
    | ListingFailed
    | EventRead
    | FactsRead
)


class ReadThreads:
    """``threads`` threads for reads and a thread for polls; orders in, facts to ``deliver``."""

    def __init__(
        self, connect: Callable[[], Metastore], *, threads: int, deliver: Callable[[Answer], None]
    ) -> None:
        """``connect`` returns a metastore connection for one thread."""
        self._connect = connect
        self._deliver = deliver
        self._metastores: list[Metastore] = []  # a connection for each thread that has worked
        self._orders: SimpleQueue[ReadOrder | None] = SimpleQueue()  # None ends one thread
        self._polls: SimpleQueue[ReadOrder | None] = SimpleQueue()
        works = [(self._orders, f"reader-{n}") for n in range(threads)] + [(self._polls, "poller")]
        self._threads = [
            threading.Thread(target=self._work, args=(orders,), name=name, daemon=True)
            for orders, name in works
        ]

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    def order(self, order: ReadOrder) -> None:
        """Have a free thread perform ``order``."""
        (self._polls if isinstance(order, Poll | Identify) else self._orders).put(order)

    def close(self) -> None:
        """Take no more orders, and close every connection."""
        for _ in self._threads[:-1]:
            self._orders.put(None)
        self._polls.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=CLOSE_S)
        for metastore in tuple(self._metastores):
            metastore.close()

    def _work(self, orders: "SimpleQueue[ReadOrder | None]") -> None:
        metastore: Metastore | None = None
        while (order := orders.get()) is not None:
            if metastore is None:
                metastore = self._connect()
                self._metastores.append(metastore)
            self._deliver(perform(metastore, order))
        if metastore is not None:
            metastore.close()  # ``close`` misses a connection that was made after it


def perform(metastore: Metastore, order: ReadOrder) -> Answer:
    """Perform ``order`` on ``metastore`` in the calling thread; a failure is also a fact."""
    match order:
        case Poll() | Identify():
            return _poll(metastore, order)
        case Read():
            return _read(metastore, order)
        case ReadNames():
            return _read_names(metastore, order)
        case ListNames():
            return _list_names(metastore, order)
        case ReadEvent():
            return _read_event(metastore, order)
        case ReadFacts():
            return _read_facts(metastore, order)
        case _:
            assert_never(order)


def _poll(metastore: Metastore, order: Poll | Identify) -> Polled | Identified | PollFailed:
    try:
        if isinstance(order, Poll):
            return _polled(metastore, order)
        return _identified(metastore, order)
    except SourceError as exc:
        return _poll_failed(order, exc)


def _poll_failed(
    order: Poll | Identify, exc: SourceError, *, current_id: int | None = None
) -> PollFailed:
    refused = isinstance(exc, SourceRefused)
    return PollFailed(poll=order.poll, error=str(exc), refused=refused, current_id=current_id)


def _polled(metastore: Metastore, order: Poll) -> Polled | PollFailed:
    current = metastore.current_event_id()
    connection = metastore.connections
    recorded = metastore.records_events() if order.check else None
    events: tuple[RawEvent, ...] = ()
    if order.events_max and order.quiet_at != current:
        try:
            events = metastore.events_after(order.after, events_max=order.events_max)
        except SourceError as exc:
            return _poll_failed(order, exc, current_id=current)
    _demand_same(metastore, connection)
    return Polled(
        poll=order.poll,
        connection=connection,
        current_id=current,
        events=lightened(events),
        recorded=recorded,
    )


def _identified(metastore: Metastore, order: Identify) -> Identified | PollFailed:
    events: tuple[RawEvent, ...] = ()
    wanted: dict[str, list[str]] = {}
    for db, table in order.tables:
        wanted.setdefault(db, []).append(table)
    current = metastore.current_event_id()
    connection, uuid, release = metastore.connections, metastore.uuid(), metastore.release()
    if order.events_max:
        try:
            most = order.events_max
            if order.behind and is_behind(current, order.after):
                some = metastore.events_after(current - SAMPLED_MAX, events_max=SAMPLED_MAX)
                most = max(behind_max(some), most) if some else most
            events = lightened(metastore.events_after(order.after, events_max=most))
        except SourceError as exc:
            return _poll_failed(order, exc, current_id=current)
    tables = {
        (db, name): at
        for db, names in wanted.items()
        for name, at in _creations(metastore, db, names)
    }
    _demand_same(metastore, connection)
    return Identified(
        poll=order.poll,
        connection=connection,
        uuid=uuid,
        release=release,
        tells_all=metastore.tells_all(),
        current_id=current,
        events=events,
        tables=tables,
    )


def _creations(
    metastore: Metastore, db: str, names: Sequence[str]
) -> Iterator[tuple[str, int | None]]:
    """Yield the tables that exist, each with its creation time; None: it cannot be read."""
    try:
        for name, struct in metastore.tables(db, names).items():
            yield name, created_at(struct)
    except (SourceRefused, WireError):  # one unreadable table makes the whole call fail
        for name in metastore.names(db):
            if name in names:
                yield name, None


def _demand_same(metastore: Metastore, connection: int) -> None:
    """Raise SourceError if the connection has changed: two may lead to two metastores."""
    if metastore.connections != connection:
        raise SourceError("the connection to the metastore was lost between two calls")


def _read(metastore: Metastore, order: Read) -> ReadDone | ReadFailed:
    try:
        databases = {db: _database(metastore, db) for db in order.databases}
        structs: dict[TableId, bytes] = {}
        by_db: dict[str, list[str]] = {}
        for want in order.requests:
            if want.obj:
                by_db.setdefault(want.db, []).append(want.table)
        for db, names in by_db.items():
            found = metastore.tables(db, names)
            structs.update(((db, name), struct) for name, struct in found.items())
        compared = order.read == COMPARING
        tables = {
            (want.db, want.table): _table(
                metastore, want, structs.get((want.db, want.table)), compared=compared
            )
            for want in order.requests
        }
    except SourceError as exc:
        return ReadFailed(read=order.read, error=str(exc), away=not isinstance(exc, SourceRefused))
    except WireError as exc:  # a struct that cannot be decoded counts as refused
        return ReadFailed(read=order.read, error=str(exc), away=False)
    return ReadDone(read=order.read, databases=databases, tables=tables)


def _database(metastore: Metastore, db: str) -> bytes | None:
    try:
        return metastore.database(db)
    except ObjectGone:
        return None


def _table(
    metastore: Metastore, want: TableRequest, struct: bytes | None, *, compared: bool
) -> TableRead:
    """Read what ``want`` wants of a table.

    This decodes the ``struct``, so that catalogd never publishes a struct that cannot be decoded.
    A ``compared`` struct stays undecoded: nearly all equal the held struct byte by byte.
    """
    if want.obj and struct is None:
        return TableRead()
    if struct is not None and not compared:
        partitioned = bool(read_struct(struct).partition_columns)  # fails if it cannot be read
        if want.whole and not partitioned:
            return TableRead(thrift=struct, names=(), whole=True)
    try:
        if not want.whole:
            names = want.names
            found = metastore.partitions(want.db, want.table, names) if names else {}
            return TableRead(thrift=struct, partitions=found)
        if want.listed:
            every = metastore.partition_names(want.db, want.table)
            return TableRead(thrift=struct, names=every)
        keys = want.keys if struct is None else read_struct(struct).partition_keys
        every, whole = metastore.all_partitions(
            want.db, want.table, keys, partitions_max=WHOLE_PARTITIONS_MAX
        )
        if whole is None:
            return TableRead(thrift=struct, names=every)
        return TableRead(thrift=struct, names=every, partitions=whole, whole=True)
    except ObjectGone:
        return TableRead()


def _read_event(metastore: Metastore, order: ReadEvent) -> EventRead:
    try:
        found = metastore.events_after(order.id - 1, events_max=EVENTS_OF_ID_MAX)
    except SourceError as exc:
        return EventRead(job=order.job, error=str(exc))
    return EventRead(job=order.job, events=tuple(one for one in found if one.id == order.id))


def _read_facts(metastore: Metastore, order: ReadFacts) -> FactsRead:
    try:
        if not order.table:
            return FactsRead(job=order.job, functions=metastore.functions(order.db))
        found = metastore.statistics(
            order.db, order.table, order.columns, partitions=order.partitions
        )
    except SourceError as exc:
        away = not isinstance(exc, SourceRefused | ObjectGone)
        return FactsRead(job=order.job, error=str(exc), away=away)
    return FactsRead(job=order.job, statistics=found)


def _read_names(metastore: Metastore, order: ReadNames) -> NamesRead | NamesFailed:
    databases: dict[str, tuple[bytes, tuple[tuple[str, str], ...]]] = {}
    try:
        every = (order.db,) if order.db else tuple(sorted(metastore.databases()))
        left = [db for db in every if db > order.after]
        some = left if order.job else left[:LISTED_DATABASES_MAX]
        for db in some:
            struct = _database(metastore, db)
            if struct is not None:
                databases[db] = (struct, _rows(metastore, db, typed=order.typed))
    except SourceError as exc:
        return NamesFailed(error=str(exc), job=order.job)
    upto = some[-1] if len(some) < len(left) else ""
    return NamesRead(databases=databases, job=order.job, upto=upto, total=len(every))


def _rows(metastore: Metastore, db: str, *, typed: bool) -> tuple[tuple[str, str], ...]:
    return metastore.table_names(db) if typed else tuple([(n, "") for n in metastore.names(db)])


def _list_names(metastore: Metastore, order: ListNames) -> NamesListed | ListingFailed:
    try:
        databases = metastore.databases()
        some = sorted(db for db in databases if db > order.after)[:LISTED_DATABASES_MAX]
        tables = {db: metastore.names(db) for db in some}
    except SourceError as exc:
        return ListingFailed(error=str(exc))
    sums = {db: names_sum(names) for db, names in tables.items()}
    return NamesListed(databases=databases, tables=tables, sums=sums)
