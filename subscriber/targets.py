"""Targets: what one pull is about. Asks with the same target share a pull."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ..topics.wire.control import TEXT_MAX
from ..topics.wire.messages import SELECT_BLOCKS, SELECT_FILTER, SELECT_NAMES, SELECT_TABLE
from .facts import AskTable

NAMES_BYTES_MAX: Final = 256 << 10  # of the partitions that one pull names, in characters


class Target(NamedTuple):
    """What a pull selects, as it is said to catalogd."""

    db: str
    table: str
    selector: int
    filter: str = ""
    names: tuple[str, ...] = ()
    names_only: bool = False


def target_of(ask: AskTable) -> Target:
    """Return what to pull for ``ask``; a selection too long for a message becomes all blocks."""
    db, table = ask.db, ask.table
    if not ask.whole:
        return Target(db, table, SELECT_TABLE)
    if ask.names is not None:
        if _fit(ask.names):
            return Target(db, table, SELECT_NAMES, names=tuple(sorted(set(ask.names))))
    elif ask.filter is None:
        return Target(db, table, SELECT_BLOCKS, names_only=ask.names_only)
    elif len(ask.filter) <= TEXT_MAX:
        only = ask.names_only
        return Target(db, table, SELECT_FILTER, filter=ask.filter, names_only=only)
    return Target(db, table, SELECT_BLOCKS)


def selection(
    db: str,
    table: str,
    text: str | None,
    *,
    names: tuple[str, ...] | None = None,
    names_only: bool = False,
) -> AskTable:
    """Return the ask for partitions that match the filter ``text``, or have one of ``names``.

    Its id and time are for who asks.
    """
    return AskTable(
        id=0,
        db=db,
        table=table,
        whole=True,
        give_up_at=0.0,
        filter=text,
        names=names,
        names_only=names_only,
    )


def cover_of(text: str | None, names: Iterable[str] | None) -> str | None:
    """Return under what is remembered that a selection is held; None: everything."""
    return text if names is None else "\0" + "\0".join(sorted(set(names)))


def _fit(names: tuple[str, ...]) -> bool:
    longest = max(map(len, names), default=0)
    return longest <= TEXT_MAX and sum(map(len, names)) + 3 * len(names) <= NAMES_BYTES_MAX
