from pathlib import Path

import click
import pytest

from topicast.cli.lazy import subcommands
from topicast.cli.main import topicast
from topicast.cli.reference import pages, write

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", sorted(pages()))
def test_page_is_what_the_commands_say(name: str) -> None:
    stale = "stale: python -m topicast.cli.reference docs/reference"
    assert (REFERENCE / name).read_text(encoding="utf-8") == pages()[name], stale


def test_every_command_has_its_chapter() -> None:
    text = pages()["commands.md"]
    for chapter in ("## statestored", "## catalogd", "### topicast metastore start"):
        assert f"\n{chapter}\n" in text


def test_pages_name_no_folder_of_this_machine() -> None:
    assert str(Path.home()) not in "".join(pages().values())


def test_pages_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "new")
    assert {page.name for page in (tmp_path / "new").iterdir()} == set(pages())


def groups(group: click.Group) -> list[click.Group]:
    """Return a group, and those in it."""
    inner = [one for one in subcommands(group).values() if isinstance(one, click.Group)]
    return [group, *(found for one in inner for found in groups(one))]


def test_line_about_each_command_is_whole_at_80_columns() -> None:
    for group in groups(topicast):
        context = click.Context(group, info_name=str(group.name), terminal_width=80)
        for line in group.get_help(context).splitlines():
            assert not (line.startswith("  ") and line.endswith("...")), line
            assert len(line) <= 80, line
