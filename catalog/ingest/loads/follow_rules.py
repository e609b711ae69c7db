"""FollowRules: which tables catalogd does not follow, and what an event of such a table means.

The first of these that is set decides whether events of a table are off:

    impala.disableHmsSync of the table, else of its database, else --disable_hms_sync_by_default

    off before and after ──▶ SKIP        off before, on after ──▶ RELOAD        else ──▶ APPLY

An event that has the table's object is judged by the parameters in that object, any other event by
those of the held object. catalogd always follows databases, and changes of the parameter itself. A
table that is off keeps the content of its last read: neither events nor comparisons change it, but
an operator's refresh does.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final

from ....topics.errors import WireError
from ....topics.newest import Newest
from ....topics.objects.names import TableId
from ....topics.objects.tables import read_database
from ...metastore.port import Dirty, DirtyDatabase, RawEvent
from ...model.decoded import read_struct
from ...model.namespace import Namespace
from ...model.tables import Tables
from ..events.actions import JSON_FORMATS, decode

PARAMETER: Final = "impala.disableHmsSync"
BY_DEFAULT: Final = "--disable_hms_sync_by_default"
ABSENT_MAX: Final = 10_000  # tables that the metastore has, and that are not held: 2 MB
_PARAMETERS: Final = "9"  # their field in the Thrift struct of a table, as JSON
_BEFORE, _AFTER, _ONE = "tableObjBeforeJson", "tableObjAfterJson", "tableObjJson"


class Follow(Enum):
    """Whether catalogd follows an event."""

    APPLY = "apply"
    SKIP = "skip"
    RELOAD = "reload"  # its table is followed again, so it is read whole


class FollowRules:
    """The rules, applied to held tables and databases."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        pending: Callable[[TableId], bool],
        off_by_default: bool,
    ) -> None:
        """``pending``: whether a table is being read; for events without the table's object."""
        self._pending = pending
        self._namespace = namespace
        self._tables = tables
        self._off_by_default = off_by_default
        self._absent = Newest[TableId, None](ABSENT_MAX)
        """Tables that were created or renamed while they were off; empty after a restart."""
        self._on_again: list[str] = []  # databases followed again since ``take_on_again``

    def is_off(self, table: TableId) -> bool:
        """Return whether ``table`` is not followed, by the held objects and earlier events."""
        if table in self._absent and self._namespace.find(table) is None:
            return True
        return self._off_with(self._own(table), table[0])

    def database_is_off(self, db: str) -> bool:
        """Return whether tables of ``db`` without a parameter of their own are not followed."""
        return self._off_with(None, db)

    def judge(self, event: RawEvent, dirty: Sequence[Dirty]) -> tuple[Follow, tuple[Dirty, ...]]:
        """Return whether catalogd follows ``event``, and for which objects of ``dirty``."""
        told = _told(event)
        if told is None:
            kept = tuple(one for one in dirty if not self._is_skipped(one))
            return (Follow.APPLY if kept or not dirty else Follow.SKIP), kept
        follow = self._judge(told, dirty)
        return follow, () if follow is Follow.SKIP else tuple(dirty)

    def _is_skipped(self, one: Dirty) -> bool:
        """Return whether an event without the table's object leaves ``one`` as it is."""
        if isinstance(one, DirtyDatabase):
            return False
        table = one.db, one.table
        return self.is_off(table) and not self._pending(table)

    def _judge(self, told: tuple[str | None, str | None], dirty: Sequence[Dirty]) -> Follow:
        found = [(one.db, one.table) for one in dirty if not isinstance(one, DirtyDatabase)]
        if not found:
            return Follow.APPLY
        old, new = found[0], found[-1]
        was_off = self._off_with(told[0], old[0])
        same = told[0] == told[1] and old[0] == new[0]
        is_off = was_off if same else self._off_with(told[1], new[0])
        if is_off and was_off:
            if self._namespace.find(new) is None:
                self._absent.put(new, None)
            return Follow.SKIP
        if not is_off and (was_off or self.is_off(old)):
            self._absent.pop(old, None)
            self._absent.pop(new, None)
            return Follow.RELOAD
        return Follow.APPLY

    def ignores(self, table: TableId, thrift: bytes | None) -> bool:
        """Return whether a read of ``table`` that no event has caused is ignored, as it is off.

        ``thrift``: the struct that was read; None: the table is gone.
        """
        held = self._namespace.find(table) is not None
        if held and not self.is_off(table):
            return False
        if thrift is None:
            return held
        off = self._off_with(_of_table(thrift), table[0])
        if off and not held:
            self._absent.put(table, None)
        return off

    def is_left(self, table: TableId) -> bool:
        """Return whether ``table``, which only one side has, is no difference: it is off."""
        if self._namespace.find(table) is None:
            return table in self._absent
        return self.is_off(table)

    def stays_off(self, table: TableId, thrift: bytes | None) -> bool:
        """Return whether ``table`` is off by the held struct, and by ``thrift`` if it was read."""
        if not self.is_off(table):
            return False
        return thrift is None or self._off_with(_of_table(thrift), table[0])

    def off_among(self, databases: Iterable[str]) -> tuple[str, ...]:
        """Return the ``databases`` that are off; for ``note_written``, before they are written.

        New databases are included: catalogd may have left out their tables before.
        """
        return tuple(db for db in databases if self.database_is_off(db))

    def note_written(self, off_before: Iterable[str]) -> None:
        """Note which databases of ``off_before`` are followed again after they were written."""
        held = (db for db in off_before if self._namespace.has_database(db))
        self._on_again += [db for db in held if not self.database_is_off(db)]

    def take_on_again(self) -> tuple[str, ...]:
        """Remove and return the databases that are followed again since the last call."""
        found, self._on_again = tuple(self._on_again), []
        for db in found:
            for table in [one for one in self._absent if one[0] == db]:
                self._absent.pop(table, None)
        return found

    def _own(self, table: TableId) -> str | None:
        value = self._tables.value(table)
        return None if value is None else _of_table(value.thrift)

    def _off_with(self, own: str | None, db: str) -> bool:
        """Return whether a table of ``db`` is off whose own parameter is ``own``."""
        if own is None:
            struct = self._namespace.database(db)
            own = None if struct is None else _of_database(struct)
        return self._off_by_default if own is None else own.strip().lower() == "true"


