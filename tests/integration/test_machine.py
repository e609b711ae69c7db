"""Whatever is done to a metastore and to our daemons: after a sync, subscribers equal it.

SEED=7 draws another order, OPERATIONS=4000 more operations; SHRINK=1 looks for the shortest
failure.
"""

from pathlib import Path

import pytest

from topicast.tests.hive.releases import RealMetastore
from topicast.tests.integration.machine import LONG, Machine, machine_of, run, stack

SHORT = 120
EVERY_KIND = 2_000  # operations, in which there is each kind


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "operations", [SHORT, pytest.param(LONG, id="long", marks=pytest.mark.nightly)]
)
def test_drawn_changes_pauses_kills_and_lost_events_end_in_what_the_metastore_has(
    hive: RealMetastore, tmp_path: Path, operations: int
) -> None:
    with stack(hive, tmp_path) as parts:
        kinds = parts.changes("none").kinds
        run(parts, machine_of(kinds, Machine), operations=operations)
        assert parts.counts["look"] >= operations // 20
        if operations >= EVERY_KIND:
            assert [kind for kind in kinds if not parts.counts[kind]] == []
