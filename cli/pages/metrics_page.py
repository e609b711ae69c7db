"""/metrics for people: each number by what it is about, with an anchor: #events, #drivers.

Prometheus receives the same numbers at the same address as text.
"""

from collections.abc import Iterable
from html import escape
from typing import Final

from ...topics.histogram import HistogramFacts
from ..terminal.lists import in_ms
from .metrics import COUNTER, HISTOGRAMS, REFUSED, SECTIONS, Fact, Facts, Histograms
from .parts.document import link

IDS: Final = ("hub", "epoch", "start")  # numbers that are written without separators
ABOUT: Final = "about"  # the section of facts about the process and its peers that are no metrics
TIMES: Final = "times"  # the histograms


def metrics_html(daemon: str, facts: Facts, histograms: Histograms) -> str:
    """Return the body of the page: sections of numbers, and of times if there are histograms."""
    sections = {
        name: [(fact, _in_words(fact, facts[fact]), _meaning(row)) for fact, row in rows.items()]
        for name, rows in _known(daemon, facts).items()
    }
    if histograms:
        sections[TIMES] = [*_times(daemon, histograms)]
    leads = " · ".join(link(f"#{name}", name) for name in sections)
    return f"<p>{leads}</p>" + "".join(
        f'<h2 id="{name}">{name.capitalize()}</h2><table class="facts">{_rows(rows)}</table>'
        for name, rows in sections.items()
    )


def _known(daemon: str, facts: Facts) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the rows of each section that has facts; all other facts are in ABOUT."""
    sections = SECTIONS.get(daemon, {})
    found = {
        name: {fact: row for fact, row in rows.items() if fact in facts}
        for name, rows in sections.items()
    }
    listed = {fact for rows in found.values() for fact in rows}
    others = {fact: ("", "") for fact in facts if fact not in listed}
    refused = {fact: (COUNTER, "") for fact in others if fact.startswith(REFUSED)}
    found.setdefault("refused", {}).update(refused)
    found[ABOUT] = {fact: row for fact, row in others.items() if fact not in refused}
    return {name: rows for name, rows in found.items() if rows}


def _meaning(row: tuple[str, str]) -> str:
    kind, meaning = row
    return f"{meaning}, since the start" if kind == COUNTER and meaning else meaning


def _times(daemon: str, histograms: Histograms) -> Iterable[tuple[str, str, str]]:
    for name, by_label in histograms.items():
        _label, meaning = HISTOGRAMS[daemon][name]
        for value, found in sorted(by_label.items()):
            yield f"{name} {value}".rstrip(), _spread(found), meaning


def _spread(found: HistogramFacts) -> str:
    """Return the mean, and the bounds below which are half of the values, and 99 % of them."""
    if not found.count:
        return "–"
    mean = in_ms(1000 * found.total / found.count)
    half, most = (_bound(found, share) for share in (0.5, 0.99))
    return f"{found.count:,}: mean {mean}, half {half}, 99 % {most}"


def _bound(found: HistogramFacts, share: float) -> str:
    bounds = zip(found.bounds, found.counts, strict=False)
    bound = next((bound for bound, count in bounds if count >= share * found.count), None)
    return f"over {in_ms(1000 * found.bounds[-1])}" if bound is None else f"≤ {in_ms(1000 * bound)}"


def _rows(rows: Iterable[tuple[str, str, str]]) -> str:
    return "".join(
        f'<tr><th>{escape(name)}</th><td class="number">{escape(text)}</td>'
        f'<td class="meaning">{escape(meaning)}</td></tr>'
        for name, text, meaning in rows
    )


def _in_words(name: str, value: Fact) -> str:
    if value is None or value == "":
        return "–"
    return f"{value:,}" if type(value) is int and name not in IDS else str(value)
