"""Processes: our commands as real processes, for tests of the edge and of the whole."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

from topicast.cli.quickstart.console import read_ready
from topicast.cli.quickstart.processes.ports import ANY, usual_or_any
from topicast.tests.cli.forks import forked

END_TIMEOUT_S: Final = 60.0


@dataclass(slots=True)
class Running:
    """A daemon that listens. ``ready``: its addresses; ``is_ready``: whether it says it serves."""

    process: "subprocess.Popen[str]"
    ready: dict[str, str]
    log: Path
    is_ready: bool = False

    @property
    def address(self) -> str:
        """The address at which others reach it."""
        return self.ready["address"]

    def becomes_ready(self) -> "Running":
        """Return when it has printed that it serves."""
        if not self.is_ready:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            assert line.startswith("ready "), f"{line}{self.log.read_text()}"
            self.is_ready = True
        return self

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return what the process ended with."""
        self.process.send_signal(number)
        return self.process.wait(END_TIMEOUT_S)

    def page(self, path: str) -> str:
        """Return the body of one of its pages."""
        with urlopen(self.ready["web"] + path, timeout=30) as response:
            return str(response.read().decode())

    def health(self) -> tuple[int, str]:
        """Return what /healthz answers."""
        try:
            return 200, self.page("/healthz")
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()


def command(module: str, *arguments: object) -> list[str]:
    """Return the command line of one of our entry points, or of a ``module`` with its path."""
    path = module if "." in module else f"topicast.cli.{module}"
    return [sys.executable, "-m", path, *map(str, arguments)]


def completed(
    words: Sequence[str], *, timeout_s: float = 60, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, with ``environment`` added."""
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
        env={**os.environ, **environment},
    )


def topicast(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run one ``topicast`` command to its end, as a fork: its start is not what is tested."""
    return forked(arguments, {**os.environ, **environment}, timeout_s=60)


def shown(statestores: str, *words: str) -> str:
    """Return what a command prints that succeeds and complains of nothing."""
    done = topicast(*words, TOPICAST_STATESTORES=statestores)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def document(statestores: str, *words: str) -> Any:
    """Return what a command prints in JSON."""
    return json.loads(shown(statestores, *words, "--output=json"))


def is_gone(pid: int) -> bool:
    """Return whether the process has ended, if nobody has collected it, either."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def steady_port() -> int:
    """Return a free port, as is the next port, that stays free while its daemon is down.

    It is below those that the system gives to connections: any of these, even one that tries to
    reach the daemon, may get the daemon's own port meanwhile.
    """
    below = range(11_000, 32_000, 2)
    found = (usual_or_any(port, following=1) for port in random.sample(below, len(below)))
    return next(port for port in found if port != ANY)


def statestored(folder: Path, *flags: object) -> AbstractContextManager[Running]:
    """Start a hub, on free ports unless ``flags`` say others; its log is in ``folder``."""
    free = ("--state_store_port=0", "--webserver_port=0")
    return running(folder / "statestored.log", "daemons", "statestored", *free, *flags)


def catalogd(
    folder: Path, *flags: object, hive: str, statestores: str
) -> AbstractContextManager[Running]:
    """Start a catalogd as ``statestored`` does a hub; its store is in ``folder``, too."""
    free = ("--catalog_service_port=0", "--webserver_port=0", f"--state_dir={folder / 'state'}")
    peers = (f"--hive_metastore_uris={hive}", f"--statestores={statestores}")
    return running(folder / "catalogd.log", "daemons", "catalogd", *free, *peers, *flags)


@contextmanager
def running(
    log: Path,
    module: str,
    *arguments: object,
    environment: dict[str, str] | None = None,
    under: Sequence[str] = (),
) -> Iterator[Running]:
    """Start a daemon, by ``under``, and wait until it listens; at the end it is gone.

    ``environment``: else ours.
    """
    with log.open("a") as errors:
        process = subprocess.Popen(
            [*under, *command(module, *arguments)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        is_ready = line.startswith("ready ")  # a metastore's only line
        assert is_ready or line.startswith("listening "), f"{line}{log.read_text()}"
        yield Running(process, read_ready(line), log, is_ready)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
