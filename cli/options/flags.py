"""Command-line options made from the fields of a config dataclass.

The name of a field is that of the flag, its type decides how the text is read, and its default and
its bounds are shown in ``--help``. Each flag is accepted with ``_`` or ``-``, from the environment
as ``TOPICAST_`` and the flag in capitals, and from a settings file. The dataclass checks the
values, and raises ``ConfigError``.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import partial, reduce
from inspect import cleandoc
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, get_args, get_type_hints

import click
from click.core import ParameterSource

from ... import __version__
from ...topics.errors import ConfigError
from ...topics.flags import Flag, declared_flags, own_first
from ...topics.settings import STATESTORES_DEFAULT
from ..terminal.output import EXIT_CODES
from .settings_file import NAME, SettingsFile, flags_in, read_settings, section_of

ENVIRONMENT_PREFIX: Final = "TOPICAST_"
BUDGET_DEFAULT: Final = "64MB"
DEFAULT: Final = "default"  # the origin of the value of a flag that nobody has set
FILE: Final = f"{__name__}.file"  # the settings file, in the ``meta`` of a context
HIDDEN: Final = "(set, not shown)"
SECRET: Final = ("KEY", "PASSWORD", "SECRET", "TOKEN")  # in the names of settings
NOT_SECRET: Final = ("_FILE", "KEYS_DIR")  # at the end of such names: the values are paths

F = TypeVar("F", bound=Callable[..., Any])
Documents: TypeAlias = Mapping[str, object]

if TYPE_CHECKING:
    _Choice = click.Choice[str]  # as classes of click from 8.2 on are written
else:
    _Choice = click.Choice


class PathName(click.Path):
    """A path; an empty text, as of a variable that is not set, names nothing."""

    def __init__(self, **how: Any) -> None:
        """``how``: the keywords of click.Path."""
        super().__init__(path_type=Path, **how)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a Path; fail if ``value`` is empty."""
        if value == "":
            self.fail("'' is not a path", param, ctx)
        return super().convert(value, param, ctx)


class Words(_Choice):
    """One of several words, which are shown with ``-``, and may be written with ``_`` as well."""

    def get_metavar(
        self,
        param: click.Parameter,  # noqa: ARG002 - click gives it
        ctx: click.Context | None = None,  # noqa: ARG002 - likewise, from 8.2 on
    ) -> str:
        """Return the text for the line of usage."""
        return f"[{'|'.join(self.choices)}]"

    def get_invalid_choice_message(
        self,
        value: Any,
        ctx: click.Context | None,  # noqa: ARG002 - likewise
    ) -> str:
        """Return the error about another word."""
        return f"{value!r} is not one of {', '.join(map(repr, self.choices))}."


def settings(**more: Any) -> dict[str, Any]:
    """Return the context settings of click for every command: ``-`` is read as ``_``."""
    return {
        "token_normalize_func": lambda token: token.replace("-", "_"),
        "help_option_names": ["--help", "-h"],
        "max_content_width": 100,
        **more,
    }


class Integer(click.IntRange):
    """A whole number within bounds, with a name that people understand."""

    name = "integer"


class Number(click.FloatRange):
    """A number within bounds, with a name that people understand."""

    name = "number"


class _Number(click.types.FloatParamType):
    name = "number"


