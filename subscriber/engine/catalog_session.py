"""CatalogSession: catalogd's half of a member: comparisons of starts, syncs, pulls and their fence.

Pulled ── of the accepted start? ── not older than shown, topic and namespace? ──▶ shown
              no: later, once more          no: stale, pulled again
"""

from collections.abc import Callable

from ...topics.errors import NoSuchObject
from ...topics.objects.names import table_key, table_name
from ...topics.objects.selector import SelectorKind
from ...topics.objects.versions import Version
from ...topics.requests import RETRY_S, Requests
from ...topics.sharding import NAMESPACE, table_topic, topic_ids
from ...topics.wire.messages import (
    Claimed,
    Compared,
    Pulled,
    Refused,
    Reported,
    Sync,
    Synced,
    Validate,
    Validated,
)
from ..fetch.fetcher import Fetcher, Whole
from ..fetch.revalidation import claims_about_mates, confirm
from ..protocol.facts import SERVICE, AskSync, AskTable, AskValidate, ConnectCatalog, Effect, Send
from ..replication.lineage import Lineage
from ..replication.subscriptions import Subscriptions
from ..store.read_floor import ReadFloor
from ..store.table_snapshot import TableSnapshot, with_own_entry
from ..store.view import TopicView
from .write_outbox import Outbox
from .write_sender import WriteSender


