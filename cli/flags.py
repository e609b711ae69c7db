"""Command-line options made from the fields of a config dataclass.

The name of a field is that of the flag, its type decides how the text is read, and its default is
shown in ``--help``. Each flag is accepted with ``_`` or ``-``, and from the environment as
``TOPICAST_`` and the flag in capitals. The dataclass checks the values, and raises ``ConfigError``.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import partial, reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_type_hints

import click
from click.core import ParameterSource

from .. import __version__
from .output import EXIT_CODES

ENVIRONMENT_PREFIX: Final = "TOPICAST_"
STATESTORES_DEFAULT: Final = "tcp://127.0.0.1:24000"
BUDGET_DEFAULT: Final = "64MB"
DEFAULT: Final = "default"  # where the value of a flag comes from that nobody has given

F = TypeVar("F", bound=Callable[..., Any])


class PathName(click.Path):
    """A path; an empty one, such as a variable that is not set leaves, names nothing."""

    def __init__(self, **how: Any) -> None:
        """``how``: the keywords of click.Path."""
        super().__init__(path_type=Path, **how)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a Path; fail if ``value`` is empty."""
        if value == "":
            self.fail("'' is not a path", param, ctx)
        return super().convert(value, param, ctx)


def settings(**more: Any) -> dict[str, Any]:
    """Return the context settings of click for every command: ``-`` is read as ``_``."""
    return {
        "token_normalize_func": lambda token: token.replace("-", "_"),
        "help_option_names": ["--help", "-h"],
        "max_content_width": 100,
        **more,
    }


command = partial(click.command, context_settings=settings(), epilog=EXIT_CODES)


def option(name: str, *short: str, **more: Any) -> Callable[[F], F]:
    """Make one option ``--name``, also read from the environment; ``short``: as ``-n``."""
    more.setdefault("show_default", True)
    return click.option(
        *short,
        f"--{name}",
        name,
        envvar=ENVIRONMENT_PREFIX + name.upper(),
        show_envvar=True,
        **more,
    )


def flags_of(
    config: type,
    *,
    meanings: Mapping[str, str],
    defaults: Mapping[str, tuple[Any, str | bool]] = MappingProxyType({}),
) -> Callable[[F], F]:
    """Make one option for each field of the dataclass ``config``, in the order of its fields.

    Args:
        config: A dataclass of settings.
        meanings: What each flag means, for ``--help``.
        defaults: Replace those of the fields, where they depend on the machine; each with its
            text in ``--help``, which is the same on every machine; True: the default itself.
    """
    hints = get_type_hints(config)

    def decorate(command: F) -> F:
        for field in reversed(fields(config)):
            default, shown = defaults.get(field.name, (_default(field), True))
            how = _how(hints[field.name], default) | {"show_default": shown}
            command = option(field.name, help=meanings[field.name], **how)(command)
        return command

    return decorate


def settings_given() -> list[tuple[str, str, str]]:
    """Return each flag of the command that runs, its value, and where the value comes from."""
    context = click.get_current_context()
    origins = {
        ParameterSource.COMMANDLINE: "command line",
        ParameterSource.ENVIRONMENT: "environment",
    }
    found = []
    for name, value in context.params.items():
        source = context.get_parameter_source(name) or ParameterSource.DEFAULT
        origin = origins.get(source, DEFAULT)
        found.append((name, "" if value is None else str(value), origin))
    return found


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
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    help="How long to wait for an answer.",
)
OUTPUT: Final = option(
    "output",
    "-o",
    type=click.Choice(["table", "wide", "json"]),
    default="table",
    help="To read, with every column, or one whole JSON document for programs.",
)
ORDER_OPTIONS: Final = options(statestores_option(), TIMEOUT, OUTPUT)
READER_OPTIONS: Final = options(
    statestores_option(),
    option(
        "budget",
        default=BUDGET_DEFAULT,
        metavar="SIZE",
        help="Memory for the catalog; content that does not fit is pulled.",
    ),
    TIMEOUT,
    OUTPUT,
)


def _default(field: "Field[Any]") -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _how(hint: Any, default: Any) -> dict[str, Any]:
    """Return the keywords of click's option for a value of the type ``hint``."""
    if hint in (bool, bool | None):
        # As gflags has it: --flag, --flag=true, --flag=false.
        return {"type": bool, "is_flag": False, "flag_value": "true", "default": default}
    if hint == str | None:
        return {"type": str, "default": default}
    if hint in (Path, Path | None):
        return {"type": PathName(), "default": default}
    return {"type": hint, "default": default}
