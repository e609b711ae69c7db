"""``handle.sync(scope=…)`` of an attached driver: what it waits for, and what it does not."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database, FieldSchema, Table

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.bench.metastores import KEY, add_partitions
from topicast.tests.cluster.fake_metastore import make_partition, make_table
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.integration.dam import Dam
from topicast.tests.integration.tables import connect
from topicast.tests.spark.applications import Failed
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.pair import BEFORE, WAIT_S, Pair

SMALL: Final = ("sold", "kept")
LARGE: Final = "scoped_large"  # a database, with one table
NAME: Final = f"{LARGE}.{LARGE}"
TYPE: Final = f"struct<{','.join(f'a_long_name_{number}:int' for number in range(55))}>"  # 1 KB
WIDE: Final = 250  # columns of that type, in each of so many partitions: 50 MB
PARTITIONS: Final = 200
FIRST_ID: Final = 300_000_000  # no other test makes partitions there
DAM_BYTES: Final = 200_000  # of each connection; what is beyond comes slowly: 50 MB in 150 s
SHORT_S: Final = 2.0


@dataclass
class Scoped(Pair):
    """A reader whose catalogd reads one table for minutes, or until the dam is opened."""

    dam: Dam

    def synced(self, scope: str, within_s: float = WAIT_S) -> None:
        self.reader.do(f"handle.sync({within_s}, scope={scope!r})")


def make_large(folder: Path) -> tuple[Table, Table]:
    """Return the table, and it with the columns of its partitions."""
    table = make_table(LARGE, LARGE, location=f"file:{folder}/t", keys=[KEY])
    wide = deepcopy(table)
    wide.sd.cols += [FieldSchema(f"c{number}", TYPE, "") for number in range(WIDE)]
    return table, wide


@pytest.fixture(scope="module")
def scoped(
    drivers: Drivers, hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scoped]:
    folder = tmp_path_factory.mktemp("scoped")
    drivers.reader.do("attach(spark).detach()")
    drivers.writer.sql("SET spark.sql.statistics.size.autoUpdate.enabled=true")  # an event for each
    Pair(drivers.writer, drivers.reader, drivers.daemons).create("scoped", SMALL)
    table, wide = make_large(folder)
    with (
        connect(hive.uri) as client,
        Dam(f"tcp{hive.uri[6:]}", bytes_max=DAM_BYTES, trickles=True) as dam,
    ):
        client.create_database(Database(LARGE, "", f"file:{folder}", {}))
        client.create_table(table)
        client.add_partitions([make_partition(wide, ["00000000"])])
        add_partitions(hive, LARGE, held=1, partitions=PARTITIONS, first_id=FIRST_ID)
        dam.opened.set()
        with both_daemons(folder, f"thrift{dam.address[3:]}") as daemons:
            found = Scoped(drivers.writer, drivers.reader, daemons, dam)
            found.attach(drivers.reader)
            dam.opened.clear()
            table.sd.cols.append(FieldSchema("c", "int", ""))
            client.alter_table(LARGE, LARGE, table)  # so that catalogd reads all partitions anew
            yield found
            drivers.reader.do("handle.detach()")
        client.drop_database(LARGE, False, True)


def test_sync_of_a_scope_returns_while_a_table_outside_it_is_still_read(scoped: Scoped) -> None:
    assert scoped.dam.held.wait(WAIT_S)
    rows = [*BEFORE]
    for row, scope in ((2, "scoped.sold"), (3, "scoped")):
        scoped.insert("scoped", SMALL, f"({row}, 'a')")
        rows.append([row, "a"])
        scoped.synced(scope)
        assert scoped.read("scoped", SMALL[:1]) == {SMALL[0]: rows}
    for scope in (NAME, LARGE, ""):
        with pytest.raises(Failed, match=f"NotReady.*{NAME}"):
            scoped.synced(scope, SHORT_S)
    scoped.dam.opened.set()
    for scope in (NAME, LARGE, ""):
        scoped.synced(scope)
    assert scoped.read("scoped", SMALL) == dict.fromkeys(SMALL, rows)


def test_scope_that_names_neither_a_table_nor_a_database_is_refused(scoped: Scoped) -> None:
    with pytest.raises(Failed, match="UsageError: 'a.b.c' is not a table's name"):
        scoped.synced("a.b.c")
