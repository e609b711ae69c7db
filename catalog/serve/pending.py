"""Requests that wait for something: by client and id, bounded, each with a time limit.

    add ──▶ waits for its key ──take(key)──▶ answered by the caller
              ├──time limit──▶ expire: refused by the caller
              └──remove, remove_peer──▶ cancelled, or the client has left

What a key stands for is the caller's: a table to load, a poll to end, a job to be done.
Invariants: no key and no peer without a request; requests are in the order of their time limits.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

RequestId = tuple[bytes, int]
"""(peer, id of the request): ids are the peer's own."""


@dataclass(slots=True)
class Pending(Generic[KeyT, ValueT]):
    """One request that waits for ``key`` until ``expires_at``, on the caller's clock."""

    peer: bytes
    request: int
    key: KeyT
    value: ValueT
    expires_at: float


class PendingRequests(Generic[KeyT, ValueT]):
    """The requests of all peers that wait for something of one kind."""

    def __init__(
        self, *, requests_max: int, per_peer_max: int | None = None, wait_s: float = inf
    ) -> None:
        """Take the bounds; ``wait_s`` is the time limit of each request."""
        self._requests_max = requests_max
        self._per_peer_max = requests_max if per_peer_max is None else per_peer_max
        self._wait_s = wait_s
        self._all: dict[RequestId, Pending[KeyT, ValueT]] = {}  # by time limit, the nearest first
        self._by_key: dict[KeyT, dict[RequestId, Pending[KeyT, ValueT]]] = {}
        self._by_peer: dict[bytes, dict[RequestId, Pending[KeyT, ValueT]]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def get(self, peer: bytes, request: int) -> Pending[KeyT, ValueT] | None:
        """Return one request; None if it does not wait."""
        return self._all.get((peer, request))

    def add(self, peer: bytes, request: int, *, key: KeyT, value: ValueT, now: float) -> bool:
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
        one = Pending(peer, request, key, value, now + self._wait_s)
        for found in (
            self._all,
            self._by_key.setdefault(key, {}),
            self._by_peer.setdefault(peer, of_peer),
        ):
            found[peer, request] = one
        return True

    def renew(self, peer: bytes, request: int, *, now: float) -> None:
        """Start the time limit of ``request`` anew, if it waits."""
        one = self._all.pop((peer, request), None)
        if one is not None:
            one.expires_at = now + self._wait_s
            self._all[peer, request] = one

    def awaited(self) -> tuple[KeyT, ...]:
        """Return the keys that are waited for."""
        return tuple(self._by_key)

    def is_awaited(self, key: KeyT) -> bool:
        """Return whether a request waits for ``key``."""
        return key in self._by_key

    def take(
        self, key: KeyT, test: Callable[[ValueT], bool] = lambda _value: True
    ) -> tuple[Pending[KeyT, ValueT], ...]:
        """Remove and return the requests that wait for ``key`` and whose value passes ``test``."""
        waiting = self._by_key.get(key, {}).values()
        return self._remove([one for one in waiting if test(one.value)])

    def expire(self, now: float) -> tuple[Pending[KeyT, ValueT], ...]:
        """Remove and return the requests whose time limit has passed."""
        expired: list[Pending[KeyT, ValueT]] = []
        for one in self._all.values():
            if one.expires_at > now:
                break
            expired.append(one)
        return self._remove(expired)

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


IndexT = TypeVar("IndexT")


def _discard(
    index: dict[IndexT, dict[RequestId, Pending[KeyT, ValueT]]],
    at: IndexT,
    one: Pending[KeyT, ValueT],
) -> None:
    del index[at][one.peer, one.request]
    if not index[at]:
        del index[at]
