"""Pythons: units and Spark's tests on each other Python that is supported, and found here.

    3.10 ──▶ .venv/python-3.10, from constraints.txt ──▶ units, Spark's tests
    3.6 … 3.9, where they are found ──▶ the one line that 'topicast run' prints there

They are sought on the PATH, among pyenv's and among uv's. Fails if none of them is found.
Run: make compat-python; PYTHONS=3.10 for one of them, ARGS=-x for pytest
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TOO_OLD: Final = ("3.6", "3.7", "3.8", "3.9")
FOLDERS: Final = (".pyenv/versions/{}.*/bin", ".local/share/uv/python/cpython-{}.*/bin")
SUITES: Final = (("--unit",), ("tests/spark", "tests/subscriber/spark"))
SEEN: Final = (  # by Spark, which lists what is on the path, and so sees no editable install
    "import pathlib, sys, sysconfig; "
    "pathlib.Path(sysconfig.get_path('purelib'), 'pyspark_topicast.pth').write_text(sys.argv[1])"
)
ASK: Final = "import sys; print('%d.%d' % sys.version_info[:2])"


def main() -> int:
    """Run the tests on each Python; return 1 if they fail on any, 2 if no Python is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", help="separated by spaces, as '3.10 3.12'")
    given, arguments = parser.parse_known_args()
    failed, untried = [], []
    for version in given.versions.split():
        if (python := _find(version)) is None:
            untried.append(version)
            continue
        print(f"Python {version}: {python}", flush=True)
        if not _passes(python, ROOT / ".venv" / f"python-{version}", arguments):
            failed.append(version)
    failed += [version for version in TOO_OLD if not _says_that_it_is_old(version)]
    if untried:
        print(f"not found, so not tried: Python {', '.join(untried)}", file=sys.stderr)
    if untried == given.versions.split():
        return 2
    if failed:
        print(f"failed on Python {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _find(version: str) -> Path | None:
    """Return a Python of ``version`` that starts; pyenv's shims may not."""
    folders = [Path(one) for one in os.environ.get("PATH", "").split(os.pathsep) if one]
    folders += [found for one in FOLDERS for found in sorted(Path.home().glob(one.format(version)))]
    files = (folder / f"python{version}" for folder in folders)
    return next((one for one in files if one.is_file() and _version(one) == version), None)


def _version(python: Path) -> str:
    done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _passes(python: Path, folder: Path, arguments: Sequence[str]) -> bool:
    """Install what constraints.txt has for ``python`` into ``folder``; run the tests there."""
    own: str | Path = folder / "bin" / "python"
    pip: list[str | Path] = [
        own,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-color",
        "-c",
        "constraints.txt",
    ]
    steps: list[list[str | Path]] = [
        [python, "-m", "venv", folder],
        [*pip, "setuptools"],
        [*pip, "--no-build-isolation", "-e", ".[dev]"],
        [own, "-c", SEEN, ROOT / ".venv" / "sources"],
        *([own, "-m", "pytest", "--numprocesses=2", *suite, *arguments] for suite in SUITES),
    ]
    return all(subprocess.run(step, cwd=ROOT, check=False).returncode == 0 for step in steps)


def _says_that_it_is_old(version: str) -> bool:
    """Test the line that ``topicast run`` prints on ``version``, if it is found."""
    if (python := _find(version)) is None:
        return True
    print(f"Python {version}, which is too old: {python}", flush=True)
    return (
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "tests/cli/test_start.py"],
            cwd=ROOT,
            env={**os.environ, "TOPICAST_TEST_OLD_PYTHON": str(python)},
            check=False,
        ).returncode
        == 0
    )


if __name__ == "__main__":
    sys.exit(main())
