"""The command that shows whether the daemons serve, and what a restart would mean."""

from contextlib import suppress
from typing import Any, Final

import click

from ...topics.errors import LinkError, NotReady, TopicastError
from ...topics.settings import Address, parse_addresses
from ...topics.topic import offered_names
from ...topics.verdict import Reason
from ...topics.wire.messages.questions import ReadHubs, ReadStatus
from ..client.operator import (
    Inspect,
    Operator,
    asking_catalogd,
    each_of,
    facts_of,
    note_policy,
    verdict_by,
)
from ..client.reaching import listener_problem, unknown_host
from ..options.flags import Documents, command, option, prints, statestores_option
from ..records.overview import STATES, DaemonAnswers, Installation, counters, document, lines
from ..terminal.exit_codes import DONE
from ..terminal.output import Output, complain
from ..terminal.schemas import Fields, fields_of
from ..terminal.screen import clear, draw_again

IN_VERDICT: Final = ("verdict", "problem", "warning")  # facts that repeat the verdict
WATCH_S: Final = 2.0  # between two looks: an operator reads for longer
CATALOGD_PORT: Final = 26000  # where catalogd takes requests unless set
COUNTED: Final = ("with_problem", "with_another_hub")  # drivers, beside those of each state


def _documents() -> Documents:
    from ...catalog.status import APART, COMPARISON_TIMES, CatalogStatus
    from ...statestore import status as hub
    from ...topics.wire.messages.answers import HubFacts

    about = {"address": str, "verdict": str, "reasons": [fields_of(Reason).but(state=str)]}
    drivers = dict.fromkeys((f"drivers_{one}" for one in (*STATES, *COUNTED)), int)
    totals = {"members": int, "reader_lag_s": float, **drivers, "entries": int, "full_bytes": int}
    of_hub = fields_of(hub.HubStatus).without(hub.APART).but(release=str, offers=str, **totals)
    of_hub = of_hub.but(**fields_of(hub.HubCounts).without(("refused",)).types).or_null()
    catalogd = fields_of(CatalogStatus).without(APART).but(release=str, metastore=str, offers=str)
    compared = dict.fromkeys(COMPARISON_TIMES, float)
    catalogd = catalogd.but(hubs=int, hubs_connected=int, **compared).or_null()
    away = {"process": str, "address": str, "problem": str}
    found = {
        "verdict": str,
        "statestoreds": [of_hub.but(**about).and_others(int | None)],  # refused_ and a code
        "catalogd": (Fields({}), catalogd.but(**about).and_others(int)),  # and each counter
        "connections": list[HubFacts],
        "not_reached": [Fields(away)],
    }
    return {"": Fields(found), "--watch": Fields(found)}


@command()
@click.option("--verbose", "-v", is_flag=True, help="Show every fact and counter, too.")
@click.option(
    "--watch", is_flag=True, help=f"Show it again every {WATCH_S:g} s, until q or Ctrl-C."
)
@statestores_option("all are used")
@option(
    "catalogd",
    metavar="ADDRESS",
    default="",
    show_default=f"port {CATALOGD_PORT} of the statestoreds' hosts",
    help="Address of catalogd, used only if no statestored answers, which would name it.",
)
@prints(_documents)
def status(*, verbose: bool, watch: bool, statestores: str, catalogd: str, output: str) -> int:
    """Show whether each statestored and catalogd serve, and what a restart would mean now.

    The exit code is 0 if all serve, 5 if a daemon is degraded or does not serve, and 3 if a
    daemon is not reached.
    """
    hubs = parse_addresses(statestores, setting="statestores")
    named = parse_addresses(catalogd, setting="catalogd") if catalogd else ()
    printed = Output(output)
    note_policy("counts that include other databases are left out")
    if not watch:
        return _show(installation_at(hubs, named), printed, verbose=verbose)

    def draw() -> None:
        installation = installation_at(hubs, named)
        if printed.is_terminal:
            clear()
        _show(installation, printed, verbose=verbose, stream=True)

    draw_again(draw, every_s=WATCH_S)
    return DONE


def _show(
    installation: Installation, printed: Output, *, verbose: bool, stream: bool = False
) -> int:
    text = [*lines(installation, width=printed.width), *(counters(installation) if verbose else ())]
    if stream:
        printed.item(document(installation), text="\n".join([*text, ""]))
        return DONE
    printed.document(document(installation), text="\n".join(text))
    if not printed.is_terminal:  # there, these are among the lines
        for one in installation.daemons:
            for problem in one.problems:
                complain(problem)
    return installation.exit_code


