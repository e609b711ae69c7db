"""Writes: what an application tells of its own writes, that others hear of them.

with catalog.write_intent("sales.orders", ["ds=2026-11-01"]): …    intent ──▶ written, or failed
catalog.report_write("sales.orders")                                 written
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Final, Self

from ...topics.errors import NotReady, TopicastError
from ...topics.objects.names import check_partition_name, parse_table_name
from ...topics.wire.messages import ABANDONED, FAILED, INTENT, OVERWRITTEN, WRITTEN, Write
from ..protocol.facts import AskTold
from .calls import Calls

EVERY: Final = 0  # in place of a write's number


class Writes:
    """Numbers the writes of one subscriber, and tells them in order."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._told = False  # anything
        self._numbers = count(1)
        self._numbering = threading.Lock()

    def begin(self, wanted: str, partitions: Iterable[str] = ()) -> "WriteIntent":
        """Tell that a write begins."""
        write = self._number(wanted, partitions, state=INTENT)
        return WriteIntent(self, write.number, write.object, partitions=write.partitions)

    def done(
        self,
        wanted: str,
        partitions: Iterable[str] = (),
        *,
        failed: bool = False,
        overwritten: bool = False,
    ) -> int:
        """Tell of a write that is over; return its number."""
        state = _ended(failed=failed, overwritten=overwritten)
        return self._number(wanted, partitions, state=state).number

    def tell(self, write: Write) -> None:
        """Hand ``write`` to the background thread."""
        self._calls.running().write(write, timeout_s=self._calls.timeout_s)
        self._told = True

    def _number(self, wanted: str, partitions: Iterable[str], *, state: int) -> Write:
        """Give a write its number and tell of it, in one step.

        A lower number that is told later would count as settled, and have no effect.
        """
        wanted, parts = checked(wanted), named(partitions)
        self._calls.running()  # raises, before anything is locked, in a forked child
        with self._numbering:
            number = next(self._numbers)
            write = Write(number=number, state=state, object=wanted, partitions=parts)
            self.tell(write)
        return write

    def flush(self, timeout_s: float) -> bool:
        """Return whether everything is told; wait for so long, or until it is refused."""
        if not self._told:
            return True
        with suppress(TopicastError):
            return self.wait(EVERY, timeout_s)
        return False

    def wait(self, number: int, timeout_s: float) -> bool:
        """Wait until catalogd has the write ``number``; False if it has not in time."""
        try:
            self._calls.ask(
                lambda ask, until: AskTold(id=ask, number=number, give_up_at=until),
                timeout_s=timeout_s,
            )
        except NotReady:
            return False
        return True


class WriteIntent:
    """A write that has begun. ``partitions`` may be set until it ends."""

    def __init__(
        self, writes: Writes, number: int, wanted: str, *, partitions: tuple[str, ...]
    ) -> None:
        self.number = number
        self.partitions = partitions
        self._writes = writes
        self._object = wanted

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(failed=error is not None)

    def end(self, *, failed: bool = False, overwritten: bool = False) -> None:
        """Tell that the write is over; ``overwritten``: files that were there are gone."""
        self._writes.tell(self.told(_ended(failed=failed, overwritten=overwritten)))

    def wait(self, timeout_s: float) -> bool:
        """Return within ``timeout_s`` whether catalogd has what was told last.

        Raises:
            UsageError: catalogd follows another metastore.
        """
        return self._writes.wait(self.number, timeout_s)

    def abandon(self) -> None:
        """Tell that nothing was written."""
        self._writes.tell(self.told(ABANDONED))

    def told(self, state: int) -> Write:
        """Return what is told of this write at ``state``."""
        return Write(
            number=self.number, state=state, object=self._object, partitions=self.partitions
        )


def _ended(*, failed: bool, overwritten: bool) -> int:
    if failed:
        return FAILED  # which may have changed anything
    return OVERWRITTEN if overwritten else WRITTEN


def checked(wanted: str) -> str:
    """Return the table or path that was written, as it is told.

    Raises:
        UsageError: it is neither ``db.table`` nor a path.
    """
    if "/" in wanted:
        return wanted
    db, table = parse_table_name(wanted)
    return f"{db}.{table}"


def named(partitions: Iterable[str]) -> tuple[str, ...]:
    """Return the partitions, or how they begin, as they are told.

    Raises:
        UsageError: one of them is no partition's name.
    """
    found = tuple(partitions)
    for one in found:
        check_partition_name(one.rstrip("/"))
    return found
