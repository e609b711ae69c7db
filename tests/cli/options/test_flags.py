from dataclasses import KW_ONLY, MISSING, dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from topicast.cli.options.flags import (
    Words,
    flags_of,
    settings,
    statestores_option,
    version_option,
)
from topicast.topics.errors import ConfigError
from topicast.topics.flags import check_flags, flag, option


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    state_store_port: int = flag("What state_store_port means.", default=24000, bounds=(0, 65534))
    interval_s: float = flag("How often.", default=0.2)
    in_background: bool = flag("Whether it is in the background.", default=True)
    state_dir: Path = flag("Where it is kept.", default=Path(), shown="the usual")  # noqa: RUF009 - a field
    hubs: str = flag("Where it is sent.", default="tcp://127.0.0.1:24000")

    def __post_init__(self) -> None:
        check_flags(self)
        if self.interval_s < 0:
            raise ConfigError("interval_s", self.interval_s, "0 or more")


@click.command(context_settings=settings())
@flags_of(Config, defaults={"state_dir": Path("/var/lib/x")})
@version_option("tool")
def command(**given: Any) -> Config:
    return Config(**given)


def read(*arguments: str) -> Config:
    config = command.main(list(arguments), standalone_mode=False)
    assert isinstance(config, Config)
    return config


@dataclass(frozen=True, slots=True)
class Job:
    where: str = option("A folder.", default=MISSING)
    what: str = option("A pattern.", default="*")
    source: str = option("From where.", default="a", name="from")
    _: KW_ONLY
    whole: bool = option("All of it.", default=False)
    rate: float | None = flag("How fast.", default=None, metavar="HERTZ")
    kind: str = option("Which.", default="x", choices=("x", "y"))
    conf: tuple[str, ...] = option("A property.", default=())
    on_end: object = flag("Is called.", default=None, in_command=False)


@click.command(context_settings=settings())
@flags_of(Job, defaults={"rate": 2.0}, of_command=True)
def do(**given: Any) -> Job:
    """Do it."""
    return Job(**given)


def done(*arguments: str) -> Job:
    job = do.main(list(arguments), standalone_mode=False)
    assert isinstance(job, Job)
    return job


@pytest.mark.parametrize("written", ["--state_store_port=7", "--state-store-port=7"])
def test_flag_is_accepted_with_underscore_and_with_hyphen(written: str) -> None:
    assert read(written).state_store_port == 7


def test_values_have_the_types_of_the_fields() -> None:
    config = read("--interval-s", "0.5", "--state_dir", "/tmp/x", "--hubs", "tcp://a:1")
    assert config == Config(interval_s=0.5, state_dir=Path("/tmp/x"), hubs="tcp://a:1")


def test_defaults_are_those_of_the_dataclass_unless_the_edge_knows_better() -> None:
    assert read() == Config(state_dir=Path("/var/lib/x"))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (["--in_background"], True),
        (["--in-background=true"], True),
        (["--in_background=false"], False),
        (["--in_background", "--state_store_port=7"], True),
    ],
)
def test_switches_are_written_as_gflags_has_them(written: list[str], value: bool) -> None:
    assert read(*written).in_background is value


def test_environment_is_read_where_the_flag_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPICAST_STATE_STORE_PORT", "8")
    monkeypatch.setenv("TOPICAST_IN_BACKGROUND", "false")
    assert read() == Config(state_store_port=8, in_background=False, state_dir=Path("/var/lib/x"))
    assert read("--state_store_port=9").state_store_port == 9


def test_what_the_dataclass_does_not_allow_is_its_own_error() -> None:
    with pytest.raises(ConfigError, match="interval_s=-1"):
        read("--interval_s=-1")
    with pytest.raises(ConfigError, match="state_store_port=65535 is not valid: from 0 to 65534"):
        read("--state_store_port=65535")


def test_text_of_another_type_is_wrong_use() -> None:
    with pytest.raises(click.UsageError, match="not a valid integer"):
        read("--state_store_port=many")
    with pytest.raises(click.UsageError, match="not a valid number"):
        read("--interval_s=often")


def test_empty_path_is_wrong_use() -> None:
    with pytest.raises(click.BadParameter, match="'' is not a path"):
        read("--state_dir=")


def test_unknown_flag_is_refused_and_not_ignored() -> None:
    with pytest.raises(click.UsageError, match="keys"):
        read("--keys_dir=/x")


def test_help_names_environment_default_and_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--help"], standalone_mode=False, terminal_width=96)
    printed = " ".join(capsys.readouterr().out.split())
    described = "[env var: TOPICAST_STATE_STORE_PORT; default: 24000]"
    assert f"What state_store_port means. Allowed: from 0 to 65534. {described}" in printed
    assert "default: (the usual)" in printed


def test_statestores_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command(context_settings=settings())
    @statestores_option()
    def look(statestores: str) -> str:
        return statestores

    monkeypatch.setenv("TOPICAST_STATESTORES", "tcp://hub:1")
    assert look.main([], standalone_mode=False) == "tcp://hub:1"


def test_word_is_shown_with_its_hyphen_and_read_with_either(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command(context_settings=settings())
    @click.argument("state", type=Words(("on", "dry-run")))
    def switch(state: str) -> str:
        return state

    assert [switch.main([one], standalone_mode=False) for one in ("dry-run", "dry_run")] == [
        *("dry-run", "dry-run"),
    ]
    with pytest.raises(click.BadParameter, match="'off' is not one of 'on', 'dry-run'"):
        switch.main(["off"], standalone_mode=False)
    switch.main(["--help"], standalone_mode=False)
    assert "[on|dry-run]" in capsys.readouterr().out


def test_positional_fields_are_arguments_unless_their_flags_have_names() -> None:
    assert done("/a") == Job("/a", rate=2.0)
    assert done("/a", "b.*", "--from=c") == Job("/a", "b.*", "c", rate=2.0)
    with pytest.raises(click.MissingParameter, match="where"):
        done()


def test_options_of_a_command_are_switches_and_may_be_repeated() -> None:
    assert done("--whole", "/a", "--conf=1", "--conf=2", "--kind=y", "--rate=3") == Job(
        "/a", whole=True, conf=("1", "2"), kind="y", rate=3.0
    )
    for wrong in (["--whole=true", "/a"], ["--kind=z", "/a"], ["--on_end=1", "/a"]):
        with pytest.raises(click.UsageError):
            done(*wrong)


def test_environment_sets_no_option_that_belongs_to_one_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("WHOLE", "KIND", "SOURCE"):
        monkeypatch.setenv(f"TOPICAST_{name}", "y")
    monkeypatch.setenv("TOPICAST_RATE", "7")
    assert done("/a") == Job("/a", rate=7.0)


def test_help_of_a_command_explains_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    do.main(["--help"], standalone_mode=False, terminal_width=96)
    printed = capsys.readouterr().out
    assert (
        "  Do it.\n\n  WHERE: A folder.\n\n  WHAT (default: *): A pattern.\n\nOptions:" in printed
    )
    assert "--from TEXT" in printed
    assert "--kind [x|y]" in printed
    assert "--rate HERTZ" in printed
