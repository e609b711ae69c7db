"""Looking: a thread that reads again and again, while a test breaks or turns something."""

import threading
from collections.abc import Callable, Sequence

from topicast.subscriber import Subscriber
from topicast.topics.backports import Self

Revision = tuple[int, ...]


class Looker:
    """Calls ``look`` for each of ``names`` from ``with`` to its end.

    ``wrong`` lists what was seen after something newer, what was held above the budget, and the
    error that ended it.
    """

    def __init__(
        self,
        catalog: Subscriber,
        names: Sequence[str],
        *,
        look: Callable[[Subscriber, str], Revision],
    ) -> None:
        self.wrong: list[object] = []
        self.reads = 0
        self._catalog = catalog
        self._names = names
        self._look_at = look
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(40)

    def _look(self) -> None:
        newest: dict[str, Revision] = {}
        while not self._done.wait(0.005):
            for name in self._names:
                try:
                    found, stats = self._look_at(self._catalog, name), self._catalog.stats()
                except Exception as error:  # noqa: BLE001 - a thread of a test reports it
                    self.wrong.append(error)
                    return
                self.reads += 1
                if stats.held_bytes > stats.budget_bytes:
                    self.wrong.append(f"held_bytes={stats.held_bytes}")
                before = newest.get(name, found)
                if any(one < other for one, other in zip(found, before, strict=True)):
                    self.wrong.append((name, before, found))
                newest[name] = tuple(map(max, found, before))
