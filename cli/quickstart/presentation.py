"""Runs the demonstration from its first process to its last, and prints it."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ...topics.errors import ConfigError, TopicastError
from .comparison import BEGINNING, ENDING, IN_SQL, lines_of, repeated_text, verdict, wrapped
from .console import summary, width
from .demo import Demo
from .processes.stack import Stack

CHANGES: Final = "The writer changes the catalog, and the reader, a subscriber, says what it sees."


def present(folder: Path | None, *, once: bool, interrupted: Callable[[], bool]) -> None:
    """Run the demonstration in ``folder``, or in a temporary folder.

    Args:
        folder: The folder for all files, which is kept; None: a temporary folder.
        once: Whether to return after the demonstration, and not wait until ``interrupted``.
        interrupted: Returns whether to end now.
    """
    with _home(folder) as home:
        try:
            with Stack(home / "logs", interrupted=interrupted) as stack:
                _run(stack, home, once=once)
        finally:
            print("every process has ended", flush=True)


@contextmanager
def _home(folder: Path | None) -> Iterator[Path]:
    """Yield a folder for all files; keep a temporary folder after an error, which names logs.

    Raises:
        ConfigError: no file can be written into ``folder``.
    """
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as exc:
            raise ConfigError("folder", str(folder), f"a writable folder ({exc})") from exc
        yield folder.absolute()
        return
    temporary = Path(tempfile.mkdtemp(prefix="topicast-"))
    failed = False
    try:
        yield temporary
    except TopicastError:
        failed = True
        raise
    finally:
        if not failed:
            shutil.rmtree(temporary, ignore_errors=True)


def _run(stack: Stack, home: Path, *, once: bool) -> None:
    demo = Demo(stack, home, say=lambda text: print(text, flush=True))
    demo.begin()
    _compare(demo)
    print(f"\n{CHANGES}\n", flush=True)
    seen = demo.run_steps()
    demo.start_explorer()
    demo.run_query()
    demo.end_writer()
    print("", *summary(seen), sep="\n", flush=True)
    print("\nThe explorer is a driver whose budget has room for some of the tables.", flush=True)
    for phase in demo.explore():
        print("", *phase, sep="\n", flush=True)
    if once:
        return
    print("\nTry, in another terminal:", flush=True)
    print(*(f"  {command}" for command in demo.commands_to_try()), sep="\n", flush=True)
    statestored, catalogd = demo.pages
    print(f"\nIn a browser: {statestored} and {catalogd}; /healthz and /metrics are there, too.")
    print("\nCtrl-C ends everything. Until then the reader prints what it sees:", flush=True)
    with suppress(KeyboardInterrupt):
        demo.keep_up()


def _compare(demo: Demo) -> None:
    columns = width()
    print("", wrapped(BEGINNING, width=columns), "", sep="\n", flush=True)
    rounds, in_sql = zip(*demo.compare(), strict=True)
    print("", *lines_of(rounds, width=columns), sep="\n")
    print("", IN_SQL, *lines_of(in_sql, width=columns), sep="\n")
    print("", wrapped(ENDING, width=columns), "", sep="\n", flush=True)
    repeated = demo.repeat()
    print("", wrapped(repeated_text(repeated), width=columns), sep="\n", flush=True)
    demo.end_applications()
    wrong = verdict((*rounds, *in_sql), repeated)
    if wrong:
        raise TopicastError(f"under topicast run the report was wrong: {wrong}")
