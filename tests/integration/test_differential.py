"""Whatever writers do and whichever daemon is killed: a synced subscriber holds what HMS holds."""

import random
import threading
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import Database

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.integration.daemons import Daemons
from topicast.tests.integration.equality import differing
from topicast.tests.integration.operations import Writer
from topicast.tests.waiting import until
from topicast.topics.backports import Self
from topicast.topics.errors import LinkError, NoSuchObject, SourceError
from topicast.topics.topic import NAMESPACE

SEED = 20_261_121
WRITERS = 4
PAUSE_S = 0.03  # between two reads: the writers have the same two cores
DAMAGED_MAX = 3  # tables that the metastore itself has damaged, see `equality`
SYNC_S = 60.0  # an operation that met a lock of the metastore may take 50 s: ten tries, 5 s each


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How many operations there are at least, and of each kind; how many kills meanwhile.

    ``reads``: of tables, at least, by each reader, which begins before the writers.
    """

    operations: int
    each_kind: int
    kills: int
    reads: int


SHORT = Length(operations=70, each_kind=2, kills=2, reads=30)
LONG = Length(operations=500, each_kind=10, kills=6, reads=200)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "length",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=pytest.mark.nightly),
    ],
)
def test_random_operations_with_kills_end_in_what_the_metastore_holds(
    hive: EmbeddedMetastore, daemons: Daemons, tmp_path: Path, length: Length
) -> None:
    host, _, port = hive.uri.removeprefix("thrift://").partition(":")
    with HMSClient(host=host, port=int(port)) as client:
        for db in ("diff_a", "diff_b"):
            client.create_database(Database(db, "shared", f"file:{tmp_path}/{db}", {}))
    writers = [
        Writer(n, seed=SEED, host=host, port=int(port), location=f"file:{tmp_path}")
        for n in range(WRITERS)
    ]
    with ExitStack() as up:
        readers = [
            up.enter_context(Reader(daemons.hub_address, level=level, seed=SEED))
            for level in ("full", "minimal")
        ]
        kills = _write_and_kill(writers, daemons, length)
        counts = sum((writer.counts for writer in writers), Counter[str]())
        refused = sum(writer.refused for writer in writers)
        print(f"seed {SEED}: {dict(counts)}, refused {refused}, {kills}")
        assert min(counts[kind] for kind in writers[0].kinds) >= length.each_kind
        assert sum(counts.values()) >= length.operations
        for reader in readers:
            enough = partial(reader.has_read, length.reads)
            until(enough, timeout_s=SYNC_S, what=f"{length.reads} reads")
            print(f"{reader.level}: {dict(reader.stop())}")
            assert reader.counts["unreadable"] <= reader.counts["table"] // 2
            assert reader.wrong == []
            with HMSClient(host=host, port=int(port)) as client:
                until(
                    partial(_is_equal, reader.catalog, client),
                    timeout_s=SYNC_S,
                    what="the end of what writers had given up",
                )


class Reader:
    """A subscriber whose topics are all at ``level``, and a thread that reads all the time."""

    def __init__(self, hub: str, *, level: str, seed: int) -> None:
        self.level = level
        self.catalog = Subscriber(hub, budget="64MB", timeout_s=SYNC_S)
        self.counts: Counter[str] = Counter()  # answers, by kind
        self.wrong: list[str] = []
        self._rng = random.Random(f"{seed}/{level}")
        self._seen: dict[str, int] = {}  # the highest version of each table
        self._epoch = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self.catalog.open()
        self.catalog.join(
            [one.id for one in self.catalog.topics() if one.id != NAMESPACE], self.level
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.catalog.close()

    def stop(self) -> Counter[str]:
        """End the thread; return how many answers of each kind it had."""
        self._done.set()
        self._thread.join(timeout=2 * SYNC_S)
        assert not self._thread.is_alive()
        return self.counts

    def has_read(self, reads: int) -> bool:
        """Return whether so many tables were read, or the thread ended at a wrong answer."""
        return self.counts["table"] >= reads or bool(self.wrong)

    def _run(self) -> None:
        while not self._done.wait(PAUSE_S):
            try:
                self._read(self._rng.choice(self.catalog.databases()))
            except NoSuchObject:
                self.counts["gone"] += 1  # between two calls
            except SourceError:
                self.counts["unreadable"] += 1  # by the metastore: it is being dropped, or damaged
            except LinkError:
                self.counts["waited in vain"] += 1  # a daemon was killed
            except Exception as error:  # noqa: BLE001  what a reader must never meet
                self.wrong.append(repr(error))
                return

    def _read(self, db: str) -> None:
        names = self.catalog.tables(db)
        if not names:
            return
        name = f"{db}.{self._rng.choice(names)}"
        table = self.catalog.table(name)
        if table.version < self._seen.get(name, 0):
            self.wrong.append(f"{name}: {table.version} after {self._seen[name]}")
        self._seen[name] = table.version
        self.counts["table"] += 1
        if table.partition_columns:
            names_read = [one.name for one in self.catalog.partitions(name)]
            if names_read != sorted(set(names_read)):
                self.wrong.append(f"{name}: {names_read}")
            self.counts["partitions"] += 1


def _write_and_kill(writers: list[Writer], daemons: Daemons, length: Length) -> Counter[str]:
    """Let all write at once, while daemons are killed in turn; return how often each was killed."""
    done = threading.Event()
    threads = [
        threading.Thread(
            target=writer.run,
            args=(length.operations // WRITERS + 1, done),
            kwargs={"of_each": -(-length.each_kind // WRITERS)},
            daemon=True,
        )
        for writer in writers
    ]
    rng, kills = random.Random(SEED), Counter[str]()
    for thread in threads:
        thread.start()
    try:
        for number in range(length.kills):
            goal = (number + 1) * length.operations // (length.kills + 1)
            until(
                lambda goal=goal: sum(sum(w.counts.values()) for w in writers) >= goal,
                timeout_s=120,
                what=f"{goal} operations",
            )
            both = ("statestored", "catalogd")
            name = rng.choice(both) if number > 1 else both[number]
            daemons.kill(name)
            kills[name] += 1
            daemons.start(name)
        for thread in threads:
            thread.join(timeout=120)
    finally:
        done.set()
    assert not any(thread.is_alive() for thread in threads)
    return kills


def _is_equal(catalog: Subscriber, client: HMSClient) -> bool:
    """Compare behind a sync; return False if the metastore changed meanwhile.

    It may: a writer gives up what has no answer in time, and the metastore does it later.
    """
    before = client.get_current_notificationEventId().eventId
    catalog.sync(timeout_s=SYNC_S)
    try:
        _assert_equal(catalog, client)
    except AssertionError:
        if client.get_current_notificationEventId().eventId == before:
            raise
        return False
    return True


def _assert_equal(catalog: Subscriber, client: HMSClient) -> None:
    mine = {*catalog.databases(), *client.get_all_databases()}
    damaged = differing(catalog, client, [db for db in mine if db.startswith("diff_")])
    print(f"damaged in the metastore: {damaged}")
    assert len(damaged) <= DAMAGED_MAX
