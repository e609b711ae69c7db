"""The pages of docs/reference/, made from the commands, settings and metrics.

python -m topicast.cli.reference FOLDER      writes the pages; a test fails if they are stale
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from ..subscriber.client.subscriber import Subscriber
from ..subscriber.config import Settings
from ..subscriber.declared import Declaration, declarations
from ..subscriber.spark.config import SparkSettings, spark_key
from ..subscriber.spark.driver.handle import attach
from .catalogd import catalogd
from .lazy import subcommands
from .main import topicast
from .options.flags import OutputOption
from .pages.metrics import CATALOGD, COUNTER, HISTOGRAMS, STATESTORED, VERDICT, Table, metric_name
from .statestored import statestored
from .terminal.schemas import Schema, schema, text_of

MADE = "Made by `python -m topicast.cli.reference docs/reference`: do not edit."
SCHEMAS = "schemas.json"
WIDTH = 96


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    return {
        "commands.md": _commands(),
        "metrics.md": _metrics(),
        "settings.md": _settings(),
        SCHEMAS: _schemas(),
    }


def write(folder: Path) -> None:
    """Write every page into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


def schemas() -> dict[str, Schema]:
    """Return the schema of each document that a command prints with ``-o json``, by its name.

    The schema of ``topicast topics --why NAME`` is named topics-why; its title is the command line.
    """
    found: dict[str, Schema] = {}
    for path, command in _below(topicast, "topicast"):
        printing = [one for one in command.params if isinstance(one, OutputOption)]
        for use, kind in (pair for one in printing for pair in one.documents().items()):
            line = f"{path} {use}".rstrip()
            found[name_of(line)] = {"title": line, **schema(kind)}
    return found


def name_of(line: str) -> str:
    """Return the name of the schema of a command line."""
    return re.sub(r"[^a-z]+", "-", line.lower().removeprefix("topicast "))


def _schemas() -> str:
    about = "What each command prints with -o json. " + MADE
    return text_of(schemas(), about=about)


def _commands() -> str:
    json = f"The documents of `-o json`: [{SCHEMAS}]({SCHEMAS}), JSON Schema for each command."
    parts = ["# Commands and flags", MADE, json]
    for command in (statestored, catalogd):
        parts += [f"## {command.name}", _help(command, command.name or "")]
    parts.append("## topicast")
    for path, one in _below(topicast, "topicast"):
        parts += [f"### {path}", _help(one, path)]
    return "\n\n".join(parts) + "\n"


def _below(group: click.Group, path: str) -> list[tuple[str, click.Command]]:
    """Return every command under ``group`` that is not a group itself, by its full name."""
    found: list[tuple[str, click.Command]] = []
    for name, command in subcommands(group).items():
        if isinstance(command, click.Group):
            found += _below(command, f"{path} {name}")
        else:
            found.append((f"{path} {name}", command))
    return found


def _help(command: click.Command, path: str) -> str:
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    with click.Context(command, info_name=path, **settings) as context:
        return f"```text\n{command.get_help(context)}\n```"


def _settings() -> str:
    about = (
        "An argument comes first, then Spark's configuration, if the driver is attached, then the "
        "environment, and at last the default. A time is a number of seconds, or one such as "
        "500ms, 10s, 2m."
    )
    subscriber = _settings_table(Settings, Subscriber.__init__)
    driver = _settings_table(SparkSettings, attach, lambda own: f"`{spark_key(own.argument)}`")
    parts = ["# Settings", MADE, about, "## Subscriber", subscriber, "## attach", driver]
    return "\n\n".join(parts) + "\n"


def _settings_table(
    settings: type,
    function: Callable[..., object],
    key: Callable[[Declaration], str] | None = None,
) -> str:
    """Return a row for each of ``settings``, as the docstring of ``function`` explains it."""
    explained = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(function) or "", re.M)
    meanings = {name: re.sub(r"\s+", " ", text).replace("``", "`") for name, text in explained}
    places = ["argument", *(["Spark"] if key else []), "environment", "default", "meaning"]
    rows = [places, ["---"] * len(places)]
    for own in declarations(settings).values():
        rows.append(
            [
                f"`{own.argument}`",
                *([key(own)] if key else []),
                f"`{own.variable}`" if own.in_environment else "",
                "" if own.default in (None, "") else f"`{own.default}`",
                meanings[own.argument],
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _metrics() -> str:
    about = (
        "Both daemons answer `/metrics` on their web port, with `process_*` of the process, too: "
        "memory, processor time, start, open files. [alarms.md](../alarms.md) has alarms on them."
    )
    parts = ["# Metrics", MADE, about]
    for name, table in (("statestored", STATESTORED), ("catalogd", CATALOGD)):
        rows = "".join(f"\n{row}" for row in _histograms(name))
        parts += [f"## {name}", _metric_table(name, table) + rows]
    return "\n\n".join(parts) + "\n"


def _histograms(daemon: str) -> Iterator[str]:
    for name, (label, meaning) in HISTOGRAMS[daemon].items():
        labels = f" by `{label}`" if label else ""
        yield f"| `{metric_name(daemon, name)}` | histogram{labels} | {meaning} |"


def _metric_table(daemon: str, table: Table) -> str:
    rows = ["| metric | kind | meaning |", "|---|---|---|"]
    rows += [f"| `topicast_{daemon}_{name}` | gauge | {text} |" for name, text in VERDICT.items()]
    for name, (kind, meaning) in table.items():
        suffix = "_total" if kind == COUNTER else ""
        rows.append(f"| `{metric_name(daemon, name)}{suffix}` | {kind} | {meaning} |")
    return "\n".join(rows)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
