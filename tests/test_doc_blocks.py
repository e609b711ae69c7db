"""Blocks of the pages: each command, call and file in them exists, and is listed here.

A block is run where that is possible, by the test that its page has in RUN; what stands beside is
checked without running it: the options of our commands, the arguments of our functions. A block
that is neither code nor a command has its reason in LISTED.
"""

import ast
import importlib
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click
import pytest

from topicast.cli.daemons import daemons
from topicast.cli.lazy import subcommands
from topicast.cli.main import topicast

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = ("README.md", *(str(one.relative_to(ROOT)) for one in ROOT.glob("docs/**/*.md")))
MADE: Final = "docs/reference/"  # by a command: tests/cli/test_reference.py compares them
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS: Final[dict[str, click.Command]] = {
    "topicast": topicast,
    **{name: daemons.load(name) for name in daemons.places},
}
RUN: Final = {  # page and language -> the test that runs all its blocks, but for NOT_RUN
    ("README.md", "sh"): "tests/integration/test_docs_commands.py",
    ("docs/quickstart.md", "sh"): "tests/integration/test_docs_commands.py",
    ("docs/quickstart.md", "python"): "tests/integration/test_docs_commands.py",
    ("docs/pipelines.md", "python"): "tests/spark/test_datasource.py",
    ("docs/pipelines.md", "sql"): "tests/spark/test_datasource.py",
    ("docs/deploy.md", "sh"): "tests/deploy/test_follow.py",
}
NOT_RUN: Final = {  # first line -> why; its commands and calls are checked all the same
    "from topicast.subscriber.spark import attach": "tests/spark/conftest.py attaches so",
    "import threading": "a server of Spark Connect that stays: tests/spark/test_refresh_connect.py",
    "topicast run --statestores tcp://statestored:24000 -- spark-submit app.py": "a host's name; "
    "tests/spark/test_run.py and tests/spark/jvm/test_spark_sql.py run them",
    "topicast jar --out /opt/topicast/topicast.jar   # any Spark from 3.5 on, Scala 2.12 and 2.13; "
    "needs a Java runtime and a Spark": "root's folder; tests/cli/commands/test_jar.py runs it",
    "topicast drivers                        # state, staleness and reason of each; -o wide has "
    "every column": "tests/cli/commands/test_drivers.py",
    "CREATE TABLE raw.events (id BIGINT, city STRING, amount DOUBLE, ds STRING)": "a chapter of "
    "docs/quickstart.md runs the same: tests/integration/test_docs_commands.py",
    "topicast pipeline convert --from raw.events --to lake.events --once": "likewise",
    "from topicast.pipeline.convert import convert": "tests/spark/test_convert.py",
}
LISTED: Final = {  # page -> first words of what is neither code nor a command of ours, and why
    "docs/alarms.md": {
        "scrape_configs:": "settings of Prometheus; test_alarms.py has its rules",
        **dict.fromkeys(
            ("$ topicast", "$ journalctl", "http://catalogd:25020", "http://statestored:25010"),
            "tests/cli/pages/test_alarms.py makes it",
        ),
    },
    "README.md": {
        "Hive metastore ──events": "a picture",
        "$ make run": "tests/cli/quickstart/test_comparison.py compares it",
    },
    "docs/architecture.md": {"Hive metastore": "a picture", "topics  <-": "a picture"},
    "docs/pipelines.md": {
        "raw.events to lake.events": "what a command prints",
        "$ topicast pipeline files": "a command with what it prints",
        "$ topicast tables": "a command with what it prints",
        "$ topicast pipeline audit": "a command with what it prints",
    },
    "docs/deploy.md": {
        "topicast keys rotate": "on several hosts: tests/integration/test_rotation.py",
        "useradd": "needs root and systemd: make compat-deploy checks the units",
        "kubectl": "needs a cluster",
    },
    "docs/spark.md": {"spark.driver.extraClassPath": "settings: tests/spark/jvm/test_kinds.py"},
    "docs/doctor.md": {"topicast doctor": "names of hosts: tests/cli/doctor/"},
    "docs/operations.md": {
        "$ topicast status": "tests/cli/records/test_overview.py compares it",
        "$ topicast drivers": "tests/cli/records/test_fleet.py compares it",
        "$ topicast topics": "tests/integration/test_docs_commands.py runs one on this page",
        "$ topicast top": "tests/cli/records/test_activity.py compares it",
        "[catalogd]": "settings: tests/cli/options/test_settings_file.py reads them",
        "error: /etc/topicast/topicast.toml": "likewise",
        "$ topicast history": "a command with what it prints",
    },
    "docs/protocol.md": {"filter   =": "a grammar: tests/topics/objects/filters/test_terms.py"},
    "docs/metastores.md": {"catalogd --hive": "needs a KDC or a password: make compat-kerberos"},
}


