"""Entries: compares a hub's entries of a database or table with those of catalogd's store. Pure.

    entries of a hub ──▶ a mark for each key ──compared with the store──▶ groups that differ
    entries of a differing group, of hub and store ──▶ the properties that differ

All entries are those of one topic at one version, so a difference is an error, not a delay.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from ...topics.comparison import DATABASE, PARTITION, TABLE
from ...topics.errors import WireError
from ...topics.objects.encoding.values import (
    TableValue,
    decode_block,
    decode_database_value,
    decode_names,
    decode_table_value,
)
from ...topics.objects.names import (
    DatabaseKey,
    NamesKey,
    TableId,
    group_of,
    is_database,
    parse_namespace_key,
    table_of,
)
from ...topics.objects.tables import PartitionReader
from ...topics.topic import NAMESPACE, STUB, Entry, value_of
from .verdict import TableVerdict

DIGEST_BYTES: Final = 16
PARTITIONS_MAX: Final = 1000  # that are read from a side at once
T = TypeVar("T")
ByKey = Mapping[bytes, Entry]


class Mark(NamedTuple):
    """Distinguishes entries of one key; takes as many bytes whatever the size of the value."""

    versions: tuple[int, int, int]  # of the entry, its schema and its data
    size: int
    digest: bytes | None  # of the value; None: the entry is a stub


def mark_of(entry: Entry) -> Mark:
    """Return the mark of ``entry``, a value or stub."""
    digest = None
    if entry.kind != STUB:
        digest = blake2b(value_of(entry), digest_size=DIGEST_BYTES).digest()
    return Mark(_versions(entry), entry.size, digest)


def differing_groups(held: Mapping[bytes, Mark], stored: Iterable[Entry]) -> set[bytes]:
    """Return the groups with an entry that is not the same on both sides.

    If the hub holds a stub, only versions and size are compared. Cost: memory for the keys of
    ``held``.
    """
    only_held = set(held)
    found = set()
    for entry in stored:
        only_held.discard(entry.key)
        mark, there = mark_of(entry), held.get(entry.key)
        if there is not None and there.digest is None:
            mark = mark._replace(digest=None)
        if mark != there:
            found.add(group_of(entry.key))
    return found | {group_of(key) for key in only_held}


def table_or_database(topic: int, group: bytes) -> TableId | None:
    """Return the table of ``group``, or a database with an empty table; None: it is neither."""
    try:
        if topic != NAMESPACE:
            return table_of(group)
        key = parse_namespace_key(group)
    except (UnicodeDecodeError, WireError):
        return group[: group.index(b"\0")].decode(errors="backslashreplace"), repr(group)
    return (key.db, "") if isinstance(key, DatabaseKey | NamesKey) else None


def compare_group(
    verdict: TableVerdict, topic: int, *, held: Iterable[Entry], stored: Iterable[Entry]
) -> None:
    """Note in ``verdict`` how a group differs between a hub, ``held``, and catalogd's store."""
    there, ours = _by_key(held), _by_key(stored)
    before = verdict.digest
    if topic != NAMESPACE:
        _compare_table(verdict, there, ours)
    else:
        for key in sorted(there.keys() | ours.keys()):
            _compare_in_namespace(verdict, there.get(key), ours.get(key))
    if verdict.digest == before:
        _compare_marks(verdict, there, ours)


def _compare_table(verdict: TableVerdict, there: ByKey, ours: ByKey) -> None:
    group = next(group_of(key) for key in (*there, *ours))
    own, kept = there.get(group), ours.get(group)
    if own is None or kept is None:
        if own is not kept:
            verdict.note_existence(verdict.name, there=own is not None)
        return
    stored = _decoded(verdict, "value", kept, by=decode_table_value, is_stored=True)
    found = stored
    if own.value is not None:
        found = _decoded(verdict, "value", own, by=decode_table_value)
    if found is None or stored is None:
        return
    verdict.compare(verdict.name, found.thrift, stored.thrift, shape=TABLE)
    verdict.compare_values(verdict.name, _state(found), _state(stored))
    blocks = [key for key in sorted(there.keys() | ours.keys()) if key != group]
    some: dict[str, bytes] = {}
    others: dict[str, bytes] = {}
    for block, same in ((there.get(key), ours.get(key)) for key in blocks):
        if _needs_no_look(block, same):
            continue
        one = _partitions(verdict, block, found)
        other = _partitions(verdict, same, stored, is_stored=True)
        if one is not None and other is not None:
            some |= one
            others |= other
    _compare_structs(verdict, some, others)


def _needs_no_look(block: Entry | None, same: Entry | None) -> bool:
    """Return whether there is nothing to compare: both are equal, or the hub has no value."""
    if block is None or same is None:
        return False
    return block.value is None or _is_same(block, same)


