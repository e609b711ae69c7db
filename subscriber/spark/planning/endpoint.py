"""Answers first reads of the router from this driver's own subscriber, through Hive's client.

    router ──a read of what it does not hold──▶ Hive's client ──Thrift──▶ server, in this process
                                                                             │
    router ◀──changes, after the subscriber answers with them── subscriber ◀─┘

The same subscriber answers and tells of changes, so no answer is older than a change that the
router knows of.
"""

import secrets
from typing import Final

from ...client.subscriber import Subscriber
from ...endpoint.server import Server
from ...endpoint.service import Service
from .router import Address, Router

TOKEN_BYTES: Final = 24


class Endpoint:
    """An endpoint from ``start`` to ``end``, and the router that asks it; for one thread."""

    def __init__(self, subscriber: Subscriber, router: Router) -> None:
        self._subscriber = subscriber
        self._router = router
        self._server: Server | None = None

    def start(self) -> None:
        """Listen, and let the router ask from now on.

        Raises:
            OSError: this machine has no port for it.
        """
        token = secrets.token_hex(TOKEN_BYTES)
        at_once = self._subscriber.contents(may_wait=False)
        server = Server(Service(at_once, self._subscriber.contents(), token=token))
        server.start()
        self._server = server
        self._router.endpoint(Address(server.port, token))

    def look(self) -> None:
        """Listen again if the server has ended: a fault of ours, which its log has."""
        if self._server is not None and not self._server.alive:
            self.start()

    def end(self) -> None:
        """Listen no more. The caller has ended the router, which asks nobody any more."""
        if self._server is not None:
            self._server.close()
