"""FolderLock: the one process that may write a state folder.

The kernel holds the lock and releases it when the process ends, however it ends; the file holds
the owner's process id, for the message of a process that finds the folder locked.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from ...topics.errors import StoreError

LOCK_NAME: Final = "catalogd.lock"


class FolderLock:
    """An exclusive lock on a folder, held until ``release``."""

    def __init__(self, folder: Path) -> None:
        """Take the lock; create the folder, readable by its owner only, if it is missing.

        Raises:
            StoreError: the folder cannot be made or written, or another process holds it.
        """
        self._path = folder / LOCK_NAME
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            problem = f"cannot be used as state folder ({exc.strerror})"
            remedy = "make it a folder that this user may write, or name another (--state_dir)"
            raise StoreError(str(folder), problem, remedy) from exc
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            owner = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            problem = f"in use by the catalogd with process id {owner}"
            remedy = "stop that one, or give this one its own folder (--state_dir)"
            raise StoreError(str(folder), problem, remedy) from exc
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode("ascii"), 0)

    @property
    def path(self) -> Path:
        """The lock file, which stays while the folder is locked."""
        return self._path

    def release(self) -> None:
        """Unlock the folder; the lock file stays."""
        os.close(self._fd)
