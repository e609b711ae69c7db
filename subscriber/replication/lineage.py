"""The lineage of catalogd: from which of its starts anything is accepted.

    ACCEPTED ──another start is seen──▶ COMPARING ──catalogd: of your lineage──▶ ACCEPTED
                                         ▲     │ └──catalogd: a higher epoch──▶ ACCEPTED
                                         └─────┘ catalogd: neither, its new epoch is not there yet

Each start of catalogd has an id, so that a store that was restored from an old copy is recognised.
A subscriber accepts nothing of a start before catalogd has compared the start with the content that
the subscriber holds; until then it serves the content that it has accepted before. A subscriber
that holds nothing has nothing to compare, and accepts a start of a higher epoch at once. It accepts
a start of the same or a lower epoch only when catalogd has confirmed it.
"""

from collections import deque
from typing import Final

from ...topics.wire.messages.catalog import Compare, Compared

PAST_MAX: Final = 64  # former starts remembered; an older start is compared once more
AGAIN_S: Final = 0.5  # between two comparisons: catalogd may still be minting its epoch
AGAIN_S_MAX: Final = 4.0

Start = tuple[int, int]  # epoch, start id
NO_START: Final[Start] = (0, 0)


class Lineage:
    """The accepted start, and the comparison with another start."""

    def __init__(self) -> None:
        self.accepted: Start = NO_START
        self._foreign: Start | None = None  # the last start that was seen and is not accepted
        self._past: deque[Start] = deque(maxlen=PAST_MAX)  # accepted before
        self.compare_at: float | None = None  # seconds: of the next comparison; None: none is due
        self._pause_s = AGAIN_S  # between the next comparison and the one after it
        self._request = 0  # the id of the last comparison

    def accepts(self, start: Start, *, holds: bool, now: float) -> bool:
        """Return whether ``start`` is accepted; ``holds``: there is something to compare."""
        if start == self.accepted:
            return start != NO_START
        if 0 in start or start in self._past:
            return False
        if not holds and start[0] > self.accepted[0]:
            self._accept(start)
            return True
        if start != self._foreign:
            self._foreign = start
            self._pause_s = AGAIN_S
            self.compare_at = now
        elif self.compare_at is None:
            self.compare_at = now + self._pause_s
        return False

    def due(self, request: int, versions: tuple[tuple[int, int], ...], *, now: float) -> Compare:
        """Return the comparison to send now, as ``request``."""
        self._request = request
        self.compare_at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, AGAIN_S_MAX)
        epoch, start = self.accepted
        return Compare(request=request, epoch=epoch, start=start, versions=versions)

    def on_compared(self, answer: Compared) -> bool:
        """Take catalogd's answer; True if another start is accepted now."""
        if answer.request != self._request:
            return False
        self.compare_at = None  # if the other start is seen again, it is compared again
        start = (answer.epoch, answer.start)
        newer = answer.epoch > self.accepted[0]  # a new epoch is a snapshot: nothing to compare
        ours = answer.accepted and answer.epoch == self.accepted[0]
        if 0 in start or start == self.accepted or not (newer or ours):
            return False
        self._accept(start)
        return True

    def _accept(self, start: Start) -> None:
        if self.accepted != NO_START:
            self._past.append(self.accepted)
        self.accepted = start
        self._foreign = None
        self.compare_at = None
        self._pause_s = AGAIN_S
