"""Introspection: answers to questions about the hub, and about a reader, which the reader answers.

    operator ──ReadSubscribers──▶ hub: a status, in slices ──Inspected──▶ operator

    operator ──ReadLevels of a member──▶ hub ──ReadLevels──▶ that reader
    operator ◀────────Inspected─────────── hub ◀───Inspected───  (or Refused)

    page ──Ask──▶ hub ──ReadLevels──▶ that reader ──Inspected──▶ hub ──Answered──▶ page

A reader explains its decisions only on request, so that they cost nothing otherwise.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from ..topics.liveness import LOST
from ..topics.newest import Newest
from ..topics.objects.drivers import ANNOUNCED
from ..topics.streams.sender import SendTo
from ..topics.topic import LEVELS
from ..topics.turn import Turn
from ..topics.wire.messages.answers import FollowedTopic, FollowedTopics, Inspected, NamedFacts
from ..topics.wire.messages.connection import CONTROL_CHANNEL, READER, Refused
from ..topics.wire.messages.questions import Question, ReaderQuestion, ReadPositions, ReadWriter
from ..topics.wire.refusal import Refusal, refuse
from .content.ingest import Ingest
from .effects import Answered, Effect
from .members.drivers import AnnouncedDriver, Drivers
from .members.membership import Member, Membership
from .reader_requests import lag_versions
from .status import HubStatus, answer, answer_for_policy

WAITING_MAX: Final = 256  # requests that no reader has answered yet; beyond, the oldest is dropped
ASKED_MAX: Final = 256  # requests that wait for a status: a thousand rows of it take 20 ms
AGAIN_MS: Final = 100  # until one beyond them is sent again: time for some statuses


@dataclass(frozen=True, slots=True)
class _Forwarded:
    """A ``request`` of an operator on ``peer``, forwarded to the reader ``registration``.

    ``peer`` is empty if a page of this process is the caller.
    """

    peer: bytes
    request: int
    registration: bytes

    def to(self, answer: Inspected | Refused) -> SendTo | Answered:
        """Return ``answer`` as it goes to the caller."""
        if not self.peer:
            return Answered(self.request, answer)
        return SendTo(self.peer, replace(answer, request=self.request))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question of ``caller`` on ``peer`` about the hub itself."""

    peer: bytes
    caller: Member
    question: Question[Any]


