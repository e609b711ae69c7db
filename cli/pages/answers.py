"""Answers: the content of each page, made from immutable facts, independent of the web server.

/          one page for people; ?json gives the same as a document
/healthz   a line for each reason of the verdict; 200 while the daemon serves, also when it is
           degraded, because a restart mends none of that; else 503
/metrics   Prometheus
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from ...topics.verdict import Serving, Verdict
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
    """Where the pages' answers come from; each function may be called by any thread."""

    title: str
    facts: Callable[[], Facts]
    verdict: Callable[[], Verdict]
    meanings: Meanings
    metrics: CollectorRegistry


def answer(sources: Sources, target: str) -> Answer:
    """Return the answer to a request for ``target``: a path, and ``?`` with a query if it has."""
    path, _, query = target.partition("?")
    match path:
        case "/":
            return _front(sources, as_json="json" in parse_qs(query, keep_blank_values=True))
        case "/healthz":
            verdict = sources.verdict()
            return _status_of(verdict), TEXT, "".join(f"{x}\n" for x in verdict.lines).encode()
        case "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(sources.metrics)
        case _:
            text = f"no page {path}: there are /, /healthz and /metrics\n"
            return HTTPStatus.NOT_FOUND, TEXT, text.encode()


def answer_to_probe(sources: Sources) -> Answer:
    """Return the answer of /healthz to a stranger: the state of the verdict, and no names."""
    verdict = sources.verdict()
    return _status_of(verdict), TEXT, f"{verdict.state}\n".encode()


def _status_of(verdict: Verdict) -> HTTPStatus:
    serves = verdict.state is not Serving.NOT_SERVING
    return HTTPStatus.OK if serves else HTTPStatus.SERVICE_UNAVAILABLE


def _front(sources: Sources, *, as_json: bool) -> Answer:
    facts, verdict = sources.facts(), sources.verdict()
    if as_json:
        serves = _status_of(verdict) is HTTPStatus.OK
        document = {"serving": serves, **verdict.document, **facts}
        return HTTPStatus.OK, JSON, json.dumps(document, indent=2).encode()
    page = front(sources.title, facts, sources.meanings, verdict=verdict)
    return HTTPStatus.OK, HTML, page.encode()
