"""LatencyEstimate: how long pulls take, by which all content in memory is valued.

    what content saves, in round trips == pulls that are not needed + their bytes / even bytes

A reply of as many bytes as the *even bytes* takes twice as long as an empty reply. Eviction ranks
pulled tables by what they save for each byte. The resident set keeps a large table only if it saves
as much as the tables that it would evict. The planner compares what levels of topics save. Source:
docs/design/0005-room.md.
"""

from typing import Final

ROUND_TRIP_S: Final = 0.002  # until a pull is measured
BYTES_PER_S: Final = 50e6  # likewise
ROUND_TRIP_S_MIN, ROUND_TRIP_S_MAX = 1e-4, 1.0  # no network is nearer, or farther away
BYTES_PER_S_MIN, BYTES_PER_S_MAX = 1e6, 1e9
SMALL_BYTES: Final = 16 << 10  # a reply up to this size measures the round trip
LARGE_BYTES: Final = 256 << 10  # a reply from this size on measures the rate
NEWS_SHARE: Final = 0.1  # of a new estimate, that is the measurement; the rest is the old estimate
FAR: Final = 4.0  # a measurement counts as at most so many times the estimate, or as that fraction


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
        """How many bytes take as long as a round trip."""
        return self.round_trip_s * self.bytes_per_s

    def note(self, size: int, took_s: float) -> None:
        """Take a measurement: ``size`` bytes came in ``took_s`` seconds; 0 measures nothing."""
        if took_s > 0 and size <= SMALL_BYTES:
            moved = _moved(self.round_trip_s, took_s)
            self.round_trip_s = min(max(moved, ROUND_TRIP_S_MIN), ROUND_TRIP_S_MAX)
        elif took_s > self.round_trip_s and size >= LARGE_BYTES:
            moved = _moved(self.bytes_per_s, size / (took_s - self.round_trip_s))
            self.bytes_per_s = min(max(moved, BYTES_PER_S_MIN), BYTES_PER_S_MAX)

    def saved(self, pulls: float, pulled_bytes: float) -> float:
        """Return the waiting time of these pulls, in round trips.

        Pulls and bytes may also be rates per second; then it is the waiting time in a second.
        """
        return pulls + pulled_bytes / self.even_bytes


def _moved(known: float, measured: float) -> float:
    near = min(max(measured, known / FAR), known * FAR)
    return known + NEWS_SHARE * (near - known)
