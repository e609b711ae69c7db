"""Drivers without Python as processes: spark-sql answers one statement at a time."""

import json
import os
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
import pyspark

from topicast.cli.quickstart.processes.counting import Counting
from topicast.cli.quickstart.processes.spark_settings import spark_settings
from topicast.tests.cli.processes import command, topicast
from topicast.tests.spark.applications import quick_environment
from topicast.tests.spark.pair import WAIT_S, Pair
from topicast.tests.waiting import until
from topicast.topics.objects.drivers import LIVE, PLAIN

BIN: Final = Path(pyspark.__file__).parent / "bin"
END_S: Final = 60
_ERROR: Final = re.compile(r"^(?:Error in query: )?\[([A-Z_.0-9]+)\]", re.MULTILINE)
_MARK: Final = "-- answered --"


Rows = list[list[str]] | str


def of_run(hub: str) -> list[str]:
    """Return the words of ``topicast run`` before a command."""
    return command("main", "run", f"--statestores={hub}", "--")


def agent_of(pid: int) -> int:
    """Return the agent of the JVM ``pid``, or of a JVM that ``pid`` has started; 0: there is none.

    ``topicast run`` has started it ahead if what the JVM has started is a shell.
    """
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if child.cmdline()[-1:] == ["agent"]:
                is_shell = child.cmdline()[0] == "/bin/sh"
                return _ahead(child.environ()["TOPICAST_NOTES"]) if is_shell else child.pid
    return 0


def _ahead(folder: str) -> int:
    """Return the agent that has waited in ``folder``; 0: it has ended."""
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if one.cmdline()[-1:] == [folder]:
                return one.pid
    return 0


def drivers_of(hub: str, application: str) -> list[dict[str, Any]]:
    """Return what operators see of the drivers of ``application``."""
    done = topicast("drivers", "--output=json", TOPICAST_STATESTORES=hub)
    found: list[dict[str, Any]] = json.loads(done.stdout)  # a killed driver does not answer
    return [one for one in found if (one["application"] or "").startswith(application)]


class JvmDriver:
    """A spark-sql, or another ``program`` of Spark's that takes a statement a line."""

    def __init__(
        self,
        folder: Path,
        uri: str,
        *,
        program: Sequence[str] = ("spark-sql",),
        under: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        alone: bool = False,
    ) -> None:
        """Start it by ``under``, with more ``settings`` and variables.

        ``alone``: in a group of processes of its own, as what is started in a terminal.
        """
        (folder / "scratch").mkdir(parents=True)
        conf = {**spark_settings(folder), "spark.hadoop.hive.metastore.uris": uri}
        conf |= settings or {}
        (folder / "conf").write_text("".join(f"{key} {conf[key]}\n" for key in conf))
        self._log = folder / "log"
        name, *words = program
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*under, str(BIN / name), "--properties-file", str(folder / "conf"), *words],
                env={**os.environ, **quick_environment(), **(environment or {})},
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=alone,
            )

    def sql(self, text: str) -> Rows:
        """Return the sorted rows of a statement, or the error that it ends in."""
        said = len(self.log())
        self.send(text)
        return self.receive(said)

    def receive(self, said: int) -> Rows:
        """Return the answer of what was sent last; ``said``: the size of the log before that."""
        assert self.process.stdout is not None
        rows = []
        while _MARK not in (line := self.process.stdout.readline().rstrip("\n")):
            assert line or self.process.poll() is None, self.log()[-3000:]
            rows += self.row(line)
        failed = _ERROR.search(self.log()[said:])
        return failed[1] if failed else sorted(rows)

    def send(self, text: str) -> None:
        """Have a statement run, and a line printed that ends its answer."""
        self.write(f"{text};\nSELECT concat('{_MARK[:5]}', '{_MARK[5:]}');\n")

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def row(self, line: str) -> list[list[str]]:
        """Return what a line of its answer is: a row, or nothing, as what follows a prompt."""
        is_typed = line.startswith("spark-sql") or line.endswith(";")
        return [] if is_typed else [line.split("\t")]

    def log(self) -> str:
        """Return what it has written to standard error."""
        return self._log.read_text("utf-8", errors="replace")

    def end(self) -> int:
        """Let it end by itself; return its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.process.wait(END_S)
        self.process.stdout.close()
        return code

    def terminate(self) -> int:
        """End it as an operator does; return its exit code."""
        self.process.terminate()
        return self.end()


class FarDriver(JvmDriver):
    """A LineByLine whose driver a cluster starts: it is asked, and answers, through two pipes."""

    def __init__(self, folder: Path, uri: str, *, program: Sequence[str], **more: Any) -> None:
        folder.mkdir()
        pipes = [folder / "asked", folder / "answered"]
        for pipe in pipes:
            os.mkfifo(pipe)
        words = (*program, *map(str, pipes))
        super().__init__(folder, uri, program=words, **more)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        asked, kept = (os.open(pipe, os.O_RDWR) for pipe in pipes)  # which waits for nobody
        self.process.stdin, self.process.stdout = os.fdopen(asked, "w"), pipes[1].open()
        threading.Thread(target=self._close_at_end, args=(kept,), daemon=True).start()

    def _close_at_end(self, kept: int) -> None:
        """Let no answer be waited for once the driver has ended."""
        self.process.wait()
        os.close(kept)


class ScalaShell(JvmDriver):
    """A spark-shell."""

    def send(self, text: str) -> None:
        line = 'println("ro" + "w>" + r.mkString("\\t"))'  # in two: Scala 2.12 prints what is typed
        rows = f'spark.sql("""{text}""").collect.foreach(r => {line})'
        failed = "case error: Throwable => System.err.println(error.getMessage)"
        mark = f'println("{_MARK[:5]}" + "{_MARK[5:]}")'
        self.write(f"try {{ {rows} }} catch {{ {failed} }}; {mark}\n")

    def row(self, line: str) -> list[list[str]]:
        """Return a row; the shell says other things, too."""
        _, is_row, row = line.partition("row>")
        return [row.split("\t")] if is_row else []


@dataclass
class Place(Pair):
    """An attached driver in Python, a plain driver, and a spark-sql, whose calls are counted."""

    shell: JvmDriver
    counting: Counting

    def facts(self, application: str = "SparkSQL") -> dict[str, Any]:
        """Return what operators see of an application without Python; nothing: they see none."""
        found = drivers_of(self.daemons.hub_address, application)
        return next((one for one in found if one["state"] in (LIVE, PLAIN)), {})

    def is_live(self, application: str = "SparkSQL") -> None:
        """Wait until it is attached, and plans from memory as soon as it plans."""

        def is_on() -> bool:
            now = self.facts(application)
            return now.get("state") == "live" and not now["planning"].startswith("off")

        until(is_on, timeout_s=WAIT_S, what="the agent")

    def shows(self, query: str, rows: Rows, *, shell: JvmDriver | None = None) -> None:
        """Wait until the spark-sql, or another ``shell``, answers ``query`` with ``rows``."""
        asked = shell or self.shell
        until(lambda: asked.sql(query) == rows, timeout_s=WAIT_S, what=query)
