"""Pool: one metastore connection for each thread that uses it, all closed together."""

import threading
from collections.abc import Callable

from .port import Metastore


class Pool:
    """Makes a metastore for each thread at its first ``mine``, and owns them all."""

    def __init__(self, make: Callable[[], Metastore]) -> None:
        self._make = make
        self._own = threading.local()
        self._lock = threading.Lock()
        self._made: list[Metastore] = []

    def mine(self) -> Metastore:
        """Return the calling thread's metastore."""
        found: Metastore | None = getattr(self._own, "metastore", None)
        if found is None:
            found = self._own.metastore = self._make()
            with self._lock:
                self._made.append(found)
        return found

    def leave(self) -> None:
        """Close the calling thread's connection, also one made since ``close``."""
        found: Metastore | None = getattr(self._own, "metastore", None)
        if found is not None:
            found.close()

    def close(self) -> None:
        """Close every connection; a thread that is still in use makes another, until it leaves."""
        with self._lock:
            made, self._made = self._made, []
        for metastore in made:
            metastore.close()
