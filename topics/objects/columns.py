"""Columns: the fields of a block's records, each as one value where all agree, else a list.

The readers are total: they return what their type says or raise WireError.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat

from ..errors import WireError


def column(values: Sequence[object]) -> object:
    """Return ``values`` as a column; a tuple among them is kept as a list's item."""
    if not values:
        return []
    first = values[0]
    if type(first) is not tuple and values.count(first) == len(values):
        return first
    return list(values)


def read_column(found: object, count: int) -> Iterable[int | bytes | tuple[bytes, ...]]:
    """Return the ``count`` integers, strings and lists of strings of a column."""
    if type(found) is not list:
        return repeat(_read_item(found), count)
    if len(found) != count:
        raise WireError(f"a column has {len(found)} items for {count} records")
    if {int, bytes}.issuperset(map(type, found)):
        return found
    return [_read_item(item) for item in found]


def read_ints(found: object, count: int, *, least: int = 0) -> tuple[int, ...]:
    """Return the ``count`` integers of a column, none below ``least``."""
    ints = tuple(found) if type(found) is list else (found,)
    if not all(type(item) is int and item >= least for item in ints):
        raise WireError(f"a column of integers holds none, or one below {least}")
    if type(found) is not list:
        return ints * count
    if len(ints) != count:
        raise WireError(f"a column has {len(ints)} items for {count} records")
    return ints


def write_names(names: Iterable[str]) -> str:
    """Return ``names``, sorted and not empty, as one string."""
    return "\0".join(names)


def read_names(found: object, *, records_max: int) -> tuple[str, ...]:
    """Return the names of a block's records, sorted and distinct."""
    if type(found) is not str:
        raise WireError("a block begins with its names")
    names = tuple(found.split("\0")) if found else ()
    if len(names) > records_max:
        raise WireError(f"a block has {len(names)} records, {records_max} allowed")
    if (names and not names[0]) or not all(a < b for a, b in pairwise(names)):
        raise WireError("the names of a block are not sorted")
    return names


def _read_item(item: object) -> int | bytes | tuple[bytes, ...]:
    if type(item) is int or type(item) is bytes:
        return item
    if type(item) is list and all(type(part) is bytes for part in item):
        return tuple(item)
    raise WireError(f"a column holds a {type(item).__name__}")
