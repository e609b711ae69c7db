"""Selection: which databases and tables are compared, and in which topics they are. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ...topics.objects.names import TableId, table_name
from ...topics.topic import NAMESPACE, table_topic
from ..datasource.snapshot_versions import SnapshotVersion

WILDCARDS: Final = "*?["


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """The objects whose full names match ``pattern`` and, if given, are in ``only``.

    A database is selected if a table of it can match. It is a TableId with an empty table.
    """

    pattern: str
    only: Collection[str] | None = None

    def has(self, of: TableId) -> bool:
        """Return whether the table or database is compared."""
        name = name_of(of)
        pattern = self.pattern if of[1] else self.pattern.partition(".")[0]
        return fnmatchcase(name, pattern) and (self.only is None or name in self.only)

    def topics(self, as_of: SnapshotVersion) -> list[int]:
        """Return the topics that hold selected objects, in the catalog of ``as_of``."""
        names = self.only
        if names is None and not any(one in self.pattern for one in WILDCARDS):
            names = self.pattern, self.pattern.partition(".")[0]
        if names is None:
            return list(as_of.by_topic())
        parts = (name.partition(".") for name in names)
        num_topics = as_of.num_topics
        return sorted({table_topic(db, t, num_topics) if t else NAMESPACE for db, _, t in parts})


def name_of(of: TableId) -> str:
    """Return the name of a table, or of a database, whose table is empty."""
    return table_name(*of) if of[1] else of[0]
