"""The newest position of each topic from which anything was ever answered.

Memory and pulls alike answer only at or above it, so no answer goes back behind another one.
It outlives a drop of the topic, and is what catalogd compares on its next start.
"""

from typing import Final

Position = tuple[int, int]  # epoch, version

NEVER: Final[Position] = (0, 0)


class ReadFloor:
    """One lower bound a topic; it only rises."""

    def __init__(self) -> None:
        self._bounds: dict[int, Position] = {}
        self._seen: set[int] = set()

    def of(self, topic: int) -> Position:
        """Return the lower bound of ``topic``."""
        return self._bounds.get(topic, NEVER)

    def answered(self, topic: int, position: Position) -> None:
        """Something of ``topic`` at ``position`` is shown, or about to be."""
        self.mark_seen(topic)
        self.raise_to(topic, position)

    def raise_to(self, topic: int, position: Position) -> None:
        """Nothing of ``topic`` below ``position`` is shown from now on."""
        if position > self.of(topic):
            self._bounds[topic] = position

    def mark_seen(self, topic: int) -> None:
        """From now on somebody may know how ``topic`` stands."""
        self._seen.add(topic)

    def was_seen(self, topic: int) -> bool:
        """Tell whether anybody may know how ``topic`` stood before."""
        return topic in self._seen

    def versions(self, epoch: int) -> tuple[tuple[int, int], ...]:
        """Return (topic, version) of everything shown in ``epoch``, sorted."""
        bounds = sorted(self._bounds.items())
        return tuple((topic, at[1]) for topic, at in bounds if at[0] == epoch)
