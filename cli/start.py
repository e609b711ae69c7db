"""The entry of ``topicast``: says which library is missing; ``run`` runs Spark all the same.

A driver's Python may have this package and none of what it requires.
"""

import os
import sys
from typing import Final

RUN: Final = "run"
FAILED: Final = 1
NOT_FOUND: Final = 127  # as a shell has it for a command that does not exist


def main() -> None:
    """Run ``topicast`` with this process's arguments and end the process."""
    try:
        from .main import main as with_libraries
    except ModuleNotFoundError as error:
        sys.exit(_without(error, sys.argv[1:]))
    with_libraries()


def _without(error: ModuleNotFoundError, words: list[str]) -> int:
    """Become the application that ``run`` names, as it is; else say what is missing."""
    command = _application(words)
    why = f"{error}: pip install topicast"
    if not command:
        print(f"error: {why}", file=sys.stderr)
        return FAILED
    print(f"topicast: not attached: {why}", file=sys.stderr, flush=True)
    try:
        os.execvp(command[0], command)
    except OSError as exc:
        print(f"error: {command[0]}: {exc.strerror}", file=sys.stderr)
    return NOT_FOUND


def _application(words: list[str]) -> list[str]:
    """Return the command that follows ``run``, its options and two dashes; else nothing."""
    if words[:1] != [RUN] or "--" not in words:
        return []
    return words[words.index("--") + 1 :]


if __name__ == "__main__":
    main()