def _of_table(thrift: bytes) -> str | None:
    """Return the parameter of a table; None: it has none, or cannot be read.

    Nearly all tables lack the parameter, and are not decoded.
    """
    if PARAMETER.encode() not in thrift:
        return None
    try:
        return read_struct(thrift).parameters.get(PARAMETER)
    except WireError:
        return None


@lru_cache(maxsize=1024)
def _of_database(struct: bytes) -> str | None:
    """Return the parameter of a database; None: it has none, or is not decodable."""
    try:
        return read_database(struct, 0).parameters.get(PARAMETER)
    except WireError:
        return None


def _told(event: RawEvent) -> tuple[str | None, str | None] | None:
    """Return the parameter before and after ``event``; None: it lacks the table's object."""
    if event.message_format in JSON_FORMATS and PARAMETER not in event.message:
        held = any(f'"{name}"' in event.message for name in (_ONE, _AFTER))
        return (None, None) if held else None
    try:
        body = decode(event).body
    except WireError:
        return None
    before, after = body.get(_BEFORE, body.get(_ONE)), body.get(_AFTER, body.get(_ONE))
    if not (isinstance(before, str) and isinstance(after, str)):
        return None
    return _parameter(before), _parameter(after)


def _parameter(text: str) -> str | None:
    """Return the parameter of a table as JSON has it; None: it has none, or is not decodable."""
    if PARAMETER not in text:
        return None
    try:
        *_, held = json.loads(text)[_PARAMETERS]["map"]
        return str(held[PARAMETER])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
