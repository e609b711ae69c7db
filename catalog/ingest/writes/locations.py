"""Locations: the folder of each table, in one form, which says to which tables a path belongs.

    file:///w/shop.db/orders/ds=1/part-0   ──▶   shop.orders, ds=1/
    s3://lake/november/part-0              ──▶   shop.orders, ds=2, which has this location

A table has its own folder, and those of its partitions that lie elsewhere. They are read from the
entries of a transaction before it is committed, and stored with it; none are held in memory.

    a table is written ──its folders──▶ its aliases: at, in or above them ──▶ their data is raised
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, takewhile
from typing import Final

from ....topics.objects.encoding.templates import RAW, Templates
from ....topics.objects.encoding.values import TableValue, decode_block
from ....topics.objects.names import TableId, group_of, table_key, table_of
from ....topics.topic import NAMESPACE, PREFIX, STUB, VALUE, Entry, Topic, value_of
from ...model import decoded
from ...model.folders import (
    Folder,
    FolderChanges,
    FolderRow,
    StoredFolders,
    bases_key,
    common_key,
    group_end,
    own_end,
)
from ...model.tables import FilesWritten, Tables
from ...model.versions import Transaction, VersionLog
from .folder_index import FolderIndex

SAME_STORE: Final = {
    "s3a": "s3",
    "s3n": "s3",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
    "": "file",
}
BLOBS: Final = (".blob.core.", ".dfs.core.")  # one account by wasb, and by abfs
HDFS_PORT: Final = ":8020"
STORE_PARTS: Final = 3  # of a location that is split by slashes: scheme, nothing, host
# Of a table with folders of their own, which are looked at for each write: 2 ms. Of more, see
# ``_merged``.
PARTITIONS_MAX: Final = 4000
# In a folder; a folder with more is a container, such as a warehouse, and no table's data.
TABLES_IN_MAX: Final = 16
FOLDERS_IN_MAX: Final = 2000  # likewise; these are looked at for each write: 2 ms


class Locations:
    """The locations of the tables that are held, and of partitions that lie outside of theirs.

    If more than PARTITIONS_MAX partitions of a table lie elsewhere, a write to any path in the
    folder that they have in common, in each store, counts as one to the table.
    """

    def __init__(self, version_log: VersionLog, stored: StoredFolders) -> None:
        self._version_log = version_log
        self._index = FolderIndex(stored)
        self._seen = 0  # pending transactions that are taken in
        self._checked_at: tuple[int, ...] = ()  # ``_seen`` and the versions, at the last check

    def catch_up(self) -> None:
        """Take in the entries that are written and not committed. Cost: O(changed entries)."""
        pending = self._version_log.pending
        fresh, self._seen = pending[self._seen :], len(pending)
        for topic, groups in _changed(fresh).items():
            for group, keys in groups.items():
                self._take_in(self._version_log.topics[topic], group, keys)

    def take(self) -> FolderChanges | None:
        """Remove and return the changes of folders, to be committed with the entries."""
        self.catch_up()
        self._seen = 0
        return self._index.take()

    def find(self, path: str) -> dict[TableId, tuple[str, ...]]:
        """Return the tables that a write to ``path`` changes.

        The value names partitions, as reports do: a whole name, or the beginning of names with a
        slash at its end. Empty: any part of the table.
        """
        location = normal(path)
        found: dict[TableId, set[str]] = {}
        for row in self._index.below(location):
            found.setdefault(table_of(row.key), set()).add(row.partition)
        for steps, rows in _from_deepest(location.split("/"), _Looked(self._index)):
            for row in rows:
                names = found.setdefault(table_of(row.key), set())
                names.add(row.partition or _partition(steps))
            if not all(row.partition for row in rows):
                break  # the deepest table's folder
        return _named(found)

    def folders(self, table: TableId, names: Collection[str]) -> set[str]:
        """Return the folders of ``table``, or of its partitions ``names``, in the form of ``find``.

        Partitions in the table's own folder are taken to lie where their names say.
        """
        group = table_key(*table)
        rows = self._index.of(group, group_end(group))
        if not names:
            return {row.location for row in rows}
        begins = tuple(name for name in names if name.endswith("/"))
        common = common_key(group)
        found: set[str] = set()
        for key, location, partition in rows:
            if key == common:
                found.add(location)
            elif not partition:
                found.update(f"{location}/{name.rstrip('/')}" for name in names)
            elif partition in names or f"{partition}/".startswith(begins):
                found.add(location)
        return found

    def beside(self, folders: Iterable[str], table: TableId) -> dict[TableId, tuple[str, ...]]:
        """Return the other tables that lie at, in or above ``folders``, which ``table`` has.

        The value names partitions, as in ``find``. A container, such as a warehouse, holds the data
        of no table: the tables in it do not count, only those that lie at it.
        """
        found: dict[TableId, set[str]] = {}
        looked = _Looked(self._index)
        for folder in folders:
            for other, partition in _at_in_or_above(folder, looked):
                found.setdefault(other, set()).add(partition)
        found.pop(table, None)
        return _named(found)

    def check(self) -> None:
        """Assert that the folders of each table are those of its entries.

        Cost: O(entries), whenever something was written or committed since the last check.
        """
        self.catch_up()
        at = self._seen, *(topic.version for topic in self._version_log.topics.values())
        if at == self._checked_at:
            return
        self._checked_at = at
        left = self._index.groups()
        for number, topic in self._version_log.topics.items():
            for group in topic.group_ids() if number != NAMESPACE else ():
                have = topic.get(group)
                left.discard(group)
                if have is not None and have.kind == VALUE:
                    self._check(topic, group, decoded.read_value(value_of(have)))
        assert not left, "tables that are gone have folders"

    def _take_in(self, topic: Topic, group: bytes, keys: dict[bytes, bool]) -> None:
        """Take in the entries ``keys`` of a table as they are now; false: they have ended."""
        have = topic.get(group)
        if have is None:
            self._index.end(group)
            return
        if have.value is None:
            return  # a stub by now: it lies where it was
        value = decoded.read_value(have.value)
        if not keys.get(group, True):
            self._index.end(group)
        location = _location_of(value)
        blocks: Iterable[bytes] = keys
        if group in keys and self._put_own(group, value, location):
            blocks = (entry.key for entry in topic.heads(group) if entry.key != group)
        more = 0  # folders, since they were counted
        for key in blocks:
            if key != group:
                more += self._put_block(group, key, _elsewhere(topic.get(key), value, location))
            if more > PARTITIONS_MAX:
                self._bound(group)
                more = 0
        if more > 0:
            self._bound(group)

    def _put_own(self, group: bytes, value: TableValue, location: str) -> bool:
        """Let a table have its own folder; return whether its blocks lie elsewhere only now."""
        before = self._index.of_key(group)
        own = (Folder(location, ""),) if location else ()
        bases = tuple(_bases_of(value, location))
        if before != own:
            self._index.replace(group, own)
        if self._index.of_key(bases_key(group)) != bases:
            self._index.replace(bases_key(group), bases)
        return bool(before) and before != own

    def _put_block(self, group: bytes, key: bytes, folders: tuple[Folder, ...]) -> int:
        """Replace the folders that the block ``key`` has; return how many more it has then."""
        before = self._index.of_key(key)
        common = self._index.of_key(common_key(group)) if folders else ()
        if common:
            self._index.replace(key, ())
            self._index.replace(common_key(group), _merged(common, folders))
        elif folders != before:
            self._index.replace(key, folders)
        return 0 if common else len(folders) - len(before)

    def _bound(self, group: bytes) -> None:
        """Merge the folders of a table's blocks if they are too many."""
        rows = self._index.of(own_end(group), group_end(group))
        if len(rows) <= PARTITIONS_MAX:
            return
        for key in dict.fromkeys(row.key for row in rows):
            self._index.replace(key, ())
        merged = _merged((), [Folder(row.location, row.partition) for row in rows])
        self._index.replace(common_key(group), merged)

    def _check(self, topic: Topic, group: bytes, value: TableValue) -> None:
        location = _location_of(value)
        own = (Folder(location, ""),) if location else ()
        assert self._index.of_key(group) == own, group
        assert self._index.of_key(bases_key(group)) == tuple(_bases_of(value, location)), group
        common = self._index.of_key(common_key(group))
        for entry in topic.rows(group):
            found = _elsewhere(entry, value, location) if entry.key != group else ()
            if common:
                assert _merged(common, found) == common, entry.key
            elif entry.key != group:
                assert self._index.of_key(entry.key) == found, entry.key


