"""Plants in what becomes of reported writes: outbox, reports, leases, the store of them.

Each is one line of a core, as in plants.py; PLANTS there begins with the protocol's own.
"""

from topicast.catalog.core import Catalog
from topicast.catalog.ingest.reports import Reports
from topicast.catalog.model.tables import Tables
from topicast.subscriber.engine.catalog_session import CatalogSession
from topicast.subscriber.engine.write_outbox import Outbox
from topicast.tests.sim.planting import Line, Plant

BY_SEED = ""

WRITE_PLANTS = (
    Plant(
        "a write is acknowledged once it is committed",
        BY_SEED,
        (
            Line(
                Catalog,
                "flush",
                "return (*effects, *replies)",
                "return (*replies, *effects)",
            ),
        ),
    ),
    Plant(
        "intents outlast a restart",
        BY_SEED,
        (
            Line(
                Reports,
                "__init__",
                "(driver.open if row.open else driver.done)[row.number] = row",
                "({} if row.open else driver.done)[row.number] = row",
            ),
        ),
    ),
    Plant(
        "a write that is told again has no second effect",
        BY_SEED,
        (Line(Reports, "_apply", "if done is not None:", "if False:"),),
    ),
    Plant(
        "what was told outlasts a restart",
        BY_SEED,
        (
            Line(
                Reports,
                "__init__",
                "(driver.open if row.open else driver.done)[row.number] = row",
                "(driver.open if row.open else {})[row.number] = row",
            ),
        ),
    ),
    Plant(
        "what waits to be told outlasts a new connection",
        BY_SEED,
        (
            Line(
                CatalogSession,
                "_hasten",
                "self.reports.hasten(now=now)",
                "self.reports.outbox.refuse(''); self.reports._requests.clear()",
            ),
        ),
    ),
    Plant(
        "an intent of a lost driver is taken for written",
        BY_SEED,
        (Line(Reports, "_lapse", "self._raise(row.object, row.partitions, at_us)", "pass"),),
    ),
    Plant(
        "the end of a write is told after its beginning",
        BY_SEED,
        (
            Line(
                Outbox,
                "_settle",
                "if self._queue.get(write.number) is write:",
                "if write.number in self._queue:",
            ),
        ),
    ),
    Plant(
        "a write that failed may have changed anything",
        BY_SEED,
        (Line(Reports, "_apply", "if one.state == ABANDONED:", "if one.state != WRITTEN:"),),
    ),
    Plant(
        "data version does not go back",
        BY_SEED,
        (
            Line(
                Tables,
                "_table",
                "have.data_version",
                "have.schema_version",
            ),
        ),
    ),
)
