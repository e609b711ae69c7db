"""The core of a subscriber: a pure state machine that composes those of its rooms.

    Received ──▶ of the accepted start? ──▶ replicas: position, budget ──▶ view ──▶ readers
    Command  ──▶ memory, else catalogd ──▶ at or above the read floor? ──▶ Complete

Invariant: no answer is as of an older version of a topic than an earlier answer. Memory answers
only for topics that are open, and only with pulls that passed the read floor.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from math import inf
from typing import Any, Final

from ...topics.backports import assert_never
from ...topics.errors import ConfigError
from ...topics.keys.clients import checked_keys
from ...topics.objects.drivers import COUNTS_S
from ...topics.objects.names import Scope, name_of
from ...topics.policy import Policy
from ...topics.topic import (
    LEVELS,
    MINIMAL,
    MINIMAL_BYTES,
    NAMESPACE,
    NONE,
    Version,
    topic_ids,
)
from ...topics.turn import Tick, Turn
from ...topics.wire.messages.answers import FunctionPage, StatisticsPage
from ...topics.wire.messages.catalog import Claimed, Compared, Pulled, Synced, Validated
from ...topics.wire.messages.connection import Bye, Refused, ServerKeys, Welcome
from ...topics.wire.messages.data import Barrier, Chunk, Delta, Heartbeat
from ...topics.wire.messages.fields import Message
from ...topics.wire.messages.questions import (
    A,
    MetastoreQuestion,
    ReadDriver,
    ReaderQuestion,
    ReadLevels,
    ReadStats,
    ReadTrace,
    ReadUsage,
)
from ...topics.wire.messages.readers import DriverFacts, Joined
from ...topics.wire.messages.reports import Reported
from ..config import Settings, budget_for
from ..fetch.fetcher import PartitionRequest, Result
from ..placement.controller import PlacementController
from ..placement.pins import PinRules
from ..placement.planner import Planner
from ..placement.prefetch import Prefetcher
from ..placement.priorities import Priorities
from ..placement.uses import Uses
from ..protocol.commands import DONE, Command, Done, Key, PendingCommands, Started, Wait
from ..protocol.effects import (
    BeginAnew,
    Complete,
    Connection,
    ConnectionProblem,
    DroppedFrame,
    Effect,
    Effects,
    Leave,
    Notify,
    Received,
    Send,
    Trust,
    Watching,
)
from ..protocol.status import AuditCounts, Shortage, Stats, TopicInfo
from ..replication.hub_session import HubSession
from ..replication.lineage import NO_START, Lineage
from ..replication.replicas import TopicReplicas
from ..replication.subscriptions import Subscriptions
from ..store.latency import LatencyEstimate
from ..store.resident_set import Budget, ResidentSet
from ..store.view import ReadFloor, View, heads_within
from .catalog_session import CatalogSession
from .introspection import TABLES_MAX, DriverRecord, Facts, differ, inspected
from .self_audit import SelfAudit
from .write_outbox import WriteOutbox

QUESTIONS: Final = (ReadLevels, ReadUsage, ReadTrace, ReadStats, ReadDriver)
ANNOUNCE_S: Final = 1.0  # between two comparisons of the driver's facts with those announced

OtherFact = DroppedFrame | Tick | Command[object] | Watching | ConnectionProblem | Leave
Fact = Received | OtherFact


class Core:
    """Decides everything that a subscriber does.

    Readers read ``view`` and call ``note_read``, in any thread. Commands run the methods that
    return ``Started`` or ``Done``, within ``handle``; the shell calls all others.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        new_id: Callable[[], bytes],
        outbox: WriteOutbox | None = None,
        driver_facts: Callable[[], Facts] | None = None,
        new_budget: Callable[[int, int], Budget] = Budget,
        new_planner: Callable[[int, LatencyEstimate], Planner] = Planner,
    ) -> None:
        """Begin without a connection; the first Tick orders a connection.

        Args:
            settings: The application's settings.
            new_id: Returns 16 random bytes, never the same.
            outbox: The writes to be reported; None: there are none.
            driver_facts: Returns the facts that operators see of the application; None: no driver.
            new_budget: Makes the budget, from the bytes that may be held and the bytes of the
                inbox; a test may check each change.
            new_planner: Makes the planner of the levels; a test may check each plan.
        """
        registration = new_id()
        self.turn = Turn[Effect](quiet=(Tick,))  # all parts share it
        self.view = View(heads_max=heads_within(settings.budget_bytes))
        self.outbox = (
            outbox if outbox is not None else WriteOutbox(driver=registration, metastore="")
        )
        self.driver = DriverRecord(
            self.view,
            driver_facts,
            hubs=len(settings.statestores),
            writer=self.outbox.driver.hex(),
        )
        self.restarts = 0  # of this core
        self.recovering = False  # it restarted and has not been ready since; any thread reads it
        self.current_at = -inf  # seconds: when all followed topics were last known to be current
        self._settings = settings
        self._new_id, self._new_budget, self._new_planner = new_id, new_budget, new_planner
        self._next_id = count(1).__next__  # of requests; never reused: a late answer matches none
        self._misses = 0  # reads that memory did not answer
        self._wire_errors = 0  # frames that could not be decoded
        self._connection_problem = ""  # as the shell reported it last
        self._announced: DriverFacts | None = None  # what this hub knows of the driver
        self._announce_at = 0.0  # seconds: when that is compared with the driver's facts again
        self._counts_at = 0.0  # seconds: from then on a change of counts alone is announced
        self._audit_counts = AuditCounts()
        self._lineage = Lineage()
        self._read_floor = ReadFloor()
        self._rules = PinRules(settings.always, settings.never)
        self._policy: Policy | None = None  # as our key file has it
        self._policy_digest: int | None = None  # of the held content; None: not welcomed yet
        self._policy_number = 0  # this hub begins the deltas of our policy with it
        self._by_hand: dict[int, int] = {}  # levels to be set again after a restart, by topic
        self._by_hand_of = 0  # the number of topics then: after another number they mean nothing
        self._build(registration)

    def restart(self) -> None:
        """Start again without a connection, after an error that may have left anything half done.

        The core keeps what the application has set: pins, levels by hand, and writes to be
        reported. It keeps the lineage and the read floor, so that no answer is older than the last.
        It discards the commands that waited, and replicates all else again.
        """
        self.restarts += 1
        self.recovering = True
        self.current_at = self.view.current_at = -inf
        self._levels_by_hand().update(self.placement.levels_by_hand())
        self.view.clear()
        self.turn.discard()
        self._build(self._new_id())

    def _build(self, registration: bytes) -> None:
        """Make all parts that a restart makes anew."""
        settings, automatic, turn = self._settings, self._settings.automatic, self.turn
        inbox_bytes = settings.inbox_bytes
        budget = self._new_budget(settings.budget_bytes - inbox_bytes, inbox_bytes)
        self._pending = pending = PendingCommands(turn)
        self._priorities = priorities = Priorities(
            self._rules, self.view, clock=turn, automatic=automatic
        )
        session = HubSession(
            settings.statestores,
            turn=turn,
            name=settings.name,
            command=settings.command,
            registration=registration,
            next_id=self._next_id,
            new_nonce=self._new_id,
        )
        resident_set = ResidentSet(self.view, budget, priorities)
        self._replicas = replicas = TopicReplicas(
            resident_set,
            turn=turn,
            session=session,
            read_floor=self._read_floor,
            next_id=self._next_id,
            wake=pending.wake,
        )
        self.subscriptions = Subscriptions(
            session,
            turn=turn,
            replicas=replicas,
            lineage=self._lineage,
            automatic=automatic,
            audit_counts=self._audit_counts,
            wake=pending.wake,
        )
        pins = priorities.pins
        uses = Uses(lambda: [(one.db, one.table) for one in pins.known.values()])
        self.catalog = CatalogSession(
            self.subscriptions,
            turn=turn,
            lineage=self._lineage,
            read_floor=self._read_floor,
            next_id=self._next_id,
            outbox=self.outbox,
            uses=uses,
            wake=pending.wake,
            name=settings.name,
        )
        self.placement = PlacementController(
            self.subscriptions,
            priorities,
            turn=turn,
            planner=self._new_planner(MINIMAL_BYTES, resident_set.latency),
            uses=uses,
            automatic=automatic,
            wake=pending.wake,
        )
        self.prefetcher = Prefetcher(
            self.subscriptions,
            priorities,
            turn=turn,
            levels=self.placement,
            client=self.catalog,
            wake=pending.wake,
        )
        self.self_audit = SelfAudit(
            replicas,
            turn=turn,
            begin_fetch=self.catalog.begin_fetch,
            detach=self.catalog.detach,
            interval_s=settings.self_audit_s,
            name=settings.name,
            counts=self._audit_counts,
        )
        self._handlers = self._by_message()

    @property
    def watched(self) -> bool:
        """Whether changes are collected for watches."""
        return self._replicas.change_feed.enabled

    @property
    def deadline(self) -> float:
        """The time at which a Tick has work to do."""
        times = [self.subscriptions.deadline, self.catalog.deadline, self._pending.deadline]
        times += [self.placement.deadline, self.prefetcher.deadline, self.self_audit.deadline]
        return min(at for at in times if at is not None)

    def handle(self, fact: Fact, *, now: float) -> Effects:
        """Decide what ``fact`` means."""
        return self.handle_all((fact,), now=now)

    def handle_all(self, facts: Iterable[Fact], *, now: float) -> Effects:
        """Decide what several ``facts`` mean; do once what follows from all of them together."""
        self.turn.now = now
        for fact in facts:
            if isinstance(fact, Received):  # as a rule
                self._on_received(fact)
            else:
                self.turn.came(fact)
                self._decide(fact)
        if self.recovering and self.subscriptions.planned is not None:
            self.recovering = not self.subscriptions.ready()
            self._set_by_hand()
        subscriptions, catalog = self.subscriptions, self.catalog
        if subscriptions.has_work or self._replicas.has_work:
            subscriptions.settle()
            self.placement.settle()
        moved = subscriptions.catalog_address != catalog.address
        if moved or self._lineage.compare_at is not None:
            catalog.settle()
        if self._priorities.has_work:
            self.prefetcher.settle()
        if self._pending.waiting:
            for command in self._pending.settle():
                self.turn.add(Complete(command))
        else:
            self._pending.woken.clear()
        return self._end()

    def story(self, topic: int | None = None) -> tuple[str, ...]:
        """Return a line for each message that came or went lately, or for those about ``topic``."""
        return self.turn.trace.story(topic)

    def restrict(self, policy: Policy | None) -> None:
        """Set what our key may see, so that errors name the policy; None: everything.

        While the hub has another policy for our key, a hidden name is missing like any other name.
        """
        self._policy = self.view.policy = policy

    def note_read(self, db: str, table: str, *, whole: bool) -> None:
        """Count a read of a table; ``whole``: of its partitions, too. Any thread may call it."""
        self.placement.reads.append((db, table, whole))

    def check(self) -> None:
        """Assert every invariant."""
        self.subscriptions.check()
        self.catalog.check()
        self.prefetcher.check()
        self._pending.check()

    def answerable(self) -> tuple[Command[object], ...]:
        """Return the commands that wait although their answer is there; after a turn: none.

        For tests, because it polls all commands that wait.
        """
        return self._pending.answerable()

    # Operations of commands

    def ready(self) -> Started[None]:
        """Wait until the namespace and the initial topics are live."""
        return _NamespaceWait(self.subscriptions, self.subscriptions.ready)

    def namespace(self) -> Started[None]:
        """Wait until memory answers for the namespace."""
        is_ready = partial(self._replicas.is_usable, NAMESPACE)
        return _NamespaceWait(self.subscriptions, is_ready)

    def read(self, request: PartitionRequest, *, bytes_max: float = inf) -> Started[Result]:
        """Get a table from memory, else from catalogd; more than ``bytes_max`` are an error."""
        held = self.view.partitions(request.db, request.table, request.selector)
        if held is not None:
            return Done(held)
        self._misses += 1
        self.placement.on_first_read(request.db, request.table)
        return self.catalog.fetch(request, bytes_max=bytes_max)

    def validate(self, epoch: int, claims: tuple[Claimed, ...]) -> Started[Mapping[int, Version]]:
        """Get the present versions of the tables of stale ``claims``, by index in ``claims``."""
        return self.catalog.validate(epoch, claims)

    def sync(self, scope: Scope, *, within_s: float) -> Started[None]:
        """Wait until what HMS has committed in ``scope`` by now is visible here."""
        return self.catalog.sync(scope, within_s=within_s)

    def ask(self, question: MetastoreQuestion[A]) -> Started[A]:
        """Get an answer that catalogd reads from the metastore: no process holds it."""
        return self.catalog.ask(question)

    def join(self, topics: tuple[int, ...], level: int) -> Started[None]:
        """Follow all of ``topics`` at ``level``, or none of them; level none: stop following."""
        started, by_hand = self.placement.join(topics, level), self._levels_by_hand()
        for topic in topics:
            by_hand.pop(topic, None)  # from before a restart: this order is newer
            if level == NONE and self.recovering:
                by_hand[topic] = NONE  # the start may still follow it: it is dropped again then
        return started

    def followed(self) -> Started[None]:
        """Wait until the changes of every topic that can be followed arrive."""
        return self.placement.followed()

    def pin(self, db: str, table: str) -> Started[None]:
        """Keep a table always, and wait until it is held."""
        return self.prefetcher.pin(db, table)

    def unpin(self, db: str, table: str) -> Started[None]:
        """Let placement decide about a table again."""
        self.prefetcher.unpin(db, table)
        return DONE

    def prefer(self, topics: frozenset[int]) -> Started[None]:
        """Follow ``topics`` first, if the budget does not hold all that are watched."""
        for topic in sorted(topics):
            error = self.subscriptions.misnamed(topic, MINIMAL)
            if error is not None:
                raise error
        self.placement.prefer(topics)
        return DONE

    def shortage(self) -> Started[Shortage]:
        """Get the reason why some topics are not followed; empty if all are.

        Raises:
            OverBudget: not even the namespace fits.
        """
        error = self.subscriptions.namespace_failure()
        if error is not None:
            raise error
        return Done(self._shortage())

    def topics(self) -> Done[tuple[TopicInfo, ...]]:
        """Get each topic: its level, the reason for it, and its bytes."""
        return Done(self._topics())

    def stats(self) -> Done[Stats]:
        """Get counters, and the state of the budget."""
        return Done(self._stats())

    def _end(self) -> Effects:
        """Take the effects of this turn; Notify comes before the answers that rest on changes."""
        effects, changes = self.turn.end(), self._replicas.take_changes()
        assert not effects or Notify not in map(type, effects)
        return (Notify(changes), *effects) if changes else effects

    def _by_message(self) -> dict[tuple[Connection, type[Message]], Callable[..., None]]:
        """Return the handlers of messages, by connection and type."""
        subscriptions, catalog = self.subscriptions, self.catalog
        return {
            (Connection.DATA, Delta): self._on_delta,
            (Connection.DATA, Heartbeat): self._on_heartbeat,
            (Connection.DATA, Barrier): subscriptions.on_barrier,
            (Connection.BULK, Chunk): subscriptions.on_chunk,
            (Connection.BULK, Welcome): self._on_bulk_welcome,
            (Connection.BULK, Refused): subscriptions.on_bulk_refused,
            (Connection.CONTROL, Welcome): self._on_welcome,
            (Connection.CONTROL, ServerKeys): self._on_server_keys,
            (Connection.CONTROL, Joined): subscriptions.on_joined,
            (Connection.CONTROL, Refused): subscriptions.on_control_refused,
            **{(Connection.CONTROL, kind): self._on_question for kind in QUESTIONS},
            (Connection.SERVICE, Compared): catalog.on_compared,
            (Connection.SERVICE, Synced): catalog.on_synced,
            (Connection.SERVICE, Validated): catalog.on_validated,
            (Connection.SERVICE, FunctionPage): catalog.on_inspected,
            (Connection.SERVICE, StatisticsPage): catalog.on_inspected,
            (Connection.SERVICE, Reported): catalog.on_reported,
            (Connection.SERVICE, Refused): catalog.on_refused,
            (Connection.PULLS, Pulled): catalog.on_pulled,
            (Connection.PULLS, Refused): catalog.on_pull_refused,
        }

    def _on_server_keys(self, keys: ServerKeys) -> None:
        """Trust the keys that the servers have, and those that they will have next."""
        try:
            hub = checked_keys(keys.hub, keys.hub_next, setting="the hub's keys")
            catalogd: tuple[str, ...] = ()
            if keys.catalogd:
                known = keys.catalogd, keys.catalogd_next
                catalogd = checked_keys(*known, setting="catalogd's keys")
        except ConfigError:
            self._wire_errors += 1
            return
        self.turn.add(Trust(hub, catalogd))

    def _decide(self, fact: OtherFact) -> None:
        match fact:
            case Command():
                if self._pending.start(fact):
                    self.turn.add(Complete(fact))
            case Tick():
                self._tick()
            case DroppedFrame(connection=connection, error=error):
                self._wire_errors += 1
                if connection is Connection.CONTROL:
                    self.subscriptions.on_unreadable(error)
            case Watching(on=on):
                self._replicas.change_feed.enabled = on
                self.placement.watch_all(on=on)
            case ConnectionProblem(text=text):
                self._connection_problem = text
            case Leave():
                self._leave()
            case _:
                assert_never(fact)

    def _on_received(self, received: Received) -> None:
        if received.policy not in (0, self._policy_number):
            return  # it is of another policy, which hides other entries
        message = received.message
        kind = type(message)
        if kind is not Delta:  # ``_on_delta`` notes a delta
            self.turn.came(received)
        handler = self._handlers.get((received.connection, kind))
        if handler is not None:  # else a subscriber has no use for it, such as for Dropped
            handler(message)

    def _tick(self) -> None:
        self.subscriptions.tick()
        self.placement.tick()  # counts the reads, which ``catalog.tick`` reports as uses
        self.catalog.tick()
        self.self_audit.tick()

    def _leave(self) -> None:
        if self.subscriptions.connected:
            self._announce()
        self.turn.add(Send(Connection.CONTROL, Bye(reason="closed")))

    def _set_by_hand(self) -> None:
        """Set the levels that the application had set before a restart.

        Drop topics at once, so that no read is answered from a topic that the application has
        dropped. Join the others once all is current: only then is it known what fits.
        """
        by_hand = self._levels_by_hand()
        for topic, level in [*by_hand.items()]:
            if level == NONE or not self.recovering:
                del by_hand[topic]
                self.placement.join((topic,), level)

    def _levels_by_hand(self) -> dict[int, int]:
        """Return the levels to be set again; none, once the number of topics has changed."""
        if self._by_hand_of != self.view.num_topics:
            self._by_hand_of = self.view.num_topics
            self._by_hand.clear()
        return self._by_hand

    def _on_welcome(self, welcome: Welcome) -> None:
        """Restart if the policy has changed, because positions do not cover what it hid before."""
        self._policy_number = welcome.policy
        if self._on_policy(welcome.policy_digest):
            return
        self._announced = None
        self.subscriptions.on_welcome(welcome)
        self._announce()

    def _on_bulk_welcome(self, welcome: Welcome) -> None:
        """Restart if the chunks of this connection are of another policy."""
        if self._policy_digest is not None:
            self._on_policy(welcome.policy_digest)

    def _on_policy(self, digest: int) -> bool:
        """Note the hub's policy; begin anew, and return True, if held content is of another."""
        is_other = self._policy_digest not in (None, digest)
        self._policy_digest = digest
        known = self._policy is not None and self._policy.digest == digest
        self.view.policy = self._policy if known else None
        if is_other:
            self.turn.add(BeginAnew("the databases that our key may see have changed"))
        return is_other

    def _on_delta(self, delta: Delta) -> None:
        self.turn.trace.note_delta(self.turn.now, delta.topic, delta.to_version)
        if (delta.epoch, delta.start) == self._lineage.accepted != NO_START:
            self._replicas.on_delta(delta)  # as a rule: the hot path
        else:
            self.subscriptions.on_delta(delta)

    def _on_heartbeat(self, heartbeat: Heartbeat) -> None:
        self.subscriptions.on_heartbeat(heartbeat)
        now = self.turn.now
        self.current_at = now - max(self._replicas.agreement.age_s(), self._silent_s())
        alive_at = self.subscriptions.catalog_alive_at
        limit_s = self._settings.max_staleness_s
        if alive_at is not None and limit_s is not None:
            self.view.fresh_until = alive_at + limit_s
        if now >= self._announce_at and self.subscriptions.connected:
            self._announce_at = now + ANNOUNCE_S
            if self._announce(counts=now >= self._counts_at):
                self._counts_at = now + COUNTS_S

    def _announce(self, *, counts: bool = True) -> bool:
        """Announce the driver's facts to the hub if they have changed; return whether they have.

        ``counts``: whether a change of counts alone is announced, too.
        """
        announced, before = self.driver.announced(self._connection_problem), self._announced
        if announced is None or announced == before:
            return False
        if not (counts or differ(announced, before)):
            return False
        self._announced = announced
        self.turn.add(Send(Connection.CONTROL, announced))
        return True

    def _on_question(self, question: ReaderQuestion[Any]) -> None:
        read, now = self._priorities.usage.newest(TABLES_MAX), self.turn.now
        answer = inspected(
            question,
            topics=self._topics(),
            tables=[(name_of(group), topic, max(now - at, 0.0)) for topic, group, at in read],
            messages=[(max(now - one[0], 0.0), one) for one in self.turn.trace.steps()],
            stats=self._stats(),
            driver=self.driver.facts(),
        )
        self.turn.add(Send(Connection.CONTROL, answer))

    def _shortage(self) -> Shortage:
        """Return why some topics are not followed: the budget, else the first topic's reason."""
        budget, num_topics = self._replicas.budget, self.view.num_topics
        missing = sorted(self.view.unfollowed().topics)
        held_bytes = self.placement.bytes_for_all()
        needed_bytes = budget_for(held_bytes)
        if not missing:
            return Shortage(reason="", needed_bytes=needed_bytes)
        why = f"topic {missing[0]}: {self.placement.reason(missing[0])}"
        if held_bytes > budget.limit_bytes:
            have, need = budget.total_bytes // 1024, -(-needed_bytes // 1024)
            why = f"all of them need a budget of {need} KB, and it is {have} KB"
        reason = f"{len(missing)} of {num_topics} topics are not followed: {why}"
        return Shortage(reason=reason, needed_bytes=needed_bytes)

    def _topics(self) -> tuple[TopicInfo, ...]:
        replicas, sizes = self._replicas, self.subscriptions.sizes
        return tuple(
            TopicInfo(
                id=topic,
                level=LEVELS[replicas.level(topic)],
                version=replicas.version(topic),
                bytes=replicas.held_bytes(topic),
                hits=self.view.hits(topic),
                lag_s=replicas.agreement.lag_s(topic),
                full_bytes=sizes.get(topic, 0),
                why=self.placement.reason(topic),
            )
            for topic in topic_ids(self.view.num_topics)
        )

    def _silent_s(self) -> float:
        """Return the seconds since catalogd's last sign of life; infinite: there was none."""
        alive_at = self.subscriptions.catalog_alive_at
        return inf if alive_at is None else max(self.turn.now - alive_at, 0.0)

    def _stats(self) -> Stats:
        subscriptions, resident_set = self.subscriptions, self._replicas.resident_set
        budget, fetcher = self._replicas.budget, self.catalog.fetcher
        pins, outbox = self._priorities.pins, self.outbox
        return Stats(
            budget_bytes=budget.total_bytes,
            held_bytes=budget.held_bytes,
            hits=self.view.hits_all,
            misses=self._misses,
            pulls=fetcher.sent,
            evictions=subscriptions.evictions + resident_set.evicted,
            pulls_not_kept=resident_set.not_kept,
            stale_replies=fetcher.stale_replies,
            prefetches=self.prefetcher.pulls,
            pinned_tables=pins.count,
            pinned_not_held=pins.not_held_count,
            catch_ups=self._replicas.catch_ups,
            wire_errors=self._wire_errors,
            engine_restarts=self.restarts,
            writes_acknowledged=outbox.acknowledged,
            writes_pending=outbox.pending,
            writes_unknown_table=outbox.unknown,
            writes_discarded=outbox.discarded,
            writes_delay_reason=outbox.delay,
            staleness_s=self._silent_s(),
            metastore_problem=self.view.metastore_problem(),
            connection_problem=self._connection_problem or subscriptions.refusal,
            hub=subscriptions.hub_address,
            connected=subscriptions.connected,
            ready=subscriptions.ready(),
            answers_audited=self._audit_counts.audits,
            answers_differing=self._audit_counts.differences,
        )


class _NamespaceWait(Wait[None]):
    """Until memory answers for the namespace, and perhaps for more, as ``is_ready`` says."""

    def __init__(self, subscriptions: Subscriptions, is_ready: Callable[[], bool]) -> None:
        self._subscriptions = subscriptions
        self._is_ready = is_ready

    def poll(self) -> Done[None] | None:
        error = self._subscriptions.namespace_failure()
        if error is not None:
            raise error
        return DONE if self._is_ready() else None

    def keys(self) -> tuple[Key, ...]:
        return self._subscriptions.awaited

    def missing(self) -> str:
        return self._subscriptions.missing()