class Aliases:
    """Raises the data version of tables that share a folder with a table that was written.

    The metastore allows two tables in one folder, and a partition in another table's (``ADD
    PARTITION … LOCATION``, a staging table). A write names one of them, and its files are those of
    the others. Invariant: the raised version of an alias raises no other table.
    """

    def __init__(self, tables: Tables, locations: Locations) -> None:
        self._tables = tables
        self._locations = locations

    def step(self) -> None:
        """Raise the tables that share a folder with a table that was written."""
        written = self._tables.take_written()
        for table, one in written.items():  # where it lay before its change is taken in
            one.folders = {normal(folder) for folder in one.folders if folder}
            one.folders |= self._folders(table, one)
        if not written:
            return
        self._locations.catch_up()
        found: dict[TableId, FilesWritten] = {}
        for table, one in written.items():
            folders = one.folders | self._folders(table, one)
            for other, names in self._locations.beside(folders, table).items():
                new = FilesWritten(one.source, set(names), anywhere=not names)
                found.setdefault(other, new).merge(new)
        for other, one in found.items():
            known = written.get(other)
            if known is None or not known.raised or known.source != one.source:
                self._raise(other, one)

    def _folders(self, table: TableId, one: FilesWritten) -> set[str]:
        return self._locations.folders(table, () if one.anywhere else one.names)

    def _raise(self, table: TableId, one: FilesWritten) -> None:
        names = () if one.anywhere else tuple(sorted(one.names))
        self._tables.raise_data_of_alias(table, partitions=names, source=one.source)


