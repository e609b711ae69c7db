from pathlib import Path

import pytest

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
