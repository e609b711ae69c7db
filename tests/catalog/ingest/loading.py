"""A loader in virtual time, and answers of a metastore."""

from topicast.catalog.ingest.actions import Dirty, DirtyPartitions, DirtyTable
from topicast.catalog.ingest.chunked_load import PublishPartitions
from topicast.catalog.ingest.loader import Loader, PublishTables, Result
from topicast.catalog.ingest.reads import Read, ReadDone, ReadFailed, TableRead
from topicast.topics.objects.names import TableId

T, U, V = ("d", "t"), ("d", "u"), ("d", "v")


def changed(table: TableId, **more: bool) -> DirtyTable:
    return DirtyTable(db=table[0], table=table[1], **more)


def partitions(table: TableId, *names: str, data: bool = False) -> DirtyPartitions:
    return DirtyPartitions(db=table[0], table=table[1], names=names, data=data)


def answer(read: Read, **tables: TableRead) -> ReadDone:
    """Answer ``read``: everything exists, unless ``tables`` say otherwise."""
    found = {}
    for want in read.requests:
        struct = b"struct" if want.obj else None
        names = dict.fromkeys(want.names, b"partition")
        found[want.db, want.table] = tables.get(
            want.table, TableRead(thrift=struct, partitions=names, whole=want.whole)
        )
    return ReadDone(read=read.read, databases=dict.fromkeys(read.databases, b"db"), tables=found)


class Stand:
    """A loader over ``loaded`` tables; events arrive with a number of their own."""

    def __init__(self, *loaded: TableId, reads_max: int = 16, fenced: bool = True) -> None:
        self.held = set(loaded)
        self.loader = Loader(loaded=self.held.__contains__, reads_max=reads_max, fenced=fenced)
        self.now = 100.0
        self.seq = 0

    def event(self, *dirty: Dirty) -> None:
        self.seq += 1
        self.loader.mark_dirty(dirty, seq=self.seq)
        self.loader.check()

    def reads(self) -> tuple[Read, ...]:
        ordered = self.loader.reads(now=self.now)
        self.loader.check()
        return ordered

    def read(self) -> Read:
        """Return the one read that is ordered."""
        (one,) = self.reads()
        return one

    def done(self, read: Read, **tables: TableRead) -> tuple[Result, ...]:
        effects = self.loader.on_read_done(answer(read, **tables))
        self.loader.check()
        return effects

    def failed(self, read: Read, *, away: bool = False) -> tuple[Result, ...]:
        fact = ReadFailed(read=read.read, error="corrupt", away=away)
        effects = self.loader.on_read_failed(fact, away=away, now=self.now)
        self.loader.check()
        return effects

    def bring(self) -> tuple[Result, ...]:
        """Return what is written in a turn at this time."""
        effects = self.loader.next_slice(now=self.now)
        self.loader.check()
        return effects

    def poll(self, *dirty: Dirty) -> tuple[Result, ...]:
        """Poll once, which brings ``dirty``."""
        number = self.loader.begin_poll()
        if dirty:
            self.event(*dirty)
        effects = self.loader.on_poll_done(number)
        self.loader.check()
        return effects

    def listed(self, table: TableId, *names: str) -> None:
        """Begin to load ``table`` in chunks, whose partitions are known."""
        self.loader.begin_chunked_load(table, names)


def tables_of(effects: tuple[Result, ...]) -> list[str]:
    """Return the names of the tables that ``effects`` publish."""
    return [name for one in effects if isinstance(one, PublishTables) for _, name in one.tables]


def wanted(read: Read) -> list[tuple[str, bool, bool, tuple[str, ...]]]:
    return [(want.table, want.obj, want.whole, want.names) for want in read.requests]


def names_of(effects: tuple[Result, ...]) -> list[tuple[list[str], tuple[str, ...]]]:
    """Return what each slice publishes, and what is gone by it."""
    return [
        (list(one.partitions), one.gone) for one in effects if isinstance(one, PublishPartitions)
    ]
