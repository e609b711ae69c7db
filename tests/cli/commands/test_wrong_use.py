"""What is wrong with the words of a command: said at once, with what is right instead."""

from pathlib import Path

import pytest

from topicast.tests.cli.processes import topicast
from topicast.tests.keys import user_keys


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tabels", "No such command 'tabels'. Did you mean 'tables'?"),
        ("pipeline exprt", "No such command 'exprt'. Did you mean 'export'?"),
        ("tables --limit abc", "'abc' is not a valid integer."),
        ("tables --timeout_s abc", "'abc' is not a valid number."),
        ("events start abc", "'abc' is not a valid integer."),
        ("jar --out NOWHERE/x.jar", "there is no folder NOWHERE: make it, or name another"),
        ("debug --out NOWHERE/x.zip", "there is no folder NOWHERE: make it, or name another"),
        ("pipeline convert --from a --to b.c", "'a' is not a table's name: write it as db.table"),
        ("pipeline convert --from b.c --to a", "'a' is not a table's name: write it as db.table"),
    ],
)
def test_wrong_word_is_refused_before_anything_begins(
    tmp_path: Path, words: str, said: str
) -> None:
    user_keys("operator")
    nowhere = str(tmp_path / "nowhere")
    done = topicast(*words.replace("NOWHERE", nowhere).split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"{said.replace('NOWHERE', nowhere)}\n")
    assert "note:" not in done.stderr
