"""Replies: answers and refusals to peers. Each refusal is counted; those of garbage are limited."""

from dataclasses import replace
from typing import Final

from ..topics.newest import Newest
from ..topics.streams.sender import SendTo
from ..topics.turn import Turn
from ..topics.wire.messages.connection import Hello, Refused
from ..topics.wire.messages.fields import Message
from ..topics.wire.messages.publishers import Announce
from ..topics.wire.refusal import request_id
from .effects import Effect
from .status import HubCounts

REFUSAL_EVERY_S: Final = 1.0  # to a peer, of frames that name no request: garbage may flood in
LIMITED_PEERS_MAX: Final = 1024  # peers that the limiter remembers


class Replies:
    """Sends what a hub answers; ``counts`` has how often each code was refused."""

    def __init__(self, turn: Turn[Effect], counts: HubCounts) -> None:
        self._turn = turn
        self._counts = counts
        self._limiter = RefusalLimiter()

    def send(self, peer: bytes, answer: Message | None, *, of: Message) -> None:
        """Send ``peer`` the ``answer`` of its message, if there is one."""
        if isinstance(answer, Refused):
            self.refuse(peer, answer, of=of)
        elif answer is not None:
            self._turn.add(SendTo(peer, answer))

    def refuse(self, peer: bytes, fault: Refused, *, of: Message | None = None) -> None:
        """Send a refusal always to a peer that waits for an answer, else now and then."""
        self.count(fault)
        request = fault.request or request_id(of)
        waits = request or isinstance(of, (Hello, Announce))
        if waits or self._limiter.allows(peer, now=self._turn.now):
            self._turn.add(SendTo(peer, replace(fault, request=request)))

    def count(self, fault: Refused) -> None:
        """Count a refusal that is sent on another way, too."""
        refused = self._counts.refused
        refused[fault.code] = refused.get(fault.code, 0) + 1


class RefusalLimiter:
    """The peers that were lately sent a refusal of a message without a request."""

    def __init__(self) -> None:
        self._until = Newest[bytes, float](LIMITED_PEERS_MAX)
        """By peer, the oldest first: until when it is sent no other refusal."""

    def __len__(self) -> int:
        return len(self._until)

    def allows(self, peer: bytes, *, now: float) -> bool:
        """Return whether ``peer`` may be sent a refusal now, and count it as sent if so."""
        if now < self._until.get(peer, now):
            return False
        self._until.put(peer, now + REFUSAL_EVERY_S)
        return True
