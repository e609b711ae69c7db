"""Ahead: the objects of which a driver knows a change that its endpoint does not answer with yet.

the driver's subscriber has a change ──▶ ahead ──the agent reports it, or one after it──▶ passed
                                           └──a sync of the agent that began later──▶ passed
"""

from collections.abc import Mapping
from typing import Final

from ....topics.topic import epoch_of
from ...protocol.effects import CREATED, DROPPED, Change, ChangeKind

PASSED_MAX: Final = 10_000  # objects of which the agent's newest change is known: 1 MB

Key = tuple[str, bool]  # an object, and whether the namespace has its version, or its own topic
Stamp = tuple[int, int]  # epoch and version of that topic


class Ahead:
    """What is ahead of one agent. Not for several threads at once."""

    def __init__(self) -> None:
        self._passed: dict[Key, Stamp] = {}  # the agent's newest change, the last one last
        self._ahead: dict[Key, Stamp] = {}
        self._since: float | None = None  # seconds: since when something is; None: nothing is

    @property
    def names(self) -> list[str]:
        """The objects that are ahead."""
        return [name for name, _ in self._ahead]

    def is_late(self, *, now: float, after_s: float) -> bool:
        """Whether something has been ahead for ``after_s``: the agent may never speak of it."""
        return self._since is not None and now >= self._since + after_s

    def know(self, change: Change, *, now: float) -> bool:
        """Note a change that the driver's subscriber has; return whether that is ahead."""
        key, stamp = key_of(change), (epoch_of(change.version), int(change.version))
        if key in self._passed and _reaches(self._passed[key], stamp):
            return False
        self._ahead[key] = stamp
        self._since = now if self._since is None else self._since
        return True

    def report(self, key: Key, stamp: Stamp) -> set[str]:
        """Note a change that the agent answers with; return the objects that it has passed."""
        self._passed.pop(key, None)
        self._passed[key] = stamp
        if len(self._passed) > PASSED_MAX:
            del self._passed[next(iter(self._passed))]  # it counts as not passed
        return self._pass({key: stamp})

    def begin_sync(self) -> Mapping[Key, Stamp]:
        """Return what ``end_sync`` takes, once the agent has synced."""
        return dict(self._ahead)

    def end_sync(self, began: Mapping[Key, Stamp], *, now: float) -> set[str]:
        """Return the objects that the agent has passed by its sync."""
        passed = self._pass(began)
        self._since = now if self._ahead else None
        return passed

    def _pass(self, reached: Mapping[Key, Stamp]) -> set[str]:
        found = {
            key
            for key, stamp in reached.items()
            if key in self._ahead and _reaches(stamp, self._ahead[key])
        }
        for key in found:
            del self._ahead[key]
        if not self._ahead:
            self._since = None
        return {name for name, _ in found} - set(self.names)


def _reaches(stamp: Stamp, wanted: Stamp) -> bool:
    """Whether ``stamp`` is ``wanted`` or later; versions of two epochs are not comparable."""
    return stamp[0] == wanted[0] and stamp[1] >= wanted[1]


def names_of(kind: ChangeKind | str) -> bool:
    """Whether the object came or went."""
    return kind in (CREATED, DROPPED)


def key_of(change: Change) -> Key:
    """Return what a change is of."""
    return change.object, names_of(change.kind)
