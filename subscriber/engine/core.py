"""Core: one subscriber as a pure state machine; composes the others, owns what they share.

    Received ──▶ starts: accepted? ──▶ levels: position, budget ──▶ view ──▶ readers
    Ask   ──▶ memory, else pulls ──▶ fence: not older than shown ──▶ Answer

Invariant: whatever is answered is at or above everything that was answered before, topic by
topic; memory answers only for topics that are open, pulls only what passed the fence.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, count
from typing import Self, assert_never

from ...topics.errors import NoSuchObject
from ...topics.sharding import NAMESPACE
from ...topics.wire.messages import (
    Barrier,
    Bye,
    Chunk,
    Compared,
    Delta,
    Heartbeat,
    Inspect,
    Joined,
    Message,
    Pulled,
    Refused,
    Reported,
    Synced,
    Validated,
    Welcome,
)
from ..config import Settings
from ..placement.controller import PlacementController
from ..placement.prefetch import Prefetcher
from ..placement.priorities import Priorities
from ..protocol.facts import (
    BULK,
    CONTROL,
    DATA,
    PULLS,
    SERVICE,
    Answer,
    Ask,
    AskDrop,
    AskJoin,
    AskNamespace,
    AskPin,
    AskReady,
    AskStats,
    AskSync,
    AskTable,
    AskTopics,
    AskUnpin,
    AskValidate,
    Effect,
    Fact,
    Fail,
    Leave,
    Received,
    Send,
    Stats,
    Tick,
    Undecodable,
    Watching,
)
from ..protocol.pending import Wait, Waits
from ..replication.hub_session import HubSession
from ..replication.lineage import Lineage
from ..replication.replicas import TopicReplicas
from ..replication.subscriptions import Subscriptions
from ..store.memory_budget import Budget
from ..store.pin_rules import PinRules
from ..store.read_floor import ReadFloor
from ..store.view import View, heads_within
from .catalog_session import CatalogSession
from .driver import Driver, Facts
from .introspection import Introspection, answer
from .write_outbox import Outbox


class Core:
    """Decides everything that a subscriber does; ``view`` is what readers read."""

    def __init__(
        self,
        hubs: tuple[str, ...],
        *,
        budget_bytes: int,
        name: str,
        new_id: Callable[[], bytes],
        max_staleness_s: float | None = None,
        automatic: bool = False,
        always: tuple[str, ...] = (),
        never: tuple[str, ...] = (),
        outbox: Outbox | None = None,
        driver_facts: Callable[[], Facts] | None = None,
    ) -> None:
        """Begin without a connection; the first Tick orders one.

        Args:
            hubs: Addresses, the preferred first; effects name them by place.
            budget_bytes: What may be held.
            name: Under which operators see this subscriber.
            new_id: Gives 16 random bytes, never the same.
            max_staleness_s: After so long without word from catalogd memory is too old.
            automatic: Choose levels by use; else follow all that fits in full, from the start.
            always: Patterns of tables that are pinned.
            never: Patterns of tables that are banned; they count before ``always``.
            outbox: The writes to be reported; None: there are none.
            driver_facts: Returns what operators see of the application; None: nothing.
        """
        ids, registration = count(1), new_id()
        self.view = View(heads_max=heads_within(budget_bytes))
        self.driver = Driver(self.view, driver_facts)
        self.outbox = outbox if outbox is not None else Outbox(driver=registration, metastore="")
        self.wire_errors = 0
        self.misses = 0
        self._max_staleness_s = max_staleness_s
        self._lineage = Lineage()
        self._read_floor = ReadFloor()
        self._waits = Waits()
        priorities = Priorities(PinRules(always, never), self.view, automatic=automatic)
        session = HubSession(
            hubs, name=name, registration=registration, next_id=ids.__next__, new_nonce=new_id
        )
        self._subscriptions = Subscriptions(
            session,
            replicas=TopicReplicas(
                self.view,
                Budget(budget_bytes),
                priorities,
                session=session,
                read_floor=self._read_floor,
                next_id=ids.__next__,
            ),
            lineage=self._lineage,
            automatic=automatic,
        )
        self._service = CatalogSession(
            self._subscriptions,
            lineage=self._lineage,
            read_floor=self._read_floor,
            next_id=ids.__next__,
            outbox=self.outbox,
            name=name,
        )
        replicas = self._subscriptions.replicas
        self.placement = PlacementController(
            self._subscriptions,
            priorities,
            replicas=replicas,
            resident_set=replicas.resident_set,
            latency=self._service.fetcher.latency,
            automatic=automatic,
        )
        self.prefetcher = Prefetcher(
            self._subscriptions,
            priorities,
            replicas=replicas,
            resident_set=replicas.resident_set,
            placement=self.placement,
            client=self._service,
        )
        self._telling = Introspection(
            self._subscriptions, self._service, placement=self.placement, prefetcher=self.prefetcher
        )
        self._handlers = self._by_message()

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        new_id: Callable[[], bytes],
        outbox: Outbox | None = None,
        driver_facts: Callable[[], Facts] | None = None,
    ) -> Self:
        """Return a member that was set up as an application said."""
        return cls(
            settings.statestores,
            budget_bytes=settings.budget_bytes,
            name=settings.name,
            new_id=new_id,
            max_staleness_s=settings.max_staleness_s,
            automatic=settings.automatic,
            always=settings.always,
            never=settings.never,
            outbox=outbox,
            driver_facts=driver_facts,
        )

    @property
    def watched(self) -> bool:
        """Whether somebody is told what changes."""
        return self._subscriptions.replicas.change_feed.enabled

    @property
    def deadline(self) -> float:
        """The time at which a Tick has work to do."""
        times = [self._subscriptions.deadline, self._service.deadline, self._waits.deadline]
        times += [self.placement.deadline, self.prefetcher.deadline]
        return min(at for at in times if at is not None)

    def handle(self, fact: Fact, *, now: float) -> tuple[Effect, ...]:
        """Decide what ``fact`` means."""
        return self.handle_all((fact,), now=now)

    def handle_all(self, facts: Iterable[Fact], *, now: float) -> tuple[Effect, ...]:
        """Decide what ``facts``, which came at once, mean; what they lead to is settled once."""
        effects = tuple(chain.from_iterable([self._decide(fact, now) for fact in facts]))
        effects += self._subscriptions.settle(now=now)
        effects += self._service.settle(now=now)
        effects = self.prefetcher.settle(effects, now=now)
        effects += self._waits.settle(now=now)
        return (
            self._subscriptions.replicas.take_changes() + effects
        )  # before answers that rest on it

    def check(self) -> None:
        """Assert every invariant."""
        self._subscriptions.check()
        self._service.fetcher.check()
        self.prefetcher.check()

    def _by_message(self) -> dict[tuple[str, type], Callable[..., tuple[Effect, ...]]]:
        """Return who takes a message, by its channel and its kind."""
        subscriptions, service = self._subscriptions, self._service
        return {
            (DATA, Delta): subscriptions.on_delta,
            (DATA, Heartbeat): self._on_heartbeat,
            (DATA, Barrier): subscriptions.on_barrier,
            (BULK, Chunk): subscriptions.on_chunk,
            (BULK, Refused): subscriptions.on_bulk_refused,
            (CONTROL, Welcome): subscriptions.on_welcome,
            (CONTROL, Joined): subscriptions.on_joined,
            (CONTROL, Refused): subscriptions.on_control_refused,
            (CONTROL, Inspect): self._on_inspect,
            (SERVICE, Compared): service.on_compared,
            (SERVICE, Synced): service.on_synced,
            (SERVICE, Validated): service.on_validated,
            (SERVICE, Reported): service.on_reported,
            (SERVICE, Refused): service.on_sync_refused,
            (PULLS, Pulled): service.on_pulled,
            (PULLS, Refused): service.on_pull_refused,
        }

    def _decide(self, fact: Fact, now: float) -> tuple[Effect, ...]:
        match fact:
            case Received(channel=channel, message=message):
                return self._on_heard(channel, message, now)
            case Tick():
                effects = self._subscriptions.tick(now=now) + self._service.tick(now=now)
                return effects + self.placement.tick(now=now)
            case Undecodable():
                self.wire_errors += 1
                return ()
            case Watching(on=on):
                self._subscriptions.replicas.change_feed.enabled = on
                return self.placement.watch_all(on=on, now=now)
            case Leave():
                return (Send(CONTROL, Bye(reason="closed")),)
            case _:
                return self._on_ask(fact, now)

    def _on_heard(self, channel: str, message: Message, now: float) -> tuple[Effect, ...]:
        handler = self._handlers.get((channel, type(message)))
        if handler is None:
            return ()  # well formed and of no use here: Dropped, the welcome on bulk
        return handler(message, now=now)

    def _on_heartbeat(self, heartbeat: Heartbeat, *, now: float) -> tuple[Effect, ...]:
        effects = self._subscriptions.on_heartbeat(heartbeat, now=now)
        heard_at = self._subscriptions.catalog_heard_at
        if heard_at is not None and self._max_staleness_s is not None:
            self.view.fresh_until = heard_at + self._max_staleness_s
        return effects

    def _on_inspect(self, asked: Inspect, *, now: float) -> tuple[Effect, ...]:
        topics = partial(self._telling.topics, now)
        told = answer(
            asked, topics=topics, stats=lambda: self._stats(now), driver=self.driver.facts()
        )
        return (Send(CONTROL, told),)

    def _on_ask(self, ask: Ask, now: float) -> tuple[Effect, ...]:  # noqa: C901 - dispatch by match
        match ask:
            case AskTable():
                return self._on_ask_table(ask, now)
            case AskReady() | AskNamespace():
                return self._on_ask_ready(ask)
            case AskSync():
                return self._on_ask_sync(ask, now)
            case AskValidate():
                return self._on_ask_validate(ask, now)
            case AskJoin():
                effects, wait = self.placement.join(ask, now=now)
                self._waits.add(wait)
                return effects
            case AskDrop():
                return self.placement.drop(ask)
            case AskPin():
                return self._on_ask_pin(ask)
            case AskUnpin(id=number, db=db, table=table):
                self.prefetcher.unpin(db, table)
                return (Answer(number, None),)
            case AskTopics(id=number):
                return (Answer(number, self._telling.topics(now)),)
            case AskStats(id=number):
                return (Answer(number, self._stats(now)),)
            case _:
                assert_never(ask)

    def _on_ask_table(self, ask: AskTable, now: float) -> tuple[Effect, ...]:
        try:
            content = self.view.partitions(ask.db, ask.table, ask.selector)
        except NoSuchObject as error:
            return (Fail(ask.id, error),)
        if content is not None:
            return (Answer(ask.id, content),)
        self.misses += 1
        effects = self.placement.on_first_read(ask.db, ask.table, now=now)
        return effects + self._service.pull(ask, now=now)

    def _on_ask_ready(self, ask: AskReady | AskNamespace) -> tuple[Effect, ...]:
        subscriptions = self._subscriptions
        namespace_only = isinstance(ask, AskNamespace)
        self._waits.add(
            Wait(
                id=ask.id,
                give_up_at=ask.give_up_at,
                done=lambda: (
                    subscriptions.replicas.is_settled(NAMESPACE)
                    if namespace_only
                    else subscriptions.ready()
                ),
                failure=subscriptions.namespace_failure,
                missing=subscriptions.missing,
            )
        )
        return ()

    def _on_ask_pin(self, ask: AskPin) -> tuple[Effect, ...]:
        outcome = self.prefetcher.pin(ask)
        if isinstance(outcome, Fail):
            return (outcome,)
        self._waits.add(outcome)
        return ()

    def _on_ask_sync(self, ask: AskSync, now: float) -> tuple[Effect, ...]:
        replicas, targets = self._subscriptions.replicas, self._service.targets

        def behind() -> list[int]:
            places = targets[ask.id]
            return [t for t in replicas.topics if not replicas.reached(t, places.get(t, (0, 0)))]

        def missing() -> str:
            if ask.id not in targets:
                return "catalogd has not answered the sync: topicast status says why"
            return (
                f"{len(behind())} topics have not reached the sync: {self._subscriptions.missing()}"
            )

        self._waits.add(
            Wait(
                id=ask.id,
                give_up_at=ask.give_up_at,
                done=lambda: ask.id in targets and not behind(),
                failure=lambda: None,
                missing=missing,
                finish=lambda: self._service.forget(ask.id),
            )
        )
        return self._service.ask(ask, now=now)

    def _on_ask_validate(self, ask: AskValidate, now: float) -> tuple[Effect, ...]:
        verdicts = self._service.verdicts
        self._waits.add(
            Wait(
                id=ask.id,
                give_up_at=ask.give_up_at,
                done=lambda: ask.id in verdicts,
                failure=lambda: None,
                missing=lambda: "catalogd has not answered the validation",
                result=lambda: verdicts[ask.id],
                finish=lambda: self._service.forget(ask.id),
            )
        )
        return self._service.ask(ask, now=now)

    def _stats(self, now: float) -> Stats:
        return self._telling.stats(now, misses=self.misses, wire_errors=self.wire_errors)
