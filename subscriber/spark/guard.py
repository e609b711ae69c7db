"""Guard: where failures of ours end: a log line, a counter, and plain Spark.

Nothing that goes wrong here may reach the application whose driver this is.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


class Guard:
    """Counts what went wrong; ``last`` says what was last."""

    def __init__(self) -> None:
        self.errors = 0
        self.last = ""

    @contextmanager
    def __call__(self, doing: str, *, unless: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Run the block; whatever it raises ends here, and is counted ``unless`` it was wanted."""
        try:
            yield
        except Exception as exc:  # noqa: BLE001 - whatever it is, the application goes on
            if not unless():
                self.failed(doing, exc)

    def failed(self, doing: str, error: Exception) -> None:
        """Count ``error``, and log it unless it is the same as the one before."""
        self.errors += 1
        text = f"{doing}: {type(error).__name__}: {_first_line(error)}"
        if text != self.last:
            self.last = text
            log.warning("plain Spark instead: failed=%s", text)


def _first_line(error: Exception) -> str:
    """Return what an error says without Java's stack trace."""
    lines = str(error).split("\n\tat ")[0].splitlines()
    return " ".join(line.strip() for line in lines if line.strip())[:500]
