"""Whatever Spark and others do to a metastore: after a sync, subscribers equal it.

The machine of tests/integration, with statements. SEED and OPERATIONS are as there.
"""

from pathlib import Path

import pytest

from topicast.tests.hive.releases import RealMetastore
from topicast.tests.integration.machine import LONG, Machine, Stack, machine_of, run, stack
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.statements import Statements

SHORT = 40


class SparkStack(Stack):
    """All parts, and a driver that is not attached."""

    drivers: Drivers

    def changes(self, family: str) -> Statements:
        return self.made(Statements, family).run_by(self.drivers.writer)


class SparkMachine(Machine):
    """It begins with tables that Spark has made."""

    beginning = (*Machine.beginning, *("sql create",) * 2, "sql create as select", "sql insert")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "operations", [SHORT, pytest.param(LONG // 4, id="long", marks=pytest.mark.nightly)]
)
def test_statements_beside_other_changes_end_in_what_the_metastore_has(
    drivers: Drivers, hive: RealMetastore, tmp_path: Path, operations: int
) -> None:
    drivers.writer.do("'handle' in globals() and handle.detach()")
    with stack(hive, tmp_path, SparkStack) as parts:
        parts.drivers = drivers
        changes = parts.changes("none")
        kinds = (*changes.kinds, *changes.statements)  # these are drawn twice as often
        run(parts, machine_of(kinds, SparkMachine), operations=operations)
        assert any(kind.startswith("sql") for kind in parts.counts)
