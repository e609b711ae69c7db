"""Both daemons at half the memory that their catalog needs: they serve it."""

import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from topicast.catalog.model.commit import Commit
from topicast.catalog.model.versions import Transaction
from topicast.catalog.storage.store import Store
from topicast.subscriber import Subscriber
from topicast.tests.bench.stores import NEW, names_of
from topicast.tests.cli.processes import Running, catalogd, statestored
from topicast.tests.subscriber.structs import table_struct
from topicast.topics.objects.encoding.values import ABSENT, TableValue, encode_table_value
from topicast.topics.objects.names import table_key
from topicast.topics.topic import NAMESPACE, NUM_TOPICS_DEFAULT, Entry, table_topic

NOBODY = "thrift://127.0.0.1:9"  # the discard port, on which no metastore listens
NOW_US = 1_700_000_000_000_000
TABLES = 3000
COLUMNS = 1000  # of each table: 90 KB that no packer makes smaller
READ = 100  # tables that a reader asks for
NAMES = tuple(f"table{number:05d}" for number in range(TABLES))


@dataclass(frozen=True, slots=True)
class Taken:
    """The most memory that each daemon took, in MB."""

    statestored: int
    catalogd: int


def fill(folder: Path) -> None:
    """Write a store of wide tables, as catalogd would have written it."""
    rng = random.Random(5)
    store = Store.open(folder, num_topics=NUM_TOPICS_DEFAULT, now_us=NOW_US, new_id=1)
    versions = store.versions
    commits = [(NAMESPACE, list(names_of("db", NAMES, version=1)))]
    for name in NAMES:
        columns = tuple(f"{rng.getrandbits(256):064x}" for _ in range(COLUMNS))
        thrift = table_struct("db", name, columns=columns)
        value = TableValue(incarnation=1, partitions=ABSENT, thrift=thrift, templates=())
        row = (table_key("db", name), encode_table_value(value))
        commits.append((table_topic("db", name, NUM_TOPICS_DEFAULT), [row]))
    for topic, rows in commits:
        version = versions[topic] = versions[topic] + 1
        entries = tuple(Entry(key, version, version, version, len(v), v) for key, v in rows)
        one = Transaction(
            topic=topic,
            from_version=version - 1,
            to_version=version,
            entries=entries,
            source=0,
            at_us=NOW_US,
        )
        store.commit(Commit(transactions=(one,), window=NEW))
    store.close()


def most_mb(daemon: Running) -> int:
    """Return the most memory that a daemon has taken."""
    text = Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) >> 10


def metric(daemon: Running, name: str) -> float:
    """Return the number that a daemon says of itself under ``name``."""
    lines = daemon.page("/metrics").splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name} "))
    return float(line.split()[1])


@contextmanager
def serving(
    folder: Path, *, hub: Sequence[str] = (), catalog: Sequence[str] = ()
) -> Iterator[tuple[Running, Running]]:
    with (
        statestored(folder, *hub) as first,
        catalogd(folder, *catalog, hive=NOBODY, statestores=first.ready["address"]) as second,
    ):
        first.becomes_ready()
        yield first, second
        second.end(signal.SIGKILL)


def read_some(hub: Running) -> None:
    """Read tables from all over the catalog, as a driver whose budget holds few of them."""
    with Subscriber(hub.ready["address"], budget="32MB", timeout_s=60) as catalog:
        assert len(catalog.tables("db")) == TABLES
        for name in random.Random(7).sample(NAMES, READ):
            assert len(catalog.table(f"db.{name}").columns) == COLUMNS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("limits")
    fill(found / "state")
    return found


@pytest.fixture(scope="module")
def unlimited(folder: Path) -> Taken:
    with serving(folder) as (hub, catalog):
        read_some(hub)
        return Taken(most_mb(hub), most_mb(catalog))


def test_daemons_at_half_the_memory_that_their_catalog_needs_serve_it(
    folder: Path, unlimited: Taken
) -> None:
    half = Taken(unlimited.statestored // 2, unlimited.catalogd // 2)
    flags = [(f"--mem_limit={one}MB",) for one in (half.statestored, half.catalogd)]
    with serving(folder, hub=flags[0], catalog=flags[1]) as (hub, catalog):
        read_some(hub)
        assert most_mb(hub) <= half.statestored
        assert most_mb(catalog) <= half.catalogd
        for name, daemon, of in (
            ("statestored", hub, half.statestored),
            ("catalogd", catalog, half.catalogd),
        ):
            assert metric(daemon, f"topicast_{name}_memory_limit_bytes") == of << 20
            assert metric(daemon, f"topicast_{name}_cold_bytes") > 0
