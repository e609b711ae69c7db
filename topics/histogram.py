"""Histogram: counts values by bounds, as Prometheus does, in memory of a fixed size."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Bounds of times: three for each power of ten, from a turn to a load of a large table."""


@dataclass(frozen=True, slots=True)
class HistogramFacts:
    """A histogram at one moment. ``counts``: for each bound the values up to it; last, all."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float  # of the values

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.counts[-1]


class Histogram:
    """Counts values between ``bounds``, which ascend."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)  # between two bounds, and above the last bound
        self._total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Count ``value``, ``count`` times."""
        self._counts[bisect_left(self._bounds, value)] += count
        self._total += value * count

    def facts(self) -> HistogramFacts:
        """Return what was counted so far."""
        return HistogramFacts(self._bounds, tuple(accumulate(self._counts)), self._total)
