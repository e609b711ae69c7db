"""The commands that show topics, and the subscribers that follow them, at which level and why."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import click

from ...topics.errors import LinkError, NoSuchObject, NotReady, UsageError
from ...topics.settings import parse_addresses
from ...topics.topic import LEVELS, NAMESPACE
from ...topics.wire.messages import Cell, Inspected
from ..exit_codes import DONE
from ..flags import OUTPUT, command, statestores_option
from ..operator import (
    OWN_ONLY,
    Operator,
    Record,
    at_each,
    complain_of,
    members_of,
    note_policy,
    readers_of,
)
from ..output import Output

NAMED_MAX: Final = 8  # subscribers that an error lists
MEMBERS: Final = (
    *("name", "registration", "role", "state", "topics", "lag_versions", "lag_s"),
    *("held_bytes", "budget_bytes", "statestored"),
)
BY_LEVEL: Final = ("name", "registration", "state", "statestored", "level", "count", "topics")
WHY_COLUMNS: Final = ("level", "bytes", "full_bytes", "hits", "why")


@command()
@click.option(
    "--why",
    metavar="[SUBSCRIBER]",
    is_flag=False,
    flag_value="",
    default=None,
    help="Show the levels that a subscriber chose, and its reasons; the only one if none is named.",
)
@statestores_option("the first that answers is used, with --why all")
@OUTPUT
def topics(why: str | None, statestores: str, output: str) -> int:
    """Show every topic of the statestored: its version, its bytes and members at each level.

    A SUBSCRIBER is named as 'topicast subscribers' does, or by the beginning of its registration.
    """
    addresses = parse_addresses(statestores, setting="statestores")
    if why is None:
        with Operator(addresses) as visit:
            _print_topics(visit.hub("topics"), Output(output), output)
        return DONE
    found, failures = at_each(addresses, readers_of)
    code = complain_of(failures)
    reader = meant([one for readers in found for one in readers], why)
    with Operator(parse_addresses(reader["statestored"])) as visit:
        _print_reasons(visit, reader, output)
    return code


@command()
@click.option("--topics", "by_topic", is_flag=True, help="Show the topics of each, by level.")
@statestores_option("all are used")
@OUTPUT
def subscribers(*, by_topic: bool, statestores: str, output: str) -> int:
    """Show the subscribers of each statestored, and how far behind each one is."""
    addresses = parse_addresses(statestores, setting="statestores")
    found, failures = at_each(addresses, _by_level if by_topic else members_of)
    code = complain_of(failures)
    note_policy(OWN_ONLY)
    records = [one for records in found for one in records]
    apart = {"statestored"} if len(addresses) == 1 and output != "json" else set()
    columns = [name for name in (BY_LEVEL if by_topic else MEMBERS) if name not in apart]
    if output != "json":
        records = [_shown(one) for one in records]
    Output(output).rows(columns, [[one[name] for name in columns] for one in records])
    return code


def _print_topics(facts: Inspected, printed: Output, output: str) -> None:
    if note_policy("what counts other databases, too, is left out") and output != "json":
        facts = _without_unknown(facts)
    at = facts.columns.index("topic")
    rows: Iterable[Sequence[Cell]] = facts.rows
    if output != "json":
        rows = [(*row[:at], _name(row[at]), *row[at + 1 :]) for row in facts.rows]
    printed.rows(facts.columns, rows)


def _without_unknown(facts: Inspected) -> Inspected:
    """Return ``facts`` without the columns that hold nothing."""
    shown = [at for at in range(len(facts.columns)) if any(r[at] is not None for r in facts.rows)]
    rows = tuple(tuple(row[at] for at in shown) for row in facts.rows)
    return replace(facts, columns=tuple(facts.columns[at] for at in shown), rows=rows)


def _print_reasons(visit: Operator, reader: Record, output: str) -> None:
    try:
        found = visit.hub(f"topics@{reader['registration']}").records()
    except NotReady as error:
        raise NotReady(f"{reader['name']} did not answer: is it stopped, or too busy?") from error
    records = [{"topic": one.pop("id"), **one} for one in found]
    about = {name: reader[name] for name in ("name", "registration", "held_bytes", "budget_bytes")}
    text = f"{reader['name']} holds {reader['held_bytes']} of its {reader['budget_bytes']} bytes"
    Output(output).document({**about, "topics": records}, text=text)
    if output != "json":
        Output(output).rows((*WHY_COLUMNS, "count", "topics"), _alike(records))


def _alike(records: Iterable[Record]) -> list[list[Cell]]:
    """Return one row for all topics with the same facts, by level, the largest first."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for one in records:
        groups.setdefault(tuple(one[name] for name in WHY_COLUMNS), []).append(one["topic"])
    found = sorted(
        groups.items(), key=lambda item: (-LEVELS.index(item[0][0]), -item[0][1], item[1])
    )
    return [[*facts, len(topics), _ranges(topics)] for facts, topics in found]


def meant(readers: list[Record], named: str) -> Record:
    """Return the reader with this name, or with a registration that begins so.

    Raises:
        NoSuchObject: no reader has it.
        UsageError: there are several.
        LinkError: it has lost its hub.
    """
    found = [one for one in readers if one["name"] == named] or [
        one for one in readers if named == "" or one["registration"].startswith(named)
    ]
    if not found:
        raise NoSuchObject(f"subscriber {named}" if named else "a subscriber at this statestored")
    found = [one for one in found if one["state"] != "LOST"] or found[:1]  # it may have moved
    if len(found) > 1:
        names = [f"{one['name']} ({one['registration'][:8]})" for one in found[:NAMED_MAX]]
        more = ", …" if len(found) > NAMED_MAX else ""
        raise UsageError(f"name a subscriber, as --why=NAME: {', '.join(names)}{more}")
    if found[0]["state"] == "LOST":
        raise LinkError(f"{found[0]['name']} has sent nothing for {found[0]['lag_s']} s")
    return found[0]


def _by_level(visit: Operator) -> list[Record]:
    """Return one record for each level at which a reader follows something."""
    return [one for reader in readers_of(visit) for one in _levels_of(visit, reader)]


def _levels_of(visit: Operator, reader: Record) -> list[Record]:
    try:
        joined = visit.hub(f"joined@{reader['registration']}").records()
    except UsageError:  # it has just left
        return []
    about = {name: reader[name] for name in ("name", "registration", "state", "statestored")}
    topics = {
        level: sorted(one["topic"] for one in joined if one["level"] == level)
        for level in reversed(LEVELS)
    }
    return [
        {**about, "level": level, "count": len(found), "topics": found}
        for level, found in topics.items()
        if found
    ]


def _shown(record: Record) -> Record:
    """Return a record as it is shown in a table."""
    if "topics" not in record or not isinstance(record["topics"], list):
        return record
    short = {"registration": record["registration"][:8], "topics": _ranges(record["topics"])}
    return {**record, **short}


def _ranges(topics: Iterable[int]) -> str:
    """Return sorted topics as text, such as ``0-3, 7, namespace``."""
    runs: list[list[int]] = []
    for topic in topics:
        if runs and topic == runs[-1][1] + 1:
            runs[-1][1] = topic
        else:
            runs.append([topic, topic])
    return ", ".join(_name(one) if one == end else f"{one}-{end}" for one, end in runs)


def _name(topic: Cell) -> str:
    return "namespace" if topic == NAMESPACE else str(topic)
