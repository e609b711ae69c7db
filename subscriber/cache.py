"""Cache: in which order pulled tables are given up. A segmented LRU, in bytes.

    kept ──▶ probation ──used since──▶ protected ──its share is full──▶ probation ──▶ given up

Readers only leave a mark (``Content.used``), without a lock; the mark is looked at, and wiped,
when room is needed. So a scan of many tables, each used once, pushes out no table in use.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

PROTECTED_SHARE: Final = 0.8  # of all bytes kept

Key = tuple[int, bytes]  # topic, group


class Cache:
    """The keys of what is kept, with their bytes; ``used`` tells, and wipes, a key's mark."""

    def __init__(self, used: Callable[[Key], bool]) -> None:
        self.held_bytes = 0
        self._used = used
        self._probation: OrderedDict[Key, int] = OrderedDict()
        self._protected: OrderedDict[Key, int] = OrderedDict()
        self._protected_bytes = 0

    def __len__(self) -> int:
        return len(self._probation) + len(self._protected)

    def __contains__(self, key: Key) -> bool:
        return key in self._probation or key in self._protected

    def note(self, key: Key, size: int) -> None:
        """Take that ``key`` is kept, with ``size`` bytes; what is new is on probation."""
        if key in self._protected:
            self._protected_bytes += size - self._protected[key]
            self.held_bytes += size - self._protected[key]
            self._protected[key] = size
            return
        self.held_bytes += size - self._probation.get(key, 0)
        self._probation[key] = size

    def discard(self, key: Key) -> None:
        """Take that ``key`` is kept no more."""
        if key in self._protected:
            size = self._protected.pop(key)
            self._protected_bytes -= size
            self.held_bytes -= size
        else:
            self.held_bytes -= self._probation.pop(key, 0)

    def victim(self) -> Key | None:
        """Return what should be given up next; None if nothing is kept."""
        for _ in range(2 * len(self)):
            if not self._probation:
                self._demote()
                continue
            key = next(iter(self._probation))
            if not self._used(key):
                return key
            self._promote(key)
        return next(iter(self._probation or self._protected), None)

    def check(self) -> None:
        """Assert every invariant."""
        assert not self._probation.keys() & self._protected.keys()
        assert self._protected_bytes == sum(self._protected.values())
        assert self.held_bytes == self._protected_bytes + sum(self._probation.values())

    def _promote(self, key: Key) -> None:
        size = self._probation.pop(key)
        self._protected[key] = size
        self._protected_bytes += size
        while (
            self._protected_bytes > PROTECTED_SHARE * self.held_bytes and len(self._protected) > 1
        ):
            self._demote()

    def _demote(self) -> None:
        key, size = self._protected.popitem(last=False)
        self._protected_bytes -= size
        self._probation[key] = size
