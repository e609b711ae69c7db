"""Commands as forks of one process that has imported them all: a start takes 0.4 s less.

    test process ──first command──▶ server, which imports cli/ once ──fork──▶ one command

Each command is a process of its own, with its own arguments, environment, folder, output and exit
code. What is about the start itself, or about Python's own options, is for ``completed``.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory

from topicast.cli.daemons import daemons
from topicast.cli.main import PLACES, PROGRAM
from topicast.cli.main import main as topicast


def forked(
    words: Sequence[object],
    environment: Mapping[str, str],
    *,
    timeout_s: float,
    entry: Callable[[], object] = topicast,
) -> "subprocess.CompletedProcess[str]":
    """Run one command to its end: ``topicast``, or the ``entry`` of a daemon.

    Raises:
        subprocess.TimeoutExpired: It did not end in ``timeout_s``, and was killed.
    """
    with TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("out", "err")]
        process = _server().Process(
            target=_become,
            args=(entry, tuple(map(str, words)), dict(environment), Path.cwd(), *files),
        )
        process.start()
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(words, timeout_s)
        code = process.exitcode
        assert code is not None
        texts = [one.read_text("utf-8") for one in files]
        process.close()
        return subprocess.CompletedProcess(list(words), code, *texts)


@cache
def _server() -> ForkServerContext:
    """Return what forks; it starts with the first command, and ends with this process."""
    context = multiprocessing.get_context("forkserver")
    places = (*PLACES.values(), *daemons.places.values())
    modules = {place.partition(":")[0] for place in places}
    context.set_forkserver_preload([__name__, *(f"topicast.cli.{one}" for one in sorted(modules))])
    return context


def _become(
    entry: Callable[[], object],
    words: tuple[str, ...],
    environment: dict[str, str],
    folder: Path,
    printed: Path,
    complained: Path,
) -> None:
    """Be a command with these arguments, as a new Python would be."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in ((1, printed), (2, complained)):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    sys.argv = [PROGRAM if entry is topicast else entry.__name__, *words]
    entry()
