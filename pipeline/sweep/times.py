"""FolderTimes: which folders have to be listed again, by when they last got or lost an entry. Pure.

A time says nothing about a file that is rewritten in place, and has a grain: two changes within
GRAIN_S may have one time. So a folder is listed again until its time has been known for longer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

GRAIN_S: Final = 2.0  # of the coarsest file systems
QUIET_S: Final = 0.15  # after a change; a driver that has written reports within it


@dataclass(slots=True)
class _Folder:
    """``time_ms``: as seen last; it changes at ``since_s``, by a clock that only goes on."""

    time_ms: int
    since_s: float
    unlisted_since_s: float | None  # when the first change was seen that no listing has; None: none
    is_listed: bool  # a listing has all changes of this time


class FolderTimes:
    """The times of some folders, as they were seen last."""

    def __init__(self) -> None:
        self._folders: dict[str, _Folder] = {}

    def __len__(self) -> int:
        return len(self._folders)

    def begin(self, times: Mapping[str, int], *, at_s: float, now_ms: int) -> None:
        """Note the ``times`` of folders that will be listed for another reason.

        ``now_ms``: by the clock of the file system, or a clock that is close.
        """
        for path, time_ms in times.items():
            is_old = time_ms < now_ms - GRAIN_S * 1000
            self._folders[path] = _Folder(time_ms, at_s, None if is_old else at_s, is_old)

    def due(self, times: Mapping[str, int], *, at_s: float) -> list[str]:
        """Return which of the folders with ``times`` are to be listed now."""
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
