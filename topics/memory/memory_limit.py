"""MemoryLimit: keeps a daemon below its limit of memory (``--mem_limit``).

once a second: resident memory
    above the target ──▶ as much less content may be warm; what cools is freed to the system
    below it ──▶ more content may be warm: half of the room
"""

import ctypes
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from ..errors import ConfigError
from ..verdict import Reason, Serving
from .limited_topic import WarmGroups
from .system_memory import SETTING

LOOK_S: Final = 1.0  # between two looks at what is resident
# Of a limit: the rest is for what comes between two looks. The alarm TopicastMemoryNearLimit begins
# at 0.9.
TARGET_SHARE: Final = 0.85
OVER_S: Final = 60.0  # above the limit: what a reader uses is warm again at once, however short


class MemoryFacts(NamedTuple):
    """A limit of memory, what the process takes, and how much of its content it holds.

    ``warm_groups``: tables whose content is in memory. ``cooled``: times that one left it.
    ``over_s``: for how long the process has taken more than its limit.
    """

    limit_bytes: int
    resident_bytes: int
    warm_groups: int
    cooled: int
    over_s: float = 0.0


class MemoryLimit:
    """Decides how much content may be warm, by what the whole process takes."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.resident_bytes = 0  # as of the last look
        self.warm = WarmGroups(int(limit_bytes * TARGET_SHARE))
        self.cools = False  # whether more is to be cooled in the next turn
        self._over_s = 0.0  # for how long more than the limit has been resident
        self._gives_back = False  # whether to free memory to the system once enough is cold

    @property
    def facts(self) -> MemoryFacts:
        """The facts as of the last look."""
        return MemoryFacts(
            limit_bytes=self.limit_bytes,
            resident_bytes=self.resident_bytes,
            warm_groups=len(self.warm),
            cooled=self.warm.cooled,
            over_s=self._over_s,
        )

    def measured(self, resident_bytes: int) -> bool:
        """Take in what the process takes, every LOOK_S; return whether that is too much.

        Caller: both shells (that of catalogd through its core), and once before a daemon serves.
        Affects: the limit of ``warm``, so how much content ``hold`` makes cold; the verdict.
        """
        self.resident_bytes = resident_bytes
        self._over_s = self._over_s + LOOK_S if resident_bytes > self.limit_bytes else 0.0
        room = int(self.limit_bytes * TARGET_SHARE) - resident_bytes
        self.warm.limit_bytes = max(self.warm.held_bytes + (room // 2 if room > 0 else room), 0)
        self._gives_back |= room < 0
        return room < 0

    def hold(self) -> bool:
        """Cool what is too much; return whether freed memory is to be given back now.

        Caller: both shells, in each turn while memory is limited.
        Affects: topics, whose groups become cold: catalogd reads them from its store for an answer,
            a hub has stubs of them, which readers pull.
        """
        self.cools = self.warm.shrink()
        if self.cools:
            return False
        gives_back, self._gives_back = self._gives_back, False
        return gives_back

    def check_start(self, *, entries: int) -> None:
        """Check what is resident before anything is warm.

        Raises:
            ConfigError: that leaves too little of the limit for content.
        """
        if self.resident_bytes > self.limit_bytes * TARGET_SHARE:
            least = int(self.resident_bytes / TARGET_SHARE)
            index = f"the process and the keys of {entries:,} entries take"
            allowed = f"at least {least >> 20} MB: {index} {self.resident_bytes >> 20} MB"
            raise ConfigError(SETTING, f"{self.limit_bytes >> 20}MB", allowed)


def memory_short(facts: MemoryFacts | None) -> Iterator[Reason]:
    """Yield that a process takes more than its limit, if to hold less content does not help."""
    if facts is None or facts.resident_bytes <= facts.limit_bytes:
        return
    if facts.warm_groups and facts.over_s < OVER_S:
        return  # content leaves memory first
    held = f"for {facts.over_s:.0f} s" if facts.warm_groups else "with no content in memory"
    yield Reason(
        state=Serving.DEGRADED,
        code="memory_short",
        what=f"{facts.resident_bytes >> 20} MB are taken, more than "
        f"--mem_limit={facts.limit_bytes >> 20}MB, {held}",
        mend="raise --mem_limit: every read of content waits for the disk, or for catalogd",
    )


def give_back() -> None:
    """Give memory that is free in this process back to the system, where the C library can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
