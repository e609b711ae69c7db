"""What make shows while pip works, as make runs it: a file, without Topicast."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from topicast.cli.quickstart import progress

PIP = """Collecting pyspark==4.3.0 (from topicast)
  Downloading pyspark-4.3.0.tar.gz (450 MB)
  Building wheel for pyspark (setup.py): started
Installing collected packages: py4j, pyspark
"""


@pytest.fixture
def running() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-I", str(Path(progress.__file__))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_packages_are_named_and_the_rest_is_left_out(running: "subprocess.Popen[str]") -> None:
    printed, _ = running.communicate(PIP, timeout=60)
    assert printed.splitlines() == [
        "      Collecting pyspark==4.3.0",
        "      Building wheel for pyspark (setup.py)",
        "      Installing collected",
    ]
    assert running.returncode == 0


def test_time_is_shown_while_no_package_is_named(running: "subprocess.Popen[str]") -> None:
    """Though lines come that name none: a download may have thousands of them."""
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write("  Downloading pyspark-4.3.0.tar.gz (450 MB)\n")
    running.stdin.flush()
    assert running.stdout.readline() == "      … 4 s\n"
