"""The quickstart as a newcomer meets it: real processes, no network, no Java of the system."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from topicast.catalog.metastore.embedded.java import cache_folder, java_home_for_spark
from topicast.catalog.metastore.embedded.server import EmbeddedMetastore
from topicast.cli.quickstart.apps.explorer import TABLES
from topicast.cli.quickstart.class_archive import TRIED, spark_classes
from topicast.cli.quickstart.demo import PORTS, RIGHT_S
from topicast.cli.quickstart.explorer_phases import PHASES
from topicast.cli.quickstart.ports import LOOPBACK
from topicast.cli.quickstart.writer_steps import STEPS
from topicast.tests.integration import offline
from topicast.tests.integration.marked import Marked, marked
from topicast.tests.waiting import until

ROOT: Final = Path(__file__).resolve().parent.parent.parent
QUICKSTART: Final = [sys.executable, "-m", "topicast.cli.main", "quickstart"]
FIRST_CHANGE_S: Final = 20.0  # what is promised on 2 cores

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(scope="module")
def offline_command() -> list[str]:
    """What is put before a command to take the network from it."""
    command = [sys.executable, offline.__file__]
    tried = subprocess.run([*command, "true"], check=False).returncode
    if tried == offline.FORBIDDEN:
        pytest.skip("the kernel lets nobody leave the network")
    assert tried == 0
    return command


def without_java(folder: Path) -> str:
    """Return a PATH that has everything but Java."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for file in Path(place).glob("*"):
            if file.name != "java" and file.is_file():
                (folder / file.name).unlink(missing_ok=True)
                (folder / file.name).symlink_to(file)
    return str(folder)


def earlier_cache(folder: Path) -> Path:
    """Return where the cache is that an earlier start has left, to which nothing is added."""
    (folder / "topicast").mkdir(parents=True)
    for cached in cache_folder().iterdir():
        (folder / "topicast" / cached.name).symlink_to(cached)
    return folder


def prepare_nothing() -> None:
    """Take Spark's classes for prepared, without success: it takes as long as the rest."""
    classes = spark_classes(java_home_for_spark(cache_folder()))
    classes.mkdir(exist_ok=True)
    (classes / TRIED).touch()


def ended(running: Marked, *, timeout_s: float) -> int:
    return running.process.wait(timeout_s)


@pytest.mark.alone
@pytest.mark.timeout(220)
def test_once_works_without_a_network_and_without_java(
    hive: EmbeddedMetastore,
    offline_command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given what an earlier start has cached, when it runs offline, then all steps are seen."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.setenv("PATH", without_java(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(earlier_cache(tmp_path / "cache")))
    prepare_nothing()
    with marked(
        [*offline_command, *QUICKSTART, "--once"],
        tmp_path / "output",
        cwd=tmp_path / "cwd",
        environment=os.environ,
    ) as running:
        assert ended(running, timeout_s=200) == 0, running.printed()
        assert running.living() == []
    printed = running.printed()
    assert f"{len(STEPS)} changes made in one Spark driver were seen in another one" in printed
    assert "2000 orders of 2 days" in printed
    first = next(line for line in printed.splitlines() if "CREATE DATABASE" in line)
    assert float(first.split()[0]) < FIRST_CHANGE_S
    assert list((tmp_path / "cwd").iterdir()) == [], "nothing is left where it was started"
    explored, _, compared = printed.partition("Two ordinary Spark applications")
    check_explorer(explored.partition("The explorer is a driver")[2])
    check_applications(compared)


def check_explorer(printed: str) -> None:
    """Its topics change as it reads and as the mode turns, within its budget, and none is wrong."""
    chapters = re.findall(
        r"It holds ([\d,]+) of ([\d,]+) bytes; everything would take ([\d,]+)", printed
    )
    sizes = [[int(size.replace(",", "")) for size in chapter] for chapter in chapters]
    assert len(sizes) == len(PHASES)
    assert all(held <= budget < everything for held, budget, everything in sizes)
    reported = dict(zip((word for word, _ in PHASES), levels(printed), strict=True))
    assert reported["begin"] == {"full", "none"}, "the names, and nothing else"
    assert "minimal" in reported["read"]
    assert "minimal" in reported["walk"]
    assert reported["full"] == {"full", "none"}
    assert "minimal" in reported["mixed"]
    compared = re.findall(r"(\d+) answers compared with the metastore.* (\d+) differ", printed)
    assert [different for _, different in compared] == ["0", "0"]
    assert all(int(count) >= TABLES for count, _ in compared)


def check_applications(printed: str) -> None:
    """Plain Spark answers wrong after each write; the same scripts under topicast run do not."""
    found = re.findall(
        r"^(?:appends|overwrites|adds).*\?  +(\S.*\S)  +(\S+) +([\d.]+) s$", printed, re.MULTILINE
    )
    assert [plain.strip() for plain, _, _ in found] == [
        "2,000: old",
        "FILE_NOT_EXIST",
        "UNRESOLVED_COLUMN",
    ]
    assert [attached for _, attached, _ in found] == ["3,000", "500", "20"]
    assert all(0 < float(after) < RIGHT_S for _, _, after in found)


def levels(printed: str) -> list[set[str]]:
    """Return the levels in each chapter's table."""
    tables = re.split(r"^level +topics +bytes +why$", printed, flags=re.MULTILINE)[1:]
    return [set(re.findall(r"^(full|minimal|none) ", table, re.MULTILINE)) for table in tables]


def test_killed_quickstart_takes_everything_with_it(
    hive: EmbeddedMetastore, tmp_path: Path
) -> None:
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
            assert len(running.living()) > 5
            running.process.send_signal(signal.SIGKILL)
            until(lambda: not running.living(), timeout_s=20, what="the end of all")


def test_signal_in_the_middle_of_the_start_ends_everything(tmp_path: Path) -> None:
    with marked(QUICKSTART, tmp_path / "output", cwd=tmp_path, environment=os.environ) as running:
        running.says("reader       starts Spark", timeout_s=30)
        running.process.send_signal(signal.SIGTERM)
        assert ended(running, timeout_s=30) == 130
        assert running.living() == []
    assert "every process has ended" in running.printed()


def test_offline_and_not_cached_says_which_file_goes_where(
    offline_command: list[str], tmp_path: Path
) -> None:
    cached = earlier_cache(tmp_path / "cache") / "topicast"
    for missing in (next(cached.glob("hive-*.jar")), cached / "ivy"):
        missing.unlink()
    with marked(
        [*offline_command, *QUICKSTART, "--once"],
        tmp_path / "output",
        cwd=tmp_path,
        environment={**os.environ, "XDG_CACHE_HOME": str(cached.parent)},
    ) as running:
        assert ended(running, timeout_s=90) == 1
    error = next(line for line in running.printed().splitlines() if line.startswith("error: "))
    assert "org.apache.hive.hcatalog:hive-hcatalog-server-extensions:2.3.10" in error
    assert str(cached) in error
