"""Notebook: how our objects look in a notebook: a verdict, then facts; as HTML, all of it escaped.

A notebook calls ``_repr_html_`` of what a cell returns. There is no style sheet, and no script: the
notebook's own looks, light or dark, are kept.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from .sizes import size

ROWS_MAX: Final = 200  # of a list: a table of 5,000 columns would stall the notebook
LEFT: Final = " style='text-align:left;vertical-align:top'"


def shown(
    verdict: str,
    facts: Iterable[tuple[str, object]],
    *,
    head: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
) -> str:
    """Return the verdict in bold, a line for each fact that is not empty, and a list below.

    Args:
        verdict: What matters first, as a sentence.
        facts: Names, with ``_`` between their words, and values.
        head: The heads of the columns of the list.
        rows: Its lines; those beyond ROWS_MAX are counted only.
    """
    lines = "".join(
        f"<tr><th{LEFT}>{_text(name.replace('_', ' '))}</th><td{LEFT}>{text}</td></tr>"
        for name, text in (_with_unit(*one) for one in facts if one[1] not in ("", None))
    )
    found = f"<div><p><b>{_text(verdict)}</b></p><table>{lines}</table>"
    if head:
        found += f"<table><tr>{_cells(head, 'th')}</tr>"
        found += "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in rows[:ROWS_MAX])
        found += "</table>"
    if len(rows) > ROWS_MAX:
        found += f"<p>and {len(rows) - ROWS_MAX} more</p>"
    return f"{found}</div>"


def _with_unit(name: str, value: object) -> tuple[str, str]:
    """Return a fact without the unit in its name, and its value with it: ``held``, ``3.3 MB``."""
    if name.endswith("_bytes") and isinstance(value, int):
        return name.removesuffix("_bytes"), size(value)
    if name.endswith("_s"):
        return name.removesuffix("_s"), f"{_text(value)} s"
    return name, _text(value)


def _cells(row: Iterable[object], tag: str) -> str:
    return "".join(f"<{tag}{LEFT}>{_text(cell)}</{tag}>" for cell in row)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return escape(f"{value:,}" if isinstance(value, int) else str(value))
