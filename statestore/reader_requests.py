"""Readers: what a reader asks of a hub, and what it is answered.

Join ─▶ Joined    Drop ─▶ Dropped    Status ─▶ nothing    CatchUp ─▶ a stream, Credit, Cancel
"""

from collections.abc import Callable
from typing import Final

from ..topics.bulk import Sender, chunks
from ..topics.wire.messages import (
    DENIED,
    Cancel,
    CatchUp,
    Credit,
    Drop,
    Dropped,
    Join,
    Joined,
    Message,
    Refused,
    Status,
)
from ..topics.wire.refusal import Refusal, refuse
from . import replies as answers
from .ingest import Ingest
from .membership import Member, Members

WAIT_MS: Final = 250  # before what needs a publisher first is asked again

Question = Join | Drop | Status | CatchUp | Credit | Cancel


class Readers:
    """The side of a hub that faces its readers; it keeps nothing of its own."""

    def __init__(
        self,
        ingest: Ingest,
        members: Members,
        *,
        sender: Sender,
        place: Callable[[], tuple[int, int]],
    ) -> None:
        self._ingest = ingest
        self._members = members
        self._sender = sender
        self._place = place

    def answer(self, member: Member, peer: bytes, question: Question) -> Message | None:
        """Do what is asked and return the answer, which may be a refusal; None: there is none."""
        match question:
            case Join():
                return self._on_join(member, question)
            case Drop(request=request, topics=topics):
                self._members.drop(member, topics)
                return Dropped(request=request)
            case Status():
                return self._on_status(member, question)
            case CatchUp():
                return self._on_catch_up(peer, question)
            case Credit(stream=stream, amount=amount):
                self._sender.credit(peer, stream, amount)
            case Cancel(stream=stream):
                self._sender.cancel(peer, stream)
        return None

    def _on_join(self, member: Member, message: Join) -> Message:
        if not self._ingest.slots:
            return refuse(
                Refusal.RETRY, "no catalogd has announced itself here yet", retry_ms=WAIT_MS
            )
        fault = self._too_many(len(message.positions))
        if fault is not None:
            return fault
        states = tuple(
            answers.state(self._ingest, one, joined=member.follows(one.topic, one.level))
            for one in message.positions
        )
        told = zip(message.positions, states, strict=True)
        self._members.join(member, (one for one, state in told if state.answer != DENIED))
        epoch, start = self._ingest.epoch, self._ingest.start
        return Joined(request=message.request, epoch=epoch, start=start, topics=states)

    def _on_status(self, member: Member, message: Status) -> Message | None:
        slots = self._ingest.slots
        if not slots:
            return None  # the hub was restarted: the reader will be told what there is
        fault = self._too_many(len(message.positions))
        strange = [one.topic for one in message.positions if one.topic not in slots]
        if fault is None and strange:
            fault = refuse(Refusal.TOPIC, f"no topic {strange[0]}", topic=strange[0])
        if fault is None:
            self._members.report(
                member, message, lag_of=lambda one: answers.lag_versions(self._ingest, one)
            )
        return fault

    def _on_catch_up(self, peer: bytes, message: CatchUp) -> Message | None:
        fault = self._too_many(len(message.wanted))
        if fault is not None:
            return fault
        parts = chunks(message.stream, message.wanted, find=self._ingest.find, place=self._place)
        busy = self._sender.open(peer, message.stream, credit=message.credit, parts=parts)
        return busy.message if busy else None

    def _too_many(self, asked: int) -> Refused | None:
        topics = len(self._ingest.slots)
        if not topics or asked <= 2 * topics:  # two levels
            return None
        return refuse(Refusal.TOO_MANY, f"{asked} topics at once, and there are {topics}")
