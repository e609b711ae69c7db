import logging
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from topicast.cli.logs import log_to_stderr
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.cli.processes import catalogd, statestored, steady_port
from topicast.tests.waiting import until


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_logs_go_to_standard_error_with_the_time_in_utc(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr()
    logging.getLogger("hub").info("member: state=%s", "LOST")
    logging.getLogger("hub").debug("not shown")
    printed = capsys.readouterr()
    assert printed.out == ""
    time, level, rest = printed.err.rstrip("\n").split(" ", 2)
    assert (level, rest) == ("INFO", "hub: member: state=LOST")
    assert len(time) == len("2026-11-21T01:23:45.123Z")
    assert time.endswith("Z")


STAMP = re.compile(r"^\S+Z (\w+) topicast\.", re.MULTILINE)
NUMBERS = re.compile(r"tcp://127\.0\.0\.1:\d+|/\S+|\b\d+(\.\d+)?\b")
LOSS_S = 60
LINES_MAX = 6  # of the start, of a loss with the return, and of the end
STARTED = (
    "INFO catalog.catalogd: clients admitted: count=#",
    "INFO cli.daemons: starts: daemon=catalogd release=",
    "INFO catalog.catalogd: hub: address=# state=CONNECTING reason=starting",
)
STARTED_HUB = (
    "INFO statestore.statestored: clients admitted: count=#",
    "INFO cli.daemons: starts: daemon=statestored",
)
LOST = (
    "INFO catalog.catalogd: hub: address=# state=WAITING reason=the hub is silent for # s",
    "WARNING catalog.catalogd: degraded: the statestored at # has not been connected for # s",
)
BACK = ("INFO catalog.catalogd: no longer degraded: hub_away #",)
ENDED = ("INFO cli.daemons: ends: signal=SIGTERM",)


def logged(log: Path) -> list[str]:
    """Return the lines of a log without times and numbers."""
    return [
        NUMBERS.sub("#", STAMP.sub(r"\1 ", line))
        for line in log.read_text().splitlines()
        if STAMP.match(line)
    ]


@pytest.mark.real
def test_log_of_catalogd_has_a_line_for_each_change_of_state(tmp_path: Path) -> None:
    """Its start, a hub that is lost and back, and its end; it has no metastore, and says so once.

    A loss that lasts adds no line: test_hub_that_does_not_answer_is_tried_again_and_said_once.
    """
    port = steady_port()
    hive = "thrift://127.0.0.1:1"
    hubs = f"tcp://127.0.0.1:{port}"
    with ExitStack() as up:
        hub = up.enter_context(statestored(tmp_path, f"--state_store_port={port}"))
        own = up.enter_context(catalogd(tmp_path, hive=hive, statestores=hubs))

        def came(*lines: str) -> list[str]:
            """Wait until these are the last lines that are not of the metastore."""

            def look() -> bool:
                nonlocal found
                found = [one for one in logged(own.log)[seen:] if "metastore reached" not in one]
                return len(found) >= len(lines)

            found: list[str] = []
            until(look, timeout_s=30, what=f"{lines}\nin {own.log.read_text()}")
            assert len(found) <= LINES_MAX
            for line, begin in zip(found, lines, strict=True):
                assert line.startswith(begin)
            return found

        seen = 0
        came(*STARTED)
        until(lambda: "metastore reached" in own.log.read_text(), timeout_s=30, what="the reason")
        seen = len(logged(own.log))
        assert hub.end() == 0
        assert logged(hub.log)[-1] == ENDED[0]
        came(*LOST)
        again = up.enter_context(statestored(tmp_path, f"--state_store_port={port}"))
        came(*LOST, *BACK)
        seen = len(logged(own.log))
        assert own.end() == 0
        came(*ENDED)
        assert again.end() == 0
        of_hub = [line.partition(" release=")[0] for line in logged(again.log)]
        assert of_hub == [*STARTED_HUB, *ENDED] * 2, "one file of both"
        assert sum("metastore reached" in line for line in logged(own.log)) == 1


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_log_of_a_hub_says_once_that_catalogd_is_lost_and_once_that_it_is_back(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
    """Of a loss that lasts LOSS_S."""
    port = steady_port()
    with ExitStack() as up:
        hub = up.enter_context(statestored(tmp_path))
        words = (tmp_path, f"--catalog_service_port={port}")
        stack = {"hive": hive.uri, "statestores": hub.ready["address"]}
        first = up.enter_context(catalogd(*words, **stack))
        until(lambda: hub.health() == (200, "serving\n"), timeout_s=60, what="the hub to serve")
        started = len(logged(hub.log))
        assert started <= LINES_MAX, logged(hub.log)
        first.process.kill()
        began = time.monotonic()
        until(lambda: time.monotonic() - began > LOSS_S, timeout_s=2 * LOSS_S, what="a long loss")
        lost = logged(hub.log)[started:]
        up.enter_context(catalogd(*words, **stack))
        until(lambda: hub.health() == (200, "serving\n"), timeout_s=60, what="the hub to serve")
        back = logged(hub.log)[started + len(lost) :]
        assert hub.end() == 0
        assert logged(hub.log)[-1] == ENDED[0]
        assert len(lost) + len(back) <= LINES_MAX, (lost, back)
        assert [line.startswith("WARNING") for line in lost] == [True], lost


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_log_of_catalogd_says_once_that_a_hub_is_lost_and_once_that_it_is_back(
    tmp_path: Path,
) -> None:
    """Of a loss that lasts LOSS_S. It has no metastore, and says so once in its start."""
    port = steady_port()
    hubs = f"tcp://127.0.0.1:{port}"
    with ExitStack() as up:
        hub = up.enter_context(statestored(tmp_path, f"--state_store_port={port}"))
        own = up.enter_context(catalogd(tmp_path, hive="thrift://127.0.0.1:1", statestores=hubs))
        until(lambda: "metastore reached" in own.log.read_text(), timeout_s=30, what="the reason")
        started = len(logged(own.log))
        assert started <= LINES_MAX, logged(own.log)
        hub.process.kill()
        began = time.monotonic()
        until(lambda: time.monotonic() - began > LOSS_S, timeout_s=2 * LOSS_S, what="a long loss")
        lost = logged(own.log)[started:]
        up.enter_context(statestored(tmp_path, f"--state_store_port={port}"))
        until(lambda: BACK[0] in logged(own.log)[-1], timeout_s=60, what="the hub to be back")
        back = logged(own.log)[started + len(lost) :]
        assert own.end() == 0
        assert logged(own.log)[-1] == ENDED[0]
        assert len(lost) + len(back) <= LINES_MAX, (lost, back)
        assert [line[: len(begin)] for line, begin in zip(lost, LOST, strict=True)] == [*LOST]
        assert back == [*BACK]
