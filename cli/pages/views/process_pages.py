"""The pages that every daemon has: its settings, its threads, and what it has logged lately."""

import sys
import threading
import traceback
from collections.abc import Callable, Sequence

from ....topics.wire.messages.fields import Cell
from ...logs import LINES_MAX
from ...options.flags import DEFAULT
from ..parts.grid import Grid
from ..parts.page import Page, grid_page


def process_pages(
    settings: Sequence[tuple[str, Cell, str]], lines: Callable[[], Sequence[str]]
) -> dict[str, Page]:
    """Return the pages of a process.

    Args:
        settings: The name of each setting, its value, and where the value comes from.
        lines: Returns the last lines of the log, the oldest first.
    """
    return {
        "flags": grid_page(
            "Flags",
            "How is it set, and where does each value come from?",
            lambda *_: _flags(settings),
        ),
        "threads": grid_page("Threads", "What is each thread doing?", lambda *_: _threads()),
        "logs": grid_page(
            "Log", "What has it logged lately?", lambda *_: _log(lines()), is_private=True
        ),
    }


def _flags(settings: Sequence[tuple[str, Cell, str]]) -> Grid:
    return Grid(
        about="Each setting, its value, and where the value comes from.",
        columns=("flag", "value", "origin"),
        rows=sorted(settings, key=lambda one: one[2] == DEFAULT),
    )


def _threads() -> Grid:
    frames = sys._current_frames()
    rows = []
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        stack = traceback.extract_stack(frame, limit=1) if frame is not None else []
        at = f"{stack[-1].name} ({stack[-1].filename.rpartition('/')[2]}:{stack[-1].lineno})"
        rows.append((thread.name, thread.daemon, at if stack else ""))
    return Grid(
        about="Each thread of Python, and where it is now.",
        columns=("thread", "daemon", "at"),
        rows=sorted(rows),
    )


def _log(lines: Sequence[str]) -> Grid:
    return Grid(
        about=f"The last {LINES_MAX} lines at most, the newest first.",
        columns=("line",),
        rows=[(line,) for line in reversed(lines)],
        empty="nothing was logged",
    )
