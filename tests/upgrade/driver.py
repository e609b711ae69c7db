"""Driver: a subscriber in a process of its own, of the release that its import path leads to.

    [command, arguments…] ──▶ standard input ─── standard output ──▶ the answer, a line of JSON each

Both releases run this file, so it uses what both have. Until its end a thread reads one table, as
fast as others can work: ``reads`` says whether a revision was ever followed by an older one.
"""

import json
import sys
import threading
from typing import Any

import topicast
from topicast.subscriber import Subscriber
from topicast.topics.errors import StaleMetadata, TopicastError

PAUSE_S = 0.01
TIMEOUT_S = 60.0
Content = dict[str, list[Any]]


class Readings:
    """Reads one table again and again in a thread, and the changes of all in another."""

    def __init__(self, catalog: Subscriber, table: str) -> None:
        self.count = 0
        self.last = -1  # the newest revision that was read
        self.older: list[tuple[int, int]] = []  # the newest so far, and what came after it
        self.failed: dict[str, int] = {}  # errors, by what they say
        self.changed: set[str] = set()  # objects
        self._catalog = catalog
        self._table = table
        self._over = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._read, self._watch)]
        self._watching = catalog.watch("*")
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._watching.close()

    def _read(self) -> None:
        while not self._over.wait(PAUSE_S):
            try:
                found = self._catalog.table(self._table)
            except TopicastError as error:
                kind = "stale" if isinstance(error, StaleMetadata) else str(error)
                self.failed[kind] = self.failed.get(kind, 0) + 1
                continue
            revision = int(found.parameters.get("rev", "0"))
            if revision < self.last:
                self.older.append((self.last, revision))
            self.count, self.last = self.count + 1, max(revision, self.last)

    def _watch(self) -> None:
        while not self._over.is_set():
            self.changed |= {change.object for change in self._watching.all_within(0.1)}


def content(catalog: Subscriber, db: str) -> Content:
    """Return what there is of a database: by table its revision, and by partition that one's."""
    found: Content = {}
    for name in sorted(catalog.tables(db)):
        table = catalog.table(f"{db}.{name}")
        days = {}
        if table.partition_keys:
            partitions = catalog.partitions(f"{db}.{name}", "ds >= '000'")
            days = {one.name: one.parameters.get("rev", "0") for one in partitions}
        found[name] = [table.parameters.get("rev", "0"), days]
    return found


def answer(catalog: Subscriber, readings: Readings, command: str, *arguments: str) -> object:
    """Do what ``command`` says."""
    if command == "content":
        catalog.sync(timeout_s=TIMEOUT_S)
        return content(catalog, *arguments)
    if command == "reads":
        failed, readings.failed = readings.failed, {}
        return [readings.count, readings.older, failed]
    if command == "changed":
        seen, readings.changed = readings.changed, set()
        return sorted(seen)
    if command == "report":
        return catalog.report_write(*arguments, wait_s=TIMEOUT_S)
    raise ValueError(command)


def main(statestores: str, metastore: str, name: str, levels: str, table: str) -> None:
    """Answer each line of standard input, until its end."""
    with Subscriber(
        statestores, metastore=metastore, name=name, levels=levels, timeout_s=TIMEOUT_S
    ) as catalog:
        readings = Readings(catalog, table)
        print(json.dumps(topicast.__file__), flush=True)
        try:
            for line in sys.stdin:
                print(json.dumps(answer(catalog, readings, *json.loads(line))), flush=True)
        finally:
            readings.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
