"""Names: the sorting keys of entries, and Hive's names of tables and partitions.

    table topics      db NUL table NUL                  the table
                      db NUL table NUL 0x01 lower       a block of its partitions
    namespace topic   "d" NUL db NUL                    the database
                      "n" NUL db NUL lower              a block of its tables' names
                      "c" NUL of NUL                    a fact for all: rules, problem, pause

``lower`` is the lower bound of a block: every name in the block is at or above it, and below the
bound of the next block. The first block's is empty, any other need not be a whole name. Text sorts
as its UTF-8 does, so bounds may be compared as either. A name that no key can hold is a UsageError.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from ..errors import UsageError, WireError

TableId = tuple[str, str]
"""(database, table); the table is "" where the database itself is meant."""

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""In a partition's name, a value that is NULL or empty."""

KEY_BYTES_MAX: Final = 1024  # HMS names end at 128 + 256 and partition names at 767 characters

_BLOCK: Final = b"\x01"
_DATABASE: Final = b"d"
_NAMES: Final = b"n"
_FACTS: Final = b"c"
_DRIVERS: Final = "drivers"
_METASTORE: Final = "metastore"
_EVENTS: Final = "events"

# Hive 2.3, FileUtils.charToEscape; "}" is not in it.
_ESCAPED: Final = str.maketrans(
    {c: f"%{c:02X}" for c in (*range(0x20), *(ord(c) for c in "\"#%'*/:=?\\{[]^"), 0x7F)}
)
_IS_ESCAPED: Final = re.compile(f"[{re.escape(''.join(map(chr, _ESCAPED)))}]")
_ESCAPE: Final = re.compile("%([0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class TableKey:
    """The key of a table."""

    db: str
    table: str


@dataclass(frozen=True, slots=True)
class BlockKey:
    """The key of a block of one table's partitions."""

    db: str
    table: str
    lower: str


@dataclass(frozen=True, slots=True)
class DatabaseKey:
    """The key of a database."""

    db: str


@dataclass(frozen=True, slots=True)
class NamesKey:
    """The key of a block of one database's table names."""

    db: str
    lower: str


@dataclass(frozen=True, slots=True)
class SharedFactKey:
    """The key of a fact for all: rules for ``drivers``, the metastore's problem, or a pause."""

    of: str


def table_key(db: str, table: str) -> bytes:
    """Return the key of a table, which is also the group of its blocks."""
    return _bounded(_part(db) + b"\0" + _part(table) + b"\0")


def block_key(db: str, table: str, lower: str) -> bytes:
    """Return the key of the block of partitions whose names begin at ``lower``."""
    return _bounded(table_key(db, table) + _BLOCK + _part(lower))


def block_lead(group: bytes) -> bytes:
    """Return what the keys of all blocks of the table with key ``group`` begin with."""
    return group + _BLOCK


def database_key(db: str) -> bytes:
    """Return the key of a database in the namespace topic."""
    return _bounded(_DATABASE + b"\0" + _part(db) + b"\0")


def is_database(key: bytes) -> bool:
    """Return whether ``key``, of the namespace topic, is that of a database."""
    return key.startswith(_DATABASE)


def name_of_database(key: bytes) -> str:
    """Return the database that has ``key``."""
    return _text(key[len(_DATABASE) + 1 : -1])


def names_key(db: str, lower: str) -> bytes:
    """Return the key of the block of table names that begins at ``lower``."""
    return _bounded(names_group(db) + _part(lower))


def names_group(db: str) -> bytes:
    """Return the group of a database's blocks of table names."""
    return _bounded(_NAMES + b"\0" + _part(db) + b"\0")


def shared_fact_key(of: str) -> bytes:
    """Return the key of a fact for all, which is a group of its own in the namespace topic."""
    return _bounded(_FACTS + b"\0" + _part(of) + b"\0")


@cache
def rules_key() -> bytes:
    """Return the key of the rules for drivers."""
    return shared_fact_key(_DRIVERS)


@cache
def problem_key() -> bytes:
    """Return the key of the reason why changes of the metastore do not arrive."""
    return shared_fact_key(_METASTORE)


@cache
def pause_key() -> bytes:
    """Return the key of who has paused the metastore's events."""
    return shared_fact_key(_EVENTS)


def group_of(key: bytes) -> bytes:
    """Return the group of ``key``: everything up to and including its second NUL.

    Raises:
        ValueError: ``key`` has fewer than two NULs.
    """
    return key[: key.index(b"\0", key.index(b"\0") + 1) + 1]


def key_before(key: bytes) -> bytes:
    """Return bytes that sort before ``key``, a group's or its beginning, and behind lower keys.

    The last byte of the last name is lowered, and 0xff follows, which no name holds.
    """
    name = key.rstrip(b"\0")
    return name[:-1] + bytes([name[-1] - 1]) + b"\xff\0\0"


def split(key: bytes) -> tuple[bytes, bytes, bytes]:
    """Return ``key`` up to its first NUL, up to its second, and the rest.

    Raises:
        WireError: ``key`` has fewer than two NULs.
    """
    parts = key.split(b"\0", 2)
    if len(parts) != 3:
        raise WireError(f"key {key[:64]!r} has no group")
    return parts[0], parts[1], parts[2]


def parse_table_key(key: bytes) -> TableKey | BlockKey:
    """Read a key of a table topic.

    Raises:
        WireError: no table topic has such a key.
    """
    db, table, rest = split(key)
    if not rest:
        return TableKey(_text(db), _text(table))
    if rest[:1] != _BLOCK:
        raise WireError(f"key {key[:64]!r} is of no known kind")
    return BlockKey(_text(db), _text(table), _text(rest[1:]))


def table_of(key: bytes) -> TableId:
    """Return the table whose entry or block has ``key``, which this process has built."""
    db, table, _ = group_of(key).split(b"\0")
    return db.decode(), table.decode()


def name_of(group: bytes) -> str:
    """Return the name of the table whose key is ``group``.

    Raises:
        WireError: it is not UTF-8.
    """
    return _text(group[:-1].replace(b"\0", b"."))


def parse_namespace_key(key: bytes) -> DatabaseKey | NamesKey | SharedFactKey:
    """Read a key of the namespace topic.

    Raises:
        WireError: the namespace topic has no such key.
    """
    kind, db, rest = split(key)
    if kind == _NAMES:
        return NamesKey(_text(db), _text(rest))
    if kind not in (_DATABASE, _FACTS) or rest:
        raise WireError(f"key {key[:64]!r} is of no known kind")
    return DatabaseKey(_text(db)) if kind == _DATABASE else SharedFactKey(_text(db))


def table_name(db: str, table: str) -> str:
    """Return the name under which people know a table: ``db.table``."""
    return f"{db}.{table}"


def parse_table_name(name: str) -> TableId:
    """Return what a user wrote as ``db.table``, in lower case, as HMS keeps names.

    Raises:
        UsageError: it is not two names with one dot between.
    """
    db, _, table = name.lower().partition(".")
    if not db or not table or "." in table or "\0" in name:
        raise UsageError(f"{name!r} is not a table's name: write it as db.table")
    return db, table


class Scope(NamedTuple):
    """A table; a database with its tables, if ``table`` is empty; everything, if both are."""

    db: str = ""
    table: str = ""

    def includes(self, name: TableId) -> bool:
        """Return whether a change of ``name`` may be seen here; a database has an empty table."""
        return (not self.db or name[0] == self.db) and (
            not self.table or name[1] in ("", self.table)
        )

    def __str__(self) -> str:
        return ".".join(filter(None, self))


EVERYTHING: Final = Scope()


def parse_scope(text: str) -> Scope:
    """Read ``db``, ``db.table``, or nothing, which is everything.

    Raises:
        UsageError: it is something else.
    """
    db, dot, _ = text.partition(".")
    if dot:
        return Scope(*parse_table_name(text))
    if "\0" in db:
        raise UsageError(f"{text!r} is no scope: write db, or db.table")
    return Scope(db.lower())


def table_pattern(text: str) -> str:
    """Return the pattern of full names, in lower case: a database alone means all its tables.

    Raises:
        UsageError: it is empty, and matches nothing.
    """
    if not text:
        raise UsageError("'' is no pattern: write a database, or one such as sales.*")
    return (text if "." in text or text == "*" else f"{text}.*").lower()


def partition_name(keys: Sequence[str], values: Sequence[str]) -> str:
    """Return the name that HMS gives the partition with ``values``, as ``ds=2026-11-01/hour=3``.

    Source: Hive 2.3, Warehouse.makePartName and FileUtils.escapePathName.

    Raises:
        UsageError: there is not one value for each key.
    """
    if len(keys) != len(values) or not keys:
        raise UsageError(f"{len(values)} values given for the partition keys {', '.join(keys)}")
    return "/".join(
        [
            f"{_escaped(key.lower())}={_escaped(value) or NULL_PARTITION}"
            for key, value in zip(keys, values, strict=True)
        ]
    )


def _escaped(text: str) -> str:
    """Return ``text`` as it stands in a name; hardly any has a character to be escaped."""
    return text.translate(_ESCAPED) if _IS_ESCAPED.search(text) else text


def partition_values(name: str) -> tuple[str, ...]:
    """Return the values in a partition's ``name``; NULL and empty both come as NULL_PARTITION.

    Raises:
        UsageError: ``name`` has a part without ``=``.
    """
    values = [part.rpartition("=") for part in name.split("/")]
    for key, equals, _ in values:
        if not equals or not key:
            raise UsageError(f"{name!r} is not a partition's name: write it as key=value/key=value")
    if "%" not in name:
        return tuple([value for _, _, value in values])
    return tuple([_ESCAPE.sub(_unescaped, value) for _, _, value in values])


def check_partition_name(name: str) -> None:
    """Raise UsageError unless ``name`` is a partition's."""
    partition_values(name)
    _part(name)


def partition_keys(name: str) -> tuple[str, ...]:
    """Return the keys in a partition's ``name``, in order."""
    return tuple([_ESCAPE.sub(_unescaped, part.rpartition("=")[0]) for part in name.split("/")])


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def _bounded(key: bytes) -> bytes:
    if len(key) > KEY_BYTES_MAX:
        raise UsageError(f"a key of {len(key)} bytes, {KEY_BYTES_MAX} allowed: {key[:64]!r}…")
    return key


def _part(name: str) -> bytes:
    if "\0" in name:
        raise UsageError(f"{name!r} holds a NUL, which no name may")
    try:
        return name.encode()
    except UnicodeEncodeError as exc:
        raise UsageError(f"{name!r} is not valid Unicode") from exc


def _text(part: bytes) -> str:
    try:
        text = part.decode()
    except UnicodeDecodeError as exc:
        raise WireError(f"key part {part[:64]!r} is not UTF-8") from exc
    if "\0" in text:
        raise WireError(f"key part {part[:64]!r} holds a NUL")
    return text
