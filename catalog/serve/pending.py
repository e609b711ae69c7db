"""Pending requests: by client and id, bounded, each with a time limit.

    add ──▶ waits for its key ──take(key)──▶ answered by the caller
              ├──time limit──▶ expire: refused by the caller
              └──remove, remove_peer──▶ cancelled, or the client has left

    EventWaits: added ──a poll that began later──▶ its events are known ──all published──▶ taken
    TableWaits: added ──its client's turn──▶ its table is loaded ──▶ taken

The caller chooses the keys: a table to load, a poll to end, a job to be done.
Invariants: no key and no peer without a request; requests are in the order of their time limits.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from typing import Final, Generic, TypeVar

from ...topics.clock import Clock
from ...topics.objects.names import EVERYTHING, Scope, TableId
from ...topics.wire.messages.catalog import Pull

WAITING_MAX: Final = 10_000  # of one kind: ten calls of each of 1,000 drivers
WAITING_PER_PEER_MAX: Final = 1_000  # pulls
EVENT_WAIT_S_MAX: Final = 60.0
TABLE_WAIT_S_MAX: Final = 1.0  # then the request is refused with the load's progress, and repeated
LOADS_MAX: Final = 32  # requested at once: twice what is read at once, so that none of it idles

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
IndexT = TypeVar("IndexT")
ItemT = TypeVar("ItemT")

RequestId = tuple[bytes, int]
"""(peer, id of the request): ids are the peer's own."""


@dataclass(slots=True)
class Pending(Generic[KeyT, ValueT]):
    """One request that waits for ``key`` until ``expires_at``, on the clock of a turn."""

    peer: bytes
    request: int
    key: KeyT
    value: ValueT
    expires_at: float


class PendingRequests(Generic[KeyT, ValueT]):
    """The requests of all peers that wait for something of one kind."""

    def __init__(
        self,
        clock: Clock,
        *,
        requests_max: int,
        per_peer_max: int | None = None,
        wait_s: float = inf,
    ) -> None:
        """Take the bounds; ``wait_s`` is the time limit of each request."""
        self._clock = clock
        self._requests_max = requests_max
        self._per_peer_max = requests_max if per_peer_max is None else per_peer_max
        self._wait_s = wait_s
        self._all: dict[RequestId, Pending[KeyT, ValueT]] = {}  # by time limit, the nearest first
        self._by_key: dict[KeyT, dict[RequestId, Pending[KeyT, ValueT]]] = {}
        self._by_peer: dict[bytes, dict[RequestId, Pending[KeyT, ValueT]]] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def deadline(self) -> float:
        """When the time limit of the next request passes; infinite: no request has one."""
        return next((one.expires_at for one in self._all.values()), inf)

    def get(self, peer: bytes, request: int) -> Pending[KeyT, ValueT] | None:
        """Return one request; None if it does not wait."""
        return self._all.get((peer, request))

    def add(self, peer: bytes, request: int, *, key: KeyT, value: ValueT) -> bool:
        """Let a request wait for ``key``; False if too many do.

        A request that waits for ``key`` already keeps its time limit and gets the new value.
        """
        known = self._all.get((peer, request))
        if known is not None and known.key == key:
            known.value = value
            return True
        self.remove(peer, request)
        of_peer = self._by_peer.get(peer, {})
        if len(self._all) >= self._requests_max or len(of_peer) >= self._per_peer_max:
            return False
        one = Pending(peer, request, key, value, self._clock.now + self._wait_s)
        for found in (
            self._all,
            self._by_key.setdefault(key, {}),
            self._by_peer.setdefault(peer, of_peer),
        ):
            found[peer, request] = one
        return True

    def awaited(self) -> tuple[KeyT, ...]:
        """Return the keys that are waited for."""
        return tuple(self._by_key)

    def is_awaited(self, key: KeyT) -> bool:
        """Return whether a request waits for ``key``."""
        return key in self._by_key

    def waiting(self, key: KeyT) -> tuple[Pending[KeyT, ValueT], ...]:
        """Return the requests that wait for ``key``."""
        return tuple(self._by_key.get(key, {}).values())

    def take(
        self, key: KeyT, test: Callable[[ValueT], bool] = lambda _value: True
    ) -> tuple[Pending[KeyT, ValueT], ...]:
        """Remove and return the requests that wait for ``key`` and whose value passes ``test``."""
        waiting = self._by_key.get(key, {}).values()
        return self._remove(one for one in waiting if test(one.value))

    def expire(self) -> tuple[Pending[KeyT, ValueT], ...]:
        """Remove and return the requests whose time limit has passed."""
        if self.deadline > self._clock.now:  # as in almost every turn
            return ()
        return self._remove(
            takewhile(lambda one: one.expires_at <= self._clock.now, self._all.values())
        )

    def take_all(self) -> tuple[Pending[KeyT, ValueT], ...]:
        """Remove and return every request."""
        return self._remove(self._all.values())

    def remove(self, peer: bytes, request: int) -> Pending[KeyT, ValueT] | None:
        """Remove and return one request; None if it does not wait."""
        one = self._all.get((peer, request))
        if one is not None:
            self._remove([one])
        return one

    def remove_peer(self, peer: bytes) -> tuple[Pending[KeyT, ValueT], ...]:
        """Remove and return the requests of ``peer``, which has left."""
        return self._remove(self._by_peer.get(peer, {}).values())

    def check(self) -> None:
        """Assert every invariant."""
        times = [one.expires_at for one in self._all.values()]
        assert times == sorted(times)
        assert len(self._all) <= self._requests_max
        for index in (self._by_key, self._by_peer):
            assert all(index.values())
            assert sum(map(len, index.values())) == len(self._all)
        assert all(len(found) <= self._per_peer_max for found in self._by_peer.values())

    def _remove(self, found: Iterable[Pending[KeyT, ValueT]]) -> tuple[Pending[KeyT, ValueT], ...]:
        removed = tuple(found)
        for one in removed:
            del self._all[one.peer, one.request]
            _discard(self._by_key, one.key, one)
            _discard(self._by_peer, one.peer, one)
        return removed


