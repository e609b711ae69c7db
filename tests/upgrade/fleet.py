"""Fleet: hubs, a catalogd, drivers and commands as on hosts of their own, each of either release.

    Release ──PYTHONPATH──▶ processes of it        Fleet ── each on the port and the folders that
                                                            it had as another release

Its keys are made by the older release, as those of a fleet are that is to be upgraded.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from topicast.tests.cli.processes import END_TIMEOUT_S, Running, command, running, steady_port
from topicast.tests.upgrade.install import FOLDER, ROOT
from topicast.tests.waiting import until

COMMAND_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Topicast. ``folder``: what its package is imported from; None: as in tests."""

    name: str
    folder: Path | None

    @property
    def environment(self) -> dict[str, str]:
        path = {} if self.folder is None else {"PYTHONPATH": str(self.folder)}
        return {**os.environ, **path}

    @property
    def package(self) -> Path:
        """Where the package of a process of it is."""
        return ROOT if self.folder is None else self.folder / "topicast"


OLD: Final = Release("old", FOLDER)
NEW: Final = Release("new", None)


class Driver:
    """A driver's process, see `driver`."""

    def __init__(self, release: Release, process: "subprocess.Popen[str]", log: Path) -> None:
        self.release = release
        self.log = log
        self._process = process

    def ask(self, *words: str) -> Any:
        """Return its answer to a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log.read_text()
        return json.loads(line)

    def end(self) -> None:
        """Let it leave, as a driver does whose application ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(END_TIMEOUT_S) == 0, self.log.read_text()


class Fleet:
    """Two hubs and a catalogd, each with a folder of keys of its own."""

    def __init__(self, folder: Path, metastore: str) -> None:
        self._folder = folder
        self._metastore = metastore
        self._stack = ExitStack()
        self._daemons: dict[str, Running] = {}
        self._ports = {name: steady_port() for name in ("hub-1", "hub-2", "catalogd")}
        self.keys = folder / "catalogd-keys"
        self.state = folder / "state"
        self.hubs = tuple(f"tcp://127.0.0.1:{self._ports[name]}" for name in ("hub-1", "hub-2"))

    def make_keys(self, release: Release) -> None:
        """Make what docs/deploy.md makes: the servers' keys, and an operator's."""
        self.run(release, "keys", "init", f"--keys_dir={self.keys}")
        for name, address in zip(("hub-1", "hub-2"), self.hubs, strict=True):
            folder = self._folder / f"{name}-keys"
            folder.mkdir(mode=0o700)
            self.add_key(release, name, "hub", "--address", address, to=folder / "statestored.key")
        self.add_key(release, "ops", "operator")

    def add_key(
        self, release: Release, name: str, role: str, *flags: str, to: Path | None = None
    ) -> Path:
        """Admit a client; return its key file."""
        path = to or self._folder / f"{name}.key"
        flags = (*flags, f"--role={role}", "--out", str(path), f"--keys_dir={self.keys}")
        self.run(release, "keys", "add", name, *flags)
        return path

    def admit(self, release: Release, name: str, *, reader: Release | None = None) -> Path:
        """Return the key file of another driver, once the first hub lets ``reader`` in with it."""
        key = self.add_key(release, name, "driver")
        until(partial(self.answers, reader or release, "topics", key=key), what=name)
        return key

    def start(self, release: Release, name: str) -> None:
        """Start a daemon, in place of the one that was stopped."""
        words = self._command(name)
        log = self.log(release, name)
        started = running(log, "daemons", *words, environment=release.environment)
        self._daemons[name] = self._stack.enter_context(started)

    def refusal(self, release: Release, name: str) -> str:
        """Return what a daemon prints that does not start."""
        done = subprocess.run(
            command("daemons", *self._command(name)),
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S,
            env=release.environment,
        )
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    def log(self, release: Release, name: str) -> Path:
        return self._folder / f"{name}-{release.name}.log"

    @property
    def logs(self) -> Iterable[Path]:
        """Those of all daemons and drivers."""
        return sorted(self._folder.glob("*.log"))

    def stop(self, name: str) -> None:
        """Let a daemon end as its service manager does."""
        assert self._daemons.pop(name).end() == 0

    def replace(self, release: Release, name: str) -> None:
        self.stop(name)
        self.start(release, name)

    def facts(self, name: str) -> dict[str, Any]:
        """Return the status of a daemon, from its own page."""
        return dict(json.loads(self._daemons[name].page("/?json")))

    @contextmanager
    def driver(
        self, release: Release, name: str, key: Path, *, levels: str, table: str
    ) -> Iterator[Driver]:
        """Start a driver, which reads ``table`` all the time."""
        path = Path(__file__).with_name("driver.py")
        log = self._folder / f"driver-{name}-{release.name}.log"
        own = {"TOPICAST_KEY_FILE": str(key)}
        words = (",".join(self.hubs), self._metastore, name, levels, table)
        with (
            log.open("a") as errors,
            subprocess.Popen(
                [sys.executable, str(path), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**release.environment, **own},
            ) as process,
        ):
            try:
                driver = Driver(release, process, log)
                assert Path(driver.answer()).parent == release.package
                yield driver
            finally:
                process.kill()

    def run(self, release: Release, *words: str, key: Path | None = None) -> str:
        """Return what a command prints that succeeds and complains of nothing."""
        done = self.attempt(release, *words, key=key)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def answers(self, release: Release, *words: str, key: Path | None = None) -> bool:
        """Return whether a command succeeds."""
        return self.attempt(release, *words, key=key).returncode == 0

    def attempt(
        self, release: Release, *words: str, key: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command with the operator's key, else ``key``."""
        own = {
            "TOPICAST_KEY_FILE": str(key or self._folder / "ops.key"),
            "TOPICAST_STATESTORES": ",".join(self.hubs),
        }
        return subprocess.run(
            command("main", *words),
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S,
            env={**release.environment, **own},
        )

    def close(self) -> None:
        self._stack.close()

    def _command(self, name: str) -> list[str]:
        own = ["--webserver_port=0", f"--keys_dir={self._folder / f'{name}-keys'}"]
        if name != "catalogd":
            return ["statestored", f"--state_store_port={self._ports[name]}", *own]
        return [
            "catalogd",
            f"--catalog_service_port={self._ports[name]}",
            "--num_topics=16",
            f"--hive_metastore_uris={self._metastore}",
            f"--statestores={','.join(self.hubs)}",
            f"--state_dir={self.state}",
            *own,
        ]
