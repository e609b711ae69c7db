"""Entries: what a topic maps a key to, and how many bytes one is accounted for.

A key is ``a NUL b NUL rest``. Up to and including the second NUL it is its group: a table with its
blocks, or a database with its blocks of names. A PREFIX tombstone names a group and deletes every
entry of it that has a lower version.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from .errors import WireError


class EntryKind(IntEnum):
    """What has become of an entry's key."""

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
    """How much of a topic a subscriber follows; ``name.lower()`` is what users type and read."""

    NONE = 0
    MINIMAL = 1  # keys, versions and sizes
    FULL = 2  # values too

    __repr__ = int.__repr__


NONE: Final = Level.NONE
MINIMAL: Final = Level.MINIMAL
FULL: Final = Level.FULL
LEVELS: Final = tuple(level.name.lower() for level in Level)  # their names, by number

MINIMAL_BYTES: Final = 64  # what following a topic at level minimal is accounted for

ENTRY_OVERHEAD_BYTES: Final = 320
"""What one entry costs in CPython beside key and value: object, three integers, two bytes
headers, slots in dicts. Measured by tests/bench/bench_view.py; rounded up."""

KEY_BYTES_MAX: Final = 1024  # HMS names end at 128 + 256 and partition names at 767 characters


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
    return Entry(
        entry.key,
        entry.version,
        entry.schema_version,
        entry.data_version,
        entry.size,
        None,
        STUB,
    )


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


def group_of(key: bytes) -> bytes:
    """Return the group of ``key``: everything up to and including its second NUL.

    Raises:
        ValueError: ``key`` has fewer than two NULs.
    """
    return key[: key.index(b"\0", key.index(b"\0") + 1) + 1]
