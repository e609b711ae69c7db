"""Keeps the router true: pushes and syncs in, leases and own writes out, of a subscriber at a time.

    follow ──▶ sync, everything dropped ──▶ LIVE ──a topic is older than maxStaleness──▶ original
                     ▲                        │
                     └── changes were lost ───┘      each change drops what is kept of its object

Four threads, none of the application's, and a fifth thread with ``validate=catalogd``. One takes
changes and renews the lease, after it has looked whether every topic is current and then taken the
changes up to that look; without it the lease ends, and the originals answer. Another waits in the
JVM for writes of this driver, and syncs after them. A third waits there for tables that are read,
and finds out whether they are held: catalogd publishes each change of a table only if it holds the
table. A fourth waits there for statements of this driver that changed a table, and reports them, so
that other drivers ask the metastore before its event of them is read. The fifth waits there for
reads of tables, and asks catalogd whether it has a newer version.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from ....topics.errors import LinkError, SourceError, StaleMetadata, TopicastError, UsageError
from ....topics.newest import Newest
from ...client.subscriber import Subscriber
from ...engine.watch import Watch
from ...protocol.effects import Change
from ...store.change_feed import CATCH_UP, REPORTED
from ..guard import Guard
from .endpoint import Endpoint
from .router import Router, Use, names_of, router_change

LOOK_S: Final = 1.0  # between two looks at whether all is current, and at what was read
IDLE_S: Final = 2.5  # between two looks while all is current and nothing is read
IDLE_SHARE: Final = 4  # of maxStaleness that may pass before an idle look
REST_S: Final = 0.1  # that changes of tables which were not read lately may gather
READ_MAX: Final = 10_000  # tables that were read lately: as many as the router counts
READS_MAX: Final = 16  # of one table, reported at one look: the queue of all has 8192 places
LATE_S: Final = 2.0  # in which the refresh renews every relation, after changes were lost
SYNC_S: Final = 10.0
RETRY_S: Final = 1.0  # after a sync that failed
WAIT_S: Final = 10.0  # in the JVM, for a write
CONFIRM_S: Final = 0.3  # for catalogd's answer; then the metastore is asked
BY_CATALOGD: Final = "catalogd"  # a value of ``validate``
ORIGINAL: Final = "original: "  # before the reason, in the router's status
STOP_S: Final = 2.0  # for all threads to end


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningSettings:
    """How plans are made from memory.

    ``bytes_max``: of objects in the JVM. ``max_staleness_s``: how long the hub or catalogd may be
    silent. ``validate``: what confirms each table: hms, catalogd, or none. ``endpoint``: ask this
    driver's subscriber for what is not held, before the metastore.
    """

    bytes_max: int
    max_staleness_s: float
    validate: str = "none"
    endpoint: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningFacts:
    """What the router has done since the JVM started.

    ``state``: on, or why plans are plain Spark's; ``endpoint``: likewise, of first reads.
    ``answered``: reads from memory; ``endpoint_answered``: by the endpoint; ``calls_saved``: of the
    metastore, by both. ``originals``: other reads, by the reason.
    ``refused``: writes that would have undone another's. ``held_bytes``: of objects.
    """

    state: str
    endpoint: str
    answered: int
    endpoint_answered: int
    calls_saved: int
    originals: Mapping[str, int]
    refused: int
    held_bytes: int


class ReportStatement(Protocol):
    """Tells other drivers of a statement of this driver."""

    def __call__(self, table: str, *, named: bool) -> None:
        """Report that ``table`` has changed; ``named``: it came or went."""


class Planning:
    """Lets Spark plan from memory. For any thread."""

    def __init__(
        self,
        make: Callable[[], Router],
        *,
        settings: PlanningSettings,
        report: ReportStatement,
        guard: Guard,
        why_off: str = "",
    ) -> None:
        """Begin without a thread.

        Args:
            make: Makes the router, in a thread of this object.
            settings: Bounds.
            report: Gets each table that a statement of this driver has changed.
            guard: Where failures end.
            why_off: Why it never begins; empty: it does.
        """
        self._make = make
        self._settings = settings
        self._report = report
        self._guard = guard
        self._why = why_off
        self._lock = threading.Lock()
        self._subscriber: Subscriber | None = None  # None: there is none that follows all topics
        self._wanted = False  # by the application and the operators
        self._run: _Run | None = None
        self._found: Mapping[str, str] = {}  # of the router, at the last look

    def switch(self, *, on: bool) -> None:
        """Let it begin, or put the originals back at once."""
        with self._lock:
            self._wanted = on
            self._apply()

    def follow(self, subscriber: Subscriber | None) -> None:
        """Begin with ``subscriber``, which follows every topic; None: put the originals back."""
        with self._lock:
            self._subscriber = subscriber
            self._apply()

    def close(self) -> None:
        """Put the originals back, for good."""
        with self._lock:
            self._why = self._why or "detached"
            self._apply()

    def newest_write(self) -> int:
        """Return the number of this driver's newest unsynced write; 0: there is none."""
        run = self._run
        return 0 if run is None else run.newest_write()

    def synced(self, number: int = 0) -> None:
        """Answer nothing from memory that is older than a sync which has just ended.

        ``number``: what was written up to this write, which the sync has passed, is answered from
        memory again; 0: the metastore goes on answering for each write.
        """
        run = self._run
        if run is not None:
            run.synced(number)

    def facts(self, *, now: bool) -> PlanningFacts:
        """Return the state and the counters, as they are ``now`` or were up to 2.5 s ago.

        Cost: one call into the JVM if they are to be of now, else none.
        """
        run = self._run
        if now and run is not None:
            with self._guard("look at the router"):
                self._found = run.look()
        found = run.found if run is not None else self._found
        return PlanningFacts(
            state=self._state(found, run),
            endpoint=_endpoint_state(found, run),
            answered=int(found.get("objects", 0)),
            endpoint_answered=int(found.get("endpoint", 0)),
            calls_saved=int(found.get("calls_saved", 0)),
            originals={
                name.removeprefix(ORIGINAL): int(value)
                for name, value in found.items()
                if name.startswith(ORIGINAL) and value != "0"
            },
            refused=int(found.get("refused_writes", 0)),
            held_bytes=int(found.get("bytes", 0)),
        )

    def _state(self, found: Mapping[str, str], run: "_Run | None") -> str:
        if self._why:
            return f"off: {self._why}"
        if run is None:
            return "off"
        if run.failure:
            return f"off: {run.failure}"
        if found.get("plain"):
            return f"off: {found['plain']}"
        if found.get("catalogs", "0") == "0":
            return "waiting: no catalog of Hive was used yet"
        return "on" if found.get("live") == "1" else f"waiting: {run.why}"

    def _apply(self) -> None:
        subscriber = self._subscriber if self._wanted and not self._why else None
        run = self._run
        if run is not None and run.subscriber is not subscriber:
            self._found, self._run = run.found, None
            with self._guard("put the catalog back"):
                run.end()
        if subscriber is not None and self._run is None:
            self._run = _Run(
                subscriber,
                self._make,
                settings=self._settings,
                report=self._report,
                guard=self._guard,
            )
            self._run.start()


