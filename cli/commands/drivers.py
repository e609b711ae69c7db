"""The command that shows attached Spark drivers, and switches them off and on."""

from datetime import datetime, timezone
from typing import TypedDict

import click

from ...topics.errors import UsageError
from ...topics.objects.drivers import GONE
from ...topics.objects.rules import EVERY, STATES
from ...topics.settings import parse_addresses
from ...topics.wire.messages.answers import NamedFacts
from ...topics.wire.messages.questions import ReadDriver
from ..client.operator import (
    OWN_ONLY,
    Operator,
    announced_at,
    at_each,
    complain_of,
    facts_of,
    note_policy,
    note_verdicts,
    ordered,
    readers_of,
    verdicts_at,
)
from ..options.flags import TIMEOUT, Documents, Words, command, option, prints, statestores_option
from ..records.fleet import (
    NOBODY,
    SHOWN,
    ListedDriver,
    completed,
    each_once,
    is_id,
    matches,
    problem_lines,
    problems,
    shown,
    unreachable,
)
from ..terminal.exit_codes import DONE
from ..terminal.lists import Heading, Record
from ..terminal.output import Output, note
from ..terminal.schemas import Cell, fields_of

KNOWN = ("name", "driver", "registration", "statestored")
RULES = (Heading(name="applications", rank=0), Heading(name="state", rank=0))
NO_RULES = "no rules hold: every driver is on"


class OrderedRule(TypedDict):
    """A rule of operators: the state of drivers whose application matches the pattern."""

    applications: str
    state: str


def _documents() -> Documents:
    rules = list[OrderedRule]
    of_driver = fields_of(ListedDriver).and_others(Cell)
    return {"": [of_driver], "--rules": rules, "off --all": rules}


@command()
@click.argument("state", type=Words(STATES), required=False)
@option(
    "app",
    metavar="PATTERN",
    help="Only applications whose name or id matches, such as 'etl-*', or the id of one driver.",
    show_default="all",
)
@click.option("--all", "every", is_flag=True, help="Switch every driver.")
@click.option("--problems", "ill", is_flag=True, help="Show drivers with a problem, at length.")
@click.option("--rules", is_flag=True, help="Show the rules that were ordered, the newest last.")
@statestores_option("all are used; an order goes through the first that answers")
@TIMEOUT
@prints(_documents)
def drivers(
    *,
    state: str | None,
    app: str | None,
    every: bool,
    ill: bool,
    rules: bool,
    statestores: str,
    timeout_s: float,
    output: str,
) -> int:
    """Show attached Spark drivers, or switch them off, on, or to a dry run.

    off is plain Spark; dry-run only counts what would be refreshed. A rule takes effect within a
    second, also in drivers that attach later, and is kept until another rule replaces it. The
    newest rule that matches an application holds; 'on --all' ends all rules. A subscriber that does
    not answer is shown, because it may be a driver. The column state says how the driver works,
    with the reason if it is not live or lacks something; control says how it is switched. A driver
    that has ended is listed for an hour, as gone.
    """
    addresses = parse_addresses(statestores, setting="statestores")
    if state is not None and every == (app is not None):
        raise UsageError(f"drivers {state}: either --app PATTERN, or --all for every driver")
    if state is not None or rules:
        given: tuple[str, ...] = ()
        listed: list[Record] = []
        if state is not None:
            listed = each_once(at_each(addresses, drivers_of)[0])
            given = (state, EVERY if app is None else _meant(listed, app))
        facts = ordered("drivers", given, statestores=statestores, timeout_s=timeout_s)
        if state is not None:
            attached = [one for one in listed if one.get("state") != GONE]
            count = sum(app is None or matches(one, app) for one in attached)
            note(f"of the drivers that are attached now, {count} match")
        printed = Output(output)
        if state is None or printed.is_json:
            printed.rows(RULES, _rules(facts), nothing=NO_RULES)
        else:
            printed.sentence({}, text=switched(state, given[1]))
        return DONE
    found, failures = at_each(addresses, lambda visit: (drivers_of(visit), verdicts_at(visit)))
    code = complain_of(failures)
    note_policy(OWN_ONLY)
    note_verdicts(dict(one for _, verdicts in found for one in verdicts.items()))
    once = each_once(records for records, _ in found)
    records = completed(
        (one for one in once if app is None or matches(one, app)), now=datetime.now(timezone.utc)
    )
    _print(problems(records) if ill else records, Output(output), app=app, ill=ill)
    return code


def switched(state: str, pattern: str) -> str:
    """Return the result of an order to drivers, as a sentence."""
    whose = "all drivers are" if pattern == EVERY else f"drivers of {pattern} are"
    return (
        f"{whose} {state}, also those that attach later; topicast drivers --rules shows all rules"
    )


def _print(records: list[Record], printed: Output, *, app: str | None, ill: bool) -> None:
    if ill and printed.form == "table":
        lines = problem_lines(records, width=printed.width) or ["no driver has a problem"]
        printed.document({}, text="\n".join(lines))
        return
    nothing = NOBODY if app is None else f"no driver matches {app}"
    printed.rows(SHOWN, records if printed.is_json else shown(records), nothing=nothing)


def _meant(listed: list[Record], app: str) -> str:
    """Return the application id of the one driver whose id begins with ``app``, else ``app``."""
    names = {one.get("application_id") for one in listed if is_id(one, app)}
    return str(names.pop()) if len(names) == 1 else app


def _rules(facts: NamedFacts) -> list[OrderedRule]:
    return [OrderedRule(applications=str(one), state=str(state)) for one, state in facts.rows]


def drivers_of(visit: Operator) -> list[Record]:
    """Return a record for each driver of a hub, with those that are gone, or may be no drivers."""
    readers, announced = readers_of(visit), announced_at(visit)
    alive = [one["registration"] for one in readers if one["state"] != "LOST"]
    answers = visit.readers(ReadDriver, alive)
    records: list[Record] = []
    for reader in readers:
        answer = answers.get(reader["registration"])
        known: Record = {name: reader[name] for name in KNOWN if name in reader}
        said = announced.pop(reader["registration"], {})
        if isinstance(answer, NamedFacts):
            records.append(said | known | facts_of(answer))
        elif said.get("state") == GONE:
            records.append(said | known)
        elif answer is None:
            records.append(said | unreachable(reader, said) | known)
    return records + [one | {"statestored": str(visit.address)} for one in announced.values()]
