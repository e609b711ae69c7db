"""Answers first reads of the router from this driver's own subscriber, through Hive's client.

    router ──a read of what it does not hold──▶ Hive's client ──Thrift──▶ server, in this process
                                                                             │
    router ◀──changes, after the subscriber answers with them── subscriber ◀─┘

The subscriber that answers is the one whose changes the router gets, so no answer is older than a
change that the router knows of.
"""

import secrets
from typing import Final

from ...client.subscriber import Subscriber
from ...endpoint.server import Server
from ...endpoint.service import Service
from .router import EndpointAddress, Router

TOKEN_BYTES: Final = 24  # of random, which the server's clients present in hexadecimal digits


class Endpoint:
    """An endpoint from ``start`` to ``end``, and the router that asks it; for one thread."""

    def __init__(self, subscriber: Subscriber, router: Router) -> None:
        self._subscriber = subscriber
        self._router = router
        self._server: Server | None = None
        self.problem = ""  # why nobody listens

    def start(self) -> None:
        """Listen, and let the router ask from now on; else note why that is not possible."""
        token = secrets.token_hex(TOKEN_BYTES)
        at_once = self._subscriber.contents(may_wait=False)
        service = Service(at_once, self._subscriber.contents(), token=token)
        try:
            server = Server(service)
            server.start()
        except OSError as error:  # this process has no more files, or this machine no port
            self.problem = f"this process cannot listen: {error}"
            return
        self._server, self.problem = server, ""
        self._router.endpoint(EndpointAddress(server.port, token))

    def look(self) -> None:
        """Listen again if nobody does: it was not possible, or the server has ended."""
        if self._server is None or not self._server.alive:
            self.start()

    def end(self) -> None:
        """Listen no more. The caller has ended the router, which asks nobody any more."""
        if self._server is not None:
            self._server.close()
