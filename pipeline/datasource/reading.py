"""Reading: the rows of one task, in an executor; only the selected columns are decoded."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Final

from ...subscriber.client.conversation import Conversation, catalogd_at
from ...topics.backports import assert_never
from ...topics.errors import AuthRefused, HistoryGone, SourceRefused
from ...topics.keys.credential import read_credential
from ...topics.objects.changes import ChangeKind
from ...topics.objects.encoding.values import (
    LOADING,
    TableValue,
    decode_block,
    decode_database_value,
    decode_table_value,
)
from ...topics.objects.names import (
    TableId,
    block_lead,
    group_of,
    is_database,
    key_before,
    table_key,
    table_name,
    table_of,
)
from ...topics.objects.tables import PartitionReader, read_database, read_table
from ...topics.topic import Entry, value_of
from .options import SourceOptions
from .planning import Part, Piece, Work
from .scanning import (
    FilesOf,
    KeyRange,
    LogRange,
    VersionRange,
    changes,
    file_pages,
    log_lines,
    pull,
    scan,
)
from .views import (
    CHANGES,
    DATABASES,
    NEED_PARTITION,
    PARTITIONS,
    TABLES,
    VIEWS,
    ChangedObject,
    ColumnRow,
    DatabaseRow,
    FilesRow,
    Origin,
    PartitionRow,
    TableRow,
    change_row,
    snapshot_row,
)

ROWS_MAX: Final = 10_000  # of a batch: some megabytes with every column
REFUSED_S: Final = 20.0  # after a restart of catalogd, ``renewal`` grants the key in some seconds

Row = tuple[object, ...]


class TaskReader:
    """Reads the view of ``options``; ``wanted`` names the columns of a row, in their order.

    ``refused_s``: for how long a refused key is tried again.
    """

    def __init__(
        self, options: SourceOptions, wanted: Sequence[str], *, refused_s: float = REFUSED_S
    ) -> None:
        self._options = options
        self._refused_s = refused_s
        self._view = VIEWS[options.view]
        self._getters = self._view.getters(wanted)
        self._names_only = NEED_PARTITION.isdisjoint(wanted)

    def batches(self, work: Work) -> Iterator[list[Row]]:
        """Yield the rows of ``work`` in lists of at most ROWS_MAX; those of the planning in one.

        Raises:
            LinkError: catalogd is not reached from here.
            AuthRefused: catalogd does not admit the key of ``work`` any more.
            HistoryGone: catalogd no longer has the changes since the snapshot version.
            SourceRefused: a table cannot be read.
        """
        if not work.pieces:
            yield list(work.rows)
            return
        rows: list[Row] = []
        for found in self._objects(work):
            rows.append(tuple([getter(found) for getter in self._getters]))
            if len(rows) >= ROWS_MAX:
                yield rows
                rows = []
        yield rows

    def _objects(self, work: Work) -> Iterator[object]:
        with catalogd_of(work, refused_s=self._refused_s) as catalogd:
            for piece in work.pieces:
                yield from self._of(catalogd, piece, work.epoch)

    def _of(self, catalogd: Conversation, piece: Part, epoch: int) -> Iterator[object]:
        match piece:
            case VersionRange():
                yield from self._changes(catalogd, piece, epoch)
            case LogRange():
                yield from log_lines(catalogd, piece)
            case FilesOf():
                for table in piece.tables:
                    for page in file_pages(catalogd, table_name(*table)):
                        yield from (FilesRow(table, row) for row in page.records())
            case Piece() if self._view is CHANGES:
                yield from self._snapshot(catalogd, piece, epoch)
            case Piece():
                yield from self._catalog(catalogd, piece, epoch)
            case _:
                assert_never(piece)

    def _changes(
        self, catalogd: Conversation, span: VersionRange, epoch: int
    ) -> Iterator[ChangedObject]:
        """Yield the changes of the selected tables in ``span``."""
        found = (change_row(span.topic, row) for row in changes(catalogd, span, epoch=epoch))
        selected = (row for row in found if self._options.selects(row.table))
        try:
            yield from _last_of_each(selected) if self._options.latest_state else selected
        except HistoryGone:
            if self._options.fail_on_data_loss:
                raise
            yield from self._snapshot(catalogd, Piece(KeyRange(span.topic, span.until), {}), epoch)

    def _snapshot(
        self, catalogd: Conversation, piece: Piece, epoch: int
    ) -> Iterator[ChangedObject]:
        """Yield the selected tables of a topic and their partitions, as rows of ``changes``.

        Tables of ``piece`` that were not loaded are pulled, so their rows may be newer.
        """
        missing = dict(piece.tables)
        entries = scan(catalogd, piece.keys, epoch=epoch)
        for group, some in groupby(entries, key=lambda entry: group_of(entry.key)):
            table = table_of(group)
            own, *blocks = some
            if own.key != group or not self._options.selects(table):
                continue
            if table not in missing or is_whole(own, group, missing[table]):
                missing.pop(table, None)
                yield from _snapshot_rows(table, (own, *blocks), piece.keys)
        for table in missing:
            found = self._pulled(catalogd, table)
            if found is not None:
                yield from _snapshot_rows(table, found[1], piece.keys)

    def _catalog(self, catalogd: Conversation, piece: Piece, epoch: int) -> Iterator[object]:
        """Yield the objects of a view of the catalog."""
        entries = scan(catalogd, piece.keys, epoch=epoch)
        origin = Origin(piece.keys.topic, piece.keys.version)
        if self._view is DATABASES:
            yield from self._databases(entries, origin)
            return
        cut = self._cut(catalogd, piece, epoch)
        missing = dict(piece.tables)
        for group, some in groupby(entries, key=lambda entry: group_of(entry.key)):
            table = table_of(group)
            if cut is not None and group == cut.key:
                yield from self._of_blocks(table, cut, list(some), origin=origin)
            elif table in missing:
                own, *blocks = some
                if is_whole(own, group, missing[table]):
                    del missing[table]
                    yield from self._of_table(table, own, blocks, origin=origin)
        for table in missing:
            yield from self._of_missing(catalogd, table, piece)

    def _databases(self, entries: Iterable[Entry], origin: Origin) -> Iterator[DatabaseRow]:
        for entry in entries:
            if is_database(entry.key):
                found = read_database(decode_database_value(value_of(entry)), entry.version)
                if self._options.conditions.allow_database(found.name):
                    yield DatabaseRow(found, origin)

    def _cut(self, catalogd: Conversation, piece: Piece, epoch: int) -> Entry | None:
        """Return the own entry of the table that goes on in ``piece``; None: no table does.

        None, too, if the table is not whole: the task of the piece where it begins pulls it then.
        """
        if piece.cut is None or self._view is not PARTITIONS:
            return None
        table, incarnation = piece.cut
        group = table_key(*table)
        first = replace(piece.keys, after=key_before(group), until=block_lead(group))
        own = next(scan(catalogd, first, epoch=epoch), None)
        return own if own is not None and is_whole(own, group, incarnation) else None

    def _of_missing(self, catalogd: Conversation, table: TableId, piece: Piece) -> Iterator[object]:
        """Yield the present content of a table that was not loaded in the version of ``piece``."""
        found = self._pulled(catalogd, table)
        if found is not None:
            version, (own, *blocks) = found
            origin = Origin(piece.keys.topic, version)
            yield from self._of_table(table, own, blocks, origin=origin)

    def _pulled(self, catalogd: Conversation, table: TableId) -> tuple[int, list[Entry]] | None:
        """Return the entries of a table that was not loaded; None: it is gone, or is left out.

        Raises:
            HistoryGone: the options allow no content that is newer.
            SourceRefused: the metastore cannot read the table; says why.
        """
        if not self._options.pull_missing:
            if self._options.skip_unreadable:
                return None
            text = f"{table_name(*table)} was not loaded in that snapshot version"
            raise HistoryGone(f"{text}: read as of another, or with notLoaded=pull")
        try:
            found = pull(catalogd, table)
        except SourceRefused:
            if self._options.skip_unreadable:
                return None
            raise
        return found if found is not None and found[1] else None

    def _of_table(
        self, table: TableId, own: Entry, blocks: Sequence[Entry], *, origin: Origin
    ) -> Iterator[object]:
        if self._view is PARTITIONS:
            yield from self._of_blocks(table, own, blocks, origin=origin)
            return
        found = read_table(decode_table_value(value_of(own)).thrift, own.version)
        if self._view is TABLES:
            yield TableRow(found, origin)
        else:
            columns, count = (*found.columns, *found.partition_columns), len(found.columns)
            hive = (*found.metastore_columns, *found.metastore_partition_columns)
            types = {column.name: column.type for column in hive}
            for position, column in enumerate(columns):
                there = types.get(column.name.lower())
                yield ColumnRow(found, column, there, position, position >= count, origin)

    def _of_blocks(
        self, table: TableId, own: Entry, blocks: Sequence[Entry], *, origin: Origin
    ) -> Iterator[PartitionRow]:
        """Yield the partitions in ``blocks`` of the table whose entry is ``own``."""
        if self._names_only:
            for block in blocks:
                for name in decode_block(value_of(block), block.version).names:
                    yield PartitionRow(table, name, None, origin)
        else:
            value = decode_table_value(value_of(own))
            yield from _partitions(table, value, blocks, origin=origin)


@contextmanager
def catalogd_of(work: Work, *, refused_s: float = REFUSED_S) -> Iterator[Conversation]:
    """Connect to catalogd with the key of ``work``; ``refused_s``: as of ``TaskReader``.

    Raises:
        LinkError: catalogd is not reached from here.
        AuthRefused: catalogd does not admit the key any more.
    """
    credential = read_credential(work.credential, source="the driver")
    address, client = work.address, f"executors of {credential.name}"
    connecting = catalogd_at(address, credential, client=client, refused_s=refused_s)
    try:
        with connecting as catalogd:
            yield catalogd
    except AuthRefused as error:
        why = "their key ends with the application that planned the read, or with its driver's key"
        text = f"catalogd at {address} does not admit {client}: {why}; start the read again"
        raise AuthRefused(text) from error


def _last_of_each(rows: Iterable[ChangedObject]) -> list[ChangedObject]:
    """Return the last row of each table and partition; if a table was dropped, that row as well.

    Cost: memory for all of them.
    """
    last: dict[TableId, dict[str | None, ChangedObject]] = {}
    for row in rows:
        of_table = last.setdefault(row.table, {})
        if row.partition is None and row.kind == ChangeKind.DROPPED:
            of_table.clear()
            of_table[""] = row  # it stays if another table of the name is created
        else:
            of_table[row.partition] = row
    return [row for of_table in last.values() for row in of_table.values()]


def _snapshot_rows(
    table: TableId, entries: Sequence[Entry], keys: KeyRange
) -> Iterator[ChangedObject]:
    """Yield a row of ``changes`` for a table and for each partition; ``entries`` are sorted."""
    own, *blocks = entries
    value, origin = decode_table_value(value_of(own)), Origin(keys.topic, keys.version)
    yield snapshot_row(keys.topic, TableRow(read_table(value.thrift, own.version), origin))
    for found in _partitions(table, value, blocks, origin=origin):
        yield snapshot_row(keys.topic, found)


def _partitions(
    table: TableId, value: TableValue, blocks: Sequence[Entry], *, origin: Origin
) -> Iterator[PartitionRow]:
    read = PartitionReader(value.templates).read
    for block in blocks:
        for record in decode_block(value_of(block), block.version).records():
            yield PartitionRow(table, record.name, read(record), origin)


def is_whole(own: Entry, group: bytes, incarnation: int) -> bool:
    """Return whether ``own`` is the own entry of the table of this incarnation, loaded whole."""
    if own.key != group:
        return False
    value = decode_table_value(value_of(own))
    return value.incarnation == incarnation and value.partitions != LOADING
