"""Frames: what is on its way between processes, as bytes, and what these bytes say."""

from topicast.tests.cluster.violation import Violation
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages import Message

COMPARED_EVERY = 8


class Frames:
    """Every frame that was written, and what it says: read again only now and then, and compared.

    A frame that a core has made itself is read once, however many receive it.
    """

    def __init__(self) -> None:
        self._said: dict[bytes, Message] = {}
        self._written = 0

    def write(self, message: Message) -> bytes:
        """Return ``message`` as bytes.

        Raises:
            Violation: they say something else.
        """
        frame = encode(message)
        self._written += 1
        if self._written % COMPARED_EVERY == 0 and (read := decode(frame)) != message:
            raise Violation(f"{message} is read as {read}")
        self._said[frame] = message
        return frame

    def read(self, frame: bytes) -> Message:
        """Return what ``frame`` says."""
        found = self._said.get(frame)
        if found is None:
            found = self._said[frame] = decode(frame)
        return found
