"""ReadThreads: the threads that ask the metastore, so that catalogd's own never waits for it.

Polls have a thread of their own: an event is never behind a load. What comes back is a fact,
put where the owner takes it.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from ..facts import NamesFailed, NamesRead, ReadNames
from ..metastore.pool import Pool
from ..metastore.port import Metastore
from .perform import perform
from .poller import Poll, Polled, PollFailed
from .reads import Read, ReadDone, ReadFailed

Order = Poll | Read | ReadNames
Answer = Polled | PollFailed | ReadDone | ReadFailed | NamesRead | NamesFailed


class ReadThreads:
    """``threads`` loading threads and one for polls; orders in, facts to ``deliver``."""

    def __init__(
        self, make: Callable[[], Metastore], *, threads: int, deliver: Callable[[Answer], None]
    ) -> None:
        """``make`` gives a metastore connection for one thread."""
        self._pool = Pool(make)
        self._deliver = deliver
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._polls: SimpleQueue[Order | None] = SimpleQueue()
        self._threads = [
            threading.Thread(
                target=self._work, args=(self._orders,), name=f"reader-{n}", daemon=True
            )
            for n in range(threads)
        ]
        self._threads.append(
            threading.Thread(target=self._work, args=(self._polls,), name="poller", daemon=True)
        )

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    def order(self, order: Order) -> None:
        """Have ``order`` performed by whichever thread is free."""
        (self._polls if isinstance(order, Poll) else self._orders).put(order)

    def close(self) -> None:
        """Take no more orders; threads that hang in the metastore are left to their timeouts."""
        for _ in self._threads[:-1]:
            self._orders.put(None)
        self._polls.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=0.2)
        self._pool.close()

    def _work(self, orders: "SimpleQueue[Order | None]") -> None:
        while (order := orders.get()) is not None:
            self._deliver(perform(self._pool.mine(), order))
        self._pool.leave()
