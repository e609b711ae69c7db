"""Logging to standard error: one line for each change of state; results go to standard output."""

import logging
import sys
import time
from collections import deque
from typing import Final

FORM: Final = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
TIME_FORM: Final = "%Y-%m-%dT%H:%M:%S"
LINES_MAX: Final = 500  # that are kept
LINE_MAX: Final = 2000  # characters of a kept line: 1 MB in all


class RecentLines(logging.Handler):
    """Keeps the last lines of the log; any thread may read them."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=LINES_MAX)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, cut at LINE_MAX."""
        self._lines.append(self.format(record)[:LINE_MAX])

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines of the log, the oldest first."""
        self.acquire()
        try:
            return tuple(self._lines)
        finally:
            self.release()


def log_to_stderr(level: int = logging.INFO) -> RecentLines:
    """Send every log line from ``level`` on to standard error, with the time in UTC.

    Returns:
        The handler that keeps the last lines.
    """
    formatter = logging.Formatter(FORM, TIME_FORM)
    formatter.converter = time.gmtime
    recent = RecentLines()
    handlers = [logging.StreamHandler(sys.stderr), recent]
    for handler in handlers:
        handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=handlers, force=True)
    return recent
