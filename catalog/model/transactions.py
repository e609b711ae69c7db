"""Transaction: what catalogd commits to its store, then publishes, as one step of one topic."""

from dataclasses import dataclass
from typing import Final

from ...topics.entries import Entry

CREATED: Final = "created"  # kinds of a change, the words of Subscriber.watch
SCHEMA: Final = "schema"
DATA: Final = "data"
DROPPED: Final = "dropped"
LOADED: Final = "loaded"  # read for the first time, or anew: nothing changed at the metastore
UNLOADED: Final = "unloaded"  # catalogd holds it no longer: its entries became stubs


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """One line of history: what became of one object.

    ``object`` is ``db``, ``db.table`` or ``db.table/partition name``; ``before`` the version it
    had, 0 if there was none. Who, when, the version after and the event ids are added by the
    store from the transaction and its commit.
    """

    object: str
    kind: str
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """One line of history: who ordered what. ``object``: of what, or the new mode."""

    who: str
    order: str
    object: str
    at_us: int


WriteId = tuple[bytes, int]  # driver and number


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRow:
    """A write that a driver reported: an intent while ``open``, else done as of ``version``.

    ``driver`` and ``number`` tell it from every other. ``object``: a table or a path.
    """

    driver: bytes
    number: int
    object: str
    partitions: tuple[str, ...]
    open: bool
    at_us: int
    topic: int = 0
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The changes of one topic in ``(from_version, to_version]``, all or none of them.

    All ``entries`` carry ``to_version``; a PREFIX deletes what was there before, and nothing of
    its own transaction. ``source``: SOURCE_* of topics/wire/messages.
    """

    topic: int
    from_version: int
    to_version: int
    entries: tuple[Entry, ...]
    source: int
    at_us: int
    changes: tuple[ChangeRow, ...] = ()


def check(transaction: Transaction) -> None:
    """Assert that the versions of ``transaction`` and of its entries agree."""
    assert 0 <= transaction.from_version < transaction.to_version
    for entry in transaction.entries:
        assert entry.version == transaction.to_version, entry.key
        assert max(entry.schema_version, entry.data_version) <= entry.version, entry.key
