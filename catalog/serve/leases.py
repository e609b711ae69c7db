"""Leases: each gives one client alone the right to change a table in the metastore.

    free ──Lease──▶ held ──lease over──▶ lapsed ──Lease of another holder──▶ held by that
      ▲───ended──────┘ ▲────────renewed────┘

The metastore has no call that compares and sets. So a pipeline that has to be the only writer of a
table takes the lease of the table, and renews it just before each change.

Invariant: a renewal succeeds only if nobody else has held the lease since its holder took it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...topics.clock import Clock
from ...topics.errors import LeaseHeld, UsageError
from ...topics.objects.names import TableId, table_name
from ..model.versions import LeaseRow

LEASE_S_MAX: Final = 600  # a client that dies blocks its table for no longer
LEASES_MAX: Final = 1024  # tables: a row of the store each, all written when one changes


class TooManyLeases(UsageError):
    """No more leases fit: ``LEASES_MAX`` are held."""


@dataclass(slots=True)
class _Lease:
    row: LeaseRow
    until: float  # on the clock of a turn


class Leases:
    """The leases of tables; ``changed`` returns them for the store after a change of a holder."""

    def __init__(self, clock: Clock, rows: Iterable[LeaseRow] = ()) -> None:
        """``rows``: as stored. Each counts as just renewed at the first call of any method."""
        self._clock = clock
        self._by_table: dict[TableId, _Lease] = {}
        self._stored = tuple(rows)
        self._begun = False
        self._changed = False

    def take(self, row: LeaseRow, *, renew: bool) -> int:
        """Give the lease of ``row.table`` to ``row.holder``; return for how many seconds.

        ``renew``: only if nobody else has held it since.

        Raises:
            LeaseHeld: another holder has it, or had it since.
            TooManyLeases: ``LEASES_MAX`` are held.
        """
        now = self._clock.now
        self._begin()
        known = self._by_table.get(row.table)
        mine = known is not None and known.row.holder == row.holder
        if known is not None and not mine and now < known.until:
            raise LeaseHeld(_held(known, now))
        if renew and not mine:
            raise LeaseHeld(
                f"the lease of {table_name(*row.table)} lapsed and was given away or ended"
            )
        if known is None:
            self._make_room()
        lease_s = min(row.lease_s, LEASE_S_MAX)
        kept = LeaseRow(table=row.table, holder=row.holder, owner=row.owner, lease_s=lease_s)
        self._changed |= known is None or known.row != kept
        self._by_table[row.table] = _Lease(kept, now + lease_s)
        return lease_s

    def end(self, table: TableId, holder: bytes) -> None:
        """Free the lease of ``table``; nothing if ``holder`` does not have it."""
        self._begin()
        known = self._by_table.get(table)
        if known is not None and known.row.holder == holder:
            del self._by_table[table]
            self._changed = True

    def changed(self) -> tuple[LeaseRow, ...] | None:
        """Return every lease if a holder has changed since the last call, else None."""
        self._begin()
        if not self._changed:
            return None
        self._changed = False
        return tuple(one.row for one in self._by_table.values())

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._by_table) <= LEASES_MAX
        for table, lease in self._by_table.items():
            assert lease.row.table == table
            assert 0 < lease.row.lease_s <= LEASE_S_MAX

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._by_table = {
                row.table: _Lease(row, self._clock.now + row.lease_s) for row in self._stored
            }

    def _make_room(self) -> None:
        if len(self._by_table) < LEASES_MAX:
            return
        first = min(self._by_table.values(), key=lambda one: one.until)
        if self._clock.now < first.until:
            raise TooManyLeases(f"{LEASES_MAX} leases are held, and catalogd keeps no more")
        del self._by_table[first.row.table]


def _held(lease: _Lease, now: float) -> str:
    left_s = max(1, round(lease.until - now))
    name = table_name(*lease.row.table)
    return f"{name} is held by {lease.row.owner}, for {left_s} s more if it does not renew"
