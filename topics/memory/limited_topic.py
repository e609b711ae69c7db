"""LimitedTopic: a topic that keeps the content of some groups out of memory.

    warm: rows, as in any topic ──cool──▶ cold: packed, without values, 20 bytes and the key a row
      ▲                                     │ used: get, rows, file
      └── a value is read when it is used ──┘

    with a backing (catalogd's store)    a cold value is read from there, when it is used
    without one (a hub)                  a cold value is gone: its entry is a stub of its version

``WarmGroups`` holds the groups of all topics by their last use, and cools the least recently used
ones beyond its limit. Only what the backing has is cooled.
Invariant: a limited topic with a backing answers as any topic does, but for ``since``: it yields an
entry that has changed meanwhile as a stub, for the reader will be sent the change.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from struct import Struct
from typing import Final, Protocol

from ..errors import StoreError
from ..objects.names import group_of
from ..topic import (
    ENTRY_OVERHEAD_BYTES,
    PREFIX,
    STUB,
    TOMBSTONE,
    VALUE,
    Entry,
    Group,
    Topic,
    accounted_bytes,
    in_order,
)
from ..topic import stub as stub_of

FILLED_MAX: Final = 64  # values that ``since`` reads ahead: 64 KB, 0.6 ms
COOLED_MAX: Final = 1000  # rows that are packed in one call: 1.5 ms
COLD_OVERHEAD_BYTES: Final = 160
"""The cost of a cold group in CPython besides its packed rows: object, two integers, slots."""

_FIELDS: Final = 5  # numbers of a packed row: length of its key, versions, size with kind
_HEAD: Final = Struct("<?IQ")  # whether numbers are wide, rows, bytes of their values
_NOTHING: Final[dict[bytes, Entry]] = {}  # the rows of every cold group


class Backing(Protocol):
    """Reads the values that are not in memory."""

    def version(self, topic: int) -> int:
        """Return the version up to which everything of ``topic`` can be read."""

    def read(self, topic: int, keys: Sequence[bytes]) -> Mapping[bytes, Entry]:
        """Return the entries of ``keys`` as they are stored; without those that are not."""


class WarmGroups:
    """The warm groups of all limited topics, the least recently used first."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes  # of ``held_bytes``; changed by its owner
        self.held_bytes = 0  # of all limited topics: warm groups, and what cold groups take packed
        self.cooled = 0  # groups, since the start
        self._groups: OrderedDict[tuple[int, bytes], LimitedTopic] = OrderedDict()
        """The topic of each warm group, by the topic's number and the group; the last used last."""

    def __len__(self) -> int:
        return len(self._groups)

    def use(self, number: int, group: bytes, topic: "LimitedTopic") -> None:
        """Note that ``group`` of ``topic`` is warm, and used."""
        self._groups[number, group] = topic
        self._groups.move_to_end((number, group))

    def discard(self, number: int, group: bytes) -> None:
        """Note that a group is cold, or gone."""
        self._groups.pop((number, group), None)

    def clear(self) -> None:
        """Begin with no groups: the topics before are discarded.

        Caller: a hub's ingest and catalogd's shell, each for a new epoch.
        Affects: what is counted as held; the discarded topics must not be used again.
        """
        self._groups.clear()
        self.held_bytes = 0

    def shrink(self) -> bool:
        """Cool what is beyond the limit; return whether to call again for the rest.

        A group that cannot be cooled stays warm, as if it had been used.
        """
        rows = 0
        for _ in range(len(self._groups)):
            if self.held_bytes <= self.limit_bytes:
                return False
            if rows >= COOLED_MAX:
                return True
            (number, group), topic = self._groups.popitem(last=False)
            cooled = topic.cool(group)
            rows += cooled
            self.cooled += cooled > 0
            if not cooled and topic.holds(group):
                self._groups[number, group] = topic
        return False


