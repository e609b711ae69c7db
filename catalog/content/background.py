"""Background: loads the content that the mode has published although nobody has requested it.

a start | another mode ──▶ every known table, some a turn ──▶ loaded, unless it is held
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from ...topics.objects.names import TableId
from ..ingest.loads.loader import Loader
from ..model.modes import Mode
from ..model.namespace import Namespace
from ..model.tables import Tables
from .backfill import Backfill
from .unloading import Unloading

CHECKED_AT_ONCE: Final = 25  # tables of one turn: 1 ms


class Background:
    """The tables that catalogd loads in the background, and those that it has yet to look at."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        loader: Loader,
        backfill: Backfill,
        unloading: Unloading,
        names_known: Callable[[], bool],
        enabled: bool,
    ) -> None:
        """Look at all tables, if their names are known.

        ``enabled``: whether the operator lets catalogd load what nobody has requested.
        """
        self._namespace = namespace
        self._tables = tables
        self._loader = loader
        self._backfill = backfill
        self._unloading = unloading
        self._names_known = names_known
        self._enabled = enabled
        self._unchecked: Iterator[TableId] | None = None  # tables that ``check_some`` has yet to do
        if names_known():
            self._unchecked = namespace.every_table()

    @property
    def ready(self) -> bool:
        """Whether ``check_some`` has tables left."""
        return self._unchecked is not None

    def check_some(self) -> bool:
        """Look at the next CHECKED_AT_ONCE known tables; load a table if its content is missing.

        After a start, or a change of the mode, this goes once through all tables. Returns False
        when no table is left. Cost: about 30 µs a table.
        """
        if self._unchecked is None or not self._names_known():
            return False
        some = tuple(islice(self._unchecked, CHECKED_AT_ONCE))
        for table in some:
            self.load(table)
        if len(some) < CHECKED_AT_ONCE:
            self._unchecked = None
        return True

    def change_mode(self, mode: Mode) -> bool:
        """Publish under ``mode`` from now on, and load what it needs; False if it is the mode."""
        if not self._backfill.change(mode):
            return False
        self._loader.retain(self._publishes)
        if self._names_known():
            self._unchecked = self._namespace.every_table()
        return True

    def load(self, table: TableId) -> None:
        """Load ``table`` in the background, if the mode has its content published.

        Caller: the core for a table that a listing has found, an operator's order to invalidate.
        Affects: the loader's backlog; readers get the content once it has been read.
        """
        if self.wants(table) and not self._tables.loaded(table):
            self._loader.load(table)

    def wants(self, table: TableId) -> bool:
        """Return whether catalogd is to hold ``table`` although nobody has requested it."""
        return self._publishes(table) and not self._unloading.leaves_out(table)

    def _publishes(self, table: TableId) -> bool:
        return self._enabled and not self._backfill.mode.withholds(table)
