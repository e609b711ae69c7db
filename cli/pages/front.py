"""The front page: what matters now in a short table, and the other pages.

It has the words and numbers of ``topicast status``.
"""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final, NamedTuple

from ...topics.sizes import size
from ..records.overview import STATESTORED, drivers_by_state, restart_of, seen_by
from ..terminal.lists import amount, span
from .metrics import Facts
from .parts.document import link
from .parts.page import NEEDS_SECRET, Page

METRICS: Final = "What does each number count? Prometheus reads them at the same address."


class FrontRow(NamedTuple):
    """A row of the short table: its name, the address of a page with more (or empty), its text."""

    name: str
    address: str
    text: str


def brief(kind: str, facts: Mapping[str, Any], *, is_guarded: bool = False) -> list[FrontRow]:
    """Return the rows about a daemon of ``kind``; those without a fact are left out.

    ``is_guarded``: whether readers give a secret, so that rows may lead to pages with names.
    """
    lines = _of_hub(facts) if kind == STATESTORED else _of_catalogd(facts, is_guarded=is_guarded)
    return [one for one in lines if one.text]


def front_html(
    kind: str,
    facts: Facts,
    *,
    pages: Mapping[str, Page],
    is_guarded: bool,
) -> str:
    """Return the body of the front page of a daemon of ``kind``.

    Args:
        kind: ``statestored`` or ``catalogd``.
        facts: Every fact that is a single value.
        pages: The daemon's other pages, by the first part of their path.
        is_guarded: Whether readers give a secret, so that they see every page.
    """
    rows = "".join(
        f"<tr><th>{link(address, name)}</th><td>{escape(text)}</td></tr>"
        for name, address, text in brief(kind, facts, is_guarded=is_guarded)
    )
    lead = "".join(
        f"<tr><th>{link(f'/{name}', page.title)}</th><td>{escape(page.answers)}"
        f"{_locked(page, is_guarded=is_guarded)}</td></tr>"
        for name, page in pages.items()
    )
    return (
        f'<table class="brief">{rows}</table><h2>Pages</h2><table class="brief">{lead}'
        f"<tr><th>{link('/metrics', 'Metrics')}</th><td>{METRICS}</td></tr></table>"
    )


def _of_hub(facts: Mapping[str, Any]) -> Iterator[FrontRow]:
    yield FrontRow("sees", "/publisher", seen_by(STATESTORED, facts))
    yield FrontRow("drivers", "/drivers", drivers_by_state([facts]))
    members = facts.get("members")
    if members is not None:
        yield FrontRow("clients", "/subscribers", f"{members} connected")
    yield FrontRow("topics", "/topics", _held(facts, "full_bytes"))
    yield FrontRow("a restart now", "", restart_of(STATESTORED, facts))


def _of_catalogd(facts: Mapping[str, Any], *, is_guarded: bool) -> Iterator[FrontRow]:
    yield FrontRow("sees", "/hubs", seen_by("catalogd", facts))
    yield FrontRow("metastore", "/events", ", ".join(_metastore(facts)))
    if is_guarded:
        yield FrontRow(
            "changes", "/history?since=10m", "who has changed what in the last 10 minutes"
        )
    yield FrontRow("topics", "/topics", _held(facts, "held_bytes"))
    yield FrontRow("loading", "/loading", ", ".join(_loading(facts)))
    yield FrontRow("a restart now", "", restart_of("catalogd", facts))


def _metastore(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts.get("metastore"):
        yield str(facts["metastore"])
    silent_s = facts.get("metastore_silent_s")
    if silent_s is not None:
        yield f"answered {span(silent_s)} ago"
    if facts.get("newest_event"):
        yield f"event {facts['newest_event']}"


def _loading(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts.get("databases") is not None:
        yield amount(facts["databases"], "database", "databases")
    loads, unreadable = facts.get("tables_to_load"), facts.get("tables_unreadable")
    if loads is not None:
        yield f"{amount(loads, 'table waits', 'tables wait')} to be read" if loads else "all read"
    if facts.get("load_left_s") is not None:
        yield f"{span(facts['load_left_s'])} left"
    if unreadable:
        yield f"{unreadable} cannot be read"


def _held(facts: Mapping[str, Any], held: str) -> str:
    if facts.get(held) is None:
        return ""
    entries = amount(facts["entries"], "entry", "entries")
    return f"{facts['num_topics']} topics, {entries}, {size(facts[held])}"


def _locked(page: Page, *, is_guarded: bool) -> str:
    """Return the remark that a page is not shown here, and why; empty: it is shown."""
    if is_guarded or not page.is_private:
        return ""
    return f' <span class="meaning">({escape(NEEDS_SECRET)})</span>'
