"""The command that runs a Spark application as it is, attached."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

import click

from ...topics.errors import UsageError
from ..flags import option, settings
from ..signals import Handler, handled

LOADED_S: Final = 20.0  # by then a Python that loads Topicast has done so
NOT_FOUND: Final = 127  # as a shell has it for a command that does not exist
CLUSTER: Final = "cluster"

_HOW: Final = (
    "run 'topicast hook install' of its Python, once, and set"
    " --conf spark.yarn.appMasterEnv.TOPICAST_STATESTORES=ADDRESSES, on Kubernetes"
    " --conf spark.kubernetes.driverEnv.TOPICAST_STATESTORES=ADDRESSES; or call attach(spark)"
    " in the application, with --conf spark.topicast.statestores=ADDRESSES"
)
_WHY: Final = "python -E or -I, an environment that was reset, or a driver on another machine"


@click.command(
    context_settings=settings(ignore_unknown_options=True, allow_interspersed_args=False)
)
@option("statestores", default=None, metavar="ADDRESSES", help="Addresses of statestoreds.")
@option("control", default=None, help="on; dry-run: only count; off: plain Spark.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], statestores: str | None, control: str | None) -> None:
    """Run a Spark application, attached: its drivers see the changes of others without REFRESH.

    COMMAND follows two dashes: topicast run -- spark-submit app.py. It may be python, pyspark,
    ipython or jupyter as well. Other settings are taken from spark.topicast.* and TOPICAST_*. The
    exit code is that of COMMAND.
    """
    if _is_cluster(command):
        raise UsageError(f"with deploy mode cluster the driver runs elsewhere: {_HOW}")
    from ...subscriber.spark.driver import launch

    given = {"statestores": statestores, "control": control}
    with tempfile.TemporaryDirectory(prefix="topicast-run-") as folder:
        launch.prepare(folder, {key: value for key, value in given.items() if value is not None})
        code = _run(command, folder)
    sys.exit(code)


def _run(command: tuple[str, ...], folder: str) -> int:
    path = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    try:
        child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
    except OSError as exc:
        click.echo(f"error: {command[0]}: {exc.strerror}", err=True)
        return NOT_FOUND
    warned = False
    ours: dict[signal.Signals, Handler] = {  # the child gets Ctrl-C itself
        signal.SIGINT: signal.SIG_IGN,
        signal.SIGTERM: lambda *_: child.terminate(),
    }
    with handled(ours):
        try:
            code = child.wait(LOADED_S)
        except subprocess.TimeoutExpired:
            warned = _warn(folder, ended=False)
            code = child.wait()
    if not warned:
        _warn(folder, ended=True)
    return code if code >= 0 else 128 - code


def _warn(folder: str, *, ended: bool) -> bool:
    """Print why nothing is attached, where that is known; return whether it is."""
    from ...subscriber.spark.driver import launch

    noted = launch.notes(folder)
    if launch.LOADED not in noted:
        text = f"not attached: no Python has loaded Topicast ({_WHY})"
    elif launch.FAILED in noted:
        text = f"not attached: {noted[launch.FAILED]}"
    elif ended and launch.ATTACHED not in noted:
        text = "not attached: no Spark session was made"
    else:
        return False
    click.echo(f"topicast: {text}", err=True)
    return True


def _is_cluster(command: Sequence[str]) -> bool:
    pairs = zip(command, (*command[1:], ""), strict=True)
    return any(
        (word == "--deploy-mode" and following == CLUSTER)
        or word in {f"--deploy-mode={CLUSTER}", f"spark.submit.deployMode={CLUSTER}"}
        or word == f"--conf=spark.submit.deployMode={CLUSTER}"
        for word, following in pairs
    )
