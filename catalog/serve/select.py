"""Selecting: which blocks of a table somebody pulls, as of one moment.

selector ──▶ spans, or places among the bounds ──▶ blocks ──▶ those that are stale or missing
                                                     └─ what no bound tells is tried on each
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...topics.entries import VALUE, Entry
from ...topics.errors import UsageError
from ...topics.objects.blocks import decode_block
from ...topics.objects.filters import parse
from ...topics.objects.key_ranges import Span, reach, reach_of_values
from ...topics.objects.names import block_lead, has_values, partition_values, table_key
from ...topics.objects.tables import Column
from ...topics.topic import Topic
from ...topics.wire import messages
from ...topics.wire.messages import Pull
from ..model.tables import Tables

Matches = Callable[[str], bool]
"""Tells of a partition's name whether it is selected."""


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
    bounds = () if pull.selector == messages.SELECT_TABLE else tables.bounds(table)
    matches, places = _places(pull, bounds, tables.partition_columns(table))
    unsure = matches is not None and places is None
    lead = block_lead(group)
    blocks = [topic.get(lead + bounds[at].encode()) for at in _or_all(places, bounds)]
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


def _places(
    pull: Pull, bounds: Sequence[str], columns: Sequence[Column]
) -> tuple[Matches | None, Sequence[int] | None]:
    """Return what tells of a name if it is selected, and in which blocks such may stand.

    None: every partition; every block.
    """
    match pull.selector:
        case messages.SELECT_TABLE:
            return None, ()
        case messages.SELECT_BLOCKS:
            return None, None
        case messages.SELECT_FILTER:
            wanted = parse(pull.filter)
            predicate = wanted.bind(columns)
            spans = reach(wanted, columns)
            places = None if spans is None else _within(spans, bounds)
            return lambda name: predicate(partition_values(name)), places
        case messages.SELECT_NAMES:
            names = frozenset(pull.names)
            floors = {max(bisect_right(bounds, name) - 1, 0) for name in names if bounds}
            return names.__contains__, sorted(floors)
        case messages.SELECT_VALUES:
            span = reach_of_values(pull.values, columns)
            return has_values(pull.values), None if span is None else _within([span], bounds)
        case _:
            raise UsageError(f"no selector {pull.selector}")


def _or_all(places: Sequence[int] | None, bounds: Sequence[str]) -> Sequence[int]:
    return range(len(bounds)) if places is None else places


def _within(spans: Iterable[Span], bounds: Sequence[str]) -> Sequence[int]:
    """Return the places of the blocks that reach into ``spans``, which are sorted."""
    places: dict[int, None] = {}
    for low, high in spans:
        begin = max(bisect_right(bounds, low) - 1, 0)
        places.update(dict.fromkeys(range(begin, bisect_left(bounds, high))))
    return tuple(places)


def _stands(topic: Topic, key: bytes, version: int) -> bool:
    entry = topic.get(key)
    return entry is not None and entry.version == version


def _is_block(entry: Entry) -> bool:
    return not entry.key.endswith(b"\0")  # which a bound does not, and a table's own key does
