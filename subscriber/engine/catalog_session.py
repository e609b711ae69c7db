"""The conversation with catalogd: comparisons of lineage, syncs, validations, pulls, reports.

Pulled ── of the accepted start? ──▶ Fetcher ── whole ──▶ PulledTables ──▶ kept, or pulled again
            no: the Fetcher requests it again
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from ...topics.errors import SourceError, TopicastError
from ...topics.objects.names import Scope, table_key
from ...topics.objects.selector import SelectorKind
from ...topics.requests import RETRY_S, Requests
from ...topics.topic import NAMESPACE, Version, table_topic, topic_ids
from ...topics.turn import Turn
from ...topics.wire.messages.answers import Inspected
from ...topics.wire.messages.catalog import (
    Claimed,
    Compared,
    Pulled,
    Sync,
    Synced,
    Validated,
)
from ...topics.wire.messages.connection import Refused
from ...topics.wire.messages.fields import Message
from ...topics.wire.messages.questions import A, MetastoreQuestion, answer_to
from ...topics.wire.messages.reports import Reported
from ...topics.wire.refusal import Refusal
from ..fetch.fetcher import (
    Fetch,
    Fetcher,
    PartitionRequest,
    Reply,
    Result,
    claims_in_pull,
    confirm,
)
from ..placement.uses import Uses
from ..protocol.commands import DONE, Done, Key, Wait, Wake
from ..protocol.effects import ConnectCatalog, Connection, Effect, Send
from ..replication.lineage import NO_START, Lineage
from ..replication.replicas import TopicReplicas
from ..replication.subscriptions import Subscriptions
from ..store.table_snapshot import TableSnapshot, with_own_entry
from ..store.view import ReadFloor, TopicView, View
from .request_waits import End, QuestionWait, RequestWait, ValidateWait
from .write_outbox import WriteOutbox, WriteSender

W = TypeVar("W", bound=RequestWait[Any])

LAST_WORD_S: Final = 0.25  # before a sync times out: a round trip to catalogd, under load


class CatalogSession:
    """The requests to catalogd, at whatever address it is."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        *,
        turn: Turn[Effect],
        lineage: Lineage,
        read_floor: ReadFloor,
        next_id: Callable[[], int],
        outbox: WriteOutbox,
        uses: Uses,
        wake: Wake,
        name: str = "",
    ) -> None:
        self._turn = turn
        self._subscriptions = subscriptions
        self._replicas = subscriptions.replicas
        self._view = self._replicas.view
        self.fetcher = Fetcher(
            next_id,
            clock=turn,
            send=partial(self._send, Connection.PULLS),
            tables=PulledTables(self._replicas, lineage=lineage, read_floor=read_floor),
            fence=self._replicas.fence,
            wake=wake,
            latency=self._replicas.resident_set.latency,
            name=name,
        )
        self._wake = wake  # polls the commands that wait for a request, once it is answered
        self._uses = uses
        self.reports = WriteSender(outbox, next_id, clock=turn)
        self._lineage = lineage
        self._read_floor = read_floor
        self._next_id = next_id
        self._requests: Requests[RequestWait[Any]] = Requests(next_id, turn)
        self.address = ""  # of catalogd; empty: not known yet

    @property
    def deadline(self) -> float | None:
        """The time at which ``tick`` has work to do."""
        times = [self.fetcher.deadline]
        if self.address:
            times += [self._requests.deadline, self._lineage.compare_at, self.reports.deadline]
            times.append(self._uses.due_at)
        return min((at for at in times if at is not None), default=None)

    def sync(self, scope: Scope, *, within_s: float) -> Wait[None]:
        """Wait until what HMS has committed in ``scope`` by now is visible here.

        ``within_s``: how long the caller waits. Shortly before the end of that time the sync is
        sent again, so that catalogd's answer says what it waits for.
        """
        asks_at = self._turn.now + within_s - min(LAST_WORD_S, within_s / 2)
        end = self._requests.close
        return self._begin(_SyncWait(end, self._subscriptions, scope=scope, asks_at=asks_at))

    def validate(self, epoch: int, claims: tuple[Claimed, ...]) -> Wait[Mapping[int, Version]]:
        """Get the present versions of the tables of stale ``claims``, by index in ``claims``."""
        return self._begin(ValidateWait(self._requests.close, epoch, claims))

    def ask(self, question: MetastoreQuestion[A]) -> Wait[A]:
        """Get an answer that catalogd reads from the metastore: no process holds it."""
        return self._begin(QuestionWait(self._requests.close, question))

    def fetch(self, request: PartitionRequest, *, bytes_max: float) -> Wait[Result]:
        """Get a table from catalogd; a reply of more than ``bytes_max`` is an error."""
        fetch = Fetch(request, bytes_max=bytes_max)
        self.begin_fetch(fetch)
        return _FetchWait(self, self._view, fetch)

    def begin_fetch(self, fetch: Fetch) -> None:
        """Begin to fetch; the fetcher sets the outcome in ``fetch``."""
        self.fetcher.begin(fetch)

    def detach(self, fetch: Fetch) -> None:
        """End the fetch of one caller; a pull that other callers wait for goes on."""
        self.fetcher.detach(fetch)

    def unanswered(self, fetch: Fetch) -> str:
        """Return why a fetch has no outcome yet."""
        why = self.fetcher.refusal(fetch) if self.address else ": its address is not known yet"
        return f"no answer from catalogd for {fetch.request.name}{why}"

    def on_reported(self, reported: Reported) -> None:
        """Note which writes catalogd has, and report those that waited meanwhile."""
        self.reports.on_reported(reported)
        self.tick()

    def settle(self) -> None:
        """Connect to catalogd's present address, and compare lineages if that is due."""
        now = self._turn.now
        address = self._subscriptions.catalog_address
        if address != self.address:
            self.address = address
            self._retry_now()
            self._turn.add(ConnectCatalog(address))
        due_at = self._lineage.compare_at
        if self.address and due_at is not None and now >= due_at:
            versions = self._replicas.versions(self._lineage.accepted[0])
            compare = self._lineage.due(self._next_id(), versions, now=now)
            self._send(Connection.SERVICE, compare)

    def on_compared(self, compared: Compared) -> None:
        """Accept the start that catalogd confirms; then repeat all requests and catch-ups."""
        if self._lineage.on_compared(compared):
            self._retry_now()
            self._replicas.lose_streams()

    def on_synced(self, synced: Synced) -> None:
        """Raise the read floor of each topic that was synced to its version in the answer."""
        if not self._accepts(synced.epoch, synced.start):
            return
        order = topic_ids(self._view.num_topics)
        wait = self._requests.get(synced.request)
        if not isinstance(wait, _SyncWait) or len(synced.versions) != len(order):
            return
        self._end(synced.request)
        every = {t: (synced.epoch, v) for t, v in zip(order, synced.versions, strict=True)}
        wait.positions = every
        for topic in wait.topics():
            self._read_floor.raise_to(topic, every[topic])
            self._replicas.update_access(topic)

    def on_validated(self, validated: Validated) -> None:
        """Complete a validation; drop the answer of a start that is not accepted yet."""
        if not self._accepts(validated.epoch, validated.start):
            return
        wait = self._requests.get(validated.request)
        if isinstance(wait, ValidateWait):
            self._end(validated.request)
            epoch = validated.epoch
            wait.stale = {at: Version(now_at, epoch) for at, now_at in validated.stale}

    def on_inspected(self, answer: Inspected) -> None:
        """Complete a question about the metastore."""
        wait = self._requests.get(answer.request)
        if isinstance(wait, QuestionWait) and isinstance(answer, answer_to(type(wait.question))):
            self._end(answer.request)
            wait.answer = answer

    def on_pulled(self, part: Pulled) -> None:
        """Take a part of a reply; drop a part of a start that is not accepted: it comes again."""
        if self._accepts(part.epoch, part.start):
            self.fetcher.on_pulled(part)

    def on_pull_refused(self, refused: Refused) -> None:
        """Note that catalogd answers a pull later, or never."""
        self.fetcher.on_refused(refused)

    def on_refused(self, refused: Refused) -> None:
        """Send a refused request again later, until its caller times out, or fail it.

        ``on_pull_refused`` does it for pulls.
        """
        self.reports.on_refused(refused)
        wait = self._requests.get(refused.request)
        if wait is not None and wait.refuse(refused):
            self._end(refused.request)
        self._requests.back_off(refused.request, for_s=max(refused.retry_ms / 1000, RETRY_S))

    def tick(self) -> None:
        """Send what is due, first or again."""
        self.fetcher.send_due()
        if not self.address:
            return
        for request, wait in self._requests.due():
            self._send(Connection.SERVICE, wait.message(request))
            if self._turn.now < wait.asks_at:
                self._requests.send_by(request, wait.asks_at)
        for report in self.reports.due():
            self._send(Connection.SERVICE, report)
        used = self._uses.due(now=self._turn.now)
        if used is not None:
            self._send(Connection.SERVICE, used)

    def check(self) -> None:
        """Assert every invariant."""
        self.fetcher.check()

    def _accepts(self, epoch: int, start: int) -> bool:
        """Return whether messages of a start of catalogd may be used."""
        known = (epoch, start) == self._lineage.accepted != NO_START
        return known or self._subscriptions.accepts(epoch, start)

    def _begin(self, wait: W) -> W:
        """Send the request of ``wait``, now and until it is answered."""
        wait.request = self._requests.open(wait)
        self.tick()
        return wait

    def _end(self, request: int) -> None:
        """Stop repeating a request that is answered, and poll its command."""
        self._wake(self._requests.close(request))

    def _retry_now(self) -> None:
        self.fetcher.retry_now()
        self._requests.retry_now()
        self.reports.retry_now()

    def _send(self, connection: Connection, message: Message) -> None:
        """Send catalogd a message; drop it while no address is known: ``settle`` repeats it."""
        if self.address:
            self._turn.add(Send(connection, message))


