"""Tables of a real metastore: changed past catalogd, and what a subscriber sees of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hmsclient import HMSClient
from hmsclient.genthrift.hive_metastore.ttypes import (
    Database,
    MetaException,
    NoSuchObjectException,
)

from topicast.subscriber import Subscriber
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.hive.calls import Client
from topicast.tests.waiting import until

FIRST = "000"  # the value of the first partition
DROP_S = 120.0  # the metastore waits up to 5 s for a lock, and tries ten times


def connect(uri: str) -> Client:
    """Return a client of the metastore at ``uri``, which is connected once it is entered."""
    host, _, port = uri.removeprefix("thrift://").partition(":")
    return Client(host=host, port=int(port))


@contextmanager
def database(
    uri: str,
    folder: Path,
    tables: Mapping[str, int],
    *,
    parameters: Callable[[], dict[str, str]] = dict,
) -> Iterator[HMSClient]:
    """Create ``tables`` of one database with so many partitions each; yield a client.

    A table without partitions has no partition key. ``parameters`` returns those of the next
    partition. At the end the database is dropped.
    """
    (db,) = {name.partition(".")[0] for name in tables}
    with connect(uri) as client:
        client.create_database(Database(db, "", f"file:{folder}/{db}", {}))
        for name, days in tables.items():
            table = name.partition(".")[2]
            keys = ["ds"] if days else []
            made = make_table(db, table, location=f"file:{folder}/{table}", keys=keys)
            client.create_table(made)
            partitions = [make_partition(made, [f"{day:03}"]) for day in range(days)]
            for one in partitions:
                one.parameters = parameters()
            if partitions:
                client.add_partitions(partitions)
        try:
            yield client
        finally:
            until(lambda: _is_dropped(client, db), timeout_s=DROP_S, what=f"the end of {db}")


def _is_dropped(client: HMSClient, db: str) -> bool:
    """Drop ``db``; return False if the metastore refused, as it may where others hold locks.

    A thread of Hive 2.3 that met such a lock may refuse what follows: the next has its own.
    """
    try:
        client.drop_database(db, False, True)
    except NoSuchObjectException:
        return True
    except MetaException:
        client.close()
        client.open()
        return False
    return True


def revise(client: HMSClient, names: Iterable[str], rev: int) -> None:
    """Write ``rev`` into tables, and into the first partition of each that has some."""
    for name in names:
        db, _, table = name.partition(".")
        found = client.get_table(db, table)
        found.parameters["rev"] = str(rev)
        client.alter_table(db, table, found)
        if found.partitionKeys:
            partition = client.get_partition(db, table, [FIRST])
            partition.parameters["rev"] = str(rev)
            client.alter_partitions(db, table, [partition])


def seen(catalog: Subscriber, name: str) -> tuple[int, ...]:
    """Return the revision of a table and of its first partition."""
    found = catalog.partitions(name, f"ds = '{FIRST}'")
    table = int(catalog.table(name).parameters.get("rev", "0"))
    return table, int(found[0].parameters.get("rev", "0"))


def is_held(catalog: Subscriber, name: str) -> bool:
    """Tell whether a table is read from memory: its topic is joined, and its content loaded."""
    before = catalog.stats().pulls
    catalog.partitions(name)
    return catalog.stats().pulls == before
