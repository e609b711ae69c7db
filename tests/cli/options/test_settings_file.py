"""``topicast.toml``: which value holds, what is refused, what ``topicast config`` shows."""

import json
from pathlib import Path
from typing import Any

import click
import pytest

from topicast.cli import daemons
from topicast.cli.commands.config import settings_in
from topicast.cli.main import topicast
from topicast.cli.options.flags import (
    SettingsCommand,
    config_option,
    option,
    settings,
    settings_given,
)
from topicast.cli.options.settings_file import read_settings
from topicast.tests.cli.documents import assert_of_schema
from topicast.tests.cli.processes import topicast as run_topicast
from topicast.topics.errors import ConfigError

EXAMPLE = Path(__file__).resolve().parents[3] / "deploy" / "topicast.toml"
FILE = "topicast.toml"
AUDIT = ["[topicast.pipeline.audit]"]
GIVEN = """
[topicast]
statestores = "tcp://file:1"
timeout_s = 5

[topicast.drivers]
timeout-s = 7
problems = true

[topicast.pipeline.audit]
conf = ["spark.a=1", "spark.s3a.secret.key=hidden"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listed(*words: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what ``topicast config`` shows, by command and flag."""
    done = run_topicast(*words, "--output=json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert_of_schema("config", document)
    return {(one["command"], one["flag"]): one for one in document}


def values(text: str, folder: Path, *words: str) -> dict[str, tuple[Any, str]]:
    """Return the values and origins of the command ``words`` with the file ``text``."""
    (folder / FILE).write_text(text)
    made = context_of(*words)
    return {
        one["flag"]: (one["value"], one["origin"]) for one in settings_in(made, read_settings(None))
    }


def context_of(*words: str) -> click.Context:
    found = click.Context(topicast, info_name="topicast", **topicast.context_settings)
    for word in words:
        assert isinstance(found.command, click.Group)
        one = found.command.get_command(found, word)
        assert one is not None
        found = click.Context(one, info_name=word, parent=found, **one.context_settings)
    return found


def test_command_line_comes_before_environment_before_file_before_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command("tool", cls=SettingsCommand, context_settings=settings())
    @option("port", default=1)
    @config_option()
    def tool(port: int) -> tuple[int, str]:
        (found,) = settings_given()
        return port, found[2]

    def run(*words: str) -> tuple[int, str]:
        found = tool.main([*words], standalone_mode=False)
        assert isinstance(found, tuple)
        return found

    monkeypatch.setattr("topicast.cli.options.settings_file.PROGRAMS", ("tool",))
    assert run() == (1, "default")
    (folder / FILE).write_text("[tool]\nport = 2\n")
    assert run() == (2, f"{folder / FILE}: [tool]")
    (folder / "other.toml").write_text("[tool]\nport = 3\n")
    assert run("--config=other.toml") == (3, f"{folder}/other.toml: [tool]")
    monkeypatch.setenv("TOPICAST_CONFIG", "other.toml")
    assert run() == (3, f"{folder}/other.toml: [tool]")
    monkeypatch.setenv("TOPICAST_PORT", "4")
    assert run() == (4, "environment")
    assert run("--port=5") == (5, "command line")


def test_shared_flags_are_for_each_command_that_has_them(folder: Path) -> None:
    file = str(folder / FILE)
    found = values(GIVEN, folder, "sync")
    assert found["statestores"] == ("tcp://file:1", f"{file}: [topicast]")
    assert found["timeout_s"] == (5.0, f"{file}: [topicast]")
    assert found["budget"] == ("64MB", "default")
    drivers = values(GIVEN, folder, "drivers")
    own = f"{file}: [topicast.drivers]"
    assert (drivers["timeout_s"], drivers["problems"]) == ((7.0, own), (True, own))
    assert "timeout_s" not in values(GIVEN, folder, "keys", "list")


def test_lists_are_for_flags_that_are_given_several_times_and_secrets_are_not_shown(
    folder: Path,
) -> None:
    found = values(GIVEN, folder, "pipeline", "audit")
    assert found["conf"][0] == ["spark.a=1", "spark.s3a.secret.key=(set, not shown)"]


@pytest.mark.parametrize(
    ("text", "words", "problem"),
    [
        ("[catalog]\n", "sync", "topicast.toml: catalog={} is not valid: there is no such section"),
        ("sync = 1\n", "sync", "topicast.toml: sync=1"),
        ("topicast = 1\n", "sync", "topicast=1 is not valid: a section of its own"),
        ("[topicast]\nbudgets = 1\n", "sync", "[topicast] budgets=1"),
        ("[topicast.syncs]\n", "sync", "(near it: sync)"),
        ("[topicast]\nsync = 1\n", "sync", "[topicast] sync=1 is not valid: a section"),
        ("[topicast.sync]\ntimeout = 1\n", "sync", "[topicast.sync] timeout=1"),
        ("[topicast.sync]\ntimeout_s = 0\n", "sync", "[topicast.sync] timeout_s=0"),
        ("[topicast.sync]\ntimeout_s = true\n", "sync", "timeout_s=True is not valid: a number"),
        ("[topicast.sync]\ntimeout_s = [1]\n", "sync", "timeout_s=[1] is not valid: a number"),
        ("[topicast.sync]\noutput = 'xml'\n", "sync", "'xml' is not one of"),
        ("[topicast.sync]\nbudget = 2026-01-01\n", "sync", "is not valid: a text"),
        ("[topicast.tables]\nlimit = 1.5\n", "tables", "limit=1.5 is not valid: an integer"),
        ("[topicast.drivers]\nall = 1\n", "drivers", "all=1 is not valid: true or false"),
        ("[topicast.sync]\nversion = 1\n", "sync", "version=1 is not valid: there is no such flag"),
        ("[topicast.sync]\ntimeout-s = 1\ntimeout_s = 2\n", "sync", "it is there twice"),
        (
            "[topicast.pipeline]\nstatestores = 'x'\n",
            "pipeline audit",
            "[topicast.pipeline] statest",
        ),
        ("[topicast.debug]\nlog = [1]\n[topicast.debug.x]\n", "debug", "[topicast.debug] x={}"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_place(
    folder: Path, text: str, words: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as error:
        values(text, folder, *words.split())
    assert str(error.value).startswith(f"{folder / FILE}: ")
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"[topicast\n", "topicast.toml' is not valid: TOML (Expected ']'"),
        (b"a = '\xff'\n", "TOML ('utf-8' codec"),
        (b"#" * ((1 << 20) + 1), "a file of 1048576 bytes at most"),
    ],
)
def test_file_that_is_no_toml_is_refused(folder: Path, text: bytes, problem: str) -> None:
    (folder / FILE).write_bytes(text)
    with pytest.raises(ConfigError) as error:
        read_settings(None)
    assert problem in str(error.value)


def test_file_that_others_can_write_is_used_only_if_it_is_named(folder: Path) -> None:
    file = folder / FILE
    assert read_settings(None) is None, "there is none"
    file.write_text("")
    file.chmod(0o606)
    with pytest.raises(ConfigError, match="others can write it: name it with --config"):
        read_settings(None)
    assert read_settings(file) is not None
    with pytest.raises(ConfigError, match=r"a file to read \(No such file"):
        read_settings(folder / "none.toml")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("num_topics = 63", "[catalogd] num_topics=63 is not valid: a power of two"),
        ("num_topics = 'many'", "'many' is not a valid integer"),
        ("num_topic = 64", "there is no such flag (near it: num_topics)"),
        ("webserver_port = 70000", "[catalogd] webserver_port=70000 is not valid"),
    ],
)
def test_daemon_with_a_wrong_value_in_its_file_ends_and_has_made_nothing(
    folder: Path, line: str, problem: str
) -> None:
    (folder / "c.toml").write_text(f"[catalogd]\nstate_dir = '{folder}/state'\n{line}\n")
    with pytest.raises(ConfigError) as error:
        daemons.daemons.main(["catalogd", "--config=c.toml"], standalone_mode=False)
    assert str(error.value).startswith(f"{folder}/c.toml: [catalogd] num_topic") or "web" in line
    assert problem in str(error.value)
    assert {path.name for path in folder.iterdir()} == {"c.toml"}


