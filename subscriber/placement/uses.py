"""Uses: tells catalogd which tables a subscriber has used, so that they stay loaded.

Any number of reads come in, answered from memory or not; the tables of a minute go out in one
message. Those beyond its bound are left out: catalogd knows of pulls by themselves.
"""

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Final

from ...topics.objects.names import TableId
from ...topics.wire.messages.catalog import USED_MAX, Used

PERIOD_S: Final = 60.0  # between two messages; docs/protocol.md, P-USED-1


class Uses:
    """What was used since the last message."""

    def __init__(self, pinned: Callable[[], Iterable[TableId]]) -> None:
        """``pinned`` returns the tables that are pinned: they are always in use."""
        self.due_at = 0.0  # seconds: when ``due`` has something to do
        self._pinned = pinned
        self._tables: dict[TableId, None] = {}  # at most USED_MAX, in the order of their first use

    def note(self, tables: Iterable[TableId]) -> None:
        """Note that ``tables`` were used."""
        for table in tables:
            if len(self._tables) < USED_MAX:
                self._tables[table] = None

    def due(self, *, now: float) -> Used | None:
        """Return the message that is due; None: none is, or nothing was used."""
        if now < self.due_at:
            return None
        self.due_at = now + PERIOD_S
        every = dict.fromkeys(chain(self._tables, self._pinned()))
        self._tables = {}
        tables = tuple(islice(every, USED_MAX))
        return Used(tables=tables) if tables else None
