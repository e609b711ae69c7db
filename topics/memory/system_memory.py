"""System memory: what a process may use, and what it takes, as the system says.

A share such as "5%" is one of the container's memory, else of the machine's.

    /proc/self/cgroup      the groups of this process       0::/kubepods/pod7
    /proc/self/mountinfo   where their files are            /sys/fs/cgroup
                                                               └─▶ memory.max, also of parents

Version 2 of Linux's control groups has ``memory.max``, version 1 ``memory.limit_in_bytes``. Source:
the kernel's admin guide, cgroup-v2 and cgroup-v1/memory.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..errors import ConfigError
from ..settings import parse_size

LIMIT_FILES: Final = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}
STATM: Final = Path("/proc/self/statm")  # in pages of memory: the size, then what is resident
SETTING: Final = "mem_limit"


def limit_of(text: str | None) -> int | None:
    """Return the bytes of a limit such as ``4GB`` or ``60%``; None if there is none.

    Raises:
        ConfigError: it is no size, or this system does not show what a process takes.
    """
    if text is None:
        return None
    if resident_bytes() is None:
        raise ConfigError(SETTING, text, f"none on this system, which has no {STATM}")
    return parse_size(text, setting=SETTING, total_bytes=usable_bytes())


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None where the system does not show it."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * resource.getpagesize()


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
