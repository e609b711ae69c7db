"""Unloading: tables that nobody uses leave catalogd, hubs and readers, and are loaded when used.

    loaded ──used: pulled, or answered from a subscriber's memory──▶ the newest
       └─ not used for the timeout, or memory is short and it is among the oldest ──▶ a stub
                                                          a stub ──pulled──▶ loaded

By its stub readers know that a table exists, and when it changes: events raise the version of the
stub, and have nothing read. Subscribers report once a minute the tables for which memory answered.
After a restart all tables count as just used.
Invariant: a table that is unloaded was held whole, is not being read, and no pull waits for it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

from ...topics.clock import Clock
from ...topics.memory.memory_limit import MemoryLimit
from ...topics.objects.names import TableId
from ..model.tables import Tables

STEP_MAX: Final = 25  # tables that are looked at in one turn: 1 ms
PRESSURE_SHARE: Final = 0.1  # of the tables, the least recently used, that leave at once; Impala's
PRESSURE_S: Final = 30.0  # between two times, so that memory is measured in between


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadSettings:
    """When tables are unloaded. ``timeout_s`` 0: never for their age.

    ``pressure``: the share of the limit of memory above which the oldest are; None: none are.
    """

    timeout_s: float = 0.0
    pressure: float | None = None


NEVER_UNLOAD: Final = UnloadSettings()


class Unloading:
    """When each loaded table was last used, and which are to be unloaded."""

    def __init__(
        self,
        tables: Tables,
        *,
        clock: Clock,
        settings: UnloadSettings,
        memory: MemoryLimit | None,
        pending: Callable[[TableId], bool],
    ) -> None:
        """``pending``: whether something of a table is being read, or a pull waits for it."""
        self.unloaded = 0  # tables, since the start
        self._tables = tables
        self._clock = clock
        self._settings = settings
        self._memory = memory
        self._pending = pending
        self._used: OrderedDict[TableId, float] = OrderedDict()  # s; the least recent first
        self._begun = False  # whether the tables of the store are among them
        self._to_unload = 0  # of the oldest, because memory is short
        self._pressed_at = -inf  # when memory was last found to be short

    @property
    def enabled(self) -> bool:
        """Whether tables are unloaded at all."""
        return self._settings.timeout_s > 0 or self._settings.pressure is not None

    @property
    def deadline(self) -> float | None:
        """When ``step`` has something to do; None: not before a table is loaded."""
        if self._to_unload:
            return self._clock.now
        if not self._used or not self._settings.timeout_s:
            return None
        return next(iter(self._used.values())) + self._settings.timeout_s

    def leaves_out(self, table: TableId) -> bool:
        """Return whether ``table`` is to be loaded by its next use alone."""
        return self.enabled and self._tables.is_stub(table)

    def loaded(self, table: TableId) -> None:
        """Note that ``table`` is loaded, which counts as a use if it was not."""
        if self.enabled:
            self._used.setdefault(table, self._clock.now)

    def use(self, tables: Iterable[TableId]) -> None:
        """Note that ``tables`` were used; those that are not loaded do not count."""
        for table in tables:
            if table in self._used:
                self._used[table] = self._clock.now
                self._used.move_to_end(table)

    def step(self) -> None:
        """Unload some of the tables that are due."""
        if not self.enabled:
            return
        if not self._begun:
            self._begun = True
            self._used.update(dict.fromkeys(self._tables.every_table(), self._clock.now))
        self._look_at_memory()
        for _ in range(STEP_MAX):
            table = next(iter(self._used), None)
            if table is None or not (self._to_unload or self._is_due(table)):
                break
            self._to_unload = max(self._to_unload - 1, 0)
            if self._pending(table):
                self.use([table])
                continue
            del self._used[table]
            self.unloaded += self._tables.unload(table)

    def check(self) -> None:
        """Assert every invariant."""
        times = list(self._used.values())
        assert times == sorted(times)
        assert self._to_unload >= 0
        assert self.enabled or not self._used

    def _is_due(self, table: TableId) -> bool:
        timeout_s = self._settings.timeout_s
        return bool(timeout_s) and self._used[table] + timeout_s <= self._clock.now

    def _look_at_memory(self) -> None:
        pressure, memory = self._settings.pressure, self._memory
        if pressure is None or memory is None or self._to_unload:
            return
        now = self._clock.now
        short = memory.resident_bytes > memory.limit_bytes * pressure
        if short and now >= self._pressed_at + PRESSURE_S:
            self._pressed_at = now
            self._to_unload = -(-len(self._used) // int(1 / PRESSURE_SHARE))
