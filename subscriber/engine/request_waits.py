"""Request waits: commands that wait for catalogd's answer to one request.

request ──sent again and again──▶ answered: ``poll`` returns the answer
                ├── refused for now: ``missing`` says why
                └── refused for good: ``poll`` raises
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from ...topics.errors import TopicastError
from ...topics.topic import Version
from ...topics.wire.messages.catalog import Claimed, Validate
from ...topics.wire.messages.connection import Refused
from ...topics.wire.messages.fields import Message
from ...topics.wire.messages.questions import A, MetastoreQuestion
from ...topics.wire.refusal import error_of
from ..protocol.commands import Done, Key, Wait

T_co = TypeVar("T_co", covariant=True)
End = Callable[[int], object]
"""Stops the repetition of the request with the given id."""


class RequestWait(Wait[T_co]):
    """Until catalogd has answered a request; a refusal for good is an answer, too."""

    def __init__(self, end: End, *, asks_at: float = 0.0) -> None:
        """``asks_at``: when the request is sent again, however long its pause is; 0: at no time."""
        self.request = 0  # its id, once it is open
        self.asks_at = asks_at
        self.why = ""  # why catalogd refused it last
        self._error: TopicastError | None = None  # why catalogd will never answer it
        self._end = end

    @abstractmethod
    def message(self, request: int) -> Message:
        """Return the message to send."""

    def refuse(self, refused: Refused) -> bool:
        """Note a refusal; return whether it is for good, so that ``poll`` raises."""
        self.why = refused.message
        self._error = self.final(refused)
        return self._error is not None

    def poll(self) -> Done[T_co] | None:
        """Return the answer, once it is there."""
        if self._error is not None:
            raise self._error
        return self._result()

    def keys(self) -> tuple[Key, ...]:
        """Return this wait, which the session wakes with the answer."""
        return (self,)

    def missing(self) -> str:
        """Return why there is no answer, by catalogd's last refusal."""
        return f"catalogd has not answered{self.why and f': {self.why}'}"

    def close(self) -> None:
        """Have the request sent no more."""
        self._end(self.request)

    @abstractmethod
    def _result(self) -> Done[T_co] | None:
        """Return the result, once it is there."""

    def final(self, refused: Refused) -> TopicastError | None:
        """Return the error of a refusal for good; None: the request is sent again."""
        return None if refused.retry_ms else error_of(refused)


class ValidateWait(RequestWait[Mapping[int, Version]]):
    """Until catalogd has said which claims are stale."""

    def __init__(self, end: End, epoch: int, claims: tuple[Claimed, ...]) -> None:
        super().__init__(end)
        self.stale: dict[int, Version] | None = None  # None: not answered yet
        self._epoch = epoch
        self._claims = claims

    def message(self, request: int) -> Validate:
        """Return the message to send."""
        return Validate(request=request, epoch=self._epoch, claims=self._claims)

    def _result(self) -> Done[Mapping[int, Version]] | None:
        return None if self.stale is None else Done(self.stale)


class QuestionWait(RequestWait[A]):
    """Until catalogd has answered a question about the metastore."""

    def __init__(self, end: End, question: MetastoreQuestion[A]) -> None:
        super().__init__(end)
        self.question = question
        self.answer: A | None = None

    def message(self, request: int) -> MetastoreQuestion[A]:
        """Return the message to send."""
        return replace(self.question, request=request)

    def _result(self) -> Done[A] | None:
        return None if self.answer is None else Done(self.answer)
