"""The page about memory: the bytes of the process, those of its known parts, and the limits."""

import resource
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ....topics.memory.system_memory import resident_bytes, usable_bytes
from ...logs import LINE_MAX, LINES_MAX
from ..parts.grid import Grid
from ..parts.page import Page, grid_page


class MemoryUse(NamedTuple):
    """A part of the memory: its bytes, and their limit; None: not known, or no limit."""

    what: str
    held_bytes: int | None
    limit_bytes: int | None


def memory_page(
    held: Callable[[], Iterator[MemoryUse]], limit_bytes: int | None = None
) -> dict[str, Page]:
    """Return the page; ``held``: yields the daemon's parts; ``limit_bytes``: its own limit."""
    return {
        "memory": grid_page(
            "Memory",
            "What takes how much, and what is the limit?",
            lambda *_: _memory(held(), limit_bytes or usable_bytes()),
        )
    }


def _memory(held: Iterator[MemoryUse], limit: int) -> Grid:
    resident = resident_bytes()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # it may lag behind
    return Grid(
        about="The process as the system sees it, what it may use, and the parts that are known.",
        columns=MemoryUse._fields,
        rows=(
            MemoryUse("the process, resident", resident, limit),
            MemoryUse("the process, at most so far", max(most, resident or 0), limit),
            *held,
            MemoryUse("last lines of the log", None, LINES_MAX * LINE_MAX),
        ),
    )
