"""Question: what a request asks of the store's file, and the texts of Inspect that ask it."""

from collections.abc import Callable
from typing import Final, Protocol

from ...topics.errors import UsageError
from ...topics.objects.names import TableId, parse_table_name
from ...topics.policy import Policy
from ...topics.wire.messages import Inspected, Scanned
from ..storage.history import HistoryReader
from .change_log import LogBounds, LogLines, Recent
from .scans import Cuts, Versions
from .table_history import Bound, ChangeRange, Newest

VERSIONS: Final = "versions"
LOG: Final = "log"
RECENT: Final = "recent@"  # then SINCE_US:COUNT:PATTERN
HISTORY: Final = "history@"  # then db.table, or db.table:after:count, see Newest
FILES: Final = "files@"  # then db.table, and behind a second @ the partition that was the last
SWEEPS: Final = "sweeps@"  # then the table behind which it begins, or nothing
NUMBER_MAX: Final = (1 << 63) - 1  # SQLite takes no larger one


class Question(Protocol):
    """What is to be read from the store."""

    @property
    def table(self) -> TableId | None:
        """The database and the name of the one table that it is about; None: of no one table."""

    @property
    def subject(self) -> str:
        """What is read, in words."""

    def answer(
        self, reader: HistoryReader, request: int, policy: Policy | None, /
    ) -> Inspected | Scanned:
        """Return the answer to ``request``, of what ``policy`` sees."""


_OF_NUMBERS: Final[tuple[tuple[str, str, Callable[..., Question]], ...]] = (
    ("changes@", "TOPIC:EPOCH:AFTER:UNTIL:SKIP", ChangeRange),
    ("entries@", "TOPIC:EPOCH:AFTER:COUNT", Bound),
    ("log@", "NUMBER", LogLines),
    ("cuts@", "TOPIC:BYTES", Cuts),
)
"""The texts that have numbers alone: how each begins, the names of its numbers, its question."""


def question_of(what: str) -> Question | None:
    """Return the question that the text ``what`` asks; None if it needs nothing of the store.

    Those about sweeps are not among them: they need what is not in the store.

    Raises:
        UsageError: it begins like one of these texts, and the rest is not valid.
    """
    if what == VERSIONS:
        return Versions()
    if what == LOG:
        return LogBounds()
    if what.startswith(HISTORY):
        table, colon, rest = what.removeprefix(HISTORY).partition(":")
        return Newest(
            parse_table_name(table), *(_numbers(rest, "", "AFTER:COUNT") if colon else ())
        )
    if what.startswith(RECENT):
        numbers, _, pattern = what.rpartition(":")
        since_us, count = _numbers(numbers, RECENT, "SINCE_US:COUNT")
        return Recent(since_us=since_us, count=count, pattern=pattern.lower())
    for prefix, names, kind in _OF_NUMBERS:
        if what.startswith(prefix):
            return kind(*_numbers(what, prefix, names))
    return None


def _numbers(what: str, prefix: str, names: str) -> tuple[int, ...]:
    """Return the numbers that stand in ``what`` behind ``prefix``, one for each of ``names``.

    Raises:
        UsageError: other text stands there; says which numbers are expected.
    """
    found = what.removeprefix(prefix).split(":")
    right = len(found) == len(names.split(":"))
    if not right or not all(one.isascii() and one.isdigit() for one in found):
        raise UsageError(f"{what[:80]!r}: {prefix}{names}, all numbers")
    return tuple(min(int(one[:20]), NUMBER_MAX) for one in found)