class EventWaits(PendingRequests[tuple[int, Scope], ValueT]):
    """Requests that wait for the events of all that was committed in a scope before them.

    Requests share the next poll, never a poll that already runs: its read may precede their commit.
    The key of a request is its scope, and the number of the first poll that begins after it.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, requests_max=WAITING_MAX, wait_s=EVENT_WAIT_S_MAX)
        self._last_seq: dict[int, int] = {}
        """By the number of a poll that ended: the arrival number of the last event it brought."""

    def add_once(
        self,
        peer: bytes,
        request: int,
        value: ValueT,
        *,
        scope: Scope = EVERYTHING,
        polls_begun: int,
    ) -> bool:
        """Let a request wait once, however often it is sent; False if too many wait."""
        if self.get(peer, request) is not None:
            return True
        return self.add(peer, request, key=(polls_begun + 1, scope), value=value)

    def wants_poll(self, polls_begun: int) -> bool:
        """Return whether a request waits for a poll that has not begun."""
        return any(poll > polls_begun for poll, _ in self.awaited())

    def take_published(
        self, unpublished: Callable[[Scope], int], *, polled: tuple[int, int]
    ) -> tuple[Pending[tuple[int, Scope], ValueT], ...]:
        """Remove the requests that wait for no unpublished event, and return them.

        Args:
            unpublished: Returns the arrival number of the oldest event in a scope that is not
                published.
            polled: The newest poll after which no event is missing, and the arrival number up to
                which it brought events.
        """
        if not len(self):  # as in almost every turn
            self._last_seq.clear()
            return ()
        awaited = {number for number, _ in self.awaited() if number <= polled[0]}
        self._last_seq = {number: self._last_seq.get(number, polled[1]) for number in awaited}
        ended = (key for key in self.awaited() if key[0] in awaited)
        published = [key for key in ended if self._last_seq[key[0]] < unpublished(key[1])]
        return tuple(one for key in published for one in self.take(key))

    def last_seq(self, poll: int) -> int | None:
        """Return the arrival number of the last event of ``poll``; None: it has not ended."""
        return self._last_seq.get(poll)


def _discard(
    index: dict[IndexT, dict[RequestId, Pending[KeyT, ValueT]]],
    at: IndexT,
    one: Pending[KeyT, ValueT],
) -> None:
    del index[at][one.peer, one.request]
    if not index[at]:
        del index[at]


class FairQueue(Generic[ItemT]):
    """Items by peer and request id, bounded: one item of each peer after the other.

    Within a peer items leave in the order in which they came.
    """

    def __init__(self, *, items_max: int, per_peer_max: int) -> None:
        self._items_max = items_max
        self._per_peer_max = per_peer_max
        self._queues: OrderedDict[bytes, OrderedDict[int, ItemT]] = OrderedDict()
        """The items of each peer; the peer whose turn it is comes first. No peer has none."""
        self._count = 0  # of all items

    def __len__(self) -> int:
        return self._count

    def put(self, peer: bytes, request: int, item: ItemT) -> bool:
        """Add the item of a request, or replace it; False if there are too many."""
        queue = self._queues.get(peer, OrderedDict[int, ItemT]())
        if request not in queue:
            if self._count >= self._items_max or len(queue) >= self._per_peer_max:
                return False
            self._count += 1
        self._queues.setdefault(peer, queue)[request] = item
        return True

    def has_item(self, may: Callable[[bytes], bool]) -> bool:
        """Return whether ``take`` would return an item."""
        return any(map(may, self._queues))

    def take(self, may: Callable[[bytes], bool] = lambda _peer: True) -> tuple[bytes, ItemT] | None:
        """Remove and return the next item of the next peer that ``may`` have it, or None."""
        for peer, queue in self._queues.items():
            if may(peer):
                _, item = queue.popitem(last=False)
                self._count -= 1
                self._queues.move_to_end(peer)
                if not queue:
                    del self._queues[peer]
                return peer, item
        return None

    def remove(self, peer: bytes, request: int) -> None:
        """Remove the item of one request, if it is there."""
        queue = self._queues.get(peer, OrderedDict[int, ItemT]())
        if request in queue:
            del queue[request]
            self._count -= 1
            if not queue:
                del self._queues[peer]

    def remove_peer(self, peer: bytes) -> None:
        """Remove the items of ``peer``, which has left."""
        self._count -= len(self._queues.pop(peer, ()))


Waiter = Pending[TableId, Pull]


class TableWaits:
    """The pulls that wait for tables, and which of these tables to load next."""

    def __init__(self, clock: Clock) -> None:
        self._pulls: PendingRequests[TableId, Pull] = PendingRequests(
            clock,
            requests_max=WAITING_MAX,
            per_peer_max=WAITING_PER_PEER_MAX,
            wait_s=TABLE_WAIT_S_MAX,
        )
        self._to_load: FairQueue[TableId] = FairQueue(  # of those pulls; some need no load by now
            items_max=WAITING_MAX, per_peer_max=WAITING_PER_PEER_MAX
        )
        self._loading: dict[TableId, None] = {}  # ``next_load`` gave them; each is waited for

    def __len__(self) -> int:
        return len(self._pulls)

    @property
    def deadline(self) -> float:
        """When the next pull has waited too long; infinite: none waits."""
        return self._pulls.deadline

    def add(self, peer: bytes, pull: Pull) -> bool:
        """Let a pull wait once, however often it is sent; False if too many wait."""
        table = (pull.db, pull.table)
        known = self._pulls.get(peer, pull.request)
        if known is not None and known.key != table:
            self.remove(peer, pull.request)
        if not self._pulls.add(peer, pull.request, key=table, value=pull):
            return False
        if table not in self._loading:
            self._to_load.put(peer, pull.request, table)
        return True

    def awaits(self, table: TableId) -> bool:
        """Return whether a pull waits for ``table``."""
        return self._pulls.is_awaited(table)

    def load_again(self, pending: Callable[[TableId], bool]) -> None:
        """Have a table loaded again if its load has ended and pulls still wait for the table.

        ``pending``: whether something of a table is being read. Cost: O(LOADS_MAX).
        """
        for table in [table for table in self._loading if not pending(table)]:
            del self._loading[table]
            for one in self._pulls.waiting(table):
                self._to_load.put(one.peer, one.request, table)

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

    def take(
        self, table: TableId, test: Callable[[Pull], bool] = lambda _pull: True
    ) -> tuple[Waiter, ...]:
        """Remove and return the pulls of ``table`` that pass ``test``."""
        return self._removed(*self._pulls.take(table, test))

    def expire(self) -> tuple[Waiter, ...]:
        """Remove and return the pulls that have waited too long."""
        return self._removed(*self._pulls.expire())

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
