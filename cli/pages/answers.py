"""Answers: the content of each page, made from immutable facts, independent of the web server.

/          what matters now, and the other pages; ?json gives every fact as a document
/NAME      a table, for people or as ?json; ?refresh=5 loads it again each 5 s
/healthz   a line for each reason of the verdict; 200 while the daemon serves, also if it is
           degraded, because a restart does not help then; else 503
/metrics   a page that explains each number for a browser, with anchors such as #drivers; the text
           format for Prometheus
"""

import json
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from itertools import islice
from sqlite3 import Error as StoreFailed
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlencode

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from ... import __version__
from ...topics.errors import TopicastError, UsageError
from ...topics.verdict import Serving, Verdict
from ..terminal.lists import span
from .front import front_html
from .metrics import Facts, Histograms
from .metrics_page import metrics_html
from .parts.document import document, link
from .parts.grid import Query
from .parts.page import NEEDS_SECRET, Page

HEALTH: Final = "/healthz"
TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
REFRESH_S: Final = 5  # of the link that loads the page again
REFRESH_S_MAX: Final = 3600
PEERS_MAX: Final = 8  # daemons with a link on each page: a line; /hubs has all of them
PRIVATE: Final = (
    "this page shows names of the catalog or lines of the log, and anybody on this machine can "
    f"read the pages: it is shown {NEEDS_SECRET}; set --webserver_password_file or "
    "--webserver_token_file\n"
)
Answer = tuple[HTTPStatus, str, bytes]
"""Status, content type and body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The functions that return the content of the pages; any thread may call each.

    ``pages``: by the first part of their path. ``peers``: the front pages of other daemons, by
    their names. ``is_guarded``: whether readers have to give a secret.
    ``started``: when the process began, in seconds of the wall clock.
    """

    title: str
    facts: Callable[[], Facts]
    verdict: Callable[[], Verdict]
    metrics: CollectorRegistry
    histograms: Callable[[], Histograms] = dict
    pages: Mapping[str, Page] = field(default_factory=dict)
    peers: Callable[[], Mapping[str, str]] = dict
    is_guarded: bool = False
    started: float = field(default_factory=time.time)


async def answer(sources: Sources, target: str, *, accepts: str = "") -> Answer:
    """Return the answer to a request.

    Args:
        sources: The functions that return the content.
        target: A path, and after ``?`` its query, if there is one.
        accepts: The types of content that the reader accepts, as in the header ``Accept``.
    """
    path, _, text = target.partition("?")
    query = {name: found[0] for name, found in parse_qs(text, keep_blank_values=True).items()}
    name, _, rest = path.removeprefix("/").partition("/")
    match path:
        case "/":
            return _front(sources, query)
        case "/healthz":
            verdict = sources.verdict()
            return _status_of(verdict), TEXT, "".join(f"{x}\n" for x in verdict.lines).encode()
        case "/metrics" if "json" in query or HTML.partition(";")[0] in accepts:
            return _metrics(sources, query)
        case "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(sources.metrics)
        case _ if name in sources.pages:
            return await _page(sources, (name, unquote(rest)), query)
        case _:
            there_are = ", ".join(("/", *(f"/{one}" for one in sources.pages), "/healthz"))
            text = f"no page {path}: there are {there_are} and /metrics\n"
            return HTTPStatus.NOT_FOUND, TEXT, text.encode()


def answer_to_probe(sources: Sources) -> Answer:
    """Return the answer of /healthz to a stranger: the state of the verdict, without names."""
    verdict = sources.verdict()
    return _status_of(verdict), TEXT, f"{verdict.state}\n".encode()


def _status_of(verdict: Verdict) -> HTTPStatus:
    serves = verdict.state is not Serving.NOT_SERVING
    return HTTPStatus.OK if serves else HTTPStatus.SERVICE_UNAVAILABLE


