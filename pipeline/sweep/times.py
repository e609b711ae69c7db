"""FolderTimes: which folders are to be listed again, because they got or lost an entry. Pure.

The time of a folder does not show that a file is rewritten in place. It has a grain, too: two
changes within GRAIN_S may have one time, so a folder is listed again until its time is older.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

GRAIN_S: Final = 2.0  # of the coarsest file systems
QUIET_S: Final = 0.15  # after a change; a driver that has written reports within it


@dataclass(slots=True)
class _Folder:
    """The time of one folder; ``_s`` are seconds of a monotonic clock."""

    time_ms: int  # as seen last
    since_s: float  # when this time was first seen
    unlisted_since_s: float | None  # when the first change was seen that no listing has; None: none
    is_listed: bool  # whether a listing has all changes of this time


class FolderTimes:
    """The last times that were seen of some folders."""

    def __init__(self) -> None:
        self._folders: dict[str, _Folder] = {}

    def __len__(self) -> int:
        return len(self._folders)

    def begin(self, times: Mapping[str, int], *, at_s: float, now_ms: int) -> None:
        """Note the ``times`` of folders that the sweep of all tables will list.

        ``now_ms``: the time by the clock of the file system, roughly.
        """
        for path, time_ms in times.items():
            is_old = time_ms < now_ms - GRAIN_S * 1000
            self._folders[path] = _Folder(time_ms, at_s, None if is_old else at_s, is_old)

    def due(self, times: Mapping[str, int], *, at_s: float) -> list[str]:
        """Take the present ``times`` of folders; return the folders that are to be listed now."""
        due = []
        for path, time_ms in times.items():
            folder = self._folders.get(path)
            if folder is None:
                self._folders[path] = folder = _Folder(time_ms, at_s, at_s, is_listed=False)
            elif folder.time_ms != time_ms:
                folder.time_ms, folder.since_s, folder.is_listed = time_ms, at_s, False
                if folder.unlisted_since_s is None:
                    folder.unlisted_since_s = at_s
            unlisted_since_s = folder.unlisted_since_s
            is_quiet = unlisted_since_s is None or at_s >= unlisted_since_s + QUIET_S
            if not folder.is_listed and is_quiet:
                due.append(path)
        return due

    def listed(self, paths: Iterable[str], *, at_s: float) -> None:
        """Note that folders were listed; the listing began at ``at_s``."""
        for path in paths:
            folder = self._folders.get(path)
            if folder is not None and folder.since_s <= at_s:
                folder.unlisted_since_s = None
                folder.is_listed = at_s >= folder.since_s + GRAIN_S

    def keep(self, paths: Iterable[str]) -> None:
        """Discard all folders but ``paths``."""
        self._folders = {one: self._folders[one] for one in paths if one in self._folders}
