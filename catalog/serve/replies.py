"""Replies: the answers of the catalog service, sent once everything is committed."""

from typing import Final

from ...topics.streams.sender import SendTo
from ...topics.wire.messages.fields import Message
from ...topics.wire.refusal import Refusal, refuse

RETRY_MS: Final = 1000


class Replies:
    """The answers of one turn, in the order in which they were given."""

    def __init__(self) -> None:
        self._sends: list[SendTo] = []

    def add(self, peer: bytes, message: Message) -> None:
        """Answer a request of ``peer``."""
        self._sends.append(SendTo(peer, message))

    def refuse(
        self,
        peer: bytes,
        request: int,
        code: Refusal,
        *,
        why: str,
        retry_ms: int = RETRY_MS,
        about: str = "",
    ) -> None:
        """Refuse ``request``; ``retry_ms`` is sent if ``code`` is retriable.

        ``about``: the object that does not exist, or is not visible.
        """
        wait_ms = retry_ms if code.retriable else 0
        self.add(peer, refuse(code, why, request=request, retry_ms=wait_ms, about=about))

    def take(self) -> tuple[SendTo, ...]:
        """Remove and return everything."""
        sends, self._sends = tuple(self._sends), []
        return sends
