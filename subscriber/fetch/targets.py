"""Targets: what one pull is about. Asks with the same target share a pull."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ...topics.wire.fields import TEXT_MAX
from ...topics.wire.messages import (
    SELECT_BLOCKS,
    SELECT_FILTER,
    SELECT_NAMES,
    SELECT_TABLE,
    SELECT_VALUES,
)
from ..protocol.facts import AskTable

NAMES_BYTES_MAX: Final = 256 << 10  # of the partitions that one pull names, in characters


class Target(NamedTuple):
    """What a pull selects, as it is said to catalogd."""

    db: str
    table: str
    selector: int
    filter: str = ""
    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    names_only: bool = False


def target_of(ask: AskTable) -> Target:
    """Return what to pull for ``ask``; a selection too long for a message becomes all blocks."""
    db, table, only = ask.db, ask.table, ask.names_only
    if not ask.whole:
        return Target(db, table, SELECT_TABLE)
    if ask.names is not None:
        if _fit(ask.names):
            return Target(db, table, SELECT_NAMES, names=tuple(sorted(set(ask.names))))
    elif ask.values is not None:
        if _fit(ask.values):
            return Target(db, table, SELECT_VALUES, values=ask.values, names_only=only)
    elif ask.filter is None:
        return Target(db, table, SELECT_BLOCKS, names_only=only)
    elif len(ask.filter) <= TEXT_MAX:
        return Target(db, table, SELECT_FILTER, filter=ask.filter, names_only=only)
    return Target(db, table, SELECT_BLOCKS)


def selection(
    db: str,
    table: str,
    text: str | None,
    *,
    names: tuple[str, ...] | None = None,
    values: tuple[str, ...] | None = None,
    names_only: bool = False,
) -> AskTable:
    """Return the ask for partitions that match the filter ``text``, or have one of ``names``.

    Or these first ``values``. Its id and time are for who asks.
    """
    return AskTable(
        id=0,
        db=db,
        table=table,
        whole=True,
        give_up_at=0.0,
        filter=text,
        names=names,
        values=values,
        names_only=names_only,
    )


def cover_of(
    text: str | None, names: Iterable[str] | None, values: Iterable[str] | None = None
) -> str | None:
    """Return under what is remembered that a selection is held; None: everything.

    With a NUL in front unless it is a filter; no partition's name is empty.
    """
    if values is not None:
        return "\0\0" + "\0".join(values)
    return text if names is None else "\0" + "\0".join(sorted(set(names)))


def cover_of_target(target: Target) -> str | None:
    """Return under what is remembered that what ``target`` selects is held."""
    names = target.names if target.selector == SELECT_NAMES else None
    values = target.values if target.selector == SELECT_VALUES else None
    return cover_of(target.filter, names, values)


def _fit(names: tuple[str, ...]) -> bool:
    longest = max(map(len, names), default=0)
    return longest <= TEXT_MAX and sum(map(len, names)) + 3 * len(names) <= NAMES_BYTES_MAX
