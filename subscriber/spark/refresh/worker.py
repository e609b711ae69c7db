"""Worker: the one thread that refreshes: takes changes of the catalog, and calls Spark's caches.

    connect ──▶ all topics followed that fit ──▶ drain ──▶ turn: each session: look, carry out ──▶ …
       ▲                                                                            │
       └────────────────── the subscriber has ended ────────────────────────────────┘

The worker never uses threads of the application. It counts a failure, and tries again at the next
change. Until the subscriber has synced for the first time, the driver is plain Spark.

If the budget does not hold every topic, the subscriber first follows the topics of tables of which
Spark has relations. Tables of the other topics count as changed every UNSEEN_S, and the reason of
the driver's state says so.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Final, Protocol

from ....topics.errors import LinkError, NotReady, SourceError, StaleMetadata, TopicastError
from ....topics.liveness import LOST_S
from ....topics.objects.drivers import CONNECTING, DETACHED, LIVE, PLAIN
from ....topics.objects.rules import ON
from ...client.subscriber import Subscriber
from ...engine.watch import Watch
from ...protocol.effects import Change
from ...protocol.status import Unfollowed
from ..guard import Guard
from .catalyst import Catalyst
from .control import Control
from .path_relations import PathRelations
from .refresher import Invalidation, Refresher

CONNECT_S: Final = 0.5  # that ``start`` waits until the driver is live
SYNC_S: Final = 20.0  # for a try of the first sync; then the condition says for what it waits
FIRST_SYNC: Final = (
    "the driver waits until catalogd has published all that the metastore had committed, of every "
    "table, as Spark may have any of them cached"
)
FOLLOW_S: Final = 1.0  # without one more topic that is followed, until it serves without the others
FOLLOW_TURN_S: Final = 0.01  # between two looks how many are followed, doubled up to
FOLLOW_TURN_S_MAX: Final = 0.2
UNSEEN_S: Final = 5.0  # until tables of which no change arrives count as changed once more
PREFER_S: Final = 3600.0  # that the topic of a table comes first after Spark last had it cached
PREFERRED_MAX: Final = 10_000  # tables that come first; of more the latest, 2 MB
IDLE_S: Final = 1.0  # between two looks where nothing is due; changes and operators' rules wake it
TURN_S: Final = 0.01  # between two turns: 1,000 changes a second cost 100 looks
RELOADS_MAX: Final = 10_000  # names that Iceberg's catalogs are to load again; beyond, all are
RETRY_S: Final = 1.0  # until another subscriber is made after one has ended, doubled up to
RETRY_S_MAX: Final = 30.0
STOP_S: Final = 5.0  # for the thread to end
STOP_TURN_S: Final = 0.2  # between two tries to close its subscriber meanwhile
REASON_MAX: Final = 500  # characters of a reason that is shown
ENDED: Final = "the subscriber has ended, and another is started"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The worker's times of waiting: the constants of the same names."""

    connect_s: float = CONNECT_S
    sync_s: float = SYNC_S
    follow_s: float = FOLLOW_S
    unseen_s: float = UNSEEN_S
    retry_s: float = RETRY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of a driver's servers, as far as the driver knows.

    ``connected``: a hub has registered the driver, and is not silent. ``silent_s``: seconds since
    the last heartbeat from catalogd, infinite if there was none. ``metastore_problem`` and
    ``connection_problem``: as in AttachStatus.
    """

    connected: bool = False
    silent_s: float = inf
    metastore_problem: str = ""
    connection_problem: str = ""


class ClientSessions(Protocol):
    """Sessions of clients of Spark Connect: ``agent/connect.py`` implements it."""

    @property
    def pause_s(self) -> float:
        """Seconds until ``poll`` looks at the server again; 0.0: it would now."""

    def poll(self, *, at_once: bool) -> None:
        """Look for sessions that have come or gone, if that is due, or ``at_once``."""

    def discard_plans(self, session: str) -> None:
        """Discard the plans that the server has cached for ``session``, which hold relations."""

    def release(self) -> None:
        """Release all caches of plans."""


class MemoryPlanning(Protocol):
    """Lets Spark plan from memory: ``planning/planning.py`` implements it."""

    def switch(self, *, on: bool) -> None:
        """Plan from memory once a subscriber follows every topic, or put the originals back."""

    def follow(self, subscriber: Subscriber | None) -> None:
        """Begin with ``subscriber``, which follows every topic; None: put the originals back."""


class Worker:
    """Runs a refresher on the sessions, with one subscriber after another."""

    def __init__(
        self,
        refresher: Refresher,
        *,
        caches: Catalyst,
        paths: PathRelations,
        clients: ClientSessions,
        guard: Guard,
        control: Control,
        planning: MemoryPlanning,
        connect: Callable[[], Subscriber],
        names: tuple[str, ...] = (),
        times: Times = Times(),
    ) -> None:
        """Start no thread; ``start`` does.

        Args:
            refresher: Decides what is renewed; only this worker's thread uses it.
            caches: Spark's caches of relations.
            paths: Relations over paths, which no name of a table finds.
            clients: Sessions of clients of Spark Connect.
            guard: Logs and counts failures.
            control: What the application and the operators want.
            planning: Lets Spark plan from memory.
            connect: Returns a subscriber that is not open yet.
            names: The names by which operators' rules may name the application.
            times: How long the worker waits.
        """
        self._condition = CONNECTING, ""  # the state, and the reason for it: swapped together
        self._was_live = False  # whether the driver was live with the present subscriber
        self.connected = threading.Event()  # set once the driver has been live
        self.subscriber: Subscriber | None = None  # the present subscriber, or the last
        self._refresher = refresher
        self._caches = caches
        self._paths = paths
        self._clients = clients
        self._guard = guard
        self._control = control
        self._planning = planning
        self._connect = connect
        self._names = names
        self._times = times
        self._stopping = threading.Event()
        self._watch: Watch | None = None  # on which the thread waits, once it serves
        self._callers: list[threading.Event] = []  # of ``caught_up``; a turn sets each
        self._unfollowed: frozenset[int] = frozenset()  # topics whose changes do not arrive
        self._unseen_at = 0.0  # monotonic: when their tables count as changed once more
        self._preferred: dict[str, float] = {}  # by table: when Spark was last seen to cache it
        self._reloads: set[str] = set()  # names that Iceberg's catalogs load again at the next turn
        self._turned_at = self._started_at = 0.0  # monotonic
        self._thread = threading.Thread(target=self._run, name="topicast-spark", daemon=True)

    @property
    def condition(self) -> tuple[str, str]:
        """The state of the driver: connecting, live, plain or detached; and the reason for it.

        The reason is empty if there is nothing to explain. Any thread may read it.
        """
        return (DETACHED, "") if self._stopping.is_set() else self._condition

    @property
    def state(self) -> str:
        """The first part of ``condition``."""
        return self.condition[0]

    def start(self) -> None:
        """Start the thread; return once the driver is live, or after ``connect_s``."""
        self._started_at = time.monotonic()
        self._thread.start()
        self.connected.wait(self._times.connect_s)

    def stop(self) -> None:
        """End the thread and the subscriber."""
        self._stopping.set()
        deadline = time.monotonic() + STOP_S
        while True:
            if self.subscriber is not None:
                self.subscriber.close()  # so that a call which waits for its hub ends
            if self._thread is threading.current_thread():
                return
            self._thread.join(STOP_TURN_S)  # the thread may be about to open another subscriber
            if not self._thread.is_alive() or time.monotonic() > deadline:
                return

    def caught_up(self, *, timeout_s: float) -> bool:
        """Wait until all changes received so far are refreshed; False: it took longer.

        For any thread.
        """
        done, until = threading.Event(), time.monotonic() + timeout_s
        self._callers.append(done)
        self.wake()
        is_done = done.wait(timeout_s) and self._paths.settle(until - time.monotonic())
        return is_done and self._caches.settle(max(until - time.monotonic(), 0.0))

    def wake(self) -> None:
        """Have the thread look at once what the application wants. For any thread."""
        watch = self._watch
        if watch is not None:
            watch.wake()

    def unfinished(self) -> tuple[str, ...]:
        """Return the tables that a refresh still works on; ``*`` stands for every table."""
        return self._caches.unfinished()

    def _run(self) -> None:
        """Follow changes with one subscriber after another, until the driver is detached."""
        retry_s = self._times.retry_s
        while not self._stopping.is_set():
            with self._guard("follow changes", unless=self._stopping.is_set):
                self._follow()
            self._planning.follow(None)
            with self._guard("let sessions be", unless=self._stopping.is_set):
                self._caches.renew_late(renew=False)
            self._clients.release()
            if self._was_live:
                self._was_live, retry_s = False, self._times.retry_s
                if not self._stopping.is_set():
                    log.warning("subscriber ended, driver is plain Spark: retry_s=%s", retry_s)
            self._stopping.wait(retry_s)
            retry_s = min(retry_s * 2, RETRY_S_MAX)
        self._caches.discard()

    def _follow(self) -> None:
        """Follow changes with a new subscriber until it ends; the condition says why it has."""
        subscriber = self.subscriber = self._connect()
        try:
            subscriber.open()
            watch = subscriber.watch("*", wait=False)
            self._await_topics(subscriber)  # after this the watch receives every change
            self._serve(watch, subscriber)
            self._become(CONNECTING, ENDED)
        except Exception as error:
            state = CONNECTING if isinstance(error, LinkError) else PLAIN
            self._become(state, str(error)[:REASON_MAX])
            raise
        finally:
            subscriber.close()

    def _become(self, state: str, reason: str = "") -> None:
        if (state, reason) != self._condition:
            self._condition = state, reason
            self._was_live = self._was_live or state == LIVE
            log.debug("driver's state changed: state=%s reason=%s", state, reason)

    def _await_topics(self, subscriber: Subscriber) -> None:
        """Sync, and wait until each topic is followed, or no more of them come.

        The sync is of every table, because Spark may have cached any of them, as of an unknown
        time. After a gap in the metastore's events it may take hours; each try goes on from what
        the subscriber holds by then. If no change of the metastore can arrive, the driver goes on:
        reports of other drivers still arrive.
        """
        if not self._condition[1]:  # else the reason says why the last subscriber has ended
            self._become(CONNECTING, FIRST_SYNC)
        pause_s, left, at = FOLLOW_TURN_S, -1, 0.0
        while not self._stopping.is_set():
            try:
                subscriber.sync(self._times.sync_s)
            except NotReady as error:
                self._become(CONNECTING, str(error)[:REASON_MAX])
                continue
            except SourceError:
                pass  # ``metastore_problem`` of the status says it
            unfollowed, now = len(subscriber.unfollowed().topics), time.monotonic()
            if unfollowed != left:
                left, at = unfollowed, now
            if not left or now >= at + self._times.follow_s:
                return
            self._stopping.wait(pause_s)
            pause_s = min(pause_s * 2, FOLLOW_TURN_S_MAX)

    def _serve(self, watch: Watch, subscriber: Subscriber) -> None:
        """Renew all relations, then those of tables that change, until ``watch`` ends."""
        now, self._watch = time.monotonic(), watch
        self._apply_control(subscriber)
        late = now > self._started_at + self._times.connect_s
        self._caches.renew_late(renew=self._control.state == ON)
        self._refresher.renew_all(now=now, late=late)
        self._renew_others(None, subscriber)
        self._turn()
        self._unfollowed, self._unseen_at = frozenset(), 0.0
        self._planning.switch(on=self._control.state == ON)
        self._planning.follow(subscriber)
        self._become(LIVE)
        self._look_at_topics(subscriber)
        self.connected.set()
        log.info("driver attached: sessions=%s", self._refresher.sessions)
        while not self._stopping.is_set() and not watch.closed:
            callers, self._callers = self._callers, []
            if not callers:
                self._rest(watch)
            self._drain(watch, subscriber, wait_s=0.0 if callers else self._idle_s())
            self._apply_control(subscriber)
            self._clients.poll(at_once=bool(callers))
            self._look_at_topics(subscriber, at_once=bool(callers))
            if callers or self._due_s() <= 0.0:
                self._turn()
            for done in callers:
                done.set()

    def _apply_control(self, subscriber: Subscriber) -> None:
        """Switch the refresher to what the application and the operators want."""
        self._control.operators = subscriber.driver.wanted(*self._names)
        state = self._control.state
        if state != self._refresher.control:
            self._planning.switch(on=state == ON)
            self._refresher.switch(state, now=time.monotonic())
            self._caches.renew_late(renew=state == ON)
            self._renew_others(None, subscriber)
            log.info("driver switched: control=%s", state)

    def _look_at_topics(self, subscriber: Subscriber, *, at_once: bool = False) -> None:
        """Let tables whose changes do not arrive count as changed, if that is due, or ``at_once``.

        The subscriber's topics, and the reason of the driver's state, are brought up to date.
        """
        unfollowed, before = subscriber.unfollowed(), self._unfollowed
        if not (unfollowed or before):
            return
        now = time.monotonic()
        if not (at_once or unfollowed.topics != before or now >= self._unseen_at):
            return
        self._unfollowed, self._unseen_at = unfollowed.topics, now + self._times.unseen_s
        reason = subscriber.shortage().reason
        if reason:
            reason += f"; relations of their tables are renewed every {self._times.unseen_s:g} s"
        if unfollowed and not before:
            log.warning("changes of some tables do not arrive: reason=%s", reason)
        elif not unfollowed:
            log.info("changes of all tables arrive: topics=%s", unfollowed.num_topics)
        self._become(LIVE, reason)
        self._prefer(subscriber, unfollowed, now=now)
        self._refresher.followed(sorted(before - unfollowed.topics), now=now)
        missing = sorted(unfollowed.topics)
        self._refresher.changed_unseen(missing, topic_of=unfollowed.topic_of, now=now)
        self._renew_others(None, subscriber)

    def _prefer(self, subscriber: Subscriber, unfollowed: Unfollowed, *, now: float) -> None:
        """Have the subscriber follow the topics of tables first that Spark has cached lately."""
        tables = self._refresher.tables
        self._preferred = {
            table: at
            for table, at in self._preferred.items()
            if table not in tables and now < at + PREFER_S
        }
        self._preferred.update(dict.fromkeys(sorted(tables), now))
        surplus = max(len(self._preferred) - PREFERRED_MAX, 0)
        for table in [*islice(self._preferred, surplus)]:
            del self._preferred[table]
        subscriber.prefer({unfollowed.topic_of(table) for table in self._preferred})

    def _due_s(self) -> float:
        """Return in how many seconds the next turn is due without another change."""
        pause_s = self._refresher.pause_s()
        return inf if pause_s is None else self._turned_at + pause_s - time.monotonic()

    def _idle_s(self) -> float:
        return max(min(IDLE_S, self._due_s(), self._clients.pause_s), 0.0)

    def _rest(self, watch: Watch) -> None:
        """Let changes of tables gather that no session has cached, until the next turn is due."""
        pause_s = self._refresher.pause_s() if self._refresher.can_wait else None
        left_s = self._turned_at + (pause_s or 0.0) - time.monotonic()
        if left_s > 0:
            is_cached = self._refresher.is_cached
            watch.rest(left_s, unless=lambda change: is_cached(change.object))

    def _drain(self, watch: Watch, subscriber: Subscriber, *, wait_s: float) -> None:
        """Take the changes that have come; wait for the first, at most ``wait_s``."""
        self._stopping.wait(max(self._turned_at + TURN_S - time.monotonic(), 0.0))
        try:
            changes = watch.all_within(wait_s)
        except StaleMetadata:
            self._refresher.renew_all(now=time.monotonic(), late=True)
            self._renew_others(None, subscriber)
            return
        now = time.monotonic()
        for change in changes:
            self._refresher.changed(change, now=now)
        self._renew_others(changes, subscriber)

    def _renew_others(self, changes: Sequence[Change] | None, subscriber: Subscriber) -> None:
        """Have Iceberg's tables, and relations over paths, renewed for ``changes``.

        None: any table may have changed.
        """
        if self._control.state != ON:
            return
        self._reloads |= {"*"} if changes is None else {one.object for one in changes if one.files}
        if len(self._reloads) > RELOADS_MAX:
            self._reloads = {"*"}
        try:
            if changes is None:
                self._paths.changed_all()
            elif changes:
                self._paths.changed(changes, find=subscriber.folders)
        except Exception as exc:  # noqa: BLE001 - counted as by the guard; see ``_turn``
            self._guard.failed("look for relations over paths", exc)

    def _turn(self) -> None:
        """Look at each session, and renew what changes demand there."""
        self._turned_at = time.monotonic()
        try:
            looked = self._caches.look()
        except Exception as exc:  # noqa: BLE001 - counted as by the guard, which costs more to enter
            self._guard.failed("look at the sessions", exc)
            return
        for order, why in self._caches.failures():
            self._failed(order, why)
        with self._guard("let Iceberg load tables anew"):
            if self._reloads and self._caches.has_iceberg and self._control.state == ON:
                self._caches.reload(sorted(self._reloads))
            self._reloads.clear()
        self._refresher.begin_turn(looked, now=self._turned_at)
        for session, one in looked.items():
            for order in self._refresher.look(session, one):
                self._carry_out(order)
            if self._refresher.has_recent_change(session):
                with self._guard("discard plans"):
                    self._clients.discard_plans(session)

    def _carry_out(self, order: Invalidation) -> None:
        renew = self._caches.recache if order.recache else self._caches.renew
        try:
            renew(order.session, order.table, existing=order.existing)
        except Exception as exc:  # noqa: BLE001 - counted as by the guard
            self._failed(order, exc)
        else:
            self._refresher.done(order)

    def _failed(self, order: Invalidation, why: Exception | str) -> None:
        self._guard.failed(f"refresh {order.table}", why)
        self._refresher.failed(order)


def health(subscriber: Subscriber | None) -> Health:
    """Return what ``subscriber`` knows of its servers; None, or a closed one, knows nothing."""
    if subscriber is None:
        return Health()
    try:
        stats = subscriber.stats()
    except TopicastError:  # it is not open any more
        return Health()
    return Health(
        connected=stats.connected,
        silent_s=stats.staleness_s,
        metastore_problem=stats.metastore_problem,
        connection_problem=stats.connection_problem,
    )


def condition_with(condition: tuple[str, str], servers: Health) -> tuple[str, str]:
    """Return the worker's ``condition``, with what its ``servers`` add to it.

    A live driver whose hub is away counts as connecting; each problem is added to the reason.
    """
    state, reason = condition
    if state != LIVE:
        return condition
    problem = servers.connection_problem
    if not problem and servers.silent_s >= LOST_S:
        silent = "catalogd" if servers.connected else "the statestored"
        problem = f"{silent} has been silent for {servers.silent_s:.0f} s"
    away = problem and not servers.connected
    texts = filter(None, (reason, problem, servers.metastore_problem))
    return (CONNECTING if away else LIVE), "; ".join(texts)
