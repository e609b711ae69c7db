"""The boundary where Topicast's failures end: a log line, a counter, and plain Spark.

Nothing that goes wrong here may reach the application whose driver this is.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


class Guard:
    """Counts failures; any thread may use it."""

    def __init__(self) -> None:
        self.errors = 0  # since the start
        self.last_error = ""

    @contextmanager
    def __call__(self, doing: str, *, unless: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Run the block and end whatever it raises; count it ``unless`` it was to be expected."""
        try:
            yield
        except Exception as exc:  # noqa: BLE001 - whatever it is, the application goes on
            if not unless():
                self.failed(doing, exc)

    def failed(self, doing: str, error: Exception | str) -> None:
        """Count ``error``, and log it unless it is the same as the error before."""
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
