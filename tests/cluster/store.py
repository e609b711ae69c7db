"""A store in memory: what catalogd keeps over its crashes; an old copy of it may come back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sortedcontainers import SortedDict

from topicast.catalog.model.folders import Folder, FolderChanges, FolderRow, group_end
from topicast.catalog.model.lineage import StartRecord
from topicast.catalog.model.modes import MODE_STATE_DEFAULT, ModeState
from topicast.catalog.model.versions import Commit, LeaseRow, SweepRow, WriteId, WriteRow
from topicast.catalog.model.window_state import WindowState
from topicast.topics.memory.limited_topic import LimitedTopic
from topicast.topics.memory.memory_limit import MemoryLimit
from topicast.topics.objects.names import TableId, pause_key, rules_key
from topicast.topics.topic import NAMESPACE, Entry, Topic, topic_ids

NUM_TOPICS = 2


class SimFolders:
    """The folders of tables, in memory."""

    def __init__(self) -> None:
        self._rows = SortedDict[bytes, tuple[Folder, ...]]()  # by key
        self._at = SortedDict[str, dict[bytes, None]]()  # by location: the keys of its rows

    def copy(self) -> "SimFolders":
        """Return one that has the same."""
        found = SimFolders()
        found._rows = self._rows.copy()
        found._at = SortedDict({at: dict(keys) for at, keys in self._at.items()})
        return found

    def clear(self) -> None:
        """Have none."""
        self._rows.clear()
        self._at.clear()

    def commit(self, changes: FolderChanges) -> None:
        """Have what ``changes`` make of it."""
        for group in changes.ended:
            for key in [*self._rows.irange(group, group_end(group), inclusive=(True, False))]:
                self._set(key, ())
                del self._rows[key]
        for key, folders in changes.rows.items():
            self._set(key, folders)

    def folders_at(self, locations: Sequence[str]) -> list[FolderRow]:
        """Return the rows at any of ``locations``."""
        return [row for at in locations for row in self._rows_at(at)]

    def folders_in(self, location: str) -> Iterator[FolderRow]:
        """Yield the rows below ``location``."""
        inside = self._at.irange(location + "/", location + "0", inclusive=(False, False))
        return (row for at in inside for row in self._rows_at(at))  # "0" follows "/"

    def folders_of(self, first: bytes, end: bytes) -> list[FolderRow]:
        """Return the rows of these keys."""
        keys = self._rows.irange(first, end, inclusive=(True, False))
        return [FolderRow(key, *one) for key in keys for one in self._rows[key]]

    def _rows_at(self, location: str) -> Iterator[FolderRow]:
        for key in self._at.get(location, ()):
            yield from (FolderRow(key, *one) for one in self._rows[key] if one.location == location)

    def _set(self, key: bytes, folders: tuple[Folder, ...]) -> None:
        for gone in self._rows.get(key, ()):
            keys = self._at.get(gone.location, {})
            keys.pop(key, None)
            if not keys:
                self._at.pop(gone.location, None)
        self._rows[key] = folders
        for one in folders:
            self._at.setdefault(one.location, {})[key] = None


@dataclass(slots=True)
class SimStore:
    """Entries in the order in which they were committed, the place in the events, the starts."""

    epoch: int
    starts: tuple[StartRecord, ...] = ()
    place: WindowState | None = None
    versions: dict[int, int] = field(
        default_factory=lambda: dict.fromkeys(topic_ids(NUM_TOPICS), 0)
    )
    entries: dict[int, tuple[Entry, ...]] = field(
        default_factory=lambda: dict.fromkeys(topic_ids(NUM_TOPICS), ())
    )
    floors: dict[int, int] = field(default_factory=dict)
    mode_state: ModeState = MODE_STATE_DEFAULT
    writes: dict[WriteId, WriteRow] = field(default_factory=dict)
    leases: tuple[LeaseRow, ...] = ()
    sweeps: dict[TableId, SweepRow] = field(default_factory=dict)  # the last of each table
    folders: SimFolders = field(default_factory=SimFolders)

    @classmethod
    def of(cls, num_topics: int, *, epoch: int) -> "SimStore":
        """Return the store of a catalogd that never ran, with so many table topics."""
        ids = topic_ids(num_topics)
        return cls(epoch, versions=dict.fromkeys(ids, 0), entries=dict.fromkeys(ids, ()))

    def copy(self) -> "SimStore":
        """Return what a copy of the file would be: nothing in it is ever changed in place."""
        return replace(
            self,
            versions=dict(self.versions),
            entries=dict(self.entries),
            floors=dict(self.floors),
            writes=dict(self.writes),
            folders=self.folders.copy(),
        )

    def begin(self, start: int) -> None:
        """Record a start."""
        versions = tuple(self.versions.values())
        self.starts += (StartRecord(start=start, epoch=self.epoch, versions=versions),)

    def commit(self, commit: Commit) -> None:
        """Make all of it durable."""
        for one in commit.transactions:
            assert one.from_version == self.versions[one.topic]
            self.versions[one.topic] = one.to_version
            self.entries[one.topic] += one.entries
        self.place = commit.window
        self.mode_state = commit.mode_state or self.mode_state
        self.writes |= {(one.driver, one.number): one for one in commit.writes}
        for key in commit.finished:
            self.writes.pop(key, None)
        self.leases = self.leases if commit.leases is None else commit.leases
        self.sweeps |= {one.table: one for one in commit.sweeps}
        if commit.folders is not None:
            self.folders.commit(commit.folders)

    def begin_anew(self, now_us: int, at_least: int) -> None:
        """Hold nothing of the metastore any more, in a new epoch; versions go on."""
        self.place = None
        for number, entries in self.entries.items():
            kept = (one for one in entries if one.key in (rules_key(), pause_key()))
            self.entries[number] = tuple(kept)
        self.floors = dict(self.versions)
        self.folders.clear()
        self.mint(now_us, at_least)

    def load(self, memory: MemoryLimit | None = None) -> dict[int, Topic]:
        """Return the topics as they are stored; with ``memory``, some content may leave it."""
        topics: dict[int, Topic] = {}
        for number, entries in self.entries.items():
            limited = memory is not None and number != NAMESPACE
            topic = LimitedTopic(number, memory.warm, self) if limited else Topic()
            topics[number] = topic
            topic.reset(self.epoch)
            topic.file(entries)
            topic.version = self.versions[number]
            topic.raise_floor(self.floors.get(number, 0))
        return topics

    def version(self, topic: int) -> int:
        """Return up to which version everything is committed."""
        return self.versions[topic]

    def read(self, topic: int, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """Return the last entries of ``keys``."""
        wanted = frozenset(keys)
        return {entry.key: entry for entry in self.entries[topic] if entry.key in wanted}

    def delete_tombstones(self, topic: int, floor: int) -> None:
        """Raise the floor of a topic: tombstones at or below it are gone."""
        self.floors[topic] = max(floor, self.floors.get(topic, 0))

    def mint(self, now_us: int, at_least: int) -> None:
        """Begin a new epoch."""
        self.epoch = max(now_us, self.epoch + 1, at_least + 1)
        versions = tuple(self.versions.values())
        start = self.starts[-1].start
        self.starts = (StartRecord(start=start, epoch=self.epoch, versions=versions),)