def _endpoint_state(found: Mapping[str, str], run: "_Run | None") -> str:
    if run is None or run.endpoint is None:
        return "off"
    if found.get("readers", "0") != "0":
        return "on"
    why = run.endpoint.problem or found.get("reader_failure") or "it is starting"
    return f"waiting: {why}"


class _Run:
    """The threads of one subscriber."""

    def __init__(
        self,
        subscriber: Subscriber,
        make: Callable[[], Router],
        *,
        settings: PlanningSettings,
        report: ReportStatement,
        guard: Guard,
    ) -> None:
        self.subscriber = subscriber
        self.why = "it is starting"  # not live
        self.failure = ""  # why this Spark has no router
        self.found: Mapping[str, str] = {}  # of the router, at the last look
        self.endpoint: Endpoint | None = None  # None: there is none, or not yet
        self._make = make
        self._settings = settings
        self._report_statement = report
        self._guard = guard
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # the router begins, or ends
        self._draining = threading.Lock()  # changes were taken, and the router is told of them
        self._silent_until = time.monotonic()  # catalogd has not answered, and is not asked
        self._idle_s = max(min(IDLE_S, settings.max_staleness_s / IDLE_SHARE), LOOK_S)
        self._router: Router | None = None  # None: it has not begun
        self._watch: Watch | None = None
        self._errors = 0  # of the router, at the last look
        self._synced = False
        self._read = Newest[str, None](READ_MAX)  # tables that were read lately
        self._unfollowed: frozenset[int] = frozenset()  # topics, at the last look
        self._followed: tuple[str, ...] = ()  # databases; empty: the router is to be told
        self._threads = [
            threading.Thread(target=self._run_changes, name="topicast-planning", daemon=True)
        ]

    def start(self) -> None:
        """Start the first thread, which starts the others."""
        self._threads[0].start()

    def end(self) -> None:
        """Put the originals back, then end the threads."""
        self._stopping.set()
        with self._lock:
            if self._router is not None:
                self._router.end()
            if self._watch is not None:
                self._watch.close()
        if self.endpoint is not None:
            self.endpoint.end()
        deadline = time.monotonic() + STOP_S
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(deadline - time.monotonic(), 0.0))

    def newest_write(self) -> int:
        """Return the number of the newest write that no sync has passed; 0: there is none."""
        router = self._router
        return 0 if router is None else router.await_writes(0.0)

    def synced(self, number: int = 0) -> None:
        """Have dropped what had changed when a sync ended, which has passed this write; 0: none."""
        router, watch = self._router, self._watch
        if router is None or watch is None:
            return
        self._drain(router, watch)
        if number:
            router.synced(number)

    def look(self) -> Mapping[str, str]:
        """Return the router's counters and state."""
        router = self._router
        if router is not None:
            self._note(router.status())
        return self.found

    def _note(self, found: Mapping[str, str]) -> None:
        self.found = found
        errors = int(found["errors"])
        if errors > self._errors:
            self._errors = errors
            self._guard.failed("plan from memory", found["last_error"])

    def _run_changes(self) -> None:
        with self._guard("plan from memory", unless=self._stopping.is_set):
            try:
                router = self._make()
            except Exception as error:
                self.failure = str(error).splitlines()[0]
                raise
            with self._lock:
                if self._stopping.is_set():
                    return
                self._watch = watch = self.subscriber.watch("*", wait=False)
                self._router = router
                self._begin(router)
            others = [
                ("sync", self._run_syncs),
                ("known", self._run_known),
                ("altered", self._run_altered),
            ]
            if self._settings.validate == BY_CATALOGD:
                others.append(("confirm", self._run_confirm))
            for name, target in others:
                thread = threading.Thread(
                    target=target, args=(router,), name=f"topicast-{name}", daemon=True
                )
                self._threads.append(thread)
                thread.start()
            try:
                self._follow(router, watch)
            finally:
                watch.close()
                if not self._stopping.is_set():
                    router.live(0.0)

    def _begin(self, router: Router) -> None:
        router.begin(bytes_max=self._settings.bytes_max, validate=self._settings.validate)
        if self._settings.endpoint:
            self.endpoint = Endpoint(self.subscriber, router)
            self.endpoint.start()

    def _follow(self, router: Router, watch: Watch) -> None:
        look_at = time.monotonic()
        while not self._stopping.is_set() and not watch.closed:
            left_s = look_at - time.monotonic()
            if left_s > 0:
                watch.rest(left_s, unless=lambda _: True)
                if self._drain(router, watch):
                    watch.rest(REST_S, unless=self._is_urgent)
                continue
            looked_at = time.monotonic()
            try:
                current_at = self._current_at(router)
                self._drain(router, watch)  # what had changed by then
                left_s = self._lease_s(router, current_at)
            except TopicastError as error:
                self.why = str(error)
                left_s = 0.0
            found, uses = router.renew(left_s)
            is_idle = left_s > 0 and not uses
            look_at = looked_at + (self._idle_s if is_idle else LOOK_S)
            self._note(found)
            self._report(uses)
            if self.endpoint is not None:
                self.endpoint.look()

    def _current_at(self, router: Router) -> float:
        """Return the time as of which every topic is current that is followed.

        Raises:
            TopicastError: it cannot be known.
        """
        found = self.subscriber.freshness()
        if found.metastore_problem:
            raise SourceError(found.metastore_problem)
        if not found.unfollowed <= self._unfollowed:
            router.changed_all(late_s=LATE_S)
        self._unfollowed = found.unfollowed
        self.why = f"topics have not been current for {time.monotonic() - found.current_at:.1f} s"
        return found.current_at

    def _lease_s(self, router: Router, current_at: float) -> float:
        """Return how long memory answers: maxStaleness after ``current_at``; first of all sync."""
        if not self._synced:
            self.subscriber.sync(SYNC_S)
            self._synced = True
            router.changed_all(late_s=LATE_S)
        if not self._followed:
            self._followed = self.subscriber.databases()
            router.follow(self._followed)
        return max(current_at + self._settings.max_staleness_s - time.monotonic(), 0.0)

    def _drain(self, router: Router, watch: Watch) -> bool:
        """Take what has changed, and have it dropped before this returns; False: nothing had."""
        with self._draining:
            return self._tell(router, watch)

    def _tell(self, router: Router, watch: Watch) -> bool:
        try:
            changes = watch.all_within(0.0)
        except StaleMetadata:
            self._followed = ()
            router.changed_all(late_s=LATE_S)
            return True
        if not changes:
            return False
        if any(change.origin == CATCH_UP for change in changes):
            router.changed_all(late_s=LATE_S)
        router.changed(map(router_change, changes))  # first: they are taken, and come no more
        if any("." not in change.object and names_of(change.kind) for change in changes):
            self._followed = ()
            with suppress(TopicastError):  # then the next look asks again
                self._followed = self.subscriber.databases()
                router.follow(self._followed)
        return True

    def _report(self, uses: Iterable[Use]) -> None:
        """Let the planner count what Spark reads."""
        for name, table, partitions in uses:
            self._read.put(name, None)
            times = max(min(table + partitions, READS_MAX), 1)
            with suppress(UsageError):  # Spark has names that no table can have
                self.subscriber.note_reads(name, times=times, whole=partitions > 0)

    def _is_urgent(self, change: Change) -> bool:
        """Whether it is of what was read lately, or a driver reports it: few, and read at once."""
        name = change.object
        return change.origin == REPORTED or name in self._read or "." not in name

    def _run_known(self, router: Router) -> None:
        """Find out of which tables that are read each change is received."""
        while not self._stopping.is_set():
            with self._guard("find out what is followed", unless=self._stopping.is_set):
                self._find_out(router, router.wanted(WAIT_S))

    def _find_out(self, router: Router, wanted: Iterable[tuple[int, str]]) -> None:
        for number, name in wanted:
            if not self._stopping.is_set():
                router.known(number, name, is_followed=self._follows(name))

    def _follows(self, name: str) -> bool:
        try:
            return self.subscriber.follows(name)
        except TopicastError:
            return False

    def _run_confirm(self, router: Router) -> None:
        """Find out of tables that are read whether catalogd has a newer version."""
        while not self._stopping.is_set():
            with self._guard("confirm what is read", unless=self._stopping.is_set):
                reads = router.unconfirmed(WAIT_S)
                if reads:
                    stale = self._outdated({name for _, name in reads})
                    router.confirmed({number: name not in stale for number, name in reads})

    def _outdated(self, names: set[str]) -> Collection[str]:
        """Return which tables the router may not have as catalogd has them now."""
        if time.monotonic() < self._silent_until or self._watch is None or self._router is None:
            return names
        try:
            stale = self.subscriber.outdated(names, timeout_s=CONFIRM_S)
        except LinkError:
            self._silent_until = time.monotonic() + RETRY_S
            return names
        except TopicastError:  # Spark has names that no table can have
            return names
        self._drain(self._router, self._watch)  # what the subscriber had by then
        return stale

    def _run_altered(self, router: Router) -> None:
        """Report which tables this driver's statements change."""
        while not self._stopping.is_set():
            with self._guard("report statements", unless=self._stopping.is_set):
                for name, named in router.altered(WAIT_S):
                    self._report_statement(name, named=named)

    def _run_syncs(self, router: Router) -> None:
        while not self._stopping.is_set():
            with self._guard("sync after writes", unless=self._stopping.is_set):
                number = router.await_writes(WAIT_S)
                if not number or self._stopping.is_set():
                    continue
                try:
                    self.subscriber.sync(SYNC_S)
                    self.synced(number)
                except TopicastError:  # what was written is read from the metastore meanwhile
                    self._stopping.wait(RETRY_S)


def text_of(originals: Mapping[str, int]) -> str:
    """Return the reasons of reads that the metastore answered, the most frequent first."""
    pairs = sorted(originals.items(), key=lambda one: -one[1])
    return ", ".join(f"{why}: {count}" for why, count in pairs)
