"""Arguments: checks what an application passes to public methods, before a method does anything.

Each function returns its argument in the type that the method works with, or raises a UsageError
that names the argument and says what is right. Each value that is returned fits a message: no text
is too long, no number too large, and all texts are valid Unicode.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from itertools import islice
from typing import Final, TypeVar, cast

from ..topics.errors import UsageError
from ..topics.objects.names import (
    EVERYTHING,
    Scope,
    TableId,
    check_partition_name,
    database_key,
    names_key,
    parse_table_name,
)
from ..topics.topic import epoch_of
from ..topics.wire.shapes import TEXT_MAX
from .config import TIMEOUT_S_MAX

ITEMS_MAX: Final = 1_000_000  # in one argument: no table has as many partitions
NUMBER_MAX: Final = (1 << 64) - 1  # of a version or an epoch, as messages carry them
ASCII_NAME_MAX: Final = 256  # characters of a table's name: so many always fit a key

T = TypeVar("T")


def text(value: object, argument: str, *, length_max: int = TEXT_MAX) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise _wrong(argument, value, "a text")
    if len(value) > length_max:
        raise UsageError(f"{argument} has {len(value)} characters: at most {length_max} allowed")
    if "\0" in value:
        raise _wrong(argument, value, "a text without NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(argument, value, "valid Unicode") from None
    return value


def table(value: object, argument: str = "name") -> TableId:
    """Return the table that ``db.table`` names, in lower case."""
    if not isinstance(value, str):
        raise _wrong(argument, value, "a table's name, as db.table")
    if len(value) <= ASCII_NAME_MAX and value.isascii():
        return parse_table_name(value)
    found = parse_table_name(text(value, argument))
    names_key(*found)  # raises if it is too long; the table's own key is shorter
    return found


def database(value: object, argument: str) -> str:
    """Return a database's name in lower case."""
    if not isinstance(value, str):
        raise _wrong(argument, value, "a database's name")
    name = text(value, argument).lower()
    if not name:
        raise _wrong(argument, name, "a database's name")
    database_key(name)
    return name


def scope(value: object) -> Scope:
    """Return the table, or the database, that a scope names; empty: everything."""
    if value == "":
        return EVERYTHING
    if isinstance(value, str) and "." in value:
        return Scope(*table(value, "scope"))
    return Scope(database(value, "scope"))


def several(value: Iterable[T], argument: str, *, such_as: str) -> tuple[T, ...]:
    """Return the items of an iterable that is not a text; there are at most ITEMS_MAX."""
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        raise _wrong(argument, value, f"several items, such as {such_as}")
    found = tuple(islice(value, ITEMS_MAX + 1))
    if len(found) > ITEMS_MAX:
        raise UsageError(f"{argument} has too many items: at most {ITEMS_MAX} allowed")
    return found


def partition_names(value: Iterable[str], argument: str) -> tuple[str, ...]:
    """Return names of partitions, or beginnings of names, each of which ends with a slash."""
    found = several(value, argument, such_as="['ds=2026-11-01']")
    for name in found:
        check_partition_name(text(name, f"an item of {argument}").rstrip("/"))
    return found


def columns(value: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return names of columns in lower case, as Hive has them, each once; None: not given."""
    if value is None:
        return None
    found = several(value, "columns", such_as="['id', 'amount']")
    return tuple(dict.fromkeys(text(one, "an item of columns").lower() for one in found))


def partition_value(value: object) -> str:
    """Return the value of a partition column as its name has it; "" means any."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal | date):
        raise _wrong("an item of values", value, 'a text, number or date; "" is any')
    try:
        written = str(value)
    except ValueError:  # Python does not write integers of very many digits
        raise UsageError("an item of values is a number of too many digits") from None
    return text(written, "an item of values")


def topic(value: object) -> int | TableId:
    """Return a topic's number, or the table whose topic is meant."""
    if isinstance(value, str):
        return table(value, "topics")
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong("topics", value, "the number of a topic, or a table's name as db.table")
    return value


def topics(value: object) -> tuple[int | TableId, ...]:
    """Return the topics that one topic, or several, name, each once."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        items = several(value, "topics", such_as="[1, 'shop.orders']")
        return tuple(dict.fromkeys(map(topic, items)))
    return (topic(value),)


def claim(value: object) -> tuple[TableId, int]:
    """Return a table and the version at which an application knows it."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise _wrong("an item of known", value, "a pair of a table's name and a version")
    name, version = value
    if isinstance(version, bool) or not isinstance(version, int):
        raise _wrong("a version in known", version, "the version of a table")
    epoch: object = epoch_of(version)
    if not (0 <= version <= NUMBER_MAX and isinstance(epoch, int) and 0 <= epoch <= NUMBER_MAX):
        raise UsageError("a version in known is not one that a table ever had")
    return table(name, "a name in known"), version


def timeout_s(value: object, argument: str = "timeout_s") -> float:
    """Return how many seconds to wait."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(argument, value, "a number of seconds")
    if not 0 <= value <= TIMEOUT_S_MAX:  # false for NaN, too
        raise _wrong(argument, value, f"a number of seconds from 0 to {TIMEOUT_S_MAX:.0f}")
    return float(value)


def times(value: object, *, times_max: int) -> int:
    """Return how often something was done."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= times_max:
        raise _wrong("times", value, f"a number from 1 to {times_max}")
    return value


def flag(value: object, argument: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise _wrong(argument, value, "True or False")
    return value


def mapping(value: object) -> Mapping[str, object]:
    """Return ``values`` that a caller gives by column, with the columns in lower case."""
    found = cast(Mapping[object, object], value)
    return {text(key, "a column in values").lower(): item for key, item in found.items()}


def _wrong(argument: str, value: object, wanted: str) -> UsageError:
    if isinstance(value, str | bytes) and len(value) > 100:
        shown = f"{value[:100]!r}…"
    elif isinstance(value, str | bytes | float | bool) or value is None:
        shown = repr(value)
    else:  # its text may be of any length, or fail
        shown = f"of type {type(value).__name__}"
    return UsageError(f"{argument} is {shown}: it has to be {wanted}")
