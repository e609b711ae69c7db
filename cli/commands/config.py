"""The command that shows settings, their values, and the origin of each value."""

from collections.abc import Iterator, Sequence
from typing import Final, TypedDict

import click

from ...topics.errors import UsageError
from ..daemons import daemons
from ..options.flags import DEFAULT, command, prints, settings_file, settings_of
from ..options.settings_file import SettingsFile, flags_in, section_of
from ..terminal.lists import Heading, in_words
from ..terminal.output import Output, note

REQUIRED: Final = "required, and not given"
ALL: Final = (
    *(Heading(name="flag", rank=0), Heading(name="value", rank=0, prose=True)),
    Heading(name="origin", rank=0, text=lambda text: text.rpartition(": ")[2]),
    Heading(name="commands", wide=True),
)
ONE: Final = ALL[:3]


class Setting(TypedDict):
    """The value of a flag of a command, and its origin; null: it has no value."""

    command: str
    flag: str
    value: str | int | float | bool | list[str] | None
    origin: str


@command("config")
@click.argument("words", metavar="[COMMAND]", nargs=-1)
@prints(lambda: {"": list[Setting]})
@click.pass_context
def config(context: click.Context, words: tuple[str, ...], output: str) -> None:
    """Show each setting of COMMAND, its value, and where that comes from.

    COMMAND is statestored, catalogd, or a command of topicast; without it, the settings of all
    commands that are set are shown. A flag comes first, then the environment, then the settings
    file (--config, TOPICAST_CONFIG, or topicast.toml in this folder), then the default. Secrets are
    not shown.
    """
    printed = Output(output)
    if (file := settings_file(context)) is not None:
        note(f"the settings file is {file.path}")
    if words:
        found = settings_in(_context(context, words), file)
        printed.rows(ONE, found, nothing=f"{' '.join(words)} has no flag")
        return
    every = [one for each in _contexts(context) for one in settings_in(each, file)]
    given = [one for one in every if one["origin"] not in (DEFAULT, REQUIRED)]
    nothing = "every setting has its default: topicast config COMMAND shows those of a command"
    printed.rows(ALL, given if printed.is_json else _together(given), nothing=nothing)


def settings_in(context: click.Context, file: SettingsFile | None) -> list[Setting]:
    """Return the settings of the command of ``context``, as they are without a command line.

    Raises:
        ConfigError: the file has a flag that does not exist, or a value that is not allowed.
        click.BadParameter: the environment has.
    """
    if file is not None:
        context.default_map = file.values(context)
    missing: set[str] = set()
    for name, flag in flags_in(context.command).items():
        try:
            flag.handle_parse_result(context, {}, [])
        except click.MissingParameter:
            missing.add(name)
    path = section_of(context).removeprefix("topicast.").replace(".", " ")
    return [
        Setting(
            command=path,
            flag=name,
            value=None if name in missing else value,
            origin=REQUIRED if name in missing else origin,
        )
        for name, value, origin in settings_of(context, file)
    ]


def _together(given: Sequence[Setting]) -> list[dict[str, object]]:
    """Return each value once, with the commands that have it."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in given:
        value = one["value"]
        text = ", ".join(value) if isinstance(value, list) else in_words(value)
        found.setdefault((one["flag"], text, one["origin"]), []).append(one["command"])
    return [
        {"flag": flag, "value": value, "origin": origin, "commands": ", ".join(commands)}
        for (flag, value, origin), commands in found.items()
    ]


def _context(context: click.Context, words: Sequence[str]) -> click.Context:
    """Return a context of the command that ``words`` name, in the program of ``context``."""
    if words[0] in daemons.places:
        found = _child(None, daemons.load(words[0]), words[0])
        rest = words[1:]
    else:
        found, rest = context.find_root(), words
    for word in rest:
        group = found.command
        one = group.get_command(found, word) if isinstance(group, click.Group) else None
        if one is None:
            raise UsageError(f"{' '.join(words)} is no command: topicast --help lists them")
        found = _child(found, one, word)
    if isinstance(found.command, click.Group):
        names = ", ".join(found.command.list_commands(found))
        raise UsageError(f"{' '.join(words)} is a group: name one of {names}")
    return found


def _contexts(context: click.Context) -> Iterator[click.Context]:
    """Yield a context of each daemon and command whose libraries are installed."""
    for name in daemons.places:
        try:
            yield _child(None, daemons.load(name), name)
        except ModuleNotFoundError as error:
            note(f"{name} is left out: {error}")
    yield from _below(context.find_root())


def _below(group: click.Context) -> Iterator[click.Context]:
    assert isinstance(group.command, click.Group)
    for name in group.command.list_commands(group):
        one = group.command.get_command(group, name)
        if one is not None:
            child = _child(group, one, name)
            yield from _below(child) if isinstance(one, click.Group) else [child]


def _child(parent: click.Context | None, one: click.Command, name: str) -> click.Context:
    return click.Context(one, info_name=name, parent=parent, **one.context_settings)
