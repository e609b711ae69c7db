"""Flags: what an operator or a caller may set, declared once, each as a field of a dataclass.

field ──▶ flag of a command, its --help, the reference
  └─────▶ argument of a function, its help()      and one check of the value, whoever gives it
"""

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from functools import partial
from inspect import get_annotations
from typing import Any, Final

from .errors import ConfigError

ABOVE_0: Final = math.ulp(0.0)  # the lowest bound of what may be small, but not nothing
_FLAG: Final = "flag"  # of the metadata of a field


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """The declaration of a field, besides its type and its default."""

    meaning: str  # as --help and help() have it
    shown: str = ""  # the default in --help, where it is decided later, or depends on the machine
    bounds: tuple[float, float] | None = None  # the lowest and the highest value
    choices: tuple[str, ...] = ()  # empty: any text
    allowed: str = ""  # bounds or choices, in words
    name: str = ""  # after --, if it is not that of the field
    metavar: str | None = None
    in_environment: bool = True  # as TOPICAST_ and the name of the field
    in_command: bool = True  # else only functions have it

    @property
    def described(self) -> str:
        """Its meaning, and the values that are allowed."""
        return f"{self.meaning} Allowed: {self.allowed}." if self.allowed else self.meaning

    def allows(self, value: object) -> bool:
        """Return whether ``value`` is one of the choices, or within the bounds."""
        if self.choices:
            return value in self.choices
        if self.bounds is None:
            return True
        low, high = self.bounds
        return isinstance(value, int | float) and low <= value <= high  # which NaN is not


def flag(meaning: str, *, default: Any, **more: Any) -> Any:
    """Return a field of a dataclass; ``more``: of its ``Flag``. MISSING: it has no default."""
    own = Flag(meaning=meaning, **{"allowed": _allowed(**more), **more})
    return field(default=default, metadata={_FLAG: own})


option: Final = partial(flag, in_environment=False)
"""As ``flag``, for what belongs to one run: no variable of the environment sets it."""


def own_first(config: type) -> list[Field[Any]]:
    """Return the fields of a dataclass: its own in their order, then those of its bases."""
    own, all_fields = get_annotations(config), {one.name: one for one in fields(config)}
    return [all_fields[name] for name in {**own, **all_fields} if name in all_fields]


def declared_flags(config: Any) -> Mapping[str, Flag]:
    """Return the flags of a dataclass, or of an object of it, by the names of the fields."""
    found = {one.name: one.metadata.get(_FLAG) for one in fields(config)}
    return {name: own for name, own in found.items() if own is not None}


def check_flags(config: Any) -> None:
    """Raise ConfigError if a flag of ``config`` has a value that it does not allow.

    None is allowed where it is the default.
    """
    defaults = {one.name: one.default for one in fields(config)}
    for name, own in declared_flags(config).items():
        value = getattr(config, name)
        is_unset = value is None and defaults[name] is None
        if not is_unset and not own.allows(value):
            raise ConfigError(name, value, own.allowed)


def _allowed(
    *, bounds: tuple[float, float] | None = None, choices: tuple[str, ...] = (), **_: Any
) -> str:
    """Return in words what is allowed; empty: everything."""
    if bounds is None:
        return " or ".join(choices)
    low, high = bounds
    if math.isinf(high):
        return "above 0" if low == ABOVE_0 else f"{low} or more"
    return f"above 0, up to {high}" if low == ABOVE_0 else f"from {low} to {high}"
