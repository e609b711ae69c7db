"""Guard: ends failures of Topicast in a log line and a counter, and the driver is plain Spark.

No error of ours may reach the application whose driver this is.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


class Guard:
    """Counts failures; any thread may use it."""

    def __init__(self) -> None:
        self.errors = 0  # failures since the start
        self.last_error = ""  # what was done, and the text of the error, in one line

    @contextmanager
    def __call__(self, doing: str, *, unless: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Run the block; catch what it raises, and count that ``unless`` it was to be expected.

        ``doing``: what the block does, for the log. ``unless`` is called once the block has failed.
        """
        try:
            yield
        except Exception as exc:  # noqa: BLE001 - the application goes on after any error
            if not unless():
                self.failed(doing, exc)

    def failed(self, doing: str, error: Exception | str) -> None:
        """Count ``error``, and log it unless the failure before had the same text."""
        self.errors += 1
        kind = "" if isinstance(error, str) else f"{type(error).__name__}: "
        text = f"{doing}: {kind}{first_line(error)}"
        if text != self.last_error:
            self.last_error = text
            log.warning("plain Spark instead: failed=%s", text)


def first_line(error: Exception | str) -> str:
    """Return the text of an error in one line, without Java's stack trace."""
    lines = str(error).split("\n\tat ")[0].splitlines()
    return " ".join(line.strip() for line in lines if line.strip())[:500]
