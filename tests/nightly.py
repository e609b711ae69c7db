"""Nightly: what takes too long for make test, one step after the other, and the record of it.

    cells · a soak · 10,000 seeds · 1,000 examples · variants · mutants · versions · hosts · …
                 └── exit code, seconds, pytest's own counts ──▶ build/nightly.json ──keep──▶ here

A step that fails does not stop the others. KEEP=1 writes each step into tests/nightly.json as it
ends: its last run (commit, date, counts), and where and when it last passed. Other steps stay.
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from topicast.tests.bench.run import origin

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "build"
RECORD: Final = Path(__file__).with_suffix(".json")
TIMEOUT_S: Final = 7200.0  # of a step
COUNTED: Final = ("passed", "failed", "error", "errors", "skipped", "seeds", "operations")
COUNTS: Final = re.compile(rf"(\d+) ({'|'.join(COUNTED)})\b")

Steps = Mapping[str, tuple[str, dict[str, str]]]  # by name: the command, and its environment
Record = dict[str, dict[str, Any]]  # by the name of a step

STEPS: Final[Steps] = {
    "cells": ("make test ARGS=tests/spark", {"CELLS": "all"}),
    "soak": ("make soak", {"SOAK_S": "60"}),
    "sim": ("make sim", {}),
    "examples": ("make unit", {"EXAMPLES": "1000"}),
    "variants": ("make test ARGS=--nightly", {}),  # all tests that are marked as nightly
    "sessions": (
        "make test ARGS='tests/spark/test_refresh.py --nightly -k come_and_go_for_long'",
        {"SESSIONS_S": "3600"},
    ),
    "mutants": ("make mutants", {}),
    "spark": ("make compat-spark ARGS=--numprocesses=4", {}),
    "plans": (  # all statements and calls, with plans from memory and without
        "make compat-spark ARGS='-k have_the_same_answers_as_in_plain_spark'",
        {"CELLS": "all"},
    ),
    "jvm": ("make compat-jvm", {}),
    "hive": ("make compat-hive", {}),
    "lakes": ("make compat-lakes", {}),
    "dbt": ("make compat-dbt", {}),
    "kerberos": ("make compat-kerberos", {}),
    "s3": ("make compat-s3", {}),
    "deploy": ("make compat-deploy", {}),
    "hosts": ("make test ARGS=tests/net", {}),
    "strangers": (
        "make test ARGS='--nightly tests/integration/test_strangers.py'",
        {"STRANGERS_S": "60"},
    ),
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
    return nightly(given.steps, record=RECORD if given.keep else None)


def nightly(
    names: Sequence[str],
    steps: Steps = STEPS,
    *,
    origin: Callable[[], dict[str, str]] = origin,
    folder: Path = FOLDER,
    record: Path | None = None,
) -> int:
    """Run the steps ``names``, all if there are none, and write down each as it ends.

    Args:
        names: Of ``steps``.
        steps: The command of each step, and its environment.
        origin: Returns the commit of this tree, with a ``+`` if it is changed, and the date.
        folder: Where the output of each step goes, and what this run came to.
        record: The record that is kept; each step of this run replaces the former run's step in it.
    """
    folder.mkdir(exist_ok=True)
    results: Record = {}
    unkept = []
    for name in names or steps:
        here = origin()
        if record and here["commit"].endswith("+"):
            print(f"nightly: kept is what a commit does, and this is {here['commit']}")
            return 1
        results[name] = here | run(name, steps, folder)
        write(folder / "nightly.json", results, steps)
        if record and origin()["commit"] != here["commit"]:
            print(f"nightly: {name} is not kept: the tree has changed while it ran")
            unkept.append(name)
        elif record:
            before = read(record)
            write(record, before | {name: renewed(before.get(name, {}), results[name])}, steps)
    print(*table(read(record) if record else results, steps), sep="\n")
    failed = [name for name, result in results.items() if result["exit"]]
    print(f"nightly: {len(results)} steps, failed: {', '.join(failed) or 'none'}")
    return 1 if failed or unkept else 0


def renewed(before: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of a step: ``result``, and where and when the step last passed."""
    passed = {key: result[key] for key in ("commit", "at")}
    last = before.get("last_passed") if result["exit"] else passed
    return {**result, **({"last_passed": last} if last else {})}


def table(recorded: Mapping[str, Any], steps: Steps = STEPS) -> list[str]:
    """Return a line for each step: where and when it last passed, and what its last run came to."""
    rows = [("step", "last passed", "at commit", "last run")]
    for name in steps:
        result = recorded.get(name)
        if result is None:
            rows.append((name, "never", "", "not recorded"))
            continue
        last = renewed(result, result).get("last_passed") or {"at": "never", "commit": ""}
        where = f", at {result['commit']} on {result['at']}" if result["exit"] else ""
        rows.append((name, last["at"], last["commit"], outcome(result) + where))
    return [f"{name:10}{at:13}{commit:12}{said}" for name, at, commit, said in rows]


def outcome(result: Mapping[str, Any]) -> str:
    """Return what a run of a step came to, as people read it."""
    counts = [f"{result[what]} {what}" for what in COUNTED if what in result]
    return ", ".join([f"exit {result['exit']}", f"{result['seconds']} s", *counts])


def read(path: Path) -> Record:
    """Return the last run of each step that is recorded; nothing if there is no record yet."""
    found: Record = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write(path: Path, results: Mapping[str, Any], steps: Steps) -> None:
    """Write the record of ``results``, in the order of the steps."""
    ordered = {name: results[name] for name in steps if name in results}
    path.write_text(json.dumps(ordered, indent=2) + "\n", encoding="utf-8")


def run(name: str, steps: Steps, folder: Path) -> dict[str, Any]:
    """Run one step, whose output goes to a file; return its exit code, seconds and counts."""
    command, environment = steps[name]
    log = folder / f"nightly-{name}.log"
    print(f"nightly: {name}: {command} (output: {log})", flush=True)
    began_at = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        try:
            code = subprocess.run(
                shlex.split(command),
                cwd=ROOT,
                env={**_own_environment(), **environment},
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
    result = {"exit": code, "seconds": took_s, **counts}
    print(f"nightly: {name}: {outcome(result)}", flush=True)
    return result


def _own_environment() -> dict[str, str]:
    """Return the environment without what the make around us hands down: its ARGS are steps."""
    handed_down = {"MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "ARGS", "KEEP"}
    return {name: value for name, value in os.environ.items() if name not in handed_down}


if __name__ == "__main__":
    sys.exit(main())
