"""The command that shows attached Spark drivers, and switches them off and on."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

import click

from ...topics.errors import UsageError
from ...topics.objects.drivers import GONE
from ...topics.objects.rules import EVERY, STATES
from ...topics.settings import parse_addresses
from ...topics.wire.messages import Inspected
from ..exit_codes import DONE
from ..flags import OUTPUT, TIMEOUT, command, option, statestores_option
from ..operator import (
    OWN_ONLY,
    Operator,
    Record,
    at_each,
    complain_of,
    facts_of,
    note_policy,
    note_verdicts,
    ordered,
    readers_of,
    verdicts_at,
)
from ..output import Output, note

UNREACHABLE: Final = "unreachable"
TABLE_COLUMNS: Final = (  # in JSON there are more
    "application",
    "application_id",
    "user",
    "host",
    "spark",
    "release",
    "state",
    "reason",
    "since_s",
    "control",
    "full_topics",
    "minimal_topics",
    "budget_bytes",
    "held_bytes",
    "staleness_s",
    "metastore_problem",
    "connection_problem",
    "refreshes",
    "stale_reads_avoided",
    "would_refresh",
    "writes",
)
JSON_COLUMNS: Final = (
    *TABLE_COLUMNS,
    *("planning", "memory_reads", "metastore_calls_saved", "writes_refused"),
    *("pid", "hubs", "sessions", "writes_reported", "errors", "last_error"),
)
KNOWN: Final = ("name", "driver", "registration", "statestored")


@command()
@click.argument("state", type=click.Choice(STATES), required=False)
@option(
    "app",
    metavar="PATTERN",
    help="Only applications whose name or id matches, such as 'etl-*'.",
    show_default="all",
)
@click.option("--all", "every", is_flag=True, help="Switch every driver.")
@click.option("--rules", is_flag=True, help="Show the rules that were ordered, the newest last.")
@statestores_option("all are used; an order goes through the first that answers")
@TIMEOUT
@OUTPUT
def drivers(
    *,
    state: str | None,
    app: str | None,
    every: bool,
    rules: bool,
    statestores: str,
    timeout_s: float,
    output: str,
) -> int:
    """Show attached Spark drivers, or switch them off, on, or to a dry run.

    off is plain Spark; dry_run only counts what would be refreshed. A rule takes effect within a
    second, also in drivers that attach later, and is kept until another rule replaces it. The
    newest rule that matches an application holds; 'on --all' ends all rules. A subscriber that does
    not answer is shown, because it may be a driver. The state is what the driver is, with the
    reason if it is not live, or does without something; control is what it is set to. A driver that
    has ended is listed for an hour, as gone.
    """
    addresses = parse_addresses(statestores, setting="statestores")
    if state is not None and every == (app is not None):
        raise UsageError(f"drivers {state}: either --app PATTERN, or --all for every driver")
    if state is not None or rules:
        given = () if state is None else (state, EVERY if app is None else app)
        if every:
            listed = each_once(at_each(addresses, drivers_of)[0])
            count = sum(one.get("state") != GONE for one in listed)
            note(f"drivers {state} --all: {count} are attached, and those that attach later")
        facts = ordered("drivers", given, statestores=statestores, timeout_s=timeout_s)
        _print_rules(facts, output)
        return DONE
    found, failures = at_each(addresses, lambda visit: (drivers_of(visit), verdicts_at(visit)))
    code = complain_of(failures)
    note_policy(OWN_ONLY)
    note_verdicts(dict(one for _, verdicts in found for one in verdicts.items()))
    records = [
        one
        for one in each_once(records for records, _ in found)
        if app is None or _matches(one, app)
    ]
    columns = (*JSON_COLUMNS, *KNOWN) if output == "json" else TABLE_COLUMNS
    Output(output).rows(columns, [[one.get(name) for name in columns] for one in records])
    return code


def _print_rules(facts: Inspected, output: str) -> None:
    if not facts.rows and output != "json":
        Output(output).document({}, text="no rules hold: every driver is on")
        return
    Output(output).rows(("applications", "state"), facts.rows)


def drivers_of(visit: Operator) -> list[Record]:
    """Return one record for each driver of a hub, also for one that is gone, or may be a driver."""
    readers, announced = readers_of(visit), _announced(visit)
    alive = [one["registration"] for one in readers if one["state"] != "LOST"]
    answers = visit.readers("driver", alive)
    records: list[Record] = []
    for reader in readers:
        answer = answers.get(reader["registration"])
        known: Record = {name: reader[name] for name in KNOWN if name in reader}
        said = announced.pop(reader["registration"], {})
        if isinstance(answer, Inspected):
            records.append(said | known | facts_of(answer))
        elif said.get("state") == GONE:
            records.append(said | known)
        elif answer is None:
            records.append(said | unreachable(reader, said) | known)
    return records + [one | {"statestored": str(visit.address)} for one in announced.values()]


def _announced(visit: Operator) -> dict[str, Record]:
    """Return by registration what drivers last said to a hub; nothing of one that keeps none."""
    try:
        found = visit.hub("drivers").records()
    except UsageError:  # it is of an older release
        return {}
    return {one["registration"]: one for one in found}


def unreachable(reader: Record, said: Record) -> Record:
    """Return the record of a reader that does not answer, from its name, as drivers are named.

    ``said``: what it last said of itself.
    """
    application_id, _, where = reader["name"].rpartition("@")
    lost = reader["state"] == "LOST"
    why = "its hub receives nothing from it" if lost else "it does not answer"
    named = {
        "application_id": application_id or reader["name"],
        "host": where.rpartition(":")[0] if application_id else None,
    }
    return {
        **({} if said else named),
        "state": UNREACHABLE,
        "reason": f"{why}, and was current {reader['lag_s']} s ago: it is stopped, or too busy",
    }


def each_once(found: Iterable[list[Record]]) -> list[Record]:
    """Return each driver once: where it answers, if it moved from one hub to another."""
    records: dict[str, Record] = {}
    for record in (one for records_of_hub in found for one in records_of_hub):
        driver = record.get("driver") or record["registration"]
        before = records.get(driver)
        if before is None or before["state"] in (UNREACHABLE, GONE):
            records[driver] = record
    return list(records.values())


def _matches(record: Record, pattern: str) -> bool:
    names = (record.get("application"), record.get("application_id"))
    return any(fnmatchcase(name, pattern) for name in names if name)
