"""What is answered from the tables that are held: pulls, and claims of clients about tables.

selector ──▶ key ranges ──▶ blocks ──▶ those that are stale or missing: the selection
              └─ unknown: the selector is tried on the names of each block

selection ──▶ parts, each of a few blocks ──byte limit of the page──▶ last part: cursor
                                          └─ nothing is left ──▶ last part
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...topics.bulk import Part, pulled_cost
from ...topics.objects.names import block_lead, table_key
from ...topics.objects.selector import KeyRange, Matches, SelectorKind
from ...topics.objects.values import decode_block, encode_listing
from ...topics.topic import VALUE, Entry, Topic
from ...topics.wire.codec import row_bytes
from ...topics.wire.header import CHUNK_BYTES_MAX
from ...topics.wire.messages import Claimed, Pull, Pulled
from ..model.tables import Namespace, Tables

LOOKED_MAX: Final = 32  # blocks read for one part: 30 µs each, of a turn's 2 ms

ANSWER_BYTES_MAX: Final = 64 << 20  # of one page; the client continues where it ends


def stale_claims(
    namespace: Namespace,
    tables: Tables,
    claims: Iterable[Claimed],
    *,
    claimed_in: int,
    epoch: int,
) -> tuple[tuple[int, int], ...]:
    """Return the indices of the claims that do not hold, or that nothing here can confirm.

    Each comes with the lowest version for which its claim would hold now, 0 if there is none.

    Args:
        claimed_in: The epoch of the versions that are claimed.
        epoch: The current one.

    Cost: O(claims), whatever the tables hold.
    """
    found = []
    for index, claim in enumerate(claims):
        least, newest = _true_versions(namespace, tables, claim)
        if claimed_in != epoch or not 0 < least <= claim.version <= newest:
            found.append((index, least))
    return tuple(found)


def _true_versions(namespace: Namespace, tables: Tables, claim: Claimed) -> tuple[int, int]:
    """Return the lowest and the highest version for which ``claim`` holds; (0, 0) if none.

    A version above the highest comes from a store that was lost, whatever epoch it claims.
    """
    table = (claim.db, claim.table)
    record, value, entry = namespace.find(table), tables.value(table), tables.entry(table)
    if record is None or value is None or entry is None:
        return 0, 0
    if value.incarnation != record.incarnation:
        return 0, 0
    _, topic = tables.topic_of(table)
    if not claim.whole:
        return entry.version, topic.version
    changed = topic.changed_at(table_key(*table))
    return max(changed, topic.floor), topic.version  # what was deleted below it is not recorded


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
    selector, columns = pull.selection, tables.partition_columns(table)
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


def answer(
    namespace: Namespace, tables: Tables, pull: Pull, *, position: tuple[int, int]
) -> Iterator[Part]:
    """Return the parts of the answer to ``pull`` as of now; all are of one topic version.

    ``position`` is (epoch, start).

    Raises:
        UsageError: the selection is malformed, or not for this table.
    """
    table = (pull.db, pull.table)
    number, topic = tables.topic_of(table)
    record = namespace.find(table)
    epoch, start = position

    def stale(claims: tuple[Claimed, ...]) -> tuple[int, ...]:
        found = stale_claims(namespace, tables, claims, claimed_in=pull.epoch, epoch=epoch)
        return tuple([index for index, _ in found])

    like = Pulled(
        request=pull.request,
        sequence=0,
        last=True,
        found=record is not None,
        epoch=epoch,
        start=start,
        topic=number,
        topic_version=topic.version,
        namespace_version=namespace.version,
        incarnation=record.incarnation if record else 0,
        gone=(),
        entries=(),
        stale=stale(pull.claims),
    )
    if record is None:
        return iter([(pulled_cost(like), like)])
    unchanged = Claimed(db=pull.db, table=pull.table, version=pull.version, whole=True)
    if pull.version and stale((unchanged,)):
        return iter([(pulled_cost(like), replace(like, moved=True))])
    cut = _name_parts if pull.names_only else _block_parts
    return cut(select(tables, pull), like, bytes_max=pull.bytes_max)


def _block_parts(selection: Selection, like: Pulled, *, bytes_max: int) -> Iterator[Part]:
    """Yield the entries of ``selection`` in parts like ``like``, up to ``bytes_max`` of them."""
    entries, begin, sequence, spent = selection.entries, 0, 0, 0
    cap = _cap(bytes_max)
    last = False
    while not last:
        end, size, full, picked = begin, 0, False, []
        while end < len(entries) and (not selection.unsure or end - begin < LOOKED_MAX):
            takes = row_bytes(entries[end])
            full = spent > 0 and spent + takes > cap
            if full or (size and size + takes >= CHUNK_BYTES_MAX):
                break
            if selection.needs(entries[end]):
                picked.append(entries[end])
                size += takes
                spent += takes
            end += 1
        last = full or end == len(entries)
        part = replace(
            like,
            sequence=sequence,
            last=last,
            gone=() if sequence else selection.gone,
            entries=tuple(picked),
            cursor=_cursor(selection, end) if last else b"",
        )
        yield pulled_cost(part), part
        begin, sequence = end, sequence + 1


def _name_parts(selection: Selection, like: Pulled, *, bytes_max: int) -> Iterator[Part]:
    """Yield the names in ``selection`` in parts like ``like``, up to ``bytes_max`` of them."""
    entries, begin, sequence, spent = selection.entries, 0, 0, 0
    cap = _cap(bytes_max)
    last = False
    while not last:
        end = min(begin + LOOKED_MAX, len(entries))
        names = [name for entry in entries[begin:end] for name in selection.names_in(entry)]
        listing = encode_listing(names)
        spent += len(listing)
        last = spent >= cap or end == len(entries)
        part = replace(
            like,
            sequence=sequence,
            last=last,
            names=listing,
            cursor=_cursor(selection, end) if last else b"",
        )
        yield pulled_cost(part), part
        begin, sequence = end, sequence + 1


def _cap(bytes_max: int) -> int:
    return min(bytes_max or ANSWER_BYTES_MAX, ANSWER_BYTES_MAX)


def _cursor(selection: Selection, end: int) -> bytes:
    return selection.entries[end].key if end < len(selection.entries) else b""
