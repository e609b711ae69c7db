"""Pins: which tables are pinned or banned, by rules of names and patterns."""

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Final

from ...topics.objects.encoding.values import decode_names
from ...topics.objects.names import (
    NamesKey,
    parse_namespace_key,
    parse_table_key,
    table_key,
    table_name,
)
from ...topics.topic import MINIMAL_BYTES, Entry, table_topic, value_of
from ..store.eviction import Key
from ..store.table_snapshot import NOTHING, Swap, differing
from ..store.view import View

PINS_MAX: Final = 10_000  # pinned tables that are known, each of 500 bytes outside the budget
SCAN_MAX: Final = 16  # blocks of 64 names, scanned in a turn: 1 ms
VERDICTS_MAX: Final = 16_384  # tables of which it is remembered if they are banned, 150 bytes each


class PinRules:
    """The rules that pin or ban a table: patterns of the settings, and calls that name the table.

        pin("a.b") ──▶ never ──▶ unpin("a.b") ──▶ always      the first that names a table counts

    ``always`` and ``never`` are patterns as of Impala and the shell (``*``, ``?``, ``[ab]``), which
    are matched with ``db.table``.
    """

    def __init__(self, always: Iterable[str] = (), never: Iterable[str] = ()) -> None:
        self._always = _matcher(always)
        self._never = _matcher(never)
        self._pinned: set[str] = set()
        self._unpinned: set[str] = set()
        self._bans = lru_cache(VERDICTS_MAX)(self._ban)

    @property
    def has_pins(self) -> bool:
        """Whether any table may be pinned."""
        return self._always is not None or bool(self._pinned)

    @property
    def has_bans(self) -> bool:
        """Whether any table may be banned."""
        return self._never is not None

    def pin(self, db: str, table: str) -> None:
        """Pin this table from now on, even if a pattern bans it."""
        name = table_name(db, table)
        self._pinned.add(name)
        self._unpinned.discard(name)
        self._bans.cache_clear()

    def unpin(self, db: str, table: str) -> None:
        """Pin this table no longer, even if a pattern does; a pattern may ban it again."""
        name = table_name(db, table)
        self._pinned.discard(name)
        if self._always is not None:
            self._unpinned.add(name)
        self._bans.cache_clear()

    def pinned(self, db: str, table: str) -> bool:
        """Return whether the rules pin a table."""
        name = table_name(db, table)
        if name in self._pinned:
            return True
        if self._always is None or name in self._unpinned or self._always.match(name) is None:
            return False
        return self._never is None or self._never.match(name) is None

    def banned(self, group: bytes) -> bool:
        """Return whether the rules ban the table of ``group``. Cost: 0.1 µs when repeated."""
        return self._never is not None and self._bans(group)

    def _ban(self, group: bytes) -> bool:
        key = parse_table_key(group)
        name = table_name(key.db, key.table)
        assert self._never is not None
        return name not in self._pinned and self._never.match(name) is not None


def _matcher(patterns: Iterable[str]) -> re.Pattern[str] | None:
    text = "|".join(map(translate, patterns))
    return re.compile(text) if text else None


@dataclass(slots=True)
class Pin:
    """One pinned table; the prefetcher sets its size, and when to retry."""

    db: str
    table: str
    topic: int
    size: int = 0  # bytes when it was last pulled or held; 0 before that
    retry_at: float = 0.0


