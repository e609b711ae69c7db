"""Where a test of the metastore happens: what it reads from, what it writes to, which database."""

from dataclasses import dataclass
from typing import Any

from hmsclient.genthrift.hive_metastore.ttypes import Table

from topicast.catalog.metastore.port import Metastore
from topicast.tests.catalog.fake_metastore import make_table


@dataclass(frozen=True, slots=True)
class Place:
    """A metastore under test, who writes to it, and a database of the test's own."""

    reads: Metastore
    writes: Any
    db: str
    location: str

    def table(self, name: str, *keys: str) -> Table:
        table = make_table(self.db, name, location=f"{self.location}/{name}", keys=keys)
        self.writes.create_table(table)
        return table