class PulledTables:
    """The held content of pulled tables; decides which replies may be returned, and kept.

    reply ── at or above the read floor of its topic and of the namespace? ──▶ returned, and kept
                no: it is older than an earlier answer, so the table is pulled again
    """

    def __init__(self, replicas: TopicReplicas, *, lineage: Lineage, read_floor: ReadFloor) -> None:
        self._replicas = replicas
        self._view = replicas.view
        self._lineage = lineage
        self._read_floor = read_floor

    def base(self, db: str, table: str) -> tuple[int, TableSnapshot | None, tuple[Claimed, ...]]:
        """Return the accepted epoch, a table as held in it, and the claims about its topic."""
        topic = table_topic(db, table, self._view.num_topics)
        epoch = self._lineage.accepted[0]
        held, group = self._held(topic, epoch), table_key(db, table)
        if held is None:
            return epoch, None, ()
        claims = claims_in_pull(held, group, reached=self._reached(topic, epoch))
        return epoch, held.content(group), claims

    def take(self, reply: Reply) -> Result | TopicastError | None:
        """Keep the table of ``reply`` if it may be kept; return what its callers get.

        None: the reply is stale.
        """
        part, request = reply.last, reply.request
        if self._stale(part, request):
            return None
        self._confirm(reply)
        self._raise_floor(part.topic, (part.epoch, part.topic_version))
        self._raise_floor(NAMESPACE, (part.epoch, part.namespace_version))
        if not part.found:
            return self._view.missing(request.db, request.table)
        self._replicas.on_pulled(request.db, request.table)
        if isinstance(reply.result, TableSnapshot):
            self._keep(reply, reply.result)
        return reply.result

    def _stale(self, part: Pulled, request: PartitionRequest) -> bool:
        """Return whether the reply that ends with ``part`` is older than an earlier answer."""
        topic = table_topic(request.db, request.table, self._view.num_topics)
        position = (part.epoch, part.topic_version)
        namespace_position = (part.epoch, part.namespace_version)
        if part.topic != topic or position < self._read_floor.of(topic):
            return True
        if part.topic_version < self._replicas.fence.minimum(request.group):
            return True
        if namespace_position < self._read_floor.of(NAMESPACE):
            return True
        if self._replicas.live_at(NAMESPACE) != namespace_position:
            return False
        record = self._view.record(request.db, request.table)
        incarnation = record.incarnation if record is not None else 0
        return (record is not None) != part.found or incarnation != part.incarnation

    def _held(self, topic: int, epoch: int) -> TopicView | None:
        held = self._view.topics.get(topic)
        return None if held is None or held.epoch != epoch else held

    def _reached(self, topic: int, epoch: int) -> int:
        """Return the version of ``epoch`` up to which changes of ``topic`` are in what is held."""
        at = self._replicas.live_at(topic)
        return at[1] if at is not None and at[0] == epoch else 0

    def _confirm(self, reply: Reply) -> None:
        """Raise the tables that the reply confirms to its version."""
        part = reply.last
        held = self._held(part.topic, part.epoch)
        if held is not None:
            reached = self._reached(part.topic, part.epoch)
            confirm(held, reply.confirmed, at=part.topic_version, reached=reached)

    def _keep(self, reply: Reply, content: TableSnapshot) -> None:
        part, key = reply.last, reply.request.group
        if reply.request.selector.kind == SelectorKind.TABLE:
            head = content.entry(key)
            held = self._view.pulled(part.topic)
            if head is None:
                return
            same = held is not None and held.epoch == part.epoch
            base = held.groups.get(key) if held is not None and same else None
            content = with_own_entry(base, head, as_of=part.topic_version, epoch=part.epoch)
        self._replicas.keep(part.topic, key, content, epoch=part.epoch)

    def _raise_floor(self, topic: int, position: tuple[int, int]) -> None:
        self._read_floor.answered(topic, position)
        self._replicas.update_access(topic)


