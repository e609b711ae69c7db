"""Endpoint: answers reads of the router that memory cannot answer, from this driver's subscriber.

    router ──a read of what it does not keep──▶ Hive's client ──Thrift──▶ server, in the agent
                                                                             │
    router ◀──changes, once the subscriber answers with them─── subscriber ◀─┘

The router gets its changes from the same subscriber, so that no answer is older than a change that
the router has received.
"""

import secrets
from typing import Final

from ...client.subscriber import Subscriber
from ...endpoint.server import Server
from ...endpoint.service import Service
from .router import EndpointAddress, Router

TOKEN_BYTES: Final = 24  # random; the server's clients present them in hexadecimal digits


class Endpoint:
    """The server that a router asks, from ``start`` to ``end``; for one thread."""

    def __init__(self, subscriber: Subscriber, router: Router) -> None:
        self._subscriber = subscriber
        self._router = router
        self._server: Server | None = None
        self.problem = ""  # why there is no server

    def start(self) -> None:
        """Start a server, and let the router ask it from now on; else note the ``problem``."""
        token = secrets.token_hex(TOKEN_BYTES)
        at_once = self._subscriber.contents(may_wait=False)
        service = Service(at_once, self._subscriber.contents(), token=token)
        try:
            server = Server(service)
            server.start()
        except OSError as error:  # this process may open no more files, or no port is free
            self.problem = f"this process cannot listen: {error}"
            return
        self._server, self.problem = server, ""
        self._router.endpoint(EndpointAddress(server.port, token))

    def look(self) -> None:
        """Start a server if there is none: the last start failed, or the server has ended."""
        if self._server is None or not self._server.alive:
            self.start()

    def end(self) -> None:
        """End the server. The caller has ended the router, so that nobody asks it any more."""
        if self._server is not None:
            self._server.close()
