"""Inspecting: tables of facts, the hub's own and those that readers tell of themselves.

    operator ──Inspect "topics@REGISTRATION"──▶ hub ──Inspect "topics"──▶ that reader
    operator ◀──────────Inspected─────────────  hub ◀────Inspected──────  (or Refused)

What a reader decides, and why, it says when it is asked, so it costs nothing while nobody does.
"""

from dataclasses import dataclass, replace
from typing import Final, Protocol

from ..topics.bulk import Send
from ..topics.entries import LEVELS
from ..topics.liveness import LOST
from ..topics.wire.messages import CONTROL_CHANNEL, READER, Inspect, Inspected, Refused
from ..topics.wire.refusal import Refusal, refuse
from . import replies as answers
from .ingest import Ingest
from .membership import Member, Members
from .status import JOINED, TABLES, Status, table

WAITING_MAX: Final = 256  # questions that no reader has answered yet; then the oldest goes
OF: Final = "@"

Said = Inspect | Inspected | Refused


class Look(Protocol):
    """Pictures the hub."""

    def __call__(self, *, now: float) -> Status:
        """Return the picture at ``now``."""


@dataclass(frozen=True, slots=True)
class _Question:
    """What an operator on ``peer`` asked under ``request``, of the reader ``registration``."""

    peer: bytes
    request: int
    registration: bytes


class Inspecting:
    """Answers what the hub knows, and hands on what only a reader does."""

    def __init__(self, ingest: Ingest, members: Members, *, look: Look) -> None:
        self._ingest = ingest
        self._members = members
        self._look = look
        self._waiting: dict[int, _Question] = {}
        self._last = 0

    def ask(self, peer: bytes, asked: Inspect, *, now: float) -> tuple[bytes, Said]:
        """Return what is said to whom: the answer to ``peer``, or the question to a reader."""
        what, _, of = asked.what.partition(OF)
        if of:
            return self._ask_of(peer, replace(asked, what=what), of)
        found = table(self._look(now=now), what)
        if found is None:
            return peer, refuse(Refusal.INSPECT, f"no table {what!r}: {', '.join(TABLES)}")
        return peer, Inspected(request=asked.request, columns=found[0], rows=found[1])

    def answered(self, member: Member, told: Inspected | Refused) -> tuple[Send, ...]:
        """Hand a reader's answer to who asked; what nobody asked of it goes nowhere."""
        question = self._waiting.get(told.request)
        if question is None or question.registration != member.registration:
            return ()
        del self._waiting[told.request]
        return (Send(question.peer, replace(told, request=question.request)),)

    def _ask_of(self, peer: bytes, asked: Inspect, of: str) -> tuple[bytes, Said]:
        member = next((m for m in self._members if m.registration.hex() == of), None)
        if member is None:
            return peer, refuse(Refusal.INSPECT, f"nobody of the registration {of} is here")
        if asked.what == JOINED:
            rows = tuple(
                (one.topic, LEVELS[one.level], one.version, answers.lag_versions(self._ingest, one))
                for one in member.joined.values()
            )
            columns = ("topic", "level", "version", "lag_versions")
            return peer, Inspected(request=asked.request, columns=columns, rows=rows)
        to = member.peers.get(CONTROL_CHANNEL, b"")
        if member.role != READER or member.state == LOST or not to:
            return peer, refuse(Refusal.INSPECT, f"{member.name} is no reader that hears us")
        self._last += 1
        self._waiting[self._last] = _Question(peer, asked.request, member.registration)
        while len(self._waiting) > WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
        return to, replace(asked, request=self._last)
