"""What of the metastore has to be read again, because of an event or of an operator's order."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyDatabase:
    """A database was created, altered or dropped."""

    db: str
    degraded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyTable:
    """A table changed.

    ``whole``: its partitions must be read again, too. ``dropped``: an incarnation of it ended
    (it may exist again). ``data``: the data in its files changed. ``degraded``: not decoded.
    """

    db: str
    table: str
    whole: bool = False
    dropped: bool = False
    data: bool = False
    degraded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyPartitions:
    """Partitions of a table were added, altered or dropped."""

    db: str
    table: str
    names: tuple[str, ...]
    data: bool = False


Dirty = DirtyDatabase | DirtyTable | DirtyPartitions
