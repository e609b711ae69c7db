"""PulledTables: which replies of catalogd callers get, and what is kept of them.

reply ── at or above the read floor of its topic and of the namespace? ──▶ returned, and kept
            no: it is older than an earlier answer, so the table is pulled again
"""

from ...topics.errors import TopicastError
from ...topics.objects.names import table_key
from ...topics.objects.selector import SelectorKind
from ...topics.topic import NAMESPACE, table_topic
from ...topics.wire.messages.catalog import Claimed, Pulled
from ..fetch.fetcher import PartitionRequest, Reply, Result, claims_in_pull, confirm
from ..store.table_snapshot import TableSnapshot, with_own_entry
from ..store.view import ReadFloor, TopicView
from .lineage import Lineage
from .replicas import TopicReplicas


class PulledTables:
    """The held content of pulled tables; decides which replies may be returned, and kept."""

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