def test_config_shows_what_is_set_for_which_commands(folder: Path) -> None:
    (folder / FILE).write_text(f"{GIVEN}\n[catalogd]\nnum_topics = 64\n")
    found = listed("config")
    assert found["catalogd", "num_topics"]["value"] == 64
    shared = found["pipeline audit", "statestores"]
    assert shared["origin"] == f"{folder / FILE}: [topicast]"
    assert ("sync", "budget") not in found, "it has its default"
    whole = listed("config", "catalogd")
    assert whole["catalogd", "num_topics"]["origin"] == f"{folder / FILE}: [catalogd]"
    assert whole["catalogd", "catalog_service_port"] == {
        "command": "catalogd",
        "flag": "catalog_service_port",
        "value": 26000,
        "origin": "default",
    }
    assert listed("config", "jar")["jar", "out"]["origin"] == "required, and not given"


def test_each_value_that_is_set_is_a_line_with_its_place(folder: Path) -> None:
    (folder / FILE).write_text(GIVEN)
    done = run_topicast("config", TOPICAST_BUDGET="1GB")
    head, *lines = (line.split() for line in done.stdout.splitlines())
    assert head == ["flag", "value", "origin"]
    assert sorted(lines) == [
        ["budget", "1GB", "environment"],
        ["conf", "spark.a=1,", "spark.s3a.secret.key=(set,", "not", "shown)", *AUDIT],
        ["problems", "yes", "[topicast.drivers]"],
        ["statestores", "tcp://file:1", "[topicast]"],
        ["timeout_s", "5", "[topicast]"],
        ["timeout_s", "7", "[topicast.drivers]"],
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [("nothing", "nothing is no command"), ("keys", "keys is a group: name one of add, init")],
)
def test_config_of_what_is_no_command_is_wrong_use(folder: Path, words: str, problem: str) -> None:
    done = run_topicast("config", words)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert folder


def test_settings_of_the_page_for_operators_exist_and_its_error_is_as_printed(folder: Path) -> None:
    page = (EXAMPLE.parents[1] / "docs" / "operations.md").read_text(encoding="utf-8")
    (folder / FILE).write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert listed("config")["drivers", "output"]["value"] == "wide"
    (folder / FILE).write_text("[catalogd]\nnum_topic = 64\n")
    done = run_topicast("config", "catalogd")
    assert done.stderr.splitlines()[-1].replace(str(folder), "/etc/topicast") in page


def test_example_has_no_flag_that_does_not_exist() -> None:
    assert (
        listed(f"--config={EXAMPLE}", "config")["catalogd", "change_history_hours"]["value"] == 72
    )
