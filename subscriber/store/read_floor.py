"""The read floor: the newest position of each topic from which anything was ever answered.

Memory and pulls answer only at or above it, so no answer is older than one before it. It survives
a drop of the topic, and is what catalogd compares at its next start.
"""

from typing import Final

Position = tuple[int, int]  # epoch, version

NEVER: Final[Position] = (0, 0)


class ReadFloor:
    """One lower bound a topic; it only rises."""

    def __init__(self) -> None:
        self._bounds: dict[int, Position] = {}  # by topic
        self._seen: set[int] = set()  # topics of which a reader may know something

    def of(self, topic: int) -> Position:
        """Return the lower bound of ``topic``."""
        return self._bounds.get(topic, NEVER)

    def answered(self, topic: int, position: Position) -> None:
        """Something of ``topic`` is answered as of ``position``."""
        self.mark_seen(topic)
        self.raise_to(topic, position)

    def raise_to(self, topic: int, position: Position) -> None:
        """Raise the floor of ``topic`` to ``position``, if it is lower."""
        if position > self.of(topic):
            self._bounds[topic] = position

    def mark_seen(self, topic: int) -> None:
        """Note that a reader may know something of ``topic``."""
        self._seen.add(topic)

    def was_seen(self, topic: int) -> bool:
        """Return whether a reader may know something of ``topic``."""
        return topic in self._seen

    def versions(self, epoch: int) -> tuple[tuple[int, int], ...]:
        """Return (topic, version) of every floor in ``epoch``, sorted."""
        bounds = sorted(self._bounds.items())
        return tuple((topic, at[1]) for topic, at in bounds if at[0] == epoch)
