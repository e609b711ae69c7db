"""Streams: the catch-ups that were asked for, and the credit under which they come.

    open ──CatchUp──▶ chunk ──Credit──▶ chunk … ──last topic complete or left──▶ forgotten

Invariant: a stream never has more credit than CREDIT_DEFAULT, nor more than the bytes that are
reserved for its topics, but at least one byte: less would never end.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Final

from ...topics.bulk import CREDIT_DEFAULT
from ...topics.wire.messages import CatchUp, Chunk, Credit, Position, Wanted
from ..store.memory_budget import Account

CREDIT_STEP: Final = CREDIT_DEFAULT // 8  # a Credit for less is not worth its frame

PLACEMENT: Final = -1  # the stream of what no hub sends


@dataclass(slots=True)
class _Stream:
    topics: set[Account]
    credit: int  # granted and not used, as far as we know


class Streams:
    """The open streams by id; ``reserved`` tells what a topic may still bring."""

    def __init__(self, next_id: Callable[[], int], reserved: Callable[[Account], int]) -> None:
        self._next_id = next_id
        self._reserved = reserved
        self._open: dict[int, _Stream] = {}

    def open(self, wanted: Iterable[Wanted]) -> CatchUp:
        """Return the request for all of ``wanted``, in this order."""
        wanted = tuple(wanted)
        stream = self._next_id()
        opened = _Stream({(one.topic, one.level) for one in wanted}, 0)
        self._open[stream] = opened
        opened.credit = self._allowed(opened)
        return CatchUp(stream=stream, credit=opened.credit, wanted=wanted)

    def topics(self, stream: int) -> tuple[Account, ...]:
        """Return what ``stream`` still owes; nothing if it is none of ours."""
        found = self._open.get(stream)
        return tuple(sorted(found.topics)) if found is not None else ()

    def processed(self, stream: int, cost: int) -> Credit | None:
        """Take that a part of ``cost`` bytes was dealt with; return what more may come."""
        found = self._open.get(stream)
        if found is None:
            return None
        found.credit -= cost
        amount = self._allowed(found) - found.credit
        if amount < min(CREDIT_STEP, self._allowed(found)):
            return None
        found.credit += amount
        return Credit(stream=stream, amount=amount)

    def left(self, stream: int, topic: Account) -> bool:
        """Expect ``topic`` no longer in ``stream``; True if nothing else is expected there."""
        found = self._open.get(stream)
        if found is None:
            return False
        found.topics.discard(topic)
        if found.topics:
            return False
        del self._open[stream]
        return True

    def abandon(self, topic: Account) -> tuple[int, ...]:
        """Expect ``topic`` in no stream; return those in which nothing else is expected."""
        owing = [number for number, stream in self._open.items() if topic in stream.topics]
        return tuple(number for number in owing if self.left(number, topic))

    def clear(self) -> None:
        """Expect nothing any more: the connection is another one."""
        self._open.clear()

    def check(self, followed: Container[Account]) -> None:
        """Assert every invariant; only what is followed is expected."""
        for stream in self._open.values():
            assert stream.topics
            assert all(topic in followed for topic in stream.topics)
            assert stream.credit <= CREDIT_DEFAULT

    def _allowed(self, stream: _Stream) -> int:
        return max(min(sum(map(self._reserved, stream.topics)), CREDIT_DEFAULT), 1)


def placement(at: Position) -> Chunk:
    """Return the catch-up of one who holds nothing, as a hub would send it: a horizon ``at``."""
    return Chunk(
        topic=at.topic,
        level=at.level,
        epoch=at.epoch,
        start=0,
        from_version=0,
        to_version=at.version,
        floor=0,
        sent_us=0,
        stream=PLACEMENT,
        sequence=0,
        resume_version=0,
        resume_key=b"",
        entries=(),
        first=True,
        last=True,
        snapshot=True,
        horizon=True,
    )
