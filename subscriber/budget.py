"""Budget: the bytes that a subscriber may hold, by topic: held, and reserved for what comes.

    committed == sum over topics of max(held, reserved) <= limit, as far as reservations go

A catch-up reserves before it asks, so that what is under way has its place; what is held
beyond any reservation (deltas) is checked before it is put in place.
"""


class Budget:
    """Counts bytes; decides nothing."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._committed = 0
        self._held: dict[int, int] = {}
        self._reserved: dict[int, int] = {}

    @property
    def free_bytes(self) -> int:
        """What is neither held nor reserved."""
        return self.limit_bytes - self._committed

    def held(self, topic: int) -> int:
        """The bytes held of ``topic``."""
        return self._held.get(topic, 0)

    def committed(self, topic: int) -> int:
        """The bytes held of ``topic``, or reserved for it if that is more."""
        return max(self._held.get(topic, 0), self._reserved.get(topic, 0))

    def unfilled(self, topic: int) -> int:
        """The reserved bytes of ``topic`` that are not held yet."""
        return max(self._reserved.get(topic, 0) - self._held.get(topic, 0), 0)

    def hold(self, topic: int, growth: int) -> None:
        """Count ``growth`` bytes more, or fewer, as held."""
        self._committed -= self.committed(topic)
        self._held[topic] = self._held.get(topic, 0) + growth
        self.held_bytes += growth
        self._committed += self.committed(topic)

    def reserve(self, topic: int, size: int) -> None:
        """Set aside ``size`` bytes for ``topic``, what it holds included; 0 ends it."""
        self._committed -= self.committed(topic)
        self._reserved[topic] = size
        self._committed += self.committed(topic)

    def release(self, topic: int) -> None:
        """Forget ``topic``: nothing of it is held or reserved."""
        self._committed -= self.committed(topic)
        self.held_bytes -= self._held.pop(topic, 0)
        self._reserved.pop(topic, None)

    def fits(self, topic: int, growth: int) -> bool:
        """Tell whether ``topic`` may hold ``growth`` bytes more."""
        more = max(self.held(topic) + growth - self.committed(topic), 0)
        return growth <= 0 or more <= self.free_bytes

    def largest(self, but: int) -> int | None:
        """Return the topic that has most committed, other than ``but``; None if there is none."""
        topics = sorted({**self._held, **self._reserved})
        sizes = {topic: self.committed(topic) for topic in topics if topic != but}
        held = [topic for topic, size in sizes.items() if size]
        return max(held, key=sizes.__getitem__, default=None)

    def check(self) -> None:
        """Assert every invariant."""
        topics = {**self._held, **self._reserved}
        assert self._committed == sum(map(self.committed, topics))
        assert self.held_bytes == sum(self._held.values())
        assert all(held >= 0 for held in self._held.values())
        assert self.held_bytes <= self.limit_bytes