class Pins:
    """The pinned tables: those that the namespace names and the rules pin.

        names created ──▶ scanned, a few blocks a turn ──pinned by name or pattern──▶ known
        known ──name dropped | unpinned──▶ removed         ──does not fit──▶ known and not held

    Invariant: each known table exists, as far as the namespace was scanned, and is pinned.

    A pinned table does not evict another, so that the first pinned tables are held. Those without
    room are counted; pulls answer for them, and the prefetcher tries again once there is room.
    """

    def __init__(self, rules: PinRules, view: View) -> None:
        self.rules = rules
        self.known: dict[bytes, Pin] = {}  # at most PINS_MAX, in the order in which they were found
        self.not_held: dict[bytes, int] = {}  # by known table without room: the bytes it needs
        self._beyond_max = 0  # pinned tables beyond PINS_MAX
        self._view = view
        self._new: list[bytes] = []  # known since the last ``take_new``
        self._moved: list[Key] = []  # pinned or unpinned since the last ``take_moved``
        # of blocks that have changed and were not scanned yet: database, names before, names after
        self._unscanned: deque[tuple[str, Sequence[Entry], Sequence[Entry]]] = deque()

    @property
    def scanning(self) -> bool:
        """Whether names wait to be scanned."""
        return bool(self._unscanned)

    @property
    def count(self) -> int:
        """How many tables are pinned."""
        return len(self.known) + self._beyond_max

    @property
    def not_held_count(self) -> int:
        """How many pinned tables are not held for want of room."""
        return self._beyond_max + len(self.not_held)

    @property
    def needed_bytes(self) -> int:
        """How many bytes all known pinned tables take, as far as their sizes are known."""
        return sum(pin.size for pin in self.known.values())

    def mark_not_held(self, group: bytes, size: int) -> None:
        """Note that there is no room for a known table, which needs ``size`` bytes."""
        assert group in self.known
        self.not_held[group] = size

    def clear_not_held(self, group: bytes) -> None:
        """Count a table no longer among those without room."""
        self.not_held.pop(group, None)

    def on_names_changed(self, swaps: Sequence[Swap]) -> None:
        """Queue the names that were created or dropped, to be scanned."""
        if not self.rules.has_pins:
            return
        for swap in swaps:
            key = parse_namespace_key(swap.group)
            if not isinstance(key, NamesKey):
                continue
            old, new = differing(swap.before or NOTHING, swap.after or NOTHING)
            if old:  # a name that moves from block to block is neither dropped nor created
                self._unscanned.append((key.db, old, new))
            else:
                self._unscanned.extend((key.db, (), (entry,)) for entry in new)

    def on_names_discarded(self) -> None:
        """Remove all tables, as all names come again."""
        self._unscanned.clear()
        self._beyond_max = 0
        for group in list(self.known):
            self._remove(group)

    def scan(self) -> None:
        """Scan some of the names that wait."""
        blocks = 0
        while self._unscanned and blocks < SCAN_MAX:
            db, old, new = self._unscanned.popleft()
            blocks += len(old) + len(new)
            created = _names(new)
            for table in _names(old):
                if table not in created:
                    self._remove(table_key(db, table))
            for table in created:
                if self.rules.pinned(db, table):
                    self._add(db, table)

    def pin(self, db: str, table: str) -> None:
        """Pin a table that exists."""
        self.rules.pin(db, table)
        self._add(db, table)

    def unpin(self, db: str, table: str) -> None:
        """Pin a table no longer."""
        self.rules.unpin(db, table)
        self._remove(table_key(db, table))

    def missing_bytes(self, held: Mapping[Key, int], *, room: int) -> Counter[int]:
        """Return by topic the bytes that pinned tables are going to take beyond those ``held``.

        Tables count in the order of ``known``, as far as they fit ``room``. Cost: O(pinned tables).
        """
        sizes: Counter[int] = Counter()
        followed = {topic for topic, _ in held}
        for group, pin in self.known.items():
            more = pin.size - held.get((pin.topic, group), 0)
            needed = more + (0 if pin.topic in followed else MINIMAL_BYTES)
            if more > 0 and needed <= room:
                followed.add(pin.topic)
                sizes[pin.topic] += more
                room -= needed
        return sizes

    def take_new(self) -> list[bytes]:
        """Return the tables that became known since the last call."""
        new, self._new = self._new, []
        return new

    def take_moved(self) -> list[Key]:
        """Return the tables that were pinned or unpinned since the last call."""
        moved, self._moved = self._moved, []
        return moved

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self.known) <= PINS_MAX
        assert self.not_held.keys() <= self.known.keys()
        for group, pin in self.known.items():
            assert group == table_key(pin.db, pin.table)
            assert self.rules.pinned(pin.db, pin.table), group

    def _add(self, db: str, table: str) -> None:
        group = table_key(db, table)
        if group in self.known:
            return
        if len(self.known) >= PINS_MAX:
            self._beyond_max += 1
            return
        topic = table_topic(db, table, self._view.num_topics)
        self.known[group] = Pin(db, table, topic)
        self._new.append(group)
        self._moved.append((topic, group))

    def _remove(self, group: bytes) -> None:
        pin = self.known.pop(group, None)
        self.not_held.pop(group, None)
        if pin is not None:
            self._moved.append((pin.topic, group))


def _names(blocks: Sequence[Entry]) -> dict[str, None]:
    """Return the tables named in ``blocks``, in their order."""
    return {one.name: None for entry in blocks for one in decode_names(value_of(entry))}