class _Looked:
    """The rows at folders and in them; each folder is looked up once, as partitions share some.

    It is valid until something is written.
    """

    def __init__(self, index: FolderIndex) -> None:
        self._index = index
        self._at: dict[str, list[FolderRow]] = {}  # by each location that was looked up
        self._inside: dict[str, list[FolderRow] | None] = {}  # likewise

    def at(self, locations: Sequence[str]) -> list[list[FolderRow]]:
        """Return the rows at each of ``locations``."""
        new = [one for one in locations if one not in self._at]
        self._at.update((one, []) for one in new)
        for row in self._index.at(new) if new else ():
            self._at[row.location].append(row)
        return [self._at[one] for one in locations]

    def inside(self, folder: str) -> list[FolderRow] | None:
        """Return the rows below ``folder``; None: it is a container."""
        if folder not in self._inside:
            self._inside[folder] = self._look_inside(folder)
        return self._inside[folder]

    def _look_inside(self, folder: str) -> list[FolderRow] | None:
        found: list[FolderRow] = []
        tables: set[bytes] = set()
        for row in self._index.below(folder):
            found.append(row)
            tables.add(group_of(row.key))
            if len(tables) > TABLES_IN_MAX or len(found) > FOLDERS_IN_MAX:
                return None
        return found


def _at_in_or_above(folder: str, looked: _Looked) -> Iterator[tuple[TableId, str]]:
    """Yield the tables that lie at, in or above ``folder``, with partitions as in ``find``."""
    steps = folder.split("/")
    for row in looked.inside(folder) or ():
        yield table_of(row.key), row.partition
    for below, rows in _from_deepest(steps, looked):
        if below and looked.inside("/".join(steps[: -len(below)])) is None:
            continue  # a container
        for row in rows:
            yield table_of(row.key), row.partition or _partition(below)


def _from_deepest(steps: list[str], looked: _Looked) -> Iterator[tuple[list[str], list[FolderRow]]]:
    """Yield the rows at the folder of ``steps`` and at each folder above it, the deepest first.

    With the rows come the steps that lead from their folder to that of ``steps``.
    """
    ends = range(len(steps), STORE_PARTS - 1, -1)
    at = looked.at(["/".join(steps[:end]) for end in ends])
    for end, rows in zip(ends, at, strict=True):
        if rows:
            yield steps[end:], rows


