"""Order: the commands that make catalogd do something."""

import getpass
import socket
import time
from typing import Any

import click

from ...topics.errors import UsageError
from ...topics.settings import parse_addresses
from ..flags import budget_option, option, settings, statestores_option, timeout_option
from ..operator import Facts, Operator
from ..output import EXIT_CODES, FAILED, Output, output_option
from .look import catalog_at


@click.command(context_settings=settings(), epilog=EXIT_CODES)
@statestores_option()
@budget_option()
@timeout_option()
@output_option()
def sync(output: str, timeout_s: float, **where: Any) -> None:
    """Wait until everything that the metastore had committed is visible to a reader here."""
    with catalog_at(timeout_s=timeout_s, **where) as catalog:
        begun = time.monotonic()
        catalog.sync(timeout_s=timeout_s)
        took_s = round(time.monotonic() - begun, 3)
    Output(output).document(
        {"synced": True, "took_s": took_s}, text=f"everything committed is visible ({took_s} s)"
    )


@click.command(context_settings=settings(), epilog=EXIT_CODES)
@click.argument("name", required=False)
@option(
    "overrides",
    metavar="TEXT",
    help="Tables that differ, such as 'tmp_*.*=minimal,other.*=full'; '' ends all of them.",
    show_default="as they are",
)
@statestores_option()
@timeout_option()
@output_option()
def mode(name: str | None, overrides: str | None, output: str, **where: Any) -> None:
    """Show catalogd's mode, or let another hold: full, mixed or minimal.

    Readers may join topics in full, at minimal (told of changes, and pull), or as they choose.
    The tables of an override to minimal are never sent, only pulled. Readers that have joined stay.
    """
    if name is None and overrides is not None:
        name = str(_as_facts(ordered("mode", (), **where))["mode"])
    arguments = [text for text in (name, overrides) if text is not None]
    facts = _as_facts(ordered("mode", tuple(arguments), **where))
    _print(facts, output)


@click.command(context_settings=settings(), epilog=EXIT_CODES)
@click.argument("name", metavar="[DATABASE[.TABLE[/PARTITION]]]", required=False)
@statestores_option()
@timeout_option()
@output_option()
def invalidate(name: str | None, output: str, **where: Any) -> int:
    """Let catalogd forget what it holds of a table, of a database, or of everything.

    Readers are told at once; the content is read again when it is asked for, or in the background.
    One partition is read again at once, as by refresh: its table stays.
    """
    return _obeyed("invalidate", name, output, **where)


@click.command(context_settings=settings(), epilog=EXIT_CODES)
@click.argument("name", metavar="[DATABASE[.TABLE[/PARTITION]]]", required=False)
@click.option(
    "--data",
    is_flag=True,
    help="Only files have changed: tell readers, and ask the metastore nothing.",
)
@statestores_option()
@timeout_option()
@output_option()
def refresh(name: str | None, output: str, *, data: bool, **where: Any) -> int:
    """Let catalogd read a partition, a table, a database or everything again from the metastore.

    It is answered when what was read is published. Of a database, or of everything, only what
    catalogd holds is read again, and the names.

    With --data it is a step of a scheduler behind a write that nobody tells of: Spark drivers
    list the files anew, of a database those of all its tables. What catalogd does not know yet
    is read first.
    """
    if data and name is None:
        raise UsageError("refresh --data: name a database, a table or a partition")
    return _obeyed("refresh", name, output, *(("data",) if data else ()), **where)


def ordered(order: str, arguments: tuple[str, ...], *, statestores: str, timeout_s: float) -> Facts:
    """Give catalogd an order in the name of whoever runs this; return its answer."""
    addresses = parse_addresses(statestores, setting="statestores")
    with Operator(addresses, timeout_s=timeout_s) as visit:
        return visit.order(order, arguments, who=f"{getpass.getuser()}@{socket.gethostname()}")


def _obeyed(order: str, name: str | None, output: str, *more: str, **where: Any) -> int:
    if name == "":  # a script's variable that is not set is not to mean everything
        raise UsageError(f"{order} '': name an object, or leave it out for everything")
    facts = _as_facts(ordered(order, () if name is None else (name, *more), **where))
    _print(facts, output)
    return FAILED if facts["failed"] else 0


def _as_facts(facts: Facts) -> dict[str, Any]:
    return {str(name): value for name, value in facts.rows}


def _print(facts: dict[str, Any], output: str) -> None:
    printed = Output(output)
    if output == "json":
        printed.document(facts, text="")
    else:
        printed.rows(("fact", "value"), facts.items())
