"""SweptFiles: the results of sweeps of the files of tables, as the rows that operators are sent.

files@db.table@partition    the files of the partitions of a table, behind that partition
sweeps@db.table             how far each table is swept, behind that one
"""

from typing import Final

from ...topics.objects.names import TableId, parse_table_name
from ...topics.wire.messages import FileFacts

PREFIX: Final = "files@"  # then db.table, and behind a second @ the partition that was the last
SWEEPS: Final = "sweeps@"  # then the table behind which it begins, or nothing
SWEEPS_COLUMNS: Final = (
    "table",
    "revision",
    "as_of",
    "swept_us",
    "open_as_of",
    "open_until",
    "whole",
    "partitions",
    "files",
    "bytes",
    "small",
    "newest_ms",
)
ROWS_MAX: Final = 2000  # of an answer: their numbers take 100 KB


def parse_files(what: str) -> tuple[TableId, str | None] | None:
    """Return table and last partition of ``files@db.table@last``; None for another ``what``.

    Raises:
        UsageError: it names no table.
    """
    if not what.startswith(PREFIX):
        return None
    name, more, after = what.removeprefix(PREFIX).partition("@")
    return parse_table_name(name), after if more else None


def parse_sweeps(what: str) -> tuple[TableId | None] | None:
    """Return the table behind which ``sweeps@db.table`` begins; None for another ``what``.

    Raises:
        UsageError: it names no table.
    """
    if not what.startswith(SWEEPS):
        return None
    name = what.removeprefix(SWEEPS)
    return (parse_table_name(name) if name else None,)


def numbers_of(one: FileFacts) -> tuple[int, int, int, int, int, int]:
    """Return the numbers of one fact, in the order of COLUMNS."""
    return one.fingerprint, one.files, one.bytes, one.small, one.newest_ms, one.folder_ms
