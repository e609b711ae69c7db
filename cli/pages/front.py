"""The page of a daemon for people: its verdict, what it holds, what it has done."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from typing import Final

from ...topics.verdict import Serving, Verdict

Fact = str | int | float | bool | None
Meanings = Mapping[str, tuple[str, str]]
"""By the fact's name: its kind, ``counter`` or ``gauge``, and what it means."""

COUNTER: Final = "counter"
CLASSES: Final = {Serving.SERVING: "well", Serving.DEGRADED: "warned", Serving.NOT_SERVING: "ill"}
IDS: Final = ("hub", "epoch", "start")  # long numbers of which nobody reads the thousands
STYLE: Final = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; max-width: 62rem }
h2 { font-size: 1.1rem; margin: 1.5rem 0 .3rem }
.verdict { padding: .5rem .8rem; border-left: .4rem solid; overflow-wrap: anywhere }
.well { border-color: #2a7d3f; background: #eaf5ec }
.warned { border-color: #b87700; background: #fdf3dd }
.ill { border-color: #b3261e; background: #fbe9e7 }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; border-bottom: 1px solid #eee;
font-weight: normal; vertical-align: top }
th { font-family: ui-monospace, monospace; width: 15rem }
td.number { width: 14rem; overflow-wrap: anywhere } td.meaning { color: #555 }"""
STYLE_HASH: Final = f"sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}"
"""By which a Content-Security-Policy lets a browser apply this style, and no other."""
PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>{style}</style></head>
<body><h1>{title}</h1>{verdict}
<h2>Now</h2><table>{now}</table>
<h2>Since it was started</h2><table>{counts}</table>
<p><a href="/?json">json</a> · <a href="/metrics">metrics</a> · <a href="/healthz">healthz</a></p>
</body></html>
"""


def front(title: str, facts: Mapping[str, Fact], meanings: Meanings, *, verdict: Verdict) -> str:
    """Return the page with the verdict, every fact, and its meaning where that is known."""
    counts = [name for name in facts if _is_count(name, meanings)]
    return PAGE.format(
        style=STYLE,
        title=escape(title),
        verdict=_verdict(verdict),
        now=_rows((name for name in facts if name not in counts), facts, meanings),
        counts=_rows(counts, facts, meanings),
    )


def _verdict(verdict: Verdict) -> str:
    states = (one.state for one in verdict.reasons) if verdict.reasons else (verdict.state,)
    return "".join(
        f'<p class="verdict {CLASSES[state]}">{escape(line)}</p>'
        for state, line in zip(states, verdict.lines, strict=True)
    )


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
