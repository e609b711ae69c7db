"""What happens to the core of a subscriber; besides these it takes the commands of pending.py."""

from dataclasses import dataclass

from ...topics.wire.messages import Message
from .channels import Channel
from .pending import Command


@dataclass(frozen=True, slots=True)
class Received:
    """``message`` arrived on ``channel``."""

    channel: Channel
    message: Message


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A frame that is no message arrived and was dropped."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Watching:
    """The first watch was opened, or the last one closed."""

    on: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """The subscriber is closed; no fact follows."""


Fact = Received | Undecodable | Tick | Command[object] | Watching | Leave
