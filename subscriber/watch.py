"""Watch: changes on their way to one consumer; of each object only the latest waits."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final
from weakref import ref

from ..topics.errors import StaleMetadata
from .facts import DATA_CHANGED, SCHEMA, Change

WAITING_MAX: Final = 100_000  # objects: every table of a large metastore once


class Watch(Iterator[Change]):
    """Yields changes until it, or its subscriber, is closed. For one thread at a time.

    A consumer so slow that more than WAITING_MAX objects wait for it is told by StaleMetadata to
    read again what it follows; the next changes come after it.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._ready = threading.Condition()
        self._waiting: dict[str, Change] = {}
        self._lost = False
        self._closed = False

    def __next__(self) -> Change:
        """Wait for the next change."""
        change = self.next_within(None)
        if change is None:
            raise StopIteration
        return change

    def next_within(self, timeout_s: float | None) -> Change | None:
        """Return the next change; None if there is none in time, or never will be.

        Raises:
            StaleMetadata: changes were lost: read again, then go on.
        """
        with self._ready:
            self._ready.wait_for(self._has_news, timeout_s)
            if self._lost:
                self._lost = False
                raise StaleMetadata(f"more than {WAITING_MAX} changes waited: read again")
            if not self._waiting:
                return None
            return self._waiting.pop(next(iter(self._waiting)))

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        return self._closed

    def close(self) -> None:
        """End the iteration, in whichever thread it waits."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()

    def offer(self, changes: tuple[Change, ...]) -> None:
        """Add what matches; the newest of an object stands, and a schema change outlasts data."""
        matching = [one for one in changes if fnmatchcase(one.object, self._pattern)]
        if not matching:
            return
        with self._ready:
            for change in matching:
                self._add(change)
            self._ready.notify_all()

    def _add(self, change: Change) -> None:
        old = self._waiting.pop(change.object, None)
        if old is not None and change.kind in (DATA_CHANGED, SCHEMA):
            stronger = old.kind if change.kind == DATA_CHANGED else _kept(old.kind)
            change = replace(change, kind=stronger, files=old.files or change.files)
        self._waiting[change.object] = change
        if len(self._waiting) > WAITING_MAX:
            self._waiting.clear()
            self._lost = True

    def _has_news(self) -> bool:
        return bool(self._waiting) or self._lost or self._closed


def _kept(kind: str) -> str:
    """Return what a schema change leaves of ``kind``: who has not seen a creation sees that."""
    return SCHEMA if kind == DATA_CHANGED else kind


class Watches:
    """The watches of one subscriber; one that nobody holds any more is forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: list[ref[Watch]] = []

    def add(self, pattern: str) -> Watch:
        """Return a new watch."""
        watch = Watch(pattern)
        with self._lock:
            self._watches.append(ref(watch))
        return watch

    def offer(self, changes: tuple[Change, ...]) -> bool:
        """Offer ``changes`` to all; False if nobody watches any more."""
        for watch in self._alive():
            watch.offer(changes)
        return bool(self._watches)

    def close(self) -> None:
        """Close all."""
        for watch in self._alive():
            watch.close()

    def _alive(self) -> list[Watch]:
        with self._lock:
            held = [(one, one()) for one in self._watches]
            alive = [(one, watch) for one, watch in held if watch is not None and not watch.closed]
            self._watches = [one for one, _ in alive]
        return [watch for _, watch in alive]
