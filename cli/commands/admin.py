"""The commands that give catalogd an order."""

import time
from collections.abc import Mapping
from typing import Any, Final, TypedDict

import click

from ...subscriber import Subscriber
from ...topics.errors import NoSuchObject, UsageError
from ..client.operator import catalog_at, facts_of, ordered
from ..options.flags import ORDER_OPTIONS, READER_OPTIONS, command, option, prints
from ..terminal.exit_codes import FAILED
from ..terminal.lists import amount
from ..terminal.output import Output, note

COUNT_BUDGET: Final = "16MB"  # for the names alone; no content is asked for
EVERYTHING: Final = click.option("--all", "everything", is_flag=True, help="Of every database.")


class SyncResult(TypedDict):
    """The result of a sync, and how long it took.

    ``exists``: whether the named object exists now; null: none was named.
    """

    synced: bool
    took_s: float
    exists: bool | None


class ModeResult(TypedDict):
    """The mode of catalogd. ``offers``: the levels that readers may choose, in words."""

    mode: str
    overrides: str
    offers: str
    topics_to_backfill: int


class OrderResult(TypedDict):
    """The result of an order: of how many tables, and how many failed and are tried again."""

    order: str
    object: str
    tables: int
    failed: int


@command()
@click.argument("name", metavar="[DATABASE[.TABLE]]", default="")
@READER_OPTIONS
@prints(lambda: {"": SyncResult})
def sync(name: str, output: str, timeout_s: float, **where: Any) -> None:
    """Wait until everything that the metastore has committed is visible to readers.

    With a name, it waits only for that table, or for that database and its tables. If the command
    times out, it says which process lags: the metastore, catalogd, statestored, or the reader.
    """
    with catalog_at(timeout_s=timeout_s, **where) as catalog:
        begun = time.monotonic()
        catalog.sync(timeout_s=timeout_s, scope=name)
        took_s = round(time.monotonic() - begun, 3)
        exists = _exists(catalog, name.lower()) if name else None
    of_name = f" of {name}" if name else ""
    missing = f"; there is no {name}" if exists is False else ""
    text = f"everything committed{of_name} is visible ({took_s} s){missing}"
    Output(output).sentence(SyncResult(synced=True, took_s=took_s, exists=exists), text=text)


def _exists(catalog: Subscriber, name: str) -> bool:
    """Return whether ``catalog`` has the table or database ``name``."""
    db, _, table = name.partition(".")
    try:
        names = catalog.tables(db)
    except NoSuchObject:
        return False
    return not table or table in names


@command()
@click.argument("name", required=False)
@option(
    "overrides",
    metavar="TEXT",
    help="Tables with another mode, such as 'tmp_*.*=minimal,other.*=full'; '' removes them.",
    show_default="unchanged",
)
@ORDER_OPTIONS
@prints(lambda: {"": ModeResult})
def mode(name: str | None, overrides: str | None, output: str, **where: Any) -> None:
    """Show the mode of catalogd, or change it to full, mixed or minimal.

    In mode full readers join topics with their content; in minimal they are notified of changes and
    pull; in mixed they choose. The tables of an override to minimal are never sent, only pulled.
    Readers keep the levels that they have joined.
    """
    if name is None and overrides is not None:
        name = str(facts_of(ordered("mode", (), **where))["mode"])
    arguments = [text for text in (name, overrides) if text is not None]
    facts = facts_of(ordered("mode", tuple(arguments), **where))
    Output(output).sentence(facts, text=mode_in_words(facts))


@command()
@click.argument("name", metavar="[DATABASE[.TABLE[/PARTITION]]]", required=False)
@EVERYTHING
@ORDER_OPTIONS
@prints(lambda: {"NAME": OrderResult})
def invalidate(name: str | None, output: str, *, everything: bool, **where: Any) -> int:
    """Discard the content that catalogd holds of a table or a database; with --all of everything.

    Readers are notified at once; the content is read again when it is pulled, or in the background.
    A single partition is read again at once, as by refresh: its table stays.
    """
    _check_extent("invalidate", name, everything=everything, **where)
    return _carry_out("invalidate", name, output, **where)


@command()
@click.argument("name", metavar="[DATABASE[.TABLE[/PARTITION]]]", required=False)
@click.option(
    "--data",
    is_flag=True,
    help="Only files have changed: notify readers, without a read from the metastore.",
)
@EVERYTHING
@ORDER_OPTIONS
@prints(lambda: {"NAME": OrderResult})
def refresh(name: str | None, output: str, *, data: bool, everything: bool, **where: Any) -> int:
    """Read a partition, a table, a database or, with --all, everything from the metastore again.

    The command ends when the result is published. For a database, or for everything, catalogd reads
    the names, and reads the content that it holds again.

    Use --data as a step of a scheduler after a write that is not reported: Spark drivers list the
    files again, for a database those of all its tables. Objects that catalogd does not have yet
    are read first.
    """
    if data and name is None:
        raise UsageError("refresh --data: name a database, a table or a partition")
    _check_extent("refresh", name, everything=everything, **where)
    return _carry_out("refresh", name, output, *(("data",) if data else ()), **where)


def _check_extent(order: str, name: str | None, *, everything: bool, **where: Any) -> None:
    """Check that the order names an object, or has --all; with --all print how much that is.

    Raises:
        UsageError: the order has neither, or both.
    """
    if everything and name is not None:
        raise UsageError(f"{order} {name} --all: name an object, or everything, not both")
    if not everything and not name:  # an unset variable of a script must not stand for everything
        raise UsageError(f"{order}: name an object, or add --all for everything")
    if everything:
        with catalog_at(budget=COUNT_BUDGET, **where) as catalog:
            counts = [len(catalog.tables(db)) for db in catalog.databases()]
        note(f"{order} --all: {sum(counts)} tables in {len(counts)} databases")


def _carry_out(order: str, name: str | None, output: str, *more: str, **where: Any) -> int:
    facts = facts_of(ordered(order, () if name is None else (name, *more), **where))
    text = done_in_words(order, name or "", tables=facts["tables"], failed=facts["failed"])
    Output(output).sentence(facts, text=text)
    return FAILED if facts["failed"] else 0


def mode_in_words(facts: Mapping[str, Any]) -> str:
    """Return the mode of catalogd, and what readers may choose, as sentences."""
    text = f"the mode is {facts['mode']}: readers may follow a topic at {facts['offers']}"
    if facts["overrides"]:
        text += f"; tables with another mode: {facts['overrides']}"
    if left := facts["topics_to_backfill"]:
        text += f"; the content of {amount(left, 'topic', 'topics')} is still to be sent"
    return text


def done_in_words(order: str, name: str, *, tables: int, failed: int) -> str:
    """Return what an order has done, as a sentence."""
    what = amount(tables, "table", "tables")
    of_name = f" of {name}" if name else ""
    done = "read again and published" if order == "refresh" else "discarded, and read when pulled"
    text = f"{order}{of_name}: {what} {done}"
    if failed:
        again = "is tried again: topicast status names it"
        if failed > 1:
            again = "are tried again: topicast status names them"
        text += f"; {failed} failed, and {again}"
    return text
