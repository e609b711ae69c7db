"""On a Python that is too old, ``topicast run`` says so and starts the application as it is."""

import ast
import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

from topicast.cli import start
from topicast.tests.cli.processes import completed

ROOT = Path(__file__).resolve().parent.parent.parent
OLD = os.environ.get("TOPICAST_TEST_OLD_PYTHON", "")  # a real one, by make compat-python
PRETEND = "" if OLD else "import sys; sys.version_info = (3, 8, 18, 'final', 0)\n"
LOADED_BY_ANY_PYTHON = (
    "__init__.py",
    "cli/__init__.py",
    "cli/terminal/exit_codes.py",
    "cli/start.py",
)


def old_python(code: str, *arguments: str, path: Path) -> "subprocess.CompletedProcess[str]":
    """Run ``code`` on an old Python, or on this Python, which pretends to be old."""
    return completed([OLD or sys.executable, "-c", code, *arguments], PYTHONPATH=str(path))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder from which the package is imported."""
    (tmp_path / "topicast").symlink_to(ROOT)
    return tmp_path


@pytest.mark.parametrize("name", LOADED_BY_ANY_PYTHON)
def test_files_that_any_python_loads_have_no_newer_syntax(name: str) -> None:
    ast.parse((ROOT / name).read_text("utf-8"), feature_version=(3, 6))


def test_oldest_python_is_that_which_pip_demands() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    demanded = settings["options"]["python_requires"]
    assert tuple(map(int, demanded.strip(">=").split("."))) == start.OLDEST


@pytest.mark.parametrize(
    ("words", "code", "printed", "problem"),
    [
        (["run", "--", "echo", "plain"], 0, "plain\n", "topicast: not attached: Topicast needs"),
        (["run", "--", "no-such-command"], 127, "", "topicast: not attached: Topicast needs"),
        (["status"], 1, "", "error: Topicast needs Python 3.10 or newer, and "),
    ],
    ids=["application", "no application", "another command"],
)
def test_old_python_is_named_in_one_line(
    words: list[str], code: int, printed: str, problem: str, tree: Path
) -> None:
    done = old_python(f"{PRETEND}from topicast.cli.start import main; main()", *words, path=tree)
    assert (done.returncode, done.stdout) == (code, printed), done.stderr
    line, *more = done.stderr.splitlines()
    assert line.startswith(problem)
    assert " is 3." in line
    assert not any("Traceback" in one for one in more)


def test_interrupt_while_libraries_are_imported_is_no_traceback(tree: Path) -> None:
    (tree / "click.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run(
        [sys.executable, "-c", "from topicast.cli.start import main; main()", "status"],
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
