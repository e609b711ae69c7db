"""The entry of ``topicast``: names a missing library; ``run`` runs Spark even without it.

A driver's Python may have this package without the libraries that it requires, or be too old for
it. So this file loads on Python 3.6: it has no names of ``typing``, and quotes annotations.
"""

import os
import signal
import sys

from .terminal.exit_codes import FAILED, INTERRUPTED, NOT_FOUND

OLDEST = (3, 10)  # as setup.cfg has it
RUN = "run"
AGENT = "agent"
NOTES = "TOPICAST_NOTES"  # a folder of the command that runs the driver


def main() -> None:
    """Run ``topicast`` with this process's arguments and end the process."""
    if sys.version_info < OLDEST:
        sys.exit(_without(_too_old(), sys.argv[1:]))
    try:
        if sys.argv[1:] == [AGENT]:  # it starts with each driver: do not load the commands
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: these are the driver's
            signal.signal(signal.SIGQUIT, signal.SIG_IGN)
            from .launch.ahead import hand_over

            hand_over(os.environ.get(NOTES, ""))
            from ..subscriber.spark.agent.process import main as agent

            sys.exit(agent())
        from .main import main as with_libraries
    except ModuleNotFoundError as error:
        sys.exit(_without(f"{error}: pip install topicast", sys.argv[1:]))
    except KeyboardInterrupt:  # the imports take a second, on a busy machine three
        sys.exit(INTERRUPTED)
    with_libraries()


def _too_old() -> str:
    needed, found = (".".join(map(str, one)) for one in (OLDEST, sys.version_info[:3]))
    return f"Topicast needs Python {needed} or newer, and {sys.executable} is {found}"


def _without(why: str, words: "list[str]") -> int:
    """Print ``why`` topicast cannot run; if ``words`` are those of ``run``, run its application."""
    command = _application(words)
    if not command:
        print(f"error: {why}", file=sys.stderr)
        return FAILED
    print(f"topicast: not attached: {why}", file=sys.stderr, flush=True)
    try:
        os.execvp(command[0], command)
    except OSError as exc:
        print(f"error: {command[0]}: {exc.strerror}", file=sys.stderr)
    return NOT_FOUND


def _application(words: "list[str]") -> "list[str]":
    """Return the command that follows ``run``, its options and two dashes; else nothing."""
    if words[:1] != [RUN] or "--" not in words:
        return []
    return words[words.index("--") + 1 :]


if __name__ == "__main__":
    main()
