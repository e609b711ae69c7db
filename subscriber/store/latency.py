"""Latency: how long pulls take, and so what is worth its bytes in memory: one measure for all.

    what something saves, in round trips == pulls that are not needed + their bytes / even bytes

Eviction ranks pulled tables by what they save for each byte, a large table is kept only if it saves
as much as those that it would evict, and the planner compares what the levels of topics save. A
reply of so many *even bytes* takes twice as long as an empty one. Source:
docs/design/0005-room.md.
"""

from typing import Final

ROUND_TRIP_S: Final = 0.002  # as long as no pull was measured
BYTES_PER_S: Final = 50e6
ROUND_TRIP_S_MIN, ROUND_TRIP_S_MAX = 1e-4, 1.0  # no network is nearer, or farther away
BYTES_PER_S_MIN, BYTES_PER_S_MAX = 1e6, 1e9
SMALL_BYTES: Final = 16 << 10  # a reply up to this size takes a round trip: it measures that
LARGE_BYTES: Final = 256 << 10  # a reply from this size on takes longer: it measures the rate
NEWS_SHARE: Final = 0.1  # what a measurement counts, against the estimate before it
FAR: Final = 4.0  # a measurement further off than so many times the estimate counts as that


class LatencyEstimate:
    """An estimate of how long a pull takes, as measured: a round trip, and time for its bytes.

    Small replies measure the round trip, large replies the rate. A single slow pull moves the
    estimate little, and a hundred of them move it to what they measure.
    """

    def __init__(self) -> None:
        self.round_trip_s = ROUND_TRIP_S
        self.bytes_per_s = BYTES_PER_S

    @property
    def even_bytes(self) -> float:
        """So many bytes take as long as the round trip that brings them."""
        return self.round_trip_s * self.bytes_per_s

    def note(self, size: int, took_s: float) -> None:
        """Take the measurement of a pull of ``size`` bytes; 0 seconds is none."""
        if took_s > 0 and size <= SMALL_BYTES:
            moved = _moved(self.round_trip_s, took_s)
            self.round_trip_s = min(max(moved, ROUND_TRIP_S_MIN), ROUND_TRIP_S_MAX)
        elif took_s > self.round_trip_s and size >= LARGE_BYTES:
            moved = _moved(self.bytes_per_s, size / (took_s - self.round_trip_s))
            self.bytes_per_s = min(max(moved, BYTES_PER_S_MIN), BYTES_PER_S_MAX)

    def saved(self, pulls: float, pulled_bytes: float) -> float:
        """Return the waiting that is saved without these pulls, in round trips.

        Pulls and bytes may be counted, or be rates: then it is what is saved in a second.
        """
        return pulls + pulled_bytes / self.even_bytes


def _moved(known: float, measured: float) -> float:
    near = min(max(measured, known / FAR), known * FAR)
    return known + NEWS_SHARE * (near - known)
