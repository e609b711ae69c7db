"""Locations: the folder of each table; finds the tables that a write to a path has changed.

    file:///w/shop.db/orders/ds=1/part-0   ──▶   shop.orders, ds=1

The folders are read from the entries that changed since the last call, topic by topic.
"""

from collections.abc import Mapping
from typing import Any, Final

from sortedcontainers import SortedDict

from ...topics.objects.names import TableId, group_of, table_of
from ...topics.objects.tables import read_table
from ...topics.objects.values import decode_table_value
from ...topics.topic import NAMESPACE, PREFIX, VALUE, Topic

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


class Locations:
    """The locations of the tables that are held."""

    def __init__(self, topics: Mapping[int, Topic]) -> None:
        self._topics = {number: topic for number, topic in topics.items() if number != NAMESPACE}
        self._seen = dict.fromkeys(self._topics, (0, 0))  # (epoch, version) looked at, by topic
        self._tables: Any = SortedDict()  # location: set of TableId
        self._of: dict[TableId, str] = {}  # the location of each table, as in _tables

    def catch_up(self) -> bool:
        """Take in the changes of all topics; return False to be called again for the next topic.

        Cost: O(changed); for the first time one topic a call.
        """
        changed = [n for n, t in self._topics.items() if self._seen[n] != (t.epoch, t.version)]
        anew = [n for n in changed if self._seen[n][0] != self._topics[n].epoch]
        for number in anew[:1] or changed:
            topic, (epoch, version) = self._topics[number], self._seen[number]
            self._apply(topic, version if epoch == topic.epoch else 0)
            self._seen[number] = topic.epoch, topic.version
        return not anew

    def find(self, path: str) -> dict[TableId, str]:
        """Return the tables that a write to ``path`` changes.

        The value is the beginning of a partition's name, or empty: any part of the table.
        """
        location = normal(path)
        found: dict[TableId, str] = {}
        for below in self._tables.irange(location + "/", location + "0"):  # "0" follows "/"
            found |= dict.fromkeys(self._tables[below], "")
        parts = location.split("/")
        for end in range(len(parts), 0, -1):
            here = self._tables.get("/".join(parts[:end]))
            if here is not None:
                return found | dict.fromkeys(here, _partition(parts[end:]))
        return found

    def _apply(self, topic: Topic, version: int) -> None:
        for entry in topic.since(version):
            if entry.key != group_of(entry.key):
                continue  # a block
            table = table_of(entry.key)
            if entry.kind == VALUE and entry.value is not None:
                self._put(table, read_table(decode_table_value(entry.value).thrift, 0).location)
            elif entry.kind == PREFIX and topic.get(entry.key) is None:  # else it is a stub by now
                self._put(table, "")

    def _put(self, table: TableId, location: str) -> None:
        location = normal(location) if location else ""
        before = self._of.get(table, "")
        if location == before:
            return
        if before:
            self._tables[before].discard(table)
            if not self._tables[before]:
                del self._tables[before]
        if location:
            self._tables.setdefault(location, set()).add(table)
            self._of[table] = location
        else:
            del self._of[table]


def normal(uri: str) -> str:
    """Return the one form of every way to write ``uri``, without a slash at its end.

    Schemes of one store become one; a file's host, HDFS's own port and doubled slashes are removed.
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


def _partition(steps: list[str]) -> str:
    """Return the beginning of a partition's name in ``steps`` below a table's location."""
    named: list[str] = []
    for step in steps:
        if "=" not in step.strip("="):
            break
        named.append(step)
    return "/".join(named)
