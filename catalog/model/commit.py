"""Commit: what the store makes durable at once, all of it or nothing."""

from dataclasses import dataclass

from .folders import FolderChanges
from .modes import ModeState
from .versions import LeaseRow, OrderRow, SweepRow, Transaction, WriteId, WriteRow
from .window_state import WindowState


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Effect: make this durable; what depends on it leaves only afterwards.

    Attributes:
        window: The events that are covered; None: there are none.
        transactions: Those of a topic follow each other, and follow what is stored, without a gap.
        orders: Lines of the history.
        mode_state: Takes the place of the stored mode; None: it stays.
        writes: Reported by drivers; they replace those of the same driver and number.
        finished: The writes to delete then.
        leases: Take the place of all that are stored; None: they stay.
        sweeps: What was found of files.
        folders: Where the data of what the transactions write lies; None: where it lay.
    """

    window: WindowState | None
    transactions: tuple[Transaction, ...] = ()
    orders: tuple[OrderRow, ...] = ()
    mode_state: ModeState | None = None
    writes: tuple[WriteRow, ...] = ()
    finished: tuple[WriteId, ...] = ()
    leases: tuple[LeaseRow, ...] | None = None
    sweeps: tuple[SweepRow, ...] = ()
    folders: FolderChanges | None = None

    @property
    def touched(self) -> tuple[int, ...]:
        """The topics that it changes, for a trace."""
        return tuple(dict.fromkeys(one.topic for one in self.transactions))