class LimitedTopic(Topic):
    """The entries of one topic, of which only some have their values in memory."""

    def __init__(self, number: int, warm: WarmGroups, backing: Backing | None = None) -> None:
        super().__init__()
        self._number = number
        self._warm = warm
        self._saved_bytes = 0  # by packing the rows of cold groups
        self._backing = backing

    def reset(self, epoch: int) -> None:
        """Discard everything and begin at version 0 of ``epoch``."""
        self._warm.held_bytes -= self.held_bytes
        for name in self._groups:
            self._warm.discard(self._number, name)
        self.cold_bytes = self._saved_bytes = 0
        super().reset(epoch)

    @property
    def full_bytes(self) -> int:
        """``held_bytes`` of a reader that has everything that ``since`` returns, as stubs."""
        return self.held_bytes + self._saved_bytes

    def held_bytes_of(self, sees: Callable[[bytes], bool]) -> int:
        """Return ``full_bytes`` of the groups that ``sees`` accepts. Cost: O(groups)."""
        return sum(
            _opened_bytes(name, group) if group.packed else group.held_bytes
            for name, group in self._groups.items()
            if sees(name)
        )

    def get(self, key: bytes) -> Entry | None:
        """Return the entry of ``key``; None if there is none, or a tombstone."""
        entry = self.head(key)
        return self._warmed(entry) if entry is not None else None

    def head(self, key: bytes) -> Entry | None:
        """Return what ``get`` does, without its value if that is not in memory."""
        self._open(group_of(key))
        return super().get(key)

    def rows(self, group: bytes) -> tuple[Entry, ...]:
        """Return the entries of ``group`` in the order of their last change, without tombstones."""
        return tuple(self.filled(self.heads(group)))

    def heads(self, group: bytes) -> tuple[Entry, ...]:
        """Return what ``rows`` does, without the values that are not in memory."""
        self._open(group)
        return super().rows(group)

    def filled(self, heads: Sequence[Entry]) -> Sequence[Entry]:
        """Return ``heads``, which are of this topic, with their values; as stubs if they changed.

        The values that are read are not kept: cold groups stay cold.
        """
        found: dict[bytes, Entry] = {}
        cold: list[bytes] = []
        for head in heads:
            if head.kind == VALUE and head.value is None:
                group = self._groups.get(group_of(head.key))
                row = group.rows.get(head.key) if group is not None else None
                if row is not None and row.value is not None:
                    found[head.key] = row
                else:
                    cold.append(head.key)
        if cold and self._backing is not None:
            found.update(self._backing.read(self._number, cold))
        return [self._filled(head, found.get(head.key)) for head in heads]

    def group_ids(self) -> tuple[bytes, ...]:
        """Return the ids of all groups that hold a row which is no tombstone."""
        warm = frozenset(super().group_ids())
        return tuple(n for n, group in self._groups.items() if group.packed or n in warm)

    def since(self, version: int) -> Iterator[Entry]:
        """Return what changed after ``version``, as of now, sorted by (version, key).

        Values are read as the result is read: an entry that has changed by then is a stub.
        Cost: as of any topic, and 10 µs for each value that is not in memory.
        """
        changed: list[Entry] = []
        for name, group in reversed(self._groups.items()):
            if group.version <= version:
                break
            rows = _unpacked(name, group.packed) if group.packed else group.rows
            for entry in reversed(rows.values()):
                if entry.version <= version:
                    break
                changed.append(Entry(*entry[:5], None, entry.kind))
            if group.prefix is not None and group.prefix.version > version:
                changed.append(group.prefix)
        return self._filled_slices(in_order(changed))

    def cool(self, name: bytes) -> int:
        """Drop the values of group ``name``; return how many rows it has, 0 if it stays warm.

        It stays warm if it has only tombstones, or a row that the backing does not have yet.
        """
        group = self._groups.get(name)
        if group is None or group.packed or not self._may_cool(group):
            return 0
        rows = tuple(group.rows.values())
        self._pack(name, group, rows if self._backing is not None else tuple(map(stub_of, rows)))
        return len(rows)

    def holds(self, name: bytes) -> bool:
        """Return whether there is a group ``name``."""
        return name in self._groups

    def check(self) -> None:
        """Assert every invariant; all groups are warm afterwards."""
        cold = [(name, group) for name, group in self._groups.items() if group.packed]
        assert not _NOTHING
        assert self.cold_bytes == sum(_HEAD.unpack_from(group.packed)[2] for _, group in cold)
        for name, group in cold:
            taken = COLD_OVERHEAD_BYTES + len(name) + len(group.packed)
            taken += accounted_bytes(group.prefix) if group.prefix else 0
            assert group.held_bytes == taken, name
            assert not group.rows, name
            self._open(name)
        assert not self.cold_bytes
        assert not self._saved_bytes
        super().check()

    def _file_row(self, entry: Entry) -> None:
        self._open(group_of(entry.key))
        super()._file_row(entry)

    def _file_prefix(self, entry: Entry) -> None:
        self._open(entry.key)
        super()._file_prefix(entry)

    def _delete(self, entry: Entry) -> None:
        self._open(group_of(entry.key))
        super()._delete(entry)

    def _discard_tombstone(self, version: int, key: bytes, kind: int) -> None:
        self._open(key if kind == PREFIX else group_of(key))
        super()._discard_tombstone(version, key, kind)

    def _move_to_end(self, name: bytes, group: Group, version: int) -> None:
        super()._move_to_end(name, group, version)
        self._warm.use(self._number, name, self)

    def _drop_if_empty(self, name: bytes, group: Group) -> None:
        super()._drop_if_empty(name, group)
        if name not in self._groups:
            self._warm.discard(self._number, name)

    def _account(self, group: Group, change: int) -> None:
        super()._account(group, change)
        self._warm.held_bytes += change

    def _open(self, name: bytes) -> None:
        """Have the rows of group ``name``, without the values that are not in memory."""
        group = self._groups.get(name)
        if group is None:
            return
        if group.packed:
            _, _, value_bytes = _HEAD.unpack_from(group.packed)
            self.cold_bytes -= value_bytes
            saved = _opened_bytes(name, group) - group.held_bytes
            group.rows, group.packed = _unpacked(name, group.packed), b""
            self._saved_bytes -= saved
            self._account(group, saved)
        self._warm.use(self._number, name, self)

    def _pack(self, name: bytes, group: Group, rows: Sequence[Entry]) -> None:
        group.rows, group.packed = _NOTHING, _packed(len(name), rows)
        self.cold_bytes += _HEAD.unpack_from(group.packed)[2]
        held = COLD_OVERHEAD_BYTES + len(name) + len(group.packed)
        held += accounted_bytes(group.prefix) if group.prefix else 0
        self._saved_bytes += _opened_bytes(name, group) - held
        self._account(group, held - group.held_bytes)

    def _put_rows(self, name: bytes, group: Group, rows: list[Entry]) -> None:
        """Let ``group`` hold ``rows``: cold, unless it is gone."""
        if any(row.kind != TOMBSTONE for row in rows):
            self._pack(name, group, rows)
        else:
            super()._put_rows(name, group, rows)

    def _may_cool(self, group: Group) -> bool:
        if all(entry.kind == TOMBSTONE for entry in group.rows.values()):
            return False
        return self._backing is None or group.version <= self._backing.version(self._number)

    def _warmed(self, head: Entry) -> Entry:
        """Return a row of a warm group with its value, which it has from now on."""
        if head.kind != VALUE or head.value is not None:
            return head
        (entry,) = self.filled((head,))
        if entry.value is None:
            problem = f"has no value of {head.key!r} at version {head.version}"
            raise StoreError("the store", problem, "put back a copy of the file that was changed")
        group = self._groups[group_of(head.key)]
        group.rows[head.key] = entry
        self._account(group, len(entry.value))
        return entry

    def _filled(self, head: Entry, found: Entry | None) -> Entry:
        if head.kind != VALUE or head.value is not None:
            return head
        if found is None or found.version != head.version or found.value is None:
            return stub_of(head)
        return found

    def _filled_slices(self, heads: Iterator[Entry]) -> Iterator[Entry]:
        while some := tuple(islice(heads, FILLED_MAX)):
            yield from self.filled(some)


