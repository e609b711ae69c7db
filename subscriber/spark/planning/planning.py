"""Planning: keeps the router in the JVM current by what this driver's subscriber receives.

    follow ──▶ sync, the router drops all ──▶ LIVE ──a topic is older than maxStaleness──▶ NOT LIVE
                     ▲                         │   each change drops what the router keeps of it
                     └─── changes were lost ───┘

While the router is not live, Spark's own catalogs answer, which call the metastore.

The agent runs four threads for this, and a fifth with ``validate=catalogd``:

- ``topicast-planning`` renews the router's lease. Before each renewal it looks whether every topic
  is current, and passes the router the changes up to that look. If this thread stops, the lease
  ends, so that the metastore is asked again.
- ``topicast-sync`` waits in the JVM for a write of this driver, and syncs after the write.
- ``topicast-known`` waits in the JVM for a table that is read for the first time, and finds out
  whether the subscriber receives each change of it: catalogd publishes the changes of those tables
  only that it holds.
- ``topicast-altered`` waits in the JVM for a statement of this driver that changes a table, and
  reports it, so that other drivers ask the metastore until catalogd has read the event of it.
- ``topicast-confirm`` waits in the JVM for a read of a table, and asks catalogd whether it has a
  newer version of the table.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from ....topics.clock import seconds
from ....topics.errors import LinkError, SourceError, StaleMetadata, TopicastError, UsageError
from ....topics.newest import Newest
from ...client.subscriber import Subscriber
from ...engine.watch import Watch
from ...protocol.effects import Change
from ...store.change_feed import CATCH_UP, REPORTED
from ..guard import Guard
from .endpoint import Endpoint
from .router import Router, Use, came_or_went, router_change

LOOK_S: Final = 1.0  # between two looks at whether every topic is current, and at what Spark reads
IDLE_S: Final = 2.5  # between two looks while every topic is current and Spark reads nothing
IDLE_SHARE: Final = 4  # looks within maxStaleness, at least, while Spark reads nothing
REST_S: Final = 0.1  # that changes gather of tables that Spark has not read lately
READ_MAX: Final = 10_000  # tables that Spark has read lately: as many as the router counts
READS_MAX: Final = 16  # of one table, counted at one look: the queue for all tables has 8192 places
LATE_S: Final = 2.0  # until the refresh has renewed every relation, after changes were lost
SYNC_S: Final = 10.0  # for one sync
RETRY_S: Final = 1.0  # after a sync that failed, or after catalogd gave no answer
WAIT_S: Final = 10.0  # of one call that waits in the JVM; then the thread looks if it is to end
CONFIRM_S: Final = 0.3  # for catalogd's answer; then the metastore is asked
BY_CATALOGD: Final = "catalogd"  # a value of ``validate``
ORIGINAL: Final = "original: "  # in the router's status, before the reason for reads of an original
STOP_S: Final = 2.0  # for all threads to end


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningSettings:
    """The settings of planning from memory.

    ``bytes_max``: how much the router may keep in the JVM. ``max_staleness_s``: how long the hub or
    catalogd may be silent until the metastore is asked again. ``validate``: what confirms each
    table before memory answers: hms, catalogd, or none. ``endpoint``: whether the router asks this
    driver's subscriber, before the metastore, for what it does not keep.
    """

    bytes_max: int
    max_staleness_s: float
    validate: str = "none"
    endpoint: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningFacts:
    """The state of the router, and its counts since the JVM started; by default there is no router.

    ``state``: on, or why Spark's own catalogs answer; ``endpoint``: on, or why the endpoint is not
    asked. ``answered``: reads that memory has answered; ``endpoint_answered``: reads that the
    endpoint has answered; ``calls_saved``: the calls of the metastore that both have saved.
    ``originals``: the reads that Spark's own catalogs have answered, by the reason. ``refused``:
    writes of this driver that would have undone a write of another client. ``held_bytes``: what
    the router keeps.
    """

    state: str = ""
    endpoint: str = ""
    answered: int = 0
    endpoint_answered: int = 0
    calls_saved: int = 0
    originals: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    held_bytes: int = 0


class ReportStatement(Protocol):
    """Reports a statement of this driver to catalogd, which has other drivers learn of it."""

    def __call__(self, table: str, *, named: bool) -> None:
        """Report that ``table`` has changed; ``named``: it was created, dropped or renamed."""


class Planning:
    """Lets Spark plan from memory, with one subscriber after another. For any thread."""

    def __init__(
        self,
        make: Callable[[], Router],
        *,
        settings: PlanningSettings,
        report: ReportStatement,
        guard: Guard,
        why_off: str = "",
    ) -> None:
        """Start no thread; ``switch`` and ``follow`` do.

        Args:
            make: Makes the router; a thread of this object calls it.
            settings: The bounds of the router.
            report: Takes each table that a statement of this driver has changed.
            guard: Logs and counts failures.
            why_off: Why this driver never plans from memory; empty: it may.
        """
        self._make = make
        self._settings = settings
        self._report = report
        self._guard = guard
        self._why = why_off
        self._lock = threading.Lock()  # one caller at a time begins or ends a run
        self._subscriber: Subscriber | None = None  # None: no subscriber follows every topic
        self._wanted = False  # whether the application and the operators want plans from memory
        self._run: _Run | None = None
        self._found: Mapping[str, str] = {}  # the router's status when the last run ended

    def switch(self, *, on: bool) -> None:
        """Plan from memory once a subscriber follows every topic, or put the originals back."""
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
        """Return the number of this driver's newest write that no sync has passed; 0: none."""
        run = self._run
        return 0 if run is None else run.newest_write()

    def synced(self, number: int = 0) -> None:
        """Have the router drop all that had changed before a sync of the subscriber ended.

        ``number``: the newest write that the sync has passed, so that memory answers again for
        the tables of the writes up to it; 0: the metastore goes on answering for each write.
        """
        run = self._run
        if run is not None:
            run.synced(number)

    def facts(self, *, now: bool) -> PlanningFacts:
        """Return the state and the counters, as they are ``now``, else as of up to ``IDLE_S`` ago.

        Cost: with ``now`` a call into the JVM, else none.
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
    """Planning with one subscriber: its threads, its watch, the router from begin to end."""

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
        self.why = "it is starting"  # why the router is not live, if it is not
        self.failure = ""  # why this Spark has no router
        self.found: Mapping[str, str] = {}  # the router's status at the last look
        self.endpoint: Endpoint | None = None  # None: none is wanted, or the router has not begun
        self._make = make
        self._settings = settings
        self._report_statement = report
        self._guard = guard
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # held while the router begins, or ends
        self._draining = threading.Lock()  # held from taking changes until the router has them
        self._silent_until = time.monotonic()  # until then catalogd is not asked: it was silent
        self._idle_s = max(min(IDLE_S, settings.max_staleness_s / IDLE_SHARE), LOOK_S)
        self._router: Router | None = None  # None: it has not begun
        self._watch: Watch | None = None  # None: as for the router
        self._errors = 0  # that the router had counted at the last look
        self._synced = False  # whether the subscriber has synced once since this run began
        self._read = Newest[str, None](READ_MAX)  # tables that Spark has read lately
        self._unfollowed: frozenset[int] = frozenset()  # topics whose changes do not arrive
        self._followed: tuple[str, ...] = ()  # databases; empty: the next look sends them
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
        """As ``Planning.newest_write``."""
        router = self._router
        return 0 if router is None else router.await_writes(0.0)

    def synced(self, number: int) -> None:
        """As ``Planning.synced``."""
        router, watch = self._router, self._watch
        if router is None or watch is None:
            return
        self._drain(router, watch)
        if number:
            router.synced(number)

    def look(self) -> Mapping[str, str]:
        """Return the router's status as it is now."""
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
                self._drain(router, watch)  # the changes up to that time, before the lease says so
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
        """Return the time as of which every followed topic is current, as Freshness has it.

        If changes of one more topic do not arrive any longer, the router drops everything.

        Raises:
            TopicastError: the subscriber does not know, or changes cannot reach catalogd.
        """
        found = self.subscriber.freshness()
        if found.metastore_problem:
            raise SourceError(found.metastore_problem)
        if not found.unfollowed <= self._unfollowed:
            router.changed_all(late_s=LATE_S)
        self._unfollowed = found.unfollowed
        self.why = f"topics have not been current for {seconds() - found.current_at:.1f} s"
        return found.current_at

    def _lease_s(self, router: Router, current_at: float) -> float:
        """Return for how many seconds memory may answer: until maxStaleness after ``current_at``.

        At first the subscriber syncs, and the router takes the databases that it follows.
        """
        if not self._synced:
            self.subscriber.sync(SYNC_S)
            self._synced = True
            router.changed_all(late_s=LATE_S)
        if not self._followed:
            self._followed = self.subscriber.databases()
            router.follow(self._followed)
        return max(current_at + self._settings.max_staleness_s - seconds(), 0.0)

    def _drain(self, router: Router, watch: Watch) -> bool:
        """Take the changes that have come, and have the router drop them before this returns.

        Returns:
            False if there was no change.
        """
        with self._draining:
            return self._pass_on(router, watch)

    def _pass_on(self, router: Router, watch: Watch) -> bool:
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
        # Before anything that may fail: the watch does not return these changes again.
        router.changed(map(router_change, changes))
        if any("." not in change.object and came_or_went(change.kind) for change in changes):
            self._followed = ()
            with suppress(TopicastError):  # after a failure the next look requests them again
                self._followed = self.subscriber.databases()
                router.follow(self._followed)
        return True

    def _report(self, uses: Iterable[Use]) -> None:
        """Pass the reads of Spark on to the subscriber, whose planner counts them."""
        for name, table, partitions in uses:
            self._read.put(name, None)
            times = max(min(table + partitions, READS_MAX), 1)
            with suppress(UsageError):  # Spark allows names that no table of a metastore has
                self.subscriber.note_reads(name, times=times, whole=partitions > 0)

    def _is_urgent(self, change: Change) -> bool:
        """Return whether the router has to have ``change`` at once, not after ``REST_S``.

        Such changes are few: of a database, of a table that Spark has read lately, or of a table
        that another driver has reported, which somebody may read at once.
        """
        name = change.object
        return change.origin == REPORTED or name in self._read or "." not in name

    def _run_known(self, router: Router) -> None:
        """Answer the router of which tables the subscriber receives each change."""
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
        """Answer the router which reads memory may answer: catalogd has no newer version."""
        while not self._stopping.is_set():
            with self._guard("confirm what is read", unless=self._stopping.is_set):
                reads = router.unconfirmed(WAIT_S)
                if reads:
                    stale = self._outdated({name for _, name in reads})
                    router.confirmed({number: name not in stale for number, name in reads})

    def _outdated(self, names: set[str]) -> Collection[str]:
        """Return those of ``names`` of which catalogd has, or may have, a newer version."""
        if time.monotonic() < self._silent_until or self._watch is None or self._router is None:
            return names
        try:
            stale = self.subscriber.outdated(names, timeout_s=CONFIRM_S)
        except LinkError:
            self._silent_until = time.monotonic() + RETRY_S
            return names
        except TopicastError:  # Spark allows names that no table of a metastore has
            return names
        self._drain(self._router, self._watch)  # the changes that the subscriber had by that answer
        return stale

    def _run_altered(self, router: Router) -> None:
        """Report each table that a statement of this driver has changed."""
        while not self._stopping.is_set():
            with self._guard("report statements", unless=self._stopping.is_set):
                for name, named in router.altered(WAIT_S):
                    self._report_statement(name, named=named)

    def _run_syncs(self, router: Router) -> None:
        """Sync after each write of this driver, so that memory answers again for its table."""
        while not self._stopping.is_set():
            with self._guard("sync after writes", unless=self._stopping.is_set):
                number = router.await_writes(WAIT_S)
                if not number or self._stopping.is_set():
                    continue
                try:
                    self.subscriber.sync(SYNC_S)
                    self.synced(number)
                except TopicastError:  # the metastore answers for the written tables meanwhile
                    self._stopping.wait(RETRY_S)


def text_of(originals: Mapping[str, int]) -> str:
    """Return for people why the metastore answered reads, and how often, most frequent first."""
    pairs = sorted(originals.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{why}: {count}" for why, count in pairs)
