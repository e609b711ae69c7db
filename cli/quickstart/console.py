"""Texts of the quickstart: summaries, commands to try, lines that fit the terminal."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from ..terminal.lists import aligned
from .metastore.java import cache_folder, java_home_for_spark

WIDTH_MAX: Final = 96  # of the text after the time and the name
WIDTH_MIN: Final = 40
BEFORE: Final = 22  # columns of time and name


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One step: its title, what the reader saw, and how long after the commit."""

    title: str
    saw: str
    after_s: float


def summary(seen: Sequence[Seen]) -> list[str]:
    """Return the table of times, and their median and maximum."""
    rows = [("what the writer did", "seen after its call returned")]
    rows += [(one.title, f"{one.after_s:.3f} s") for one in seen]
    times = [one.after_s for one in seen]
    return [
        *aligned(rows),
        "",
        f"{len(seen)} changes made in one Spark driver were seen in another one:",
        f"half of them within {median(times):.2f} s, all within {max(times):.2f} s.",
    ]


def commands(statestores: str, *, metastore_uri: str, usual: bool) -> list[str]:
    """Return commands to try, which work when pasted; ``usual``: the hub has its usual address."""
    topicast = _command("topicast")
    where = "" if usual else f" --statestores={statestores}"
    environment = (
        f"PYSPARK_PYTHON={_near(Path(sys.executable))} SPARK_LOCAL_IP=127.0.0.1 "
        f"JAVA_HOME={java_home_for_spark(cache_folder())}"
    )
    conf = f"--conf spark.hadoop.hive.metastore.uris={metastore_uri}"
    attached = f"{topicast} run --statestores={statestores} --"
    alter = '-e "ALTER TABLE shop.orders ADD COLUMNS (channel STRING)"'
    return [
        f"{topicast} status{where}",
        f"{topicast} tables{where}",
        f"{topicast} describe shop.orders{where}",
        f"{topicast} partitions shop.orders \"ds >= '2026-11-03'\"{where}",
        f"{topicast} topics --why=explorer{where}",
        f"{topicast} mode minimal{where}",
        f"{topicast} mode mixed{where}",
        f"{topicast} watch '*'{where}",
        f"{environment} {_command('spark-sql')} {conf} {alter}",
        f"{environment} {attached} {_command('pyspark')} {conf}",
        f"{topicast} drivers{where}",
    ]


def read_ready(line: str) -> dict[str, str]:
    """Return the addresses of a line ``listening name=address …`` or ``ready name=address …``."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def width() -> int:
    """Return the columns of the terminal; in a pipe as many as the longest line."""
    return shutil.get_terminal_size((BEFORE + WIDTH_MAX, 0)).columns


def shortened(text: str, columns: int = BEFORE + WIDTH_MAX) -> str:
    """Return ``text`` so that it fits after the time and the name."""
    most = max(min(columns - BEFORE, WIDTH_MAX), WIDTH_MIN)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _command(name: str) -> str:
    """Return the words that call the command ``name`` of this Python from the current folder."""
    installed = Path(sys.executable).parent / name
    if not installed.exists():  # a tree that was not installed
        return f"{sys.executable} -m topicast.cli.main"
    return name if shutil.which(name) == str(installed) else _near(installed)


def _near(path: Path) -> str:
    """Return ``path`` as seen from the current folder, if it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
