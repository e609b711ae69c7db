"""Worker: the one thread that refreshes: changes in, calls to Spark out.

    connect ──▶ every topic followed ──▶ drain ──▶ turn: each session: look, carry out ──▶ drain …
       ▲                                                                            │
       └────────────────── the subscriber has ended ────────────────────────────────┘

It never touches the user's threads. What fails is counted and tried again at the next change;
while there is no hub the driver is plain Spark.
"""

import logging
import threading
import time
from collections.abc import Callable
from math import inf
from typing import Any, Final, Protocol

from ....topics.entries import LEVELS, NONE
from ....topics.errors import NotReady, StaleMetadata, TopicastError
from ....topics.objects.rules import OFF
from ...client.subscriber import Subscriber
from ...engine.watch import Watch
from ..guard import Guard
from ..sessions import Sessions
from ..status import CONNECTING, DETACHED, LIVE
from .control import least
from .refresher import UNKNOWN_S, Existing, Order, Recache, Refresher

CONNECT_S: Final = 0.5  # that an application waits for the first contact
FOLLOW_S: Final = 20.0  # for every topic to be followed
FOLLOW_TURN_S: Final = 0.1
IDLE_S: Final = 0.1  # between two looks whether somebody wants something of us
TURN_S: Final = 0.01  # between two turns: 1,000 changes a second cost 100 looks
RETRY_S: Final = 1.0  # doubled up to
RETRY_S_MAX: Final = 30.0
STOP_S: Final = 5.0

log = logging.getLogger(__name__)


class Caches(Protocol):
    """What is done in Spark; sessions are PySpark's."""

    def id_of(self, session: Any) -> str | None:
        """Return the id of a session; None if it ended."""

    def cached(self, session: Any) -> frozenset[str]:
        """Return the tables that ``session`` has relations of."""

    def held(self, session: Any) -> frozenset[str]:
        """Return the tables of which DataFrames may hold relations that were forgotten."""

    def renew(self, session: Any, table: str, *, existing: Existing) -> None:
        """Forget the relation of ``table``."""

    def recache(self, session: Any, table: str, *, existing: Existing) -> None:
        """Forget it, and make cached data anew."""

    def keep(self, ids: set[str]) -> None:
        """Forget what was kept of every session but these."""


class Others(Protocol):
    """Sessions that Python has not made: those of clients of Spark Connect."""

    def poll(self, *, at_once: bool) -> bool:
        """Tell whether some came; look for them if it is time to, or ``at_once``."""

    def suspected(self, session: Any) -> None:
        """Take that a relation that ``session`` had is stale: whatever else holds it lets go."""

    def let_go(self) -> None:
        """Hold none any more."""


