"""The command that runs a Spark application as it is, attached."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import click

from ...topics.errors import ConfigError, UsageError
from ..exit_codes import NOT_FOUND
from ..flags import STATESTORES_DEFAULT, Command, option, settings
from ..launch.jvm_drivers import jvm_environment
from ..launch.spark_commands import HOW_IN_A_CLUSTER, is_cluster, is_of_the_jvm
from ..signals import Handler, handled, wait_until_ended

STATESTORES: Final = "TOPICAST_STATESTORES"
LOADED_S: Final = 20.0  # by then a Python that loads Topicast has done so
_WHY: Final = "python -E or -I, an environment that was reset, or a driver on another machine"


@click.command(cls=Command, context_settings=settings(allow_interspersed_args=False))
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
    if is_cluster(command):
        raise UsageError(f"with deploy mode cluster the driver runs elsewhere: {HOW_IN_A_CLUSTER}")
    named = {"statestores": statestores, "control": control}
    given = {key: value for key, value in named.items() if value is not None}
    named_hubs = statestores or os.environ.get(STATESTORES)
    if named_hubs:  # else Spark's configuration may name them
        threading.Thread(target=_look, args=(named_hubs,), daemon=True).start()
    with _prepared(given) as folder:
        code = _run(command, folder, given)
    sys.exit(code)


def _look(statestores: str) -> None:
    """Say, while the application starts, that no statestored is there, and what is instead."""
    from ...topics.keys.folder import DRIVER, KEY, KEY_FILE, find_credential
    from ...topics.settings import parse_addresses
    from ..reaching import nobody

    with suppress(ConfigError):  # the driver says so
        is_named = any(os.environ.get(name) for name in (KEY, KEY_FILE))  # else Spark may name one
        key = find_credential(DRIVER, environ=os.environ) if is_named else None
        if problem := nobody(parse_addresses(statestores, setting="statestores"), key):
            click.echo(f"topicast: {problem}; until one does, this is plain Spark", err=True)


@contextmanager
def _prepared(given: dict[str, str]) -> Iterator[str]:
    """Yield the folder that Python is to load us from; an empty name if it cannot be made."""
    with ExitStack() as stack:
        folder = ""
        try:
            from ...subscriber.spark.driver import launch

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="topicast-run-"))
            launch.prepare(folder, given)
        except (ImportError, OSError) as error:
            _say(str(error))
            folder = ""
        yield folder


def _run(command: tuple[str, ...], folder: str, given: dict[str, str]) -> int:
    path = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    default = {STATESTORES: STATESTORES_DEFAULT}  # comes last, behind the configuration of Spark
    of_jvm, problem = jvm_environment(command[0], given, os.environ, notes=folder)
    environ = {**default, **os.environ, **of_jvm, "PYTHONPATH": path}
    try:
        child = subprocess.Popen(command, env=environ)
    except OSError as exc:
        click.echo(f"error: {command[0]}: {exc.strerror}", err=True)
        return NOT_FOUND
    warned = not folder
    if is_of_the_jvm(command):
        warned = _say(problem) if problem else True
    ours: dict[signal.Signals, Handler] = {  # the child gets Ctrl-C itself
        signal.SIGINT: signal.SIG_IGN,
        signal.SIGTERM: lambda *_: child.terminate(),
    }
    with handled(ours):
        try:
            code = child.wait(LOADED_S)
        except subprocess.TimeoutExpired:
            warned = warned or _warn(folder, ended=False)
            wait_until_ended(child.pid)
            code = child.wait()
    if not warned:
        _warn(folder, ended=True)
    return code if code >= 0 else 128 - code


def _warn(folder: str, *, ended: bool) -> bool:
    """Print why nothing is attached, where that is known; return whether it is."""
    from ...subscriber.spark.driver import launch

    noted = launch.notes(folder)
    if launch.LOADED not in noted:
        if ended:
            return _say(f"no Python has loaded Topicast ({_WHY})")
        after = f"after {LOADED_S:g} s no Python has loaded Topicast yet"
        click.echo(f"topicast: {after}: is it slow, or is it {_WHY}?", err=True)
        return False
    if launch.FAILED in noted:
        return _say(noted[launch.FAILED])
    if ended and launch.ATTACHED not in noted:
        return _say("no Spark session was made")
    return False


def _say(why: str) -> bool:
    """Print why nothing is attached; return True."""
    click.echo(f"topicast: not attached: {why}", err=True)
    return True
