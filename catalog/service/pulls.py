"""Pulls: a table, or a table and its blocks, for whoever does not hold them.

asked ──held──▶ parts, under the asker's credit
  └─not held──▶ waits (one load however many ask) ──loaded──▶ parts
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ...topics.bulk import Part, pulled_cost
from ...topics.entries import VALUE, Entry
from ...topics.objects.blocks import decode_block
from ...topics.objects.filters import Predicate, parse
from ...topics.objects.names import block_key, partition_values, table_key
from ...topics.objects.reach import reach
from ...topics.objects.tables import read_table
from ...topics.objects.values import LOADING, decode_table_value
from ...topics.wire.codec import row_bytes
from ...topics.wire.header import CHUNK_BYTES_MAX
from ...topics.wire.messages import SELECT_FILTER, SELECT_TABLE, Pull, Pulled, Validate
from ..contents import Contents
from ..namespace import Namespace
from ..sources.reads import TableId
from .claims import stale

WAITING_MAX: Final = 10_000
WAIT_S_MAX: Final = 30.0
LOOKED_MAX: Final = 32  # blocks read for one part: 30 µs each, of a turn's 2 ms


@dataclass(slots=True)
class _Waiting:
    peer: bytes
    pull: Pull
    give_up_at: float


class Pulls:
    """Answers pulls from what is held; who asks for something else waits for its load."""

    def __init__(
        self, namespace: Namespace, contents: Contents, place: Callable[[], tuple[int, int]]
    ) -> None:
        """``place`` gives (epoch, start)."""
        self._namespace = namespace
        self._contents = contents
        self._place = place
        self._waiting: dict[tuple[bytes, int], _Waiting] = {}  # by peer and request

    def __len__(self) -> int:
        return len(self._waiting)

    def ready(self, pull: Pull) -> bool:
        """Whether ``pull`` can be answered from what is held."""
        table = (pull.db, pull.table)
        record = self._namespace.find(table)
        if record is None:
            return True
        value = self._contents.value(table)
        if value is None or value.incarnation != record.incarnation:
            return False
        return pull.selector == SELECT_TABLE or value.partitions != LOADING

    def wait(self, peer: bytes, pull: Pull, *, now: float) -> bool:
        """Let a pull wait for its table's load, once however often asked; False if too many do."""
        self.cancel(peer, pull.request)
        if len(self) >= WAITING_MAX:
            return False
        self._waiting[peer, pull.request] = _Waiting(peer, pull, now + WAIT_S_MAX)
        return True

    def cancel(self, peer: bytes, request: int) -> None:
        """Let ``request`` wait no longer."""
        self._waiting.pop((peer, request), None)

    def forget(self, peer: bytes) -> None:
        """Let nothing of ``peer`` wait any longer."""
        self._remove(lambda one: one.peer == peer)

    def arrived(self) -> tuple[tuple[bytes, Pull], ...]:
        """Return those whose table has come, or is gone, and let them wait no more."""
        return self._remove(lambda one: self.ready(one.pull))

    def expire(self, now: float) -> tuple[tuple[bytes, Pull], ...]:
        """Return those who waited too long."""
        return self._remove(lambda one: one.give_up_at <= now)

    def give_up(self, table: TableId) -> tuple[tuple[bytes, Pull], ...]:
        """Return those who wait for ``table``, which cannot be read."""
        return self._remove(lambda one: (one.pull.db, one.pull.table) == table)

    def parts(self, pull: Pull) -> Iterator[Part]:
        """Cut the answer to ``pull`` as of now; all parts are of one topic version.

        Raises:
            UsageError: its filter is none, or not one for this table.
        """
        table = (pull.db, pull.table)
        number, topic = self._contents.topic_of(table)
        record = self._namespace.find(table)
        epoch, start = self._place()
        held = dict(pull.held)
        entries: list[Entry] = []
        gone: tuple[bytes, ...] = ()
        wanted: Callable[[Entry], bool] | None = None
        if record is not None:
            rows = [e for e in topic.rows(table_key(*table)) if e.kind == VALUE]
            if pull.selector == SELECT_TABLE:
                rows = [e for e in rows if e.key == table_key(*table)]
            rows.sort(key=lambda entry: entry.key)
            if pull.selector == SELECT_FILTER:
                rows, wanted = _matching(rows, pull, held)
            here = {entry.key for entry in rows}
            gone = tuple(key for key in held if key not in here)
            entries = [entry for entry in rows if held.get(entry.key) != entry.version]
        return _slices(
            entries,
            wanted,
            Pulled(
                request=pull.request,
                sequence=0,
                last=True,
                found=record is not None,
                epoch=epoch,
                start=start,
                topic=number,
                topic_version=topic.version,
                namespace_version=self._namespace.version,
                incarnation=record.incarnation if record else 0,
                gone=gone,
                entries=(),
            ),
        )

    def stale(self, asked: Validate) -> tuple[int, ...]:
        """Return the places of the claims that are true no more."""
        return stale(self._namespace, self._contents, asked, epoch=self._place()[0])

    def _remove(self, test: Callable[[_Waiting], bool]) -> tuple[tuple[bytes, Pull], ...]:
        removed = [one for one in self._waiting.values() if test(one)]
        for one in removed:
            del self._waiting[one.peer, one.pull.request]
        return tuple((one.peer, one.pull) for one in removed)


def _matching(
    rows: list[Entry], pull: Pull, held: dict[bytes, int]
) -> tuple[list[Entry], Callable[[Entry], bool] | None]:
    """Return the rows that ``pull`` reaches or needs not, and what tells of the rest, if needed.

    Blocks within reach are not read: they match, but for a few at its edges.
    """
    lead = block_key(pull.db, pull.table, "")
    own, blocks = rows[:1], rows[1:]
    value = own[0].value if own else None
    if value is None or own[0].key != table_key(pull.db, pull.table):
        return rows, None
    columns = read_table(decode_table_value(value).thrift, own[0].version).partition_columns
    found = parse(pull.filter)
    predicate = found.bind(columns)
    spans = reach(found, columns)
    if spans is None:
        return rows, lambda entry: entry.key in held or _matches(entry, lead, predicate)
    keys = [entry.key for entry in blocks]
    near: set[bytes] = set()
    for low, high in spans:
        begin = max(bisect_right(keys, lead + low.encode()) - 1, 0)
        near.update(keys[begin : bisect_left(keys, lead + high.encode())])
    kept = [e for e in blocks if e.key in near or held.get(e.key) == e.version]
    return [*own, *kept], None


def _matches(entry: Entry, lead: bytes, predicate: Predicate) -> bool:
    if not entry.key.startswith(lead) or entry.value is None:
        return True
    names = decode_block(entry.value, entry.version).names
    return any(predicate(partition_values(name)) for name in names)


def _slices(
    entries: list[Entry], wanted: Callable[[Entry], bool] | None, like: Pulled
) -> Iterator[Part]:
    begin, sequence = 0, 0
    while True:
        end, size, picked = begin, 0, []
        while end < len(entries) and (wanted is None or end - begin < LOOKED_MAX):
            entry = entries[end]
            if size and size + row_bytes(entry) >= CHUNK_BYTES_MAX:
                break
            if wanted is None or wanted(entry):
                picked.append(entry)
                size += row_bytes(entry)
            end += 1
        last = end == len(entries)
        part = replace(
            like,
            sequence=sequence,
            last=last,
            gone=like.gone if sequence == 0 else (),
            entries=tuple(picked),
        )
        yield pulled_cost(part), part
        if last:
            return
        begin, sequence = end, sequence + 1
