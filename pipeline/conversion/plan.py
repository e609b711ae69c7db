"""Plan: which partitions of a copy are to be converted, and into which folders.

A partition of the source has a *version*: a digest of the names, sizes and times of its files. The
copy's partition has, among its parameters, the version that it was made of. So the two versions
show what is to be converted, and no run has to remember anything. The location of a copy's
partition ends with a digest of name and version, below a folder of the run, so that no run writes
over files that an interrupted run has left.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from ...topics.errors import UsageError
from ...topics.objects.tables import Partition

FORMATS: Final = ("parquet", "orc")  # of a copy
VERSION: Final = "topicast.convert.version"  # parameters of the copy's partitions
AT: Final = "topicast.convert.at"  # seconds since 1970: when the metastore was changed
SOURCE: Final = "topicast.convert.from"  # a parameter of the copy itself
PART: Final = "part"  # the column by which one job writes many partitions
FOLDER: Final = "convert-"  # the beginning of a run's folders
NOTES: Final = "_topicast/convert"  # below the copy's location; hidden from readers of paths
REJECTED: Final = "_rejected"  # below a run's folder; hidden from readers of paths

T = TypeVar("T")


class PartitionFile(NamedTuple):
    """A file of a partition; ``changed_ms`` since 1970."""

    path: str
    size: int
    changed_ms: int


@dataclass(frozen=True, slots=True)
class PartitionJob:
    """One partition to be converted; ``old``: the copy's location that is replaced, or empty.

    ``version``: of its files. ``seen``: of the partition, in catalogd's topic.
    """

    name: str
    values: tuple[str, ...]
    location: str  # of the source
    version: str
    files: tuple[PartitionFile, ...]
    old: str = ""
    seen: int = 0

    @property
    def part(self) -> str:
        """The last component of its location: a function of name and version."""
        return _digest(self.name, self.version)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(one.size for one in self.files)


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A partition as the metastore is to have it; ``new``: the copy has none of this name yet."""

    values: tuple[str, ...]
    location: str
    parameters: Mapping[str, str]
    new: bool


@dataclass(frozen=True, slots=True)
class Note:
    """The partitions that a batch is about to create and replace, for a run that cleans up.

    ``made``, ``replaced``: locations; ``names``: their partitions; ``at``: seconds since 1970.
    """

    at: float
    folder: str
    names: tuple[str, ...]
    made: tuple[str, ...]
    replaced: tuple[str, ...]

    def text(self) -> str:
        """Return it as JSON."""
        fields = ("at", "folder", "names", "made", "replaced")
        return json.dumps({name: getattr(self, name) for name in fields})


def read_note(text: str) -> Note | None:
    """Return the note in ``text``; None: it was not written to its end, or is damaged."""
    try:
        found = json.loads(text)
        return Note(
            at=float(found["at"]),
            folder=str(found["folder"]),
            names=tuple(found["names"]),
            made=tuple(found["made"]),
            replaced=tuple(found["replaced"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def version_of(location: str, files: Iterable[PartitionFile]) -> str:
    """Return the version of a partition with these files; it does not depend on their order."""
    facts = (f"{one.path}\t{one.size}\t{one.changed_ms}" for one in sorted(files))
    return _digest(location, *facts)


def compare(
    partition: Partition, files: tuple[PartitionFile, ...], copy: Partition | None
) -> PartitionJob | None:
    """Return the job for a partition of the source; None: its copy is made of the same files.

    Raises:
        UsageError: the copy's partition was not made by convert.
    """
    location = partition.location
    version = version_of(location, files)
    if copy is not None and copy.parameters.get(VERSION) == version:
        return None
    if copy is not None and VERSION not in copy.parameters:
        raise UsageError(
            "convert did not make the copy's partition: drop it there, or leave it as it is"
        )
    old = copy.location if copy is not None else ""
    of = partition.name, partition.values, location, version
    return PartitionJob(*of, files, old, partition.version)


def change_of(job: PartitionJob, folder: str, *, now: float) -> PartitionChange:
    """Return the change that lets readers see the files of ``job`` below ``folder``."""
    parameters = {VERSION: job.version, AT: f"{now:.3f}"}
    return PartitionChange(job.values, location_of(job, folder), parameters, not job.old)


def location_of(job: PartitionJob, folder: str) -> str:
    """Return where ``job`` has its files, if its batch writes below ``folder``."""
    return f"{folder}/{PART}={job.part}"


def note_of(jobs: Sequence[PartitionJob], folder: str, *, now: float) -> Note:
    """Return the note about a batch that writes below ``folder``."""
    return Note(
        at=now,
        folder=folder,
        names=tuple(job.name for job in jobs),
        made=tuple(location_of(job, folder) for job in jobs),
        replaced=tuple(job.old for job in jobs if job.old),
    )


def is_due(note: Note, copies: Mapping[str, Partition], *, before: float) -> bool:
    """Return whether the unneeded locations of ``note`` may be deleted.

    They may if the batch, and the last change of each of its partitions, are from ``before``.
    """
    changed = (_at(copies[name]) for name in note.names if name in copies)
    return all(at <= before for at in (note.at, *changed))


def unneeded(note: Note, copies: Mapping[str, Partition]) -> tuple[str, ...]:
    """Return the locations of ``note`` that no partition of the copy has."""
    needed = {_tail(copies[name].location) for name in note.names if name in copies}
    return tuple(one for one in (*note.made, *note.replaced) if _tail(one) not in needed)


def in_batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield ``items``, ``size`` at a time."""
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def _at(copy: Partition) -> float:
    try:
        return float(copy.parameters.get(AT, "0"))
    except ValueError:
        return 0.0


def _tail(location: str) -> tuple[str, ...]:
    """Return a run's folder and a part, which are unique however the path above is written."""
    return tuple(location.rstrip("/").rsplit("/", 2)[-2:])


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
