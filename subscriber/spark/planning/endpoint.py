"""Keeps an endpoint beside the router: an agent, and what is known to be newer than its answers.

    agent starts ──its port──▶ sync ──▶ the router asks it ──changes were lost──▶ sync ──▶ …

The driver's own subscriber and the agent's receive each change at their own times. The router asks
the endpoint for an object only while the agent has said that it answers with each change which the
driver knows: an object of which the driver has heard first is ahead, until the agent passes it.
"""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ....topics.errors import TopicastError
from ...endpoint.settings import AgentSettings
from ...endpoint.supervisor import Address, Supervisor
from ...protocol.effects import Change
from ..guard import Guard
from .ahead import Ahead, names_of
from .router import Router, RouterChange, router_change

SYNC_S: Final = 10.0
RETRY_S: Final = 1.0  # after a sync that failed; and how long an object may be ahead without one
STOP_S: Final = 1.0


class Endpoint:
    """Runs an agent from ``start`` to ``end``, and lets the router ask it while it may."""

    def __init__(self, settings: AgentSettings, router: Router, *, guard: Guard) -> None:
        self._router = router
        self._guard = guard
        self._lock = threading.Lock()  # of what is ahead, here and in the router
        self._ahead = Ahead()
        self._syncing = threading.Condition()
        self._problem = ""  # of the last sync
        self._asked: Address | None = None  # what the router asks
        self._doubts = (
            0  # how often the router had to stop asking: a sync before that proves nothing
        )
        self._wanted = False  # whether a sync is due
        self._ended = False
        self._supervisor = Supervisor(
            settings, on_address=self._take_address, on_change=self._take_change
        )
        self._thread = threading.Thread(target=self._run, name="topicast-endpoint", daemon=True)

    def start(self) -> None:
        """Start the agent; return at once."""
        self._supervisor.start()
        self._thread.start()

    def end(self) -> None:
        """End the agent. The caller has ended the router, which asks nobody any more."""
        with self._syncing:
            self._ended = True
            self._syncing.notify_all()
        self._supervisor.stop()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    @property
    def problem(self) -> str:
        """Why there is no agent, or its endpoint is not asked; empty: nobody knows."""
        return self._supervisor.problem or self._problem

    def sync(self, timeout_s: float) -> None:
        """Return once it answers with all that the metastore had committed before; or is not asked.

        Raises:
            TopicastError: not within ``timeout_s``.
        """
        if self._supervisor.address is not None:
            self._supervisor.sync(timeout_s)

    def report_uses(self, uses: Mapping[str, Sequence[int]]) -> None:
        """Let the agent's planner count what Spark reads: of the table, and of its partitions."""
        with suppress(TopicastError):
            if uses:
                self._supervisor.report_uses({name: (of[0], of[1]) for name, of in uses.items()})

    def changed(self, changes: Iterable[Change]) -> None:
        """Tell the router what the driver's subscriber has seen change."""
        with self._lock:
            now = time.monotonic()
            self._router.changed(
                router_change(one, ahead=self._ahead.know(one, now=now)) for one in changes
            )

    def lost(self) -> None:
        """Note that the driver's subscriber has lost changes, so that anything may be ahead."""
        self._doubt()
        self._want()

    def look(self) -> None:
        """Sync if something has been ahead for long: the agent may never speak of it."""
        with self._lock:
            late = self._ahead.is_late(now=time.monotonic(), after_s=RETRY_S)
        if late:
            self._want()

    # In the supervisor's thread

    def _take_address(self, address: Address | None) -> None:
        with self._guard("ask the endpoint"):
            self._doubt()
        if address is not None:
            self._want()

    def _take_change(self, change: Mapping[str, Any] | None) -> None:
        with self._guard("take a change of the endpoint"):
            if change is None:
                self.lost()
                return
            key = str(change["object"]), names_of(change["kind"])
            with self._lock:
                found = RouterChange(object=key[0], names=key[1], files=bool(change["files"]))
                self._router.changed([found])
                self._pass(self._ahead.report(key, (change["epoch"], change["version"])))

    # In a thread of ours

    def _run(self) -> None:
        while True:
            with self._syncing:
                self._syncing.wait_for(lambda: self._wanted or self._ended)
                if self._ended:
                    return
                self._wanted = False
            with self._guard("sync the endpoint", unless=lambda: self._ended):
                self._sync_all()

    def _sync_all(self) -> None:
        """Ask the endpoint once it has passed all that the driver knows now."""
        address = self._supervisor.address
        if address is None:
            return  # the next one is synced
        with self._lock:
            began, doubts = self._ahead.begin_sync(), self._doubts
        try:
            self._supervisor.sync(SYNC_S)
        except TopicastError as error:
            self._problem = str(error)
            with self._syncing:
                self._syncing.wait_for(lambda: self._ended, RETRY_S)
            self._want()
            return
        self._problem = ""
        with self._lock:
            self._pass(self._ahead.end_sync(began, now=time.monotonic()))
            if doubts == self._doubts and self._asked != address:
                self._ask(address)

    def _doubt(self) -> None:
        """Let the router ask nobody before a sync that begins after this."""
        with self._lock:
            self._doubts += 1
            if self._asked is not None:
                self._ask(None)

    def _ask(self, address: Address | None) -> None:
        """Let the router ask ``address``; with the lock."""
        if not self._ended:
            self._asked = address
            self._router.endpoint(address, ahead=self._ahead.names)

    def _pass(self, objects: Iterable[str]) -> None:
        """Let the router ask for objects of which the endpoint knows all now; with the lock."""
        if objects:
            self._router.passed(objects)

    def _want(self) -> None:
        with self._syncing:
            self._wanted = True
            self._syncing.notify_all()
