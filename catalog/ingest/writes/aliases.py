"""Aliases: tables that share a folder change together.

    a table is written ──its folders──▶ the others at, in or above them ──▶ their data is raised

The metastore allows two tables in one folder, and a partition in another table's (``ADD PARTITION
… LOCATION``, a staging table). A write names one of them, and its files are those of the others.
Invariant: what is raised for an alias raises nothing else.
"""

from ....topics.objects.names import TableId
from ...model.tables import FilesWritten, Tables
from .locations import Locations, normal


class Aliases:
    """Raises the data version of tables that share a folder with a table that was written."""

    def __init__(self, tables: Tables, locations: Locations) -> None:
        self._tables = tables
        self._locations = locations
        self.raised = 0  # tables that were raised, since the start

    def step(self) -> None:
        """Raise what shares a folder with what was written."""
        written = self._tables.take_written()
        for table, one in written.items():  # where it lay, before its change is taken in
            one.folders = {normal(folder) for folder in one.folders if folder}
            one.folders |= self._folders(table, one)
        if not written:
            return
        self._locations.catch_up()
        found: dict[TableId, FilesWritten] = {}
        for table, one in written.items():
            folders = one.folders | self._folders(table, one)
            for other, names in self._locations.beside(folders, table).items():
                new = FilesWritten(one.source, set(names), anywhere=not names)
                found.setdefault(other, new).merge(new)
        for other, one in found.items():
            known = written.get(other)
            if known is None or not known.raised or known.source != one.source:
                self._raise(other, one)

    def _folders(self, table: TableId, one: FilesWritten) -> set[str]:
        return self._locations.folders(table, () if one.anywhere else one.names)

    def _raise(self, table: TableId, one: FilesWritten) -> None:
        names = () if one.anywhere else tuple(sorted(one.names))
        self._tables.raise_data(table, partitions=names, source=one.source, noted=False)
        self.raised += 1
