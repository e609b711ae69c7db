"""What a driver writes to its standard error about Topicast: a line for each change of state."""

import re
import time
from pathlib import Path
from typing import Final

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.processes import command
from topicast.tests.integration.daemons import both_daemons
from topicast.tests.spark.applications import Application, applications
from topicast.tests.waiting import until

OURS: Final = re.compile(r"topicast", re.IGNORECASE)
NUMBERS: Final = re.compile(r"tcp://127\.0\.0\.1:\d+")
LOSS_S: Final = 60
WAIT_S: Final = 60.0
LINES_MAX: Final = 6  # of the start, of a loss with the return, and of the end
LOST: Final = (
    "topicast agent: WARNING server not reached: problem=the statestored at # is not reached from "
    "here: is it running, and is its port open to this host?"
)
BACK: Final = "topicast agent: WARNING servers reached: the problem is over"


def logged(driver: Application) -> list[str]:
    """Return the lines about Topicast, without addresses."""
    return [NUMBERS.sub("#", line) for line in driver.log().splitlines() if OURS.search(line)]


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_driver_says_once_that_its_hub_is_lost_and_once_that_it_is_back(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    """Of a loss that lasts LOSS_S. Its start and its end are no news: it has no line of them."""
    with both_daemons(tmp_path, hive.uri) as daemons:
        run = command("main", "run", f"--statestores={daemons.hub_address}", "--")
        with applications(tmp_path, hive.uri, under=run, driver={}) as found:
            driver = found["driver"]
            driver.do("from topicast.subscriber.spark import attach; handle = attach(spark)")

            def is_live() -> bool:
                return bool(driver.do("handle.status().state") == "live")

            until(is_live, timeout_s=WAIT_S, what="the driver to be live")
            assert logged(driver) == []
            daemons.kill("statestored")
            began = time.monotonic()
            until(lambda: time.monotonic() - began > LOSS_S, timeout_s=2 * LOSS_S, what="a loss")
            assert logged(driver) == [LOST]
            daemons.start("statestored")
            until(lambda: BACK in logged(driver), timeout_s=WAIT_S, what="the line of the return")
            until(is_live, timeout_s=WAIT_S, what="the driver to be live again")
        lines = logged(driver)
    assert lines == [LOST, BACK]
    assert len(lines) <= LINES_MAX
    assert all(line.startswith("topicast") for line in lines)
