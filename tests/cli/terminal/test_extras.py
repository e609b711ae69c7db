"""After ``pip install topicast`` alone each command works, or names the extra that it needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from topicast.cli.terminal.extras import EXTRA_OF
from topicast.tests.cli.processes import completed
from topicast.tests.keys import user_keys

HIDDEN = tuple(EXTRA_OF)
SCRIPT = f"""
import sys
from importlib import import_module

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HIDDEN!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
module, function, *sys.argv[1:] = sys.argv[1:]
getattr(import_module(module), function)()
"""
MAIN = ("topicast.cli.main", "main")
NOWHERE = "--statestores=tcp://127.0.0.1:1"


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run an entry point where nothing is installed but the base requirements."""
    return completed([sys.executable, "-c", SCRIPT, *map(str, arguments)])


@pytest.mark.parametrize("name", ["catalogd", "statestored", "topicast"])
def test_entry_points_are_importable_without_extras(name: str) -> None:
    entry = MAIN if name == "topicast" else ("topicast.cli.daemons", name)
    done = run(*entry, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage:" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("status", NOWHERE), 3),
        (("drivers", NOWHERE, "--timeout_s=0.2"), 3),
        (("mode", NOWHERE, "--timeout_s=0.2"), 3),
        (("tables", NOWHERE, "--timeout_s=0.2"), 3),
        (("sync", NOWHERE, "--timeout_s=0.2"), 3),
        (("doctor", NOWHERE), 1),
        (("run", "--", sys.executable, "-c", ""), 0),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_that_need_no_extra_work_without(arguments: tuple[str, ...], code: int) -> None:
    user_keys("operator")
    done = run(*MAIN, *arguments)
    assert "Traceback" not in done.stderr
    assert "pip install" not in done.stderr
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("entry", "arguments", "extra"),
    [
        (MAIN, ("quickstart", "--once"), "quickstart"),
        (MAIN, ("metastore", "start", "--folder={}"), "quickstart"),
        (("topicast.cli.daemons", "statestored"), ("--state_store_port=0",), "cli"),
        (("topicast.cli.daemons", "catalogd"), ("--state_dir={}",), "catalog"),
    ],
    ids=["quickstart", "metastore", "statestored", "catalogd"],
)
def test_commands_that_need_an_extra_name_it(
    entry: tuple[str, str], arguments: tuple[str, ...], extra: str, tmp_path: Path
) -> None:
    done = run(*entry, *(one.format(tmp_path) for one in arguments))
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    assert f"pip install 'topicast[{extra}]'" in done.stderr
    assert done.stderr.startswith("error: ")
    assert not list(tmp_path.iterdir()), "nothing was begun"
