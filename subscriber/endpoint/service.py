"""Service: answers each request of a connection; it has no socket and no thread.

    connected ──token──▶ admitted ──request──▶ reply | refusal | NotAtOnce: it may take long
        └──any other call but set_ugi──▶ closed

A client presents the token in its first call: as the user's name of ``set_ugi``, which Hive's
client sends when it connects, or as the value of ``setMetaConf`` for TOKEN_KEY.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from hmac import compare_digest
from threading import Lock
from typing import Final

from ...topics.errors import TopicastError
from ..client.contents import Contents, NotAtOnce
from .methods import METHODS
from .replies import INTERNAL_ERROR, UNKNOWN_METHOD, application_error, failure, result, texts_field
from .requests import Request

TOKEN_KEY: Final = "topicast.token"
GREET: Final = "set_ugi"
SET: Final = "setMetaConf"
LEAVE: Final = "shutdown"
ERROR_FIELD: Final = 1  # of the result of setMetaConf: its MetaException

# Kinds of counts:
ANSWERED: Final = "answered"  # requests, by method
REFUSED: Final = "refused"  # requests, by method
UNKNOWN: Final = "unknown"  # requests of methods that are not served, by method
WORK: Final = "work"  # by WAITED and SENT_BYTES
TURNED_AWAY: Final = "turned_away"  # connections, by reason
KINDS: Final = (ANSWERED, REFUSED, UNKNOWN, WORK, TURNED_AWAY)
WAITED: Final = "waited"  # requests that a puller has answered
SENT_BYTES: Final = "sent_bytes"

log = logging.getLogger(__name__)


class NotAdmitted(TopicastError):
    """The client has presented no token, or a wrong token."""


class Left(TopicastError):
    """The client has said that it closes the connection."""


class RequestCounts:
    """Counts of requests and connections, by kind and name. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counters: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}

    def add(self, kind: str, name: str, number: int = 1) -> None:
        """Count ``number`` more of ``name``."""
        with self._lock:
            self._counters[kind][name] += number

    def facts(self) -> dict[str, dict[str, int]]:
        """Return all counts so far, by kind and name."""
        with self._lock:
            return {kind: dict(counter) for kind, counter in self._counters.items()}


class Service:
    """Answers requests from a subscriber's contents."""

    def __init__(self, at_once: Contents, patient: Contents, *, token: str) -> None:
        """Admit no client yet.

        Args:
            at_once: Contents that raise NotAtOnce instead of waiting.
            patient: The same contents, for threads that may wait.
            token: The secret that clients present.
        """
        self._at_once = at_once
        self._patient = patient
        self._token = token.encode()
        self.counts = RequestCounts()

    def admit(self, request: Request) -> tuple[bool, Iterator[bytes]]:
        """Return whether ``request`` admits its client, and the reply.

        Raises:
            NotAdmitted: the request has no token, or a wrong one; the connection is to be closed.
            Left: the client leaves, so the connection is to be closed.
            WireError: an argument is missing.
        """
        if request.method == LEAVE:
            raise Left("the client has left")
        if request.method == GREET:
            user = request.arguments.text(1)
            return self._is_token(user), result(request, texts_field(0, ()))
        if request.method == SET and request.arguments.text(1) == TOKEN_KEY:
            if self._is_token(request.arguments.text(2)):
                return True, result(request, ())
            raise NotAdmitted("wrong token")
        raise NotAdmitted("no token")

    def answer(self, request: Request, *, may_wait: bool = False) -> Iterator[bytes]:
        """Return the reply to an admitted client: what it has requested, or a refusal.

        ``may_wait``: the thread may wait for catalogd.

        Raises:
            NotAtOnce: the answer may take long, and the thread may not wait.
            Left: the client leaves, so the connection is to be closed.
        """
        method = METHODS.get(request.method)
        if method is None:
            return self._others(request)
        try:
            contents = self._patient if may_wait else self._at_once
            reply = result(request, method.answer(contents, request.arguments))
        except NotAtOnce:
            raise
        except TopicastError as error:
            self.counts.add(REFUSED, request.method)
            return failure(request, method.error, f"{error} (topicast asks the metastore)")
        except Exception:  # a mistake of ours: the log has it, and the client asks the metastore
            log.exception("%s failed", request.method)
            self.counts.add(REFUSED, request.method)
            return application_error(request, INTERNAL_ERROR, "topicast failed: see its log")
        self.counts.add(ANSWERED, request.method)
        return reply

    def _others(self, request: Request) -> Iterator[bytes]:
        """Return the reply to a request that is no read."""
        if request.method in (GREET, LEAVE):
            return self.admit(request)[1]
        if request.method == SET:
            if request.arguments.text(1) == TOKEN_KEY:
                return self.admit(request)[1]
            return failure(request, ERROR_FIELD, "topicast answers reads only")
        self.counts.add(UNKNOWN, request.method)
        message = f"topicast has no method {request.method!r}: it answers reads only"
        return application_error(request, UNKNOWN_METHOD, message)

    def _is_token(self, text: str) -> bool:
        return compare_digest(text.encode(), self._token)
