"""A topic: its number, levels, versions, entries, and the map that returns what changed since.

Every process computes a table's topic from the table's name: CRC-32 of the UTF-8 of ``db.table``,
scaled to ``num_topics``. Test vectors: ``tests/vectors/sharding_v1.json``.

A topic keeps the last entry of each key, as a compacted topic of Kafka does, and no log: ``since``
makes a delta or a catch-up of the entries. A deletion is an entry, too, a tombstone, until the
topic's ``floor`` is raised to its version. What was deleted since a version below the floor is not
known any more, so that a reader with such a version takes everything (a snapshot).

A key is ``a NUL b NUL rest``. The part up to and including the second NUL names its group: a table
with its blocks, or a database with its blocks of names. A PREFIX tombstone has such a part as its
key, and deletes every entry of the group that has a lower version.

    groups (a table and its blocks) in order of their last change
      └─ rows in order of their last change        prefix: the last PREFIX tombstone

Invariant: both orders ascend by version, so that ``since`` reads the dicts from their ends and
stops at the first version that it is not to return. A dict keeps the order by itself: to move a key
to its end takes 1 µs, in a SortedDict by version 9 µs. To drop a table is to replace its group; to
free the entries of a million partitions takes 2 to 10 ms (tests/bench/bench_topic.py).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple
from zlib import crc32

from .backports import IntEnum
from .errors import ConfigError, WireError
from .objects.names import group_of

NUM_TOPICS_DEFAULT: Final = 256
NUM_TOPICS_MAX: Final = 4096  # a vector of positions stays under one 64 KB frame
NAMESPACE: Final = 0xFFFE
HEARTBEAT: Final = 0xFFFF
BARRIER: Final = 0xFFFD
CONTROL: Final = 0xFFFC
TOPIC_SET: Final = 0xFFFB  # in a subscription: several topics, see wire/header.py


def table_topic(db: str, table: str, num_topics: int) -> int:
    """Return the topic of ``db.table``, from 0 to ``num_topics - 1``; names as HMS returns them."""
    return (crc32(f"{db}.{table}".encode()) * num_topics) >> 32


def topic_ids(num_topics: int) -> tuple[int, ...]:
    """Return every topic that holds entries, in the order of vectors: tables, then namespace."""
    return (*range(num_topics), NAMESPACE)


def is_topic(topic: int, num_topics: int) -> bool:
    """Return whether ``topic`` holds entries."""
    return 0 <= topic < num_topics or topic == NAMESPACE


def check_num_topics(num_topics: int) -> int:
    """Return ``num_topics``.

    Raises:
        ConfigError: it is not a power of two between 1 and 4096.
    """
    if not 1 <= num_topics <= NUM_TOPICS_MAX or num_topics & (num_topics - 1):
        raise ConfigError("num_topics", num_topics, f"a power of two from 1 to {NUM_TOPICS_MAX}")
    return num_topics


class EntryKind(IntEnum):
    """The kind of an entry, by what has become of its key."""

    VALUE = 0  # the key has this value
    STUB = 1  # the key changed; its value is elsewhere (size says how large)
    TOMBSTONE = 2  # the key is gone
    PREFIX = 3  # the whole group is gone


# Plain integers: the garbage collector visits every tuple that holds a member of an enum, which was
# measured as pauses of 46 ms with a large catalog; a row is read 5 % faster, too.
VALUE: Final = int(EntryKind.VALUE)
STUB: Final = int(EntryKind.STUB)
TOMBSTONE: Final = int(EntryKind.TOMBSTONE)
PREFIX: Final = int(EntryKind.PREFIX)


class Level(IntEnum):
    """The part of a topic that a subscriber follows; users type and read ``name.lower()``."""

    NONE = 0
    MINIMAL = 1  # keys, versions and sizes
    FULL = 2  # values too

    __repr__ = int.__repr__


NONE: Final = Level.NONE
MINIMAL: Final = Level.MINIMAL
FULL: Final = Level.FULL
LEVELS: Final = tuple(level.name.lower() for level in Level)  # their names, by number

ALL_OFFERED: Final = MINIMAL | FULL
"""The levels of a topic that a reader may join, as one byte: each level is its own bit."""


def offered(offers: int, topic: int, level: int) -> bool:
    """Return whether ``topic`` may be joined at ``level``; the namespace always may at FULL."""
    return bool(offers & level) or (topic == NAMESPACE and level == FULL)


def offered_names(offers: int) -> str:
    """Return the names of the levels that ``offers`` lets a reader choose from."""
    return ", ".join(LEVELS[level] for level in Level if not level or offers & level)


class Version(int):
    """A version of a topic, and the ``epoch`` that it counts in, as applications keep it.

    An epoch is one life of catalogd's store. Versions of two epochs are not comparable; only
    ``validate`` returns whether a version is still current.
    """

    epoch: int

    def __new__(cls, number: int, epoch: int) -> "Version":
        """Return version ``number`` of ``epoch``."""
        version = super().__new__(cls, number)
        version.epoch = epoch
        return version

    def __reduce__(self) -> tuple[object, ...]:
        return Version, (int(self), self.epoch)


def epoch_of(version: int) -> int:
    """Return the epoch that ``version`` counts in; 0, which is no epoch, of a plain integer."""
    return version.epoch if isinstance(version, Version) else 0


MINIMAL_BYTES: Final = 16
"""What a budget is charged for a topic that is followed at minimal: a position, which is an epoch
and a version.