class Introspection:
    """Answers from what the hub knows, and forwards to readers what only they know.

    ``statuses`` begins a status of the hub: it yields None after each slice, and the status at
    last. A status that was begun before a request arrived does not answer it.
    """

    def __init__(
        self,
        ingest: Ingest,
        membership: Membership,
        *,
        turn: Turn[Effect],
        drivers: Drivers,
        statuses: Callable[[], Iterator[HubStatus | None]],
    ) -> None:
        self._turn = turn
        self._ingest = ingest
        self._drivers = drivers
        self._membership = membership
        self._statuses = statuses
        self._asked: list[_Asked] = []  # at most ASKED_MAX, for the next status
        self._slices: Iterator[HubStatus | None] = iter(())  # the rest of the present status
        self._status: HubStatus | None = None  # the present status, once it is whole
        self._answering = deque[_Asked]()  # what the present status answers
        self._waiting = Newest[int, _Forwarded](WAITING_MAX)
        """By the request id that the hub uses with readers, the oldest first."""
        self._last_id = 0  # the last request id that was used with a reader

    def answer(
        self, caller: Member, peer: bytes, question: Question[Any]
    ) -> tuple[bytes, ReaderQuestion[Any] | Inspected | Refused | None]:
        """Return a peer and the message for it: the answer to ``peer``, or a reader's request.

        None: ``make_slice`` sends the answer, once a status of the hub has been made. A ``caller``
        with a policy sees members with its own key, and no totals of others.
        """
        if isinstance(question, ReadWriter):
            return peer, self._writer(caller, question)
        if not isinstance(question, ReadPositions | ReaderQuestion):
            return peer, self._ask_for(_Asked(peer, caller, question))
        member = self._membership.get(question.member)
        if member is None or not _shows(member, caller):
            text = f"no member has the registration {question.member.hex()}"
            return peer, refuse(Refusal.INSPECT, text)
        if isinstance(question, ReadPositions):
            return peer, self._positions(member, question.request)
        return self._forwarded(member, question, peer=peer)

    @property
    def answering(self) -> bool:
        """Whether ``make_slice`` has something to do."""
        return bool(self._answering or self._asked)

    def make_slice(self) -> None:
        """Make a slice of a status that a caller waits for, or send one answer of it.

        A caller that has left meanwhile, or is not admitted any more, is sent none.
        """
        if not self._answering:
            if not self._asked:
                return
            self._answering.extend(self._asked)
            self._asked.clear()
            self._slices, self._status = self._statuses(), None
        if self._status is None:
            self._status = next(self._slices)
            return
        asked, status = self._answering.popleft(), self._status
        if not self._answering:
            self._slices, self._status = iter(()), None
        found = self._membership.find(asked.peer)
        if found is not None and found[0] is asked.caller:
            self._turn.add(SendTo(asked.peer, self._answer(asked, status)))

    def ask(self, question: ReaderQuestion[Any]) -> None:
        """Send the question of a page to the reader that it names, or answer why not."""
        member = self._membership.get(question.member)
        if member is None:
            refusal = refuse(Refusal.INSPECT, "it is not connected any more")
            self._turn.add(Answered(question.request, refusal))
            return
        to, message = self._forwarded(member, question, peer=b"")
        if isinstance(message, Refused):
            self._turn.add(Answered(question.request, message))
        else:
            self._turn.add(SendTo(to, message))

    def on_answer(self, member: Member, answer: Inspected | Refused) -> None:
        """Forward a reader's answer to the member or page that asked; drop any other answer."""
        found = self._waiting.get(answer.request)
        if found is not None and found.registration == member.registration:
            del self._waiting[answer.request]
            self._turn.add(found.to(answer))

    def _writer(self, caller: Member, question: ReadWriter) -> Inspected | Refused:
        wanted = question.writer.hex()
        for driver in self._drivers:
            if driver.said.writer == wanted and _shows(driver, caller):
                said = ((name, getattr(driver.said, name)) for name in ANNOUNCED)
                rows = (*said, ("registration", driver.registration.hex()))
                return NamedFacts(request=question.request, rows=rows)
        return refuse(Refusal.INSPECT, f"no driver reports its writes as {wanted}")

    def _forwarded(
        self, member: Member, question: ReaderQuestion[Any], *, peer: bytes
    ) -> tuple[bytes, ReaderQuestion[Any] | Refused]:
        """Return a reader's connection and the request for it; to ``peer``, why there is none."""
        to = member.peers.get(CONTROL_CHANNEL, b"")
        if member.role != READER or member.state == LOST or not to:
            return peer, refuse(Refusal.INSPECT, f"{member.name} is no reader that is connected")
        self._last_id += 1
        waits = _Forwarded(peer, question.request, member.registration)
        self._waiting.put(self._last_id, waits)
        return to, replace(question, request=self._last_id)

    def _ask_for(self, asked: _Asked) -> Refused | None:
        """Have the next status answer; or return why it does not."""
        if len(self._asked) >= ASKED_MAX:
            text = f"{ASKED_MAX} requests for tables wait already"
            return refuse(Refusal.RETRY, text, retry_ms=AGAIN_MS)
        self._asked.append(asked)
        return None

    def _answer(self, asked: _Asked, status: HubStatus) -> Inspected:
        caller, question = asked.caller, asked.question
        if caller.client.policy is not None:
            known: Iterable[Member | AnnouncedDriver] = chain(self._membership, self._drivers)
            seen = {one.registration.hex() for one in known if _shows(one, caller)}
            return answer_for_policy(status, question, members=seen)
        return answer(status, question)

    def _positions(self, member: Member, request: int) -> Inspected:
        rows = tuple(
            FollowedTopic(
                topic=one.topic,
                level=LEVELS[one.level],
                version=one.version,
                lag_versions=lag_versions(self._ingest, (one,)),
            )
            for one in member.joined.values()
        )
        return FollowedTopics(request=request, rows=rows)


def _shows(member: Member | AnnouncedDriver, caller: Member) -> bool:
    """Return whether ``caller`` may see what ``member`` does."""
    return caller.client.policy is None or member.client == caller.client
