"""Newest: a dict that keeps the keys that were put last, so many at most."""

from typing import TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Newest(dict[KeyT, ValueT]):
    """At most ``most`` keys, in the order in which they were last ``put``.

    A key whose use is to count puts its value again. Other ways to set a value keep no bound.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def put(self, key: KeyT, value: ValueT) -> None:
        """Make ``value`` that of ``key``, now the newest; drop the oldest of too many.

        Cost: O(1).
        """
        self.pop(key, None)
        self[key] = value
        if len(self) > self._most:
            del self[next(iter(self))]
