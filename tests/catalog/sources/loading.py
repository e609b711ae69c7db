"""A loader in virtual time, and a metastore that answers whatever it is asked."""

from topicast.catalog.ingest.actions import Dirty, DirtyPartitions, DirtyTable
from topicast.catalog.ingest.loader import Loader
from topicast.catalog.ingest.reads import (
    Effect,
    Publish,
    PublishPartitions,
    Read,
    ReadDone,
    ReadFailed,
    TableRead,
)
from topicast.topics.objects.names import TableId

T, U, V = ("d", "t"), ("d", "u"), ("d", "v")


def changed(table: TableId, **more: bool) -> DirtyTable:
    return DirtyTable(db=table[0], table=table[1], **more)


def partitions(table: TableId, *names: str, data: bool = False) -> DirtyPartitions:
    return DirtyPartitions(db=table[0], table=table[1], names=names, data=data)


def answer(read: Read, **tables: TableRead) -> ReadDone:
    """Answer ``read``: everything exists, unless ``tables`` say otherwise."""
    found = {}
    for want in read.wants:
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
        self.loader.add(dirty, seq=self.seq)
        self.loader.check()

    def reads(self) -> tuple[Read, ...]:
        ordered = self.loader.reads(now=self.now)
        self.loader.check()
        return ordered

    def read(self) -> Read:
        """Return the one read that is ordered."""
        (one,) = self.reads()
        return one

    def done(self, read: Read, **tables: TableRead) -> tuple[Effect, ...]:
        effects = self.loader.done(answer(read, **tables))
        self.loader.check()
        return effects

    def failed(self, read: Read, *, away: bool = False) -> tuple[Effect, ...]:
        fact = ReadFailed(read=read.read, error="corrupt", away=away)
        effects = self.loader.failed(fact, away=away, now=self.now)
        self.loader.check()
        return effects

    def bring(self) -> tuple[Effect, ...]:
        """Return what is written in a turn at this time."""
        effects = self.loader.bring(now=self.now)
        self.loader.check()
        return effects

    def poll(self, *dirty: Dirty) -> tuple[Effect, ...]:
        """Poll once, which brings ``dirty``."""
        number = self.loader.poll_began()
        if dirty:
            self.event(*dirty)
        effects = self.loader.polled(number)
        self.loader.check()
        return effects

    def listed(self, table: TableId, *names: str) -> None:
        """Begin to load ``table`` in pieces, whose partitions are known."""
        self.loader.begin_load(table, names)


def tables_of(effects: tuple[Effect, ...]) -> list[str]:
    """Return the names of the tables that ``effects`` publish."""
    return [name for one in effects if isinstance(one, Publish) for _, name in one.tables]


def wanted(read: Read) -> list[tuple[str, bool, bool, tuple[str, ...]]]:
    return [(want.table, want.obj, want.whole, want.names) for want in read.wants]


def names_of(effects: tuple[Effect, ...]) -> list[tuple[list[str], tuple[str, ...]]]:
    """Return what each piece brings, and what is gone by it."""
    return [
        (list(one.partitions), one.gone) for one in effects if isinstance(one, PublishPartitions)
    ]
