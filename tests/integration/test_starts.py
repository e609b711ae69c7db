"""Starts that are cut short, or meet each other: no process is left, nobody is in the way."""

import os
import re
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from topicast.cli.quickstart.demo import PORTS
from topicast.cli.quickstart.processes.ports import LOOPBACK
from topicast.tests.integration.marked import END_S, marked
from topicast.tests.spark.applications import quick_environment
from topicast.tests.waiting import until

QUICKSTART: Final = [sys.executable, "-m", "topicast.cli.main", "quickstart"]
METASTORE: Final = [sys.executable, "-m", "topicast.cli.main", "metastore", "start"]

CACHED: Final = pytest.mark.usefixtures("hive")  # then nothing has to be downloaded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.nightly  # the next one meets a port in use, test_run Ctrl-C
def test_two_that_start_at_once_get_ports_of_their_own_and_end_by_ctrl_c(tmp_path: Path) -> None:
    """Given both at the same moment, then the second names its ports, and neither disturbs."""
    with ExitStack() as up:
        both = [
            up.enter_context(
                marked(QUICKSTART, tmp_path / f"output{n}", cwd=tmp_path, environment=os.environ)
            )
            for n in range(2)
        ]
        for running in both:
            running.says("statestored  ready", timeout_s=60)
        ports = [set(re.findall(r"://127\.0\.0\.1:(\d+)", running.printed())) for running in both]
        assert ports[0].isdisjoint(ports[1])
        taken = f"port {PORTS['statestored']} is in use: it gets another"
        assert any(taken in running.printed() for running in both)
        for running in both:
            running.interrupt()
        for running in both:
            assert running.process.wait(END_S) == 130
            assert running.living() == []
            assert "every process has ended" in running.printed()


@pytest.mark.nightly  # half a minute
@pytest.mark.timeout(360)
@CACHED
def test_killed_quickstart_takes_everything_with_it(tmp_path: Path) -> None:
    """Given one taken port, then another is chosen; killed, it leaves no process behind."""
    usual = PORTS["statestored"]
    with ExitStack() as taken:
        with suppress(OSError):  # taken by somebody else: as good
            taken.enter_context(socket.create_server((LOOPBACK, usual)))
        with marked(
            QUICKSTART, tmp_path / "output", cwd=tmp_path, environment=os.environ
        ) as running:
            running.says("metastore    ready", timeout_s=60)
            assert f"port {usual} is in use" in running.printed()
            until(lambda: len(running.living()) > 5, timeout_s=60, what="what is started beside it")
            running.process.send_signal(signal.SIGKILL)
            until(lambda: not running.living(), timeout_s=END_S, what="the end of all")


def test_signal_in_the_middle_of_the_start_ends_everything(tmp_path: Path) -> None:
    with marked(QUICKSTART, tmp_path / "output", cwd=tmp_path, environment=os.environ) as running:
        running.says("reader       starts Spark", timeout_s=30)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(END_S) == 130
        assert running.living() == []
    assert "every process has ended" in running.printed()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["topicast.cli.quickstart.apps.writer", "."], 0, id="writer"),
        pytest.param(
            ["topicast.cli.main", "pipeline", "audit", "--statestores=tcp://127.0.0.1:1"],
            130,
            id="pipeline",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_application_that_is_ended_while_its_jvm_starts_leaves_none(
    tmp_path: Path, words: list[str], code: int
) -> None:
    command = [sys.executable, "-m", *words]
    environment = {**os.environ, **quick_environment()}
    with marked(command, tmp_path / "output", cwd=tmp_path, environment=environment) as running:
        until(lambda: any("/bin/java -cp" in one for one in running.living()), what="the JVM")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(END_S) == code, running.printed()
        until(lambda: running.living() == [], timeout_s=END_S, what="the end of the JVM")


@CACHED
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "metastore.log"),
        pytest.param(signal.SIGTERM, "db/db.lck", marks=pytest.mark.nightly),
    ],
)
def test_metastore_that_is_ended_while_it_starts_leaves_no_process(
    tmp_path: Path, number: int, moment: str
) -> None:
    """Given a JVM that has just begun, or whose database is open, then it ends with its parent."""
    folder = tmp_path / "metastore"
    command = [*METASTORE, f"--folder={folder}", "--port=0"]
    with marked(command, tmp_path / "output", cwd=tmp_path, environment=os.environ) as running:
        until((folder / moment).exists, timeout_s=40, what=moment)
        assert "ready" not in running.printed()
        running.process.send_signal(number)
        assert running.process.wait(END_S) == 0
        until(lambda: running.living() == [], timeout_s=20, what="the end of the JVM")
    assert "Traceback" not in running.printed()
