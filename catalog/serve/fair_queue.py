"""A queue that is fair between clients: one item of each peer after the other.

Within a peer items leave in the order in which they came. Each belongs to a request of its peer.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class FairQueue(Generic[ItemT]):
    """Items by peer and request id, bounded."""

    def __init__(self, *, items_max: int, per_peer_max: int) -> None:
        self._items_max = items_max
        self._per_peer_max = per_peer_max
        self._queues: OrderedDict[bytes, OrderedDict[int, ItemT]] = OrderedDict()
        """By peer, the one whose turn it is first; none is empty."""
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
        """Remove and return the next item of the next peer that ``may`` have one; None if none."""
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
