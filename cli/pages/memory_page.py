"""The page about memory: what the process takes, what of it is known, and the limits."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ...topics.memory_limit import usable_bytes
from ..logs import LINE_MAX, LINES_MAX
from .grid import Grid
from .page import Page, grid_page

STATM: Final = Path("/proc/self/statm")  # in pages of memory: the size, then what is resident


class Held(NamedTuple):
    """What holds so many bytes, and the most that it may; None: not known, or no limit."""

    what: str
    held_bytes: int | None
    limit_bytes: int | None


def memory_page(held: Callable[[], Iterator[Held]]) -> dict[str, Page]:
    """Return the page; ``held``: what the daemon knows of its own parts."""
    return {
        "memory": grid_page(
            "Memory", "What takes how much, and what is the limit?", lambda *_: _memory(held())
        )
    }


def _memory(held: Iterator[Held]) -> Grid:
    resident, limit = resident_bytes(), usable_bytes()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # it may lag behind
    return Grid(
        about="The process as the system sees it, what it may use, and the parts that are known.",
        columns=Held._fields,
        rows=(
            Held("the process, resident", resident, limit),
            Held("the process, at most so far", max(most, resident or 0), limit),
            *held,
            Held("last lines of the log", None, LINES_MAX * LINE_MAX),
        ),
    )


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None where the system does not show it."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * resource.getpagesize()
