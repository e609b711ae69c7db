"""Asking: the catch-ups that a hub wants, and the streams in which its publisher sends them.

    want ──one CatchUp for all──▶ waits ──first chunk──▶ runs ──last chunk──▶ left

Invariant: a stream without a topic is forgotten, so what still comes of it is cancelled.
"""

from dataclasses import dataclass
from typing import Final

from ..topics.bulk import CREDIT_DEFAULT
from ..topics.follower import SILENCE_S
from ..topics.wire.messages import CatchUp, Wanted

_WAITS: Final = True  # the topic's turn in the stream has not come
_RUNS: Final = False


@dataclass(slots=True)
class Stream:
    """One answer of the publisher, and the topics that it still owes."""

    heard_at: float
    topics: dict[int, bool]


class Asking:
    """What is wanted, and what is on its way."""

    def __init__(self) -> None:
        self._wants: dict[int, Wanted] = {}
        self._streams: dict[int, Stream] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._streams)

    def want(self, wanted: Wanted) -> None:
        """Ask for this with the next request; the last word on a topic stands."""
        self._wants[wanted.topic] = wanted

    def ask(self, *, now: float) -> CatchUp | None:
        """Return one request for everything that is wanted; None if nothing is."""
        if not self._wants:
            return None
        self._last += 1
        self._streams[self._last] = Stream(now, dict.fromkeys(self._wants, _WAITS))
        wanted, self._wants = tuple(self._wants.values()), {}
        return CatchUp(stream=self._last, credit=CREDIT_DEFAULT, wanted=wanted)

    def heard(self, stream: int, topic: int, *, now: float) -> bool:
        """Take a sign that ``stream`` flows, at ``topic``; False: it is none of ours any more."""
        found = self._streams.get(stream)
        if found is None:
            return False
        found.heard_at = now
        if topic in found.topics:
            found.topics[topic] = _RUNS
        return True

    def owed(self, stream: int) -> tuple[int, ...]:
        """Return the topics that ``stream`` still owes."""
        found = self._streams.get(stream)
        return tuple(found.topics) if found else ()

    def waits_since(self, stream: int, topic: int, *, now: float) -> float | None:
        """Return when the stream was last heard in which ``topic`` still waits for its turn.

        None when the turn has come, or the stream has fallen silent.
        """
        found = self._streams.get(stream)
        if found is None or found.topics.get(topic) is not _WAITS:
            return None
        return found.heard_at if now < found.heard_at + SILENCE_S else None

    def left(self, stream: int, topic: int) -> None:
        """Expect ``topic`` no longer in ``stream``: it is complete, or asked for elsewhere."""
        found = self._streams.get(stream)
        if found is not None:
            found.topics.pop(topic, None)
            if not found.topics:
                del self._streams[stream]

    def clear(self) -> None:
        """Expect and want nothing any more."""
        self._wants.clear()
        self._streams.clear()

    def check(self) -> None:
        """Assert every invariant."""
        assert all(stream.topics for stream in self._streams.values())
        assert all(number <= self._last for number in self._streams)
