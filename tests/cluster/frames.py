"""The messages that are under way between processes, as bytes and decoded."""

from topicast.tests.cluster.violation import Violation
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import without_policy
from topicast.topics.wire.messages.fields import Message

COMPARED_EVERY = 8
KEPT_MAX = 10_000  # frames that are remembered: what is under way, in a run of any length


class Frames:
    """The frames that were written, and their messages: only some are decoded again and compared.

    A frame that a core has made itself is decoded once, however many receive it.
    """

    def __init__(self) -> None:
        self._messages: dict[bytes, Message] = {}
        self._written = 0

    def write(self, message: Message) -> bytes:
        """Return ``message`` as bytes.

        Raises:
            Violation: they are decoded as something else.
        """
        frame = encode(message)
        self._written += 1
        if self._written % COMPARED_EVERY == 0 and (read := decode(frame)) != message:
            raise Violation(f"{message} is read as {read}")
        self._keep(frame, message)
        return frame

    def read(self, frame: bytes) -> Message:
        """Return the message in ``frame``, which may begin with the number of a policy."""
        found = self._messages.get(frame)
        if found is None:
            found = decode(without_policy(frame))
            self._keep(frame, found)
        return found

    def _keep(self, frame: bytes, message: Message) -> None:
        self._messages[frame] = message
        if len(self._messages) > KEPT_MAX:
            del self._messages[next(iter(self._messages))]
