"""Homes: virtual environments with a Topicast and a Spark of a few lines, for Python to load."""

import json
import os
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Any, Final

import click

import topicast
from topicast.cli.launch import hooks
from topicast.tests.subscriber.spark.driver.test_launch import SPARK

ROOT: Final = Path(topicast.__path__[0])
LIBRARIES: Final = Path(click.__file__).parent.parent
Change = tuple[str, str, str]  # a file of Topicast, what it has, and what another release has there
PROTOCOL_2: Final[Change] = ("topics/wire/header.py", "PROTOCOL: Final = 1", "PROTOCOL: Final = 2")


class Home:
    """A virtual environment of ``libraries``, where a Topicast and a small Spark are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.libraries = folder / "libraries"
        self.spark(SPARK)
        (self.libraries / "topicast").symlink_to(ROOT)
        venv.create(folder / "venv", symlinks=True)
        self.site = next((folder / "venv").glob("lib/python*/site-packages"))
        (self.site / "a.pth").write_text(f"{self.libraries}\n{LIBRARIES}\n")

    def spark(self, text: str) -> None:
        package = self.libraries / "pyspark" / "sql"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").touch()
        (package / "__init__.py").touch()
        (package / "session.py").write_text(text)

    def python(self, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        environ = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", hooks.VARIABLE}}
        return subprocess.run(
            [str(self.folder / "venv" / "bin" / "python"), *words],
            env={**environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def hook(self, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return self.python("-m", "topicast.cli.main", "hook", *words, **environment)

    def seen(self, code: str, *flags: str, **environment: str) -> dict[str, Any]:
        done = self.python(*flags, "-c", code, **environment)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found | {"printed": done.stderr}


def another_release(folder: Path, *changes: Change) -> None:
    """Copy Topicast into ``folder``, as a release that differs from this one by ``changes``."""
    copy = folder / "topicast"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "tests", "docs", "build"))
    for file, old, new in changes:
        text = (copy / file).read_text()
        assert old in text
        (copy / file).write_text(text.replace(old, new))
