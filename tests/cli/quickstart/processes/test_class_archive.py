"""Classes that are made once; tests/spark starts its applications with them."""

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from topicast.cli.quickstart.metastore.java import java_home_for_spark
from topicast.cli.quickstart.processes.class_archive import (
    BASE,
    IN_USE_S,
    KEPT_MAX,
    SPARK,
    TRIED,
    application_environment,
    run_logged,
)


def leave_an_archive(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bool:
    """Leave the file that ``command`` is to make, as a program does that ends well."""
    options = environment["SPARK_SUBMIT_OPTS"] if "-m" in command else command[-1]
    made = Path(options.split()[-1].partition("=")[2])
    made.write_bytes(b"classes")
    assert made.parent == folder, "half of it is nowhere to be found"
    return True


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java whose cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return java_home_for_spark(tmp_path / "shim")


def folders(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "topicast").iterdir())


def test_they_are_made_once_and_used_from_then_on(java_home: Path, tmp_path: Path) -> None:
    """Given programs that leave what they make, then nothing else stays: old archives give way."""

    now = time.time()
    for name, used_at in {
        "spark-unused": now - IN_USE_S - 60,
        **{f"spark-in-use-{number}": now - number for number in range(KEPT_MAX)},
        **{f"spark-old-{number}": number for number in range(KEPT_MAX)},
    }.items():
        old = tmp_path / "topicast" / name
        old.mkdir(parents=True)
        os.utime(old, (used_at, used_at))
    printed: list[str] = []
    first = application_environment(java_home, say=printed.append, run=leave_an_archive)
    assert first == application_environment(java_home, say=printed.append, run=leave_an_archive)
    assert printed == ["preparing Spark's classes, for quicker starts (once, a minute or two)"]
    (made,) = (one for one in folders(tmp_path) if (one / SPARK).exists())
    names = {one.name for one in folders(tmp_path)}
    assert names == {made.name, *(f"spark-in-use-{number}" for number in range(KEPT_MAX))}
    option = f" -XX:SharedArchiveFile={made / BASE}:{made / SPARK} -Xlog:disable"
    assert first["SPARK_SUBMIT_OPTS"].endswith(option)
    assert {one.name for one in made.iterdir()} == {BASE, SPARK, TRIED}
    os.utime(made, (0, 0))
    application_environment(java_home, say=printed.append, run=leave_an_archive)
    assert made.stat().st_mtime > 0, "what is used stays longest"


def test_of_applications_that_start_at_once_one_makes_the_archives(java_home: Path) -> None:
    """With two bases, the archive that was made with the other base would never be used."""
    ran: list[Sequence[str]] = []
    both_are_here = threading.Barrier(2)

    def run(command: Sequence[str], *_others: object) -> bool:
        ran.append(command)
        with suppress(threading.BrokenBarrierError):
            both_are_here.wait(0.2)  # where both make them
        return True

    printed: list[str] = []
    with ThreadPoolExecutor(2) as threads:
        starts = [
            threads.submit(application_environment, java_home, say=printed.append, run=run)
            for _ in range(2)
        ]
        first, second = (one.result() for one in starts)
    assert first == second
    assert (len(ran), len(printed)) == (1, 1)


def test_java_that_cannot_make_them_is_tried_once(java_home: Path, tmp_path: Path) -> None:
    ran: list[Sequence[str]] = []

    def run(command: Sequence[str], *_others: object) -> bool:
        ran.append(command)
        return False

    for _ in range(2):
        found = application_environment(java_home, say=print, run=run)
        assert "SharedArchiveFile" not in found["SPARK_SUBMIT_OPTS"]
    assert len(ran) == 1
    assert [[one.name for one in made.iterdir()] for made in folders(tmp_path)] == [[TRIED]]


def test_archive_that_is_not_written_to_its_end_is_put_nowhere(
    java_home: Path, tmp_path: Path
) -> None:
    """Given a machine on which a program is ended after two minutes, while it writes."""

    def run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bool:
        return leave_an_archive(command, folder, environment) and "-m" not in command

    found = application_environment(java_home, say=print, run=run)
    assert "SharedArchiveFile" not in found["SPARK_SUBMIT_OPTS"]
    assert {one.name for one in folders(tmp_path)[0].iterdir()} == {BASE, TRIED}


@pytest.mark.parametrize(("code", "ended_well"), [("0", True), ("1", False)])
def test_what_a_program_leaves_is_whole_if_it_ended_well(
    tmp_path: Path, code: str, *, ended_well: bool
) -> None:
    command = [sys.executable, "-c", f"raise SystemExit({code})"]
    assert run_logged(command, tmp_path, os.environ) is ended_well
