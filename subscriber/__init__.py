"""The library in a Spark driver: follows topics within a budget, answers from memory.

Imports `topics` only; a driver loads nothing else of ours.
"""

from .facts import Change, Stats, TopicInfo
from .subscriber import Subscriber
from .versions import Version
from .watch import Watch

__all__ = ["Change", "Stats", "Subscriber", "TopicInfo", "Version", "Watch"]
