"""Pins: the tables that there are and that are to be kept, by the namespace and the rules.

    names come ──▶ scanned, a few blocks a turn ──pinned by name or pattern──▶ known
    known ──name gone | unpinned──▶ forgotten          ──does not fit──▶ over

Pins do not give way to one another, so what comes first is kept; the others are over: they are
answered by pulls, counted, and tried again once there is room.
Invariant: what is known exists, as far as the namespace was scanned, and is pinned.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...topics.entries import MINIMAL_BYTES, Entry
from ...topics.objects.names import NamesKey, parse_namespace_key, table_key
from ...topics.sharding import table_topic
from ..store.change_feed import differing
from ..store.decode import read_names_entry
from ..store.eviction import Key
from ..store.pin_rules import PinRules
from ..store.table_snapshot import NOTHING
from ..store.view import Swap, View

PINS_MAX: Final = 10_000  # tables, each of 500 bytes beside the budget
SCAN_MAX: Final = 16  # blocks of 64 names in a turn: 1 ms


@dataclass(slots=True)
class Pin:
    """One pinned table; ``size`` as it was last pulled."""

    db: str
    table: str
    topic: int
    size: int = 0
    retry_at: float = 0.0


class Pins:
    """The pinned tables, by group."""

    def __init__(self, rules: PinRules, view: View) -> None:
        self.known: dict[bytes, Pin] = {}
        self.fresh: deque[bytes] = deque()  # known since somebody looked last
        self.over: dict[bytes, int] = {}  # bytes of those for which there was no room
        self.left_out = 0  # beyond PINS_MAX
        self.rules = rules
        self._view = view
        self._moved: list[Key] = []  # pinned, or pinned no more, since ``take_moved``
        self._news: deque[tuple[str, Sequence[Entry], Sequence[Entry]]] = deque()

    @property
    def scanning(self) -> bool:
        """Whether names wait to be looked at."""
        return bool(self._news)

    @property
    def count(self) -> int:
        """How many tables are pinned."""
        return len(self.known) + self.left_out

    @property
    def over_count(self) -> int:
        """How many pinned tables are not kept for want of room."""
        return self.left_out + len(self.over)

    @property
    def needed_bytes(self) -> int:
        """What all pinned tables take, as far as it is known."""
        return sum(pin.size for pin in self.known.values())

    def named(self, swaps: Sequence[Swap]) -> None:
        """Names have come or gone."""
        if not self.rules.has_pins:
            return
        for swap in swaps:
            key = parse_namespace_key(swap.group)
            if not isinstance(key, NamesKey):
                continue
            old, new = differing(swap.before or NOTHING, swap.after or NOTHING)
            if old:  # what moved from block to block is neither gone nor new
                self._news.append((key.db, old, new))
            else:
                self._news.extend((key.db, (), (entry,)) for entry in new)

    def forgot_names(self) -> None:
        """All names come anew."""
        self._news.clear()
        self.left_out = 0
        for group in list(self.known):
            self._forget(group)

    def scan(self) -> None:
        """Look at some of the names that wait."""
        blocks = 0
        while self._news and blocks < SCAN_MAX:
            db, old, new = self._news.popleft()
            blocks += len(old) + len(new)
            come = _names(new)
            for table in _names(old):
                if table not in come:
                    self._forget(table_key(db, table))
            for table in come:
                if self.rules.pinned(db, table):
                    self.add(db, table)

    def add(self, db: str, table: str) -> None:
        """Know a pinned table that exists."""
        group = table_key(db, table)
        if group in self.known:
            return
        if len(self.known) >= PINS_MAX:
            self.left_out += 1
            return
        topic = table_topic(db, table, self._view.num_topics)
        self.known[group] = Pin(db, table, topic)
        self.fresh.append(group)
        self._moved.append((topic, group))

    def unpin(self, db: str, table: str) -> None:
        """Leave a table to its use."""
        self.rules.unpin(db, table)
        self._forget(table_key(db, table))

    def to_come(self, room: int, held: Mapping[Key, int]) -> Counter[int]:
        """Return what pinned tables will take in each topic beside what is ``held``.

        In the order of their coming, as far as ``room`` has it. Cost: O(pinned tables).
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

    def take_moved(self) -> list[Key]:
        """Return the tables that became pinned, or stopped to be, since the last call."""
        moved, self._moved = self._moved, []
        return moved

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self.known) <= PINS_MAX
        assert self.over.keys() <= self.known.keys()
        for group, pin in self.known.items():
            assert group == table_key(pin.db, pin.table)
            assert self.rules.pinned(pin.db, pin.table), group

    def _forget(self, group: bytes) -> None:
        pin = self.known.pop(group, None)
        self.over.pop(group, None)
        if pin is not None:
            self._moved.append((pin.topic, group))


def _names(blocks: Sequence[Entry]) -> dict[str, None]:
    """Return the tables named in ``blocks``, in their order."""
    return {one.name: None for entry in blocks for one in read_names_entry(entry)}
