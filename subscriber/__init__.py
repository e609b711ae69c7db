"""The library in a Spark driver: follows topics within a budget, answers from memory.

Imports `topics` only; a driver loads nothing else of ours.
"""

from ..topics.topic import Version
from .client.subscriber import Subscriber
from .engine.watch import Watch
from .protocol.effects import Change
from .protocol.status import Stats, TopicInfo

__all__ = ["Change", "Stats", "Subscriber", "TopicInfo", "Version", "Watch"]
