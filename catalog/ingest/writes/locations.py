"""Locations: the folder of each table, its scheme made general: which tables a path belongs to.

    file:///w/shop.db/orders/ds=1/part-0   ──▶   shop.orders, ds=1/
    s3://lake/november/part-0              ──▶   shop.orders, ds=2, which has this location

A table has its own folder, and those of its partitions that lie elsewhere. They are read from the
entries that changed since the last call, topic by topic.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, takewhile
from sys import intern
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sortedcontainers import SortedDict

from ....topics.objects.encoding.templates import RAW, Templates
from ....topics.objects.encoding.values import TableValue, decode_block, decode_table_value
from ....topics.objects.names import TableId, group_of, table_of
from ....topics.objects.tables import read_data_location
from ....topics.topic import NAMESPACE, PREFIX, VALUE, Entry, Topic, table_topic, value_of

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
ENTRIES_MAX: Final = 6  # looked at in one call: 1 ms, of a turn's 2, be they tables or blocks
# Of a table with folders of their own: 1 MB. Of more, see _TableFolders.
PARTITIONS_MAX: Final = 4000
# In a folder; a folder with more is a container, such as a warehouse, and no table's data.
TABLES_IN_MAX: Final = 16
FOLDERS_IN_MAX: Final = 2000  # likewise; these are looked at for each write: 1 ms

OWNERS_FEW: Final = 8  # of a folder, that are kept in a tuple: it takes a quarter of a set
NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})

_value_of = lru_cache(maxsize=64)(decode_table_value)  # many blocks of one table follow each other


class _Folder(NamedTuple):
    """A location, and the partition that has it; empty: those that lie below it by their names."""

    location: str
    partition: str


@dataclass(slots=True)
class _TableFolders:
    """Where the data of a table lies.

    ``common``: by store, the folder that all partitions elsewhere have in common, once there are
    more than PARTITIONS_MAX; then a write to any path in it counts as a write to the table. Each
    table has such an object, so that what most tables lack takes nothing.
    """

    table: TableId
    location: str = ""  # the table's own; empty: none
    bases: tuple[_Folder, ...] = ()  # elsewhere, of partitions that lie there by their names
    by_block: dict[bytes, tuple[_Folder, ...]] | None = None  # of partitions that name theirs
    count: int = 0  # of the folders in it
    common: Mapping[str, str] = field(default_factory=lambda: NOTHING)

    def all(self) -> Iterator[_Folder]:
        """Yield every folder that is known of the table, but ``common``."""
        if self.location:
            yield _Folder(self.location, "")
        yield from self.bases
        yield from chain.from_iterable((self.by_block or {}).values())


@dataclass(slots=True)
class _Reading:
    """The entries of a topic that are still to be looked at, up to its position of the time."""

    entries: Iterator[Entry]
    position: tuple[int, int]


class Locations:
    """The locations of the tables that are held, and of partitions that lie outside of theirs."""

    def __init__(self, topics: Mapping[int, Topic]) -> None:
        self._topics = {number: topic for number, topic in topics.items() if number != NAMESPACE}
        self._seen = dict.fromkeys(self._topics, (0, 0))  # (epoch, version) looked at, by topic
        self._reading: dict[int, _Reading] = {}  # by topic, what one call could not do
        self._anew: list[int] = []  # topics of another epoch than seen, the last of them next
        self._looked_at = 0  # entries, in the last call
        self._folders: Any = SortedDict()  # location: its owners, (TableId, partition)
        self._by_table: dict[int, dict[TableId, _TableFolders]] = {
            number: {} for number in self._topics
        }

    @property
    def reads_anew(self) -> bool:
        """Whether ``catch_up`` has begun to read topics for the first time, and not ended."""
        return bool(self._anew)

    def catch_up(self) -> bool:
        """Take in changes of the topics; return False to be called again for the rest.

        Cost: O(topics + changed), but ENTRIES_MAX of a topic at most; while topics are read for the
        first time, ENTRIES_MAX of all together.
        """
        self._looked_at = 0
        if not self._anew:
            changed = self._changed()
            self._anew = [n for n in changed if self._seen[n][0] != self._topics[n].epoch]
            if not self._anew:
                return all(map(self._read, changed))
        while self._anew:
            if self._looked_at >= ENTRIES_MAX or not self._read(self._anew[-1]):
                return False
            self._anew.pop()
        return not self._changed()

    def find(self, path: str) -> dict[TableId, tuple[str, ...]]:
        """Return the tables that a write to ``path`` changes.

        The value names partitions, as reports do: whole, or with a slash at the end what their
        names begin with. None: any part of the table.
        """
        location = normal(path)
        found: dict[TableId, set[str]] = {}
        for below in self._below(location):
            for table, partition in self._folders[below]:
                found.setdefault(table, set()).add(partition)
        parts = location.split("/")
        for end in range(len(parts), 0, -1):
            here = self._folders.get("/".join(parts[:end]), ())
            for table, partition in here:
                found.setdefault(table, set()).add(partition or _partition(parts[end:]))
            if not all(partition for _, partition in here):
                break  # the deepest table's folder
        return {table: () if "" in of else tuple(sorted(of)) for table, of in found.items()}

    def folders(self, table: TableId, names: Collection[str]) -> set[str]:
        """Return the folders of ``table``, or of its partitions ``names``, each as in ``find``.

        Partitions in the table's own folder are taken to lie where their names say.
        """
        number = table_topic(*table, len(self._topics))
        of_table = self._by_table[number].get(table, _TableFolders(table))
        every = set(of_table.all())
        found = set(of_table.common.values())
        if not names:
            return found | {location for location, _ in every}
        begins = tuple(name for name in names if name.endswith("/"))
        for location, partition in every:
            if not partition:
                found.update(f"{location}/{name.rstrip('/')}" for name in names)
            elif partition in names or f"{partition}/".startswith(begins):
                found.add(location)
        return found

    def beside(self, folders: Iterable[str], table: TableId) -> dict[TableId, tuple[str, ...]]:
        """Return the other tables that lie at, in or above ``folders``, which ``table`` has.

        The value names partitions, as in ``find``. Containers hold nobody's data: of a container
        only the tables at the same folder count.
        """
        found: dict[TableId, set[str]] = {}
        for other, partition in chain.from_iterable(map(self._at_in_or_above, folders)):
            found.setdefault(other, set()).add(partition)
        found.pop(table, None)
        return {other: () if "" in of else tuple(sorted(of)) for other, of in found.items()}

    def _at_in_or_above(self, folder: str) -> Iterator[tuple[TableId, str]]:
        yield from self._folders.get(folder, ())
        yield from self._in(folder) or ()
        steps = folder.split("/")
        for end in range(len(steps) - 1, STORE_PARTS - 1, -1):
            above = "/".join(steps[:end])
            here = self._folders.get(above)
            if here and self._in(above) is not None:
                for other, partition in here:
                    yield other, partition or _partition(steps[end:])

    def _in(self, folder: str) -> list[tuple[TableId, str]] | None:
        """Return what lies in ``folder``, not at it; None if it is a container."""
        found: list[tuple[TableId, str]] = []
        tables: set[TableId] = set()
        for below in self._below(folder):
            for table, partition in self._folders[below]:
                found.append((table, partition))
                tables.add(table)
            if len(tables) > TABLES_IN_MAX or len(found) > FOLDERS_IN_MAX:
                return None
        return found

    def _below(self, folder: str) -> Iterator[str]:
        """Yield the folders in ``folder``, at any depth."""
        after = folder + "0"  # it follows "/", and may be the folder of another table
        yield from self._folders.irange(folder + "/", after, inclusive=(True, False))

    def _changed(self) -> list[int]:
        """Return the topics that are not looked at up to their current position."""
        topics, seen = self._topics.items(), self._seen
        return [number for number, one in topics if seen[number] != (one.epoch, one.version)]

    def _read(self, number: int) -> bool:
        """Look at some entries of a topic; return whether they were all."""
        topic, (epoch, version) = self._topics[number], self._seen[number]
        position = topic.epoch, topic.version
        reading = self._reading.pop(number, None)
        if reading is None or reading.position[0] != topic.epoch:
            if epoch != topic.epoch:
                version = 0
                for table in tuple(self._by_table[number]):
                    self._remove(number, table)
            reading = _Reading(topic.since(version), position)
        for _ in range(ENTRIES_MAX):
            entry = next(reading.entries, None)
            if entry is None:
                self._seen[number] = reading.position
                return reading.position == position
            self._looked_at += 1
            reading.entries = chain(self._apply(number, entry), reading.entries)
        self._reading[number] = reading
        return False

    def _apply(self, number: int, entry: Entry) -> Iterable[Entry]:
        """Take in an entry; return those that are to be looked at once more."""
        topic, group = self._topics[number], group_of(entry.key)
        table, have = _interned(table_of(group)), topic.get(group)
        if entry.kind == PREFIX:
            # Else it is a stub by now, and lies where it was.
            if have is None or have.kind == VALUE:
                self._remove(number, table)
        elif have is None or have.value is None:
            pass
        elif entry.key == group:
            return self._put_table(number, have)
        elif _is_current(topic, entry):  # else a newer entry follows, or the table's end
            if table not in self._by_table[number]:  # its own entry follows
                self._put_table(number, have)
            of_table = self._by_table[number][table]
            found: tuple[_Folder, ...] = ()
            if entry.kind == VALUE and entry.value is not None:
                templates = _value_of(have.value).templates
                found = tuple(_elsewhere(entry, templates, of_table.location))
            self._file_block(of_table, entry.key, found)
        return ()

    def _put_table(self, number: int, entry: Entry) -> Iterable[Entry]:
        """Take in a table's own entry; return its blocks if they lie elsewhere only now."""
        table, value = _interned(table_of(entry.key)), _value_of(value_of(entry))
        of_table = self._by_table[number].setdefault(table, _TableFolders(table))
        self._drop_own(of_table)
        before, location = of_table.location, read_data_location(value.thrift)
        of_table.location = normal(location) if location else ""
        of_table.bases = tuple(_bases_of(value, of_table.location))
        if of_table.location:
            self._add(of_table.location, (table, ""))
        for base, partition in of_table.bases:
            self._add(base, (table, partition))
        if before in {"", of_table.location}:
            return ()
        blocks = self._topics[number].rows(entry.key)
        return tuple(block for block in blocks if block.key != entry.key)

    def _file_block(
        self, of_table: _TableFolders, key: bytes, folders: tuple[_Folder, ...]
    ) -> None:
        """Replace the folders that the block ``key`` of a table had."""
        self._drop_block(of_table, key)
        if of_table.common:
            self._merge(of_table, folders)
            return
        if folders:
            of_table.by_block = of_table.by_block or {}
            of_table.by_block[key] = folders
            of_table.count += len(folders)
        for location, partition in folders:
            self._add(location, (of_table.table, partition))
        if of_table.count > PARTITIONS_MAX:
            blocks = tuple(of_table.by_block or ())
            every = [one for block in blocks for one in self._drop_block(of_table, block)]
            self._merge(of_table, every)

    def _drop_block(self, of_table: _TableFolders, key: bytes) -> tuple[_Folder, ...]:
        """Remove and return the folders that the block ``key`` of a table had."""
        folders = (of_table.by_block or {}).pop(key, ())
        of_table.count -= len(folders)
        for location, partition in folders:
            self._discard(location, (of_table.table, partition))
        return folders

    def _drop_own(self, of_table: _TableFolders) -> None:
        """Forget where a table itself lies, and its bases."""
        for location, partition in of_table.bases:
            self._discard(location, (of_table.table, partition))
        self._discard(of_table.location, (of_table.table, ""))

    def _merge(self, of_table: _TableFolders, folders: Iterable[_Folder]) -> None:
        """Take in ``folders`` as what they have in common with those before, in each store."""
        before, common = of_table.common, dict(of_table.common)
        for location, _ in folders:
            store = "/".join(location.split("/")[:STORE_PARTS])
            common[store] = _common(common.get(store, location), location)
        of_table.common = common
        for store, location in common.items():
            if before.get(store) != location:
                self._discard(before.get(store, ""), (of_table.table, ""))
                self._add(location, (of_table.table, ""))

    def _remove(self, number: int, table: TableId) -> None:
        of_table = self._by_table[number].pop(table, _TableFolders(table))
        self._drop_own(of_table)
        for key in tuple(of_table.by_block or ()):
            self._drop_block(of_table, key)
        for location in of_table.common.values():
            self._discard(location, (table, ""))

    def _add(self, location: str, of: tuple[TableId, str]) -> None:
        owners = self._folders.get(location, ())
        if isinstance(owners, set):
            owners.add(of)
        elif of not in owners:
            more = (*owners, of)
            self._folders[location] = more if len(more) <= OWNERS_FEW else set(more)

    def _discard(self, location: str, of: tuple[TableId, str]) -> None:
        owners = self._folders.get(location)
        if owners is None or of not in owners:
            return
        if isinstance(owners, set):
            owners.discard(of)
        else:
            self._folders[location] = owners = tuple(one for one in owners if one != of)
        if not owners:
            del self._folders[location]


