"""Memory limit: what a process may use, and how a daemon stays below the limit that it was given.

A budget of "5%" is a share of the container's memory, else of the machine's.

    /proc/self/cgroup      the groups of this process       0::/kubepods/pod7
    /proc/self/mountinfo   where their files are            /sys/fs/cgroup
                                                               └─▶ memory.max, also of parents

Version 2 of Linux's control groups has ``memory.max``, version 1 ``memory.limit_in_bytes``. Source:
the kernel's admin guide, cgroup-v2 and cgroup-v1/memory.

    resident memory, once a second ──above the target──▶ less content stays warm, what it took
                                   └─below it: half of the room ──▶ more    goes to the system
"""

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from .errors import ConfigError
from .limited_topic import WarmGroups
from .settings import parse_size
from .verdict import Reason, Serving

LIMIT_FILES: Final = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}
STATM: Final = Path("/proc/self/statm")  # in pages of memory: the size, then what is resident
LOOK_S: Final = 1.0  # between two looks at what is resident
TARGET_SHARE: Final = 0.85  # of a limit: the rest is for what comes between two looks; the alarm
# TopicastMemoryNearLimit begins at 0.9
SETTING: Final = "mem_limit"


class MemoryFacts(NamedTuple):
    """A limit of memory, what the process takes, and how much of its content it holds.

    ``warm_groups``: tables whose content is in memory. ``cooled``: times that one left it.
    """

    limit_bytes: int
    resident_bytes: int
    warm_groups: int
    cooled: int


class MemoryLimit:
    """Decides how much content may be warm, by what the whole process takes."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.resident_bytes = 0  # as of the last look
        self.warm = WarmGroups(int(limit_bytes * TARGET_SHARE))
        self.cools = False  # whether more is to be cooled in the next turn
        self._gives_back = False  # when all is cold that has to be, what it took is given back

    @property
    def facts(self) -> "MemoryFacts":
        """What is known, as of the last look."""
        return MemoryFacts(self.limit_bytes, self.resident_bytes, len(self.warm), self.warm.cooled)

    def measured(self, resident_bytes: int) -> bool:
        """Take in what the process takes; return whether that is too much."""
        self.resident_bytes = resident_bytes
        room = int(self.limit_bytes * TARGET_SHARE) - resident_bytes
        self.warm.limit_bytes = max(self.warm.held_bytes + (room // 2 if room > 0 else room), 0)
        self._gives_back |= room < 0
        return room < 0

    def hold(self) -> bool:
        """Cool what is too much; return whether freed memory is to be given back now."""
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
    """Yield that a process takes more than its limit, if it does though its content is cold."""
    if facts is not None and facts.resident_bytes > facts.limit_bytes and not facts.warm_groups:
        yield Reason(
            state=Serving.DEGRADED,
            code="memory_short",
            what=f"{facts.resident_bytes >> 20} MB are taken, more than "
            f"--mem_limit={facts.limit_bytes >> 20}MB, with no content in memory",
            mend="raise --mem_limit: every read of content waits for the disk, or for catalogd",
        )


def limit_of(text: str | None) -> int | None:
    """Return the bytes of a limit such as ``4GB`` or ``60%``; None if there is none.

    Raises:
        ConfigError: it is no size.
    """
    return None if text is None else parse_size(text, setting=SETTING, total_bytes=usable_bytes())


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None where the system does not show it."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * resource.getpagesize()


def give_back() -> None:
    """Give memory that is free in this process back to the system, where the C library can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def usable_bytes(root: Path = Path("/")) -> int:
    """Return how many bytes this process may use; ``root`` has ``proc``, and the mounted groups."""
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine_bytes, *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    """Yield the limits of the groups that this process is in; none where there are no groups."""
    with suppress(OSError):
        groups = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        paths = dict(line.split(":", 2)[1:] for line in groups)  # by controllers; "": version 2
        for mount in (root / "proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            before, _, after = mount.partition(" - ")
            kind, _, options = after.partition(" ")
            if kind not in LIMIT_FILES or (kind == "cgroup" and "memory" not in options):
                continue
            shown, mounted_at = before.split()[3:5]  # the group that is the mount's top, and where
            named = [
                path for names, path in paths.items() if ("memory" in names) == (kind == "cgroup")
            ]
            for path in named:
                below = path.removeprefix(shown.rstrip("/")) if path.startswith(shown) else ""
                folder = root / mounted_at.lstrip("/")
                yield from _read(folder, below, LIMIT_FILES[kind])


def _read(top: Path, below: str, name: str) -> Iterator[int]:
    """Yield what the files ``name`` say, from ``top`` to the folder ``below`` it."""
    here = top
    for part in ("", *below.strip("/").split("/")):
        here /= part
        with suppress(OSError, ValueError):  # absent at the top; "max" means without limit
            yield int((here / name).read_text(encoding="ascii"))
