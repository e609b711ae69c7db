"""What shells complete: the scripts are click's, and the shell is a real bash."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from topicast.cli.main import SECTIONS
from topicast.tests.cli import processes

BASH = shutil.which("bash") or ""


def bash(script: str, folder: Path) -> str:
    """Run ``script`` in a bash that has a command ``topicast``; return what it prints."""
    own = folder / "topicast"
    own.write_text(f"#!{sys.executable}\nfrom topicast.cli.start import main\nmain()\n")
    own.chmod(0o755)
    environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        [BASH, "-ec", script], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("dri", "drivers\n"),
        ("drivers --prob", "--problems\n"),
        ("drivers o", "on\noff\n"),
        ("keys li", "list\n"),
        ("status --output w", "wide\n"),
    ],
)
def test_bash_completes_commands_options_and_their_values(
    typed: str, offered: str, tmp_path: Path
) -> None:
    words = ["topicast", *typed.split()]
    script = f"""
        source <(topicast completion bash)
        COMP_WORDS=({" ".join(words)}) COMP_CWORD={len(words) - 1}
        _topicast_completion topicast
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert sorted(bash(script, tmp_path).splitlines()) == sorted(offered.splitlines())


@pytest.mark.parametrize(("shell", "word"), [("zsh", "compdef"), ("fish", "complete --no-files")])
def test_other_shells_have_their_scripts(shell: str, word: str) -> None:
    done = processes.topicast("completion", shell)
    assert (done.returncode, word in done.stdout) == (0, True)
    assert "_TOPICAST_COMPLETE" in done.stdout


def test_shell_that_is_not_known_is_wrong_use() -> None:
    done = processes.topicast("completion", "tcsh")
    assert (done.returncode, "bash" in done.stderr) == (2, True)


def test_help_has_each_command_under_a_heading_in_words_that_fit() -> None:
    text = processes.topicast("--help").stdout
    for heading, commands in SECTIONS.items():
        assert f"\n{heading}:\n  {next(iter(commands))} " in text
        assert all(said in text for _, said in commands.values()), "whole, on 80 columns"
    assert max(map(len, text.splitlines())) <= 80
