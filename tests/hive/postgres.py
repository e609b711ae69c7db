"""Postgres: a server of PostgreSQL on loopback, with a database for a metastore.

It takes Debian's package ``postgresql``, whose server refuses to run as root: started by root, it
runs as the package's own user. It keeps nothing, and does not wait for the disk.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from topicast.cli.quickstart.processes.die_with_parent import dying_with_parent
from topicast.tests.cli.processes import steady_port
from topicast.tests.waiting import until
from topicast.topics.backports import Self

PROGRAMS: Final = ("initdb", "postgres", "psql")
FOLDERS: Final = "postgresql/*/bin"  # in /usr/lib; Debian leaves all but psql out of the PATH
NEEDED: Final = "on Debian and Ubuntu, apt install postgresql"
OWNER: Final = "postgres"  # the user that the package makes
USER: Final = "hive"
DATABASE: Final = "metastore"
START_S: Final = 60.0
STOP_S: Final = 10.0


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a server: kill it if it has not ended within STOP_S."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Postgres:
    """A server that runs from ``with`` to its end; ``sql`` works on its one database."""

    def __init__(self) -> None:
        self._programs = programs()
        self._port = steady_port()
        self._password = secrets.token_urlsafe()
        self._folder = Path()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process that all others of the server are children of."""
        assert self._process is not None
        return self._process.pid

    def settings(self) -> Mapping[str, str]:
        """Return the settings of a metastore that keeps everything here."""
        return {
            "javax.jdo.option.ConnectionURL": f"jdbc:postgresql://127.0.0.1:{self._port}/{DATABASE}",
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": USER,
            "javax.jdo.option.ConnectionPassword": self._password,
        }

    def sql(self, *statements: str, database: str = DATABASE) -> None:
        """Run ``statements``, each in a transaction of its own."""
        done = self._psql("; ".join(statements), database)
        assert done.returncode == 0, done.stderr

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="topicast-postgres-"))
        data, secret = self._folder / "data", self._folder / "password"
        secret.write_text(self._password)
        if os.geteuid() == 0:
            shutil.chown(self._folder, OWNER)
            shutil.chown(secret, OWNER)
        made = ("--auth=scram-sha-256", f"--pwfile={secret}", f"--username={USER}")
        self._run("initdb", f"--pgdata={data}", "--encoding=UTF8", "--no-sync", *made)
        given = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": "",
            "fsync": "off",
        }
        options = [f"--{name}={value}" for name, value in given.items()]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                _as_owner(
                    dying_with_parent([self._programs["postgres"], "-D", str(data), *options])
                ),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            until(self._answers, timeout_s=START_S, what="PostgreSQL")
            self.sql(f"CREATE DATABASE {DATABASE}", database="postgres")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server, and remove all that it had."""
        process, self._process = self._process, None
        if process is not None:
            end(process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        assert self._process is not None
        log = self._folder / "log"
        assert self._process.poll() is None, f"it ended: {log.read_text(errors='replace')}"
        return self._psql("SELECT 1", "postgres").returncode == 0

    def _psql(self, text: str, database: str) -> "subprocess.CompletedProcess[str]":
        where = ("-h", "127.0.0.1", "-p", str(self._port), "-U", USER, "-d", database)
        return subprocess.run(
            [self._programs["psql"], "-X", "-q", "-v", "ON_ERROR_STOP=1", *where, "-f", "-"],
            env={**os.environ, "PGPASSWORD": self._password},
            input=f"{text};\n",
            capture_output=True,
            text=True,
            check=False,
        )

    def _run(self, program: str, *options: str) -> None:
        command = _as_owner([self._programs[program], *options])
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def programs() -> Mapping[str, str]:
    """Return where each of PROGRAMS is; end this process, and say why, if one is nowhere."""
    newest = sorted(Path("/usr/lib").glob(FOLDERS), key=lambda one: float(one.parent.name))
    path = ":".join(map(str, (*reversed(newest), os.environ.get("PATH", ""))))
    found = {name: shutil.which(name, path=path) for name in PROGRAMS}
    for name, where in found.items():
        if where is None:
            raise SystemExit(f"PostgreSQL's {name} is missing: {NEEDED}")
    return {name: str(where) for name, where in found.items()}


def _as_owner(command: Sequence[str]) -> list[str]:
    """Return ``command`` so that it does not run as root."""
    if os.geteuid() != 0:
        return list(command)
    return ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--init-groups", "--", *command]
