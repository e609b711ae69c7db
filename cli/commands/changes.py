"""The commands that show what has changed, when, and by whom."""

import time
from collections.abc import Sequence
from typing import Final

import click

from ...topics.objects.names import parse_table_name, table_name
from ...topics.settings import parse_addresses
from ...topics.wire.messages.questions import ReadHistory, ReadRecent
from ..client.operator import Operator, announced_at, at_each, note_policy
from ..options.flags import TIMEOUT, Integer, command, prints, statestores_option
from ..records import changes
from ..terminal.lists import Heading, Record
from ..terminal.output import Output, note

LINES_MAX: Final = 4096  # of the log, in one answer of catalogd
SHOWN: Final = 200  # lines of a list, unless --limit says otherwise
SINCE: Final = click.option(
    "--since", metavar="TIME", help="How long ago at most, as 30s, 10m, 2h, 1d, or a time in UTC."
)


@command()
@click.argument("table")
@SINCE
@click.option("--count", type=Integer(min=1), help="Show at most so many changes.")
@statestores_option("the first that answers is used")
@TIMEOUT
@prints(lambda: {"TABLE": list[changes.TableChange]})
def history(
    table: str,
    *,
    since: str | None,
    count: int | None,
    statestores: str,
    timeout_s: float,
    output: str,
) -> None:
    """Show the changes of TABLE (database.table) and its partitions, the newest first.

    For each change: when, what differs before and after, and who caused it: an event of the
    metastore with its id, a driver, or an operator with the name of its key. The history reaches as
    far back as catalogd's --change_history_mb and --change_history_hours allow.
    """
    since_us = 0 if since is None else changes.since(since, now=time.time())
    db, name = parse_table_name(table)
    addresses = parse_addresses(statestores, setting="statestores")
    with Operator(addresses, timeout_s=timeout_s) as visit:
        rows = visit.catalog(ReadHistory(db=db, table=name, count=count or 0)).records()
        recent = ReadRecent(since_us=since_us, count=LINES_MAX, pattern=table_name(db, name))
        log = changes.records_of(visit.catalog(recent).records(), announced_at(visit).values())
    records = changes.joined([one for one in rows if one["time_us"] >= since_us], log)
    if not records:
        than = "since then" if since else "since the history begins"
        note(f"nothing is known of {table}: no change {than}")
    _print(records, Output(output), changes.HISTORY)


@command("list", short_help="Show changes and orders of all tables, the newest first.")
@SINCE
@click.option(
    "--by", metavar="NAME", help="Only changes by this application, driver id, user, key or origin."
)
@click.option(
    "--object",
    "pattern",
    metavar="PATTERN",
    default="",
    help="Only changes of objects that match, such as shop.orders or shop.*.",
)
@click.option(
    "--limit",
    type=Integer(1, LINES_MAX),
    default=SHOWN,
    show_default=True,
    help="Show at most so many.",
)
@statestores_option("all are used, for the names of drivers")
@TIMEOUT
@prints(lambda: {"": list[changes.HistoryRow]})
def events(
    *,
    since: str | None,
    by: str | None,
    pattern: str,
    limit: int,
    statestores: str,
    timeout_s: float,
    output: str,
) -> None:
    """Show the changes and orders of all databases and tables, the newest first.

    For each: when, which object, what change, and who caused it: an event of the metastore with
    its id, a driver with its application and user, or an operator with the name of its key. Without
    --since, as far back as the log reaches. PATTERN is a table with its partitions, a database with
    its tables, or a pattern of names.
    """
    since_us = 0 if since is None else changes.since(since, now=time.time())
    asked = LINES_MAX if by or pattern else limit

    addresses = parse_addresses(statestores, setting="statestores")
    known, _ = at_each(addresses, lambda visit: list(announced_at(visit).values()))
    with Operator(addresses, timeout_s=timeout_s) as visit:
        recent = ReadRecent(since_us=since_us, count=asked, pattern=pattern)
        lines = visit.catalog(recent).records()
    note_policy("changes of other databases are left out")
    drivers = [one for some in known for one in some]
    named = changes.about(changes.records_of(lines, drivers), pattern)
    found = (named if by is None else changes.by(named, by, drivers))[:limit]
    _print(found, Output(output), changes.LOG)
    if len(lines) == asked:
        note(f"the newest {len(found)} are shown: --limit or --since has others")


def _print(records: list[Record], printed: Output, columns: Sequence[Heading]) -> None:
    rows = records if printed.is_json else changes.shown(records)
    printed.rows(columns, rows, nothing="no change")
