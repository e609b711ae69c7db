import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from topicast.cli.logs import log_to_stderr
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
LINES_MAX = 6  # of the start, of a loss with the return, and of the end
STARTED = (
    "INFO catalog.catalogd: clients admitted: count=#",
    "INFO cli.daemons: starts: daemon=catalogd release=",
    "INFO catalog.catalogd: hub: address=# state=CONNECTING reason=starting",
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
        up.enter_context(statestored(tmp_path, f"--state_store_port={port}"))
        came(*LOST, *BACK)
        seen = len(logged(own.log))
        assert own.end() == 0
        came(*ENDED)
        assert sum("metastore reached" in line for line in logged(own.log)) == 1