class _SyncWait(RequestWait[None]):
    """Until each followed topic has reached the position that catalogd's answer names.

    A sync of one table waits for the table's topic and the namespace. A sync of a database waits
    for all topics, because its tables may be in any topic.
    """

    def __init__(
        self, end: End, subscriptions: Subscriptions, *, scope: Scope, asks_at: float
    ) -> None:
        super().__init__(end, asks_at=asks_at)
        self.positions: dict[int, tuple[int, int]] | None = None  # None: not answered yet
        self._subscriptions = subscriptions
        self._replicas = subscriptions.replicas
        self._scope = scope

    def message(self, request: int) -> Sync:
        """Return what to send."""
        return Sync(request=request, scope=str(self._scope))

    def topics(self) -> tuple[int, ...]:
        """Return the topics that tables of the scope may be in."""
        if not self._scope.table:
            return tuple(self.positions or ())
        return NAMESPACE, table_topic(*self._scope, self._replicas.view.num_topics)

    def keys(self) -> tuple[Key, ...]:
        """Return this wait, or, once it is answered, a topic that is behind."""
        return super().keys() if self.positions is None else (next(self._behind()),)

    def missing(self) -> str:
        """Return as text which process lags."""
        if self.positions is None:
            return self.why or "catalogd has not answered the sync: topicast status says why"
        wanted = {topic: self.positions[topic] for topic in self._behind()}
        hub = self._subscriptions
        if hub.connected and (late := hub.below(wanted)):
            return (
                f"statestored at {hub.hub_address} has not received what catalogd has sent of "
                f"{len(late)} topics: topicast status says why"
            )
        return f"this subscriber has not reached the sync in {len(wanted)} topics: {hub.missing()}"

    def _result(self) -> Done[None] | None:
        is_behind = self.positions is None or next(self._behind(), None) is not None
        return None if is_behind else DONE

    def final(self, refused: Refused) -> TopicastError | None:
        """Return an error if no events reach catalogd; after another refusal, send it again."""
        if refused.code != Refusal.NO_EVENTS:
            return None
        return SourceError(f"nothing can be synced, because {refused.message}")

    def _behind(self) -> Iterator[int]:
        """Yield the followed topics that have not reached their positions."""
        positions, live_at = self.positions or {}, self._replicas.live_at
        for topic in self.topics():
            at = live_at(topic)
            if topic in self._replicas and (at is None or at < positions.get(topic, (0, 0))):
                yield topic


class _FetchWait(Wait[Result]):
    """Until a pull has brought the table, or memory answers for it again."""

    def __init__(self, session: CatalogSession, view: View, fetch: Fetch) -> None:
        self._session = session
        self._view = view
        self._fetch = fetch

    def poll(self) -> Done[Result] | None:
        outcome = self._fetch.outcome
        if isinstance(outcome, TopicastError):
            raise outcome
        if outcome is not None:
            return Done(outcome)
        request = self._fetch.request
        held = self._view.partitions(request.db, request.table, request.selector)
        return None if held is None else Done(held)

    def keys(self) -> tuple[Key, ...]:
        request, num_topics = self._fetch.request, self._view.num_topics
        return self._fetch, NAMESPACE, table_topic(request.db, request.table, num_topics)

    def missing(self) -> str:
        return self._session.unanswered(self._fetch)

    def close(self) -> None:
        self._session.detach(self._fetch)
