"""Settings file: ``topicast.toml``, with values of flags by command.

    [catalogd]              the flags of a daemon; [statestored] likewise
    [topicast]              SHARED flags, for each command that has them
    [topicast.drivers]      one command; [topicast.pipeline.audit] a command of a group

command line > environment > file > default. Before a command does anything, its section is checked:
a flag that does not exist, or a value that a flag does not take, is an error.
"""

import os
import stat
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click

from ...topics.errors import ConfigError

NAME: Final = "topicast.toml"  # looked for in the working folder
PROGRAMS: Final = ("catalogd", "statestored", "topicast")
SHARED: Final = ("budget", "output", "statestores", "timeout_s")
"""The flags that [topicast] sets for each of its commands that has them."""
BYTES_MAX: Final = 1 << 20  # more is not a file of settings
_KINDS: Final[Mapping[type, tuple[tuple[type, ...], str]]] = {
    click.types.BoolParamType: ((bool, str), "true or false"),
    click.types.IntParamType: ((int, str), "an integer"),
    click.types.FloatParamType: ((int, float, str), "a number"),
}
"""The types of TOML that a flag takes, by its type: a text is read as on the command line."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The file ``path``, and what is in it."""

    path: Path
    content: Mapping[str, Any]

    def values(self, context: click.Context) -> dict[str, Any]:
        """Return the values of the command of ``context``, by the names of its parameters.

        Raises:
            ConfigError: a section or flag is not known, or a value is not allowed. It names them.
        """
        flags = flags_in(context.command)
        return {
            str(flags[name].name): self._value(
                flags[name], value, place=self.place(where, name), context=context
            )
            for name, (where, value) in self._given(context).items()
        }

    def places(self, context: click.Context) -> dict[str, str]:
        """Return where the value of each flag in ``values`` is, by the flag's name."""
        return {
            name: f"{self.path}: [{where}]" for name, (where, _) in self._given(context).items()
        }

    def _given(self, context: click.Context) -> dict[str, tuple[str, Any]]:
        """Return the section and the value of each flag of the command of ``context``."""
        self._check("", self.content, known=PROGRAMS, what="section")
        given: dict[str, tuple[str, Any]] = {}
        section, table = "", self.content
        for one in _lineage(context):
            table = self._table(table, section, str(one.command.name))
            section = f"{section}.{one.command.name}".lstrip(".")
            if isinstance(one.command, click.Group):
                shared = SHARED if section in PROGRAMS else ()
                known = {_flag(name) for name in one.command.list_commands(one)}
                known |= {*shared}
                self._check(section, table, known=known, what="command or shared flag")
                given |= {name: (section, table[name]) for name in shared if name in table}
        flags = flags_in(context.command)
        self._check(section, table, known=flags, what="flag")
        given = {name: value for name, value in given.items() if name in flags}
        return given | {_flag(name): (section, value) for name, value in table.items()}

    def place(self, section: str, name: str) -> str:
        """Return the text by which an error names a value."""
        return f"{self.path}: [{section}] {name}" if section else f"{self.path}: {name}"

    def _table(self, table: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
        named = {_flag(key): value for key, value in table.items()}
        found: Mapping[str, Any] = named.get(_flag(name), {})
        if not isinstance(found, dict):
            raise ConfigError(self.place(section, name), found, "a section of its own")
        return found

    def _check(
        self, section: str, table: Mapping[str, Any], *, known: Collection[str], what: str
    ) -> None:
        seen: set[str] = set()
        for key, value in table.items():
            name = _flag(key)
            if name not in known:
                near = get_close_matches(name, sorted(known), n=1)
                hint = f" (near it: {near[0]})" if near else f": {', '.join(sorted(known))}"
                raise ConfigError(self.place(section, key), value, f"there is no such {what}{hint}")
            if name in seen:
                raise ConfigError(self.place(section, key), value, "it is there twice")
            seen.add(name)

    def _value(self, flag: click.Option, value: Any, *, place: str, context: click.Context) -> Any:
        types, allowed = next(
            (found for kind, found in _KINDS.items() if isinstance(flag.type, kind)),
            ((str, int, float), "a text"),
        )
        each = value if flag.multiple and isinstance(value, list) else [value]
        for one in each:
            if not isinstance(one, types) or (isinstance(one, bool) and bool not in types):
                raise ConfigError(place, value, allowed)
        try:
            flag.type_cast_value(context, each if flag.multiple else value)
        except click.BadParameter as error:
            raise ConfigError(place, value, error.message) from error
        return each if flag.multiple else value


def section_of(context: click.Context) -> str:
    """Return the section of the command of ``context``."""
    return ".".join(str(one.command.name) for one in _lineage(context))


def flags_in(command: click.Command) -> dict[str, click.Option]:
    """Return the options of ``command`` that have values, by the name after ``--``."""
    return {
        _flag(max(one.opts, key=len)): one
        for one in command.params
        if isinstance(one, click.Option) and one.expose_value
    }


def read_settings(named: Path | None) -> SettingsFile | None:
    """Return the file ``named``, else NAME in the working folder; None: there is none.

    Raises:
        ConfigError: the file cannot be read, or is not TOML; or it was not named, and others than
            this user and root can write it.
    """
    path = Path(NAME) if named is None else named
    if named is None and not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            if named is None:
                _check_owner(path, os.fstat(file.fileno()))
            text = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError("config", str(path), f"a file to read ({error.strerror})") from error
    if len(text) > BYTES_MAX:
        raise ConfigError("config", str(path), f"a file of {BYTES_MAX} bytes at most")
    return SettingsFile(path.absolute(), _parsed(path, text))


def _parsed(path: Path, text: bytes) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        found: Mapping[str, Any] = tomllib.loads(text.decode())
    except ValueError as error:  # of TOML and of UTF-8
        raise ConfigError("config", str(path), f"TOML ({error})") from error
    return found


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (os.geteuid(), 0) or found.st_mode & stat.S_IWOTH:
        allowed = "others can write it: name it with --config if that is meant, or correct its mode"
        raise ConfigError("config", str(path), allowed)


def _lineage(context: click.Context) -> Iterator[click.Context]:
    """Yield the contexts of a command, from the program on."""
    if context.parent is not None:
        yield from _lineage(context.parent)
    if context.command.name:  # python -m topicast.cli.daemons has none
        yield context


def _flag(name: str) -> str:
    return name.lstrip("-").replace("-", "_")
