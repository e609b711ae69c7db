"""The command that runs a Spark application as it is, attached."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

import click

from ...topics.errors import ConfigError
from ...topics.settings import STATESTORES_DEFAULT
from ..launch.ahead import waiting_agent
from ..launch.environment import AGENT, FOUND, STATESTORES, environment_of
from ..launch.spark_commands import is_daemon, only_asks, refuse_cluster
from ..options.flags import SettingsCommand, option, settings
from ..terminal.exit_codes import NOT_FOUND
from ..terminal.signals import Handler, handled, wait_until_ended

NO_SESSION: Final = (
    "no Spark session was made where the jar is on the class path (env -i, a spark-env.sh that "
    "replaces SPARK_DIST_CLASSPATH, and a driver on another machine leave it out)"
)
EXCLUDED: Final = "TOPICAST_STATESTORES is empty, and spark.topicast.statestores names none"


@click.command(cls=SettingsCommand, context_settings=settings(allow_interspersed_args=False))
@option(
    "statestores",
    default=None,
    metavar="ADDRESSES",
    help="Addresses of statestoreds.",
    show_default=f"spark.topicast.statestores, else {STATESTORES_DEFAULT}",
)
@option("control", default=None, help="on; dry-run: only count; off: plain Spark.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], statestores: str | None, control: str | None) -> None:
    """Run a Spark application, attached: its drivers see the changes of others without REFRESH.

    COMMAND follows two dashes: topicast run -- spark-submit app.py. It may be spark-sql,
    spark-shell, start-thriftserver.sh, start-connect-server.sh, python, pyspark, ipython or jupyter
    as well. Other settings are taken from spark.topicast.* and TOPICAST_*. The exit code is that of
    COMMAND.
    """
    refuse_cluster(command)
    named = {"statestores": statestores, "control": control}
    given = {key: value for key, value in named.items() if value is not None}
    named_hubs = statestores or os.environ.get(STATESTORES)
    if named_hubs:  # else Spark's configuration may name them
        threading.Thread(target=_look, args=(named_hubs,), daemon=True).start()
    with _folder() as notes:
        environ, problem = environment_of(command[0], given, os.environ, notes=notes)
        is_watched = notes and not problem and not (is_daemon(command) or only_asks(command))
        is_ours = is_watched and not os.environ.get(AGENT)
        with waiting_agent(notes, environ) if is_ours else nullcontext():
            code = _run(command, environ)
        if is_watched and not Path(notes, FOUND).exists():
            problem = NO_SESSION if environ[STATESTORES] else EXCLUDED
    if problem and code != NOT_FOUND:
        click.echo(f"topicast: not attached: {problem}", err=True)
    sys.exit(code)


def _look(statestores: str) -> None:
    """Print, while the application starts, that no statestored answers, and why."""
    from ...topics.keys.folder import DRIVER, KEY, KEY_FILE, find_credential
    from ...topics.settings import parse_addresses
    from ..client.reaching import no_hub_at

    with suppress(ConfigError):  # the driver reports it
        is_named = any(os.environ.get(name) for name in (KEY, KEY_FILE))  # else Spark may name it
        key = find_credential(DRIVER, environ=os.environ) if is_named else None
        if problem := no_hub_at(parse_addresses(statestores, setting="statestores"), key):
            click.echo(f"topicast: {problem}; until one does, this is plain Spark", err=True)


@contextmanager
def _folder() -> Iterator[str]:
    """Yield a folder until the block ends; an empty name if none can be made."""
    with ExitStack() as stack:
        folder = ""
        with suppress(OSError):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="topicast-run-"))
        yield folder


def _run(command: tuple[str, ...], environ: dict[str, str]) -> int:
    try:
        child = subprocess.Popen(command, env=environ)
    except OSError as exc:
        is_name = isinstance(exc, FileNotFoundError) and os.sep not in command[0]
        why = "there is no such program on the PATH" if is_name else exc.strerror
        click.echo(f"error: {command[0]}: {why}", err=True)
        return NOT_FOUND
    ours: dict[signal.Signals, Handler] = {  # the child gets Ctrl-C and Ctrl-\ itself
        signal.SIGINT: signal.SIG_IGN,
        signal.SIGQUIT: signal.SIG_IGN,
        signal.SIGTERM: lambda *_: child.terminate(),
    }
    with handled(ours):
        wait_until_ended(child.pid)
        code = child.wait()
    return code if code >= 0 else 128 - code
