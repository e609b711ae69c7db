"""The pulls of all clients, from their arrival until their last part is sent.

    pull ──table is held───▶ its client's turn ──▶ parts, under credit ──▶ last part
      ├────not held────────▶ waits ──loaded──▲
      └─known not to come──▶ refused, with the reason

Each step is fair between clients: loads, answers that begin, and parts that are sent.
"""

from typing import Final

from ...topics.bulk import Sender
from ...topics.errors import UsageError
from ...topics.objects.names import TableId, table_name
from ...topics.objects.values import LOADING
from ...topics.wire.messages import SELECT_TABLE, Pull, Pulled, Refused
from ...topics.wire.refusal import Refusal
from ..model.tables import Namespace, Tables
from .answers import answer
from .pending import FairQueue, Pending, PendingRequests
from .port import Loader, Poller, Reply, RequestCounts

WAITING_MAX: Final = 10_000
WAITING_PER_PEER_MAX: Final = 1_000
WAIT_S_MAX: Final = 5.0  # then it is refused with the reason: a subscriber times out later
LOADS_MAX: Final = 32  # requested at once: twice what is read at once, so that none of it idles
QUEUED_MAX: Final = 10_000
QUEUED_PER_PEER_MAX: Final = 1_000
PARTS_BYTES_MAX: Final = 1 << 20  # sent in one turn, before deltas get theirs
OPENED_MAX: Final = 8  # pulls that begin to be answered in one turn: 0.05 to 3 ms each
STREAMS_MAX: Final = 256  # open at once; each knows the entries that it will send
STALLED_S: Final = 30.0  # without credit: the client is gone, or pulls again
RETRY_MS: Final = 1000
QUEUED_RETRY_MS: Final = 100  # and one more for each pull that is queued before

Waiter = Pending[TableId, Pull]


class TableWaits:
    """The pulls that wait for tables, and which of these tables to load next."""

    def __init__(self) -> None:
        self._pulls: PendingRequests[TableId, Pull] = PendingRequests(
            requests_max=WAITING_MAX, per_peer_max=WAITING_PER_PEER_MAX, wait_s=WAIT_S_MAX
        )
        self._to_load: FairQueue[TableId] = FairQueue(  # of those pulls; some need no load by now
            items_max=WAITING_MAX, per_peer_max=WAITING_PER_PEER_MAX
        )
        self._loading: dict[TableId, None] = {}  # ``next_load`` gave them; each is waited for

    def __len__(self) -> int:
        return len(self._pulls)

    def add(self, peer: bytes, pull: Pull, *, now: float) -> bool:
        """Let a pull wait, once however often it is sent; False if too many do."""
        table = (pull.db, pull.table)
        known = self._pulls.get(peer, pull.request)
        if known is not None and known.key != table:
            self.remove(peer, pull.request)
        if not self._pulls.add(peer, pull.request, key=table, value=pull, now=now):
            return False
        if table not in self._loading:
            self._to_load.put(peer, pull.request, table)
        return True

    def next_load(self) -> TableId | None:
        """Return the table to load next, of the client whose turn it is; None if none now."""
        while len(self._loading) < LOADS_MAX and (found := self._to_load.take()) is not None:
            _, table = found
            if table not in self._loading:
                self._loading[table] = None
                return table
        return None

    def tables(self) -> tuple[TableId, ...]:
        """Return the tables that are waited for."""
        return self._pulls.awaited()

    def take(self, table: TableId, *, only_itself: bool = False) -> tuple[Waiter, ...]:
        """Remove and return the pulls of ``table``, or those of the table without partitions."""
        return self._removed(
            *self._pulls.take(table, lambda pull: not only_itself or pull.selector == SELECT_TABLE)
        )

    def expire(self, now: float) -> tuple[Waiter, ...]:
        """Remove and return the pulls that have waited too long."""
        return self._removed(*self._pulls.expire(now))

    def remove(self, peer: bytes, request: int) -> None:
        """Remove one pull, if it waits."""
        one = self._pulls.remove(peer, request)
        self._removed(*([one] if one else []))

    def remove_peer(self, peer: bytes) -> None:
        """Remove the pulls of ``peer``."""
        self._removed(*self._pulls.remove_peer(peer))

    def check(self) -> None:
        """Assert every invariant."""
        self._pulls.check()
        assert len(self._to_load) <= len(self._pulls)
        assert all(map(self._pulls.is_awaited, self._loading))
        assert self._to_load or all(table in self._loading for table in self._pulls.awaited())

    def _removed(self, *pulls: Waiter) -> tuple[Waiter, ...]:
        for one in pulls:
            self._to_load.remove(one.peer, one.request)
        for table in [table for table in self._loading if not self._pulls.is_awaited(table)]:
            del self._loading[table]
        return pulls