def _changed(transactions: Iterable[Transaction]) -> dict[int, dict[bytes, dict[bytes, bool]]]:
    """Return the keys that ``transactions`` write, by topic and table.

    The value of a table's own key is false if the transaction ended all entries of the table, and
    left no stub.
    """
    found: dict[int, dict[bytes, dict[bytes, bool]]] = {}
    for one in transactions:
        groups = found.setdefault(one.topic, {}) if one.topic != NAMESPACE else {}
        stubs = {entry.key for entry in one.entries if entry.kind == STUB}
        for entry in one.entries:
            keys = groups.setdefault(group_of(entry.key), {})
            if entry.kind == PREFIX:
                keys[entry.key] = entry.key in stubs and keys.get(entry.key, True)
            else:
                keys.setdefault(entry.key, True)
    return found


def _named(found: dict[TableId, set[str]]) -> dict[TableId, tuple[str, ...]]:
    return {table: () if "" in names else tuple(sorted(names)) for table, names in found.items()}


def _location_of(value: TableValue) -> str:
    location = decoded.data_location(value.thrift)
    return normal(location) if location else ""


def normal(uri: str) -> str:
    """Return ``uri`` in the one form that is used here, without a slash at its end.

    All schemes of a store become one; the host of a file, HDFS's default port and doubled slashes
    are removed.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or "/" in scheme:
        scheme, rest = "", uri
    scheme = SAME_STORE.get(scheme.lower(), scheme.lower())
    host, path = "", rest
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
    if scheme == "file":
        host = ""
    if scheme == "hdfs":
        host = host.lower().removesuffix(HDFS_PORT)
    if scheme == "abfs":
        host = host.replace(*BLOBS)
    steps = [step for step in path.split("/") if step and step != "."]
    return "/".join([f"{scheme}://{host}", *steps])


def _bases_of(value: TableValue, location: str) -> Iterator[Folder]:
    """Yield the folders outside of ``location`` below which names of partitions lead, sorted.

    A folder may have no partition left, because templates are kept.
    """
    bases = Templates(value.templates, "").bases() if value.templates else ()
    for base in sorted({normal(one) for one in bases if one}):
        if not _is_in(base, location):
            yield Folder(base, "")


def _elsewhere(block: Entry | None, table: TableValue, location: str) -> tuple[Folder, ...]:
    """Return each partition of ``block`` that lies outside the folder of its table.

    They are sorted.
    """
    if block is None or block.value is None:
        return ()
    held, templates = decode_block(block.value, block.version), Templates(table.templates, "")
    saying = {n for n in held.templates if n == RAW or templates.template(n).base is None}
    found: list[Folder] = []
    for name, _, number, slots in held.records() if saying else ():
        if number in saying:
            said = decoded.location(templates, number, slots, name=name)
            where = normal(said) if said else ""  # no folder, no files: as in a view
            if where and not _is_in(where, location):
                found.append(Folder(where, name))
    return tuple(sorted(found))


def _is_in(location: str, folder: str) -> bool:
    return bool(folder) and (location + "/").startswith(folder + "/")


def _merged(common: Iterable[Folder], folders: Iterable[Folder]) -> tuple[Folder, ...]:
    """Return the deepest folder of each store above ``folders`` and ``common``, sorted."""
    by_store: dict[str, str] = {}
    for location, _ in chain(common, folders):
        store = "/".join(location.split("/")[:STORE_PARTS])
        by_store[store] = _common(by_store.get(store, location), location)
    return tuple(Folder(location, "") for location in sorted(by_store.values()))


def _common(one: str, other: str) -> str:
    """Return the deepest folder that two locations of one store have in common."""
    pairs = zip(one.split("/"), other.split("/"), strict=False)
    return "/".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _partition(steps: list[str]) -> str:
    """Return the beginning, with a slash, of the names of the partitions below ``steps``."""
    named = list(takewhile(lambda step: "=" in step.strip("="), steps))
    return "/".join(named) + "/" if named else ""
