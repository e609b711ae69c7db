"""Shown: the newest position of each topic from which anything was ever answered.

Memory and pulls alike answer only at or above it, so no answer goes back behind another one.
It outlives a drop of the topic, and is what catalogd compares on its next start.
"""

from typing import Final

Position = tuple[int, int]  # epoch, version

NEVER: Final[Position] = (0, 0)


class Shown:
    """One lower bound a topic; it only rises."""

    def __init__(self) -> None:
        self._bounds: dict[int, Position] = {}

    def of(self, topic: int) -> Position:
        """Return the lower bound of ``topic``."""
        return self._bounds.get(topic, NEVER)

    def rise(self, topic: int, position: Position) -> None:
        """Something of ``topic`` at ``position`` is shown, or about to be."""
        if position > self.of(topic):
            self._bounds[topic] = position

    def versions(self, epoch: int) -> tuple[tuple[int, int], ...]:
        """Return (topic, version) of everything shown in ``epoch``, sorted."""
        bounds = sorted(self._bounds.items())
        return tuple((topic, at[1]) for topic, at in bounds if at[0] == epoch)
