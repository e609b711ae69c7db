"""FolderIndex: the stored folders of tables, as they are after the next commit.

    replace | end ──▶ changes, in memory ──take──▶ the commit of the entries that say so

Invariant: it answers as the store will answer once the changes are committed.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from sortedcontainers import SortedDict

from ....topics.objects.names import group_of
from ...model.folders import Folder, FolderChanges, FolderRow, StoredFolders

KEYS_END: Final = b"\xff"  # behind every key: they begin with UTF-8


class FolderIndex:
    """The rows of all tables, by key and by location."""

    def __init__(self, stored: StoredFolders) -> None:
        self._stored = stored
        self._ended: dict[bytes, None] = {}  # tables: their stored rows do not count
        # By table and key: its folders, in place of the stored ones. One turn has changed them.
        self._changed: dict[bytes, dict[bytes, tuple[Folder, ...]]] = {}
        self._at: Any = SortedDict()  # the rows of ``_changed``: location: {row: None}

    def at(self, locations: Sequence[str]) -> list[FolderRow]:
        """Return the rows that lie at any of ``locations``."""
        found = self._unchanged(self._stored.folders_at(locations))
        return found + [row for one in locations for row in self._at.get(one, ())]

    def below(self, location: str) -> Iterator[FolderRow]:
        """Yield the rows below ``location``."""
        for row in self._stored.folders_in(location):
            if not self._is_changed(row.key):
                yield row
        inside = self._at.irange(location + "/", location + "0", inclusive=(False, False))
        yield from chain.from_iterable(map(self._at.__getitem__, inside))  # "0" follows "/"

    def of(self, first: bytes, end: bytes) -> list[FolderRow]:
        """Return the rows of the keys from ``first`` on, and before ``end``, of one table."""
        group = group_of(first)
        stored = () if group in self._ended else self._stored.folders_of(first, end)
        found, changed = self._unchanged(stored), self._changed.get(group, {})
        keys = [key for key in changed if first <= key < end]
        return found + [FolderRow(key, *one) for key in keys for one in changed[key]]

    def of_key(self, key: bytes) -> tuple[Folder, ...]:
        """Return the folders of one key, sorted."""
        return tuple(sorted(Folder(*row[1:]) for row in self.of(key, key + b"\0")))

    def groups(self) -> set[bytes]:
        """Return the tables that have a row. Cost: O(rows)."""
        stored = self._unchanged(self._stored.folders_of(b"", KEYS_END))
        changed = {group for group, keys in self._changed.items() if any(keys.values())}
        return {group_of(row.key) for row in stored} | changed

    def replace(self, key: bytes, folders: Sequence[Folder]) -> None:
        """Let ``key`` have ``folders``, and no others."""
        changed = self._changed.setdefault(group_of(key), {})
        self._forget(key, changed.get(key, ()))
        changed[key] = tuple(dict.fromkeys(folders))
        for one in changed[key]:
            self._at.setdefault(one.location, {})[FolderRow(key, *one)] = None

    def end(self, group: bytes) -> None:
        """Let no key of ``group`` have a folder."""
        for key, folders in self._changed.pop(group, {}).items():
            self._forget(key, folders)
        self._ended[group] = None

    def take(self) -> FolderChanges | None:
        """Remove and return the changes to be committed; None: there are none."""
        if not (self._ended or self._changed):
            return None
        rows = {key: one for keys in self._changed.values() for key, one in keys.items()}
        changes = FolderChanges(ended=tuple(self._ended), rows=rows)
        self._ended, self._changed, self._at = {}, {}, SortedDict()
        return changes

    def _unchanged(self, rows: Sequence[FolderRow]) -> list[FolderRow]:
        return [row for row in rows if not self._is_changed(row.key)]

    def _is_changed(self, key: bytes) -> bool:
        if not (self._ended or self._changed):
            return False
        group = group_of(key)
        return group in self._ended or key in self._changed.get(group, ())

    def _forget(self, key: bytes, folders: Sequence[Folder]) -> None:
        for one in folders:
            rows = self._at[one.location]
            del rows[FolderRow(key, *one)]
            if not rows:
                del self._at[one.location]
