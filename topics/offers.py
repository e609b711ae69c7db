"""Offers: which levels of a topic a reader may join, as one byte of a heartbeat.

Bit 0 is MINIMAL, bit 1 is FULL: the bit of a level is the level's own number.
"""

from typing import Final

from .topic import FULL, LEVELS, MINIMAL, NAMESPACE, Level

ALL_OFFERED: Final = MINIMAL | FULL


def offered(offers: int, topic: int, level: int) -> bool:
    """Return whether ``topic`` may be joined at ``level``; the namespace always may at FULL."""
    return bool(offers & level) or (topic == NAMESPACE and level == FULL)


def offered_names(offers: int) -> str:
    """Return the names of the levels that ``offers`` lets a reader choose from."""
    return ", ".join(LEVELS[level] for level in Level if not level or offers & level)
