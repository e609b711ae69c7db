"""The commands about the metastore's events: what they have changed, and how they are followed."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Final, TypedDict

import click

from ...topics.settings import parse_addresses
from ...topics.wire.messages.questions import ReadEventCosts, ReadEventLog, ReadEvents
from ..client.operator import Operator, facts_of, note_policy, ordered, shown_events
from ..options.flags import ORDER_OPTIONS, Integer, command, prints, settings
from ..records import changes
from ..records.event_words import in_words, state_of
from ..terminal.lists import Record, in_ms
from ..terminal.output import Output
from ..terminal.schemas import Fields, Iso
from .changes import events as list_

LIST: Final = "list"
COSTS: Final = "costliest tables"
LOOK_S: Final = 0.5  # between two looks for new events
LINE_MAX: Final = 80


class ByDefault(click.Group):
    """A group whose command LIST need not be named: its options may follow the group."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put LIST before arguments that do not begin with a command."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [LIST, *args]
        return super().parse_args(ctx, args)


class EventsState(TypedDict):
    """Whether events are followed, why, and since when.

    ``since_us``: microseconds since 1970; 0: since catalogd's start. ``passed_from``,
    ``passed_to``: the ids of the first and the last event that 'skip' has passed; 0: it was another
    order.
    """

    state: str
    because: str
    since_us: int
    passed_from: int
    passed_to: int


class TableCostRow(TypedDict):
    """The reads of a table from the metastore since catalogd's start, and the seconds they took."""

    table: str
    reads: int
    seconds: float


class ShownEvent(TypedDict):
    """An event as the metastore has it. ``changes``, ``outcome``: empty if they are not known."""

    id: int
    type: str
    object: str
    time: Iso | None
    format: str
    changes: str
    outcome: str
    took_s: float | None
    message: str


class LoggedEvent(TypedDict):
    """An event that was followed. ``number`` is larger for those that came later."""

    number: int
    id: int
    type: str
    object: str
    time: Iso | None
    outcome: str
    took_s: float | None
    changes: str


def _status_document() -> Fields:
    from ...catalog.event_status import types_of_facts

    return Fields(types_of_facts()).or_null().but(costliest_tables=list[TableCostRow])


@click.group("events", cls=ByDefault, context_settings=settings())
def events() -> None:
    """Show what events of the metastore have changed; pause them, go on, or skip one.

    Without a command it is 'list', whose options may follow at once: topicast events --since 10m.
    """


@command("status", short_help="Show how events are followed: state, lag, rates, what is slow.")
@ORDER_OPTIONS
@prints(lambda: {"": _status_document()})
def status(*, statestores: str, timeout_s: float, output: str) -> None:
    """Show whether catalogd follows events, how far it is, how fast, and what takes long.

    DISABLED: --hms_event_polling_interval_s is 0. PAUSED: by an operator. ERROR: for 10 s the
    metastore has not answered for events, or it records none. STOPPED: another metastore answers.
    In every state but a pause catalogd itself reads again what it has missed: no invalidation is
    needed.
    """
    addresses = parse_addresses(statestores, setting="statestores")
    with Operator(addresses, timeout_s=timeout_s) as visit:
        facts = facts_of(visit.catalog(ReadEvents()))
        costs = visit.catalog(ReadEventCosts()).records()
    note_policy("facts about other databases are left out")
    named = ", ".join(f"{one['table']} {one['seconds']:.1f} s" for one in costs if one["table"])
    Output(output).facts(
        {**facts, "costliest_tables": costs}, (in_words(facts) | {COSTS: named}).items()
    )


@command("pause")
@ORDER_OPTIONS
@prints(lambda: {"": EventsState})
def pause(output: str, **where: Any) -> None:
    """Follow no events until 'start', even if catalogd restarts.

    Changes that were read before are published. Readers are told that changes do not arrive, and
    who has paused events; syncs fail with that reason. 'refresh' reads single objects meanwhile.
    """
    _order(output, "pause", **where)


