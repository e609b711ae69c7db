"""What replication and the resident set need to know about tables, and what they report back.

Placement implements it: it knows what is pinned, banned and read, and is built before both.
"""

from collections.abc import Sequence
from typing import Protocol

from ...topics.topic import Entry
from .eviction import Key
from .table_snapshot import Swap


class PinPolicy(Protocol):
    """Which tables are kept, which never, and which is worth more; ``group`` is a table's key."""

    @property
    def has_bans(self) -> bool:
        """Whether any table may be banned: otherwise no entry has to be looked at."""

    def banned(self, group: bytes) -> bool:
        """Tell whether a table is never held."""

    def pinned(self, group: bytes) -> bool:
        """Tell whether a table is held whatever its use."""

    def may_evict(self, victim: bytes, newcomer: bytes) -> bool:
        """Tell whether a pulled table may be evicted in favour of ``newcomer``."""

    def read_rate(self, group: bytes) -> float:
        """Return how often in a second a table is read."""

    def newcomer_rate(self, group: bytes) -> float:
        """Return the read rate of a table that was just pulled: at least that of a first read."""

    def on_entry_changed(self, topic: int, entry: Entry) -> None:
        """Take note of a change which is about to be applied."""

    def on_names_changed(self, swaps: Sequence[Swap]) -> None:
        """Take note of what a change of the namespace has created and dropped."""

    def on_names_discarded(self) -> Sequence[Key]:
        """Take note that all names come anew; return the tables that are pinned no more."""
