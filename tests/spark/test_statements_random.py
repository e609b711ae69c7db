"""After any statements, drawn, of any driver, attached drivers answer as plain Spark does.

    drivers, attached or not ──▶ some statements ──▶ all sync ──▶ drawn queries: rows, plans, names

The plain driver caches nothing, so what it answers is true. SEED=7 replays an order; OPERATIONS=60
makes it longer. If relations are not renewed (``Catalyst.renew`` does nothing), SEED=11 fails at
the 15th operation. Statements that change rows are of attached drivers only: Spark leaves no event
of a write into a partition that exists, and such a write is a sweep's (docs/pipelines.md).
"""

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.spark.applications import Application, applications
from topicast.tests.spark.drawn_sql import DATABASES, DrawnSql
from topicast.tests.spark.test_planning_random import WAIT_S, is_on, say

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7200)]

OPERATIONS: Final = int(os.environ.get("OPERATIONS", "30"))
ATTACHED: Final = ("writer", "reader")
PLAIN: Final = "plain"
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

def answers(queries):
    found = threads.map(lambda query: read(lambda: spark.sql(query)), queries)
    return [told(answer) for answer in found]
"""


@pytest.fixture
def seed() -> str:
    return os.environ.get("SEED") or str(random.randrange(1 << 32))


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


def test_attached_drivers_answer_as_plain_spark(
    drivers: dict[str, Application], tmp_path: Path, seed: str
) -> None:
    print(f"SEED={seed}")
    rng = random.Random(seed)
    drawn = DrawnSql(rng, str(tmp_path / "elsewhere"))
    asked = 0
    for now in range(OPERATIONS):
        for _ in range(rng.choice((1, 2, 4, 6)) if now else 12):
            _run(drawn, drivers, rng)
        for _ in range(2):  # what the writer has reported is known before the reader syncs
            for name in ATTACHED:
                drivers[name].do(f"handle.sync({WAIT_S})")
        queries, who = drawn.queries(), rng.choice(ATTACHED)
        for name in (who, PLAIN):
            drivers[name].send(f"answers({queries!r})")
        found, truth = drivers[who].receive(), drivers[PLAIN].receive()
        for query, one, true in zip(queries, found, truth, strict=True):
            assert one == true, f"{now}: {who} is wrong: {query}"
        asked += len(queries)
    for name in ATTACHED:
        status = drivers[name].do("[(it := handle.status()).memory_reads, it.errors]")
        say(f"{name}: {status[0]} reads from memory, {asked} queries compared")
        assert status[0] > 0
        assert status[1] == 0, drivers[name].do("handle.status().last_error")


def _run(drawn: DrawnSql, drivers: dict[str, Application], rng: random.Random) -> None:
    """Let a driver run a statement."""
    statement = drawn.statement()
    writes = statement.startswith(WRITES) or " AS SELECT id, s FROM " in statement
    who = rng.choice(ATTACHED if writes else (*ATTACHED, PLAIN))
    answer = drivers[who].rows(statement)
    if isinstance(answer, list):
        drawn.succeeded()
    say(f"{who}: {statement} {'' if isinstance(answer, list) else answer}")
