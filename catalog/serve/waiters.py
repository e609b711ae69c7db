"""Waiting: pulls of tables that are not held yet, and which of these tables to load next.

waits ──its peer's turn──▶ ordered, once however many ask ──▶ arrived | cannot be read | too long
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ...topics.objects.names import TableId
from ...topics.wire.messages import SELECT_TABLE, Pull

WAITING_MAX: Final = 10_000
WAITING_PER_PEER_MAX: Final = 1_000
WAIT_S_MAX: Final = 5.0  # then it is told why, which is sooner than a subscriber gives up
LOADS_MAX: Final = 32  # ordered at once: twice what is read at once, so that none of it idles

Who = tuple[bytes, int]  # peer, request
Found = tuple[tuple[bytes, Pull], ...]


@dataclass(slots=True)
class _One:
    peer: bytes
    pull: Pull
    give_up_at: float

    @property
    def table(self) -> TableId:
        return self.pull.db, self.pull.table


class Waiting:
    """Who waits for which table."""

    def __init__(self) -> None:
        self._all: dict[Who, _One] = {}  # the oldest first
        self._of_table: dict[TableId, dict[Who, _One]] = {}
        self._of_peer: dict[bytes, int] = {}
        self._to_load: OrderedDict[bytes, deque[TableId]] = OrderedDict()  # by peer, in turn
        self._ordered: dict[TableId, None] = {}  # those of them that are being loaded

    def __len__(self) -> int:
        return len(self._all)

    def add(self, peer: bytes, pull: Pull, *, now: float) -> bool:
        """Let a pull wait, once however often asked; False if too many do."""
        known = self._all.get((peer, pull.request))
        if known is not None and known.table == (pull.db, pull.table):
            known.pull = pull
            return True
        self.cancel(peer, pull.request)
        of_peer = self._of_peer.get(peer, 0)
        if len(self) >= WAITING_MAX or of_peer >= WAITING_PER_PEER_MAX:
            return False
        one = _One(peer, pull, now + WAIT_S_MAX)
        self._all[peer, pull.request] = one
        self._of_table.setdefault(one.table, {})[peer, pull.request] = one
        self._of_peer[peer] = of_peer + 1
        if one.table not in self._ordered:
            self._to_load.setdefault(peer, deque()).append(one.table)
        return True

    def next_load(self) -> TableId | None:
        """Return what to load next, of the peer whose turn it is; None if nothing now."""
        while self._to_load and len(self._ordered) < LOADS_MAX:
            peer, tables = next(iter(self._to_load.items()))
            table = tables.popleft()
            self._to_load.move_to_end(peer)
            if not tables:
                del self._to_load[peer]
            if table in self._of_table and table not in self._ordered:
                self._ordered[table] = None
                return table
        return None

    def cancel(self, peer: bytes, request: int) -> None:
        """Let ``request`` wait no longer."""
        one = self._all.get((peer, request))
        if one is not None:
            self._remove([one])

    def forget(self, peer: bytes) -> None:
        """Let nothing of ``peer`` wait any longer."""
        self._to_load.pop(peer, None)
        self._remove([one for one in self._all.values() if one.peer == peer])

    def arrived(self, ready: Callable[[Pull], bool]) -> Found:
        """Return those whose table has come, or is gone, and let them wait no more.

        Cost: two looks at each table that somebody waits for.
        """
        found: list[_One] = []
        for those in self._of_table.values():
            known: dict[bool, bool] = {}
            for one in those.values():
                alone = one.pull.selector == SELECT_TABLE
                if alone not in known:
                    known[alone] = ready(one.pull)
                if known[alone]:
                    found.append(one)
        return self._remove(found)

    def expire(self, now: float) -> Found:
        """Return those who waited too long."""
        found: list[_One] = []
        for one in self._all.values():
            if one.give_up_at > now:
                break
            found.append(one)
        return self._remove(found)

    def give_up(self, table: TableId) -> Found:
        """Return those who wait for ``table``, which cannot be read."""
        return self._remove(list(self._of_table.get(table, {}).values()))

    def check(self) -> None:
        """Assert every invariant."""
        times = [one.give_up_at for one in self._all.values()]
        assert times == sorted(times)
        assert sum(map(len, self._of_table.values())) == len(self._all)
        assert sum(self._of_peer.values()) == len(self._all)
        assert all(self._of_table.values())
        assert all(self._of_peer.values())
        assert all(table in self._of_table for table in self._ordered)
        queued = {table for tables in self._to_load.values() for table in tables}
        assert all(table in queued or table in self._ordered for table in self._of_table)

    def _remove(self, found: Iterable[_One]) -> Found:
        removed = tuple((one.peer, one.pull) for one in found)
        for peer, pull in removed:
            one = self._all.pop((peer, pull.request))
            those = self._of_table[one.table]
            del those[peer, pull.request]
            if not those:
                del self._of_table[one.table]
                self._ordered.pop(one.table, None)
            self._of_peer[peer] -= 1
            if not self._of_peer[peer]:
                del self._of_peer[peer]
        return removed
