"""Two drivers write and two read at once: nothing is stale, and what fails could not but fail.

`make soak` takes longer, and shows what was found.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from topicast.tests.spark.applications import Application
from topicast.tests.spark.cells import EVERY_CELL
from topicast.tests.spark.conftest import Drivers
from topicast.tests.spark.soaking import WRITERS, Note
from topicast.tests.spark.verdicts import FRESH, WRONG, judge, shown

SOAK_S: Final = float(os.environ.get("SOAK_S", "2"))
LATE_S_MAX: Final = float(os.environ.get("LATE_S", "10"))  # 1 in make soak, which runs alone
WAIT_S: Final = 60


@pytest.fixture(scope="module")
def four(drivers: Drivers, more: dict[str, Application]) -> list[Application]:
    """Two writers, two readers; two are attached by a call, two by how they were started."""
    four = [drivers.writer, more["writer"], drivers.reader, more["reader"]]
    for one in four:
        one.do("from topicast.subscriber.spark import attach")
        if one not in more.values():
            one.do("'handle' in globals() and handle.detach()")
            one.do(f"handle = attach(spark, {drivers.daemons.hub_address!r})")
        one.do(f"handle = attach(spark); handle.sync({WAIT_S})")
        one.do("from topicast.tests.spark import soaking")
    return four


nightly = (lambda test: test) if EVERY_CELL else pytest.mark.nightly  # make soak takes it at length


@nightly
@pytest.mark.timeout(SOAK_S + 180)
def test_while_two_write_two_read_nothing_stale(four: list[Application]) -> None:
    four[0].do("soaking.prepare(spark, threads)")
    works = [f"write(spark, {writer}, seconds={SOAK_S})" for writer in WRITERS]
    works += [f"read(spark, {seed}, seconds={SOAK_S})" for seed in (1, 2)]
    with ThreadPoolExecutor(len(four)) as threads:
        notes = list(threads.map(lambda one, work: one.do(f"soaking.{work}"), four, works))
    first, second, *reads = ([Note(**one) for one in of] for of in notes)
    verdicts = judge(first + second, reads[0] + reads[1])
    print("", shown(verdicts), sep="\n")
    assert {one.kind for one in verdicts} >= {FRESH}
    assert [one for one in verdicts if one.kind == WRONG] == []
    assert [one for one in verdicts if one.late_s > LATE_S_MAX] == []
    for seed, one in enumerate(four[2:]):
        one.do(f"handle.sync({WAIT_S})")
        behind = [Note(**note) for note in one.do(f"soaking.read(spark, {seed}, seconds=0)")]
        assert {verdict.kind for verdict in judge(first + second, behind)} == {FRESH}
    for one in four:
        assert one.do("[handle.status().errors, handle.status().full_refreshes]") == [0, 1]
