"""Unreadable: the tables and partitions that the metastore cannot read, as they are logged."""

from collections.abc import Mapping

from ...topics.objects.names import TableId, table_name
from ...topics.turn import PartTurn
from ..ingest.loads.loader import Loader
from ..model.namespace import Namespace
from ..model.tables import Tables
from .notes import Noted


class Unreadable:
    """The objects that the metastore cannot read, and why, as of the last turn."""

    def __init__(
        self, namespace: Namespace, tables: Tables, *, loader: Loader, turn: PartTurn[Noted]
    ) -> None:
        self._namespace = namespace
        self._tables = tables
        self._loader = loader
        self._turn = turn
        self.tables: Mapping[TableId, str] = {}
        self.partitions: Mapping[str, str] = {}  # by database.table/partition

    @property
    def first_partition(self) -> str:
        """A partition that the metastore cannot read, with why; empty: there is none."""
        found = next(iter(self.partitions.items()), None)
        return "" if found is None else f"{found[0]}: {found[1]}"

    def note(self) -> None:
        """Log each table that has become unreadable since the last turn, or readable again."""
        known, large = self.tables, self._loader.large
        bad, failed, rejected = (
            large.bad_partitions(),
            self._loader.errors,
            self._tables.rejected_why,
        )
        if not (bad or failed or rejected or known or self.partitions):
            return  # as in almost every turn
        self._note_partitions(bad)
        unreadable = {  # a known table stays unreadable until its load ends, which may fail again
            table: why
            for table, why in known.items()
            if large.is_loading(table) and table not in bad
        }
        unreadable |= {**failed, **rejected}
        for table in sorted(unreadable.keys() - self.tables.keys()):
            text = f"{table_name(*table)} cannot be read: {unreadable[table]}"
            self._log(text, trouble=True)
        for table in sorted(self.tables.keys() - unreadable.keys()):
            if self._namespace.find(table) is not None:
                text = f"{table_name(*table)} can be read again"
                self._log(text, trouble=False)
        self.tables = unreadable

    def _note_partitions(self, bad: Mapping[TableId, Mapping[str, str]]) -> None:
        """Log each partition that has become unreadable since the last turn, or readable again."""
        known, self.partitions = (
            self.partitions,
            {
                f"{table_name(*t)}/{one}": why
                for t, found in bad.items()
                for one, why in found.items()
            },
        )
        for one, why in self.partitions.items():
            if one not in known:
                text = f"{one} cannot be read, the rest of its table is served: {why}"
                self._log(text, trouble=True)
        for one in known:
            if one not in self.partitions:
                self._log(f"{one} can be read again, or is gone", trouble=False)

    def _log(self, text: str, *, trouble: bool) -> None:
        self._turn.add(Noted(text=text, trouble=trouble))
