"""Classes that are made once; tests/spark starts its applications with them."""

import os
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
)


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java whose cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return java_home_for_spark(tmp_path / "shim")


def folders(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "topicast").iterdir())


def test_they_are_made_once_and_used_from_then_on(java_home: Path, tmp_path: Path) -> None:
    """Given programs that leave what they make, then nothing else stays: old archives give way."""

    def run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        options = environment["SPARK_SUBMIT_OPTS"] if "-m" in command else command[-1]
        made = Path(options.split()[-1].partition("=")[2])
        made.write_bytes(b"classes")
        assert made.parent == folder, "half of it is nowhere to be found"

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
    first = application_environment(java_home, say=printed.append, run=run)
    assert first == application_environment(java_home, say=printed.append, run=run)
    assert printed == ["preparing Spark's classes, for quicker starts (once, a minute or two)"]
    (made,) = (one for one in folders(tmp_path) if (one / SPARK).exists())
    names = {one.name for one in folders(tmp_path)}
    assert names == {made.name, *(f"spark-in-use-{number}" for number in range(KEPT_MAX))}
    option = f" -XX:SharedArchiveFile={made / BASE}:{made / SPARK} -Xlog:disable"
    assert first["SPARK_SUBMIT_OPTS"].endswith(option)
    assert {one.name for one in made.iterdir()} == {BASE, SPARK, TRIED}
    os.utime(made, (0, 0))
    application_environment(java_home, say=printed.append, run=run)
    assert made.stat().st_mtime > 0, "what is used stays longest"


def test_of_applications_that_start_at_once_one_makes_the_archives(java_home: Path) -> None:
    """With two bases, the archive that was made with the other base would never be used."""
    ran: list[Sequence[str]] = []
    both_are_here = threading.Barrier(2)

    def run(command: Sequence[str], *_others: object) -> None:
        ran.append(command)
        with suppress(threading.BrokenBarrierError):
            both_are_here.wait(0.2)  # where both make them

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

    def run(command: Sequence[str], *_others: object) -> None:
        ran.append(command)

    for _ in range(2):
        found = application_environment(java_home, say=print, run=run)
        assert "SharedArchiveFile" not in found["SPARK_SUBMIT_OPTS"]
    assert len(ran) == 1
    assert [[one.name for one in made.iterdir()] for made in folders(tmp_path)] == [[TRIED]]
