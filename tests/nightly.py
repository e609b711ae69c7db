"""Nightly: what takes too long for make test, one step after the other, and the record of it.

    cells · a soak · 10,000 seeds · 1,000 examples · variants · formats · hosts · kills · …
                 └── exit code, seconds, pytest's own counts ──▶ build/nightly.json ──keep──▶ here

A step that fails does not stop the others. KEEP=1 writes what the steps came to into
tests/nightly.json, which has of each step its last run: at which commit, when, and the counts.
Run: make nightly; ARGS="cells sim" for some steps. It takes some three hours on 2 cores.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from topicast.tests.bench.run import origin

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "build"
RECORD: Final = Path(__file__).with_suffix(".json")
TIMEOUT_S: Final = 7200.0  # of a step
COUNTS: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped|seeds|operations)\b")
STEPS: Final[Mapping[str, tuple[str, dict[str, str]]]] = {  # the command, and its environment
    "cells": ("make test ARGS=tests/spark", {"CELLS": "all"}),
    "soak": ("make soak", {"SOAK_S": "60"}),
    "sim": ("make sim", {}),
    "examples": ("make unit", {"EXAMPLES": "1000"}),
    "variants": ("make test ARGS=--nightly", {}),  # all tests that are marked as nightly
    "sessions": (
        "make test ARGS='tests/spark/test_refresh.py --nightly -k come_and_go_for_long'",
        {"SESSIONS_S": "3600"},
    ),
    "lakes": ("make compat-lakes", {}),
    "kerberos": ("make compat-kerberos", {}),
    "s3": ("make compat-s3", {}),
    "deploy": ("make compat-deploy", {}),
    "upgrade": ("make compat-upgrade", {}),
    "hosts": ("make test ARGS=tests/net", {}),
    "strangers": ("make test ARGS=tests/integration/test_strangers.py", {"STRANGERS_S": "60"}),
    "kills": (f"{sys.executable} -m topicast.tests.spark.kills", {"KILLS": "50"}),
    "fresh": ("make fresh", {}),
}


def main() -> int:
    """Run what is named, all if nothing is; 1 if a step failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("steps", nargs="*", help=f"of {', '.join(STEPS)}; none: all")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    given = parser.parse_args()
    unknown = sorted(set(given.steps) - set(STEPS))
    if unknown:
        parser.error(f"no step {unknown[0]!r}: there are {', '.join(STEPS)}")
    here = origin()
    if given.keep and here["commit"].endswith("+"):
        parser.error(f"kept is what a commit does, and this is {here['commit']}")
    results = {name: here | run(name) for name in given.steps or STEPS}
    write(FOLDER / "nightly.json", results)
    if given.keep:
        write(RECORD, {**read(RECORD), **results})
    failed = [name for name, result in results.items() if result["exit"]]
    print(f"nightly: {len(results)} steps, failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def read(path: Path) -> dict[str, Any]:
    """Return the last run of each step that is recorded; nothing if there is no record yet."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Write the record of ``results``, in the order of the steps."""
    ordered = {name: results[name] for name in STEPS if name in results}
    path.write_text(json.dumps(ordered, indent=2) + "\n", encoding="utf-8")


def run(name: str) -> dict[str, Any]:
    """Run one step, whose output goes to a file; return its exit code, seconds and counts."""
    command, environment = STEPS[name]
    FOLDER.mkdir(exist_ok=True)
    log = FOLDER / f"nightly-{name}.log"
    print(f"nightly: {name}: {command} (output: {log.relative_to(ROOT)})", flush=True)
    began_at = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        try:
            code = subprocess.run(
                shlex.split(command),
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = 124
    found = COUNTS.findall(log.read_text(encoding="utf-8", errors="replace"))
    counts = {what: int(number) for number, what in found}  # the last that was said of each
    took_s = round(time.monotonic() - began_at)
    said = ", ".join(f"{number} {what}" for what, number in counts.items())
    print(f"nightly: {name}: exit {code}, {took_s} s, {said or 'no counts'}", flush=True)
    return {"exit": code, "seconds": took_s, **counts}


if __name__ == "__main__":
    sys.exit(main())
