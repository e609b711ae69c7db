"""Compiled Java classes, kept on disk for the next driver of this user.

    key ──find──▶ a file of our own, closed to others, whole ──▶ its classes
             └──▶ None: the caller compiles them ──put──▶ the file, in one step

The driver runs these classes. So a file is read only if it and its folder belong to this user, or
to root, if nobody else can write the folder or read the file, and if neither is a link. A file is a
jar of the classes of one key. The comment at its end is a digest of the key and of all bytes before
it, so that a file that was cut, changed or renamed is not opened as a jar. ``find`` returns None
when any of this does not hold.
"""

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import Final
from zipfile import ZipFile, ZipInfo

from ...topics.keys.files import ROOT, secret_fault
from ...topics.settings import cache_folder

FOLDER: Final = "driver-classes"
FILES_MAX: Final = 64  # a driver uses three: enough for 20 versions of Topicast, Spark and Java
UNUSED_S_MAX: Final = 90 * 86_400.0  # since its last use: a job of each quarter still finds it
FILE_BYTES_MAX: Final = 1 << 20  # the largest of ours has 0.1 MB
UNFINISHED_S_MAX: Final = 3600.0  # a write takes milliseconds, so its process is dead

_DIGEST: Final = 64  # characters
_SUFFIX: Final = ".class"
_FILE: Final = re.compile(rf"[0-9a-f]{{{_DIGEST}}}\.jar")
_UNFINISHED: Final = re.compile(rf"\.{_FILE.pattern}\.[0-9a-f]+")
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

log = logging.getLogger(__name__)


class CompiledClasses:
    """The files in ``folder``; construction reads and writes none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def of_user(environ: Mapping[str, str]) -> "CompiledClasses | None":
        """Return the classes of this user; None: the user has no home folder."""
        try:
            return CompiledClasses(cache_folder(environ) / FOLDER)
        except RuntimeError:  # Path.home's
            return None

    def find(self, key: str) -> dict[str, bytes] | None:
        """Return the classes that ``put`` has kept by ``key``, by name; None: none to trust."""
        try:
            with self._opened() as folder:
                content = self._read(_name(key), folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.debug("compiled classes not used: folder=%s reason=%s", self.folder, error)
            return None
        jar, digest = content[:-_DIGEST], content[-_DIGEST:]
        if digest != _digest(key, jar):
            log.debug("compiled classes not used: file=%s reason=damaged", _name(key))
            return None
        with ZipFile(BytesIO(content)) as opened:
            names = [name for name in opened.namelist() if name.endswith(_SUFFIX)]
            return {_class(name): opened.read(name) for name in names}

    def file(self, key: str) -> Path:
        """Return the path of the jar with the classes that ``find`` returns by ``key``."""
        return self.folder / _name(key)

    def put(
        self, key: str, classes: Mapping[str, bytes], files: Mapping[str, bytes] | None = None
    ) -> None:
        """Let ``find`` return ``classes`` by ``key`` from now on, in all processes.

        A failure is logged, and changes nothing. ``files``: the other files of the jar, by path.
        The call deletes files that were not used for long, and the longest unused over FILES_MAX.
        """
        jar = jar_of(classes, files or {}, comment=bytes(_DIGEST))[:-_DIGEST]
        content = jar + _digest(key, jar)
        if len(content) > FILE_BYTES_MAX:
            log.debug("compiled classes not kept: bytes=%s", len(content))
            return
        try:
            self._make()
            with self._opened() as folder:
                _discard(folder)
                _write(_name(key), content, folder)
        except OSError as error:
            log.debug("compiled classes not kept: folder=%s reason=%s", self.folder, error)

    def _make(self) -> None:
        """Make the folder, but none in the home of another user, such as that of sudo's caller."""
        if self.folder.exists():
            return
        above = next(one for one in self.folder.parents if one.exists())
        owner = above.stat().st_uid
        if owner not in (os.geteuid(), ROOT):
            raise PermissionError(f"{above} belongs to user {owner}")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the folder and check it, so that the block uses the folder that was checked."""
        folder = os.open(self.folder, _READ | os.O_DIRECTORY)
        try:
            self._check(folder, self.folder)
            yield folder
        finally:
            os.close(folder)

    def _read(self, name: str, folder: int) -> bytes:
        file = os.open(name, _READ, dir_fd=folder)
        with os.fdopen(file, "rb") as opened:
            self._check(file, self.folder / name)
            with suppress(OSError):
                os.utime(file)  # the time of its last use, by which ``_discard`` goes
            return opened.read(FILE_BYTES_MAX)

    @staticmethod
    def _check(opened: int, path: Path) -> None:
        fault = secret_fault(os.fstat(opened), path, user=os.geteuid())
        if fault:
            raise PermissionError(f"{path}: {fault}")


def jar_of(
    classes: Mapping[str, bytes], files: Mapping[str, bytes], *, comment: bytes = b""
) -> bytes:
    """Return a jar of ``classes``, by name, and ``files``, by path; equal for equal arguments."""
    members = {f"{name.replace('.', '/')}{_SUFFIX}": classes[name] for name in classes}
    content = BytesIO()
    with ZipFile(content, "w") as jar:
        for name, data in sorted({**members, **files}.items()):
            jar.writestr(ZipInfo(name), data)
        jar.comment = comment
    return content.getvalue()


def _name(key: str) -> str:
    return f"{sha256(key.encode()).hexdigest()}.jar"


def _digest(key: str, jar: bytes) -> bytes:
    return sha256(_name(key).encode() + jar).hexdigest().encode()


def _class(member: str) -> str:
    return member.removesuffix(_SUFFIX).replace("/", ".")


def _write(name: str, content: bytes, folder: int) -> None:
    """Write the file ``name`` whole or not at all, readable by its owner only."""
    temporary = f".{name}.{token_hex(8)}"
    try:
        file = os.open(temporary, _WRITE, 0o600, dir_fd=folder)
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _discard(folder: int) -> None:
    """Delete our files that are too old or too many, so that one more has room; no other file."""
    now, kept = time.time(), 0
    with os.scandir(folder) as entries:
        found = [(one.stat(follow_symlinks=False).st_mtime, one.name) for one in entries]
    for mtime, name in sorted(found, reverse=True):
        age_s = now - mtime
        if _FILE.fullmatch(name):
            kept += 1
            is_old = age_s > UNUSED_S_MAX or kept >= FILES_MAX
        else:
            is_old = bool(_UNFINISHED.fullmatch(name)) and age_s > UNFINISHED_S_MAX
        if is_old:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