class SettingsCommand(click.Command):
    """A command whose flags may be in the settings file that its program was given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, with the values of the file as defaults."""
        if (file := settings_file(ctx)) is not None:
            ctx.default_map = file.values(ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error about a value of the file names the file."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            file, source = settings_file(ctx), ctx.get_parameter_source(error.setting)
            if file is None or source is not ParameterSource.DEFAULT_MAP:
                raise
            place = file.place(section_of(ctx), error.setting)
            raise ConfigError(place, error.value, error.allowed) from error


def settings_file(context: click.Context) -> SettingsFile | None:
    """Return the settings file that the program of ``context`` was given."""
    found = context.meta.get(FILE)
    return found if isinstance(found, SettingsFile) else None


def config_option() -> Callable[[F], F]:
    """Make ``--config`` of a program."""

    def take(context: click.Context, _: click.Parameter, value: Path | None) -> None:
        if context.resilient_parsing:
            return
        context.meta[FILE] = file = read_settings(value)
        if file is not None and not isinstance(context.command, click.Group):
            context.default_map = file.values(context)

    return click.option(
        "--config",
        type=PathName(),
        metavar="FILE",
        envvar=f"{ENVIRONMENT_PREFIX}CONFIG",
        show_envvar=True,
        show_default=f"{NAME} in this folder, if it is there",
        default=None,
        is_eager=True,
        expose_value=False,
        callback=take,
        help="Settings: values of flags, by command.",
    )


command = partial(
    click.command, cls=SettingsCommand, context_settings=settings(), epilog=EXIT_CODES
)


def option(name: str, *short: str, **more: Any) -> Callable[[F], F]:
    """Make one option ``--name``, also read from the environment; ``short``: as ``-n``."""
    more.setdefault("show_default", True)
    return click.option(*short, f"--{name}", name, **_environment(name), **more)


def _environment(name: str) -> dict[str, Any]:
    return {"envvar": ENVIRONMENT_PREFIX + name.upper(), "show_envvar": True}


def flags_of(
    config: type,
    *,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    of_command: bool = False,
) -> Callable[[F], F]:
    """Make the flags of a daemon from the fields of the dataclass ``config``, in their order.

    Args:
        config: Its fields were made by ``flag``.
        defaults: Replace the defaults of the fields.
        of_command: Make the arguments and options of a command: those of the class itself, then
            those of its bases. A positional field whose flag has no name is an argument, which the
            help of the command explains. A field that is False by default is a switch without a
            value.
    """
    hints, declared = get_type_hints(config), declared_flags(config)
    made: list[Callable[[F], F]] = []
    about: list[str] = []  # of the arguments, which click does not explain
    for field in own_first(config) if of_command else fields(config):
        name, own = field.name, declared.get(field.name)
        if own is None or not own.in_command:
            continue
        default = defaults.get(name, field.default)
        how = {"required": True} if default is MISSING else {"default": default}
        if field.kw_only or own.name:
            how |= _kind(hints[name], own, is_switch=of_command)
            made.append(_option(name, own, **how))
        else:
            usual = "" if default is MISSING else f" (default: {default})"
            about.append(f"{name.upper()}{usual}: {own.meaning}")
            made.append(click.argument(name, **how))

    def decorate(command: F) -> F:
        command.__doc__ = "\n\n".join([cleandoc(command.__doc__ or ""), *about])
        return options(*made)(command)

    return decorate


def _option(name: str, own: Flag, **how: Any) -> Callable[[F], F]:
    return click.option(
        f"--{own.name or name}",
        name,
        help=own.meaning if own.choices else own.described,
        show_default=own.shown or True,
        metavar=own.metavar,
        **(_environment(name) if own.in_environment else {}),
        **how,
    )


def _kind(hint: Any, own: Flag, *, is_switch: bool) -> dict[str, Any]:
    """Return the keywords of click's option for the type of a value."""
    kind = next((one for one in get_args(hint) if one is not NoneType), hint)
    if own.choices:
        return {"type": click.Choice(own.choices)}
    if kind is bool and is_switch:
        return {"is_flag": True}
    if kind is bool:  # as gflags has it: --flag, --flag=true, --flag=false
        return {"type": bool, "is_flag": False, "flag_value": "true"}
    kind = {Path: PathName(), float: _Number()}.get(kind, kind)
    return {"type": kind, "multiple": hint == tuple[str, ...]}


def settings_given() -> list[tuple[str, str, str]]:
    """Return each flag of the command that runs, its value, and where the value comes from."""
    context = click.get_current_context()
    found = settings_of(context, settings_file(context))
    return [(name, "" if value is None else str(value), origin) for name, value, origin in found]


def settings_of(
    context: click.Context, file: SettingsFile | None
) -> list[tuple[str, str | int | float | list[str] | None, str]]:
    """Return each flag of the command of ``context``, its value, and where that comes from.

    The value of a secret is HIDDEN.
    """
    origins = {
        ParameterSource.COMMANDLINE: "command line",
        ParameterSource.ENVIRONMENT: "environment",
    }
    places = {} if file is None else file.places(context)
    found = []
    for name, flag in flags_in(context.command).items():
        source = context.get_parameter_source(str(flag.name)) or ParameterSource.DEFAULT
        value = shown(name, context.params.get(str(flag.name)))
        is_of_file = source is ParameterSource.DEFAULT_MAP
        origin = places.get(name, DEFAULT) if is_of_file else origins.get(source, DEFAULT)
        found.append((name, value, origin))
    return found


def shown(name: str, value: Any) -> str | int | float | list[str] | None:
    """Return the ``value`` of a setting, or HIDDEN if its name says that it is a secret."""
    if isinstance(value, tuple):  # of KEY=VALUE, or of paths
        return [_shown_pair(str(one)) for one in value]
    upper = name.upper().replace(".", "_")
    is_secret = any(one in upper for one in SECRET) and not upper.endswith(NOT_SECRET)
    if is_secret and value:
        return HIDDEN
    if isinstance(value, Path):
        return str(value)
    return value if isinstance(value, str | int | float) else None  # click has a mark of its own


def _shown_pair(text: str) -> str:
    name, equals, value = text.partition("=")
    return f"{name}={shown(name, value)}" if equals else text


def version_option(name: str) -> Callable[[F], F]:
    """Make ``--version`` of the command ``name``."""
    return click.version_option(__version__, "--version", message=f"{name} %(version)s")


def statestores_option(used: str = "the first that answers is used") -> Callable[[F], F]:
    """Make ``--statestores``, for commands that connect to a hub; ``used``: which of several."""
    return option(
        "statestores",
        default=STATESTORES_DEFAULT,
        metavar="ADDRESSES",
        help=f"Addresses of statestoreds, separated by commas; {used}.",
    )


def options(*made: Callable[[F], F]) -> Callable[[F], F]:
    """Make several options, which ``--help`` lists in this order."""
    return lambda command: reduce(lambda one, add: add(one), reversed(made), command)


TIMEOUT: Final = option(
    "timeout_s",
    type=Number(min=0, min_open=True),
    default=10.0,
    help="How long to wait for an answer.",
)


class OutputOption(click.Option):
    """The option ``-o``; ``documents``: as of ``prints``."""

    def __init__(self, *args: Any, documents: Callable[[], Documents], **more: Any) -> None:
        super().__init__(*args, **more)
        self.documents = documents


def prints(documents: Callable[[], Documents]) -> Callable[[F], F]:
    """Make ``-o`` of a command.

    Args:
        documents: Returns the types of the command's documents in JSON, as ``schemas`` reads them,
            by the arguments that print them; an empty text stands for no arguments.
    """
    return option(
        "output",
        "-o",
        cls=OutputOption,
        documents=documents,
        type=click.Choice(["table", "wide", "json"]),
        default="table",
        help="table: to read; wide: every column; json: one document, for programs.",
    )


ORDER_OPTIONS: Final = options(statestores_option(), TIMEOUT)
READER_OPTIONS: Final = options(
    statestores_option(),
    option(
        "budget",
        default=BUDGET_DEFAULT,
        metavar="SIZE",
        help="Memory for the catalog; content that does not fit is pulled.",
    ),
    TIMEOUT,
)
