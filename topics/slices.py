"""Slices: the rows of a status, made some in each turn, so that no turn of a thread takes long."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

ROWS_MAX: Final = 40  # of a slice: under 0.2 ms, however many topics or members there are

T = TypeVar("T")
RowT = TypeVar("RowT")


def in_slices(
    of: Iterable[T], make: Callable[[T], RowT], *, into: list[RowT], rows_max: int = ROWS_MAX
) -> Iterator[None]:
    """Append ``make(one)`` to ``into`` for each of ``of``; yield between two slices.

    The items of ``of`` are collected at the first slice; each row is made in its own slice.
    """
    held = tuple(of)
    for begin in range(0, len(held), rows_max):
        if begin:
            yield
        into += map(make, held[begin : begin + rows_max])
