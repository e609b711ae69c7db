"""Watch: the changes that one consumer has not read yet, merged into one for each object."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import translate
from typing import Final
from weakref import ref

from ...topics.errors import StaleMetadata
from ...topics.objects.changes import ChangeKind
from .. import arguments
from ..protocol.effects import Change

WAITING_MAX: Final = 100_000  # objects that wait: every table of a large metastore
ALL: Final = "*"


class Watch(Iterator[Change]):
    """Yields changes until the watch, or its subscriber, is closed. For one thread at a time.

    If more than WAITING_MAX objects wait, or the engine has restarted, the next call raises
    StaleMetadata once: the consumer then reads again what it follows, and goes on with the next
    change.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._matches = None if pattern == ALL else re.compile(_expression(pattern)).match
        self._ready = threading.Condition()
        self._waiting: dict[str, Change] = {}  # by object, the oldest change first
        self._lost = False  # whether changes were lost since the last call
        self._woken = False  # whether ``wake`` was called since the last wait
        self.closed = False  # no change comes any more
        self._urgent: Callable[[Change], bool] | None = None  # ``unless`` of a thread in ``rest``

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return (
            f"<Watch of {self._pattern!r}: {state}, changes of {len(self._waiting)} objects wait>"
        )

    def __next__(self) -> Change:
        """Wait for the next change."""
        change = self.next_within(None)
        if change is None:
            raise StopIteration
        return change

    def next_within(self, timeout_s: float | None) -> Change | None:
        """Return the next change; None: no change has come in time, or the watch is closed.

        Raises:
            StaleMetadata: changes were lost: read again, then go on.
        """
        with self._ready:
            self._await_news(timeout_s, until=self._has_news)
            if not self._waiting:
                return None
            return self._waiting.pop(next(iter(self._waiting)))

    def all_within(self, timeout_s: float) -> tuple[Change, ...]:
        """Return all changes that wait, as soon as there is one.

        Empty: no change has come in time, ``wake`` was called, or the watch is closed.

        Raises:
            StaleMetadata: as ``next_within``.
        """
        with self._ready:
            self._await_news(timeout_s, until=lambda: self._woken or self._has_news())
            waiting, self._waiting = self._waiting, {}
            self._woken = False
        return tuple(waiting.values())

    def rest(self, timeout_s: float, *, unless: Callable[[Change], bool]) -> None:
        """Wait for ``timeout_s``, or until a change waits for which ``unless`` returns true.

        Other changes do not even wake this thread. The thread that offers them calls ``unless``.
        """

        def is_over() -> bool:
            over = self._lost or self._woken or self.closed
            return over or any(map(unless, self._waiting.values()))

        with self._ready:
            self._urgent = unless
            self._ready.wait_for(is_over, timeout_s)
            self._urgent = None

    def wake(self) -> None:
        """End the wait of ``all_within`` or ``rest``, or the next wait; any thread may call it."""
        with self._ready:
            self._woken = True
            self._ready.notify_all()

    def lose(self) -> None:
        """Discard the changes that wait, and notify the consumer that changes were lost."""
        with self._ready:
            self._waiting.clear()
            self._lost = True
            self._ready.notify_all()

    def close(self) -> None:
        """End the iteration, also in a thread that waits for a change."""
        with self._ready:
            self.closed = True
            self._ready.notify_all()

    def offer(self, changes: tuple[Change, ...]) -> None:
        """Add the changes that match, each merged with a change of its object that waits."""
        matching = changes
        if self._matches is not None:
            matching = tuple(one for one in changes if self._matches(one.object))
        if not matching:
            return
        with self._ready:
            for change in matching:
                self._add(change)
            urgent = self._urgent
            if urgent is None or self._lost or _is_urgent(urgent, matching):
                self._ready.notify_all()

    def _add(self, change: Change) -> None:
        old = self._waiting.pop(change.object, None)
        if old is not None and change.kind in (ChangeKind.DATA, ChangeKind.SCHEMA):
            reshaped = (old.kind, change.kind) == (ChangeKind.DATA, ChangeKind.SCHEMA)
            change = replace(  # a creation stays a creation until it is read
                change,
                kind=ChangeKind.SCHEMA if reshaped else old.kind,
                files=old.files or change.files,
                overwritten=old.overwritten or change.overwritten,
            )
        self._waiting[change.object] = change
        if len(self._waiting) > WAITING_MAX:
            self._waiting.clear()
            self._lost = True

    def _await_news(self, timeout_s: float | None, *, until: Callable[[], bool]) -> None:
        if timeout_s is not None:
            timeout_s = arguments.timeout_s(timeout_s)
        self._ready.wait_for(until, timeout_s)
        if self._lost:
            self._lost = False
            raise StaleMetadata(
                f"more than {WAITING_MAX} changes waited, or the subscriber restarted: read again"
            )

    def _has_news(self) -> bool:
        return bool(self._waiting) or self._lost or self.closed


def _expression(pattern: str) -> str:
    """Return the regular expression of ``pattern``; without a dot it matches tables, too."""
    if "." in pattern:
        return translate(pattern)
    return f"{translate(pattern)}|{translate(f'{pattern}.*')}"


class Watches:
    """The open watches of one subscriber, held weakly."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: list[ref[Watch]] = []  # replaced, never changed: read without the lock

    def add(self, pattern: str) -> Watch:
        """Return a new watch."""
        watch = Watch(pattern)
        with self._lock:
            self._watches = [*self._watches, ref(watch)]
        return watch

    def __bool__(self) -> bool:
        return bool(self._watches)

    def offer(self, changes: tuple[Change, ...]) -> bool:
        """Offer ``changes`` to all watches; return False if none is open."""
        for held in self._watches:
            watch = held()
            if watch is None or watch.closed:
                self._remove(held)
            else:
                watch.offer(changes)
        return bool(self._watches)

    def lose(self) -> None:
        """Notify the consumers of all watches that changes were lost."""
        for held in self._watches:
            watch = held()
            if watch is not None:
                watch.lose()

    def wake(self) -> None:
        """Wake each thread that waits for changes, because the operators' rules have changed."""
        for held in self._watches:
            watch = held()
            if watch is not None:
                watch.wake()

    def close(self) -> None:
        """Close all watches."""
        for held in self._watches:
            watch = held()
            if watch is not None:
                watch.close()

    def _remove(self, gone: "ref[Watch]") -> None:
        with self._lock:
            self._watches = [one for one in self._watches if one is not gone]


def _is_urgent(urgent: Callable[[Change], bool], changes: tuple[Change, ...]) -> bool:
    """Return whether one of ``changes`` ends a rest; an error of ``urgent`` ends it, too."""
    try:
        return any(map(urgent, changes))
    except Exception:  # noqa: BLE001 - the function is the application's
        return True
