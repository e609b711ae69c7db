"""Backports: names that Python 3.10 lacks, with the meaning that they have from 3.11 on.

Other modules import them from here, on every Python.
"""

import enum
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from typing_extensions import Self  # mypy knows it without the library
else:
    Self = Any

__all__ = ["IntEnum", "Self", "StrEnum", "assert_never"]


if sys.version_info >= (3, 11):
    from enum import IntEnum, StrEnum
else:

    class StrEnum(str, enum.Enum):
        """An enum of texts; ``str`` and ``format`` give a member's text."""

        def __str__(self) -> str:
            return str.__str__(self)

        def __format__(self, format_spec: str) -> str:
            return str.__format__(self, format_spec)

    class IntEnum(enum.IntEnum):
        """An enum of integers; ``str`` and ``format`` give a member's number."""

        def __str__(self) -> str:
            return int.__repr__(self)

        def __format__(self, format_spec: str) -> str:
            return int.__format__(self, format_spec)


def assert_never(value: NoReturn, /) -> NoReturn:
    """Fail: mypy has shown that no ``value`` gets here.

    Raises:
        AssertionError: always.
    """
    raise AssertionError(f"nothing handles {value!r}")