def _is_current(topic: Topic, entry: Entry) -> bool:
    head = topic.head(entry.key)
    return head is not None and (head.version, head.kind) == (entry.version, entry.kind)


def _interned(table: TableId) -> TableId:
    """Return ``table`` with the one string of its database that all of its tables share."""
    return intern(table[0]), table[1]


def normal(uri: str) -> str:
    """Return ``uri`` in the one form that is used here, without a slash at its end.

    All schemes of a store become the same; a file's host, HDFS's own port and doubled slashes go.
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


def _bases_of(value: TableValue, location: str) -> Iterator[_Folder]:
    """Yield folders elsewhere than ``location`` that partitions lie in by their names.

    Such a folder may be where no partition is any more: templates are kept.
    """
    bases = Templates(value.templates, "").bases()
    for base in sorted(normal(one) for one in bases if one):
        if not _is_in(base, location):
            yield _Folder(base, "")


def _elsewhere(block: Entry, skeletons: Sequence[bytes], location: str) -> Iterator[_Folder]:
    """Yield the partitions of ``block`` that name a location which is not in the table's own."""
    held, templates = decode_block(value_of(block), block.version), Templates(skeletons, "")
    saying = {n for n in held.templates if n == RAW or templates.template(n).base is None}
    for name, _, number, slots in held.records() if saying else ():
        if number in saying:
            said = templates.location(number, slots, name)
            where = normal(said) if said else ""  # no folder, no files: as in a view
            if where and not _is_in(where, location):
                yield _Folder(where, name)


def _is_in(location: str, folder: str) -> bool:
    return bool(folder) and (location + "/").startswith(folder + "/")


def _common(one: str, other: str) -> str:
    """Return the deepest folder that two locations of one store have in common."""
    pairs = zip(one.split("/"), other.split("/"), strict=False)
    return "/".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _partition(steps: list[str]) -> str:
    """Return, with a slash, what partitions' names begin with in ``steps`` below their folder."""
    named = list(takewhile(lambda step: "=" in step.strip("="), steps))
    return "/".join(named) + "/" if named else ""
