"""FairQueue: pulls that can be answered, and wait for the turn of who asked.

asked ──▶ its peer's queue ──one of each peer after the other──▶ answered
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ...topics.wire.messages import Pull

QUEUED_MAX: Final = 10_000
QUEUED_PER_PEER_MAX: Final = 1_000


class FairQueue:
    """Queues of pulls, one for each peer."""

    def __init__(self) -> None:
        self._queues: OrderedDict[bytes, OrderedDict[int, Pull]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, peer: bytes, pull: Pull) -> bool:
        """Take a pull in, in the place of an older one with its id; False if there are too many."""
        queue = self._queues.get(peer, OrderedDict[int, Pull]())
        if pull.request not in queue:
            if self._count >= QUEUED_MAX or len(queue) >= QUEUED_PER_PEER_MAX:
                return False
            self._count += 1
        self._queues.setdefault(peer, OrderedDict())[pull.request] = pull
        return True

    def waits(self, may: Callable[[bytes], bool]) -> bool:
        """Tell whether ``take`` would return a pull."""
        return any(map(may, self._queues))

    def take(self, may: Callable[[bytes], bool]) -> tuple[bytes, Pull] | None:
        """Return the next pull, of the next peer that ``may`` be answered; None if none may."""
        for peer, queue in self._queues.items():
            if may(peer):
                _, pull = queue.popitem(last=False)
                self._count -= 1
                self._queues.move_to_end(peer)
                if not queue:
                    del self._queues[peer]
                return peer, pull
        return None

    def cancel(self, peer: bytes, request: int) -> None:
        """Let ``request`` wait no longer."""
        queue = self._queues.get(peer, OrderedDict[int, Pull]())
        if queue.pop(request, None) is not None:
            self._count -= 1
            if not queue:
                del self._queues[peer]

    def forget(self, peer: bytes) -> None:
        """Let nothing of ``peer`` wait any longer."""
        self._count -= len(self._queues.pop(peer, {}))
