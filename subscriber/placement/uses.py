"""Uses: the tables that a subscriber reports to catalogd as used, so that they stay loaded there.

Each read is noted, whether memory answers it or not; the tables of a minute go out in one message.
Tables beyond the bound of the message are left out: catalogd sees the pulls of those that memory
does not answer.
"""

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Final

from ...topics.objects.names import TableId
from ...topics.wire.messages.catalog import USED_MAX, Used

PERIOD_S: Final = 60.0  # between two messages; docs/protocol.md, P-USED-1


class Uses:
    """The tables that were used since the last message."""

    def __init__(self, pinned: Callable[[], Iterable[TableId]]) -> None:
        """``pinned`` returns the pinned tables, which count as used at all times."""
        self.due_at = 0.0  # seconds: when ``due`` has something to do
        self._pinned = pinned
        self._tables: dict[TableId, None] = {}  # at most USED_MAX, in the order of their first use

    def note(self, tables: Iterable[TableId]) -> None:
        """Note that ``tables`` were used."""
        for table in tables:
            if len(self._tables) < USED_MAX:
                self._tables[table] = None

    def due(self, *, now: float) -> Used | None:
        """Return the message that is due; None: none is due, or no table was used."""
        if now < self.due_at:
            return None
        self.due_at = now + PERIOD_S
        every = dict.fromkeys(chain(self._tables, self._pinned()))
        self._tables = {}
        tables = tuple(islice(every, USED_MAX))
        return Used(tables=tables) if tables else None