class Worker:
    """Runs ``refresher`` on the sessions; ``make`` gives a subscriber that is not open yet."""

    def __init__(
        self,
        refresher: Refresher,
        *,
        caches: Caches,
        sessions: Sessions,
        others: Others,
        guard: Guard,
        make: Callable[[], Subscriber],
        names: tuple[str, ...] = (),
    ) -> None:
        """Begin without a thread; operators know the application by ``names``."""
        self.state = CONNECTING
        self.control = refresher.control  # as the application says; operators may want less
        self.connected = threading.Event()
        self.subscriber: Subscriber | None = None
        self._refresher = refresher
        self._caches = caches
        self._sessions = sessions
        self._others = others
        self._guard = guard
        self._make = make
        self._names = names
        self._stopping = threading.Event()
        self._asked: list[threading.Event] = []
        self._turned_at = self._started_at = 0.0
        self._thread = threading.Thread(target=self._run, name="topicast-spark", daemon=True)

    @property
    def is_on(self) -> bool:
        """Whether this is more than plain Spark, for all that is known."""
        return OFF not in (self.control, self._refresher.control)

    def start(self) -> None:
        """Start the thread; return once there is contact, or after CONNECT_S without it."""
        self._started_at = time.monotonic()
        self._thread.start()
        self.connected.wait(CONNECT_S)

    def stop(self) -> None:
        """End the thread and the subscriber."""
        self._stopping.set()
        if self.subscriber is not None:
            self.subscriber.close()  # which ends its waiting for a hub that is not there
        if self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def caught_up(self, *, timeout_s: float) -> bool:
        """Wait until all that the subscriber has told so far is refreshed; False: not in time."""
        done = threading.Event()
        self._asked.append(done)
        return done.wait(timeout_s)

    def _run(self) -> None:
        retry_s = RETRY_S
        while not self._stopping.is_set():
            with self._guard("follow changes", unless=self._stopping.is_set):
                subscriber = self.subscriber = self._make()
                with subscriber:
                    watch = subscriber.watch("*")
                    self._await_topics(subscriber)  # from here on nothing changes unheard
                    retry_s = RETRY_S
                    self._serve(watch, subscriber)
            self._others.let_go()
            if self.state == LIVE and not self._stopping.is_set():
                log.warning("subscriber ended, driver is plain Spark: retry_s=%s", retry_s)
            self.state = CONNECTING
            self._stopping.wait(retry_s)
            retry_s = min(retry_s * 2, RETRY_S_MAX)
        self._caches.keep(set())
        self.state = DETACHED

    def _await_topics(self, subscriber: Subscriber) -> None:
        """Wait until each topic is followed and current; a level may be denied meanwhile."""
        give_up_at = time.monotonic() + FOLLOW_S
        while True:
            subscriber.sync(FOLLOW_S)
            left = sum(topic.level == LEVELS[NONE] for topic in subscriber.topics())
            if not left:
                return
            if time.monotonic() > give_up_at:
                why = "the budget is too small, or level minimal is not offered"
                raise NotReady(f"topics that are not followed: {left}; {why}")
            self._stopping.wait(FOLLOW_TURN_S)

    def _serve(self, watch: Watch, subscriber: Subscriber) -> None:
        """Refresh what was cached before, then what changes, until ``watch`` ends."""
        now = time.monotonic()
        self._obey(subscriber)
        self._refresher.lost(now=now, late=now > self._started_at + CONNECT_S)
        self._turn()
        self.state = LIVE
        self.connected.set()
        log.info("driver attached: sessions=%s", len(self._sessions.alive()))
        while not self._stopping.is_set() and not watch.closed:
            asked, self._asked = self._asked, []
            if not asked:
                self._rest(watch)
            self._drain(watch, wait_s=0.0 if asked else IDLE_S)
            self._obey(subscriber)
            came = self._others.poll(at_once=bool(asked))
            pause_s = self._refresher.pause_s()
            due = pause_s is not None and time.monotonic() >= self._turned_at + pause_s
            if asked or came or due:
                self._turn()
            for done in asked:
                done.set()

    def _obey(self, subscriber: Subscriber) -> None:
        """Be what the application says, or what operators want if that is less."""
        control = least(self.control, subscriber.driver.wanted(*self._names))
        if control != self._refresher.control:
            self._refresher.turn(control, now=time.monotonic())
            log.info("driver turned: control=%s", control)

    def _rest(self, watch: Watch) -> None:
        """Let changes of what is not cached gather: they wait for the next turn in any case."""
        left_s = self._turned_at + UNKNOWN_S - time.monotonic()
        if left_s > 0 and self._refresher.patient:
            watch.rest(left_s, unless=self._refresher.is_cached)

    def _drain(self, watch: Watch, *, wait_s: float) -> None:
        """Take what has changed; wait for it, but not for long."""
        self._stopping.wait(max(self._turned_at + TURN_S - time.monotonic(), 0.0))
        try:
            changes = watch.all_within(wait_s)
        except StaleMetadata:
            self._refresher.lost(now=time.monotonic(), late=True)
            return
        now = time.monotonic()
        for change in changes:
            self._refresher.changed(change, now=now)

    def _turn(self) -> None:
        """Look at each session, and do what is to be done there."""
        sessions: dict[str, Any] = {}
        for session in self._sessions.alive():
            with self._guard("look for sessions"):
                name = self._caches.id_of(session)
                if name is not None:
                    sessions.setdefault(name, session)
        self._refresher.begin(sessions, now=time.monotonic())
        self._caches.keep(set(sessions))
        for name, session in sessions.items():
            with self._guard("look at a session"):
                cached, held = self._caches.cached(session), self._caches.held(session)
                orders = self._refresher.look(name, cached, held)
                for order in orders:
                    self._carry_out(order, session)
                if self._refresher.suspects(name):
                    self._others.suspected(session)
        self._turned_at = time.monotonic()

    def _carry_out(self, order: Order, session: Any) -> None:
        done = False
        with self._guard(f"refresh {order.table}"):
            renew = self._caches.recache if isinstance(order, Recache) else self._caches.renew
            renew(session, order.table, existing=order.existing)
            done = True
        if done:
            self._refresher.done(order)
        else:
            self._refresher.failed(order)


def staleness_s(subscriber: Subscriber | None) -> float:
    """Tell how long ago catalogd was last heard of."""
    if subscriber is None:
        return inf
    try:
        return subscriber.stats().staleness_s
    except TopicastError:  # it is not open any more
        return inf
