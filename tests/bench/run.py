"""Run: benchmarks one after the other; what they print is shown beside what was recorded.

    bench_*.py ──JSON lines──▶ shown, with the change ──▶ build/bench.jsonl
                                     ▲                └─ --keep ─▶ results.jsonl
                                results.jsonl

Run: make bench [ARGS=tests/bench/bench_wire.py] [KEEP=1]
"""

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
RECORDED: Final = HERE / "results.jsonl"
RECORDS: Final = ("tests/bench/results.jsonl", "tests/nightly.json")  # nothing of what is measured
LATEST: Final = HERE.parent.parent / "build" / "bench.jsonl"
SCRIPT_S_MAX: Final = 600.0  # the longest takes 240 s; what hangs is ended
CORES: Final = 2  # of the machine on which results are recorded
SAME: Final = 0.02  # a difference up to this is none
APART: Final = ("bench", "name", "beside", "its", "ratio", "target", "least", "met", "reference")
ORIGIN: Final = ("machine", "python", "commit", "at")

Line = dict[str, Any]
Key = tuple[str, str]


def key_of(line: Mapping[str, Any]) -> Key:
    """Return what stands for a result over the years."""
    return line["bench"], line["name"]


def read_lines(path: Path) -> dict[Key, Line]:
    """Return the lines of a file of results, none if it is absent."""
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {key_of(line): line for line in lines}


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    """Replace a file of results."""
    path.parent.mkdir(exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def merged(recorded: Mapping[Key, Line], measured: Iterable[Line]) -> list[Line]:
    """Return what is to be recorded: all that was measured, and of other benchmarks the old."""
    news = list(measured)
    renewed = {line["bench"] for line in news}
    kept = [line for line in recorded.values() if line["bench"] not in renewed]
    return sorted(kept + news, key=lambda line: line["bench"])  # stable: in the order of a script


def shown(line: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """Return ``line`` as a person reads it, with the change against ``before``."""
    parts = [line["name"]]
    parts += [
        f"{name} {_number(value)}{_change(value, before.get(name))}"
        for name, value in line.items()
        if name not in (*APART, *ORIGIN)
    ]
    if "beside" in line:
        change = _change(line["ratio"], before.get("ratio"))
        parts.append(f"= {line['ratio']}{change} of {line['beside']} {_number(line['its'])}")
    if "met" in line:
        bound = "at least" if line.get("least") else "at most"
        parts.append(f"[{bound if line['met'] else 'MISSED'} {line['target']}]")
    if "reference" in line:
        parts.append(f"[{line['reference']}]")
    return "  ".join(parts)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _change(value: object, before: object) -> str:
    if not isinstance(value, int | float) or not isinstance(before, int | float) or not before:
        return ""
    change = value / before - 1
    return f" ({change:+.0%})" if abs(change) > SAME else ""


def origin() -> dict[str, str]:
    """Return where and with what the numbers are measured."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    models = [row.partition(":")[2].strip() for row in text.splitlines() if "model name" in row]
    model = models[0] if models else platform.machine()
    besides = [":(top)", *(f":(top,exclude){record}" for record in RECORDS)]
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *besides)
    return {
        "machine": f"{os.cpu_count()} x {model}",
        "python": platform.python_version(),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if changed else ""),
        "at": time.strftime("%Y-%m-%d"),
    }


def _git(*arguments: str) -> str:
    command = ("git", "-C", str(HERE), *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def lines_of(script: Path) -> Iterator[Line]:
    """Run ``script`` and yield what it reports, as it does.

    Raises:
        CalledProcessError: it ended with an error, or took too long.
    """
    command = [sys.executable, str(HERE / "bench.py"), str(script)]
    bench = {"bench": script.stem.removeprefix("bench_")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    timer = threading.Timer(SCRIPT_S_MAX, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        assert process.stdout is not None
        with process.stdout as rows:
            yield from (bench | json.loads(row) for row in rows if _is_line(row))
    finally:
        timer.cancel()
        if not _ends(process):
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _is_line(row: str) -> bool:
    """Return whether ``row`` is a line; other text, as of what is prepared first, is passed on."""
    if not row.startswith("{"):
        print(f"  {row}", end="", flush=True)
        return False
    return True


def _ends(process: "subprocess.Popen[str]") -> bool:
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        return False
    return True


def measure(scripts: Iterable[Path], recorded: Mapping[Key, Line]) -> tuple[list[Line], list[str]]:
    """Run ``scripts``; return what they reported, and the names of those that failed."""
    measured: list[Line] = []
    failed: list[str] = []
    for script in scripts:
        began = time.monotonic()
        print(script.stem, flush=True)
        try:
            for line in lines_of(script):
                print("  " + shown(line, recorded.get(key_of(line), {})), flush=True)
                measured.append(line)
        except subprocess.CalledProcessError as exc:
            failed.append(script.stem)
            print(f"  FAILED: {exc}", flush=True)
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
    return measured, failed


def main(arguments: list[str]) -> int:
    """Run what is named, all if nothing is; 1 if a script failed or a target was missed.

    What is kept is to be measured again later: at a commit, on CORES cores; else 2, at once.
    """
    keep = "--keep" in arguments
    named = [Path(one) for one in arguments if one != "--keep"]
    recorded, here = read_lines(RECORDED), origin()
    if keep and (here["commit"].endswith("+") or os.cpu_count() != CORES):
        print(f"kept is what a commit does on {CORES} cores: this is {here}", file=sys.stderr)
        return 2
    olds = {tuple(line[name] for name in ORIGIN) for line in recorded.values()}
    print("now:      " + "  ".join(here.values()))
    for old in sorted(olds):
        print("recorded: " + "  ".join(old))
    measured, failed = measure(named or sorted(HERE.glob("bench_*.py")), recorded)
    measured = [line | here for line in measured]
    write_lines(LATEST, measured)
    if keep and not failed:
        write_lines(RECORDED, merged(recorded, measured))
    missed = [".".join(key_of(line)) for line in measured if line.get("met") is False]
    mute = [one for one in measured if not {"met", "reference"} & one.keys()]
    failed += [f"{'.'.join(key_of(line))} (it states no target)" for line in mute]
    print(f"{len(measured)} results in {LATEST.parent.name}/{LATEST.name}", end="")
    print(f"; missed: {', '.join(missed)}" if missed else "", end="")
    print(f"; failed: {', '.join(failed)}" if failed else "")
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
