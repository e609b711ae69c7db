"""What the Makefile promises of its set-up, with a Python and a pip that install nothing."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from topicast.tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent
READ = (
    *("Makefile", "setup.cfg", "pyproject.toml", "constraints.txt"),
    "cli/quickstart/progress.py",
)
PYTHON = """#!/bin/sh
case "$*" in
  *"-m venv"*)
    echo "venv begins" >> "$LOG"
    until [ -e "$GO" ]; do sleep 0.05; done
    rm -rf .venv
    mkdir -p .venv/bin
    ln -s "$STUB" .venv/bin/python
    echo "#!$PWD/.venv/bin/python" > .venv/bin/pip
    echo "venv ends" >> "$LOG"
    exit ;;
  *"-m pip"*) echo pip >> "$LOG"; exit ;;
  *purelib*) echo "$PWD/.venv"; exit ;;
esac
exec "$REAL" "$@"
"""
ONCE = {"venv begins": 1, "venv ends": 1, "pip": 2}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def waits_for_lock(folder: Path) -> bool:
    """Return whether a process waits until another one lets go of the lock of ``folder``."""
    of = f":{folder.stat().st_ino} "
    lines = Path("/proc/locks").read_text().splitlines()
    return any("-> FLOCK" in line and of in line for line in lines)


def test_of_two_makes_at_once_in_a_new_clone_the_first_sets_it_up_and_the_second_waits(
    tmp_path: Path,
) -> None:
    clone, log, go, stub = (tmp_path / one for one in ("clone", "log", "go", "python3"))
    clone.mkdir()
    log.touch()
    for name in READ:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, clone / name)
    stub.write_text(PYTHON)
    stub.chmod(0o755)
    given = {"PATH": os.environ["PATH"], "REAL": sys.executable}
    given |= {"LOG": str(log), "GO": str(go), "STUB": str(stub)}

    def counts() -> Counter[str]:
        return Counter(log.read_text().splitlines())

    with ExitStack() as up:
        makes = []
        for _ in range(2):
            words = ["make", "install", f"PYTHON={stub}"]
            make = subprocess.Popen(words, cwd=clone, env=given, stdout=subprocess.DEVNULL)
            up.callback(make.wait)
            up.callback(make.kill)
            makes.append(make)
        until(lambda: counts()["venv begins"] == 1 and waits_for_lock(clone), what="both")
        go.touch()
        until(lambda: None not in [one.poll() for one in makes], what="their end")
    assert counts() == ONCE
    assert [one.returncode for one in makes] == [0, 0]
    assert list(clone.glob(".venv/installed-*"))
    assert str(clone) in (clone / ".venv" / "pyspark_topicast.pth").read_text()
