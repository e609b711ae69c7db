"""Answers: the content of each page, made from immutable facts, independent of the web server.

/          one page for people; ?json gives the same as a document
/healthz   200 when the daemon serves (with a warning if there is one), else 503 with the reason;
           that no change can arrive any more is a reason, too
/metrics   Prometheus
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from .front import Fact, Meanings, front

HEALTH: Final = "/healthz"
TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
Facts = Mapping[str, Fact]
Answer = tuple[HTTPStatus, str, bytes]
"""Status, content type and body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the pages' answers come from; each function may be called by any thread.

    The fact ``problem`` is why the daemon does not serve, or the empty text when it does;
    ``warning``, if there is one, is what is wrong while it serves on.
    """

    title: str
    facts: Callable[[], Facts]
    meanings: Meanings
    metrics: CollectorRegistry


def answer(sources: Sources, target: str) -> Answer:
    """Return the answer to a request for ``target``: a path, and ``?`` with a query if it has."""
    path, _, query = target.partition("?")
    match path:
        case "/":
            return _front(sources, as_json="json" in parse_qs(query, keep_blank_values=True))
        case "/healthz":
            return _health(sources.facts())
        case "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(sources.metrics)
        case _:
            text = f"no page {path}: there are /, /healthz and /metrics\n"
            return HTTPStatus.NOT_FOUND, TEXT, text.encode()


def answer_to_probe(sources: Sources) -> Answer:
    """Return the answer of /healthz to a stranger: whether the daemon serves, and no names."""
    status, kind, _ = _health(sources.facts())
    return status, kind, b"ok\n" if status is HTTPStatus.OK else b"not serving\n"


def _health(facts: Facts) -> Answer:
    problem, warning = facts.get("problem"), facts.get("warning")
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    text = f"{problem or 'ok'}\n" + (f"warning: {warning}\n" if warning else "")
    return status, TEXT, text.encode()


def _front(sources: Sources, *, as_json: bool) -> Answer:
    facts = sources.facts()
    trouble = facts.get("problem")
    if as_json:
        document = {"serving": not trouble, **facts}
        return HTTPStatus.OK, JSON, json.dumps(document, indent=2).encode()
    page = front(sources.title, facts, sources.meanings)
    return HTTPStatus.OK, HTML, page.encode()
