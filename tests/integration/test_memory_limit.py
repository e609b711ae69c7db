"""Both daemons at half the memory that their catalog needs: they serve it."""

import random
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from topicast.subscriber import Subscriber
from topicast.tests.bench.stores import Write, names_of, opened
from topicast.tests.bench.stores import write as write_all
from topicast.tests.cli.processes import Running, catalogd, statestored
from topicast.tests.subscriber.structs import database_struct, table_struct
from topicast.tests.waiting import until
from topicast.topics.objects.encoding.values import (
    ABSENT,
    TableValue,
    encode_database_value,
    encode_table_value,
)
from topicast.topics.objects.names import database_key, table_key
from topicast.topics.topic import NAMESPACE, NUM_TOPICS_DEFAULT, table_topic

NOBODY = "thrift://127.0.0.1:9"  # the discard port, on which no metastore listens
TABLES = 3000
COLUMNS = 1000  # of each table: 90 KB that no packer makes smaller
DATABASES = 2500  # with comments of 20 KB once packed: the namespace, which never leaves memory
LIMIT_MB = 80  # of a hub that takes half of it with nothing in it
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
    commits = [(NAMESPACE, list(names_of("db", NAMES, version=1)))]
    for name in NAMES:
        columns = tuple(f"{rng.getrandbits(256):064x}" for _ in range(COLUMNS))
        thrift = table_struct("db", name, columns=columns)
        value = TableValue(incarnation=1, partitions=ABSENT, thrift=thrift, templates=())
        row = (table_key("db", name), encode_table_value(value))
        commits.append((table_topic("db", name, NUM_TOPICS_DEFAULT), [row]))
    write(folder, commits)


def write(folder: Path, writes: Iterable[Write]) -> None:
    """Write a store in which these are transactions."""
    with closing(opened(folder)) as store:
        write_all(store, writes)


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


def test_hub_that_grows_past_its_limit_by_the_namespace_alone_says_so_and_serves(
    tmp_path: Path,
) -> None:
    rng = random.Random(5)
    comments = [f"{rng.getrandbits(160_000):040x}" for _ in range(DATABASES)]
    rows = [
        (database_key(f"db{number}"), encode_database_value(database_struct(f"db{number}", about)))
        for number, about in enumerate(comments)
    ]
    write(tmp_path / "state", ((NAMESPACE, [row]) for row in rows))
    with serving(tmp_path, hub=(f"--mem_limit={LIMIT_MB}MB",)) as (hub, _):
        until(lambda: "MB are taken" in hub.page("/healthz"), timeout_s=10, what="memory_short")
        said = hub.page("/healthz")
        assert f"more than --mem_limit={LIMIT_MB}MB" in said
        with Subscriber(hub.ready["address"], budget="256MB", timeout_s=60) as catalog:
            assert catalog.database(f"db{DATABASES - 1}").name == f"db{DATABASES - 1}"
