"""Files: secrets as files that only their owner may read, and one writer of a folder at a time."""

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Final

from ..errors import ConfigError
from .credential import TEXT_BYTES_MAX

LOCK_NAME: Final = "lock"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_PID: Final = r"\.([1-9]\d{0,9})"
_UNFINISHED: Final = re.compile(rf"\.(?:.+\.key|clients|clients\.for){_PID}")
ROOT: Final = 0  # a file of root's is as safe as our own file


def secret_fault(found: os.stat_result, path: Path, *, user: int) -> str:
    """Return why the file or folder ``path`` may not hold secrets of ``user``; empty if it may.

    It is the owner's, or root's; a file is readable and a folder writable by its owner only.
    """
    where = quote(str(path))
    if found.st_uid not in (user, ROOT):
        return f"it belongs to user {found.st_uid}; run: chown {user} {where}"
    if stat.S_ISDIR(found.st_mode):
        return f"others can write it; run: chmod 700 {where}" * bool(found.st_mode & _OTHERS_WRITE)
    if not stat.S_ISREG(found.st_mode):
        return "it is not a file"
    fault = f"others can read it; if it is a key or a password, run: chmod 600 {where}"
    return fault * bool(found.st_mode & _OTHERS)


def read_secret(
    path: Path, *, setting: str, bytes_max: int = TEXT_BYTES_MAX, is_guarded: bool = False
) -> str:
    """Return the text of ``path``, which only its owner may read, unless others guard it.

    Raises:
        FileNotFoundError: there is no such file.
        ConfigError: it cannot be read, or others can; says which command mends it.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(file, "rb") as opened:
            fault = secret_fault(os.fstat(file), path, user=os.geteuid())
            if fault and not is_guarded:
                raise ConfigError(setting, str(path), fault)
            content = opened.read(bytes_max + 1)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise ConfigError(setting, str(path), f"it cannot be read ({exc.strerror})") from exc
    if len(content) > bytes_max:
        raise ConfigError(setting, str(path), f"a file of at most {bytes_max} bytes")
    return content.decode("utf-8", "replace")


def write_secret(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, whole or not at all, readable by its owner only.

    A process that is killed here leaves ``.NAME.PID`` beside the file; the next process that writes
    this file deletes it, and so does `locked`.

    Raises:
        OSError: it cannot be written.
    """
    _discard_unfinished(path.parent, path.name)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            os.fchmod(file, 0o600)  # whatever the umask is
            opened.write(text)
            opened.flush()
            os.fsync(file)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make ``folder`` if it is missing, and be the only process that changes it; waits for others.

    It deletes what killed processes left unfinished in it.

    Raises:
        ConfigError: it cannot be made or written, or others can write it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fault = secret_fault(folder.stat(), folder, user=os.geteuid())
        if fault:
            raise ConfigError("keys_dir", str(folder), fault)
        file = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        allowed = f"a folder that this user may write ({exc.strerror})"
        raise ConfigError("keys_dir", str(folder), allowed) from exc
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        _discard_unfinished(folder)
        yield
    finally:
        os.close(file)


def _discard_unfinished(folder: Path, name: str | None = None) -> None:
    """Delete what `write_secret` left in ``folder``, of ``name`` or of any key, in dead processes.

    Another folder's command may write here at this moment (``--out``), so the process counts, not
    the lock. A file that cannot be deleted stays.
    """
    unfinished = _UNFINISHED if name is None else re.compile(rf"\.{re.escape(name)}{_PID}")
    for path in folder.iterdir():
        named = unfinished.fullmatch(path.name)
        if named and not _lives(int(named[1])):
            with suppress(OSError):
                path.unlink()


def _lives(pid: int) -> bool:
    """Return whether there is a process ``pid``, of whatever user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
