import logging
from collections.abc import Iterator

import pytest

from topicast.cli.logs import log_to_stderr


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
