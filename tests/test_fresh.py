"""What make fresh runs in its clone: every part of a command, and the first beside another make."""

import os
import subprocess
from pathlib import Path

import pytest

from topicast.tests.fresh import COMMANDS, within
from topicast.tests.waiting import until

MAKE = """#!/bin/sh
echo "$PWD: $*" >> "$LOG"
[ "$1" != "$FAILS" ]
"""


@pytest.mark.parametrize("fails", ["", "types", "run"])
def test_both_makes_run_in_the_clone_and_each_may_fail_the_command(
    fails: str, tmp_path: Path
) -> None:
    clone, log = tmp_path / "a clone", tmp_path / "log"
    clone.mkdir()
    stub = tmp_path / "bin" / "make"
    stub.parent.mkdir()
    stub.write_text(MAKE)
    stub.chmod(0o755)
    done = subprocess.run(
        ["sh", "-euc", within(str(clone), COMMANDS["run"])],
        env={"PATH": f"{stub.parent}:{os.environ['PATH']}", "LOG": str(log), "FAILS": fails},
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (done.returncode != 0) is (fails != "")
    until(lambda: log.read_text().count("\n") == 2, what="both")  # a part that fails waits for none
    run_there = sorted(log.read_text().splitlines())
    assert run_there == [f"{clone}: run ARGS=--once", f"{clone}: types"]
