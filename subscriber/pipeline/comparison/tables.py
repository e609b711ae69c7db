"""Tables: compares those of the metastore with those of catalogd's store, in a task of Spark.

    catalogd's blocks, in order ──▶ 1000 names ──▶ the same partitions of the metastore ──▶ Verdict

Held is one such part, and the names of the partitions of one table.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice, starmap
from typing import Final, Protocol

from ....topics.errors import ObjectGone, SourceRefused, TopicastError, WireError
from ....topics.objects.names import TableId, key_before, table_key, table_name
from ....topics.objects.tables import PartitionReader, read_table
from ....topics.objects.values import decode_block, decode_table_value
from ....topics.topic import value_of
from ...client.conversation import Conversation
from ...datasource.planning import BEHIND_BLOCKS, Work
from ...datasource.reading import catalogd_of, is_whole
from ...datasource.scanning import KeyRange, scan
from .paths import PARTITION, TABLE
from .verdict import Verdict

PARTITIONS_MAX: Final = 1000  # of one request to the metastore


class Metastore(Protocol):
    """What is read of a metastore, by one thread; errors are those of ``SourceError``."""

    def databases(self) -> tuple[str, ...]:
        """Return the names of all databases."""

    def database(self, name: str) -> bytes:
        """Return the ``Database`` struct; raises ObjectGone if there is none."""

    def table_names(self, db: str) -> tuple[tuple[str, str], ...]:
        """Return (name, type) of every table and view; nothing for a database that is gone."""

    def tables(self, db: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ``Table`` structs of those of ``names`` that exist."""

    def partition_names(self, db: str, table: str) -> tuple[str, ...]:
        """Return the names of all partitions; raises ObjectGone if there is no such table."""

    def partitions(self, db: str, table: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the ``Partition`` structs of those of ``names`` that exist."""

    def close(self) -> None:
        """Close the connection."""


MakeMetastore = Callable[[], Metastore]
"""Makes a metastore in any process: Spark hands it to its executors."""


@dataclass(frozen=True, slots=True)
class Target:
    """A table that is compared; ``incarnation`` None: catalogd has none of the name."""

    table: TableId
    topic: int = 0
    version: int = 0
    incarnation: int | None = None


@dataclass(slots=True)
class Found:
    """What a task has found: the tables that are not equal, and how many were compared.

    ``failed``: why it ended early; empty: it has compared all of its tables.
    """

    verdicts: list[Verdict] = field(default_factory=list)
    tables: int = 0
    partitions: int = 0
    not_loaded: int = 0
    failed: str = ""

    def add(self, verdict: Verdict) -> None:
        """Count ``verdict``, and keep it if the table is not equal."""
        self.tables += 1
        self.partitions += verdict.partitions
        self.not_loaded += verdict.not_loaded
        if verdict.differences or verdict.unreadable:
            self.verdicts.append(verdict)


def found_of(targets: Iterable[Target], work: Work, make_metastore: MakeMetastore) -> Found:
    """Compare ``targets``; an error that is not about one table stands in ``failed``.

    ``work``: how catalogd is reached, and of which epoch the versions of ``targets`` are.
    """
    found = Found()
    by_database: dict[str, list[Target]] = {}
    for one in targets:
        by_database.setdefault(one.table[0], []).append(one)
    try:
        with catalogd_of(work) as catalogd, closing(make_metastore()) as metastore:
            sides = _Sides(catalogd, metastore, epoch=work.epoch)
            for verdict in chain.from_iterable(starmap(sides.verdicts, by_database.items())):
                found.add(verdict)
    except TopicastError as error:
        found.failed = str(error)
    return found


class _Sides:
    """The two sides, as one task reads them."""

    def __init__(self, catalogd: Conversation, metastore: Metastore, *, epoch: int) -> None:
        self._catalogd = catalogd
        self._metastore = metastore
        self._epoch = epoch

    def verdicts(self, db: str, targets: Sequence[Target]) -> Iterator[Verdict]:
        """Yield what the two sides have of ``targets``, which are of the database ``db``."""
        structs = self._metastore.tables(db, [one.table[1] for one in targets])
        for target in targets:
            thrift = structs.get(target.table[1])
            verdict = Verdict(table_name(*target.table))
            if thrift is not None and target.incarnation is not None:
                self._compare(verdict, target, thrift)
            elif thrift is not None or target.incarnation is not None:
                verdict.note_existence(verdict.name, there=thrift is not None)
            yield verdict

    def _compare(self, verdict: Verdict, target: Target, thrift: bytes) -> None:
        """Note what differs of a table that both sides have; ``thrift`` is the metastore's."""
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
            names: set[str] = set()
            if read_table(thrift, own.version).partition_columns:
                names.update(self._metastore.partition_names(*target.table))
            reader = PartitionReader(value.templates)
            stored = (
                (record.name, reader.thrift(record))
                for block in entries
                for record in decode_block(value_of(block), block.version).records()
            )
            self._compare_partitions(verdict, target.table, names, stored=stored)
        except ObjectGone:
            verdict.note_existence(verdict.name, there=False)  # dropped meanwhile
        except (SourceRefused, WireError) as error:
            verdict.unreadable = str(error)

    def _compare_partitions(
        self,
        verdict: Verdict,
        table: TableId,
        names: set[str],
        *,
        stored: Iterator[tuple[str, bytes]],
    ) -> None:
        """Compare those that catalogd has ``stored``; ``names``: those of the metastore."""
        while some := dict(islice(stored, PARTITIONS_MAX)):
            verdict.partitions += len(some)
            wanted = [name for name in some if name in names]
            structs = self._metastore.partitions(*table, wanted) if wanted else {}
            names.difference_update(wanted)
            for name, held in some.items():
                full, thrift = f"{verdict.name}/{name}", structs.get(name)
                if thrift is None:
                    verdict.note_existence(full, there=False)
                else:
                    verdict.compare(full, thrift, held, shape=PARTITION)
        for name in sorted(names):
            verdict.note_existence(f"{verdict.name}/{name}", there=True)
