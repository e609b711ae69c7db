"""Newest: a dict that keeps the keys that were put last, so many at most."""

from typing import TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Newest(dict[KeyT, ValueT]):
    """At most ``most`` keys, in the order in which they were last ``put``.

    For an LRU cache, ``put`` a key again when it is used. Only ``put`` keeps the bound:
    ``self[key] = value`` does not.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def put(self, key: KeyT, value: ValueT) -> None:
        """Set the value of ``key``, which is the newest now; drop the oldest if there are too many.

        Cost: O(1).
        """
        self.pop(key, None)
        self[key] = value
        if len(self) > self._most:
            del self[next(iter(self))]
