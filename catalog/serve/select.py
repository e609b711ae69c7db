"""Which blocks of a table a pull selects, as of one moment.

selector ──▶ key ranges ──▶ blocks ──▶ those that are stale or missing
              └─ unknown: the selector is tried on the names of each block
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ...topics.objects.blocks import decode_block
from ...topics.objects.key_ranges import KeyRange
from ...topics.objects.names import block_lead, table_key
from ...topics.objects.selector import Matches, SelectorKind
from ...topics.topic import VALUE, Entry, Topic
from ...topics.wire.messages import Pull
from ...topics.wire.selector import selector_of
from ..model.tables import Tables


@dataclass(frozen=True, slots=True)
class Selection:
    """The entries in the order of their keys, without those that the asker holds as they are.

    ``matches`` None: every partition is selected. ``unsure``: not all blocks among ``entries``
    hold one that is; those in ``held`` are sent even so, for the asker has an older one.
    """

    entries: Sequence[Entry]
    gone: tuple[bytes, ...] = ()
    matches: Matches | None = None
    unsure: bool = False
    held: frozenset[bytes] = frozenset()

    def needs(self, entry: Entry) -> bool:
        """Tell whether ``entry``, one of ``entries``, is to be sent. Cost: 30 µs if unsure."""
        if not self.unsure or entry.key in self.held or not _is_block(entry):
            return True
        return bool(self.names_in(entry))

    def names_in(self, entry: Entry) -> Sequence[str]:
        """Return the names in a block that are selected."""
        assert entry.value is not None
        names = decode_block(entry.value, entry.version).names
        return names if self.matches is None else [name for name in names if self.matches(name)]


def select(tables: Tables, pull: Pull) -> Selection:
    """Return what ``pull`` selects of its table, which exists.

    Raises:
        UsageError: its filter, names or values are none, or not for this table.

    Cost: O(log of all blocks + selected + held); O(all blocks) if no bound tells what is selected.
    """
    table = (pull.db, pull.table)
    group, (_, topic) = table_key(*table), tables.topic_of(table)
    own = topic.get(group)
    if own is None or own.kind != VALUE:
        return Selection((), gone=tuple(key for key, _ in pull.held))
    selector, columns = selector_of(pull), tables.partition_columns(table)
    bounds = () if selector.kind == SelectorKind.TABLE else tables.bounds(table)
    matches, ranges = selector.matches(columns), selector.ranges(columns)
    unsure = matches is not None and ranges is None
    lead = block_lead(group)
    blocks = [topic.get(lead + bounds[at].encode()) for at in _positions(ranges, bounds)]
    found = [entry for entry in blocks if entry is not None and entry.key >= pull.after]
    if pull.names_only:
        return Selection(found, matches=matches)
    if not pull.after:
        found.insert(0, own)
    held = dict(pull.held)
    entries = [entry for entry in found if held.get(entry.key) != entry.version]
    gone: list[bytes] = []  # the first page of an answer tells of them
    if held and not pull.after:
        coming = {entry.key for entry in entries}
        gone = [key for key in held if key not in coming and not _stands(topic, key, held[key])]
    return Selection(entries, tuple(gone), matches, unsure, frozenset(held))


def _positions(ranges: Sequence[KeyRange] | None, bounds: Sequence[str]) -> Sequence[int]:
    """Return the positions of the blocks that reach into ``ranges``, which are sorted."""
    if ranges is None:
        return range(len(bounds))
    found: dict[int, None] = {}
    for low, high in ranges:
        begin = max(bisect_right(bounds, low) - 1, 0)
        found.update(dict.fromkeys(range(begin, bisect_left(bounds, high))))
    return tuple(found)


def _stands(topic: Topic, key: bytes, version: int) -> bool:
    entry = topic.get(key)
    return entry is not None and entry.version == version


def _is_block(entry: Entry) -> bool:
    return not entry.key.endswith(b"\0")  # which a bound does not, and a table's own key does
