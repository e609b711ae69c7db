"""An estimate of how long a pull takes, as measured: a round trip, and time for its bytes.

Small replies tell the round trip, large ones the rate. A single slow pull says little, a hundred
of them are the truth: so a measurement counts a tenth, and at most FAR times what is known.
"""

from typing import Final

ROUND_TRIP_S: Final = 0.002  # as long as nothing was measured
BYTES_PER_S: Final = 50e6

SMALL_BYTES: Final = 16 << 10  # which take no time beside the round trip
LARGE_BYTES: Final = 256 << 10  # which do
NEWS_SHARE: Final = 0.1
FAR: Final = 4.0
ROUND_TRIP_S_MIN: Final = 1e-4  # nearer than that nothing is, nor farther away than that
ROUND_TRIP_S_MAX: Final = 1.0
BYTES_PER_S_MIN: Final = 1e6
BYTES_PER_S_MAX: Final = 1e9


class LatencyEstimate:
    """What a pull latency: ``round_trip_s``, and its bytes at ``bytes_per_s``."""

    def __init__(self) -> None:
        self.round_trip_s = ROUND_TRIP_S
        self.bytes_per_s = BYTES_PER_S

    def note(self, size: int, took_s: float) -> None:
        """Take the measurement of a pull of ``size`` bytes; 0 seconds is none."""
        if took_s > 0 and size <= SMALL_BYTES:
            moved = _moved(self.round_trip_s, took_s)
            self.round_trip_s = min(max(moved, ROUND_TRIP_S_MIN), ROUND_TRIP_S_MAX)
        elif took_s > self.round_trip_s and size >= LARGE_BYTES:
            moved = _moved(self.bytes_per_s, size / (took_s - self.round_trip_s))
            self.bytes_per_s = min(max(moved, BYTES_PER_S_MIN), BYTES_PER_S_MAX)

    def waiting_s(self, pulls: float, pulled_bytes: float) -> float:
        """Return how long so many pulls, with so many bytes in all, take."""
        return pulls * self.round_trip_s + pulled_bytes / self.bytes_per_s


def _moved(known: float, measured: float) -> float:
    near = min(max(measured, known / FAR), known * FAR)
    return known + NEWS_SHARE * (near - known)
