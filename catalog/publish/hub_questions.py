"""HubQuestions: questions of pages to hubs, such as that for the driver behind a report.

    page ──ask──▶ loop ──ReadWriter──▶ each connected hub ──NamedFacts | Refused──▶ loop ──▶ page

The first hub that knows it answers. ``ask`` may be called by any thread, the rest by the loop's.
"""

from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from ...topics.wire.messages.answers import NamedFacts
from ...topics.wire.messages.connection import Refused
from ...topics.wire.messages.fields import Message
from ...topics.wire.messages.questions import ReadWriter

FIRST_REQUEST: Final = 1 << 62  # above all streams of catch-ups, which a hub may refuse likewise
QUESTIONS_MAX: Final = 1024  # that wait for an answer: a page asks few, and waits for a second


@dataclass(frozen=True, slots=True)
class Known:
    """The facts that the hub at ``hub`` has of a driver."""

    hub: str
    facts: NamedFacts


@dataclass(slots=True)
class _Question:
    about: ReadWriter
    answered: "Future[Known | None]" = field(default_factory=Future)
    left: set[str] = field(default_factory=set)  # addresses of hubs that have not answered yet


class HubQuestions:
    """The questions that wait: to be sent, or for their answers."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """``wake``: makes the loop turn."""
        self._wake = wake
        self._new: deque[_Question] = deque()
        self._sent: dict[int, _Question] = {}  # by request id, the oldest first
        self._requests = count(FIRST_REQUEST)

    def ask(self, question: ReadWriter) -> "Future[Known | None]":
        """Return what the first hub answers that knows it; None: none does."""
        asked = _Question(replace(question, request=next(self._requests)))
        self._new.append(asked)
        self._wake()
        return asked.answered

    def take(self, hubs: Collection[str]) -> tuple[ReadWriter, ...]:
        """Return what is to be sent to each of the connected ``hubs`` now."""
        found = []
        while self._new:
            question = self._new.popleft()
            if not question.answered.set_running_or_notify_cancel():
                continue
            question.left.update(hubs)
            self._sent[question.about.request] = question
            found.append(question.about)
            self._settle(question, None)
        while len(self._sent) > QUESTIONS_MAX:
            self._settle(next(iter(self._sent.values())), None, at_once=True)
        return tuple(found)

    def on_message(self, hub: str, message: Message) -> bool:
        """Take ``message`` of ``hub``; return False if it is not the answer to a question."""
        if not isinstance(message, NamedFacts | Refused) or message.request < FIRST_REQUEST:
            return False
        question = self._sent.get(message.request)
        if question is not None:
            question.left.discard(hub)
            known = Known(hub, message) if isinstance(message, NamedFacts) else None
            self._settle(question, known)
        return True

    def lose(self, hub: str) -> None:
        """Wait no longer for the answers of ``hub``: its connection has ended."""
        for question in tuple(self._sent.values()):
            question.left.discard(hub)
            self._settle(question, None)

    def _settle(self, question: _Question, known: Known | None, *, at_once: bool = False) -> None:
        if known is not None or at_once or not question.left:
            del self._sent[question.about.request]
            question.answered.set_result(known)