def _front(sources: Sources, query: Query) -> Answer:
    facts, verdict = sources.facts(), sources.verdict()
    if "json" in query:
        serves = _status_of(verdict) is HTTPStatus.OK
        pages = [*sources.pages]  # each a document, too
        return _json({"serving": serves, **verdict.document, **facts, "pages": pages})
    body = front_html(
        sources.title,
        facts,
        pages=sources.pages,
        is_guarded=sources.is_guarded,
    )
    return _html(sources, "/", query, title=sources.title, body=body, verdict=verdict)


def _metrics(sources: Sources, query: Query) -> Answer:
    facts = sources.facts()
    if "json" in query:
        return _json(dict(facts))
    body = metrics_html(sources.title, facts, sources.histograms())
    title = f"{sources.title}: Metrics"
    return _html(sources, "/metrics", query, title=title, body=body, verdict=sources.verdict())


async def _page(sources: Sources, at: tuple[str, str], query: Query) -> Answer:
    """Return a page; ``at``: its name, and the rest of its path."""
    name, rest = at
    page = sources.pages[name]
    if page.is_private and not sources.is_guarded:
        return HTTPStatus.FORBIDDEN, TEXT, PRIVATE.encode()
    try:
        found = page.read(rest, query)
        grids = await found if isinstance(found, Awaitable) else found
    except UsageError as error:
        return HTTPStatus.NOT_FOUND, TEXT, f"{error}\n".encode()
    except (TopicastError, StoreFailed) as error:
        text = f"the page cannot be made now, try again: {error}\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, TEXT, text.encode()
    if "json" in query:
        return _json({title.lower() or name: grid.document() for title, grid in grids.items()})
    path = f"/{name}/{quote(rest)}" if rest else f"/{name}"
    body = "".join(
        (f"<h2>{escape(title)}</h2>" if title else "") + grid.html(path, query)
        for title, grid in grids.items()
    )
    title = f"{sources.title}: {page.title}"
    return _html(sources, path, query, title=title, body=body, verdict=sources.verdict())


def _json(found: Mapping[str, Any]) -> Answer:
    return HTTPStatus.OK, JSON, json.dumps(found, indent=2).encode()


def _html(
    sources: Sources, path: str, query: Query, *, title: str, body: str, verdict: Verdict
) -> Answer:
    pages = {"Overview": "/"} | {one.title: f"/{name}" for name, one in sources.pages.items()}
    nav = {one: "" if at == path and not query else at for one, at in pages.items()}
    refresh = query.get("refresh", "")
    is_fresh = refresh in map(str, range(1, REFRESH_S_MAX + 1))
    others = {name: value for name, value in query.items() if name != "refresh"}
    again = others if is_fresh else {**others, "refresh": str(REFRESH_S)}
    links = {
        "stop loading it again" if is_fresh else f"load it again each {REFRESH_S} s": again,
        "json": {**others, "json": ""},
    }
    now = time.time()
    who = " · ".join(
        (
            *(f"release {__version__}", socket.gethostname(), f"process {os.getpid()}"),
            *(f"up {span(now - sources.started)}", _utc(now)),
        )
    )
    head = f"<b>Topicast</b> <span>{escape(who)}</span>"
    foot = " · ".join(
        (
            *(link(f"{path}?{urlencode(of)}" if of else path, text) for text, of in links.items()),
            link("" if path == "/metrics" else "/metrics", "metrics"),
            link("/healthz", "healthz"),
        )
    )
    page = document(
        title,
        body,
        verdict=verdict,
        more={
            name: one.title
            for name, one in sources.pages.items()
            if sources.is_guarded or not one.is_private
        },
        head=head,
        nav=nav,
        peers=dict(islice(sources.peers().items(), PEERS_MAX)),
        foot=foot,
        refresh_s=int(refresh) if is_fresh else 0,
    )
    return HTTPStatus.OK, HTML, page.encode()


def _utc(now: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
