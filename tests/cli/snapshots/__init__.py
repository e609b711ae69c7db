"""Snapshots: what commands print, in files that a reader can look at; ``--rewrite`` writes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent


def assert_snapshot(name: str, lines: Sequence[str], *, rewrite: bool) -> None:
    """Compare ``lines`` with the snapshot ``name``, or write it."""
    file, text = FOLDER / f"{name}.txt", "\n".join([*lines, ""])
    if rewrite:
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text
