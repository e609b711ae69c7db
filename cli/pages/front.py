"""The front page: what matters now in a short table, the other pages, and every fact on request.

Its words and numbers are those of ``topicast status``.
"""

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final, NamedTuple

from ..lists import amount, size, span
from ..overview import STATESTORED, drivers_by_state, restart_of, seen_by
from .document import link
from .page import NEEDS_SECRET, Page

Fact = str | int | float | bool | None
Meanings = Mapping[str, tuple[str, str]]
"""By the fact's name: its kind, ``counter`` or ``gauge``, and what it means."""

COUNTER: Final = "counter"
IDS: Final = ("hub", "epoch", "start")  # long numbers of which nobody reads the thousands


class Line(NamedTuple):
    """A row of the short table: what it is about, the address of more (or empty), and what is."""

    name: str
    address: str
    text: str


def brief(kind: str, facts: Mapping[str, Any], *, is_guarded: bool = False) -> list[Line]:
    """Return what matters of a daemon of ``kind`` now; what it does not say is left out.

    ``is_guarded``: whether readers give a secret, so that lines may lead to what has names.
    """
    lines = _of_hub(facts) if kind == STATESTORED else _of_catalogd(facts, is_guarded=is_guarded)
    return [one for one in lines if one.text]


def front_html(
    kind: str,
    facts: Mapping[str, Fact],
    meanings: Meanings,
    *,
    pages: Mapping[str, Page],
    is_guarded: bool,
) -> str:
    """Return the body of the front page of a daemon of ``kind``.

    Args:
        kind: ``statestored`` or ``catalogd``.
        facts: Every fact that is one value.
        meanings: What they mean, where that is known.
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
        f'<table class="brief">{rows}</table><h2>Pages</h2><table class="brief">{lead}</table>'
        f"<details><summary>Every fact and counter</summary>{facts_html(facts, meanings)}</details>"
    )


def facts_html(facts: Mapping[str, Fact], meanings: Meanings) -> str:
    """Return every fact, and its meaning where that is known; counts stand apart."""
    counts = [name for name in facts if _is_count(name, meanings)]
    now = _rows((name for name in facts if name not in counts), facts, meanings)
    return (
        f'<h2>Now</h2><table class="facts">{now}</table><h2>Since it was started</h2>'
        f'<table class="facts">{_rows(counts, facts, meanings)}</table>'
    )


def _of_hub(facts: Mapping[str, Any]) -> Iterator[Line]:
    yield Line("sees", "/publisher", seen_by(STATESTORED, facts))
    yield Line("drivers", "/drivers", drivers_by_state([facts]))
    members = facts.get("members")
    if members is not None:
        yield Line("clients", "/subscribers", f"{members} connected")
    yield Line("topics", "/topics", _held(facts, "full_bytes"))
    yield Line("a restart now", "", restart_of(STATESTORED, facts))


def _of_catalogd(facts: Mapping[str, Any], *, is_guarded: bool) -> Iterator[Line]:
    yield Line("sees", "/hubs", seen_by("catalogd", facts))
    yield Line("metastore", "/events", ", ".join(_metastore(facts)))
    if is_guarded:
        yield Line("changes", "/history?since=10m", "who has changed what in the last 10 minutes")
    yield Line("topics", "/topics", _held(facts, "held_bytes"))
    yield Line("loading", "/loading", ", ".join(_loading(facts)))
    yield Line("a restart now", "", restart_of("catalogd", facts))


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
    if unreadable:
        yield f"{unreadable} cannot be read"


def _held(facts: Mapping[str, Any], held: str) -> str:
    if facts.get(held) is None:
        return ""
    entries = amount(facts["entries"], "entry", "entries")
    return f"{facts['num_topics']} topics, {entries}, {size(facts[held])}"


def _locked(page: Page, *, is_guarded: bool) -> str:
    """Return that a page is not shown here, and why, if so."""
    if is_guarded or not page.is_private:
        return ""
    return f' <span class="meaning">({escape(NEEDS_SECRET)})</span>'


def _is_count(name: str, meanings: Meanings) -> bool:
    return name.startswith("refused_") or meanings.get(name, ("", ""))[0] == COUNTER


def _rows(names: Iterable[str], facts: Mapping[str, Fact], meanings: Meanings) -> str:
    return "".join(
        f'<tr><th>{escape(name)}</th><td class="number">{escape(_in_words(name, facts[name]))}</td>'
        f'<td class="meaning">{escape(meanings.get(name, ("", ""))[1])}</td></tr>'
        for name in names
    )


def _in_words(name: str, value: Fact) -> str:
    if value is None or value == "":
        return "–"
    return f"{value:,}" if type(value) is int and name not in IDS else str(value)