def installation_at(hubs: tuple[Address, ...], named: tuple[Address, ...] = ()) -> Installation:
    """Return the answers of all daemons; ``named``: where catalogd is, if no hub names it."""
    found = each_of(hubs, _look)
    answers = [one for one in found if isinstance(one, Installation)]
    stacks = [
        _unreached("statestored", address, one) if isinstance(one, LinkError) else one
        for address, one in zip(hubs, found, strict=True)
    ]
    first = next((one for one in answers if one.catalogd.facts), None)
    if first is None and not answers:
        first = _alone(named or tuple(_usual(hubs)))
    first = first or answers[0]
    return Installation(
        hubs=tuple(one.hubs[0] for one in stacks),
        catalogd=first.catalogd,
        connections=first.connections,
    )


def installation_again(before: Installation) -> Installation:
    """Return new answers of the daemons that answered ``before``, and the others as they were."""
    addresses = ",".join(one.address for one in before.hubs if one.facts)
    hubs = parse_addresses(addresses, setting="statestores")
    look = _look if before.catalogd.facts else _look_at_hub
    found = [one for one in each_of(hubs, look) if isinstance(one, Installation)]
    again = {hub.address: hub for one in found for hub in one.hubs}
    with_catalogd = next((one for one in found if one.catalogd.facts), before)
    return Installation(
        hubs=tuple(again.get(one.address, one) for one in before.hubs),
        catalogd=with_catalogd.catalogd,
        connections=with_catalogd.connections,
    )


def _look(visit: Operator) -> Installation:
    """Return a hub, with the catalogd that it names."""
    hubs = _look_at_hub(visit).hubs
    where = visit.welcome.catalog_address
    try:
        return _with_catalogd(hubs, where, visit.catalog)
    except LinkError as error:
        lost = DaemonAnswers(kind="catalogd", address=where, problems=(str(error),))
        return Installation(hubs=hubs, catalogd=lost)


def _look_at_hub(visit: Operator) -> Installation:
    address = str(visit.address)
    facts, verdict = _facts(visit.hub), verdict_by(visit.hub)
    problems: tuple[str, ...] = ()
    try:
        visit.reach_data()
    except LinkError as error:
        problems = (str(error),)
    hub = DaemonAnswers(
        kind="statestored", address=address, facts=facts, verdict=verdict, problems=problems
    )
    return Installation(hubs=(hub,), catalogd=DaemonAnswers(kind="catalogd", address=""))


def _with_catalogd(hubs: tuple[DaemonAnswers, ...], address: str, inspect: Inspect) -> Installation:
    facts, verdict = _facts(inspect), verdict_by(inspect)
    catalogd = DaemonAnswers(kind="catalogd", address=address, facts=facts, verdict=verdict)
    connections: tuple[dict[str, Any], ...] = ()
    with suppress(TopicastError):  # a key of some databases may not see them
        connections = tuple(inspect(ReadHubs()).records())
    return Installation(hubs=hubs, catalogd=catalogd, connections=connections)


def _unreached(kind: str, address: Address, error: LinkError) -> Installation:
    hub = DaemonAnswers(kind=kind, address=str(address), problems=(str(error),))
    return Installation(hubs=(hub,), catalogd=DaemonAnswers(kind="catalogd", address=""))


def _usual(hubs: tuple[Address, ...]) -> list[Address]:
    """Return where a catalogd would be on the hosts of the hubs, each once."""
    hosts = dict.fromkeys(str(hub).rpartition(":")[0] for hub in hubs)
    return [
        one
        for host in hosts
        for one in parse_addresses(f"{host}:{CATALOGD_PORT}", setting="catalogd")
    ]


def _alone(addresses: tuple[Address, ...]) -> Installation:
    """Return the first catalogd that answers at ``addresses``, or why none is known."""
    found = ["catalogd is not found: no statestored answers, which would name it"]
    for address in addresses:
        if why := unknown_host(address) or listener_problem(address):
            found.append(f"at {address}: {why.partition(';')[0]}")  # the rest is of a statestored
            continue
        try:
            with asking_catalogd(address) as inspect:
                return _with_catalogd((), str(address), inspect)
        except (LinkError, NotReady) as error:
            found.append(str(error))
    problem = "; ".join([*found, "give its address with --catalogd"])
    return Installation(
        hubs=(), catalogd=DaemonAnswers(kind="catalogd", address="", problems=(problem,))
    )


def _facts(inspect: Inspect) -> dict[str, Any]:
    """Return the facts of the daemon that ``inspect`` asks, without those of its verdict."""
    facts = facts_of(inspect(ReadStatus()))
    shown = {name: value for name, value in facts.items() if name not in IN_VERDICT}
    return shown | {"offers": offered_names(int(facts["offers"] or 0))}
