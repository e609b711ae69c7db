"""Backlog: tables to be read in the background, some at a time.

in doubt (events of it are missing) ──first──▶ read as new
never read ───────────────────────────then──▶ loaded

A gap in the events puts every table in doubt; one read of them all would stand before
everything else for minutes.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from ...topics.objects.names import TableId
from .reads import NEVER, Need


class Backlog:
    """The tables; ``seq`` is the arrival number of the oldest gap, NEVER if none is in doubt."""

    def __init__(self) -> None:
        self.seq = NEVER
        self._doubted: dict[TableId, None] = {}
        self._new: dict[TableId, None] = {}

    def __len__(self) -> int:
        return len(self._doubted) + len(self._new)

    def is_doubted(self, table: TableId) -> bool:
        """Tell whether ``table`` is in doubt."""
        return table in self._doubted

    def add(self, table: TableId) -> None:
        """ChunkedLoad ``table`` some time."""
        if table not in self._doubted:
            self._new[table] = None

    def doubt(self, tables: Iterable[TableId], *, seq: int) -> None:
        """Read ``tables`` again, as new."""
        self._doubted.update(dict.fromkeys(tables))
        self._settle(min(self.seq, seq))

    def discard(self, table: TableId) -> None:
        """ChunkedLoad ``table`` no more; what is in doubt is read all the same."""
        self._new.pop(table, None)

    def keep(self, wanted: Callable[[TableId], bool]) -> None:
        """ChunkedLoad only what is ``wanted``."""
        self._new = {table: None for table in self._new if wanted(table)}

    def take(self, count: int) -> dict[TableId, Need]:
        """Return what is to be read of the next ``count`` tables, and keep them no longer."""
        needs = {table: self.take_one(table) for table in list(islice(self._doubted, count))}
        for table in list(islice(self._new, count - len(needs))):
            del self._new[table]
            needs.setdefault(table, Need(obj=True, whole=True, load=True))
        return needs

    def take_one(self, table: TableId) -> Need:
        """Return what is to be read of ``table``, which is in doubt, and no longer."""
        need = Need(self.seq, obj=True, whole=True, dropped=True)
        del self._doubted[table]
        self._settle(self.seq)
        return need

    def _settle(self, seq: int) -> None:
        self.seq = seq if self._doubted else NEVER
