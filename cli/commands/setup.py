"""Setup: the commands that start processes on this machine."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import click

from ...topics.errors import SourceError, TopicastError
from ..flags import option, settings
from ..output import DONE, EXIT_CODES
from ..quickstart.rounds import BEGINNING, ENDING, lines_of, verdict, wrapped
from ..quickstart.stack import Stack
from ..quickstart.story import Story
from ..quickstart.wording import summary, width

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_to(handler: Callable[[], None]) -> Iterator[None]:
    """Call ``handler`` at the first signal that wants us to end; ignore those that follow.

    What is put away then takes a bounded time, and is not to be interrupted halfway.
    """

    def once(*_: object) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        handler()

    before = [signal.signal(number, once) for number in SIGNALS]
    try:
        yield
    finally:
        for number, handled in zip(SIGNALS, before, strict=True):
            signal.signal(number, handled)


def end() -> None:
    """End this process with 0, and on the way all that it has started.

    Not as KeyboardInterrupt: Py4J 0.10.9.9, interrupted in a call, fails over its own clean-up.
    """
    raise SystemExit(DONE)


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Give what tells whether somebody wants us to end."""
    wanted: list[bool] = []  # to which a signal handler may add at any moment
    with signals_to(lambda: wanted.append(True)):
        yield lambda: bool(wanted)


@click.command(context_settings=settings(), epilog=EXIT_CODES)
@click.option("--once", is_flag=True, help="End after the story.")
@option(
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where metastore, warehouse and logs lie, and stay.  [default: a temporary folder]",
)
def quickstart(*, once: bool, folder: Path | None) -> None:
    """Start a metastore, a statestored, a catalogd and two Spark drivers, and show what happens."""
    with _home(folder) as home, _interruptible() as interrupted:
        try:
            with Stack(home / "logs", interrupted=interrupted) as stack:
                _tell(stack, home, once=once)
        finally:
            print("every process has ended", flush=True)


@contextmanager
def _home(folder: Path | None) -> Iterator[Path]:
    """Give a place for all files; a temporary one stays if there is an error, which names logs."""
    if folder is not None:
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


def _tell(stack: Stack, home: Path, *, once: bool) -> None:
    story = Story(stack, home, say=lambda text: print(text, flush=True))
    story.begin()
    seen = story.tell_steps()
    story.start_explorer()
    story.start_applications()
    story.tell_query()
    print("", *summary(seen), sep="\n", flush=True)
    print("\nThe explorer is a driver whose budget is smaller than the namespace.", flush=True)
    for chapter in story.explore():
        print("", *chapter, sep="\n", flush=True)
    _tell_applications(story)
    if once:
        return
    print("\nTry, in another terminal:", flush=True)
    print(*(f"  {command}" for command in story.what_next()), sep="\n", flush=True)
    print("\nCtrl-C ends everything. Until then, what the reader sees:", flush=True)
    with suppress(KeyboardInterrupt):
        story.keep_up()


def _tell_applications(story: Story) -> None:
    columns = width()
    print("", wrapped(BEGINNING, width=columns), "", sep="\n", flush=True)
    rounds = list(story.compare())
    print(*lines_of(rounds, width=columns), sep="\n")
    print("", wrapped(ENDING, width=columns), sep="\n", flush=True)
    story.end_applications()
    wrong = verdict(rounds)
    if wrong:
        raise TopicastError(f"under topicast run the report was wrong: {wrong}")


@click.group(context_settings=settings())
def metastore() -> None:
    """Run a real Hive metastore on this machine, for trials and tests."""


@metastore.command(context_settings=settings(), epilog=EXIT_CODES)
@option(
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Where its database and warehouse lie; made if it is not there.",
)
@option(
    "port",
    type=click.IntRange(0, 65_535),
    default=9083,
    help="Where it listens, on loopback only; 0 takes any free port, as does a taken one.",
)
def start(folder: Path, port: int) -> None:
    """Start Hive 2.3 on Derby, out of PySpark's jars, until Ctrl-C or SIGTERM."""

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    from ...catalog.metastore.embedded.server import EmbeddedMetastore

    embedded = EmbeddedMetastore(folder, port=port, durable=True, progress=say)
    with signals_to(end), embedded:
        print(f"ready uri={embedded.uri} warehouse={embedded.warehouse}", flush=True)
        _wait_for_the_end_of(embedded.pid)
        raise SourceError(f"the metastore ended by itself: see {folder}/metastore.log")


def _wait_for_the_end_of(pid: int | None) -> None:
    """Wait until the child ``pid`` has ended, and leave it to its owner to collect."""
    assert pid is not None
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
