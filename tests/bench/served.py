"""Served: a whole catalogd in a process of its own, over a metastore in memory.

    change ──pipe──▶ the metastore ──events──▶ catalogd ──▶ a real statestored ──▶ readers

Its metastore has small tables, and one of any size, whose structs are made when they are read.
"""

import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final
from unittest.mock import patch

from hmsclient.genthrift.hive_metastore.ttypes import Database, FieldSchema

from topicast.catalog import assembly as building
from topicast.catalog.config import CatalogdConfig
from topicast.tests.cluster.fake_metastore import (
    FakeMetastore,
    make_partition,
    make_table,
    thrift_bytes,
)
from topicast.topics.topic import table_topic

DB: Final = "bench"
LARGE: Final = "large"
NUM_TOPICS: Final = 16
POLL_S: Final = 0.05
COLUMNS: Final = 20
SPAWN: Final = multiprocessing.get_context("spawn")


def topic_of(table: str) -> int:
    return table_topic(DB, table, NUM_TOPICS)


NUMBERS: Final = range(1000)
OTHER: Final = next(f"other{n}" for n in NUMBERS if topic_of(f"other{n}") != topic_of(LARGE))
NEAR: Final = next(f"near{n}" for n in NUMBERS if topic_of(f"near{n}") == topic_of(LARGE))
"""The small tables: in another topic than the large one, and in the same."""


class Metastore(FakeMetastore):
    """``bench.large`` has ``partitions`` from ``ds=00000000`` on."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self._names = tuple(f"ds={number:08d}" for number in range(partitions))
        self._known = frozenset(self._names)
        self.large = make_table(DB, LARGE, location=f"hdfs://n:8020/w/{LARGE}", keys=["ds"])
        self.large.sd.cols = [
            FieldSchema(f"column_{n:02d}", "string", "a comment") for n in range(COLUMNS)
        ]
        one = make_partition(self.large, ["00000000"])
        one.sd.location = f"{self.large.sd.location}/ds=00000000"
        one.parameters = {"numRows": "00000000", "totalSize": "00000000", "numFiles": "3"}
        self._struct = thrift_bytes(one)

    def partition_names(self, db: str, table: str) -> tuple[str, ...]:
        return self._names if table == LARGE else super().partition_names(db, table)

    def partitions(self, db: str, table: str, names: Sequence[str]) -> dict[str, bytes]:
        if table != LARGE:
            return super().partitions(db, table, names)
        struct = self._struct
        known = (name for name in names if name in self._known)
        return {name: struct.replace(b"00000000", name[3:].encode()) for name in known}


class Served:
    """A catalogd that runs; ``change`` commits to its metastore."""

    def __init__(self, hub: str, folder: Path, *, partitions: int) -> None:
        self._orders, theirs = SPAWN.Pipe()
        arguments = (hub, folder, partitions, theirs)
        self._process = SPAWN.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def change(self, table: str, revision: int) -> float:
        """Give a small table a new revision; return when that was committed."""
        return self._ask("change", table, revision)

    def create_large(self) -> None:
        """Let there be the large table."""
        self._ask("create")

    def drop_large(self) -> None:
        """Let there be none."""
        self._ask("drop")

    def is_loaded(self) -> bool:
        """Tell whether catalogd holds the large table with all its partitions."""
        return bool(self._ask("loaded"))

    def end(self) -> None:
        self._process.kill()
        self._process.join()

    def _ask(self, *what: object) -> float:
        self._orders.send(what)
        return float(self._orders.recv())


@contextmanager
def served(hub: str, folder: Path, *, partitions: int) -> Iterator[Served]:
    """Run a catalogd that has read the small tables."""
    found = Served(hub, folder, partitions=partitions)
    try:
        yield found
    finally:
        found.end()


def _serve(hub: str, folder: Path, partitions: int, orders: Connection) -> None:
    metastore = Metastore(partitions)
    metastore.create_database(Database(DB, "", "file:/w", {}))
    for name in (OTHER, NEAR):
        metastore.create_table(make_table(DB, name, location=f"file:/w/{name}"))
    config = CatalogdConfig(
        statestores=hub,
        catalog_service_port=0,
        state_dir=folder,
        num_topics=NUM_TOPICS,
        hms_event_polling_interval_s=POLL_S,
    )
    with patch.object(building, "Hms", lambda _uris, **_settings: metastore):
        catalogd, _ = building.build(config, name="bench")
        arguments = (metastore, orders, lambda: catalogd.is_loaded(DB, LARGE))
        threading.Thread(target=_obey, args=arguments, daemon=True).start()
        catalogd.run()


def _obey(metastore: Metastore, orders: Connection, loaded: object) -> None:
    assert callable(loaded)
    while True:
        what, *arguments = orders.recv()
        if what == "change":
            table = metastore.get_table(DB, arguments[0])
            table.parameters["rev"] = str(arguments[1])
            metastore.alter_table(DB, arguments[0], table)
        elif what == "create":
            metastore.create_table(metastore.large)
        elif what == "drop":
            metastore.drop_table(DB, LARGE, False)
        orders.send(loaded() if what == "loaded" else time.monotonic())
