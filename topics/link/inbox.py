"""Inbox: how other threads hand something to the thread that owns a link. Bounded; wakes it.

thread ──put──▶ [ at most items_max ] ──take──▶ owner, after poll returned
"""

from collections.abc import Callable
from queue import Empty, Full, Queue
from typing import Final, Generic, TypeVar

from ..errors import NotReady

ITEMS_MAX: Final = 1000  # calls of an application's threads that wait at once
TAKEN_MAX: Final = 200  # one turn's share, as of each socket

T = TypeVar("T")


class Inbox(Generic[T]):
    """Items from any thread to one; nothing is lost between ``put`` and ``take``."""

    def __init__(self, wake: Callable[[], None], *, items_max: int = ITEMS_MAX) -> None:
        self._wake = wake
        self._items: Queue[T] = Queue(items_max)

    def put(self, item: T, *, timeout_s: float) -> None:
        """Hand ``item`` over and wake the owner; wait while the inbox is full.

        Raises:
            NotReady: it was still full after ``timeout_s``; the item was not taken.
            UsageError: the link belongs to another process.
        """
        self._wake()  # refuses in a forked child, before anything is handed over to nobody
        try:
            self._items.put(item, timeout=max(timeout_s, 0.0))
        except Full as exc:
            waiting = self._items.maxsize
            raise NotReady(f"{waiting} calls are waiting after {timeout_s} s; try again") from exc
        self._wake()

    def take(self) -> list[T]:
        """Return what was put, oldest first, at most ``TAKEN_MAX``; wake again for the rest."""
        taken: list[T] = []
        try:
            while len(taken) < TAKEN_MAX:
                taken.append(self._items.get_nowait())
        except Empty:
            return taken
        self._wake()
        return taken