@command(
    "start",
    short_help="Follow events again: from the pause, an event, or the newest.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("event", metavar="[ID|-1]", type=Integer(min=-1), required=False)
@ORDER_OPTIONS
@prints(lambda: {"": EventsState})
def start(event: int | None, output: str, **where: Any) -> None:
    """Follow events again: from where they were paused, behind event ID, or from the newest (-1).

    Events that are read once more change nothing. If ID is above what was read, or with -1, the
    events between are left out, and everything is read again from the metastore. An ID above the
    metastore's newest is taken as its newest.
    """
    _order(output, "start", *([] if event is None else [str(event)]), **where)


@command("skip", short_help="Pass an event that catalogd cannot follow.")
@click.argument("event", metavar="ID", type=Integer(min=1))
@ORDER_OPTIONS
@prints(lambda: {"": EventsState})
def skip(event: int, output: str, **where: Any) -> None:
    """Pass the events up to ID that were not read, and read again what they may have changed.

    The command prints which events it has passed: as a rule ID alone, because earlier events were
    read already. catalogd itself passes an event that the metastore has failed to send for some
    time.
    """
    _order(output, "skip", str(event), **where)


@command("show", short_help="Show one event as the metastore has it, and its outcome.")
@click.argument("event", metavar="ID", type=Integer(min=1))
@ORDER_OPTIONS
@prints(lambda: {"ID": list[ShownEvent]})
def show(event: int, output: str, **where: Any) -> None:
    """Show one event as the metastore has it, and its outcome, if that is still known.

    Writers of Hive 2.3 that commit at once may give one id to several events: all are shown.
    """
    found = shown_events(event, **where).records()
    records = [with_time(one) for one in found]
    printed = Output(output)
    if printed.is_json:
        printed.document(records, text="")
        return
    for record in records:
        printed.facts(record, record.items())


@command("tail", short_help="Show events as they are published, until Ctrl-C.")
@click.option("--count", type=Integer(min=1), help="End after so many events.")
@ORDER_OPTIONS
@prints(lambda: {"": LoggedEvent})
def tail(count: int | None, *, statestores: str, timeout_s: float, output: str) -> None:
    """Show the last events, then each new one once it is published or left out, until Ctrl-C.

    A line has the time, the id, the type, the outcome, and the object of an event.
    """
    printed, addresses = Output(output), parse_addresses(statestores, setting="statestores")
    with Operator(addresses, timeout_s=timeout_s) as visit, suppress(KeyboardInterrupt):
        for one in islice(_logged(visit), count):
            printed.item(with_time(one), text=line_of(one))


def _logged(visit: Operator) -> Iterator[Record]:
    """Yield the last events, then each new event, without an end."""
    asked = ReadEventLog(newest=True)
    while True:
        for one in visit.catalog(asked).records():
            asked = ReadEventLog(after=one["number"])
            yield one
        asked = replace(asked, newest=False)
        time.sleep(LOOK_S)


def with_time(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its time as a text in UTC, null if it has none."""
    at_us = one["time_us"]
    return {
        ("time" if name == "time_us" else name): (
            (changes.utc(at_us) if at_us else None) if name == "time_us" else value
        )
        for name, value in one.items()
    }


def line_of(one: Mapping[str, Any]) -> str:
    """Return an event as a line of 80 characters at most."""
    at = changes.utc(one["time_us"])[11:19]
    took = "" if one["took_s"] is None else f" {in_ms(1000 * one['took_s'])}"
    line = f"{at} {one['id']:>8} {one['type']:<18.18} {one['outcome'] + took:<17} {one['object']}"
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX - 1]}…"


def _order(output: str, *words: str, **where: Any) -> None:
    facts = facts_of(ordered("events", words, **where))
    Output(output).sentence(facts, text=done_in_words(facts, words))


def done_in_words(facts: Mapping[str, Any], words: tuple[str, ...]) -> str:
    """Return the result of an order, as a sentence."""
    verb, *at = words
    of = f" {' '.join(at)}" if at else ""
    first, last = facts.get("passed_from", 0), facts.get("passed_to", 0)
    which = f"event {last} is" if first == last else f"events {first} to {last} are"
    passed = f"{which} passed, and everything is read again; " if last else ""
    return f"events {verb}{of}: {passed}the state is {state_of(facts)}"


for _one in (list_, status, pause, start, skip, show, tail):
    events.add_command(_one)