The objects that hold a position are not charged: a subscriber has them for each of ``num_topics``,
however large the catalog is.
"""

ENTRY_OVERHEAD_BYTES: Final = 320
"""What one entry costs in CPython besides key and value: object, three integers, two bytes
headers, slots in dicts. Measured by tests/bench/bench_view.py; rounded up."""


class Entry(NamedTuple):
    """One versioned key of a topic; a tuple, which is built in a third of a dataclass's time.

    ``size`` is the length of the value, kept by a stub whose value is elsewhere.
    ``schema_version`` and ``data_version`` are versions of the same topic: when columns,
    location, serde or name last changed, and when data last changed.
    """

    key: bytes
    version: int
    schema_version: int
    data_version: int
    size: int
    value: bytes | None
    kind: int = VALUE


def stub(entry: Entry) -> Entry:
    """Return ``entry`` without its value, as a subscriber at ``minimal`` receives it."""
    if entry.kind != VALUE:
        return entry
    key, version, schema_version, data_version, size, _, _ = entry
    return Entry(key, version, schema_version, data_version, size, None, STUB)


def entry_of(key: bytes, version: int, value: bytes | None) -> Entry:
    """Return the entry of ``key`` with ``value``, all of it of ``version``; None: its deletion."""
    if value is None:
        return tombstone(key, version)
    return Entry(key, version, version, version, len(value), value)


def tombstone(key: bytes, version: int) -> Entry:
    """Return the deletion of ``key`` at ``version``."""
    return Entry(key, version, version, version, 0, None, TOMBSTONE)


def prefix_tombstone(group: bytes, version: int) -> Entry:
    """Return the deletion of everything in ``group`` at ``version``."""
    return Entry(group, version, version, version, 0, None, PREFIX)


def accounted_bytes(entry: Entry) -> int:
    """Return how many bytes ``entry`` takes of a budget while it is held."""
    value = entry.value
    return ENTRY_OVERHEAD_BYTES + len(entry.key) + (len(value) if value is not None else 0)


def value_of(entry: Entry) -> bytes:
    """Return the value of ``entry``.

    Raises:
        WireError: it has none here.
    """
    if entry.value is None:
        raise WireError(f"entry {entry.key!r} has no value here")
    return entry.value


_version = itemgetter(1)  # of an entry, which is a tuple: in a quarter of attrgetter's time


@dataclass(slots=True)
class Group:
    """A table with its blocks, or a database with its blocks of names."""

    version: int = 0  # of its last change
    held_bytes: int = 0  # of its rows and its prefix
    prefix: Entry | None = None  # the last PREFIX tombstone above the floor
    rows: dict[bytes, Entry] = field(default_factory=dict)  # by key, ascending by version
    packed: bytes = b""  # the rows, where they are not in memory: see LimitedTopic


class Topic:
    """The entries of one topic, in catalogd and in a hub."""

    def __init__(self) -> None:
        self.epoch = 0  # that ``version`` counts in; 0: none yet
        self.version = 0  # moved by the caller, once a transaction or catch-up is complete
        self.floor = 0  # up to here tombstones are discarded: below it only a snapshot helps
        self.held_bytes = 0  # ``accounted_bytes`` of everything held, tombstones included
        self.cold_bytes = 0  # of values that are not in memory, see LimitedTopic
        self._count = 0  # of rows and prefixes
        self._groups: dict[bytes, Group] = {}  # by id, ascending by version
        self._tombstones: deque[tuple[int, bytes, int]] = deque()
        """Version, key and kind of every tombstone above the floor, in the order of filing; some
        may be superseded."""

    def __len__(self) -> int:
        return self._count

    @property
    def num_groups(self) -> int:
        """The number of groups, also of those that hold tombstones alone."""
        return len(self._groups)

    @property
    def full_bytes(self) -> int:
        """The bytes that a reader holds of the topic at FULL: of what ``since`` returns."""
        return self.held_bytes

    def reset(self, epoch: int) -> None:
        """Discard everything and begin at version 0 of ``epoch``.

        Caller: a hub's ingest before a snapshot, and tests that fill a topic.
        Affects: everything that is returned from now on; a follower of the old epoch begins anew.
        """
        self.epoch, self.version, self.floor, self.held_bytes = epoch, 0, 0, 0
        self._count = 0
        self._groups = {}
        self._tombstones = deque()

    def get(self, key: bytes) -> Entry | None:
        """Return the entry of ``key``; None if there is none, or a tombstone."""
        group = self._groups.get(group_of(key))
        entry = group.rows.get(key) if group else None
        return None if entry is None or entry.kind == TOMBSTONE else entry

    def head(self, key: bytes) -> Entry | None:
        """Return what ``get`` does; without its value, if that is not in memory (LimitedTopic)."""
        return self.get(key)

    def heads(self, group: bytes) -> tuple[Entry, ...]:
        """Return what ``rows`` does; without the values that are not in memory (LimitedTopic)."""
        return self.rows(group)

    def filled(self, heads: Sequence[Entry]) -> Sequence[Entry]:
        """Return ``heads``, which are of this topic, with their values: LimitedTopic reads them."""
        return heads

    def rows(self, group: bytes) -> tuple[Entry, ...]:
        """Return the entries of ``group`` in the order of their last change, without tombstones."""
        found = self._groups.get(group)
        return tuple(e for e in found.rows.values() if e.kind != TOMBSTONE) if found else ()

    def changed_at(self, group: bytes) -> int:
        """Return the version of the last known change of ``group``; 0 for none."""
        found = self._groups.get(group)
        return found.version if found is not None else 0

    def group_ids(self) -> tuple[bytes, ...]:
        """Return the ids of all groups that hold a row which is no tombstone."""
        return tuple(
            name
            for name, group in self._groups.items()
            if any(entry.kind != TOMBSTONE for entry in group.rows.values())
        )

    def held_bytes_of(self, sees: Callable[[bytes], bool]) -> int:
        """Return ``full_bytes`` of the groups that ``sees`` accepts. Cost: O(groups)."""
        return sum(group.held_bytes for name, group in self._groups.items() if sees(name))

    def file(self, entries: Iterable[Entry]) -> None:
        """File ``entries``, sorted by version; an entry older than the held entry is ignored.

        An entry with a lower version than those filed before must be held already, or the orders
        would not be by version. A tombstone at or below the floor deletes, and is not kept.
        Cost: O(1) an entry; a PREFIX frees what it deletes, 0.1 to 0.3 µs for each block.

        Caller: catalogd's version log, and a hub's ingest, which moves ``version`` afterwards.
        Affects: ``since``, and so each delta and catch-up; ``held_bytes``.
        """
        for entry in entries:
            if entry.version <= self.floor and entry.kind in (TOMBSTONE, PREFIX):
                self._delete(entry)
            elif entry.kind == PREFIX:
                self._file_prefix(entry)
            else:
                self._file_row(entry)

    def load(self, entries: Iterable[Entry], tombstones: Iterable[Entry]) -> None:
        """Fill an empty topic with what was stored; the caller sets versions and floor afterwards.

        ``entries`` are sorted by key, ``tombstones`` by version, and all of these are above the
        floor that the caller will set.
        Cost: 1 µs an entry, a quarter of what ``file`` takes.
        """
        gone: dict[bytes, list[Entry]] = {}
        for entry in tombstones:
            gone.setdefault(group_of(entry.key), []).append(entry)
            self._tombstones.append((entry.version, entry.key, entry.kind))
        by_group = groupby(entries, _group)
        made = [self._loaded(name, list(some), gone.pop(name, ())) for name, some in by_group]
        made += [self._loaded(name, [], ended) for name, ended in gone.items()]
        made.sort(key=itemgetter(0))
        self._groups = {name: group for _, name, group in made}

    def since(self, version: int) -> Iterator[Entry]:
        """Return what changed after ``version``, sorted by (version, key), prefixes first.

        The result is as of now, whatever is filed before it is read, and has the tombstones above
        the floor, also from version 0: a hub needs them. Cost: O(changed), 8 ms for 150,000; the
        changes of one transaction are sorted by key when they are read.
        """
        changed: list[Entry] = []
        for group in reversed(self._groups.values()):
            if group.version <= version:
                break
            for entry in reversed(group.rows.values()):
                if entry.version <= version:
                    break
                changed.append(entry)
            if group.prefix is not None and group.prefix.version > version:
                changed.append(group.prefix)
        return in_order(changed)

    def raise_floor(self, floor: int) -> None:
        """Discard the tombstones at or below ``floor``; it never falls. Cost: O(discarded).

        Caller: catalogd once its store has discarded them, a hub that is told the floor.
        Affects: catch-ups from below the floor, which are snapshots from now on.
        """
        if floor <= self.floor:
            return
        self.floor = floor
        while self._tombstones and self._tombstones[0][0] <= floor:
            version, key, kind = self._tombstones.popleft()
            self._discard_tombstone(version, key, kind)

    def tombstones(self) -> int:
        """Return how many tombstones are held, at most."""
        return len(self._tombstones)

    def check(self) -> None:
        """Assert every invariant."""
        groups = list(self._groups.values())
        assert [g.version for g in groups] == sorted(g.version for g in groups)
        for name, group in self._groups.items():
            versions = [entry.version for entry in group.rows.values()]
            assert versions == sorted(versions), name
            assert group.rows or group.prefix, name
            assert all(group_of(key) == name for key in group.rows), name
            assert group.version >= max(versions, default=0), name
            held = sum(accounted_bytes(entry) for entry in group.rows.values())
            held += accounted_bytes(group.prefix) if group.prefix else 0
            assert group.held_bytes == held, name
            tombstones = [e.version for e in group.rows.values() if e.kind == TOMBSTONE]
            tombstones += [group.prefix.version] if group.prefix else []
            assert all(version > self.floor for version in tombstones), name
            assert group.prefix is None or min(versions, default=group.prefix.version) >= (
                group.prefix.version
            ), name
        assert self.held_bytes == sum(group.held_bytes for group in groups)
        held = sum(len(group.rows) + (group.prefix is not None) for group in groups)
        assert self._count == held

    def _loaded(
        self, name: bytes, rows: list[Entry], tombstones: Sequence[Entry]
    ) -> tuple[int, bytes, Group]:
        """Return a group as it was stored: its version, its name, and it."""
        group = Group()
        if tombstones:
            latest = {row.key: row for row in rows}
            for entry in tombstones:
                if entry.kind == PREFIX:
                    group.prefix = entry
                elif entry.key not in latest or latest[entry.key].version < entry.version:
                    latest[entry.key] = entry
            least = group.prefix.version if group.prefix is not None else 0
            rows = [row for row in latest.values() if row.version >= least]
        rows.sort(key=_version)
        group.version = rows[-1].version if rows else 0
        if group.prefix is not None:
            group.version = max(group.version, group.prefix.version)
        self._count += len(rows) + (group.prefix is not None)
        self._put_rows(name, group, rows)
        return group.version, name, group

    def _put_rows(self, _name: bytes, group: Group, rows: list[Entry]) -> None:
        """Let ``group`` hold ``rows``, which are sorted by version."""
        group.rows = {row.key: row for row in rows}
        held = sum(map(accounted_bytes, rows))
        self._account(group, held + (accounted_bytes(group.prefix) if group.prefix else 0))

    def _file_row(self, entry: Entry) -> None:
        key, version = entry.key, entry.version
        name = group_of(key)
        group = self._groups.get(name)
        if group is None:
            group = Group()
        elif group.prefix is not None and version < group.prefix.version:
            return
        rows, change = group.rows, accounted_bytes(entry)
        have = rows.get(key)
        if have is None:
            self._count += 1
        elif have.version >= version:
            return
        else:
            del rows[key]
            change -= accounted_bytes(have)
        rows[key] = entry
        if entry.kind == TOMBSTONE:
            self._tombstones.append((version, key, TOMBSTONE))
        self._account(group, change)
        self._move_to_end(name, group, version)

    def _file_prefix(self, entry: Entry) -> None:
        group = self._groups.get(entry.key)
        if group is None:
            group = Group()
        elif group.prefix is not None and group.prefix.version >= entry.version:
            return
        rows = {}
        if group.version >= entry.version:  # parts of the same transaction may be held already
            rows = {k: e for k, e in group.rows.items() if e.version >= entry.version}
        self._account(group, -group.held_bytes)
        self._count += len(rows) - len(group.rows) + (group.prefix is None)
        group.rows, group.prefix = rows, entry
        self._account(group, accounted_bytes(entry) + sum(map(accounted_bytes, rows.values())))
        self._tombstones.append((entry.version, entry.key, PREFIX))
        self._move_to_end(entry.key, group, entry.version)

    def _delete(self, entry: Entry) -> None:
        """Apply a tombstone that no reader needs any more, without keeping it."""
        name = group_of(entry.key)
        group = self._groups.get(name)
        if group is None:
            return
        keys = group.rows if entry.kind == PREFIX else (entry.key,)
        for key in [k for k in keys if k in group.rows and group.rows[k].version < entry.version]:
            self._account(group, -accounted_bytes(group.rows.pop(key)))
            self._count -= 1
        self._drop_if_empty(name, group)

    def _move_to_end(self, name: bytes, group: Group, version: int) -> None:
        self._groups.pop(name, None)
        self._groups[name] = group
        if version > group.version:
            group.version = version

    def _account(self, group: Group, change: int) -> None:
        group.held_bytes += change
        self.held_bytes += change

    def _discard_tombstone(self, version: int, key: bytes, kind: int) -> None:
        name = key if kind == PREFIX else group_of(key)
        group = self._groups[name]  # it holds this tombstone, or what superseded it
        if kind == PREFIX:
            if group.prefix is not None and group.prefix.version == version:
                self._account(group, -accounted_bytes(group.prefix))
                group.prefix = None
                self._count -= 1
        else:
            entry = group.rows.get(key)
            if entry is not None and entry.version == version and entry.kind == TOMBSTONE:
                self._account(group, -accounted_bytes(entry))
                del group.rows[key]
                self._count -= 1
        self._drop_if_empty(name, group)

    def _drop_if_empty(self, name: bytes, group: Group) -> None:
        if not group.rows and group.prefix is None:
            del self._groups[name]


def in_order(entries: list[Entry]) -> Iterator[Entry]:
    """Return ``entries`` sorted by (version, key), prefixes first; sorts them by version now."""
    entries.sort(key=_version)
    return (entry for _, run in groupby(entries, _version) for entry in sorted(run, key=_order))


def _group(entry: Entry) -> bytes:
    return group_of(entry.key)


def _order(entry: Entry) -> tuple[bytes, bool]:
    return entry.key, entry.kind != PREFIX
