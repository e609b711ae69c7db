"""Members: the commands that show who follows which topic, at which level, and why."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from ...topics.entries import LEVELS
from ...topics.errors import LinkError, NoSuchObject, NotReady, UsageError
from ...topics.settings import parse_addresses
from ...topics.sharding import NAMESPACE
from ..flags import settings, statestores_option
from ..operator import Facts, Operator
from ..output import EXIT_CODES, Cell, Output, output_option

NAMED_MAX: Final = 8  # subscribers that an error names
WHY_COLUMNS: Final = ("level", "bytes", "full_bytes", "hits", "why")

Record = dict[str, Any]


@click.command(context_settings=settings(), epilog=EXIT_CODES)
@click.option(
    "--why",
    metavar="[SUBSCRIBER]",
    is_flag=False,
    flag_value="",
    default=None,
    help="Show the levels that a subscriber chose, and its reasons; the only one if none is named.",
)
@statestores_option()
@output_option()
def topics(why: str | None, statestores: str, output: str) -> None:
    """Show every topic of the statestored: its version, its bytes and members at each level.

    A SUBSCRIBER is named as 'topicast subscribers' does, or by the beginning of its registration.
    """
    with Operator(parse_addresses(statestores, setting="statestores")) as visit:
        if why is None:
            _print_topics(visit.hub("topics"), Output(output), output)
        else:
            _print_reasons(visit, _reader(visit, why), output)


@click.command(context_settings=settings(), epilog=EXIT_CODES)
@click.option("--topics", "by_topic", is_flag=True, help="Show the topics of each, by level.")
@statestores_option()
@output_option()
def subscribers(*, by_topic: bool, statestores: str, output: str) -> None:
    """Show who is connected to the statestored, and how far behind each one is."""
    with Operator(parse_addresses(statestores, setting="statestores")) as visit:
        facts = visit.hub("subscribers")
        if not by_topic:
            Output(output).rows(facts.columns, facts.rows)
            return
        rows = [row for member in _readers(facts) for row in _by_level(visit, member)]
    columns = ("name", "registration", "state", "level", "count", "topics")
    Output(output).rows(columns, rows if output == "json" else map(_shown, rows))


def _print_topics(facts: Facts, printed: Output, output: str) -> None:
    at = facts.columns.index("topic")
    rows: Iterable[Sequence[Cell]] = facts.rows
    if output != "json":
        rows = [(*row[:at], _name(row[at]), *row[at + 1 :]) for row in facts.rows]
    printed.rows(facts.columns, rows)


def _print_reasons(visit: Operator, reader: Record, output: str) -> None:
    try:
        told = _records(visit.hub(f"topics@{reader['registration']}"))
    except NotReady as error:
        raise NotReady(f"{reader['name']} did not answer: is it stopped, or too busy?") from error
    records = [{"topic": one.pop("id"), **one} for one in told]
    about = {name: reader[name] for name in ("name", "registration", "held_bytes", "budget_bytes")}
    text = f"{reader['name']} holds {reader['held_bytes']} of its {reader['budget_bytes']} bytes"
    Output(output).document({**about, "topics": records}, text=text)
    if output != "json":
        Output(output).rows((*WHY_COLUMNS, "count", "topics"), _alike(records))


def _alike(records: Iterable[Record]) -> list[list[Cell]]:
    """Return one row for all topics of which the same is told, by level, the largest first."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for one in records:
        groups.setdefault(tuple(one[name] for name in WHY_COLUMNS), []).append(one["topic"])
    found = sorted(
        groups.items(), key=lambda item: (-LEVELS.index(item[0][0]), -item[0][1], item[1])
    )
    return [[*facts, len(topics), _ranges(topics)] for facts, topics in found]


def _reader(visit: Operator, named: str) -> Record:
    """Return the reader that is meant.

    Raises:
        NoSuchObject: nobody is.
        UsageError: several are.
        LinkError: it does not hear the hub any more.
    """
    readers = _readers(visit.hub("subscribers"))
    found = [one for one in readers if one["name"] == named] or [
        one for one in readers if named == "" or one["registration"].startswith(named)
    ]
    if not found:
        raise NoSuchObject(f"subscriber {named}" if named else "a subscriber at this statestored")
    if len(found) > 1:
        names = [f"{one['name']} ({one['registration'][:8]})" for one in found[:NAMED_MAX]]
        more = ", …" if len(found) > NAMED_MAX else ""
        raise UsageError(f"say which subscriber, as --why=NAME: {', '.join(names)}{more}")
    if found[0]["state"] == "LOST":
        raise LinkError(f"{found[0]['name']} has not been heard of for {found[0]['lag_s']} s")
    return found[0]


def _by_level(visit: Operator, member: Record) -> list[list[Any]]:
    """Return one row for each level at which a member follows something."""
    joined = _records(visit.hub(f"joined@{member['registration']}"))
    rows = []
    for level in reversed(LEVELS):
        topics = sorted(one["topic"] for one in joined if one["level"] == level)
        if topics:
            facts = [member[name] for name in ("name", "registration", "state")]
            rows.append([*facts, level, len(topics), topics])
    return rows


def _readers(facts: Facts) -> list[Record]:
    return [one for one in _records(facts) if one["role"] == "reader"]


def _records(facts: Facts) -> list[Record]:
    return [dict(zip(facts.columns, row, strict=True)) for row in facts.rows]


def _shown(row: list[Any]) -> list[Cell]:
    return [row[0], row[1][:8], *row[2:-1], _ranges(row[-1])]


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
