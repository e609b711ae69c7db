"""The quickstart as a newcomer meets it: real processes, no network, no Java of the system."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from topicast.cli.quickstart.metastore.java import cache_folder, java_home_for_spark
from topicast.cli.quickstart.processes.class_archive import TRIED, spark_classes
from topicast.tests.integration import offline
from topicast.tests.integration.demonstration import check_demonstration
from topicast.tests.integration.marked import Marked, marked

ROOT: Final = Path(__file__).resolve().parent.parent.parent
QUICKSTART: Final = [sys.executable, "-m", "topicast.cli.main", "quickstart"]
COMPARED_S: Final = 60.0  # what is promised on 2 cores

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(scope="module")
def offline_command(pytestconfig: pytest.Config) -> list[str]:
    """What is put before a command to take the network from it."""
    command = [sys.executable, offline.__file__]
    tried = subprocess.run([*command, "true"], check=False).returncode
    if tried == offline.FORBIDDEN:
        stop = pytest.fail if pytestconfig.getoption("--nightly") else pytest.skip
        stop("the kernel lets nobody leave the network")
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
@pytest.mark.nightly
@pytest.mark.timeout(220)
@pytest.mark.usefixtures("hive")  # whose start has cached what the quickstart needs
def test_once_works_without_a_network_and_without_java(
    offline_command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given what an earlier start has cached, when it runs offline, then all steps are seen.

    ``make test`` checks the same steps with a network: test_docs_commands.py.
    """
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
    compared = next(line for line in printed.splitlines() if "its last query" in line)
    assert float(compared.split()[0]) < COMPARED_S, "both applications have been shown"
    assert list((tmp_path / "cwd").iterdir()) == [], "nothing is left where it was started"
    check_demonstration(printed)


def test_offline_and_not_cached_says_which_file_goes_where(
    offline_command: list[str], tmp_path: Path
) -> None:
    cached = earlier_cache(tmp_path / "cache") / "topicast"
    next(cached.glob("hive-*.jar")).unlink()
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