class Block(NamedTuple):
    """A block of a page."""

    page: str
    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first line that is not empty."""
        return next(line for line in self.text.splitlines() if line.strip()).strip()


def blocks() -> list[Block]:
    """Return every block of every page that is not made by a command."""
    return [
        Block(page, *found)
        for page in sorted(PAGES)
        if not page.startswith(MADE)
        for found in BLOCK.findall((ROOT / page).read_text("utf-8"))
    ]


def test_every_block_is_run_or_listed_with_its_reason() -> None:
    unlisted = [
        f"{one.page}: {one.first}"
        for one in blocks()
        if (one.page, one.language) not in RUN
        and one.first not in NOT_RUN
        and not any(map(one.first.startswith, LISTED.get(one.page, ())))
    ]
    assert not unlisted, "run them by a test that RUN names, or give the reason in NOT_RUN"


def test_what_is_listed_is_on_the_page() -> None:
    """So a list does not outlive its block; and the tests that it names are there."""
    found = blocks()
    firsts = {one.first for one in found}
    assert set(NOT_RUN) <= firsts
    for page, listed in LISTED.items():
        here = [one.first for one in found if one.page == page]
        assert all(any(first.startswith(words) for first in here) for words in listed), page
    assert {(one.page, one.language) for one in found} >= set(RUN)
    assert all((ROOT / test).is_file() for test in RUN.values())


def lines() -> Iterator[tuple[str, list[str]]]:
    """Yield page and words of each command line of ours."""
    for block in blocks():
        if block.language in ("python", "sql"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            if block.language == "text" and not line.startswith("$ "):
                continue
            try:
                words = shlex.split(line.removeprefix("$ "), comments=True)
            except ValueError:
                continue  # a picture
            at = next((n for n, word in enumerate(words) if Path(word).name in COMMANDS), None)
            if at is not None and (at == 0 or words[at - 1] in ("--", "--clear-groups")):
                ends = [n for n, word in enumerate(words) if word in (">", "|", "&&") and n > at]
                yield block.page, words[at : min(ends, default=len(words))]


OURS: Final = tuple(lines())


@pytest.mark.parametrize(("page", "words"), OURS, ids=[" ".join(words) for _, words in OURS])
def test_every_command_line_has_options_that_its_command_takes(page: str, words: list[str]) -> None:
    command, rest = COMMANDS[Path(words[0]).name], words[1:]
    while isinstance(command, click.Group):
        assert rest, f"{page}: {words} names no command"
        below = subcommands(command)
        assert rest[0] in below, f"{page}: {words}: there is no command {rest[0]}"
        command, rest = below[rest[0]], rest[1:]
    try:
        command.make_context(command.name, list(rest))
    except click.ClickException as error:
        pytest.fail(f"{page}: {' '.join(words)}: {error.format_message()}")


def calls() -> Iterator[tuple[Block, str, ast.Call, object]]:
    """Yield each call, in Python, of what the block imports from us."""
    for block in blocks():
        if block.language != "python":
            continue
        tree, names = ast.parse(block.text), {}
        for one in ast.walk(tree):
            if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("topicast"):
                module = importlib.import_module(one.module or "")
                names |= {a.asname or a.name: getattr(module, a.name) for a in one.names}
        for one in ast.walk(tree):
            if (
                isinstance(one, ast.Call)
                and isinstance(one.func, ast.Name)
                and one.func.id in names
            ):
                yield block, one.func.id, one, names[one.func.id]


def test_every_call_of_ours_has_arguments_that_it_takes() -> None:
    found = list(calls())
    assert {"Subscriber", "attach", "audit", "MetastoreFlags"} <= {name for _, name, *_ in found}
    for block, name, call, callee in found:
        assert callable(callee)
        given = {one.arg: None for one in call.keywords if one.arg}
        try:
            inspect.signature(callee).bind(*call.args, **given)
        except TypeError as error:
            pytest.fail(f"{block.page}: {name}(): {error}")
