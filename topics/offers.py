"""Offers: which levels of a topic a reader may join, as one byte that rides the heartbeat.

Bit 0 is MINIMAL, bit 1 is FULL: the bit of a level is the level's own number.
"""

from typing import Final

from .entries import FULL, MINIMAL
from .sharding import NAMESPACE

ALL_OFFERED: Final = MINIMAL | FULL


def offered(offers: int, topic: int, level: int) -> bool:
    """Tell whether ``topic`` may be joined at ``level``; the namespace always may at FULL."""
    return bool(offers & level) or (topic == NAMESPACE and level == FULL)


def offers_in_words(offers: int) -> str:
    """Return the levels that ``offers`` lets a reader choose from."""
    names = {MINIMAL: "minimal", FULL: "full"}
    return ", ".join(["none", *(name for level, name in names.items() if offers & level)])
