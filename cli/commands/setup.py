"""Setup: the commands that start processes on this machine."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from ...topics.errors import SourceError
from ..flags import option, settings
from ..output import EXIT_CODES
from ..quickstart.stack import Stack
from ..quickstart.story import Story, summary, what_next


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into what Ctrl-C is; only the first of them counts.

    What is put away after it takes a bounded time, and is not to be interrupted halfway.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@click.command(context_settings=settings(), epilog=EXIT_CODES)
@click.option("--once", is_flag=True, help="End after the summary.")
@option(
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where metastore, warehouse and logs lie, and stay.  [default: a temporary folder]",
)
def quickstart(*, once: bool, folder: Path | None) -> None:
    """Start a metastore, a statestored, a catalogd and two Spark drivers, and show what happens."""
    with ended_by_signals(), tempfile.TemporaryDirectory(prefix="topicast-") as temporary:
        home = folder.absolute() if folder else Path(temporary)
        try:
            with Stack(home / "logs") as stack:
                _tell(stack, home, once=once)
        finally:
            print("every process has ended", flush=True)


def _tell(stack: Stack, home: Path, *, once: bool) -> None:
    story = Story(stack, home, say=lambda text: print(text, flush=True))
    story.begin()
    seen = story.tell_steps()
    story.tell_query()
    print("", *summary(seen), sep="\n", flush=True)
    if once:
        return
    print("\nTry, in another terminal:", flush=True)
    print(*(f"  {command}" for command in what_next(story)), sep="\n", flush=True)
    print("\nCtrl-C ends everything. Until then, what the reader sees:", flush=True)
    with suppress(KeyboardInterrupt):
        story.keep_up()


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

    from ...catalog.metastore.embedded import EmbeddedMetastore

    embedded = EmbeddedMetastore(folder, port=port, durable=True, say=say)
    with suppress(KeyboardInterrupt), ended_by_signals(), embedded:
        print(f"ready uri={embedded.uri} warehouse={embedded.warehouse}", flush=True)
        _wait_for_the_end_of(embedded.pid)
        raise SourceError(f"the metastore ended by itself: see {folder}/metastore.log")


def _wait_for_the_end_of(pid: int | None) -> None:
    """Wait until the child ``pid`` has ended, and leave it to its owner to collect."""
    assert pid is not None
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
