"""Reports of an application's own writes, so that other readers are notified of them.

with catalog.write_intent("sales.orders", ["ds=2026-11-01"]): …   intent ──▶ written, or failed
catalog.report_write("sales.orders")                              written
"""

from collections.abc import Iterable

from ...topics.backports import Self
from ...topics.objects.names import table_name
from ...topics.wire.messages.reports import (
    ABANDONED,
    ALTERED,
    FAILED,
    INTENT,
    NAMED,
    OVERWRITTEN,
    WRITTEN,
    Write,
    WriteState,
)
from .. import arguments
from ..engine.write_outbox import WriteOutbox


class WriteIntent:
    """A write that has begun; the writer may set ``partitions`` until it ends."""

    def __init__(self, outbox: WriteOutbox, wanted: str, partitions: Iterable[str] = ()) -> None:
        """Report that the write begins.

        Raises:
            UsageError: ``wanted`` is neither a table nor a path, or a partition's name is invalid.
        """
        self.partitions = arguments.partition_names(partitions, "partitions")
        self._outbox = outbox
        self._object = object_name(wanted)
        self._number = outbox.add(self._object, self.partitions, state=INTENT)

    def __repr__(self) -> str:
        return f"<WriteIntent {self._number} of {self._object}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        self.end(failed=error is not None)

    def end(self, *, failed: bool = False, overwritten: bool = False) -> None:
        """Report that the write has ended; ``overwritten``: files that were there are gone.

        Raises:
            UsageError: ``partitions`` has an item that is not a partition's name.
        """
        self._end(_state(failed=failed, overwritten=overwritten))

    def abandon(self) -> None:
        """Report that the write has changed nothing."""
        self._end(ABANDONED)

    def wait(self, timeout_s: float) -> bool:
        """Return within ``timeout_s`` whether catalogd has the last report of this write.

        Raises:
            UsageError: catalogd follows another metastore.
        """
        return self._outbox.wait(self._number, timeout_s=arguments.timeout_s(timeout_s))

    def _end(self, state: WriteState) -> None:
        partitions = arguments.partition_names(self.partitions, "partitions")
        self._outbox.end(
            Write(number=self._number, state=state, object=self._object, partitions=partitions)
        )


def report_write(
    outbox: WriteOutbox,
    wanted: str,
    partitions: Iterable[str] = (),
    *,
    failed: bool = False,
    overwritten: bool = False,
) -> int:
    """Report a write that has ended; return its number.

    Raises:
        UsageError: ``wanted`` is neither a table nor a path, or a partition's name is invalid.
    """
    state = _state(failed=failed, overwritten=overwritten)
    object_ = object_name(wanted)
    names = arguments.partition_names(partitions, "partitions")
    return outbox.add(object_, names, state=state)


def report_statement(outbox: WriteOutbox, wanted: str, *, named: bool) -> int:
    """Report that a statement has changed the table ``wanted``, but no data; return its number.

    ``named``: the table was created, dropped or renamed; False: its description has changed, or
    partitions came or went.

    Raises:
        UsageError: ``wanted`` is not a table's name.
    """
    table = table_name(*arguments.table(wanted, "wanted"))
    return outbox.add(table, state=NAMED if named else ALTERED)


def object_name(wanted: str) -> str:
    """Return the table or path that was written, as reports name it.

    Raises:
        UsageError: it is neither ``db.table`` nor a path.
    """
    if "/" in arguments.text(wanted, "wanted"):
        return wanted
    return table_name(*arguments.table(wanted, "wanted"))


def _state(*, failed: bool, overwritten: bool) -> WriteState:
    if arguments.flag(failed, "failed"):
        return FAILED  # a failed write may have changed any of the data
    return OVERWRITTEN if arguments.flag(overwritten, "overwritten") else WRITTEN
