"""Notebook: how our objects look in a notebook: a verdict, then facts; as HTML, all of it escaped.

A notebook calls ``_repr_html_`` of what a cell returns. There is no style sheet, and no script: the
notebook's own looks, light or dark, are kept.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from .sizes import size

ROWS_MAX: Final = 200  # of a list: a table of 5,000 columns would stall the notebook
LEFT: Final = " style='text-align:left;vertical-align:top;overflow-wrap:anywhere'"  # of addresses
NAME: Final = " style='text-align:left;vertical-align:top;white-space:nowrap'"


def shown(
    verdict: str,
    facts: Iterable[tuple[str, object]],
    *,
    head: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
) -> str:
    """Return the verdict in bold, a line for each fact that is not empty, and a list below.

    Counts that are 0 share the last line. A column of the list that is empty in each line is left
    out.

    Args:
        verdict: What matters first, as a sentence.
        facts: Names, with ``_`` between their words, and values.
        head: The heads of the columns of the list.
        rows: Its lines; those beyond ROWS_MAX are counted only.
    """
    known = [(name, value) for name, value in facts if value not in ("", None)]
    zeros = [_named(name) for name, value in known if type(value) is int and value == 0]
    lines = [_with_unit(*one) for one in known if not (type(one[1]) is int and one[1] == 0)]
    lines += [("0", _text(", ".join(zeros)))] if zeros else []
    found = f"<div><p><b>{_text(verdict)}</b></p><table>"
    found += "".join(
        f"<tr><th{NAME}>{_text(_named(name))}</th><td{LEFT}>{text}</td></tr>"
        for name, text in lines
    )
    found += "</table>"
    if head:
        used = [at for at in range(len(head)) if any(row[at] not in ("", None) for row in rows)]
        found += f"<table><tr>{_cells([head[at] for at in used], 'th')}</tr>"
        found += "".join(
            f"<tr>{_cells([row[at] for at in used], 'td')}</tr>" for row in rows[:ROWS_MAX]
        )
        found += "</table>"
    if len(rows) > ROWS_MAX:
        found += f"<p>and {len(rows) - ROWS_MAX} more</p>"
    return f"{found}</div>"


def _named(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


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
