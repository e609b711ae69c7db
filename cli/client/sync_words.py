"""Sync words: why a table, or the tables of a database, are not followed, in words."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from ...catalog.ingest.loads.follow_rules import BY_DEFAULT, PARAMETER
from ...topics.errors import LinkError
from ...topics.settings import parse_addresses
from ...topics.wire.messages.questions import TABLE_STATES_MAX, ReadStatus, ReadTableStates
from ..terminal.lists import Record
from .operator import Operator, facts_of

AS_OF: Final = "what is held is as of the last read, and topicast refresh reads it once more"
NAMED_MAX: Final = 5  # databases, in a note


def off_by_default(statestores: str, timeout_s: float) -> bool:
    """Return whether catalogd follows only tables that say so themselves.

    False, too, if catalogd does not answer: the content of readers is shown without it.
    """
    addresses = parse_addresses(statestores, setting="statestores")
    with suppress(LinkError), Operator(addresses, timeout_s=timeout_s) as visit:
        return bool(facts_of(visit.catalog(ReadStatus())).get("sync_off_by_default"))
    return False


def states_of(
    tables: Sequence[str], *, statestores: str, timeout_s: float
) -> dict[str, tuple[str, str]]:
    """Return the state of each of ``tables`` that is not as it should be, and why.

    Empty if catalogd does not answer, or does not show it to our key: the content of readers is
    shown without it.
    """
    addresses = parse_addresses(statestores, setting="statestores")
    rows: list[Record] = []
    with suppress(LinkError), Operator(addresses, timeout_s=timeout_s) as visit:
        for at in range(0, len(tables), TABLE_STATES_MAX):
            some = tuple(tables[at : at + TABLE_STATES_MAX])
            rows += visit.catalog(ReadTableStates(tables=some)).records()
    return {one["table"]: (one["state"], one["why"]) for one in rows if one["table"]}


def why_not(
    table: Mapping[str, str] | None, database: Mapping[str, str], *, off_by_default: bool
) -> str:
    """Return why a table with these parameters is not followed; empty: it is followed.

    ``table`` None: a table without a parameter of its own about this.
    """
    for of, parameters in (("the table", table or {}), ("its database", database)):
        value = parameters.get(PARAMETER)
        if value is not None:
            return f"{PARAMETER} of {of} is {value}" if value.strip().lower() == "true" else ""
    return BY_DEFAULT if off_by_default else ""


def of_databases(off: Iterable[str]) -> str:
    """Return the note that most tables of these databases are not followed; empty if ``off`` is."""
    names = list(off)
    if not names:
        return ""
    more = f" and {len(names) - NAMED_MAX} others" if len(names) > NAMED_MAX else ""
    named = ", ".join(names[:NAMED_MAX])
    return f"tables of {named}{more} are not followed, unless they say otherwise: {AS_OF}"
