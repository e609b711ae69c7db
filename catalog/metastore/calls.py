"""Calls: how long calls of the metastore took, by its method, over all threads."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from ...topics.histogram import Histogram, HistogramFacts


class Calls:
    """Counts the calls of every connection; any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._times: dict[str, Histogram] = {}  # by method, of which there are a dozen

    @contextmanager
    def timed(self, method: str) -> Iterator[None]:
        """Count one call, from ``with`` to its end, also if it fails."""
        began = time.perf_counter()
        try:
            yield
        finally:
            took_s = time.perf_counter() - began
            with self._lock:
                self._times.setdefault(method, Histogram()).add(took_s)

    def facts(self) -> Mapping[str, HistogramFacts]:
        """Return the seconds of calls, by method."""
        with self._lock:
            return {method: times.facts() for method, times in sorted(self._times.items())}
