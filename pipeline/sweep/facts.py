"""Facts about files: made from a listing, and compared with the known facts. Pure.

A change of files is explained if readers were notified of a later change of the table, because of a
driver's report, an event or another sweep. A change that is not explained is a change of data.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from ...topics.wire.messages.reports import FileFacts
from .listing import FolderEntry

FINGERPRINT_BITS: Final = 63  # as many as SQLite stores


def facts_of(partition: str, files: Sequence[FolderEntry], *, small_bytes: int) -> FileFacts:
    """Return the facts about the ``files`` of a partition."""
    digest = blake2b(digest_size=8)
    for one in sorted(files, key=lambda entry: entry.path):
        digest.update(f"{one.path}\n{one.size}\n{one.modified_ms}\n".encode())
    return FileFacts(
        partition=partition,
        fingerprint=int.from_bytes(digest.digest(), "big") >> (64 - FINGERPRINT_BITS),
        files=len(files),
        bytes=sum(one.size for one in files),
        small=sum(one.size < small_bytes for one in files),
        newest_ms=max((one.modified_ms for one in files), default=0),
    )


def is_first_change(found: FileFacts, *, noticed_ms: int | None) -> bool:
    """Return whether files that no sweep has seen before are newer than ``noticed_ms``.

    ``noticed_ms``: when readers were last notified of a change of the table; None: not known, so
    that sweeps take these files as their starting point.
    """
    return noticed_ms is not None and found.newest_ms > noticed_ms


def is_unexplained(
    before: FileFacts,
    found: FileFacts,
    *,
    folder_ms: int,
    noticed_ms: int | None,
    swept_ms: int = 0,
) -> bool:
    """Return whether files have changed since readers were last notified of a change.

    ``folder_ms``: when the folder last got or lost a file; 0: its file system does not say. Then
    nobody knows when a file was removed, so a change that has left no newer file counts.
    ``swept_ms``: a time before ``before`` was listed; 0: not known. A notification until then
    explains nothing, because every difference is younger. The times of files may not show that:
    object stores keep whole seconds.
    """
    if before.fingerprint == found.fingerprint:
        return False
    newest_ms = max(found.newest_ms, folder_ms)
    if noticed_ms is None or noticed_ms <= swept_ms or newest_ms > noticed_ms:
        return True
    return not folder_ms and found.newest_ms <= before.newest_ms


def lacks_files(before: FileFacts, found: FileFacts) -> bool:
    """Return whether a file may be gone; surely not with more files of no fewer bytes."""
    return found.files <= before.files or found.bytes < before.bytes