class PullServer:
    """Answers pulls from what is held, and has loaded what is not."""

    def __init__(
        self,
        namespace: Namespace,
        tables: Tables,
        *,
        loader: Loader,
        poller: Poller,
        counts: RequestCounts,
    ) -> None:
        self._namespace = namespace
        self._tables = tables
        self._loader = loader
        self._poller = poller
        self._counts = counts
        self._waits = TableWaits()
        self._requested = False  # a load, since reads were last begun
        self._queue: FairQueue[Pull] = FairQueue(  # to be answered; none of them waits
            items_max=QUEUED_MAX, per_peer_max=QUEUED_PER_PEER_MAX
        )
        self._sender = Sender(STREAMS_MAX)
        self._streams: PendingRequests[None, None] = PendingRequests(  # not sent to their end
            requests_max=STREAMS_MAX, wait_s=STALLED_S
        )
        self._replies: list[Reply] = []

    def __len__(self) -> int:
        return len(self._waits) + len(self._queue)

    @property
    def ready(self) -> bool:
        """Whether a turn has something to send, or to read."""
        return self._sender.ready or self._requested or self._queue.has_item(self._sender.room)

    def on_pull(self, peer: bytes, pull: Pull, *, now: float) -> None:
        """Take a pull in; one that is sent again under its id begins anew."""
        self._close(peer, pull.request)
        if self._is_held(pull):
            self._waits.remove(peer, pull.request)
            self._enqueue(peer, pull)
            return
        self._queue.remove(peer, pull.request)
        if self._refuse_known(peer, pull):
            self._waits.remove(peer, pull.request)
        elif self._waits.add(peer, pull, now=now):
            self._load_some()
        else:
            self._refuse(peer, pull, Refusal.BUSY, why="too many pulls wait", retry_ms=RETRY_MS)

    def on_credit(self, peer: bytes, stream: int, amount: int, *, now: float) -> None:
        """Let a stream send ``amount`` bytes more."""
        self._sender.credit(peer, stream, amount)
        self._streams.renew(peer, stream, now=now)

    def cancel(self, peer: bytes, request: int) -> None:
        """Answer ``request`` no more."""
        self._close(peer, request)
        self._waits.remove(peer, request)
        self._queue.remove(peer, request)

    def remove_peer(self, peer: bytes) -> None:
        """Answer nothing of ``peer`` any more: it has left."""
        self._sender.remove_peer(peer)
        self._streams.remove_peer(peer)
        self._waits.remove_peer(peer)
        self._queue.remove_peer(peer)

    def on_withdrawn(self, table: TableId, error: str) -> None:
        """Refuse the pulls that wait for a table that cannot be read."""
        for one in self._waits.take(table):
            self._refuse(one.peer, one.value, Refusal.UNREADABLE, why=_unreadable(table, error))

    def replies(self, *, now: float, position: tuple[int, int]) -> tuple[Reply, ...]:
        """Return what may leave, now that everything is committed; ``position``: epoch, start."""
        self._requested = False
        for table in self._waits.tables():
            self._end_waits(table)
        for one in self._waits.expire(now):
            why = self._progress((one.value.db, one.value.table))
            self._refuse(one.peer, one.value, Refusal.LOADING, why=why, retry_ms=RETRY_MS)
        self._load_some()
        self._open_some(now, position)
        for stalled in self._streams.expire(now):
            self._sender.cancel(stalled.peer, stalled.request)
        replies, self._replies = self._replies, []
        for sent in self._sender.turn(PARTS_BYTES_MAX):
            if isinstance(sent.message, Pulled) and sent.message.last:
                self._streams.remove(sent.peer, sent.message.request)
            replies.append(Reply(peer=sent.peer, message=sent.message))
        return tuple(replies)

    def check(self) -> None:
        """Assert every invariant."""
        self._waits.check()
        self._streams.check()
        assert len(self._streams) <= len(self._sender) <= STREAMS_MAX

    def _is_held(self, pull: Pull) -> bool:
        itself, whole = held(self._namespace, self._tables, (pull.db, pull.table))
        return itself if pull.selector == SELECT_TABLE else whole

    def _end_waits(self, table: TableId) -> None:
        """Go on with the pulls whose table was loaded, or has turned out not to fit."""
        itself, whole = held(self._namespace, self._tables, table)
        unfit = table in self._tables.unfit_why
        if itself or unfit:
            for one in self._waits.take(table, only_itself=not (whole or unfit)):
                if self._is_held(one.value) or not self._refuse_known(one.peer, one.value):
                    self._enqueue(one.peer, one.value)

    def _enqueue(self, peer: bytes, pull: Pull) -> None:
        if not self._queue.put(peer, pull.request, pull):
            why = "too many pulls wait for their turn"
            retry_ms = QUEUED_RETRY_MS + len(self._queue)
            self._refuse(peer, pull, Refusal.BUSY, why=why, retry_ms=retry_ms)

    def _open_some(self, now: float, position: tuple[int, int]) -> None:
        """Begin to answer some pulls, one client after the other."""
        for _ in range(OPENED_MAX):
            found = self._queue.take(self._sender.room)
            if found is None:
                return
            peer, pull = found
            try:
                parts = answer(self._namespace, self._tables, pull, position=position)
            except UsageError as error:
                why = f"{table_name(pull.db, pull.table)}: {error}"
                self._refuse(peer, pull, Refusal.FILTER, why=why)
                continue
            busy = self._sender.open(peer, pull.request, credit=pull.credit, parts=parts)
            assert busy is None, "there is room"
            self._streams.add(peer, pull.request, key=None, value=None, now=now)

    def _close(self, peer: bytes, request: int) -> None:
        self._sender.cancel(peer, request)
        self._streams.remove(peer, request)

    def _load_some(self) -> None:
        """Request loads for the pulls that wait, one client after the other."""
        while (table := self._waits.next_load()) is not None:
            self._loader.load(table, urgent=True)
            self._requested = True

    def _refuse_known(self, peer: bytes, pull: Pull) -> bool:
        """Refuse a pull that is known to be in vain now, and say why; False if it is not."""
        table = (pull.db, pull.table)
        unfit, unread = self._tables.unfit_why.get(table, ""), self._loader.error(table)
        if unfit:
            why = f"{table_name(*table)} cannot be held: {unfit}"
            self._refuse(peer, pull, Refusal.UNREADABLE, why=why)
        elif unread:
            self._refuse(peer, pull, Refusal.UNREADABLE, why=_unreadable(table, unread))
        elif self._poller.error:
            self._loader.load(table, urgent=True)  # the next pull finds it, if it can be read
            why = f"the metastore does not answer: {self._poller.error}"
            self._refuse(peer, pull, Refusal.SOURCE, why=why, retry_ms=RETRY_MS)
        return bool(unfit or unread or self._poller.error)

    def _progress(self, table: TableId) -> str:
        left = self._loader.partitions_left(table)
        more = f": {left} of its partitions are still to be read" if left else ""
        return f"{table_name(*table)} is not loaded yet{more}"

    def _refuse(
        self, peer: bytes, pull: Pull, code: Refusal, *, why: str, retry_ms: int = 0
    ) -> None:
        self._counts.refused += 1
        refused = Refused(request=pull.request, code=code, message=why, retry_ms=retry_ms)
        self._replies.append(Reply(peer=peer, message=refused))


def _unreadable(table: TableId, error: str) -> str:
    return f"{table_name(*table)}: the metastore cannot read it: {error}"


def held(namespace: Namespace, tables: Tables, table: TableId) -> tuple[bool, bool]:
    """Return whether a table itself, and its partitions too, can be answered from memory."""
    record = namespace.find(table)
    if record is None:
        return True, True  # the answer is that there is none
    value = tables.value(table)
    if value is None or value.incarnation != record.incarnation:
        return False, False
    return True, value.partitions != LOADING
