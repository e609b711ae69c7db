"""Logging to standard error: one line for each change of state; results go to standard output."""

import logging
import sys
import time
from typing import Final

FORM: Final = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
TIME_FORM: Final = "%Y-%m-%dT%H:%M:%S"


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send every log line from ``level`` on to standard error, with the time in UTC."""
    formatter = logging.Formatter(FORM, TIME_FORM)
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)
