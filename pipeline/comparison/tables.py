"""Tables: compares tables of the metastore with those of catalogd's store, in a task of Spark.

    catalogd's blocks, in order ──▶ 1000 names ──▶ the same partitions of the metastore ──▶ verdict

A task holds 1000 partitions of either side, and the names of all partitions of one table.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, starmap
from typing import Protocol

from ...subscriber.client.conversation import Conversation
from ...topics.comparison import TABLE
from ...topics.errors import ObjectGone, SourceRefused, TopicastError, WireError
from ...topics.objects.encoding.values import decode_table_value
from ...topics.objects.names import TableId, key_before, table_key, table_name
from ...topics.objects.tables import read_table
from ...topics.topic import value_of
from ..datasource.planning import BEHIND_BLOCKS, Work
from ..datasource.reading import catalogd_of, is_whole
from ..datasource.scanning import KeyRange, scan
from .entries import compare_partitions
from .verdict import METASTORE, SideResult, TableVerdict


class MetastoreReads(Protocol):
    """A metastore as one thread reads it; each method may raise SourceError."""

    def databases(self) -> tuple[str, ...]:
        """Return the names of all databases."""

    def database(self, name: str) -> bytes:
        """Return the ``Database`` struct; raises ObjectGone if there is none."""

    def names(self, db: str) -> tuple[str, ...]:
        """Return the name of every table and view; nothing for a database that is gone."""

    def tables(self, db: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ``Table`` structs of those of ``names`` that exist."""

    def partition_names(self, db: str, table: str) -> tuple[str, ...]:
        """Return the names of all partitions; raises ObjectGone if there is no such table."""

    def partitions(self, db: str, table: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ``Partition`` structs of those of ``names`` that exist."""

    def close(self) -> None:
        """Close the connection."""


MakeMetastore = Callable[[], MetastoreReads]
"""Makes a metastore in any process: Spark hands it to its executors."""


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A table that is compared; ``incarnation`` None: catalogd has no table of this name."""

    table: TableId
    topic: int = 0
    version: int = 0
    incarnation: int | None = None


def compare_tables(
    targets: Iterable[ComparedTable], work: Work, make_metastore: MakeMetastore
) -> SideResult | str:
    """Compare ``targets``; return a text instead if an error that is not about one table ends it.

    ``work``: says how catalogd is reached, and the epoch of the versions of ``targets``.
    """
    found = SideResult(side=METASTORE)
    by_database: dict[str, list[ComparedTable]] = {}
    for one in targets:
        by_database.setdefault(one.table[0], []).append(one)
    try:
        with catalogd_of(work) as catalogd, closing(make_metastore()) as metastore:
            sides = _Sides(catalogd, metastore, epoch=work.epoch)
            for verdict in chain.from_iterable(starmap(sides.verdicts, by_database.items())):
                found.add(verdict)
    except TopicastError as error:
        return str(error)
    return found


class _Sides:
    """The two sides, as one task reads them."""

    def __init__(self, catalogd: Conversation, metastore: MetastoreReads, *, epoch: int) -> None:
        self._catalogd = catalogd
        self._metastore = metastore
        self._epoch = epoch

    def verdicts(self, db: str, targets: Sequence[ComparedTable]) -> Iterator[TableVerdict]:
        """Yield the verdicts of ``targets``, which are tables of the database ``db``."""
        structs = self._metastore.tables(db, [one.table[1] for one in targets])
        for target in targets:
            thrift = structs.get(target.table[1])
            verdict = TableVerdict(table_name(*target.table))
            if thrift is not None and target.incarnation is not None:
                self._compare(verdict, target, thrift)
            elif thrift is not None or target.incarnation is not None:
                verdict.note_existence(verdict.name, there=thrift is not None)
            yield verdict

    def _compare(self, verdict: TableVerdict, target: ComparedTable, thrift: bytes) -> None:
        """Note the differences of a table that both sides have; ``thrift``: the metastore's."""
        group = table_key(*target.table)
        until = group + BEHIND_BLOCKS + b"\0"
        keys = KeyRange(target.topic, target.version, key_before(group), until)
        entries = scan(self._catalogd, keys, epoch=self._epoch)
        own = next(entries, None)
        try:
            if own is None or not is_whole(own, group, target.incarnation or 0):
                verdict.not_loaded = True
                return
            value = decode_table_value(value_of(own))
            verdict.compare(verdict.name, thrift, value.thrift, shape=TABLE)
            names: Iterable[str] = ()
            if read_table(thrift, own.version).partition_columns:
                names = self._metastore.partition_names(*target.table)
            read = partial(self._metastore.partitions, *target.table)
            compare_partitions(verdict, value, entries, names=names, read=read)
        except ObjectGone:
            verdict.note_existence(verdict.name, there=False)  # dropped meanwhile
        except (SourceRefused, WireError) as error:
            verdict.unreadable = str(error)