def _packed(lead: int, rows: Sequence[Entry]) -> bytes:
    """Return ``rows``, whose keys begin with ``lead`` bytes that are known."""
    numbers = [
        number
        for key, version, schema, data, size, _, kind in rows
        for number in (len(key) - lead, version, schema, data, size << 2 | kind)
    ]
    wide = max(numbers) >= 1 << 32
    value_bytes = sum(row.size for row in rows if row.kind in (VALUE, STUB))
    head = _HEAD.pack(wide, len(rows), value_bytes)
    return (
        head
        + _numbers(len(rows), wide=wide).pack(*numbers)
        + b"".join([row.key[lead:] for row in rows])
    )


def _unpacked(name: bytes, packed: bytes) -> dict[bytes, Entry]:
    wide, count, _ = _HEAD.unpack_from(packed)
    numbers = _numbers(count, wide=wide)
    values = iter(numbers.unpack_from(packed, _HEAD.size))
    at = _HEAD.size + numbers.size
    rows: dict[bytes, Entry] = {}
    for length, version, schema, data, size in zip(*[values] * _FIELDS, strict=True):
        key = name + packed[at : at + length]
        at += length
        rows[key] = Entry(key, version, schema, data, size >> 2, None, size & 3)
    return rows


def _opened_bytes(name: bytes, group: Group) -> int:
    """Return what a cold group takes of a budget as rows without values."""
    wide: bool
    count: int
    wide, count, _ = _HEAD.unpack_from(group.packed)
    keys = len(group.packed) - _HEAD.size - _numbers(count, wide=wide).size + count * len(name)
    own = accounted_bytes(group.prefix) if group.prefix else 0
    return own + keys + count * ENTRY_OVERHEAD_BYTES


def _numbers(rows: int, *, wide: bool) -> Struct:
    return Struct(f"<{_FIELDS * rows}{'Q' if wide else 'I'}")
