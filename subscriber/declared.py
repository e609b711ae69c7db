"""Declared: settings as fields of a dataclass, each with its declaration for every place.

argument of a function ─▶ Spark's configuration ─▶ environment ─▶ default
       └──────────────── the first that is given ────────────────────┘
                                    └──read──▶ value of the field
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Final, TypeAlias, TypeGuard

from ..topics.errors import ConfigError
from ..topics.settings import SIZE_BYTES_MAX, parse_duration_s

_DECLARATION: Final = "declaration"  # the key in the metadata of a field
_HALF: Final = re.compile("[\0\ud800-\udfff]")  # NUL, and surrogates: halves of characters
_FLAGS: Final = {"true": True, "false": False, "1": True, "0": False}

Read: TypeAlias = Callable[[object, str], Any]
"""Returns the value that a text, or an argument of another type, stands for.

The second argument is the name of the setting, for the ConfigError.
"""


def read_text(value: object, setting: str) -> str:
    """Return ``value`` if it is a text without NUL or surrogates.

    Raises:
        ConfigError: it is not.
    """
    if not isinstance(value, str):
        raise ConfigError(setting, shown(value), "a text, or None")
    if _HALF.search(value):
        raise ConfigError(setting, value, "a text that can be printed")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """How one setting is read, in all places where it may be given."""

    default: object  # is read as if it were given; None: the value is None, too
    read: Read
    argument: str = ""  # the name of the argument; empty: the name of the field
    is_required: bool = False  # there is no default
    needs_text: bool = True  # False: an empty text counts as not given
    in_environment: bool = True  # whether a variable may give it

    @property
    def variable(self) -> str:
        """The name of its variable in the environment, such as TOPICAST_KEY_FILE."""
        return f"TOPICAST_{self.argument.removesuffix('_s').upper()}"


Place: TypeAlias = Callable[[Declaration], tuple[str, str | None]]
"""Returns the name of a setting at a place, and its text there; None: it is not given there."""


def declared(default: object, read: Read = read_text, **more: Any) -> Any:
    """Return the dataclass field of a setting; ``more``: the other fields of ``Declaration``."""
    own = Declaration(default=default, read=read, **more)
    value = MISSING if own.is_required else _read(own, default, "")
    return field(default=value, metadata={_DECLARATION: own})


def declarations(settings: type) -> dict[str, Declaration]:
    """Return the declarations of a dataclass, by the names of its fields."""
    found = {one.name: one.metadata.get(_DECLARATION) for one in fields(settings)}
    named = {name: own for name, own in found.items() if own is not None}
    return {name: replace(own, argument=own.argument or name) for name, own in named.items()}


def environment(environ: Mapping[str, str]) -> Place:
    """Return the place that looks for a setting's variable in ``environ``."""
    return lambda own: (own.variable, environ.get(own.variable) if own.in_environment else None)


def values_of(settings: type, given: Mapping[str, object], *places: Place) -> dict[str, Any]:
    """Return the value of each declared field, by the name of the field.

    A value comes from the arguments ``given`` (None: not given), else from the first of ``places``
    that has the setting, else from the default.

    Raises:
        ConfigError: a value is not allowed; names the place that has given it.
    """
    known = declarations(settings)
    unknown = given.keys() - {own.argument for own in known.values()}
    assert not unknown, f"not declared: {unknown}"
    return {name: _value(own, given.get(own.argument), places) for name, own in known.items()}


def _value(own: Declaration, given: object, places: tuple[Place, ...]) -> object:
    options = ((own.argument, given), *(place(own) for place in places))
    for name, value in options:
        if value is not None and (own.needs_text or value != ""):
            return own.read(value, name)
    return _read(own, own.default, " or ".join(name for name, _ in options))


def _read(own: Declaration, default: object, setting: str) -> object:
    return None if default is None else own.read(default, setting)


def read_flag(value: object, setting: str) -> bool:
    """Return a boolean, which is written as true, false, 1 or 0."""
    if isinstance(value, bool):
        return value
    word = read_text(value, setting).strip().lower()
    if word not in _FLAGS:
        raise ConfigError(setting, value, "true or false")
    return _FLAGS[word]


def one_of(*allowed: str) -> Read:
    """Return a function that reads one of the words ``allowed``."""

    def read(value: object, setting: str) -> str:
        if value not in allowed:
            *others, last = allowed
            raise ConfigError(setting, shown(value), f"{', '.join(others)} or {last}")
        return read_text(value, setting)

    return read


def either(yes: str, no: str) -> Read:
    """Return a function that reads the word ``yes`` as True, and ``no`` as False."""
    word = one_of(yes, no)
    return lambda value, setting: word(value, setting) == yes


def seconds(fits: Callable[[float], bool], allowed: str) -> Read:
    """Return a function that reads a time: a number of seconds, or a text such as 5s.

    ``fits`` returns whether the number is allowed; ``allowed`` says for errors which numbers are.
    """

    def read(value: object, setting: str) -> float:
        found = parse_duration_s(value, setting=setting) if isinstance(value, str) else value
        if not is_number(found) or not fits(found):
            raise ConfigError(setting, shown(value), allowed)
        return found

    return read


def is_number(value: object) -> TypeGuard[float]:
    """Return whether ``value`` is a number, and no boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: object) -> object:
    """Return ``value`` as errors show it; of a number that Python cannot write, the type."""
    is_long = isinstance(value, int) and abs(value) >= SIZE_BYTES_MAX
    is_shown = isinstance(value, str | int | float) and not is_long
    return value if is_shown else f"of type {type(value).__name__}"