def compare_partitions(
    verdict: TableVerdict,
    own: TableValue,
    blocks: Iterable[Entry],
    *,
    names: Iterable[str],
    read: Callable[[list[str]], Mapping[str, bytes]],
) -> None:
    """Compare the partitions in catalogd's ``blocks`` of the table ``own`` with the other side's.

    ``names``: the partitions of the other side; ``read`` returns the Thrift structs of some.
    """
    reader, left = PartitionReader(own.templates), set(names)
    stored = (
        (record.name, reader.thrift(record))
        for block in blocks
        for record in decode_block(value_of(block), block.version).records()
    )
    while some := dict(islice(stored, PARTITIONS_MAX)):
        verdict.partitions += len(some)
        wanted = [name for name in some if name in left]
        there = read(wanted) if wanted else {}
        left.difference_update(wanted)
        for name, thrift in some.items():
            full = f"{verdict.name}/{name}"
            if name in there:
                verdict.compare(full, there[name], thrift, shape=PARTITION)
            else:
                verdict.note_existence(full, there=False)
    for name in sorted(left):
        verdict.note_existence(f"{verdict.name}/{name}", there=True)


def _compare_structs(
    verdict: TableVerdict, there: Mapping[str, bytes], stored: Mapping[str, bytes]
) -> None:
    for name in sorted(there.keys() | stored.keys()):
        full, thrift, kept = f"{verdict.name}/{name}", there.get(name), stored.get(name)
        if thrift is None or kept is None:
            verdict.note_existence(full, there=kept is None)
        else:
            verdict.compare(full, thrift, kept, shape=PARTITION)


def _decoded(
    verdict: TableVerdict,
    of: str,
    entry: Entry,
    *,
    by: Callable[[bytes], T],
    is_stored: bool = False,
) -> T | None:
    """Return the content of ``entry``; if it is damaged, note that as a property ``of``.

    None: it is damaged.
    """
    try:
        return by(value_of(entry))
    except WireError as error:
        damaged, readable = f"unreadable: {error}", "readable"
        there, stored = (readable, damaged) if is_stored else (damaged, readable)
        verdict.note(verdict.name, of, there=there, stored=stored)
        return None


def _state(value: TableValue) -> dict[str, str]:
    return {"incarnation": str(value.incarnation), "partitions": str(value.partitions)}


def _partitions(
    verdict: TableVerdict, block: Entry | None, own: TableValue, *, is_stored: bool = False
) -> dict[str, bytes] | None:
    """Return the Thrift structs of a block's partitions by name; None: the block is damaged."""
    if block is None:
        return {}
    version, reader = block.version, PartitionReader(own.templates)

    def structs(value: bytes) -> dict[str, bytes]:
        records = decode_block(value, version).records()
        return {record.name: reader.thrift(record) for record in records}

    lower = block.key[len(group_of(block.key)) + 1 :].decode(errors="backslashreplace")
    of = f"block of partitions from {lower!r}" if lower else "first block of partitions"
    return _decoded(verdict, of, block, by=structs, is_stored=is_stored)


def _compare_in_namespace(verdict: TableVerdict, entry: Entry | None, kept: Entry | None) -> None:
    one = entry or kept
    if one is None or (entry is not None and kept is not None and _is_same(entry, kept)):
        return
    if not is_database(one.key):
        there, ours = _names(verdict, entry), _names(verdict, kept, is_stored=True)
        for name in sorted(there.keys() | ours.keys()):
            table = f"{verdict.name}.{name}"
            verdict.compare_values(table, there.get(name, {}), ours.get(name, {}))
    elif entry is None or kept is None:
        verdict.note_existence(verdict.name, there=entry is not None)
    else:
        found = _decoded(verdict, "value", entry, by=decode_database_value)
        stored = _decoded(verdict, "value", kept, by=decode_database_value, is_stored=True)
        if found is not None and stored is not None:
            verdict.compare(verdict.name, found, stored, shape=DATABASE)


def _names(
    verdict: TableVerdict, entry: Entry | None, *, is_stored: bool = False
) -> dict[str, dict[str, str]]:
    """Return the properties that a block of names has of each table; none if it is damaged."""
    if entry is None:
        return {}
    records = _decoded(verdict, "names of tables", entry, by=decode_names, is_stored=is_stored)
    return {
        one.name: {"listed as": one.type, "listed incarnation": str(one.incarnation)}
        for one in records or ()
    }


def _compare_marks(verdict: TableVerdict, there: ByKey, ours: ByKey) -> None:
    """Note entries that differ, although no property of an object in them does."""
    for key in sorted(there.keys() | ours.keys()):
        entry, kept = there.get(key), ours.get(key)
        if entry is None or kept is None:
            verdict.note(verdict.name, "entry", there=_short(entry), stored=_short(kept))
        elif not _is_same(entry, kept):
            same = _versions(entry) == _versions(kept)
            of, read = ("bytes", _short) if same else ("versions", _versions_text)
            verdict.note(verdict.name, of, there=read(entry), stored=read(kept))


def _is_same(entry: Entry, kept: Entry) -> bool:
    if _versions(entry) != _versions(kept) or entry.size != kept.size:
        return False
    return entry.kind == STUB or entry.value == kept.value


def _versions(entry: Entry) -> tuple[int, int, int]:
    return entry.version, entry.schema_version, entry.data_version


def _versions_text(entry: Entry) -> str:
    return "{}, of the schema {}, of the data {}".format(*_versions(entry))


def _short(entry: Entry | None) -> str | None:
    return (
        None if entry is None else f"{entry.key!r}, {entry.size} bytes: {mark_of(entry).digest!r}"
    )


def _by_key(entries: Iterable[Entry]) -> dict[bytes, Entry]:
    return {entry.key: entry for entry in entries}
