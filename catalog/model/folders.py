"""Folders: the folders in which the data of tables lies, as rows that are stored with entries.

    entry ──read──▶ rows of its key ──same commit as the entry──▶ the store ──▶ found by path

Rows have the key of an entry, a table's own or that of a block, or one that is made of a table's:
``bases_key``, ``common_key``. All keys of a table are together, between two bounds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ...topics.objects.names import block_lead

_BASES: Final = b"\0b"  # behind a table's key: no entry has such a key
_COMMON: Final = b"\0c"


class Folder(NamedTuple):
    """A location, and the partition that has it; empty: those that lie below it by their names."""

    location: str
    partition: str


class FolderRow(NamedTuple):
    """A folder of the entry or of the table that has ``key``."""

    key: bytes
    location: str
    partition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderChanges:
    """Changes of stored rows: first those of ``ended`` tables go, then rows are replaced.

    ``rows``: by key, what it has from now on.
    """

    ended: tuple[bytes, ...]
    rows: Mapping[bytes, tuple[Folder, ...]]


class StoredFolders(Protocol):
    """The rows that are stored."""

    def folders_at(self, locations: Sequence[str]) -> Sequence[FolderRow]:
        """Return the rows that lie at any of ``locations``."""

    def folders_in(self, location: str) -> Iterator[FolderRow]:
        """Yield the rows below ``location``, while nothing is committed. Cost: O(read)."""

    def folders_of(self, first: bytes, end: bytes) -> Sequence[FolderRow]:
        """Return the rows of the keys from ``first`` on, and before ``end``."""


def bases_key(group: bytes) -> bytes:
    """Return the key of the folders in which partitions of a table lie by their names."""
    return group + _BASES


def common_key(group: bytes) -> bytes:
    """Return the key of the folders that count for all partitions of a table in them."""
    return group + _COMMON


def group_end(group: bytes) -> bytes:
    """Return the first key behind all keys of the table ``group``."""
    return group[:-1] + b"\1"


def own_end(group: bytes) -> bytes:
    """Return the first key behind those of a table itself: the rest are of its blocks."""
    return block_lead(group)
