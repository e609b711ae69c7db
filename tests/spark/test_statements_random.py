"""After any statements, drawn, of any driver, attached drivers answer as plain Spark does.

    drivers, attached or not ──▶ some statements ──▶ all sync ──▶ drawn queries: rows, plans, names

Two drivers host a Thrift server and a server of Spark Connect, and run statements and queries in
sessions of these, too. An answer is compared with that of the plain driver in a session of the same
kind. The plain driver caches nothing, so what it answers is true; a function that was replaced is
refreshed in both (docs/spark.md). SEED=7 replays an order; OPERATIONS=60 makes it longer. If
relations are renewed neither by the agent nor as a plan reads them (``Catalyst.renew`` and
``renew`` of TopicastRelations do nothing), SEED=11 fails at the 21st operation. Statements that
change rows are of attached drivers only: Spark leaves no event of a write into a partition that
exists, and such a write is a sweep's (docs/pipelines.md).
"""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.spark.applications import SPARK, Application, Client, applications
from topicast.tests.spark.drawn_sql import DATABASES, FUNCTION, DrawnSql
from topicast.tests.spark.servers import connect_server, thrift_server
from topicast.tests.spark.test_planning_random import WAIT_S, is_on, say

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7200)]

OPERATIONS: Final = int(os.environ.get("OPERATIONS", "30"))
ATTACHED: Final = ("writer", "reader")
PLAIN: Final = "plain"
HOSTS: Final = ("reader", PLAIN)  # of servers
WRITES: Final = ("INSERT", "TRUNCATE", "MSCK", "ANALYZE", "SET")
CONF: Final = {"spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict"}
CACHE_NOTHING: Final = {
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    "spark.sql.filesourceTableRelationCacheSize": "0",
}
ANSWERS: Final = r"""
import re
PASSING = r"#\d+L?|plan_id=\d+|(Last Access|transient_lastDdlTime)[^\n,)]*"  # differs by itself

def told(answer):
    if isinstance(answer, str):
        return re.sub(PASSING, "", answer)
    rows = [[re.sub(PASSING, "", str(value)) for value in row] for row in answer]
    return [row for row in rows if row[0]]

def of_jdbc(answer):
    condition = re.search(r"\[[A-Z_.]+\]", answer) if isinstance(answer, str) else None
    return condition[0] if condition else answer

def answers(queries):
    found = threads.map(lambda query: read(lambda: spark.sql(query)), queries)
    return [told(answer) for answer in found]

def jdbc_answers(queries):
    return [told(of_jdbc(jdbc(query))) for query in queries]
"""


@pytest.fixture
def seed() -> str:
    return os.environ.get("SEED") or str(random.randrange(1 << 32))


@dataclass(frozen=True)
class Way:
    """A way to a driver: ``application`` asks it, by its function ``by``."""

    application: Application
    by: str = "answers"

    def send(self, queries: list[str]) -> None:
        """Have the driver answer ``queries``."""
        self.application.send(f"{self.by}({queries!r})")

    def run(self, statement: str) -> Any:
        """Return the answer to one statement: its rows, or the error as a text."""
        (answer,) = self.application.do(f"{self.by}({[statement]!r})")
        return answer


Ways = dict[str, dict[str, Way]]  # by driver, and by kind of session


@pytest.fixture
def drivers(hive: EmbeddedMetastore, tmp_path: Path) -> Iterator[dict[str, Application]]:
    names = {**dict.fromkeys(ATTACHED, CONF), PLAIN: {**CONF, **CACHE_NOTHING}}
    with ExitStack() as up:
        daemons = up.enter_context(both_daemons(tmp_path, hive.uri))
        all_of_them = up.enter_context(applications(tmp_path, hive.uri, **names))
        plain = all_of_them[PLAIN]
        plain.sql(*(f"CREATE DATABASE {name}" for name in DATABASES))
        up.callback(plain.sql, *(f"DROP DATABASE {name} CASCADE" for name in DATABASES))
        for name, driver in all_of_them.items():
            driver.do(ANSWERS)
            if name != PLAIN:
                driver.do("from topicast.subscriber.spark import attach")
                driver.do(f"handle = attach(spark, {daemons.hub_address!r})")
                driver.rows("SHOW DATABASES")
                is_on(driver)
        yield all_of_them


@pytest.fixture
def ways(drivers: dict[str, Application], tmp_path: Path) -> Iterator[Ways]:
    found = {name: {"driver": Way(driver)} for name, driver in drivers.items()}
    with ExitStack() as up:
        for name in HOSTS:
            up.enter_context(thrift_server(drivers[name], drivers[name]))
            found[name]["thrift"] = Way(drivers[name], "jdbc_answers")
            if SPARK >= (4, 0):  # PySpark 3.5 has no jar of Spark Connect's server
                address = up.enter_context(connect_server(drivers[name]))
                (tmp_path / f"client-{name}").mkdir()
                client = Client(tmp_path / f"client-{name}", address)
                up.callback(client.end)
                client.do(ANSWERS)
                found[name]["connect"] = Way(client)
        yield found


def test_attached_drivers_answer_as_plain_spark(
    drivers: dict[str, Application], ways: Ways, tmp_path: Path, seed: str
) -> None:
    print(f"SEED={seed}")
    rng = random.Random(seed)
    drawn = DrawnSql(rng, str(tmp_path / "elsewhere"))
    asked = dict.fromkeys(ways[PLAIN], 0)
    for now in range(OPERATIONS):
        for _ in range(rng.choice((1, 2, 4, 6)) if now else 12):
            _run(drawn, ways, rng)
        for _ in range(2):  # what the writer has reported is known before the reader syncs
            for name in ATTACHED:
                drivers[name].do(f"handle.sync({WAIT_S})")
        queries, who = drawn.queries(), rng.choice(ATTACHED)
        kind = rng.choice([*ways[who]])
        for way in (ways[who][kind], ways[PLAIN][kind]):
            way.run(f"REFRESH FUNCTION {FUNCTION}")
            way.send(queries)
        found, truth = (ways[name][kind].application.receive() for name in (who, PLAIN))
        for query, one, true in zip(queries, found, truth, strict=True):
            assert one == true, f"{now}: {who} is wrong, asked by {kind}: {query}"
        asked[kind] += len(queries)
    for name in ATTACHED:
        status = drivers[name].do("[(it := handle.status()).memory_reads, it.errors]")
        say(f"{name}: {status[0]} reads from memory, queries compared: {asked}")
        assert status[0] > 0
        assert status[1] == 0, drivers[name].do("handle.status().last_error")


def _run(drawn: DrawnSql, ways: Ways, rng: random.Random) -> None:
    """Let a driver run a statement, in a session of any kind."""
    statement = drawn.statement()
    writes = statement.startswith(WRITES) or " AS SELECT id, s FROM " in statement
    who = rng.choice(ATTACHED if writes else (*ATTACHED, PLAIN))
    kind = rng.choice([*ways[who]])
    answer = ways[who][kind].run(statement)
    if isinstance(answer, list):
        drawn.succeeded()
    say(f"{who} by {kind}: {statement} {'' if isinstance(answer, list) else answer}")