class CatalogSession:
    """What is asked of catalogd, at whatever address it is."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        *,
        lineage: Lineage,
        read_floor: ReadFloor,
        next_id: Callable[[], int],
        outbox: Outbox,
        name: str = "",
    ) -> None:
        replicas = subscriptions.replicas
        self.fetcher = Fetcher(next_id, base=self._base, fence=replicas.fence, name=name)
        self.targets: dict[int, dict[int, tuple[int, int]]] = {}  # by sync's ask: where to get
        self.reports = WriteSender(outbox, next_id)
        self._subscriptions = subscriptions
        self._lineage = lineage
        self._read_floor = read_floor
        self._next_id = next_id
        self.verdicts: dict[int, dict[int, Version]] = {}  # by validation's ask: what is stale
        self._syncs: Requests[AskSync | AskValidate] = Requests(next_id)
        self._address = ""

    @property
    def deadline(self) -> float | None:
        """The time at which ``tick`` has work to do."""
        times = [self.fetcher.deadline]
        if self._address:
            times += [self._syncs.deadline, self._lineage.deadline, self.reports.deadline]
        return min((at for at in times if at is not None), default=None)

    def pull(self, ask: AskTable, *, now: float) -> tuple[Effect, ...]:
        """Fetch a table."""
        return self._sent(self.fetcher.ask(ask, now=now))

    def ask(self, ask: AskSync | AskValidate, *, now: float) -> tuple[Effect, ...]:
        """Ask where HMS stands, or what is stale; answered as ``targets``, or ``verdicts``."""
        self._syncs.open(ask, now=now)
        return self.tick(now=now)

    def on_reported(self, reported: Reported, *, now: float) -> tuple[Effect, ...]:
        """Take what catalogd has of our writes, and report those that waited meanwhile."""
        self.reports.on_reported(reported, now=now)
        return self.tick(now=now)

    def forget(self, ask: int) -> None:
        """Nobody waits for the answer to ``ask`` any more."""
        self.targets.pop(ask, None)
        self.verdicts.pop(ask, None)
        for request in self._syncs.find(lambda one: one.id == ask):
            self._syncs.close(request)

    def settle(self, *, now: float) -> tuple[Effect, ...]:
        """After each fact: go where catalogd is, and compare starts if that is due."""
        effects: tuple[Effect, ...] = ()
        address = self._subscriptions.catalog_address
        if address != self._address:
            self._address = address
            self._hasten(now)
            effects = (ConnectCatalog(address),)
        due_at = self._lineage.deadline
        if self._address and due_at is not None and now >= due_at:
            versions = self._subscriptions.replicas.versions(self._lineage.accepted[0])
            compare = self._lineage.due(self._next_id(), versions, now=now)
            effects += (Send(SERVICE, compare),)
        return effects

    def on_compared(self, compared: Compared, *, now: float) -> tuple[Effect, ...]:
        """Accept the start that catalogd confirms, and ask again for what was refused of it."""
        if not self._lineage.on_compared(compared):
            return ()
        self._hasten(now)
        return self._subscriptions.on_accepted(now=now)

    def on_synced(self, synced: Synced, *, now: float) -> tuple[Effect, ...]:
        """Nothing older than these versions is shown from now on, of whatever topic."""
        if not self._subscriptions.accepts(synced.epoch, synced.start, now=now):
            return ()
        order = topic_ids(self._subscriptions.num_topics)
        ask = self._syncs.close(synced.request)
        if ask is None or len(synced.versions) != len(order):
            return ()
        places = {t: (synced.epoch, v) for t, v in zip(order, synced.versions, strict=True)}
        for topic, place in places.items():
            self._read_floor.raise_to(topic, place)
            self._subscriptions.replicas.update_access(topic)
        self.targets[ask.id] = places
        return ()

    def on_validated(self, validated: Validated, *, now: float) -> tuple[Effect, ...]:
        """Learn which claims are stale; a start that is not accepted yet is asked again."""
        if not self._subscriptions.accepts(validated.epoch, validated.start, now=now):
            return ()
        ask = self._syncs.close(validated.request)
        if ask is not None:
            epoch = validated.epoch
            self.verdicts[ask.id] = {at: Version(now_at, epoch) for at, now_at in validated.stale}
        return ()

    def on_pulled(self, part: Pulled, *, now: float) -> tuple[Effect, ...]:
        """Show a whole reply if nothing newer was shown, else pull again."""
        if not self._subscriptions.accepts(part.epoch, part.start, now=now):
            return ()  # repeated once catalogd's start is accepted
        whole, effects = self.fetcher.part(part, now=now)
        if whole is None:
            return self._sent(effects)
        name = whole.db, whole.table
        if self._stale(whole, name):
            return self._sent(effects + self.fetcher.again(part, now=now))
        self._confirm(whole)
        self._show(part.topic, (part.epoch, part.topic_version))
        self._show(NAMESPACE, (part.epoch, part.namespace_version))
        gone = NoSuchObject(table_name(*name))
        result = whole.result if part.found else gone
        if part.found:
            replicas = self._subscriptions.replicas
            replicas.change_feed.on_pulled(*name, replicas.view)
        if isinstance(result, TableSnapshot):
            self._keep(whole, result)
        return self._sent(effects + self.fetcher.answer(part.request, result, now=now))

    def on_pull_refused(self, refused: Refused, *, now: float) -> tuple[Effect, ...]:
        """A pull is not answered now, or never."""
        return self._sent(self.fetcher.on_refused(refused, now=now))

    def on_sync_refused(self, refused: Refused, *, now: float) -> tuple[Effect, ...]:
        """A sync or a report is not answered now; it is asked again, who waits gives up alone."""
        self.reports.on_refused(refused, now=now)
        self._syncs.back_off(refused.request, until=now + max(refused.retry_ms / 1000, RETRY_S))
        return ()

    def tick(self, *, now: float) -> tuple[Effect, ...]:
        """Do what time has brought."""
        missing = "" if self._address else ": its address is not known yet"
        effects = self._sent(self.fetcher.tick(missing=missing, now=now))
        if not self._address:
            return effects
        asked = [Send(SERVICE, _question(request, ask)) for request, ask in self._syncs.due(now)]
        reports = [Send(SERVICE, report) for report in self.reports.due(now=now)]
        return (*effects, *asked, *reports)

    def _stale(self, whole: Whole, name: tuple[str, str]) -> bool:
        part = whole.last
        topic = table_topic(*name, self._subscriptions.num_topics)
        place = (part.epoch, part.topic_version)
        namespace_place = (part.epoch, part.namespace_version)
        if part.topic != topic or place < self._read_floor.of(topic):
            return True
        if part.topic_version < self.fetcher.fence.minimum(table_key(*name)):
            return True
        if namespace_place < self._read_floor.of(NAMESPACE):
            return True
        if not self._subscriptions.replicas.is_at(NAMESPACE, namespace_place):
            return False
        record = self._subscriptions.replicas.view.record(*name)
        incarnation = record.incarnation if record is not None else 0
        return (record is not None) != part.found or incarnation != part.incarnation

    def _base(
        self, db: str, table: str
    ) -> tuple[int, int, TableSnapshot | None, tuple[Claimed, ...]]:
        """Return a table's topic, the accepted epoch, and what is held of the table in it.

        And what is to be claimed of the topic.
        """
        topic, epoch = (
            table_topic(db, table, self._subscriptions.num_topics),
            self._lineage.accepted[0],
        )
        held, group = self._held(topic, epoch), table_key(db, table)
        if held is None:
            return topic, epoch, None, ()
        beside = claims_about_mates(held, group, reached=self._reached(topic, epoch))
        return topic, epoch, held.content(group), beside

    def _held(self, topic: int, epoch: int) -> TopicView | None:
        held = self._subscriptions.replicas.view.topics.get(topic)
        return None if held is None or held.epoch != epoch else held

    def _reached(self, topic: int, epoch: int) -> int:
        """Return the version of ``epoch`` up to which changes of ``topic`` are in what is held."""
        return self._subscriptions.replicas.live_version(topic, epoch)

    def _confirm(self, whole: Whole) -> None:
        """Let what was held before be as new as a reply that says that it has not changed."""
        part = whole.last
        held = self._held(part.topic, part.epoch)
        if held is not None:
            reached = self._reached(part.topic, part.epoch)
            confirm(held, whole.confirmed, at=part.topic_version, reached=reached)

    def _keep(self, whole: Whole, content: TableSnapshot) -> None:
        part, key = whole.last, table_key(whole.db, whole.table)
        if whole.selector.kind == SelectorKind.TABLE:
            head = content.entry(key)
            held = self._subscriptions.replicas.view.pulled(part.topic)
            if head is None:
                return
            same = held is not None and held.epoch == part.epoch
            base = held.groups.get(key) if held is not None and same else None
            content = with_own_entry(base, head, as_of=part.topic_version, epoch=part.epoch)
        self._subscriptions.replicas.keep(part.topic, key, content, epoch=part.epoch)

    def _show(self, topic: int, place: tuple[int, int]) -> None:
        self._read_floor.answered(topic, place)
        self._subscriptions.replicas.update_access(topic)

    def _hasten(self, now: float) -> None:
        self.fetcher.hasten(now=now)
        self._syncs.retry_now(now=now)
        self.reports.hasten(now=now)

    def _sent(self, effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
        """Leave out what cannot be sent while there is no address; it is repeated then."""
        if self._address:
            return effects
        return tuple(effect for effect in effects if not isinstance(effect, Send))


def _question(request: int, ask: AskSync | AskValidate) -> Sync | Validate:
    if isinstance(ask, AskSync):
        return Sync(request=request)
    return Validate(request=request, epoch=ask.epoch, claims=ask.claims)
