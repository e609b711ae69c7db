"""How a page looks: the verdict first, then its body, and where others are. It has no script."""

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
STYLE: Final = """:root { color-scheme: light dark; --line: #ddd; --faint: #666; --link: #0b57d0;
--well: #eaf5ec; --warned: #fdf3dd; --ill: #fbe9e7 }
@media (prefers-color-scheme: dark) { :root { --line: #444; --faint: #aaa; --link: #8ab4f8;
--well: #17301c; --warned: #3a2c0c; --ill: #421b17 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1rem auto; padding: 0 1rem; max-width: 72rem }
h1 { font-size: 1.4rem; margin: .5rem 0 } h2 { font-size: 1.1rem; margin: 1.5rem 0 .3rem }
a { color: var(--link) } nav a { margin-right: .8rem } nav b { margin-right: .8rem }
.verdict { padding: .5rem .8rem; margin: .5rem 0; border-left: .4rem solid;
overflow-wrap: anywhere }
.well { border-color: #2a7d3f; background: var(--well) }
.warned { border-color: #b87700; background: var(--warned) }
.ill { border-color: #b3261e; background: var(--ill) }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; border-bottom: 1px solid var(--line);
font-weight: normal; vertical-align: top }
.grid th { color: var(--faint); white-space: nowrap }
.grid td { overflow-wrap: break-word; max-width: 36rem }
.right { text-align: right; white-space: nowrap }
.facts th { font-family: ui-monospace, monospace; width: 15rem; overflow-wrap: anywhere }
td.number { width: 14rem; overflow-wrap: anywhere } td.meaning { color: var(--faint) }
footer { color: var(--faint); margin: 1.5rem 0; overflow-wrap: anywhere }
@media (max-width: 40rem) { td.meaning { display: none } .facts th { width: auto } }"""
STYLE_HASH: Final = f"sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}"
"""By which a Content-Security-Policy lets a browser apply this style, and no other."""
DOCUMENT: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>{title}</title>
<meta name="viewport" content="width=device-width">{refresh}
<style>{style}</style></head>
<body><nav>{nav}</nav><h1>{title}</h1>{verdict}{body}
<footer>{foot}</footer></body></html>
"""


def document(
    title: str, body: str, *, verdict: Verdict, nav: Mapping[str, str], foot: str, refresh_s: int
) -> str:
    """Return a whole page.

    Args:
        title: What it is of.
        body: Its own part, which is HTML.
        verdict: Of the daemon, which stands above everything else.
        nav: Addresses of the daemon's pages, by their titles; this one's is empty.
        foot: What stands below, which is HTML.
        refresh_s: After which it is loaded again; 0: it is not.
    """
    return DOCUMENT.format(
        style=STYLE,
        title=escape(title),
        refresh=f'<meta http-equiv="refresh" content="{refresh_s}">' if refresh_s else "",
        nav=" ".join(_entry(name, address) for name, address in nav.items()),
        verdict=_verdict(verdict),
        body=body,
        foot=foot,
    )


def facts_html(facts: Mapping[str, Fact], meanings: Meanings) -> str:
    """Return every fact, and its meaning where that is known; counts stand apart."""
    counts = [name for name in facts if _is_count(name, meanings)]
    now = _rows((name for name in facts if name not in counts), facts, meanings)
    return (
        f'<h2>Now</h2><table class="facts">{now}</table><h2>Since it was started</h2>'
        f'<table class="facts">{_rows(counts, facts, meanings)}</table>'
    )


def _entry(name: str, address: str) -> str:
    return (
        f'<a href="{escape(address)}">{escape(name)}</a>' if address else f"<b>{escape(name)}</b>"
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
