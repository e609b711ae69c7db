"""A document: the HTML of a page: the daemon that answers, its verdict, and the page's body."""

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from typing import Final

from ....topics.verdict import Reason, Serving, Verdict

CLASSES: Final = {Serving.SERVING: "well", Serving.DEGRADED: "warned", Serving.NOT_SERVING: "ill"}
SEE: Final = {
    "no_catalogd": "publisher",
    "seeding": "topics",
    "two_catalogds": "publisher",
    "topics_behind": "topics",
    "catalogd_silent": "publisher",
    "drivers_problem": "drivers",
    "subscribers_lost": "subscribers",
    "subscribers_behind": "subscribers",
    "answers_differ": "metrics",
    "hub_away": "hubs",
    "metastore_names": "loading",
    "metastore_silent": "events",
    "metastore_events": "events",
    "events_off": "flags",
    "events_missing": "events",
    "events_paused": "events",
    "events_unproven": "events",
    "events_not_understood": "logs",
    "behind": "events",
    "comparison_stopped": "events",
    "store_full": "memory",
    "store_moved": "flags",
    "memory_short": "memory",
    "drivers_off": "history",
    "handshakes_failed": "logs",
    "loop_hangs": "threads",
}
"""By the code of a reason: the page that shows more about it."""
STYLE: Final = """:root { color-scheme: light dark; --line: #ddd; --faint: #666; --link: #0b57d0;
--bar: #f4f5f7; --well: #eaf5ec; --warned: #fdf3dd; --ill: #fbe9e7 }
@media (prefers-color-scheme: dark) { :root { --line: #3c4043; --faint: #a3a8ad; --link: #8ab4f8;
--bar: #202327; --well: #17301c; --warned: #3a2c0c; --ill: #421b17 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 0 1rem; max-width: 72rem;
overflow-wrap: break-word }
header { display: flex; flex-wrap: wrap; gap: 0 1rem; justify-content: space-between;
padding: .5rem .8rem; margin: 0 -.8rem; background: var(--bar); border-radius: 0 0 .5rem .5rem }
header span { color: var(--faint); overflow-wrap: anywhere }
h1 { font-size: 1.4rem; margin: .8rem 0 .5rem } h2 { font-size: 1.1rem; margin: 1.5rem 0 .3rem }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
nav { display: flex; flex-wrap: wrap; gap: .1rem 1rem; padding-top: .5rem }
.verdict { padding: .5rem .8rem; margin: .5rem 0; border-left: .4rem solid;
border-radius: .2rem; overflow-wrap: anywhere }
.mend { display: block; color: var(--faint) }
.well { border-color: #2a7d3f; background: var(--well) }
.warned { border-color: #b87700; background: var(--warned) }
.ill { border-color: #b3261e; background: var(--ill) }
.wide { overflow-x: auto }
.bars { width: 100%; height: 5rem; background: var(--bar); fill: var(--link) }
.axis { display: flex; justify-content: space-between; color: var(--faint); margin: 0 }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .25rem 1rem .25rem 0; border-bottom: 1px solid var(--line);
font-weight: normal; vertical-align: top }
th { color: var(--faint) }
.grid th { white-space: nowrap } .grid td { overflow-wrap: break-word; max-width: 36rem }
.grid td:only-child { overflow-wrap: anywhere; max-width: none }
.grid tr:hover td { background: var(--bar) }
.prose { min-width: 16rem }
.right { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.brief th { width: 11rem } .brief td { overflow-wrap: anywhere }
.facts th { font-family: ui-monospace, monospace; width: 18rem; overflow-wrap: anywhere }
summary { cursor: pointer; margin: 1.5rem 0 .3rem; color: var(--link) }
td.number { width: 14rem; overflow-wrap: anywhere } .meaning { color: var(--faint) }
footer { color: var(--faint); margin: 1.5rem 0; overflow-wrap: anywhere }
.time { min-width: 5.5rem }
@media (max-width: 40rem) { .grid td { overflow-wrap: anywhere }
.many tr:first-child { display: none }
.many tr { display: block; padding: .35rem 0; border-bottom: 1px solid var(--line) }
.many td { display: none; border: 0; padding: 0 .8rem 0 0; white-space: normal;
max-width: 100%; overflow-wrap: anywhere } .many td[data-head] { display: inline-block }
.many td:first-child, .many td.prose[data-head] { display: inline }
.many td::before { content: attr(data-head); color: var(--faint) }
.brief th { width: 6rem } .facts tr { display: flex; flex-wrap: wrap;
justify-content: space-between; border-bottom: 1px solid var(--line) }
.facts th, .facts td, .facts td.number { width: auto; border: 0; padding-right: 0 }
.facts td.meaning { width: 100%; padding-top: 0 } }"""
STYLE_HASH: Final = f"sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}"
"""With it a Content-Security-Policy lets a browser apply this style, and no other."""
DOCUMENT: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>{title}</title>
<meta name="viewport" content="width=device-width">{refresh}
<style>{style}</style></head>
<body><header>{head}</header><nav>{nav}</nav>{peers}<h1>{title}</h1>{verdict}{body}
<footer>{foot}</footer></body></html>
"""


def document(
    title: str,
    body: str,
    *,
    verdict: Verdict,
    more: Mapping[str, str],
    head: str,
    nav: Mapping[str, str],
    peers: Mapping[str, str],
    foot: str,
    refresh_s: int,
) -> str:
    """Return a whole page.

    Args:
        title: The title of the page.
        body: The page's own part, as HTML.
        verdict: The daemon's verdict, which is shown above the body.
        more: The titles of the daemon's pages, by the first part of their path.
        head: The daemon, its start and its time, as HTML.
        nav: Addresses of the daemon's pages, by their titles; this page's is empty.
        peers: Addresses of the front pages of other daemons, by their names.
        foot: The part below the body, as HTML.
        refresh_s: The page is loaded again after this time; 0: it is not.
    """
    return DOCUMENT.format(
        style=STYLE,
        title=escape(title),
        refresh=f'<meta http-equiv="refresh" content="{refresh_s}">' if refresh_s else "",
        head=head,
        nav=_links(nav),
        peers=f'<nav><span class="meaning">others</span> {_links(peers)}</nav>' if peers else "",
        verdict=_verdict(verdict, more),
        body=body,
        foot=foot,
    )


def link(address: str, text: str) -> str:
    """Return ``text`` as a link to ``address``; if that is empty, without a link."""
    return f'<a href="{escape(address)}">{escape(text)}</a>' if address else escape(text)


def _links(addresses: Mapping[str, str]) -> str:
    """Return links by their names; a name with an empty address is bold."""
    return " ".join(
        link(address, name) if address else f"<b>{escape(name)}</b>"
        for name, address in addresses.items()
    )


def _verdict(verdict: Verdict, more: Mapping[str, str]) -> str:
    if not verdict.reasons:
        return f'<p class="verdict {CLASSES[verdict.state]}">{escape(str(verdict.state))}</p>'
    return "".join(_reason(one, more) for one in verdict.reasons)


def _reason(reason: Reason, more: Mapping[str, str]) -> str:
    """Return the text of a reason; below it, what to do, and a link to the page that shows more."""
    page = SEE.get(reason.code, "")
    see = f" · {link(f'/{page}', f'see {more[page]}')}" if page in more else ""
    mend = f'<span class="mend">→ {escape(reason.mend)}{see}</span>' if reason.mend else ""
    what = escape(f"{reason.state}: {reason.what}")
    return f'<p class="verdict {CLASSES[reason.state]}">{what}{mend}</p>'
