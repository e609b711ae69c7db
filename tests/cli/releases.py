"""Other releases of Topicast: copies of this release with a change."""

import shutil
from pathlib import Path
from typing import Final

import topicast

ROOT: Final = Path(topicast.__path__[0])
Change = tuple[str, str, str]  # a file of Topicast, what it has, and what another release has there
PROTOCOL_2: Final[Change] = ("topics/wire/header.py", "PROTOCOL: Final = 1", "PROTOCOL: Final = 2")


def another_release(folder: Path, *changes: Change) -> None:
    """Copy Topicast into ``folder``, as a release that differs from this by ``changes``."""
    copy = folder / "topicast"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "tests", "docs", "build"))
    for file, old, new in changes:
        text = (copy / file).read_text()
        assert old in text
        (copy / file).write_text(text.replace(old, new))
